"""Checks of a whole derivation: that compacting changed nothing, and that forward mode agrees exactly."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Entry
from derive.calculus import Derivation, joined
from derive.errors import AlgebraError
from derive.forward.program import Definition, Program
from derive.lower import Kernel
from derive.proof.arithmetic import ORDERED, Arithmetic, Duals, Number, Weights
from derive.proof.compared import asks_for_order
from derive.proof.degrees import Degrees, FailureBound
from derive.proof.fingerprint import FiniteField, ShiftedField, Sides, both_sides, differing, paired
from derive.proof.interpreter import Nested, Seen, interpret
from derive.proof.points import (
    ALONE,
    ATTEMPTS,
    EDGE_ATTEMPTS,
    entries,
    filled,
    is_edge,
    lengths,
    random_point,
    sizes_at,
    small_sizes,
    where_defined,
)
from derive.proof.rationals import Kind
from derive.proof.schedule import run
from derive.proof.strided import ScheduleError


def uncompacted(derivation: Derivation) -> Program:
    """The backward program as the bare chain rule gives it: deltas, no folding, no factoring."""
    raw: dict[str, sp.Expr] = {}
    targets: dict[str, Entry] = {}
    for step in derivation.steps:
        if step.forward:
            raw[step.name] = raw.get(step.name, sp.S.Zero) + step.before
            targets[step.name] = step.target
    for output in derivation.derived.outputs:
        raw.setdefault(output.name, sp.S.Zero)
        targets.setdefault(output.name, output.entry)
    definitions = tuple(Definition(targets[name], value) for name, value in raw.items())
    used = {e.base for d in definitions for e in d.value.atoms(Entry)} - {d.target.base for d in definitions}
    inputs = {i.tensor: i for i in (*derivation.derived.inputs, *derivation.forward.inputs)}
    for definition in derivation.forward.definitions:
        inputs.setdefault(definition.target.base, definition.as_input())
    return replace(derivation.derived, inputs=tuple(i for t, i in inputs.items() if t in used), definitions=definitions)


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a point: what inputs are drawn in and how, and what results are computed in."""

    drawn_in: Arithmetic
    draw: Callable[[random.Random], Number]
    computed_in: Arithmetic


@dataclass(frozen=True)
class _Point:
    """A point of a check before anything is drawn: its seed, its number, and who takes notes."""

    seed: int
    number: int
    bound: FailureBound | None

    def reseeded(self, seed: int) -> _Point:
        """Another try at the same point."""
        return replace(self, seed=seed)

    def numbers(self, field: bool, kind: Kind | None = None) -> _Numbers:
        """A finite field of its own, with degrees where they are asked for, or rational numbers."""
        if field:
            elements = FiniteField(self.seed)
            return _Numbers(elements, elements.draw, self.counting(elements))
        weights = Weights(self.seed, kind)
        return _Numbers(weights, lambda chance: weights.kind(chance.randint(-9, 9), chance.randint(1, 4)), weights)

    def counting(self, field: FiniteField) -> Arithmetic:
        """The field, with degrees where a bound asks for them."""
        return field if self.bound is None or is_edge(self.number) else Degrees(field)

    def drawn(
        self, program: Program, sizes: Mapping[str, int], numbers: _Numbers, chance: random.Random
    ) -> tuple[dict[str, Nested], dict[str, Number]]:
        """Inputs and parameters; the bound takes note of what is compared. Some scores are −∞, but at the first."""
        seen: Seen | None = None if self.bound is None else self.bound.seen
        hiding = 0.4 if self.number >= ALONE and isinstance(numbers.drawn_in, FiniteField) else 0.0
        return random_point(
            program, sizes, chance, numbers.drawn_in, numbers.draw, hiding=hiding, number=self.number, seen=seen
        )

    def differing(self, sides: Sides, arithmetic: Arithmetic) -> list[str]:
        """What differs; the degrees of all differences are noted."""
        if self.bound is not None and isinstance(arithmetic, Degrees):
            self.bound.note(sides, arithmetic)
        return differing(sides)


