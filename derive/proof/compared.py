"""What programs compare, and how to draw whole numbers and thresholds so that comparisons come out both ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Axis, Entry, Total
from derive.algebra.binders import Maximum
from derive.forward.program import Parameter, Program
from derive.proof.arithmetic import ORDERED, Number


def comparisons(program: Program) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """The two sides of everything that a program compares: in conditions, and where Max, Min, Abs and steps bend."""
    for definition in program.definitions:
        for part in definition.value.atoms(Relational, sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside):
            first, *others = part.args
            yield from ((first, other) for other in others if not isinstance(part, sp.Heaviside))
            if isinstance(part, (sp.Abs, sp.sign, sp.Heaviside)):
                yield first, sp.S.Zero


def near_thresholds(
    program: Program, draw: Callable[[random.Random], Number], read: Callable[[Any], Number]
) -> Callable[[random.Random], Number]:
    """How to draw numbers: half of them around, or equal to, one that real numbers are compared with, if any is."""
    constants = {
        -(left - right).as_coeff_Add()[0]
        for left, right in comparisons(program)
        if not (left.is_infinite or right.is_infinite) and not _is_whole(left - right)
    }
    either_way = {sign * c for c in constants if c.is_Rational and c != 0 for sign in (-1, 1)}
    around = [read(c) for c in sorted(either_way)]

    def near(chance: random.Random) -> Number:
        number = read(draw(chance))
        if chance.random() >= 1 / 2:
            return number
        threshold = chance.choice(around)
        return threshold if chance.random() < 1 / 3 else number + threshold

    return near if around else draw


def integers_compared(program: Program, parameters: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Whole numbers around what integer inputs are compared with: constants, parameters and sizes."""
    given = {p.symbol: parameters[p.name] for p in program.parameters if p.symbol.is_integer}
    found: set[int] = set()
    for left, right in comparisons(program):
        difference = left - right
        if not _is_whole(difference) or not any(entry.base.discrete for entry in difference.atoms(Entry)):
            continue
        symbols = {s for s in difference.free_symbols if not isinstance(s, (Axis, Entry))}
        symbols |= {s for axis in difference.atoms(Axis) for s in axis.size.free_symbols}
        constant = difference.as_coeff_Add()[0]
        # By symbol, not by name: a parameter may be called like a size.
        values = [given.get(s, sizes.get(str(s))) for s in sorted(symbols, key=str)]
        known = [constant, -constant, *(value for value in values if value is not None)]
        found.update(int(value) + step for value in known if value == int(value) for step in (-1, 0, 1))
    return tuple(sorted(found))


def _is_whole(expr: sp.Expr) -> bool:
    return all(s.is_integer for s in expr.free_symbols)


def whole_number(parameter: Parameter, sizes: Mapping[str, int], chance: random.Random, number: int) -> int:
    """An integer parameter: near its default, too small to matter, beyond every size; then any, and about a size."""
    default = usual(parameter, sizes)
    longest = max(sizes.values(), default=1)
    near, small = [default, default, default + 1, default + 2], [0, 1]
    beyond = [longest + 1, 2 * longest, longest + max(default, 1)]
    about = [length + step for length in sizes.values() for step in (-1, 0, 1)]
    drawn = chance.choice((near, small, beyond)[number] if number < 3 else [*near, *small, *beyond, *about, -1])
    return drawn if parameter.least is None else max(drawn, parameter.least)


def usual(parameter: Parameter, sizes: Mapping[str, int]) -> int:
    """The default of an integer parameter, which may depend on sizes."""
    return int(parameter.default.subs({s: max(sizes[str(s)], 1) for s in parameter.default.free_symbols}))


def asks_for_order(condition: Relational) -> bool:
    """Whether a condition asks which of two finite numbers is larger that are not both integers."""
    if isinstance(condition, (sp.Eq, sp.Ne)) or any(side.is_infinite for side in condition.args):
        return False
    return not all(s.is_integer for s in condition.free_symbols)


def bends(expr: sp.Basic) -> Iterator[sp.Basic]:
    """The parts that bend, outside of sums and of the indices of entries."""
    if isinstance(expr, ORDERED):
        yield expr
    if not isinstance(expr, (Total, Maximum, Entry)):
        for part in expr.args:
            yield from bends(part)
