"""What a generated kernel says about itself: its tensors, parameters, outputs and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Array = Any
"""An array of whichever backend runs the kernel."""

Saved = dict[str, Any]
"""What a forward pass keeps for its backward pass."""


@dataclass(frozen=True)
class TensorSpec:
    """An input: its last axes by size name, and its neutral value if it is optional.

    An optional input broadcasts to its axes; leaving it out is the same as its neutral value everywhere.
    ``"h*g"`` is one dimension that holds two axes, and ``"2*p"`` one of even length. Integers are positions
    ``below`` a size, if it is given, and ``negative`` only where that is said.
    """

    name: str
    axes: tuple[str, ...]
    kind: Literal["real", "boolean", "integer"]
    meaning: str
    neutral: int | None = None
    below: str | None = None
    negative: bool = False

    @property
    def optional(self) -> bool:
        """Whether the input may be left out."""
        return self.neutral is not None

    @property
    def stays_small(self) -> bool:
        """Whether generated code takes the input as it broadcasts: where no axes share a dimension."""
        return self.optional and not any(len(factors_of(dim)) > 1 for dim in self.axes)


@dataclass(frozen=True)
class ParameterSpec:
    """A scalar that the caller may set."""

    name: str
    kind: Literal["real", "integer"]
    meaning: str
    least: int | None = None


@dataclass(frozen=True)
class OutputSpec:
    """An output; a statistic stays in the accumulation dtype when inputs have 16 bits."""

    name: str
    axes: tuple[str, ...]
    meaning: str
    statistic: bool = False


@dataclass(frozen=True)
class Signature:
    """The interface of one generated program.

    ``gradients`` names the inputs that the backward pass differentiates, ``cotangents`` the outputs whose
    cotangent it always takes: a missing one is filled with zeros, where others are left out. ``mark`` stands before
    a tensor's name in the name of its cotangent.
    """

    program: str
    inputs: tuple[TensorSpec, ...]
    parameters: tuple[ParameterSpec, ...]
    outputs: tuple[OutputSpec, ...]
    gradients: tuple[str, ...]
    cotangents: tuple[str, ...]
    mark: str = "d"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """The dimensions of every input and output by name."""
        inputs = {given.name: given.axes for given in self.inputs}
        return inputs | {made.name: made.axes for made in self.outputs}

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of all sizes, in order of appearance."""
        factors = (f for given in self.inputs for dim in given.axes for f in factors_of(dim))
        return tuple(dict.fromkeys(f for f in factors if not f.isdigit()))


def factors_of(dim: str) -> list[str]:
    """The axes that share a dimension: size names, or numbers."""
    return dim.split("*")
