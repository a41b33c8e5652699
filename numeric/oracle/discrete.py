"""What is counted: positions, sizes, integer inputs and parameters, exactly, on whole arrays.

Indices, conditions and whole-numbered factors of definitions are rational expressions of integers. They are evaluated
as fractions of integer arrays. An entry that its tensor does not have is remembered with the place at which it was
read, and is an error only where nothing hides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from derive.algebra.axes import Axis
from derive.algebra.binders import Total
from derive.algebra.functions import QuarterTurn
from derive.algebra.tensors import Delta, Entry, Indicator, is_gate
from derive.errors import AlgebraError
from numeric.oracle.functions import COMPARE
from numeric.oracle.labelled import Host, Labels, Mask, Places, Sizes, arranged, gathered, kept, somewhere, union
from numeric.oracle.labelled import Labelled as Numbers


class OutsideError(AlgebraError):
    """A tensor is read at an index that it does not have, and nothing hides it."""


@dataclass(frozen=True)
class Outside:
    """Where an entry is read that its tensor does not have: over the labels of what was made of it, and of the entry.

    index: what is looked up at each label of the mask ``at``.
    """

    entry: Entry
    where: Mask
    at: Mask
    index: tuple[Whole, ...]

    def refuse(self) -> None:
        """Say which entry it is, and at which index it is read."""
        first = dict(zip(self.where.labels, np.argwhere(self.where.data)[0], strict=True)) if self.where.labels else {}
        index = tuple(slice(None) if label not in first else int(first[label]) for label in self.at.labels)
        kept_labels = tuple(label for label in self.at.labels if label not in first)
        rest = np.argwhere(self.at.data[index])[0]
        place = first | dict(zip(kept_labels, rest, strict=True))
        read = tuple(whole.at(place) for whole in self.index)
        raise OutsideError(f"{self.entry} lies outside of {self.entry.tensor.name}: index {read}")


@dataclass(frozen=True)
class Whole:
    """Rational numbers: integers over a positive denominator, if there is one."""

    top: Host
    labels: Labels
    bottom: Host | None = None
    outside: tuple[Outside, ...] = ()

    def at(self, place: Mapping[Any, int]) -> int:
        """The integer at a position."""
        index = tuple(place[label] if self.top.shape[k] > 1 else 0 for k, label in enumerate(self.labels))
        return int(self.top[index])

    @property
    def parts(self) -> tuple[Host, Host]:
        """Numerators and denominators."""
        return self.top, np.asarray(1) if self.bottom is None else self.bottom


@dataclass(frozen=True)
class Scope:
    """What discrete expressions mention: lengths of axes, values of symbols, integer and 0/1 tensors.

    ``axes`` are the axes of each tensor, under which its dimensions are labelled. ``large`` asks for integers of any
    size.
    """

    sizes: Sizes
    values: Mapping[sp.Basic, int]
    tensors: Mapping[str, Whole]
    axes: Mapping[str, tuple[Axis, ...]]
    large: bool = False

    def number(self, value: int) -> Host:
        """An integer."""
        return np.asarray(value, dtype=object if self.large else np.int64)

    def length(self, size: sp.Expr) -> int:
        """A size as a number."""
        return int(size.xreplace({s: sp.Integer(self.values[s]) for s in size.free_symbols}))


def is_discrete(expr: sp.Basic) -> bool:
    """Whether an expression is a rational one of positions, sizes, integer parameters and integer tensors."""
    if isinstance(expr, (Axis, sp.Rational)):
        return True
    if isinstance(expr, Entry):
        return expr.tensor.discrete and all(map(is_discrete, expr.indices))
    if isinstance(expr, sp.Symbol):
        return bool(expr.is_integer)
    if isinstance(expr, sp.Pow) and not isinstance(expr, sp.exp):
        return bool(expr.exp.is_Integer) and is_discrete(expr.base)
    if isinstance(expr, Total):
        return is_discrete(expr.body)
    if isinstance(expr, Indicator):
        return _is_discrete_condition(expr.args[0])
    known = (sp.Add, sp.Mul, sp.Mod, sp.floor, sp.ceiling, sp.Max, sp.Min, sp.Abs, Delta, QuarterTurn)
    return isinstance(expr, known) and all(map(is_discrete, expr.args))


def divides(expr: sp.Basic) -> bool:
    """Whether a discrete expression divides by what differs from position to position, and may be a hidden 0."""
    powers = (part for part in expr.atoms(sp.Pow) if part.exp.is_negative)
    return any(part.base.atoms(Axis, Entry) for part in powers)


def _is_discrete_condition(condition: sp.Basic) -> bool:
    if isinstance(condition, (sp.And, sp.Or, sp.Not)):
        return all(map(_is_discrete_condition, condition.args))
    return isinstance(condition, Relational) and all(map(is_discrete, condition.args))


def whole(expr: sp.Expr, scope: Scope) -> Whole:
    """A discrete expression over the axes that it depends on."""
    if isinstance(expr, sp.Rational):
        bottom = None if expr.q == 1 else scope.number(int(expr.q))
        return Whole(scope.number(int(expr.p)), (), bottom)
    if isinstance(expr, Axis):
        positions = np.arange(scope.sizes[expr])
        return Whole(positions.astype(object) if scope.large else positions, (expr,))
    if isinstance(expr, sp.Symbol):
        return Whole(scope.number(scope.values[expr]), ())
    if isinstance(expr, Entry):
        return _read(expr, scope)
    if isinstance(expr, Total):
        return _total(expr, scope)
    if isinstance(expr, sp.Mul):
        return _product(expr, scope)
    if isinstance(expr, QuarterTurn):
        return whole(expr.definition, scope)
    if isinstance(expr, Indicator):
        mask, outside = hidden_by(expr.args[0], scope, {})
        return Whole(_integers(~mask.data, scope), mask.labels, None, outside)
    parts = [whole(arg, scope) for arg in expr.args]
    if isinstance(expr, Delta):
        mask, outside = _compared("==", parts[0], parts[1])
        return Whole(_integers(~mask.data, scope), mask.labels, None, outside)
    return _combined(expr, parts)


def _combined(expr: sp.Expr, parts: Sequence[Whole]) -> Whole:
    outside = tuple(o for part in parts for o in part.outside)
    labels = union(*(part.labels for part in parts))
    pairs = [(arranged(p.top, p.labels, labels), _denominators(p, labels)) for p in parts]
    (top, bottom), rest = pairs[0], pairs[1:]
    if isinstance(expr, sp.Pow):
        return replace(_power(parts[0], int(expr.exp)), outside=outside)
    if isinstance(expr, (sp.floor, sp.ceiling)):
        sign = 1 if isinstance(expr, sp.floor) else -1
        return Whole(np.asarray(sign * (sign * top // bottom)), labels, None, outside)
    if isinstance(expr, sp.Abs):
        return Whole(np.abs(top), labels, bottom, outside)
    if isinstance(expr, sp.Mod):
        (divisor, under) = rest[0]
        if not np.all(divisor != 0):
            raise AlgebraError(f"{expr} divides by 0")
        common = top * under - divisor * bottom * ((top * under) // (divisor * bottom))
        return Whole(np.asarray(common), labels, np.asarray(bottom * under), outside)
    for more, under in rest:
        if isinstance(expr, sp.Add):
            top, bottom = top * under + more * bottom, bottom * under
        else:
            first = (top * under >= more * bottom) == isinstance(expr, sp.Max)
            top, bottom = np.where(first, top, more), np.where(first, bottom, under)
    return Whole(np.asarray(top), labels, np.asarray(bottom), outside)


def _denominators(number: Whole, labels: Labels) -> Host:
    return np.asarray(1) if number.bottom is None else arranged(*_as_wide(number), labels)


def _as_wide(number: Whole) -> tuple[Host, Labels]:
    assert number.bottom is not None
    return (number.bottom, number.labels) if number.bottom.ndim else (number.bottom, ())


def _power(base: Whole, exponent: int) -> Whole:
    top, bottom = base.parts
    if exponent >= 0:
        return Whole(top**exponent, base.labels, bottom**exponent)
    if not np.all(top != 0):
        raise AlgebraError("a number that is counted is divided by, and is 0")
    sign = np.where(top < 0, -1, 1) ** -exponent
    raised, under = np.broadcast_arrays(bottom**-exponent * sign, np.abs(top) ** -exponent)
    return Whole(raised, base.labels, under)


def _product(expr: sp.Mul, scope: Scope) -> Whole:
    """A product; what a 0/1 factor hides may lie outside."""
    parts = [whole(arg, scope) for arg in expr.args]
    labels = union(*(part.labels for part in parts))
    top, bottom = np.asarray(1), np.asarray(1)
    for part in parts:
        top, bottom = top * arranged(part.top, part.labels, labels), bottom * _denominators(part, labels)
    gates = [Mask(part.top == 0, part.labels) for arg, part in zip(expr.args, parts, strict=True) if is_gate(arg)]
    return Whole(np.asarray(top), labels, np.asarray(bottom), shown([o for p in parts for o in p.outside], gates))


def _total(expr: Total, scope: Scope) -> Whole:
    body = whole(expr.body, scope)
    if body.bottom is not None and body.bottom.ndim and np.any(body.bottom != 1):
        raise AlgebraError(f"{expr} is a sum of fractions that are counted; multiply by the divisor")
    bottom = None if body.bottom is None or body.bottom.ndim else body.bottom
    axes = tuple(k for k, label in enumerate(body.labels) if label in expr.axes)
    labels = tuple(label for label in body.labels if label not in expr.axes)
    repeated = int(np.prod([scope.sizes[a] for a in expr.axes if a not in body.labels], dtype=int))
    return Whole(np.asarray(body.top.sum(axis=axes) * repeated), labels, bottom, summed(body.outside, expr.axes))


def _read(entry: Entry, scope: Scope) -> Whole:
    name = str(entry.tensor.name)
    source, axes = scope.tensors[name], scope.axes[name]
    names, places, outside = lookup(entry, axes, scope)
    found = gathered(Numbers(source.top, source.labels).renamed(names), places)
    return Whole(found.data, found.labels, None, outside)


def lookup(entry: Entry, axes: Sequence[Axis], scope: Scope) -> tuple[dict[Any, Any], Places, tuple[Outside, ...]]:
    """How an entry is read: names for the tensor's labels, places for those that are computed, and what is outside.

    The tensor's own axes become the entry's where an index is an axis, each once; others are looked up.
    """
    names: dict[Any, Any] = {}
    index: dict[Any, tuple[Host, Labels]] = {}
    read: list[Whole] = []
    found: list[Outside] = []
    wrong: list[Mask] = []
    used: set[Any] = set()
    for number, (axis, place) in enumerate(zip(axes, entry.indices, strict=True)):
        length = scope.sizes[axis]
        if isinstance(place, Axis) and place not in used and scope.sizes[place] == length:
            used.add(place)
            names[axis] = place
            read.append(Whole(np.arange(length), (place,)))
            continue
        label = ("place", number)
        names[axis] = label
        value = whole(place, scope)
        found += value.outside
        if value.bottom is not None and np.any(value.top % value.bottom != 0):
            raise AlgebraError(f"{entry}: {place} is no integer everywhere")
        top = value.top if value.bottom is None else np.asarray(value.top // value.bottom)
        read.append(Whole(top, value.labels))
        outside = kept(Mask(np.asarray((top < 0) | (top >= length), dtype=bool), value.labels))
        wrong += [] if outside is None else [outside]
        index[label] = np.clip(top, 0, max(length - 1, 0)).astype(np.int64), value.labels
    sizes = {**scope.sizes, **{label: scope.sizes[axis] for axis, label in names.items()}}
    for mask in wrong:
        labels = union(mask.labels, *(r.labels for r in read))
        lengths = tuple(scope.sizes[label] for label in labels)
        at = Mask(np.broadcast_to(arranged(mask.data, mask.labels, labels), lengths), labels)
        found.append(Outside(entry, mask, at, tuple(read)))
    return names, Places(index, sizes), tuple(found)


def hidden_by(
    condition: sp.Basic, scope: Scope, real: Mapping[sp.Basic, tuple[Host, Labels]]
) -> tuple[Mask, tuple[Outside, ...]]:
    """Where a condition does not hold; ``real`` are the sides that are not counted, as arrays that NumPy compares."""
    if isinstance(condition, sp.Not):
        mask, outside = hidden_by(condition.args[0], scope, real)
        return Mask(~mask.data, mask.labels), outside
    if isinstance(condition, (sp.And, sp.Or)):
        parts = [hidden_by(part, scope, real) for part in condition.args]
        labels = union(*(mask.labels for mask, _ in parts))
        data = [arranged(mask.data, mask.labels, labels) for mask, _ in parts]
        combine = np.logical_or if isinstance(condition, sp.And) else np.logical_and
        result = data[0]
        for more in data[1:]:
            result = combine(result, more)
        return Mask(result, labels), tuple(o for _, outside in parts for o in outside)
    if not isinstance(condition, Relational):
        raise AlgebraError(f"the condition {condition} is no comparison of positions, parameters and inputs")
    if all(map(is_discrete, condition.args)):
        left, right = (whole(side, scope) for side in condition.args)
        return _compared(condition.rel_op, left, right)
    left_data, right_data = (real[side] for side in condition.args)
    labels = union(left_data[1], right_data[1])
    holds = COMPARE[condition.rel_op](arranged(*left_data, labels), arranged(*right_data, labels))
    return Mask(~np.asarray(holds, dtype=bool), labels), ()


def _compared(operator: str, left: Whole, right: Whole) -> tuple[Mask, tuple[Outside, ...]]:
    labels = union(left.labels, right.labels)
    one = arranged(left.top, left.labels, labels) * _denominators(right, labels)
    other = arranged(right.top, right.labels, labels) * _denominators(left, labels)
    holds = np.asarray(COMPARE[operator](one, other), dtype=bool)
    return Mask(~holds, labels), (*left.outside, *right.outside)


def shown(outside: Sequence[Outside], hidden: Sequence[Mask | None]) -> tuple[Outside, ...]:
    """What is outside and not hidden."""
    for mask in hidden:
        if mask is not None:
            outside = [o for o in (_less(o, mask) for o in outside) if o is not None]
    return tuple(outside)


def _less(outside: Outside, hidden: Mask) -> Outside | None:
    labels = union(outside.where.labels, hidden.labels)
    left = arranged(outside.where.data, outside.where.labels, labels)
    where = kept(Mask(left & ~arranged(hidden.data, hidden.labels, labels), labels))
    if where is None:
        return None
    everywhere = union(outside.at.labels, hidden.labels)
    seen = arranged(outside.at.data, outside.at.labels, everywhere)
    return replace(outside, where=where, at=Mask(seen & ~arranged(hidden.data, hidden.labels, everywhere), everywhere))


def summed(outside: Sequence[Outside], axes: Sequence[Axis]) -> tuple[Outside, ...]:
    """What is outside anywhere along some axes."""
    return tuple(replace(o, where=somewhere(o.where, axes)) for o in outside)


def _integers(data: Host, scope: Scope) -> Host:
    return data.astype(object if scope.large else np.int64)
