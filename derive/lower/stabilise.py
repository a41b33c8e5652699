"""Stabilisation: subtract the largest score before exponentiating.

Allowed by the shift invariance of every quotient of sums of exponentials; the pass shows the invariance
again for the program at hand. It writes exp(s) as P · exp(s − m) with P = exp(m), and every P must cancel.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Entry, Maximum, Tensor, Total, Visible, fold, free_axes
from derive.algebra.binders import rewrite
from derive.errors import LoweringError
from derive.forward.program import Definition, Program

RELIES_ON = "shift invariance"


def stabilise(program: Program) -> Program:
    """The program with every sum of exponentials taken relative to its largest visible score.

    Each such sum gives three definitions: the largest score ``S_max``, the shifted weights ``E`` and their
    sum ``Z``; what used the sum is rewritten with them.

    Raises
    ------
    LoweringError: a definition whose value depends on the shift.
    """
    taken = {i.name for i in program.inputs} | {d.name for d in program.definitions}
    definitions: list[Definition] = []
    shifts: dict[sp.Expr, tuple[Definition, ...]] = {}
    for definition in program.definitions:
        for score, weight, axes, over in _exponential_sums(definition):
            key = Total(weight * sp.exp(score), over)
            if key not in shifts:
                shifts[key] = _shift(score, weight, axes, over, taken)
                definitions += shifts[key]
            definition = _shifted(definition, score, axes, over, shifts[key])
        definitions.append(definition)
    return replace(program, definitions=tuple(definitions))


def _exponential_sums(definition: Definition) -> list[tuple[sp.Expr, sp.Expr, tuple[Axis, ...], Axis]]:
    """Each distinct Σ_over weight · exp(score) in a definition, at the definition's own axes where it has them."""
    found = []
    for total in sorted(definition.value.atoms(Total), key=sp.default_sort_key):
        if len(total.axes) != 1 or any(a.name.startswith("_") for a in free_axes(total)):
            continue
        exponentials = [f for f in sp.Mul.make_args(total.body) if isinstance(f, sp.exp)]
        if len(exponentials) != 1:
            continue
        over = _conventional(total.axes[0], definition)
        body = total.body.xreplace({total.axes[0]: over})
        exponential = next(f for f in sp.Mul.make_args(body) if isinstance(f, sp.exp))
        kept = tuple(a for a in definition.axes if a in free_axes(total))
        found.append((exponential.args[0], body / exponential, (*kept, over), over))
    return found


def _conventional(axis: Axis, definition: Definition) -> Axis:
    """The letter that the definition itself gives to this size, or one that it does not use."""
    own = [a for a in definition.axes if a.size == axis.size]
    return own[-1] if own else axis.renamed("j")


def _shift(
    score: sp.Expr, weight: sp.Expr, axes: tuple[Axis, ...], over: Axis, taken: set[str]
) -> tuple[Definition, Definition, Definition]:
    kept = tuple(a for a in axes if a != over)
    stem = score.tensor.name if isinstance(score, Entry) else "score"
    named = ((f"{stem}_max", kept), ("E", axes), ("Z", kept))
    largest, weights, total = (Tensor(_unused(name, taken), *own) for name, own in named)
    return (
        Definition(largest[kept], Maximum(Visible(weight, score), over)),
        Definition(weights[axes], weight * sp.exp(score - largest[kept])),
        Definition(total[kept], Total(weights[axes], over)),
    )


def _shifted(
    definition: Definition, score: sp.Expr, axes: tuple[Axis, ...], over: Axis, shift: tuple[Definition, ...]
) -> Definition:
    largest = shift[0].target
    peak = sp.Dummy("P", positive=True)
    entries = sorted(score.atoms(Entry), key=str)

    def relative(node: sp.Expr) -> sp.Expr:
        if not isinstance(node, sp.exp) or not node.args[0].has(Entry):
            return node
        here = node.args[0]
        same = len(here.atoms(Entry)) == len(entries)
        return peak * sp.exp(here - largest, evaluate=False) if same and free_axes(here) >= free_axes(largest) else node

    value = sp.expand_log(rewrite(definition.value, relative)).xreplace({sp.log(peak): largest})
    if value.has(peak):
        raise LoweringError(
            f"{definition.target} depends on a shift of the scores {score}: {RELIES_ON} does not hold for it"
        )
    equations = [(d.target, d.value) for d in shift[1:]]
    return replace(definition, value=fold(fold(value, equations[:1]), equations[1:]))


def _unused(name: str, taken: set[str]) -> str:
    unused = next(n for k in range(1, len(taken) + 2) if (n := name if k == 1 else f"{name}{k}") not in taken)
    taken.add(unused)
    return unused
