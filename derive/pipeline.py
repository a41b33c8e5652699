"""The whole story, top to bottom: a forward definition becomes committed, readable kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derive.calculus import Derivation, backward
from derive.errors import PrintingError
from derive.forward import Program
from derive.lower import Kernel, dense
from derive.modes import derivation_in, in_mode, names, program
from derive.printers.module import TITLES, module_source
from derive.proof.vetting import vet

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
    return made(source).text(namespace)


def modules(*sources: Program) -> dict[str, str]:
    """Generated files by path, in a fixed order: of the given programs, or all those that come with the package."""
    return files([made(source) for source in sources or map(program, names())])


def files(everything: Sequence[Made]) -> dict[str, str]:
    """Generated files by path, of what was made."""
    return {f"{target}/{one.name}.py": one.text(target) for target in TARGETS for one in everything}


@dataclass(frozen=True)
class Made:
    """A program in a mode, scheduled; its modules of all namespaces share the schedule.

    ``plain_operations`` are those of its plain form.
    """

    source: Program
    mode: str
    kernel: Kernel
    plain_operations: int

    @property
    def name(self) -> str:
        """The program's name in its mode: ``attention_tangent``."""
        return self.kernel.derivation.forward.name

    def text(self, namespace: str) -> str:
        """The generated module for an array namespace."""
        return module_source(self.kernel, self.plain_operations, namespace)

    def vet(self) -> list[str]:
        """Hold it against its definitions before it is written, as :func:`derive.proof.vetting.vet` says."""
        in_reverse = self.mode in ("backward", "double-backward")
        derived = self.kernel.derivation if in_reverse else derivation_in(self.source, self.mode)
        return vet(self.source, self.mode, derived, self.kernel)


def made(source: Program, mode: str = "backward") -> Made:
    """Schedule a program in a mode."""
    whole = in_mode(source, mode)
    scheduled, plain = kernel(whole), whole.plain()
    return Made(source, mode, scheduled, (scheduled if plain == whole else kernel(plain)).operations)
