"""A sample: what determines one call of a kernel, and the arrays that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numeric.arguments import Shape, dims_of
from numeric.kernels import Result
from numeric.runs import Host
from numeric.samples.values import Values
from numeric.signature import Signature, TensorSpec


@dataclass(frozen=True)
class Sample:
    """What determines one call of a kernel; the same sample always draws the same arrays.

    sizes: by size name. leading: leading axes of every input that ``own_leading`` does not name with its own.
    given: the optional inputs that are passed; ``thin`` are those whose first axis has length 1. parameters: those that
    are not left to their defaults. cotangents: the outputs that get one, all if None. values: how entries are drawn.
    purpose: what the sample is for, in words. core: asked about every property, and not about results alone.
    """

    program: str
    sizes: Mapping[str, int]
    leading: Shape = ()
    dtype: str = "float64"
    seed: int = 0
    given: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cotangents: tuple[str, ...] | None = None
    values: Values = field(default_factory=Values)
    own_leading: Mapping[str, Shape] = field(default_factory=dict)
    thin: tuple[str, ...] = ()
    purpose: str = ""
    core: bool = True

    def __str__(self) -> str:
        """Which sample it is, in words: what it is for first, then what differs from the plainest call."""
        said = [f"{self.dtype}, sizes {dict(self.sizes)}"]
        if self.leading:
            said.append(f"leading axes {self.leading}")
        if self.own_leading:
            said.append(", ".join(f"{n} with {s}" for n, s in self.own_leading.items()))
        if self.given:
            said.append(f"given {', '.join(self.given)}")
        if self.parameters:
            said.append(", ".join(f"{n} = {v}" for n, v in self.parameters.items()))
        if self.cotangents is not None:
            said.append(f"cotangent of {', '.join(self.cotangents)} alone")
        text = ", ".join((*said, f"seed {self.seed}"))
        return f"{self.purpose}: {text}" if self.purpose else text

    def inputs(self, signature: Signature) -> dict[str, Host]:
        """The inputs as NumPy arrays in the sample's dtype."""
        rng = np.random.default_rng([self.seed, 1])
        drawn = {s.name: self._draw(rng, s) for s in signature.inputs}
        return {s.name: drawn[s.name] for s in signature.inputs if not s.optional or s.name in self.given}

    def _draw(self, rng: np.random.Generator, spec: TensorSpec) -> Host:
        own = dims_of(spec.axes, self.sizes)
        if spec.name in self.thin:
            own = (1, *own[1:])
        shape = (*self.own_leading.get(spec.name, self.leading), *own)
        drawn = self.values.drawn(rng, spec, shape, self.sizes)
        return drawn.astype(dtype(self.dtype)) if spec.kind == "real" else drawn

    def output_cotangents(self, result: Result) -> dict[str, Host]:
        """Random cotangents for the sample's chosen outputs, shaped and typed like them."""
        rng, scale = np.random.default_rng([self.seed, 2]), self.values.cotangents
        drawn = {n: (scale * rng.standard_normal(tuple(a.shape))).astype(a.dtype) for n, a in result.outputs.items()}
        return {n: drawn[n] for n in drawn if self.cotangents is None or n in self.cotangents}


def dtype(name: str) -> Any:
    """The NumPy dtype of that name; bfloat16 comes from ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
