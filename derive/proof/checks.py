"""Checks of a whole derivation: that compacting changed nothing, and that forward mode agrees exactly."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import sympy as sp

from derive.algebra import Entry
from derive.calculus import Derivation, joined
from derive.errors import AlgebraError
from derive.forward.program import Definition, Program
from derive.lower import Kernel
from derive.proof.arithmetic import ORDERED, Arithmetic, Duals, Number, Weights
from derive.proof.degrees import Degrees, FailureBound
from derive.proof.fingerprint import (
    FiniteField,
    ShiftedField,
    Sides,
    both_sides,
    differing,
    entries,
    filled,
    lengths,
    paired,
    random_point,
    random_residue,
    small_sizes,
    where_defined,
)
from derive.proof.interpreter import Nested, interpret
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


def compacting_changed_nothing(derivation: Derivation, seed: int = 0, bound: FailureBound | None = None) -> list[str]:
    """The gradients on which the compact program and the bare chain rule differ at a random point, if any.

    This and the checks below note in ``bound`` how likely it is that they miss a difference.
    """
    left = joined(derivation.forward, derivation.derived)
    right = joined(derivation.forward, uncompacted(derivation))
    order = {i.name: i for i in left.inputs}
    right = replace(right, inputs=tuple(order[n] for n in order if n in {i.name for i in right.inputs}))
    field = _in_field(derivation.forward)
    bound = bound if field else None

    def attempt(seed: int) -> list[str]:
        arithmetic, draw = _numbers(seed, field, bound)
        return _noted(both_sides(left, right, small_sizes(derivation.forward, seed), seed, arithmetic, draw), bound)

    return where_defined(attempt, seed)


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
    return not asks or takes_roots(forward)


def _counting(field: FiniteField, bound: FailureBound | None) -> Arithmetic:
    """The field, with degrees where they are asked for."""
    return field if bound is None else Degrees(field)


def _noted(sides: Sides, bound: FailureBound | None) -> list[str]:
    """What differs; the degrees of all differences are noted."""
    if bound is not None:
        bound.note(sides)
    return differing(sides)


def schedule_differs(kernel: Kernel, seed: int = 0, bound: FailureBound | None = None) -> list[str]:
    """The outputs and gradients of a kernel that are not what its derivation defines, at a random point.

    Both run with every optional input given, with none, and with some. In the schedule every row's shift is a random
    number: what stabilisation subtracts may be anything (0 in rational numbers, where exp is an unknown function).
    Numbers are finite, so it is not asked whether the shift keeps exp from overflowing, and a product that multiplies
    what it should select is right where that is 0.
    A schedule that array code could not run is one finding that says why.
    """
    try:
        return where_defined(lambda s: _schedule(kernel, s, bound), seed)
    except ScheduleError as error:
        return [str(error)]


def _schedule(kernel: Kernel, seed: int, bound: FailureBound | None) -> list[str]:
    derivation, chance = kernel.derivation, random.Random(seed)
    sizes, field = small_sizes(derivation.forward, seed), _in_field(derivation.forward)
    whole = joined(derivation.forward, derivation.derived)
    arithmetic, draw = _numbers(seed, field, None)
    inputs, parameters = random_point(whole, sizes, chance, arithmetic=arithmetic, draw=draw)
    wrong: dict[str, None] = {}
    for left_out in _choices([n for n in inputs if n in kernel.may_be_none], chance):
        given = {name: value for name, value in inputs.items() if name not in left_out}
        shifted = ShiftedField()
        at = _counting(shifted, bound) if field else arithmetic
        shift = partial(shifted.shift, chance) if field else partial(at.number, 0)
        sides = _schedule_at(kernel, whole, given, at, shift, {"sizes": sizes, "parameters": parameters})
        wrong |= dict.fromkeys(_noted(sides, bound if field else None))
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


def _numbers(
    seed: int, field: bool, bound: FailureBound | None, kind: Kind | None = None
) -> tuple[Arithmetic, Callable[[random.Random], Number]]:
    """The arithmetic of a check, a finite field or rational numbers, and random numbers of it."""
    if field:
        return _counting(FiniteField(), bound), random_residue
    weights = Weights(seed, kind)
    return weights, lambda chance: weights.kind(chance.randint(-9, 9), chance.randint(1, 4))


def forward_mode_agrees(
    derivation: Derivation,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    *,
    kind: Kind | None = None,
    bound: FailureBound | None = None,
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

    Raises
    ------
    AlgebraError: there is no such size, or no random point at which the program is defined.
    """
    return not _by_duals(_forward_mode, derivation, seed, sizes, kind, bound)


