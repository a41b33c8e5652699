"""Where a mistake can be made, and what becomes of the derivation then.

* ``backward``: one definition of the backward pass is wrong.
* ``recomputed``: the forward pass is right; the backward pass computes some of its tensors again, as fused kernels do
  with the weights, and makes the mistake there.
* ``together``: the forward pass is wrong, and the backward pass is derived from it. The two agree with each other, so
  comparing gradients with differences of that forward pass cannot show anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import sympy as sp

from derive.algebra import Axis, Entry, Tensor
from derive.algebra.axes import is_size
from derive.algebra.binders import rewrite
from derive.calculus import Derivation, backward
from derive.errors import DerivationError
from derive.forward.naming import unused
from derive.forward.program import Definition, Input, Program
from derive.forward.special import with_equal_sizes

Transformation = Callable[[Program], Program]
"""From a right program to a wrong one; :mod:`derive.mistakes.changes` has the building blocks."""

Place = Literal["backward", "recomputed", "together"]

PLACES: tuple[Place, ...] = get_args(Place)


def made_in(place: Place, change: Transformation, derivation: Derivation) -> Derivation:
    """The derivation of somebody who makes a change in a place; it has the steps of nobody.

    Raises
    ------
    DerivationError: the wrong program reads what the right one does not have, or has no derivative.
    DefinitionError: the changed definition is not there.
    """
    if place == "together":
        return _together(change, derivation)
    change = change if place == "backward" else _recomputing(change, derivation)
    wrong = change(derivation.derived)
    _check_parameters(wrong)
    return replace(derivation, derived=_with_inputs(wrong, derivation.forward), steps=())


def changed_in(place: Place, derivation: Derivation) -> Program:
    """The program whose definitions a mistake in that place changes."""
    return derivation.derived if place == "backward" else derivation.forward


def steps_in(place: Place, derivation: Derivation) -> tuple[Definition, ...]:
    """The definitions that count there: some of a forward pass are there for the backward pass to be written with."""
    program = changed_in(place, derivation)
    if place == "together":
        program = program.returning(*(o.name for o in program.outputs))
    return program.definitions


def changed(right: Program, wrong: Program) -> tuple[str, ...]:
    """The names of the definitions in which two programs differ, in order."""
    return tuple(d.name for d in right.definitions if wrong.definition(d.name).value != d.value)


def _together(change: Transformation, derivation: Derivation) -> Derivation:
    """Both passes of the changed forward pass, at equal sizes where it takes some to be equal."""
    forward = change(derivation.forward)
    _check_parameters(forward)
    while pairs := assumed_sizes(forward):
        forward = with_equal_sizes(forward, *pairs[0])
    return replace(backward(forward), steps=())


def _recomputing(change: Transformation, derivation: Derivation) -> Transformation:
    """What a changed forward definition spoils is computed again in the backward pass, which reads that instead."""
    wrong = change(derivation.forward)
    again: dict[Tensor, Tensor] = {}
    definitions: list[Definition] = []
    spoiled = set(changed(derivation.forward, wrong))
    taken = derivation.forward.names | derivation.derived.names

    def reread(expr: sp.Expr) -> sp.Expr:
        return rewrite(
            expr, lambda e: Entry(again[e.base], *e.indices) if isinstance(e, Entry) and e.base in again else e
        )

    for definition in wrong.definitions:
        tensor = definition.target.tensor
        if definition.name in spoiled or any(definition.mentions(t) for t in again):
            name = unused(f"{definition.name}_again", taken)
            own = tensor.over(*definition.axes, name=name)
            definitions.append(Definition(own[definition.axes], reread(definition.value)))
            again[tensor] = own

    def transformation(program: Program) -> Program:
        read = tuple(replace(d, value=reread(d.value)) for d in program.definitions)
        needed = {e.base for d in read for e in d.value.atoms(Entry)}
        kept: list[Definition] = []
        for definition in reversed(definitions):
            if definition.target.base in needed:
                needed |= {e.base for e in definition.value.atoms(Entry)}
                kept.insert(0, definition)
        inputs = tuple(i for i in program.inputs if i.tensor not in again)
        return replace(program, inputs=inputs, definitions=(*kept, *read))

    return transformation


def _check_parameters(wrong: Program) -> None:
    values = [d.value for d in wrong.definitions]
    labels = {t.args[0] for v in values for t in v.atoms(Tensor)}
    symbols = {s for v in values for s in v.atoms(sp.Symbol) if not isinstance(s, Axis) and not is_size(s)} - labels
    unknown = sorted(str(s) for s in symbols - {p.symbol for p in wrong.parameters})
    if unknown:
        raise DerivationError(f"it reads {', '.join(unknown)}, which is no parameter of {wrong.name}")


def _with_inputs(wrong: Program, forward: Program) -> Program:
    """A backward program with the forward tensors among its inputs that only the wrong formula reads."""
    known = {i.tensor for i in wrong.inputs} | {d.target.tensor for d in wrong.definitions}
    used: dict[Tensor, None] = {}
    for definition in wrong.definitions:
        for entry in sorted(definition.value.atoms(Entry), key=str):
            used.setdefault(entry.tensor)
    available: dict[Tensor, Input] = {i.tensor: i for i in forward.inputs}
    available |= {d.target.tensor: d.as_input() for d in forward.definitions}
    unknown = [str(t.name) for t in used if t not in known and t not in available]
    if unknown:
        raise DerivationError(f"it reads {', '.join(unknown)}, which {forward.name} does not have")
    return replace(wrong, inputs=(*wrong.inputs, *(available[t] for t in used if t not in known)))


def assumed_sizes(program: Program) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """The pairs of sizes that a program takes to be equal because an axis of one indexes the other.

    A derived program has none. A transposed factor has: A[j, i] reads keys where A has queries.
    """
    pairs: dict[tuple[sp.Expr, sp.Expr], None] = {}
    for definition in program.definitions:
        for entry in definition.value.atoms(Entry):
            for index, size in zip(entry.indices, entry.tensor.shape, strict=True):
                if isinstance(index, Axis) and index.size != size:
                    left, right = sorted((index.size, size), key=str, reverse=True)
                    pairs[left, right] = None
    return tuple(sorted(pairs, key=str))


def identified_sizes(right: Derivation, wrong: Derivation) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """The pairs of sizes that a wrong derivation takes to be equal: it is not even defined where they differ."""
    shapes = zip(right.forward.inputs, wrong.forward.inputs, strict=True)
    pairs = {pair for one, other in shapes for pair in zip(one.tensor.shape, other.tensor.shape, strict=True)}
    return (*sorted((p for p in pairs if p[0] != p[1]), key=str), *assumed_sizes(wrong.derived))
