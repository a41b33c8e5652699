"""What the ranges of indices decide: an axis runs from 0 to its size − 1, and a sum over it has no other terms.

An integer expression is *at least 0* if its least value is, taken over all positions of the axes in it, all entries
of integer tensors whose range is known, and all sizes. Where an axis stands its size is at least 1, because nothing
is evaluated along an axis of no positions. ``None`` says that the ranges do not decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import sympy as sp
from sympy.core.relational import Ge, Gt, Le, Lt

from derive.algebra.axes import Axis, is_whole
from derive.algebra.tensors import Delta, Entry, Indicator, is_gate


def at_least_zero(value: sp.Expr, given: Sequence[sp.Expr] = ()) -> bool | None:
    """Whether an integer expression is at least 0 wherever it is evaluated: always, never (False), or undecided.

    ``given`` are expressions that are known to be at least 0 there.
    """
    if not is_whole(value):
        return None
    if _proved(value, given):
        return True
    return False if _proved(-value - 1, given) else None


def decided(condition: sp.Basic) -> sp.Expr:
    """The indicator of a comparison of integers, in one spelling, or 0 or 1 where ranges decide it.

    ``a < b`` is ``a + 1 ≤ b`` for integers only; whatever else is compared stays as it is.
    """
    if not isinstance(condition, (Le, Ge, Lt, Gt)) or not (is_whole(condition.gts) and is_whole(condition.lts)):
        return Indicator(condition)
    d = sp.expand(condition.gts - condition.lts - int(isinstance(condition, (Lt, Gt))))
    known = at_least_zero(d)
    if known is not None:
        return sp.Integer(int(known))
    below = sp.Add(*(-t for t in sp.Add.make_args(d) if t.could_extract_minus_sign()))
    return Indicator(Le(below, d + below))


def within(index: sp.Expr, size: sp.Expr) -> sp.Expr:
    """[0 ≤ index] · [index < size]: 1 where a tensor or a sum has that position; what ranges decide is left out."""
    if isinstance(index, Axis) and index.size == size:
        return sp.S.One
    return sp.Mul(decided(Le(0, index, evaluate=False)), decided(Le(index, size - 1, evaluate=False)))


def is_inside(index: sp.Expr, size: sp.Expr, gates: Iterable[sp.Expr] = ()) -> bool:
    """Whether an index is proved to lie in 0 … size − 1 wherever the given 0/1 factors are 1.

    A fixed index needs an axis of enough positions; a table of none is refused when something is looked up in it.
    """
    if isinstance(index, Axis):
        return bool(index.size == size)
    given = (*facts(gates), *([size - 1] if index.is_number else []))
    return at_least_zero(index, given) is True and at_least_zero(sp.expand(size - 1 - index), given) is True


def looks_up(value: sp.Expr, gates: tuple[sp.Expr, ...] = ()) -> bool:
    """Whether an entry may lie outside of its tensor unless 0/1 factors around the value hide it.

    Tensors are taken to have entries, and as many as a fixed index that is not negative asks for.
    """
    if isinstance(value, Entry):
        for index, size in zip(value.indices, value.tensor.shape, strict=True):
            fixed = index.is_number and index.is_nonnegative
            if not fixed and not _is_inside_of_some(index, size, gates):
                return True
    own = tuple(f for f in value.args if is_gate(f)) if isinstance(value, sp.Mul) else ()
    parts = (part for part in value.args if isinstance(part, sp.Basic) and not isinstance(part, sp.Symbol))
    return any(looks_up(part, gates if part in own else gates + own) for part in parts)


def _is_inside_of_some(index: sp.Expr, size: sp.Expr, gates: tuple[sp.Expr, ...]) -> bool:
    """Whether an index is inside where there is a position at all, as Min(p, size − 1) is."""
    if is_inside(index, size, gates):
        return True
    axes = {axis for expr in (index, *gates) for axis in expr.atoms(Axis)}
    if not isinstance(size, sp.Symbol) or any(size in axis.size.free_symbols for axis in axes):
        return False  # an axis of that size is known to have a position
    more = {size: size + 1}
    return is_inside(index.xreplace(more), size + 1, tuple(gate.xreplace(more) for gate in gates))


def facts(gates: Iterable[sp.Expr]) -> tuple[sp.Expr, ...]:
    """Integer expressions that are at least 0 where all of some 0/1 factors are 1."""
    found: list[sp.Expr] = []
    for gate in gates:
        equal = gate.args if isinstance(gate, Delta) else ()
        for condition in sp.And.make_args(gate.args[0]) if isinstance(gate, Indicator) else ():
            if isinstance(condition, (Le, Ge, Lt, Gt)) and is_whole(condition.gts) and is_whole(condition.lts):
                found.append(condition.gts - condition.lts - int(isinstance(condition, (Lt, Gt))))
            elif isinstance(condition, sp.Eq) and all(map(is_whole, condition.args)):
                equal = condition.args
            elif isinstance(condition, sp.Ne):
                found += _beside_an_end(*condition.args)
        if equal:
            found += [equal[0] - equal[1], equal[1] - equal[0]]
    return tuple(found)


def _beside_an_end(one: sp.Expr, other: sp.Expr) -> list[sp.Expr]:
    """What is at least 0 where a position is not the first, or not the last."""
    pairs = [(a, b) for a, b in ((one, other), (other, one)) if isinstance(a, Axis)]
    first = [axis - 1 for axis, end in pairs if end == 0]
    return first + [axis.size - 2 - axis for axis, end in pairs if end == axis.size - 1]


def outside_somewhere(value: sp.Expr, gates: tuple[sp.Expr, ...] = ()) -> tuple[Entry, sp.Expr, sp.Expr] | None:
    """An entry that is read outside of its tensor at some position, whatever the sizes are; with the index and size.

    Only what no 0/1 factor hides is looked at, and only indices that are linear in positions.
    """
    if isinstance(value, Entry):
        for index, size in zip(value.indices, value.tensor.shape, strict=True):
            leaves = _goes_below_zero(index) or _goes_below_zero(sp.expand(size - 1 - index))
            if not gates and not isinstance(index, Axis) and leaves:
                return value, index, size
    own = tuple(f for f in value.args if is_gate(f)) if isinstance(value, sp.Mul) else ()
    for part in value.args:
        inner = gates if part in own else gates + own
        if isinstance(part, (sp.Expr, sp.logic.boolalg.Boolean)) and not isinstance(part, sp.Symbol):
            found = outside_somewhere(part, inner)
            if found is not None:
                return found
    return None


def _goes_below_zero(index: sp.Expr) -> bool:
    """Whether what is linear in positions is negative at one of their ends, for all sizes."""
    least, live = sp.expand(index), frozenset(axis.size for axis in index.atoms(Axis))
    for axis in sorted(index.atoms(Axis), key=str):
        slope = least.coeff(axis)
        if not slope.is_number or least.has(sp.floor, sp.ceiling, sp.Mod, sp.Max, sp.Min, Entry):
            return False
        least = sp.expand(least - slope * axis + (slope * (axis.size - 1) if slope.is_negative else 0))
    return bool(is_whole(least) and _least_is_enough(sp.expand(-least - 1), live))


def _proved(value: sp.Expr, given: Sequence[sp.Expr]) -> bool:
    """Whether value ≥ 0 follows from ranges, or from them and one or two of what is known."""
    sums = [sp.S.Zero, *given, *(x + y for k, x in enumerate(given) for y in given[:k])]
    live = frozenset(axis.size for axis in value.atoms(Axis))
    return any(_least_is_enough(sp.expand(value - known), live) for known in sums)


def _least_is_enough(value: sp.Expr, live: frozenset[sp.Expr]) -> bool:
    """Whether the least value is at least 0: what is bounded is replaced by its bounds, one part after another.

    ``live`` are the sizes of axes that stand in the expression, which are at least 1.
    """
    for part in sorted(value.atoms(sp.Max, sp.Min), key=sp.default_sort_key):
        slope = value.coeff(part)
        if not slope.is_number or (rest := sp.expand(value - slope * part)).has(part):
            return False
        cases = (_least_is_enough(sp.expand(rest + slope * argument), live) for argument in part.args)
        return any(cases) if isinstance(part, sp.Max) == slope.is_positive else all(cases)
    exact = _denominator(value)
    for part in sorted(value.atoms(sp.floor, sp.ceiling, sp.Mod, Entry), key=lambda p: (-_depth(p), str(p))):
        slope = value.coeff(part)
        bound = _bound(part, 1 if slope.is_negative else -1) if slope.is_number else None
        if slope == 0:
            continue  # it stood inside a part that is gone
        if bound is None or (rest := sp.expand(value - slope * part)).has(part):
            return False
        value = sp.expand(rest + slope * bound)
        exact = math.lcm(exact, _denominator(value))
    return _polynomial(value, exact, live)


def _denominator(value: sp.Expr) -> int:
    return math.lcm(*(int(number.q) for number in value.atoms(sp.Rational)))


def _depth(part: sp.Expr) -> int:
    return max((1 + _depth(a) for a in part.args if isinstance(a, sp.Expr)), default=0)


def _bound(part: sp.Expr, side: int) -> sp.Expr | None:
    """An upper (side 1) or lower bound of what is rounded, a remainder, or an entry of known range."""
    if isinstance(part, Entry):
        bounds = part.tensor.bounds
        if bounds is None:
            return None
        bound = bounds[1] - 1 if side > 0 else bounds[0]
        return bound if bound.is_finite is not False else None
    if isinstance(part, sp.Mod):
        divisor = part.args[1]
        if not (divisor.is_integer and divisor.is_nonnegative):
            return None
        return divisor - 1 if side > 0 else sp.S.Zero
    argument = part.args[0]
    fractions = _denominator(sp.expand(argument))
    if not (argument * fractions).is_integer:
        return None
    slack = sp.Rational(fractions - 1, fractions)
    if isinstance(part, sp.floor):
        return argument if side > 0 else argument - slack
    return argument + slack if side > 0 else argument


def _polynomial(value: sp.Expr, exact: int, live: frozenset[sp.Expr]) -> bool:
    """Whether a polynomial in positions and sizes is more than −1 everywhere, in steps of 1/exact."""
    for axis in sorted(value.atoms(Axis), key=str):
        slope = value.coeff(axis)
        if slope.atoms(Axis) or not (slope.is_nonnegative or slope.is_nonpositive):
            return False
        value = sp.expand(value - slope * axis + (sp.S.Zero if slope.is_nonnegative else slope * (axis.size - 1)))
        if value.has(axis):
            return False
    least = {size: size + 1 for size in live if isinstance(size, sp.Symbol)}
    value = sp.expand((value + sp.Rational(exact - 1, exact)).xreplace(least))
    return all(term.is_nonnegative for term in sp.Add.make_args(value))
