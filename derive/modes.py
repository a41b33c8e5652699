"""Modes: what else a program gives beside its gradients, each a program of its own.

* ``tangent``: outputs and their tangents along given directions (the JVP).
* ``double_backward``: the gradients as outputs, whose own backward pass is the double backward.
* ``hessian_vector``: the gradients and their change along given directions of the inputs.

What is true of any program is true of these: they are derived, printed, generated, proved and run by name,
``attention_tangent`` like ``attention``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from derive.calculus import Derivation, backward, joined, tangent
from derive.calculus.steps import marked
from derive.errors import DefinitionError
from derive.forward import Program, catalogue


def with_tangents(program: Program) -> Program:
    """The program with a tangent for every input and every output; it asks for no gradients.

    The tangents of required inputs are required, those of optional ones mean zero where they are left out.
    """
    derivation = tangent(program)
    whole = joined(derivation.forward, derivation.derived)
    optional = {derivation.names[name] for name in program.optional}
    inputs = tuple(
        replace(i, constant=True, neutral=i.neutral if i.name in program.tensors or i.name in optional else None)
        for i in whole.inputs
    )
    outputs = (*derivation.forward.outputs, *derivation.derived.outputs)
    return replace(
        whole,
        name=f"{program.name}_tangent",
        summary=f"{program.summary.rstrip('.')}, with tangents.",
        inputs=inputs,
        outputs=outputs,
        principal=(*program.principal_outputs, *(derivation.names[name] for name in program.principal_outputs)),
    ).returning(*(o.name for o in outputs))


def with_gradients(program: Program) -> Program:
    """The program's gradients ``grad_X`` as functions of its inputs and of what arrives for its outputs.

    What arrives for the first output is required; for another output, leaving it out means zero.
    """
    derivation = backward(program)
    whole = joined(derivation.forward, derivation.derived)
    first = derivation.names[program.outputs[0].name]
    optional = {derivation.names[name] for name in program.optional}
    required = [o for o in derivation.derived.outputs if o.name not in optional]
    if not required:
        raise DefinitionError(
            f"{program.name} has no input that a gradient is asked for, so there is none to go on from"
        )
    whole = replace(
        whole,
        name=f"{program.name}_double_backward",
        summary=f"Gradients of {program.name}, to be differentiated again.",
        inputs=tuple(replace(i, neutral=None) if i.name == first else i for i in whole.inputs),
        writing={},
        principal=tuple(o.name for o in required),
    ).returning(*(o.name for o in required))
    readable = marked(derivation.forward, "grad_", avoiding=whole.names)
    return whole.renamed({cotangent: readable[name] for name, cotangent in derivation.names.items()})


def hessian_vector(program: Program) -> Program:
    """The gradients, and their tangents for a fixed cotangent: a Hessian times a vector, without the Hessian."""
    return replace(
        with_tangents(_for_fixed_cotangents(program)),
        name=f"{program.name}_hessian_vector",
        summary=f"Gradients of {program.name} and their tangents.",
    )


def _for_fixed_cotangents(program: Program) -> Program:
    """The gradients as functions of the program's inputs alone."""
    gradients, own = with_gradients(program), {i.name for i in program.inputs}
    inputs = (i if i.name in own else replace(i, constant=True) for i in gradients.inputs)
    return replace(gradients, inputs=tuple(inputs))


MODES: dict[str, Callable[[Program], Program]] = {
    "tangent": with_tangents,
    "double-backward": with_gradients,
    "hessian-vector": hessian_vector,
}

_WIDELY_ASKED_FOR = (
    *("attention", "causal_attention", "grouped_query", "rope_attention", "softcap_attention", "llama_block"),
)

COMMITTED = (
    *(f"{name}_tangent" for name in _WIDELY_ASKED_FOR),
    *(f"{name}_double_backward" for name in _WIDELY_ASKED_FOR),
    "attention_hessian_vector",
)
"""The modes that come with the package as generated code, beside the programs themselves."""


def names() -> tuple[str, ...]:
    """The names of everything that comes as generated code: programs, then modes of some of them."""
    return (*catalogue.names(), *COMMITTED)


def program(name: str) -> Program:
    """The program of that name: one of the catalogue, of a file, or a mode of one, ``attention_tangent``."""
    base, mode = taken_apart(name)
    return in_mode(catalogue.program(base), mode)


def taken_apart(name: str) -> tuple[str, str]:
    """The program that a name speaks of, and its mode: ``attention_tangent`` is the tangent of attention."""
    for mode in MODES:
        suffix = f"_{mode.replace('-', '_')}"
        if name.endswith(suffix):
            return name.removesuffix(suffix), mode
    return name, "backward"


def derivation_in(source: Program, mode: str) -> Derivation:
    """What a mode differentiates, and every step of it."""
    derived: dict[str, Callable[[Program], Derivation]] = {
        "backward": backward,
        "tangent": tangent,
        "double-backward": lambda p: backward(with_gradients(p)),
        "hessian-vector": lambda p: tangent(_for_fixed_cotangents(p)),
    }
    return derived[mode](source)


def in_mode(source: Program, mode: str) -> Program:
    """A program in a mode; ``backward`` is the program itself."""
    if mode == "backward":
        return source
    if mode not in MODES:
        raise DefinitionError(f"there is no mode {mode!r}; there are backward, {', '.join(MODES)}")
    known, made = _MADE.get((source.name, mode), (None, None))
    if known is not source or made is None:
        made = MODES[mode](source)
        _MADE[source.name, mode] = source, made
    return made


_MADE: dict[tuple[str, str], tuple[Program, Program]] = {}
"""Modes that were made, with the programs they were made of: a file may define its program anew."""
