"""Regimes of numbers: how the entries of inputs and cotangents are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from numeric.arguments import Shape
from numeric.runs import Host
from numeric.signature import TensorSpec


@dataclass(frozen=True)
class Values:
    """How entries are drawn, whatever they mean.

    spread, offset: a real entry is offset + spread · N(0, 1). whole: rounded to a whole number, so that products cancel
    exactly and what is compared is equal. zeros: the chance that an entry is 0; the first slice of every array is 0
    then too. positive: absolute values, away from 0, for functions that are defined there alone. visible: the chance
    that a 0/1 entry is 1. blind: the first row of 0/1 entries hides everything, and the last column is hidden from all.
    integers: ``"any"``, all the ``"same"``, or at the ``"ends"`` of their range. positions: integers that point at no
    axis lie below it, or so far beyond the longest size as it is negative. cotangents: the scale of cotangents.
    """

    spread: float = 1.0
    offset: float = 0.0
    whole: bool = False
    zeros: float = 0.0
    positive: bool = False
    visible: float = 0.7
    blind: bool = False
    integers: Literal["any", "same", "ends"] = "any"
    positions: int = 9
    cotangents: float = 1.0

    def drawn(self, rng: np.random.Generator, spec: TensorSpec, shape: Shape, sizes: Mapping[str, int]) -> Host:
        """The entries of an input, in float64, as integers or 0/1; ``sizes`` by name."""
        if spec.kind == "boolean":
            return self._shown(rng.random(shape) < self.visible, len(spec.axes))
        if spec.kind == "integer":
            return self._counted(rng, spec, shape, sizes)
        numbers = self.spread * rng.standard_normal(shape) + self.offset
        if self.whole:
            numbers = np.round(numbers)
        if self.zeros:
            numbers = np.where(rng.random(shape) < self.zeros, 0.0, numbers)
            if len(spec.axes) > 1:
                np.moveaxis(numbers, -len(spec.axes), 0)[0] = 0.0
        return np.abs(numbers) + self.spread / 4 if self.positive else numbers

    def _shown(self, shown: Host, own: int) -> Host:
        if self.blind and own and shown.size:
            if own > 1:
                shown[..., -1] = False
                shown[..., 0, :] = False
            else:
                shown[..., :1] = False
        return shown

    def _counted(self, rng: np.random.Generator, spec: TensorSpec, shape: Shape, sizes: Mapping[str, int]) -> Host:
        least = -1 if spec.negative or spec.below is None else 0
        largest = sizes[spec.below] if spec.below is not None else self.positions
        if largest < 0:
            largest = max(sizes.values(), default=0) - largest
        drawn = rng.integers(least, max(largest, least + 1), shape)
        if self.integers == "same":
            return np.full(shape, max(largest - 1, least))
        return np.where(drawn % 2 == 0, least, largest - 1) if self.integers == "ends" else drawn
