"""The steps that an expression is evaluated by, each with the chain rule for itself.

A definition is a list of steps; each names the steps that it uses by their number. ``forward`` gives a step's term,
``backward`` hands a cotangent on to the steps that it is made of. A cotangent has the labels of its step, or fewer: it
is then the same along the axes that it lacks, and sums over these count them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from derive.algebra.axes import Axis
from derive.algebra.tensors import Entry
from numeric.oracle.discrete import Whole, lookup, whole
from numeric.oracle.functions import definition, derivative, evaluated
from numeric.oracle.labelled import Labelled, Mask, Places, arranged, gathered, kept, scattered, union
from numeric.oracle.terms import Term, product, pulled, total

if TYPE_CHECKING:
    from numeric.oracle.machine import Run

Give = Callable[[int, Term], None]
"""Hands a cotangent to a step."""


@dataclass(frozen=True)
class Step:
    """A step over some axes; ``moves`` says whether a gradient passes through it."""

    axes: frozenset[Axis]
    moves: bool

    def forward(self, run: Run) -> Term:
        """The value, from those of the steps before."""
        raise NotImplementedError

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """Pass a cotangent on."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Step):
    """A number made of numbers and parameters."""

    value: sp.Expr

    def forward(self, run: Run) -> Term:
        """The number, rounded unless every format holds it."""
        array = evaluated(self.value.xreplace(run.machine.real), {}, run.kind)
        exact = self.value.is_Rational and abs(int(self.value.p)) < 256 and int(self.value.q) in (1, 2, 4, 8, 16)
        return Term(array if exact else run.kind.rounded(array, "input"), given=True)


@dataclass(frozen=True)
class Counted(Step):
    """A rational number made of positions, sizes and integer inputs."""

    value: sp.Expr

    def forward(self, run: Run) -> Term:
        """The numbers, exact but for the division."""
        found = whole(self.value, run.scope)
        return Term(as_numbers(run.kind, found), None, found.outside, given=True)


def as_numbers(kind: Any, found: Whole) -> Any:
    """Counted numbers as those of a kind."""
    top = kind.given(found.top, found.labels)
    if found.bottom is None or bool(np.all(found.bottom == 1)):
        return top
    bottom = kind.given(found.bottom, found.labels if found.bottom.ndim else ())
    return kind.multiply([top, kind.power(bottom, Fraction(-1))])


@dataclass(frozen=True)
class Read(Step):
    """An entry of a real tensor: of an input, or of an earlier definition."""

    entry: Entry

    def forward(self, run: Run) -> Term:
        """The entries at the indices; labels take other names where an index is an axis."""
        name = str(self.entry.tensor.name)
        source = run.machine.tensors[name]
        names, places, outside = lookup(self.entry, run.machine.axes[name], run.scope)
        hidden = None if source.hidden is None else _looked_up(source.hidden.renamed(names), places)
        if any(
            places.sizes[label] == 0 for label in places.index
        ):  # a table without entries: whatever is read, is outside
            return Term(run.kind.given(np.zeros(()), ()), hidden, outside)
        array = run.kind.gathered(run.kind.renamed(source.array, names), places)
        return Term(array, hidden, outside, source.given)

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """A cotangent for the tensor, at its own axes."""
        name = str(self.entry.tensor.name)
        axes = run.machine.axes[name]
        names, places, _ = lookup(self.entry, axes, run.scope)
        array, hidden = cotangent.array, cotangent.hidden
        if places.index:
            new = places.split(())[2]
            over = self.axes - {*new, *names.values()}  # axes that an index has, but does not vary along
            if over:
                array = pulled(run.kind, [cotangent], run.no_gates, (), over, run.sizes).array
            leading = union(array.labels, new)
            labels = (*(label for label in leading if isinstance(label, int)), *(names[axis] for axis in axes))
            if any(places.sizes[label] == 0 for label in labels):
                return
            array = run.kind.scattered(array, places, labels)
            hidden = _unread(places, labels)
        back = {label: axis for axis, label in names.items()}
        term = Term(
            run.kind.renamed(array, back), None if hidden is None else hidden.renamed(back), (), cotangent.given
        )
        run.machine.receive(name, term)


def _looked_up(mask: Mask, places: Places) -> Mask | None:
    found = gathered(Labelled(mask.data, mask.labels), places)
    return kept(Mask(found.data, found.labels))


def _unread(places: Places, labels: tuple[Any, ...]) -> Mask | None:
    """The entries that nothing looks up."""
    ones = scattered(Labelled(np.ones((), dtype=np.int64), ()), places, labels, 0)
    return kept(Mask(ones.data == 0, ones.labels))


