"""The whole story, top to bottom: a forward definition becomes committed, readable kernels."""

from __future__ import annotations

from derive.calculus import Derivation, backward
from derive.errors import PrintingError
from derive.forward import Program
from derive.lower import Kernel, dense
from derive.modes import names, program
from derive.printers.module import TITLES, module_source

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
    if namespace not in TITLES:
        raise PrintingError(f"there is no namespace {namespace!r}; there are {', '.join(TITLES)}")
    return module_source(*scheduled(source), namespace)


def scheduled(source: Program) -> tuple[Kernel, int]:
    """A program's kernel and the operations of its plain form: what the modules of all namespaces share."""
    made, plain = kernel(source), source.plain()
    return made, made.operations if plain == source else kernel(plain).operations


def modules(*sources: Program) -> dict[str, str]:
    """Generated files by path, in a fixed order: of the given programs, or all those that come with the package."""
    chosen = sources or tuple(program(name) for name in names())
    schedules = {source.name: scheduled(source) for source in chosen}
    return {f"{t}/{name}.py": module_source(*made, t) for t in TARGETS for name, made in schedules.items()}
