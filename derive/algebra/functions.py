"""Scalar functions with a name of their own, and what is special about some of SymPy's."""

from __future__ import annotations

import sympy as sp

from derive.algebra.axes import Axis
from derive.algebra.tensors import Entry
from derive.errors import AlgebraError


class Sigmoid(sp.Function):
    """``1/(1 + exp(−x))``; it has a name so that array code can compute it without overflow.

    Its derivative σ(x)·(1 − σ(x)) follows from the definition, which evaluators use.
    """

    nargs = 1

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """σ·(1 − σ)."""
        return self * (1 - self)

    @property
    def definition(self) -> sp.Expr:
        """The function in terms of exp."""
        return 1 / (1 + sp.exp(-self.args[0]))

    def _eval_is_positive(self) -> bool:
        return True


def definition_of(expr: sp.Expr) -> sp.Expr | None:
    """What a function with a ``definition`` stands for, else None.

    A class with ``definition`` and ``fdiff`` declares a function and its derivative: a user's own, too.
    """
    made: sp.Expr | None = getattr(expr, "definition", None) if isinstance(expr, sp.Function) else None
    return made


def has_kink(expr: sp.Expr) -> bool:
    """Whether an expression holds a function with a kink, whose subgradient has to be stated."""
    return bool(expr.atoms(sp.Max, sp.Min, sp.Abs))


def moves(argument: sp.Expr) -> bool:
    """Whether an argument of max or min is a tensor's, and no number that is fixed: it shares a tie, and loses one."""
    return bool(argument.atoms(Entry))


class QuarterTurn(sp.Function):
    """The matrix ``J[s, t] = s − t`` over an axis of two: it turns the pair (x, y) into (−y, x). Antisymmetric."""

    nargs = 2

    @classmethod
    def eval(cls, row: sp.Expr, column: sp.Expr) -> sp.Expr | None:
        """Zero on the diagonal; the two indices in order, with a sign."""
        for index in (row, column):
            if isinstance(index, Axis) and index.size != 2:
                raise AlgebraError(f"a quarter turn is over axes of size 2, but {index} has size {index.size}")
        if row == column:
            return sp.S.Zero
        if sp.Basic.compare(row, column) > 0:
            return -cls(column, row)
        return None

    @property
    def definition(self) -> sp.Expr:
        """The entry in terms of its indices."""
        return self.args[0] - self.args[1]