@dataclass(frozen=True)
class Sum(Step):
    """A sum of a few terms."""

    parts: tuple[int, ...]

    def forward(self, run: Run) -> Term:
        """The sum; hidden terms are 0 in it."""
        term = total(run.kind, [run.values[k] for k in self.parts])
        return replace(term, array=run.kind.rounded(term.array, "total"))

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The cotangent for each term, summed over the axes that the term does not have."""
        for k in self.parts:
            step = run.steps[k]
            if step.moves:
                over = self.axes - step.axes
                given = pulled(run.kind, [cotangent], run.no_gates, (), over, run.sizes) if over else cotangent
                give(k, given)


@dataclass(frozen=True)
class Product(Step):
    """A product of factors, some of them 0 or 1, summed over axes."""

    gates: tuple[sp.Expr, ...]
    factors: tuple[int, ...]
    over: frozenset[Axis]

    def forward(self, run: Run) -> Term:
        """The product, or the sum of products."""
        terms = [run.values[k] for k in self.factors]
        return product(run.kind, terms, run.gated(self.gates), self.over, run.sizes, operands=True)

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """For each factor, the cotangent times the other factors, summed over what the factor does not have."""
        gates, terms = run.gated(self.gates), [run.values[k] for k in self.factors]
        for place, k in enumerate(self.factors):
            step = run.steps[k]
            if not step.moves:
                continue
            others = [term for number, term in enumerate(terms) if number != place]
            over = (self.axes | self.over) - step.axes
            factor = (terms[place].hidden,)
            give(k, pulled(run.kind, [cotangent, *others], gates, factor, over, run.sizes, operands=True))


@dataclass(frozen=True)
class Exponentials:
    """The exponentials of one definition: the steps of their arguments, each with the 0/1 factors beside it.

    A kernel subtracts the largest argument of a row before it exponentiates, and rounds the difference; a row is what
    all of them share.
    """

    members: tuple[tuple[int, tuple[sp.Expr, ...]], ...]
    row: frozenset[Axis]

    def largest(self, run: Run) -> Labelled | None:
        """The largest argument of each row that is shown, in float64."""
        found = None
        for k, gates in self.members:
            term = run.values[k]
            values = np.asarray(run.kind.compared(term.array), dtype=float)
            labels, shown = term.array.labels, np.isfinite(values)
            for mask in (*run.gated(gates).hidden, term.hidden):
                if mask is not None:
                    wide = union(labels, mask.labels)
                    shown = arranged(shown, labels, wide) & ~arranged(mask.data, mask.labels, wide)
                    values, labels = arranged(values, labels, wide), wide
            axes = tuple(n for n, label in enumerate(labels) if isinstance(label, Axis) and label not in self.row)
            top = np.max(np.where(shown, values, -np.inf), axis=axes, initial=-np.inf) if axes else values
            made = Labelled(np.asarray(top), tuple(label for n, label in enumerate(labels) if n not in axes))
            found = made if found is None else _larger(found, made)
        return found


def _larger(one: Labelled, other: Labelled) -> Labelled:
    labels = union(one.labels, other.labels)
    return Labelled(
        np.maximum(arranged(one.data, one.labels, labels), arranged(other.data, other.labels, labels)), labels
    )


@dataclass(frozen=True)
class Function(Step):
    """A scalar function of one argument or several: SymPy's, or one that declares its value and its slope."""

    function: type
    arguments: tuple[int, ...]
    among: Exponentials | None = field(default=None, compare=False)

    def forward(self, run: Run) -> Term:
        """The value; a function of what is hidden is that of 0."""
        terms = [run.values[k] for k in self.arguments]
        arrays, outside = [term.array for term in terms], tuple(o for term in terms for o in term.outside)
        if definition(self.function, len(arrays)) is not None:
            return Term(run.kind.declared(self.function, arrays), None, outside)
        largest = None if self.among is None or not run.follows_roundings else self.among.largest(run)
        return Term(run.kind.function(self.function, arrays[0], largest), None, outside)

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The cotangent times the slope."""
        arrays = [run.values[k].array for k in self.arguments]
        for place, k in enumerate(self.arguments):
            step = run.steps[k]
            if step.moves:
                slope = Term(own.array if self.function is sp.exp else self._slope(run, arrays, place))
                give(k, pulled(run.kind, [cotangent, slope], run.no_gates, (), self.axes - step.axes, run.sizes))

    def _slope(self, run: Run, arrays: list[Any], place: int) -> Any:
        symbols, slope = derivative(self.function, len(arrays), place)
        return evaluated(slope, dict(zip(symbols, arrays, strict=True)), run.kind)


@dataclass(frozen=True)
class Power(Step):
    """A rational power."""

    base: int
    exponent: Fraction

    def forward(self, run: Run) -> Term:
        """The power."""
        term = run.values[self.base].seen()
        return replace(term, array=run.kind.power(term.array, self.exponent), given=False)

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The power rule."""
        base = run.values[self.base].array
        slope = run.kind.multiply([run.kind.rational(self.exponent), run.kind.power(base, self.exponent - 1)])
        give(self.base, pulled(run.kind, [cotangent, Term(slope)], run.no_gates, (), (), run.sizes))


