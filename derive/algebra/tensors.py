"""Tensors over named axes, and the two discrete scalars: Kronecker's delta and the indicator."""

from __future__ import annotations

from typing import Any, Literal

import sympy as sp
from sympy.logic.boolalg import Boolean

from derive.algebra.axes import Axis, check_axes, is_whole
from derive.errors import AlgebraError

Values = Literal["real", "boolean", "integer", "extended"]

_ASSUMPTIONS: dict[str, dict[str, bool]] = {
    "real": {"real": True},
    "boolean": {"integer": True, "nonnegative": True},
    "integer": {"integer": True},
    "extended": {"extended_real": True},
}


class Label(sp.Symbol):
    """What a tensor is written with: no symbol of a size or a parameter is equal to it, whatever they are called."""

    __slots__ = ()


class Entry(sp.Indexed):
    """One entry ``X[i, j]`` of a tensor. A 0/1-valued tensor's entries are idempotent: M² = M."""

    def __new__(cls, base: Tensor, *indices: Any) -> Entry:
        entry: Entry = sp.Expr.__new__(cls, base, *map(sp.sympify, indices))
        sp.IndexedBase._set_assumptions(entry, base.assumptions0)
        return entry

    @property
    def tensor(self) -> Tensor:
        """The tensor this is an entry of."""
        base: Tensor = self.args[0]
        return base

    def _eval_power(self, exponent: sp.Expr) -> sp.Expr | None:
        return _power_of_gate(self, exponent) if self.tensor.boolean else None

    def _eval_derivative(self, wrt: sp.Basic) -> sp.Expr:
        raise AlgebraError(f"{self} was differentiated directly; use derive.calculus, which contracts deltas")


class Tensor(sp.IndexedBase):
    """A tensor over named axes: ``Tensor("Q", i, c)[i, c]``.

    Parameters
    ----------
    name: the letter it is written with.
    axes: its axes in layout order; their sizes are its shape.
    values: ``"real"``, ``"boolean"`` for 0 and 1 (a visibility), ``"integer"`` (positions, classes), or
        ``"extended"`` for real or ±∞.
    within: the least value of an integer tensor (−∞ if there is none), and what its values are below, if that is known.
    """

    def __new__(
        cls,
        name: str | Label,
        *axes: Any,
        values: Values = "real",
        within: tuple[sp.Expr | int, sp.Expr | int] | None = None,
    ) -> Tensor:
        if isinstance(name, Label):  # rebuilt by SymPy from its args
            label, (shape, *known) = name, axes
        else:
            check_axes(axes, f"tensor {name}")
            label, shape = Label(name, **_ASSUMPTIONS[values]), sp.Tuple(*(a.size for a in axes))
            known = [] if within is None else [sp.Tuple(*within)]
        tensor: Tensor = sp.Expr.__new__(cls, label, shape, *known)
        tensor._shape, tensor._offset, tensor._strides, tensor._name = shape, sp.S.Zero, None, label.name
        sp.IndexedBase._set_assumptions(tensor, label.assumptions0)
        return tensor

    @property
    def boolean(self) -> bool:
        """Whether the entries are 0 or 1."""
        return bool(self.args[0].is_nonnegative)

    @property
    def bounds(self) -> tuple[sp.Expr, sp.Expr] | None:
        """The least value and what all values are below, where that is known of an integer tensor."""
        if self.boolean:
            return sp.S.Zero, sp.Integer(2)
        return tuple(self.args[2]) if len(self.args) > 2 else None

    def over(self, *axes: Axis, name: str = "") -> Tensor:
        """A tensor of the same kind over other axes, under another name if one is given."""
        within = None if self.boolean else self.bounds
        return Tensor(name or str(self.name), *axes, values=self.values, within=within)

    @property
    def values(self) -> Values:
        """What the entries may be."""
        if self.boolean:
            return "boolean"
        return "integer" if self.discrete else "real" if self.args[0].is_real else "extended"

    @property
    def discrete(self) -> bool:
        """Whether the entries are integers, 0 and 1 among them: such a tensor has no gradient."""
        return bool(self.args[0].is_integer)

    def __getitem__(self, indices: Any, **_: Any) -> Entry:
        indices = tuple(map(sp.sympify, indices if isinstance(indices, (tuple, list, sp.Tuple)) else (indices,)))
        if len(indices) != len(self.shape):
            raise AlgebraError(
                f"{self.name} has {len(self.shape)} axes of sizes ({', '.join(map(str, self.shape))}), "
                f"but is indexed with {len(indices)}: [{', '.join(map(str, indices))}]"
            )
        for index, size in zip(indices, self.shape, strict=True):
            if not is_whole(index):
                raise AlgebraError(
                    f"{self.name}[{', '.join(map(str, indices))}]: {index} is not known to be an integer; "
                    "compute it from axes, integer tensors and parameters, and floor(…) where one divides"
                )
            if isinstance(index, Axis) and index.size != size:
                raise AlgebraError(
                    f"{self.name}[{', '.join(map(str, indices))}]: axis {index} has size {index.size}, "
                    f"but {self.name} has size {size} there"
                )
        return Entry(self, *indices)


