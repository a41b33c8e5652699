"""Drawing inputs for a program from its signature: shapes, options and a seed in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numeric.arguments import ACCUMULATION, dims_of
from numeric.backends import Backend
from numeric.kernels import Kernel, Result
from numeric.signature import Array, Signature, TensorSpec

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Sample:
    """What determines one call of a kernel; the same sample always draws the same arrays.

    sizes: by size name; leading: leading axes of every required input; given: the optional inputs that are
    passed; cotangents: the outputs that get one, all if None; visible: the chance that an entry of a visibility
    is True; spread: the scale of the entries; positions: what positions, buckets and documents are drawn below.
    """

    program: str
    sizes: Mapping[str, int]
    leading: tuple[int, ...] = ()
    dtype: str = "float64"
    seed: int = 0
    given: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cotangents: tuple[str, ...] | None = None
    visible: float = 0.7
    spread: float = 1.0
    positions: int = 9

    def inputs(self, signature: Signature) -> dict[str, np.ndarray[Any, Any]]:
        """The inputs as NumPy arrays in the sample's dtype."""
        rng = np.random.default_rng([self.seed, 1])
        drawn = {s.name: self._draw(rng, s) for s in signature.inputs}
        return {s.name: drawn[s.name] for s in signature.inputs if not s.optional or s.name in self.given}

    def _draw(self, rng: np.random.Generator, spec: TensorSpec) -> np.ndarray[Any, Any]:
        shape = (*self.leading, *dims_of(spec.axes, self.sizes))
        if spec.kind == "integer":
            largest = self.positions if spec.below is None else self.sizes[spec.below]
            return rng.integers(-1 if spec.negative or spec.below is None else 0, largest, shape)
        if spec.kind == "boolean":
            return rng.random(shape) < self.visible
        return (self.spread * rng.standard_normal(shape)).astype(dtype(self.dtype))

    def output_cotangents(self, result: Result) -> dict[str, np.ndarray[Any, Any]]:
        """Random cotangents for the sample's chosen outputs, shaped and typed like them."""
        rng = np.random.default_rng([self.seed, 2])
        drawn = {n: rng.standard_normal(tuple(a.shape)).astype(a.dtype) for n, a in result.outputs.items()}
        return {n: drawn[n] for n in drawn if self.cotangents is None or n in self.cotangents}


@dataclass(frozen=True)
class Run:
    """One forward and backward call, with everything on the host as NumPy arrays."""

    inputs: Arrays
    cotangents: Arrays
    outputs: Arrays
    gradients: Arrays
    parameters: Mapping[str, Any]
    compute_dtype: str


def run(kernel: Kernel, device: Backend, inputs: Arrays, cotangents: Any, parameters: Mapping[str, Any]) -> Run:
    """Run a kernel on a device. ``cotangents`` is a dictionary, or a function from the result to one."""
    moved = {n: device.xp.asarray(a) for n, a in inputs.items()}
    result = kernel.forward(**moved, **parameters)
    host_cotangents = cotangents(result) if callable(cotangents) else cotangents
    arriving = {n: device.xp.asarray(a) for n, a in host_cotangents.items()}
    gradients = kernel.backward(result, arriving) if kernel.signature.gradients else {}
    outputs, gradients = ({n: on_host(a) for n, a in d.items()} for d in (result.outputs, gradients))
    stored = next(a.dtype.name for a in inputs.values() if a.dtype.name in ACCUMULATION)
    return Run(inputs, host_cotangents, outputs, gradients, parameters, ACCUMULATION[stored])


def on_host(array: Array) -> np.ndarray[Any, Any]:
    """The array as a NumPy array."""
    host: np.ndarray[Any, Any] = array.get() if hasattr(array, "get") else np.asarray(array)
    return host


def dtype(name: str) -> Any:
    """The NumPy dtype of that name; bfloat16 comes from ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
