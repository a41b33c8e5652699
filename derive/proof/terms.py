"""From expressions to the terms that the checker reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import sympy as sp
from sympy.core.relational import Eq, Ge, Gt, Le, Lt, Ne

from derive.algebra import Axis, Delta, Entry, Indicator, Tensor, Total, free_axes
from derive.algebra.axes import is_bound, is_fresh, is_size
from derive.algebra.functions import QuarterTurn
from derive.errors import ProofError
from derive.forward.program import Definition

Term = Any
"""A term of :mod:`derive.proof.checker`: JSON."""

SPELLED = 4
"""A sum over a numbered size up to this is written out term by term."""


class Slope(sp.Function):
    """``∂Y[…]/∂X[…]`` in a statement: the partial derivative of an entry, whose definition counts."""

    nargs = 2


def tensors_of(exprs: Iterable[sp.Expr]) -> dict[str, str]:
    """The kinds of the tensors that are no real numbers, by name."""
    found = {t for expr in exprs for t in expr.atoms(Tensor) if t.discrete}
    return {str(t.name): str(t.values) for t in sorted(found, key=lambda t: str(t.name))}


class Exporter:
    """Writes expressions as terms; summed axes get letters that the expression does not use otherwise."""

    def __init__(self, letters: Sequence[Axis] = ()) -> None:
        self.letters = letters

    def size(self, size: sp.Expr) -> Term:
        """A size as a term."""
        return self.term(size, ())

    def bound(self, axes: Iterable[Axis]) -> list[Term]:
        """Axes with their sizes."""
        return [[axis.name, self.size(axis.size)] for axis in axes]

    def term(self, expr: sp.Expr, taken: Collection[str]) -> Term:
        """An expression as a term; ``taken`` are the names of axes around it.

        Raises
        ------
        ProofError: the expression holds something that has no term.
        """
        if expr.is_Integer:
            return int(expr)
        if expr.is_Rational:
            return f"{expr.p}/{expr.q}"
        for kind, write in self._forms.items():
            if isinstance(expr, kind):
                return write(self, expr, taken)
        if isinstance(expr, sp.Function):
            return [type(expr).__name__, *(self.term(a, taken) for a in expr.args)]
        raise ProofError(f"{type(expr).__name__} in {expr} cannot stand in a proof")

    def _symbol(self, expr: sp.Symbol, taken: Collection[str]) -> Term:
        if isinstance(expr, Axis):
            return ["var", expr.name]
        return ["size" if is_size(expr) else "int" if expr.is_integer else "real", expr.name]

    def _entry(self, expr: Entry, taken: Collection[str]) -> Term:
        return ["at", str(expr.tensor.name), *(self.term(i, taken) for i in expr.indices)]

    def _slope(self, expr: Slope, taken: Collection[str]) -> Term:
        return ["d", *(self.term(a, taken) for a in expr.args)]

    def _add(self, expr: sp.Add, taken: Collection[str]) -> Term:
        return ["+", *(self.term(a, taken) for a in expr.as_ordered_terms())]

    def _mul(self, expr: sp.Mul, taken: Collection[str]) -> Term:
        return ["*", *(self.term(a, taken) for a in expr.args)]

    def _power(self, expr: sp.Pow, taken: Collection[str]) -> Term:
        if not expr.exp.is_Rational:
            return ["power", self.term(expr.base, taken), self.term(expr.exp, taken)]
        exponent = int(expr.exp) if expr.exp.is_Integer else f"{expr.exp.p}/{expr.exp.q}"
        return ["^", self.term(expr.base, taken), exponent]

    def _total(self, expr: Total, taken: Collection[str]) -> Term:
        body, axes = expr.open()
        few = [a for a in axes if a.size.is_Integer and a.size <= SPELLED]
        if few:
            rest = [a for a in axes if a not in few]
            parts = (body.xreplace({few[0]: sp.Integer(k)}) for k in range(int(few[0].size)))
            return ["+", *(self.term(Total(part, *few[1:], *rest), taken) for part in parts)]
        names = self._named(body, axes, taken)
        inner = {*taken, *(a.name for a in names.values())}
        return ["sum", self.bound(names.values()), self.term(body.xreplace(names), inner)]

    def _named(self, body: sp.Expr, axes: Sequence[Axis], taken: Collection[str]) -> dict[Axis, Axis]:
        """Letters for summed axes: those of the same size that are known, if they are free."""
        used = {*taken, *(a.name for a in free_axes(body) if not is_bound(a) and not is_fresh(a))}
        names: dict[Axis, Axis] = {}
        for axis in axes:
            known = [a.name for a in self.letters if a.size == axis.size] or ["k"]
            stems = [*known, *(f"{known[0]}{mark}" for mark in ("′", "″", *range(3, len(used) + 5)))]
            names[axis] = axis.renamed(next(s for s in stems if s not in used))
            used.add(names[axis].name)
        return names

    def _delta(self, expr: Delta, taken: Collection[str]) -> Term:
        return ["delta", *(self.term(a, taken) for a in expr.args)]

    def _turn(self, expr: QuarterTurn, taken: Collection[str]) -> Term:
        return self.term(expr.definition, taken)

    def _indicator(self, expr: Indicator, taken: Collection[str]) -> Term:
        return self._condition(expr.args[0], taken)

    def _condition(self, asked: sp.Basic, taken: Collection[str]) -> Term:
        """A condition as a number: several at once are a product, and what is not so is what 1 lacks."""
        if isinstance(asked, (sp.And, sp.Or, sp.Not)):
            parts = [self._condition(a, taken) for a in sorted(asked.args, key=sp.default_sort_key)]
            if isinstance(asked, sp.And):
                return ["*", *parts]
            without = ["*", *(["+", 1, ["*", -1, part]] for part in parts)]
            return without if isinstance(asked, sp.Not) else ["+", 1, ["*", -1, without]]
        if isinstance(asked, Ne):
            return ["+", 1, ["*", -1, self._condition(Eq(*asked.args, evaluate=False), taken)]]
        relations = {Le: "<=", Lt: "<", Ge: "<=", Gt: "<", Eq: "=="}
        relation = next((sign for kind, sign in relations.items() if isinstance(asked, kind)), None)
        if relation is None:
            raise ProofError(f"the condition {asked} cannot stand in a proof")
        sides = asked.args[::-1] if isinstance(asked, (Ge, Gt)) else asked.args
        return ["if", [relation, *(self._side(side, taken) for side in sides)]]

    def _side(self, side: sp.Expr, taken: Collection[str]) -> Term:
        """A side of a comparison, where ±∞ may stand: what is true for every number in its place is true for it."""
        if side in (sp.oo, -sp.oo):
            return ["real", "∞"] if side == sp.oo else ["*", -1, ["real", "∞"]]
        return self.term(side, taken)

    def _extreme(self, expr: sp.Max | sp.Min, taken: Collection[str]) -> Term:
        args = sorted(expr.args, key=lambda a: (not a.is_number, sp.default_sort_key(a)))
        return [type(expr).__name__, *(self.term(a, taken) for a in args)]

    def _constant(self, expr: sp.NumberSymbol, taken: Collection[str]) -> Term:
        if expr not in (sp.E, sp.pi):
            raise ProofError(f"the number {expr} cannot stand in a proof")
        return ["exp", 1] if expr == sp.E else ["real", "π"]

    def _infinity(self, expr: sp.Expr, taken: Collection[str]) -> Term:
        raise ProofError(f"{expr} cannot stand in a proof, but on a side of a condition")

    _forms: Mapping[type[sp.Basic], Callable[..., Term]] = {
        sp.NumberSymbol: _constant,
        Entry: _entry,
        Slope: _slope,
        Total: _total,
        Delta: _delta,
        QuarterTurn: _turn,
        Indicator: _indicator,
        sp.exp: lambda self, expr, taken: ["exp", self.term(expr.args[0], taken)],
        sp.Symbol: _symbol,
        sp.Add: _add,
        sp.Mul: _mul,
        sp.Pow: _power,
        sp.Max: _extreme,
        sp.Min: _extreme,
        sp.core.numbers.Infinity: _infinity,
        sp.core.numbers.NegativeInfinity: _infinity,
    }

    def definition(self, definition: Definition) -> dict[str, Term]:
        """A definition as the checker reads it."""
        axes = [a.name for a in definition.axes]
        return {
            "tensor": definition.name,
            "for": self.bound(definition.axes),
            "value": self.term(definition.value, axes),
        }
