"""Counting a model's weights from the shapes of the programs that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from derive.errors import DefinitionError
from derive.forward import Program, program
from derive.forward.configurations import Configuration, Part
from derive.forward.program import Input

POSITIONS = ("n", "m")
"""The sizes of sequences: what has one of these is a state, not a weight."""


@dataclass(frozen=True)
class Count:
    """How many weights a part has: those of its maps (``W_…``), and all."""

    label: str
    program: str
    maps: int
    all: int


def count(model: Configuration) -> tuple[tuple[Count, ...], tuple[Count, ...], Count]:
    """Shares of parts, parts, and their sum."""
    inside, parts = (tuple(_count(p, model.sizes) for p in each) for each in (model.inside, model.parts))
    total = Count("together", "", sum(p.maps for p in parts), sum(p.all for p in parts))
    return inside, parts, total


def weights(source: Program) -> tuple[Input, ...]:
    """The inputs that are learned: they get gradients and have no position."""
    return tuple(i for i in source.inputs if i.differentiable and not {str(s) for s in i.tensor.shape} & set(POSITIONS))


def _count(part: Part, sizes: Mapping[str, int]) -> Count:
    own = {**sizes, **(part.sizes or {})}
    learned = {i.name: _entries(part.program, i, own) for i in weights(program(part.program))}
    maps = sum(number for name, number in learned.items() if name.startswith("W_"))
    return Count(part.label, part.program, part.times * maps, part.times * sum(learned.values()))


def _entries(name: str, given: Input, sizes: Mapping[str, int]) -> int:
    try:
        return prod(int(s) if s.is_Integer else sizes[str(s)] for s in given.tensor.shape)
    except KeyError as missing:
        raise DefinitionError(f"{name}: {given.name} has size {missing}, which the configuration lacks") from None
