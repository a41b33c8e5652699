"""Forward mode: from a program to the program of its outputs' tangents (the JVP)."""

from __future__ import annotations

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total, compacted, fold, from_terms, terms_of
from derive.calculus.partials import partials_of
from derive.calculus.parts import name_parts
from derive.calculus.steps import Derivation, Step, marked
from derive.calculus.unseen import guarded
from derive.forward.program import Definition, Input, Output, Program


def tangent(program: Program) -> Derivation:
    """Derive the outputs' tangents from the inputs' tangents: ``Y'[y] = Σ ∂f/∂X[q] · X'[q]``.

    The derived program's inputs are ``tX`` for every differentiable input X, and the forward tensors
    that the tangents use; its outputs are ``tY`` for every output Y.
    """
    program = name_parts(program)
    axes: dict[str, tuple[Axis, ...]] = {i.name: i.axes for i in program.inputs if i.differentiable}
    names = marked(program, "t")
    tangents = {name: Tensor(names[name], *own) for name, own in axes.items()}
    known = {d.target.base: d for d in program.definitions}
    equations = [(d.target, d.value) for d in program.definitions]
    definitions, steps = [], []
    for definition in program.definitions:
        raw = sp.S.Zero
        for tensor in sorted({e.tensor for e in definition.value.atoms(Entry)}, key=lambda t: str(t.name)):
            if str(tensor.name) in tangents:
                moved = tangents[str(tensor.name)]
                raw += sp.Add(
                    *(
                        Total(p.weight * moved[p.indices], *p.bound)
                        for p in partials_of(program.name, definition, definition.axes, tensor)
                    )
                )
        if raw == 0:
            continue
        tensor = Tensor(names[definition.name], *definition.axes)
        tangents[definition.name], axes[definition.name] = tensor, definition.axes
        value = guarded(compacted(fold(from_terms(terms_of(raw)), equations)), known)
        target = tensor[definition.axes]
        steps.append(
            Step(
                str(tensor.name), "tangent", target, raw, value, f"the differential of {definition.name}", (definition,)
            )
        )
        definitions.append(Definition(target, value))
        equations.append((target, value))
    for output in program.outputs:
        if output.name not in tangents:  # it depends on nothing that moves
            tangents[output.name] = Tensor(names[output.name], *output.axes)
            definitions.append(Definition(tangents[output.name][output.axes], sp.S.Zero))
    outputs = tuple(
        Output(tangents[o.name], o.axes, f"tangent of {o.name}", o.statistic, o.dims) for o in program.outputs
    )
    derived = {d.target.base for d in definitions}
    used = {e.base for d in definitions for e in d.value.atoms(Entry)} - derived
    given = [
        Input(tangents[i.name], i.axes, f"tangent of {i.name}", 0, i.dims) for i in program.inputs if i.name in tangents
    ]
    kept = [d.as_input() for d in program.definitions]
    inputs = (*given, *(i for i in program.inputs if i.tensor in used), *(k for k in kept if k.tensor in used))
    result = Program(
        f"{program.name}_tangent",
        f"Tangents of {program.name}, derived from its definitions.",
        inputs,
        program.parameters,
        tuple(definitions),
        outputs,
        program.axis_meaning,
        program.writing,
    )
    return Derivation(program, result, tuple(steps), names)
