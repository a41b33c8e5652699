"""Mistakes: wrong backward programs as data, each with the step that it breaks and the belief behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy as sp

from derive.algebra import Axis, Entry, Tensor
from derive.calculus import Derivation
from derive.errors import DefinitionError, DerivationError
from derive.forward.program import Input, Program

Transformation = Callable[[Program], Program]
"""From the right backward program to a wrong one; :mod:`derive.mistakes.changes` has the building blocks."""


@dataclass(frozen=True)
class Mistake:
    """One way to get a gradient wrong.

    name: how commands and tests refer to it; title: how a page heads it; breaks: the backward definition
    that is the first to be wrong; belief: what people say when they make it; why: what is wrong with that;
    change: the wrong program from the right one; violates: the name of a proved identity that the wrong
    gradient breaks (:func:`derive.proof.identities.identities`), or nothing where no identity notices; program: one in
    which it is made, for tests and reports.

    Sentences speak of queries, keys and tensors, never of rows and columns, so that they hold in every
    convention; tensors stand in backquotes, as in `A`, for pages to set as formulas.
    """

    name: str
    title: str
    breaks: str
    belief: str
    why: str
    change: Transformation
    violates: str = ""
    program: str = "attention"


def apply(mistake: Mistake, derivation: Derivation) -> Program:
    """The backward program of somebody who makes the mistake; it takes the inputs of the right one.

    Raises
    ------
    DefinitionError: the program has no definition of the name that the mistake changes.
    DerivationError: the mistake changes nothing, or not the step that it says it breaks.
    """
    right = derivation.derived
    wrong = mistake.change(right)
    if mistake.breaks not in changed(right, wrong):
        raise DerivationError(
            f"the mistake {mistake.name} leaves {mistake.breaks} of {right.name} as it is: "
            f"{mistake.breaks} = {right.definition(mistake.breaks).value} holds nothing that it changes"
        )
    return replace(wrong, inputs=(*wrong.inputs, *_missing_inputs(mistake, wrong, derivation.forward)))


def applies(mistake: Mistake, derivation: Derivation) -> bool:
    """Whether a program has the steps that the mistake breaks, something there to get wrong, and what it reads."""
    try:
        apply(mistake, derivation)
    except (DefinitionError, DerivationError):
        return False
    return True


def changed(right: Program, wrong: Program) -> tuple[str, ...]:
    """The names of the definitions in which two programs differ, in order."""
    return tuple(d.name for d in right.definitions if wrong.definition(d.name).value != d.value)


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


def _missing_inputs(mistake: Mistake, wrong: Program, forward: Program) -> tuple[Input, ...]:
    """Forward tensors that only the wrong formula reads."""
    known = {i.tensor for i in wrong.inputs} | {d.target.tensor for d in wrong.definitions}
    used: dict[Tensor, None] = {}
    for definition in wrong.definitions:
        for entry in sorted(definition.value.atoms(Entry), key=str):
            used.setdefault(entry.tensor)
    available = {i.tensor: i for i in forward.inputs} | {d.target.tensor: d.as_input() for d in forward.definitions}
    unknown = [str(t.name) for t in used if t not in known and t not in available]
    if unknown:
        raise DerivationError(f"mistake {mistake.name} reads {', '.join(unknown)}, which {forward.name} does not have")
    return tuple(available[t] for t in used if t not in known)