@dataclass(frozen=True)
class Raised(Step):
    """A power whose exponent is counted, and differs from position to position."""

    base: int
    exponent: int

    def forward(self, run: Run) -> Term:
        """The power."""
        base, exponent = run.values[self.base].seen(), run.values[self.exponent]
        return Term(run.kind.raised(base.array, exponent.array), None, (*base.outside, *exponent.outside))

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The power rule."""
        base, exponent = run.values[self.base].array, run.values[self.exponent].array
        inverse = run.kind.power(base, Fraction(-1))
        slope = run.kind.multiply([exponent, own.array, inverse])
        over = self.axes - run.steps[self.base].axes
        give(self.base, pulled(run.kind, [cotangent, Term(slope)], run.no_gates, (), over, run.sizes))


@dataclass(frozen=True)
class Absolute(Step):
    """An absolute value; its slope at 0 is 0."""

    base: int

    def forward(self, run: Run) -> Term:
        """The value times its sign."""
        term = run.values[self.base].seen()
        return replace(term, array=run.kind.multiply([term.array, _sign(run, term.array)]), given=False)

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The cotangent times the sign."""
        base = run.values[self.base].array
        slope = run.kind.unsure(_sign(run, base), base, 2.0)
        give(self.base, pulled(run.kind, [cotangent, Term(slope)], run.no_gates, (), (), run.sizes))


def _sign(run: Run, array: Any) -> Any:
    values = run.kind.compared(array)
    return run.kind.given((values > 0).astype(np.int64) - (values < 0), array.labels)


@dataclass(frozen=True)
class Extreme(Step):
    """The largest of several numbers, or the smallest.

    ``fixed`` are those that no tensor takes part in: where one of them is largest it wins, and no gradient passes;
    a tie of others is shared equally.
    """

    parts: tuple[int, ...]
    fixed: tuple[bool, ...]
    largest: bool

    def forward(self, run: Run) -> Term:
        """The first that is largest."""
        terms = [run.values[k] for k in self.parts]
        left, masks = None, []
        for at in self._at_best(run):
            masks.append(at if left is None else at & left)
            left = ~at if left is None else left & ~at
        labels = union(*(term.array.labels for term in terms))
        arrays = [run.kind.masked(t.array, Mask(~m, labels)) for t, m in zip(terms, masks, strict=True)]
        return Term(run.kind.chosen(arrays), None, tuple(o for term in terms for o in term.outside))

    def _at_best(self, run: Run) -> list[Any]:
        """Where each is as large as the largest."""
        arrays = [run.values[k].array for k in self.parts]
        labels = union(*(array.labels for array in arrays))
        values = np.broadcast_arrays(*(arranged(run.kind.compared(a), a.labels, labels) for a in arrays))
        best = values[0]
        for value in values[1:]:
            best = np.where(value > best if self.largest else value < best, value, best)
        return [np.asarray(value == best, dtype=bool) for value in values]

    def backward(self, run: Run, own: Term, cotangent: Term, give: Give) -> None:
        """The cotangent to those that are largest, in equal shares."""
        at = self._at_best(run)
        arrays = [run.values[k].array for k in self.parts]
        labels = union(*(array.labels for array in arrays))
        fixed = sum((a for a, is_fixed in zip(at, self.fixed, strict=True) if is_fixed), np.zeros_like(at[0]))
        tied = sum(a.astype(np.int64) for a, is_fixed in zip(at, self.fixed, strict=True) if not is_fixed)
        count = run.kind.power(run.kind.given(np.maximum(tied, 1), labels), Fraction(-1))
        minus = run.kind.rational(Fraction(-1))
        for place, k in enumerate(self.parts):
            step = run.steps[k]
            if not step.moves:
                continue
            share = run.kind.multiply([run.kind.given(at[place] & ~fixed, labels), count])
            for other, array in enumerate(arrays):
                if other != place and run.follows_roundings:
                    gap = run.kind.chosen([arrays[place], run.kind.multiply([array, minus])])
                    contested = Mask(~(at[place] | at[other]), labels)
                    share = run.kind.unsure(share, run.kind.masked(gap, contested), 1.0)
            give(k, pulled(run.kind, [cotangent, Term(share)], run.no_gates, (), self.axes - step.axes, run.sizes))