class Delta(sp.Function):
    """Kronecker's delta of two integers, axes mostly: 1 where they agree, else 0. Symmetric and idempotent."""

    nargs = 2

    @classmethod
    def eval(cls, left: sp.Expr, right: sp.Expr) -> sp.Expr | None:
        """Decide what differs by a number, and order the two."""
        for index in (left, right):
            if not is_whole(index):
                raise AlgebraError(
                    f"δ[{left},{right}] compares integers, but {index} is not known to be one; "
                    "use Indicator(Eq(…)) for real numbers, or floor(…)"
                )
        if left == right:
            return sp.S.One
        if (left - right).is_number:
            return sp.S.Zero
        if isinstance(left, Axis) and isinstance(right, Axis) and left.size != right.size:
            raise AlgebraError(f"δ[{left},{right}] compares axes of sizes {left.size} and {right.size}")
        if sp.Basic.compare(left, right) > 0:
            return cls(right, left)
        return None

    def _eval_power(self, exponent: sp.Expr) -> sp.Expr | None:
        return _power_of_gate(self, exponent)

    def _eval_is_nonnegative(self) -> bool:
        return True


class Indicator(sp.Function):
    """Iverson's bracket of a condition on positions or inputs: 1 where it holds, else 0."""

    nargs = 1

    @classmethod
    def eval(cls, condition: Boolean) -> sp.Expr | None:
        """Decide constant conditions."""
        if condition == sp.true:
            return sp.S.One
        if condition == sp.false:
            return sp.S.Zero
        return None

    def _eval_power(self, exponent: sp.Expr) -> sp.Expr | None:
        return _power_of_gate(self, exponent)

    def _eval_is_nonnegative(self) -> bool:
        return True

    def _eval_is_finite(self) -> bool:
        return True


class Visible(sp.Function):
    """A score where a visibility is 1, and −∞ where it is 0; only under a maximum."""

    nargs = 2

    @classmethod
    def eval(cls, visibility: sp.Expr, score: sp.Expr) -> sp.Expr | None:
        """What is always visible is itself."""
        return score if visibility == 1 else None

    def _eval_is_real(self) -> bool:
        return True


def _power_of_gate(gate: sp.Expr, exponent: sp.Expr) -> sp.Expr | None:
    """A power of what is 0 or 1 is itself, also where it divides: what is hidden is 0, above a line and below it.

    M e/Σ M e with an M that the sum can be taken out of is then M e/Σ e, and does not lose its M.
    """
    return gate if exponent.is_positive or exponent.is_negative else None


def is_gate(factor: sp.Expr) -> bool:
    """Whether a factor is 0 or 1: it shows or hides what it multiplies."""
    return isinstance(factor, (Indicator, Delta)) or (isinstance(factor, Entry) and factor.tensor.boolean)