def _at_point(attempt: Callable[[_Point], list[str]], seed: int, number: int, bound: FailureBound | None) -> list[str]:
    """What an attempt says at the first point at which everything is defined."""
    point = _Point(seed, number, bound)
    return where_defined(lambda s: attempt(point.reseeded(s)), seed, EDGE_ATTEMPTS if is_edge(number) else ATTEMPTS)


def compacting_changed_nothing(
    derivation: Derivation, seed: int = 0, bound: FailureBound | None = None, *, number: int = 0
) -> list[str]:
    """The gradients on which the compact program and the bare chain rule differ at a random point, if any.

    This and the checks below note in ``bound`` how likely it is that they miss a difference; ``number`` says which of a
    check's points it is (:mod:`derive.proof.points`).
    """
    left = joined(derivation.forward, derivation.derived)
    right = joined(derivation.forward, uncompacted(derivation))
    order = {i.name: i for i in left.inputs}
    right = replace(right, inputs=tuple(order[n] for n in order if n in {i.name for i in right.inputs}))
    field = _in_field(derivation.forward)

    def attempt(point: _Point) -> list[str]:
        numbers, sizes = point.numbers(field), sizes_at(derivation.forward, point.seed, number, rational=not field)
        inputs, parameters = point.drawn(left, sizes, numbers, random.Random(point.seed))
        at = {"sizes": sizes, "parameters": parameters, "arithmetic": numbers.computed_in}
        return point.differing(both_sides(left, right, inputs, at), numbers.computed_in)

    return _at_point(attempt, seed, number, bound)


Word = Literal["exact", "fingerprinted"]


def compactness(forward: Program) -> Word:
    """The word that agreement of two ways to a gradient, or of a schedule, earns.

    A finite field knows that exp(x + y) = exp x · exp y, but has no order: where a maximum of real numbers is taken,
    numbers are rational, and exp is an unknown function.
    """
    return "fingerprinted" if _in_field(forward) else "exact"


def _in_field(forward: Program) -> bool:
    """Whether a program's gradients are compared in a finite field: unless it asks for the order of real numbers."""
    ordered = (f for d in forward.definitions for f in d.value.atoms(*ORDERED))
    asks = any(not all(s.is_integer for s in f.free_symbols) for f in ordered)
    asks = asks or any(asks_for_order(r) for d in forward.definitions for r in d.value.atoms(Relational))
    return not asks or takes_roots(forward)


def schedule_differs(kernel: Kernel, seed: int = 0, bound: FailureBound | None = None, *, number: int = 0) -> list[str]:
    """The outputs and gradients of a kernel that are not what its derivation defines, at a random point.

    Both run with every optional input given, with none, and with some. In the schedule every row's shift is a random
    number: what stabilisation subtracts may be anything (0 in rational numbers, where exp is an unknown function).
    Numbers are finite, so it is not asked whether the shift keeps exp from overflowing, and a product that multiplies
    what it should select is right where that is 0.
    A schedule that array code could not run is one finding that says why.
    """
    try:
        return _at_point(partial(_schedule, kernel), seed, number, bound)
    except ScheduleError as error:
        return [str(error)]


def _schedule(kernel: Kernel, point: _Point) -> list[str]:
    derivation, chance = kernel.derivation, random.Random(point.seed)
    field, whole = _in_field(derivation.forward), joined(derivation.forward, derivation.derived)
    sizes, numbers = sizes_at(derivation.forward, point.seed, point.number, rational=not field), point.numbers(field)
    inputs, parameters = point.drawn(whole, sizes, numbers, chance)
    found: Sides = {}
    wrong: dict[str, None] = {}
    at = numbers.computed_in
    for left_out in _choices([n for n in inputs if n in kernel.may_be_none], chance):
        given = {name: value for name, value in inputs.items() if name not in left_out}
        shift: Callable[[], Number] = partial(at.number, 0)
        if isinstance(numbers.drawn_in, FiniteField):
            shifted = ShiftedField(like=numbers.drawn_in)
            at, shift = point.counting(shifted), partial(shifted.shift, chance)
        sides = _schedule_at(kernel, whole, given, at, shift, {"sizes": sizes, "parameters": parameters})
        wrong |= dict.fromkeys(differing(sides))
        found |= {f"{name} without {left_out}": pairs for name, pairs in sides.items()}
    point.differing(found, at)
    return list(wrong)


