"""Loading and running generated kernels. Imports no SymPy.

>>> import numpy as np
>>> import numeric
>>> kernel = numeric.load("attention")
>>> x = np.random.default_rng(0).normal(size=(3, 5, 4))
>>> result = kernel.forward(Q=x, K=x, V=x)
>>> gradients = kernel.backward(result, {"O": np.ones((3, 5, 4))})
>>> sorted(gradients)
['K', 'Q', 'V']
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numeric.generated.numpy as generated
from numeric.arguments import (
    ACCUMULATION,
    Arguments,
    Shape,
    check,
    check_cotangent,
    split,
    unknown_output,
    with_axes,
    with_dims,
)
from numeric.backends import Backend, backend, backend_of, to_backend
from numeric.errors import InputError, UnknownProgramError
from numeric.signature import Array, Saved, Signature, TensorSpec

_PROVIDED: dict[tuple[str, str], ModuleType] = {}


def programs() -> tuple[str, ...]:
    """The names of all generated programs that come with the package."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(generated.__path__)))


def provide(program: str, backend_name: str, source: str) -> None:
    """Take a generated module's source text for a program of the user's own; ``load`` then knows it.

    The text is run: give only what ``backprove generate`` made.
    """
    _PROVIDED[program, backend_name] = module_of(source, f"{program} for {backend_name}")


def module_of(source: str, label: str) -> ModuleType:
    """Generated source text, run as a module that no file holds; the label names it in tracebacks."""
    module = ModuleType("numeric.provided")
    exec(compile(source, f"<generated {label}>", "exec"), module.__dict__)
    return module


def load(program: str, backend: str | None = None) -> Kernel:
    """The kernel of a program.

    Parameters
    ----------
    program: a name from :func:`programs`.
    backend: ``"numpy"`` or ``"cupy"``; by default the backend of the arrays in each call. With
        ``"cupy"``, NumPy arrays are copied to the device and results stay there.

    Raises
    ------
    UnknownProgramError: there is no such program.
    BackendError: the backend is unknown, or cannot run on this machine.
    """
    if program not in programs() and (program, "numpy") not in _PROVIDED:
        raise UnknownProgramError(f"there is no program {program!r}; there are {', '.join(programs())}")
    return Kernel(program, backend)


@dataclass(frozen=True)
class Result:
    """What a forward pass of a program returns, and what its backward pass needs.

    outputs: by name, in the inputs' dtype (statistics such as L in the accumulation dtype).
    saved: the arrays and scalars that the backward pass uses; they may share memory with the inputs,
        so leave those as they are until then.
    """

    program: str
    outputs: dict[str, Array]
    saved: Saved
    backend: Backend
    arguments: Arguments


