"""The whole story, top to bottom: a forward definition becomes committed, readable kernels."""

from __future__ import annotations

from derive.calculus import Derivation, backward
from derive.forward import Program, names, program
from derive.lower import Kernel, dense
from derive.printers.module import module_source

TARGETS = ("numpy", "cupy")
"""The namespaces that modules are generated for."""


def derivation(source: Program) -> Derivation:
    """Derive the gradients of a program, with every step."""
    return backward(source)


def kernel(source: Program) -> Kernel:
    """Derive a program's gradients and schedule both passes as array statements."""
    return dense(derivation(source))


def module(source: Program, namespace: str) -> str:
    """The generated module of a program for one array namespace."""
    return module_source(kernel(source), kernel(source.plain()).operations, namespace)


def modules() -> dict[str, str]:
    """Every generated file: path below ``numeric/generated`` to contents, in a fixed order."""
    return {f"{target}/{name}.py": module(program(name), target) for target in TARGETS for name in names()}