def _sized(forward: Program, sizes: Mapping[str, int] | None) -> Callable[[int], dict[str, int]]:
    """From a seed to sizes: small and distinct ones, but for those that are given."""
    known = small_sizes(forward, 0)
    for name, length in (sizes or {}).items():
        if name not in known or not isinstance(length, int) or length < 0:
            raise AlgebraError(
                f"{forward.name} has no size {name} = {length!r}; give whole numbers for some of {', '.join(known)}"
            )
    return lambda seed: {**small_sizes(forward, seed), **(sizes or {})}


Compare = Callable[
    [Derivation, int, Mapping[str, int], Arithmetic, Callable[[random.Random], Number]],
    Sides,
]
"""What a derivation gives at a point, and what dual numbers do: of a seed, sizes, an arithmetic and its numbers."""


def _by_duals(
    compare: Compare,
    derivation: Derivation,
    seed: int,
    sizes: Mapping[str, int] | None,
    kind: Kind | None,
    bound: FailureBound | None,
) -> list[str]:
    """What differs from dual numbers at the first point that is defined."""
    at, roots = _sized(derivation.forward, sizes), takes_roots(derivation.forward)
    sides = where_defined(lambda s: compare(derivation, s, at(s), *_numbers(s, roots, bound, kind)), seed)
    return _noted(sides, bound if roots else None)


@dataclass(frozen=True)
class _Moved:
    """A program at a random point, and what moves in it along random tangents, by dual numbers."""

    inputs: dict[str, Nested]
    values: dict[str, Nested]
    tangents: dict[str, Nested]
    moved: dict[str, Nested]
    exact: dict[str, Any]


def _moved(
    forward: Program,
    chance: random.Random,
    sizes: Mapping[str, int],
    arithmetic: Arithmetic,
    draw: Callable[[random.Random], Number],
) -> _Moved:
    duals = Duals(arithmetic)
    inputs, parameters = random_point(forward, sizes, chance, arithmetic=arithmetic, draw=draw)
    moving, tangents = dict(inputs), {}
    for given in forward.inputs:
        if given.differentiable:
            shape = lengths(given.tensor.shape, sizes)
            tangents[given.name] = filled(shape, partial(draw, chance))
            moving[given.name] = _paired(inputs[given.name], tangents[given.name], len(shape), duals)
    exact: dict[str, Any] = {"sizes": sizes, "parameters": parameters}
    values = interpret(forward, inputs, arithmetic=arithmetic, **exact)
    return _Moved(inputs, values, tangents, interpret(forward, moving, arithmetic=duals, **exact), exact)


def _forward_mode(
    derivation: Derivation,
    seed: int,
    sizes: Mapping[str, int],
    arithmetic: Arithmetic,
    draw: Callable[[random.Random], Number],
) -> Sides:
    chance, forward = random.Random(seed), derivation.forward
    at = _moved(forward, chance, sizes, arithmetic, draw)
    pushed = pulled = arithmetic.number(0)
    cotangents = {}
    for output in forward.outputs:
        cotangent = filled(lengths(output.tensor.shape, sizes), lambda: draw(chance))
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
) -> list[str]:
    """The tangents of a derivation in forward mode that are not what dual numbers give; empty where all are.

    Parameters and errors are those of :func:`forward_mode_agrees`.
    """
    return _by_duals(_tangents, derivation, seed, sizes, kind, bound)


def _tangents(
    derivation: Derivation,
    seed: int,
    sizes: Mapping[str, int],
    arithmetic: Arithmetic,
    draw: Callable[[random.Random], Number],
) -> Sides:
    forward, names = derivation.forward, derivation.names
    at = _moved(forward, random.Random(seed), sizes, arithmetic, draw)
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
