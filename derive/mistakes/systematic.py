"""Systematic mistakes: every small change to every step of a derivation, made by rule and not by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Entry, Total
from derive.algebra.binders import rewrite
from derive.calculus import Derivation
from derive.errors import AlgebraError
from derive.forward.program import Definition, Program
from derive.mistakes.changes import Change, at, drop_factor, drop_term, first_alone, sum_over, swap_axes, times, twice
from derive.mistakes.mistake import Transformation


@dataclass(frozen=True)
class Slip:
    """One small change: its kind ("lost factor"), the definition that it spoils, and what it does there."""

    kind: str
    breaks: str
    detail: str
    change: Transformation

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
    """Every slip at every step, those that leave a value as it is aside."""
    return tuple(_slips(derivation.derived))


def _slips(program: Program) -> Iterator[Slip]:
    for definition in program.definitions:
        seen = {definition.value}
        for kind, changes in KINDS.items():
            for detail, change in changes(definition):
                try:
                    value = change(definition.value)
                except AlgebraError:
                    continue  # the change makes no sense here: an index that the tensor does not have
                if value not in seen and not value.has(sp.zoo, sp.nan):
                    seen.add(value)
                    yield Slip(kind, definition.name, detail, at(definition.name, change))


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


@_kind("lost sum")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    sizes = (str(axis.size) for total in definition.value.atoms(Total) for axis in total.axes)
    for size in sorted(set(sizes)):
        yield f"the sum over {size}", first_alone(size)


@_kind("twice")
def _(definition: Definition) -> Iterator[tuple[str, Change]]:
    for entry in _tensors(definition):
        yield str(entry.tensor.name), twice(str(entry.tensor.name))
    for scalar in _scalars(definition):
        yield scalar.name, twice(scalar.name)


def _scalars(definition: Definition) -> list[sp.Symbol]:
    """The real parameters in a value."""
    labels = {e.tensor.args[0] for e in _tensors(definition)}
    symbols = definition.value.free_symbols - labels
    return sorted((s for s in symbols if type(s) is sp.Symbol and not s.is_integer), key=str)


def _terms(value: sp.Expr) -> list[tuple[sp.Add, sp.Expr]]:
    """Every sum of terms outside of binders, with each of its terms."""
    sums = [value] if isinstance(value, sp.Add) else [f for f in sp.Mul.make_args(value) if isinstance(f, sp.Add)]
    return [(add, term) for add in sums for term in add.args]


def _exchanged(old: sp.Expr, new: sp.Expr) -> Change:
    return lambda value: rewrite(value, lambda e: new if e == old else e)
