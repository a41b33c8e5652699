"""Arrays as flat lists with shapes: views, broadcasting and splitting as NumPy does them, for entries of any kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from derive.algebra import Axis
from derive.errors import AlgebraError

Shape = tuple[int, ...]


class ScheduleError(AlgebraError):
    """A schedule that array code could not run: shapes that do not meet, a name that is not there."""


@dataclass(frozen=True)
class Array:
    """Entries in row-major order: numbers, exact positions and counts (``int``, ``Fraction``, ±∞), or conditions."""

    shape: Shape
    entries: list[Any]


def viewed(operand: Array, axes: tuple[Axis, ...], wanted: tuple[Axis, ...]) -> Array:
    """The operand with its axes in another order, and axes of length 1 where it lacks some."""
    if len(operand.shape) != len(axes):
        raise ScheduleError(f"an array of shape {operand.shape} is viewed as one of axes {axes}")
    kept = [axis for axis in wanted if axis in axes]
    if set(kept) != set(axes):
        raise ScheduleError(f"a view of axes {axes} as {wanted} loses some")
    steps = _steps(operand.shape)
    order = [axes.index(axis) for axis in kept]
    moved = _picked(operand.entries, [(operand.shape[k], steps[k]) for k in order])
    lengths_ = iter([operand.shape[k] for k in order])
    return Array(tuple(next(lengths_) if axis in axes else 1 for axis in wanted), moved)


def broadcast(*shapes: Shape) -> Shape:
    """The shape that arrays of given shapes have together, aligned at their last axes."""
    rank = max(map(len, shapes), default=0)
    result = []
    for found in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        longer = {length for length in found if length != 1}
        if len(longer) > 1:
            raise ScheduleError(f"arrays of shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(longer.pop() if longer else 1)
    return tuple(result)


def spread(array: Array, shape: Shape) -> list[Any]:
    """The entries repeated to a shape that the array broadcasts to."""
    if array.shape == shape:
        return array.entries
    own = (1,) * (len(shape) - len(array.shape)) + array.shape
    if len(own) > len(shape) or any(length not in (1, full) for length, full in zip(own, shape, strict=True)):
        raise ScheduleError(f"an array of shape {array.shape} does not broadcast to {shape}")
    steps = [step if length > 1 else 0 for length, step in zip(own, _steps(own), strict=True)]
    return _picked(array.entries, list(zip(shape, steps, strict=True)))


def rows_along(array: Array, axis: int) -> list[list[Any]]:
    """The entries along one axis, a list for every position of the others."""
    length, width = array.shape[axis], math.prod(array.shape[axis + 1 :])
    starts = (block * length * width + at for block in range(math.prod(array.shape[:axis])) for at in range(width))
    return [array.entries[start : start + length * width : width] for start in starts]


def split(shape: Shape, first: int, second: int) -> tuple[Shape, Shape, Shape]:
    """Leading lengths, and the two groups of last ones."""
    lead = len(shape) - first - second
    if lead < 0:
        raise ScheduleError(f"a product of an array of shape {shape} takes {first + second} of its axes")
    return shape[:lead], shape[lead : lead + first], shape[lead + first :]


def _steps(shape: Shape) -> list[int]:
    """How far apart in row-major order neighbours along each axis are."""
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _picked(items: list[Any], walk: Sequence[tuple[int, int]]) -> list[Any]:
    """The items at the places that nested loops of given lengths and steps come by."""
    places = [0]
    for length, step in walk:
        places = [place + k * step for place in places for k in range(length)]
    return [items[place] for place in places]