def _schedule_at(
    kernel: Kernel,
    whole: Program,
    given: Mapping[str, Nested],
    arithmetic: Arithmetic,
    shift: Callable[[], Number],
    exact: Mapping[str, Any],
) -> Sides:
    """What the schedule gives at a point, and what the definitions give, which the field has to see first."""
    defined = interpret(whole, given, arithmetic=arithmetic, **exact)
    found = run(kernel, given, given, shift=lambda: arithmetic.number(shift()), arithmetic=arithmetic, **exact)
    results = (*kernel.derivation.forward.outputs, *kernel.derivation.derived.outputs)
    return {o.name: paired(found[o.name], defined[o.name], len(o.axes)) for o in results}


def _choices(optional: list[str], chance: random.Random) -> list[list[str]]:
    """Which optional inputs to leave out: none, all, and some where there are several."""
    some = [chance.sample(optional, chance.randrange(1, len(optional)))] if len(optional) > 1 else []
    return [[], *([optional] if optional else []), *some]


def takes_roots(program: Program) -> bool:
    """Whether a definition takes a root of a tensor's entries, or holds √2 or π: no rational numbers."""
    powers = (power for d in program.definitions for power in d.value.atoms(sp.Pow))
    roots = (power.base for power in powers if power.exp.is_Rational and power.exp.q != 1)
    constants = any(d.value.atoms(sp.NumberSymbol) for d in program.definitions)
    return constants or any(base.is_number or base.has(Entry) for base in roots)


def exactness(forward: Program) -> Word:
    """The word that agreement with dual numbers earns: where roots are taken, numbers come from a finite field."""
    return "fingerprinted" if takes_roots(forward) else "exact"


def forward_mode_agrees(
    derivation: Derivation,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    *,
    kind: Kind | None = None,
    bound: FailureBound | None = None,
    number: int = 0,
) -> bool:
    """Whether ⟨cotangent, J·v⟩ = ⟨gradient, v⟩: in rational numbers, or where roots are taken in a finite field.

    J·v comes from dual numbers run through the forward definitions, which shares nothing with reverse mode.

    Parameters
    ----------
    seed: of the random inputs, parameters, tangents, cotangents and weights.
    sizes: sizes by name, such as ``{"n": 16, "m": 16}``; those that are not given are small and drawn at random.
        Under a root give squares: others may have no root in the field.
    kind: the kind of rational numbers, :data:`fractions.Fraction` or ``flint.fmpq``; the fastest if not given.
        The answer is the same in both.
    bound: takes note of how likely a difference is missed, where numbers come from a finite field.
    number: which of a check's points it is (:mod:`derive.proof.points`).

    Raises
    ------
    AlgebraError: there is no such size, or no random point at which the program is defined.
    """
    return not _by_duals(_forward_mode, derivation, seed, sizes, kind, bound, number)


def _sized(forward: Program, sizes: Mapping[str, int] | None) -> Callable[[_Point], dict[str, int]]:
    """From a point to sizes: small ones, but for those that are given."""
    known = small_sizes(forward, 0)
    for name, length in (sizes or {}).items():
        if name not in known or not isinstance(length, int) or length < 0:
            raise AlgebraError(
                f"{forward.name} has no size {name} = {length!r}; give whole numbers for some of {', '.join(known)}"
            )
    rational = not takes_roots(forward)
    return lambda point: {**sizes_at(forward, point.seed, point.number, rational=rational), **(sizes or {})}


Compare = Callable[[Derivation, _Point, Mapping[str, int], _Numbers], Sides]
"""What a derivation gives at a point, and what dual numbers do: of the point, sizes and numbers."""


def _by_duals(
    compare: Compare,
    derivation: Derivation,
    seed: int,
    sizes: Mapping[str, int] | None,
    kind: Kind | None,
    bound: FailureBound | None,
    number: int,
) -> list[str]:
    """What differs from dual numbers at the first point that is defined."""
    at, roots = _sized(derivation.forward, sizes), takes_roots(derivation.forward)

    def attempt(point: _Point) -> list[str]:
        numbers = point.numbers(roots, kind)
        return point.differing(compare(derivation, point, at(point), numbers), numbers.computed_in)

    return _at_point(attempt, seed, number, bound)


