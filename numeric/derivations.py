"""Derivations behind programs, by name: what is proved, mutated and lowered. The oracle knows nothing of them."""

from __future__ import annotations

from derive.calculus import Derivation, backward
from derive.modes import program

_DERIVATIONS: dict[tuple[object, ...], Derivation] = {}


def derivation_of(name: str) -> Derivation:
    """The derivation behind a program, made once for each set of definitions that bears the name."""
    source = program(name)
    key = (name, source.inputs, source.parameters, source.definitions, source.outputs)
    if key not in _DERIVATIONS:
        _DERIVATIONS[key] = backward(source)
    return _DERIVATIONS[key]
