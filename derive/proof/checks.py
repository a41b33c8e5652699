"""Checks of a whole derivation: that compacting changed nothing, and that forward mode agrees exactly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import sympy as sp

from derive.algebra import Entry
from derive.calculus import Derivation
from derive.forward.program import Definition, Program
from derive.proof.arithmetic import Duals, Weights
from derive.proof.fingerprint import agree, entries, filled, small_sizes
from derive.proof.interpreter import Nested, interpret


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


def whole(forward: Program, backward: Program) -> Program:
    """Forward and backward as one program of the forward inputs and the cotangents."""
    known = {i.name for i in forward.inputs} | {d.name for d in forward.definitions}
    cotangents = tuple(i for i in backward.inputs if i.name not in known)
    return replace(
        backward, inputs=(*forward.inputs, *cotangents), definitions=(*forward.definitions, *backward.definitions)
    )


def compacting_changed_nothing(derivation: Derivation, seed: int = 0) -> list[str]:
    """The gradients on which the compact program and the bare chain rule differ mod p; empty where they agree."""
    left = whole(derivation.forward, derivation.derived)
    right = whole(derivation.forward, uncompacted(derivation))
    order = {i.name: i for i in left.inputs}
    right = replace(right, inputs=tuple(order[n] for n in order if n in {i.name for i in right.inputs}))
    return agree(left, right, small_sizes(derivation.forward, seed), seed)


def forward_mode_agrees(derivation: Derivation, seed: int = 0, sizes: Mapping[str, int] | None = None) -> bool:
    """Whether ⟨cotangent, J·v⟩ = ⟨gradient, v⟩ exactly, in rational numbers.

    J·v comes from dual numbers run through the forward definitions, which shares nothing with reverse mode.
    """
    chance = random.Random(seed)
    sizes = dict(sizes or small_sizes(derivation.forward, seed))
    forward, weights = derivation.forward, Weights(seed)
    duals = Duals(weights)
    inputs: dict[str, Nested] = {}
    moving: dict[str, Nested] = {}
    tangents: dict[str, Nested] = {}
    for given in forward.inputs:
        shape = [sizes[str(s)] for s in given.tensor.shape]
        if given.tensor.boolean:
            inputs[given.name] = moving[given.name] = filled(shape, lambda: int(chance.random() < 0.7))
            continue
        inputs[given.name], tangents[given.name] = (filled(shape, lambda: _fraction(chance)) for _ in range(2))
        moving[given.name] = _paired(inputs[given.name], tangents[given.name], len(shape), duals)
    parameters = {p.name: _fraction(chance) for p in forward.parameters if not p.symbol.is_integer}
    values = interpret(forward, inputs, sizes=sizes, parameters=parameters, arithmetic=weights)
    moved = interpret(forward, moving, sizes=sizes, parameters=parameters, arithmetic=duals)
    pushed, cotangents = Fraction(0), {}
    for output in forward.outputs:
        cotangent = filled([sizes[str(s)] for s in output.tensor.shape], lambda: _fraction(chance))
        cotangents[derivation.names[output.name]] = cotangent
        rank = len(output.axes)
        pushed += sum(
            c * m.tangent for c, m in zip(entries(cotangent, rank), entries(moved[output.name], rank), strict=True)
        )
    known = {**inputs, **values, **cotangents}
    needed = {i.name: known[i.name] for i in derivation.derived.inputs}
    gradients = interpret(derivation.derived, needed, sizes=sizes, parameters=parameters, arithmetic=weights)
    pulled = Fraction(0)
    for name, tangent in tangents.items():
        rank = len(forward.input(name).axes)
        pulled += sum(
            t * g for t, g in zip(entries(tangent, rank), entries(gradients[derivation.names[name]], rank), strict=True)
        )
    return pushed == pulled


def _fraction(chance: random.Random) -> Fraction:
    return Fraction(chance.randint(-9, 9), chance.randint(1, 4))


def _paired(values: Nested, tangents: Nested, rank: int, duals: Duals) -> Nested:
    if rank == 0:
        return duals.dual(values, tangents)
    return [_paired(v, t, rank - 1, duals) for v, t in zip(values, tangents, strict=True)]