@dataclass(frozen=True)
class _Moved:
    """A program at a random point, and what moves in it along random tangents, by dual numbers."""

    inputs: dict[str, Nested]
    values: dict[str, Nested]
    tangents: dict[str, Nested]
    moved: dict[str, Nested]
    exact: dict[str, Any]


def _moved(
    forward: Program, point: _Point, chance: random.Random, sizes: Mapping[str, int], numbers: _Numbers
) -> _Moved:
    arithmetic = numbers.computed_in
    duals = Duals(arithmetic)
    inputs, parameters = point.drawn(forward, sizes, numbers, chance)
    moving, tangents = dict(inputs), {}
    for given in forward.inputs:
        if given.differentiable:
            shape = lengths(given.tensor.shape, sizes)
            tangents[given.name] = filled(shape, partial(numbers.draw, chance))
            moving[given.name] = _paired(inputs[given.name], tangents[given.name], len(shape), duals)
    exact: dict[str, Any] = {"sizes": sizes, "parameters": parameters}
    values = interpret(forward, inputs, arithmetic=arithmetic, **exact)
    return _Moved(inputs, values, tangents, interpret(forward, moving, arithmetic=duals, **exact), exact)


def _forward_mode(derivation: Derivation, point: _Point, sizes: Mapping[str, int], numbers: _Numbers) -> Sides:
    chance, forward, arithmetic = random.Random(point.seed), derivation.forward, numbers.computed_in
    at = _moved(forward, point, chance, sizes, numbers)
    pushed = pulled = arithmetic.number(0)
    cotangents = {}
    for output in forward.outputs:
        cotangent = filled(lengths(output.tensor.shape, sizes), partial(numbers.draw, chance))
        cotangents[derivation.names[output.name]] = cotangent
        rank = len(output.axes)
        for weight, number in zip(entries(cotangent, rank), entries(at.moved[output.name], rank), strict=True):
            pushed = pushed + arithmetic.number(weight) * number.tangent
    known = {**at.inputs, **at.values, **cotangents}
    needed = {i.name: known[i.name] for i in derivation.derived.inputs}
    gradients = interpret(derivation.derived, needed, arithmetic=arithmetic, **at.exact)
    for name, tangent in at.tangents.items():
        rank = len(forward.input(name).axes)
        gradient = gradients[derivation.names[name]]
        for weight, number in zip(entries(tangent, rank), entries(gradient, rank), strict=True):
            pulled = pulled + arithmetic.number(weight) * number
    return {"the product with a tangent": [(pushed, pulled)]}


def tangents_agree(
    derivation: Derivation,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    *,
    kind: Kind | None = None,
    bound: FailureBound | None = None,
    number: int = 0,
) -> list[str]:
    """The tangents of a derivation in forward mode that are not what dual numbers give; empty where all are.

    Parameters and errors are those of :func:`forward_mode_agrees`.
    """
    return _by_duals(_tangents, derivation, seed, sizes, kind, bound, number)


def _tangents(derivation: Derivation, point: _Point, sizes: Mapping[str, int], numbers: _Numbers) -> Sides:
    forward, names, arithmetic = derivation.forward, derivation.names, numbers.computed_in
    at = _moved(forward, point, random.Random(point.seed), sizes, numbers)
    known = {**at.inputs, **at.values, **{names[n]: tangent for n, tangent in at.tangents.items()}}
    needed = {i.name: known[i.name] for i in derivation.derived.inputs}
    found = interpret(derivation.derived, needed, arithmetic=arithmetic, **at.exact)
    sides: Sides = {}
    for output in forward.outputs:
        pairs = paired(found[names[output.name]], at.moved[output.name], len(output.axes))
        sides[output.name] = [(got, number.tangent) for got, number in pairs]
    return sides


def _paired(values: Nested, tangents: Nested, rank: int, duals: Duals) -> Nested:
    if rank == 0:
        return duals.dual(values, tangents)
    return [_paired(v, t, rank - 1, duals) for v, t in zip(values, tangents, strict=True)]
