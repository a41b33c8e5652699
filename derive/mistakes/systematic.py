"""Systematic mistakes: every small change to every definition of a derivation, made by rule and not by hand.

In the backward pass a slip leaves the forward pass as it is; in the forward pass, both passes are wrong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Entry, Indicator, Total
from derive.algebra.binders import rewrite
from derive.calculus import Derivation
from derive.errors import AlgebraError
from derive.forward.program import Definition
from derive.mistakes.changes import (
    Change,
    at,
    drop_factor,
    drop_term,
    first_alone,
    sum_across,
    sum_over,
    swap_axes,
    times,
    twice,
)
from derive.mistakes.places import Place, Transformation, steps_in


@dataclass(frozen=True)
class Slip:
    """One small change: its kind ("lost factor"), the definition that it spoils, what it does there, and where."""

    kind: str
    breaks: str
    detail: str
    change: Transformation
    place: Place

    @property
    def name(self) -> str:
        """How reports refer to it."""
        return f"{self.breaks}: {self.kind} ({self.detail})"


KINDS: dict[str, Callable[[Definition], Iterator[tuple[str, Change]]]] = {}
"""What can be done to the value of a definition, kind by kind."""


def _kind(name: str) -> Callable[[Callable[[Definition], Iterator[tuple[str, Change]]]], None]:
    def register(changes: Callable[[Definition], Iterator[tuple[str, Change]]]) -> None:
        KINDS[name] = changes

    return register


def systematic(derivation: Derivation) -> tuple[Slip, ...]:
    """Every slip in both passes, those that leave a value as it is aside."""
    places: tuple[Place, ...] = ("backward", "together")
    return tuple(slip for place in places for d in steps_in(place, derivation) for slip in _slips(d, place))


def _slips(definition: Definition, place: Place) -> Iterator[Slip]:
    seen = {definition.value}
    for kind, changes in KINDS.items():
        for detail, change in changes(definition):
            try:
                value = change(definition.value)
            except AlgebraError:
                continue  # the change makes no sense here: an index that the tensor does not have
            if value not in seen and _is_a_value(value, definition):
                seen.add(value)
                yield Slip(kind, definition.name, detail, at(definition.name, change), place)


def _is_a_value(value: sp.Expr, definition: Definition) -> bool:
    """Whether a value is a number, and 0 or 1 where it has to be, with no sum in a condition that had none."""
    zero_or_one = not definition.target.tensor.boolean or value**2 == value
    return not value.has(sp.zoo, sp.nan) and zero_or_one and _decided_by(value) <= _decided_by(definition.value)


def _decided_by(value: sp.Expr) -> set[sp.Expr]:
    """The sums in the conditions of a value."""
    return {total for gate in value.atoms(Indicator) for total in gate.atoms(Total)}


def _tensors(definition: Definition) -> list[Entry]:
    """One entry of each tensor in a value, by name."""
    entries = {str(e.tensor.name): e for e in sorted(definition.value.atoms(Entry), key=str)}
    return [entries[name] for name in sorted(entries)]


@_kind("lost factor")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for name in (*(str(e.tensor.name) for e in _tensors(definition)), *(s.name for s in _scalars(definition))):
        yield name, drop_factor(name)


@_kind("lost term")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    if definition.value.atoms(sp.Add):
        for entry in _tensors(definition):
            yield str(entry.tensor.name), drop_term(str(entry.tensor.name))


@_kind("lost sign")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    yield "all of it", times(-1)
    for number, (add, term) in enumerate(_terms(definition.value)):
        yield f"term {number + 1}", _exchanged(add, add - 2 * term)


@_kind("transpose")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for entry in _tensors(definition):
        if len(entry.indices) == 2:
            yield str(entry.tensor.name), swap_axes(str(entry.tensor.name))


@_kind("extra sum")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for entry in _tensors(definition):
        for axis in dict.fromkeys(a for a in entry.indices if isinstance(a, Axis) and a in definition.axes):
            yield f"{entry.tensor.name} over {axis}", sum_over(str(entry.tensor.name), axis.name)


@_kind("wrong axis")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for size in _summed(definition):
        for axis in definition.axes:
            yield f"the sum over {size} taken over {axis}", sum_across(size, axis.name)


@_kind("lost sum")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for size in _summed(definition):
        yield f"the sum over {size}", first_alone(size)


@_kind("twice")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for entry in _tensors(definition):
        yield str(entry.tensor.name), twice(str(entry.tensor.name))
    for scalar in _scalars(definition):
        yield scalar.name, twice(scalar.name)


@_kind("off by one")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for condition in sorted(definition.value.atoms(*_STRICT), key=str):
        yield str(condition), _exchanged(condition, _STRICT[type(condition)](*condition.args))


_STRICT: dict[type[sp.Basic], type[sp.Basic]] = {sp.Le: sp.Lt, sp.Lt: sp.Le, sp.Ge: sp.Gt, sp.Gt: sp.Ge}
"""What somebody writes who counts from the other end."""


def _summed(definition: Definition) -> list[str]:
    """The sizes that a value sums over."""
    return sorted({str(axis.size) for total in definition.value.atoms(Total) for axis in total.axes})


def _scalars(definition: Definition) -> list[sp.Symbol]:
    """The real parameters in a value."""
    labels = {e.tensor.args[0] for e in _tensors(definition)}
    symbols = definition.value.free_symbols - labels
    return sorted((s for s in symbols if type(s) is sp.Symbol and not s.is_integer), key=str)


def _terms(value: sp.Expr) -> list[tuple[sp.Add, sp.Expr]]:
    """Every sum of terms outside of binders, with each of its terms."""
    sums = [value] if isinstance(value, sp.Add) else [f for f in sp.Mul.make_args(value) if isinstance(f, sp.Add)]
    return [(add, term) for add in sums for term in add.args]


def _exchanged(old: sp.Basic, new: sp.Basic) -> Change:
    return lambda value: rewrite(value, lambda e: new if e == old else e)