class Kernel:
    """A program's forward and backward pass on arrays; made by :func:`load`."""

    def __init__(self, program: str, backend_name: str | None) -> None:
        self.program = program
        self._fixed = None if backend_name is None else backend(backend_name)
        self.signature: Signature = _module(program, "numpy").SIGNATURE

    def __repr__(self) -> str:
        return f"Kernel({self.program!r}, backend={self._fixed.name if self._fixed else 'of the arrays'!r})"

    def forward(self, /, **inputs: Any) -> Result:
        """Run the forward pass.

        Inputs are arrays ``[.., axes]`` by name, all of one dtype: float64, float32, float16 or bfloat16
        (16-bit inputs are computed in float32). Leading axes broadcast. Optional inputs may be left out
        and broadcast to their axes; parameters are Python numbers. Inputs are never written.

        Raises
        ------
        InputError: a name, type, dtype or shape is wrong.
        """
        tensors, parameters = split(self.signature, inputs)
        chosen = self._fixed or backend_of(self.program, tensors)
        tensors = {n: to_backend(chosen, self.program, n, a) for n, a in tensors.items()}
        arguments = check(self.signature, tensors, parameters)
        with chosen.quiet():
            prepared = {n: self._prepared(chosen, n, a, arguments) for n, a in tensors.items()}
            try:
                outputs, saved = self._code(chosen.name).forward(**prepared, **arguments.parameters)
            except ZeroDivisionError:
                given = ", ".join(f"{n} = {v}" for n, v in arguments.parameters.items())
                raise InputError(f"{self.program}: with {given} the forward pass divides by 0; give others") from None
            specs = {o.name: o for o in self.signature.outputs}
            outputs = {n: with_dims(a, specs[n].axes, arguments.sizes) for n, a in outputs.items()}
            kept = ACCUMULATION[arguments.dtype.name]
            outputs = {  # asarray, because NumPy gives a number for an array without axes
                n: chosen.xp.asarray(_cast(a, kept if specs[n].statistic else arguments.dtype))
                for n, a in outputs.items()
            }
        return Result(self.program, outputs, saved, chosen, arguments)

    def backward(self, result: Result, cotangents: Mapping[str, Array]) -> dict[str, Array]:
        """Run the backward pass: gradients of Σ ⟨cotangent, output⟩ for every differentiable input given.

        A cotangent has the shape and dtype of its output; a missing one means zero. A gradient has the
        shape and dtype of its input: what was broadcast is summed.

        Raises
        ------
        InputError: a cotangent's name, type, dtype or shape is wrong.
        """
        if not self.signature.gradients:
            raise InputError(f"{self.program} has no backward pass: its results are outputs of its forward pass")
        if not isinstance(result, Result):
            raise InputError(f"{self.program}: {type(result).__name__} is no result; pass what forward(…) returned")
        if result.program != self.program:
            raise InputError(f"{self.program}: this result was made by {result.program}; use that kernel's backward")
        if not isinstance(cotangents, Mapping):
            raise InputError(
                f"{self.program}: cotangents are a {type(cotangents).__name__}; pass a dictionary, {{'O': dO}}"
            )
        given = {}
        for name, cotangent in cotangents.items():
            if name not in result.outputs:
                raise unknown_output(self.signature, name)
            if cotangent is not None:
                given[name] = to_backend(result.backend, self.program, f"the cotangent of {name}", cotangent)
                check_cotangent(self.program, name, given[name], result.outputs[name])
        xp, arguments = result.backend.xp, result.arguments
        compute = ACCUMULATION[arguments.dtype.name]
        for name in self.signature.cotangents:
            if name not in given:
                given[name] = xp.zeros_like(result.outputs[name])
        with result.backend.quiet():
            dims = self.signature.dims
            whole = {n: with_axes(_cast(a, compute), dims[n], arguments.sizes) for n, a in given.items()}
            prepared = {f"{self.signature.mark}{n}": a for n, a in whole.items()}
            gradients = self._code(result.backend.name).backward(**prepared, **result.saved)
            inputs = {n: a for n, a in arguments.tensors.items() if n in gradients}
            gradients = {n: with_dims(gradients[n], dims[n], arguments.sizes) for n in inputs}
            return {n: _cast(_reduced(xp, gradients[n], tuple(a.shape)), a.dtype) for n, a in inputs.items()}

    def _code(self, backend_name: str) -> ModuleType:
        """The generated module that runs."""
        return _module(self.program, backend_name)

    def _stays_small(self, spec: TensorSpec) -> bool:
        """Whether the generated code takes an input as it broadcasts."""
        return spec.stays_small

    def _prepared(self, chosen: Backend, name: str, array: Array, arguments: Arguments) -> Array:
        """An input as the generated code takes it: in the computing dtype, with full leading axes."""
        spec = next(s for s in self.signature.inputs if s.name == name)
        if spec.kind == "real":
            array = _cast(array, ACCUMULATION[arguments.dtype.name])
        if self._stays_small(spec):
            return array.reshape((1,) * (len(spec.axes) - array.ndim) + tuple(array.shape))
        return with_axes(chosen.xp.broadcast_to(array, arguments.shape_of(spec.axes)), spec.axes, arguments.sizes)


def _module(program: str, backend_name: str) -> ModuleType:
    provided = _PROVIDED.get((program, backend_name))
    return provided or importlib.import_module(f"numeric.generated.{backend_name}.{program}")


def _cast(array: Array, dtype: Any) -> Array:
    return array.astype(dtype, copy=False)


def _reduced(xp: Any, gradient: Array, shape: Shape) -> Array:
    """A gradient summed over the axes along which its input was broadcast."""
    extra = gradient.ndim - len(shape)
    stretched = [k + extra for k, length in enumerate(shape) if length == 1 and gradient.shape[k + extra] != 1]
    axes = (*range(extra), *stretched)
    return (xp.sum(gradient, axis=axes, keepdims=True) if axes else gradient).reshape(shape)
