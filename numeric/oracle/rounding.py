"""Rounding models: what a kernel is allowed to round, by name, and how far.

A model says how large the relative perturbations are that a correct kernel's result may differ by: of inputs, of the
values of definitions and of their cotangents, of function values, of the terms of sums. From them the oracle works out
the unit of error of every entry (:mod:`numeric.oracle.units`). Nothing here knows any kernel's formula.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from derive.errors import AlgebraError
from numeric.arguments import ACCUMULATION


@dataclass(frozen=True)
class Amounts:
    """A model at a dtype.

    unit: the unit roundoff of the dtype that sums are computed in. sizes: relative perturbations by place, in that
    unit. least: the smallest absolute perturbation of what is stored, in that unit, where subnormal numbers begin
    early. from_outputs: the size of the rounding of stored outputs that row sums of gradients are taken from, or 0.
    """

    unit: float
    sizes: Mapping[str, float]
    least: float = 0.0
    from_outputs: float = 0.0


PLACES = ("input", "value", "function", "total", "operand")
"""Where roundings are followed: inputs and parameters; definitions and their cotangents; values of functions; sums once
more when they are stored; operands of matrix products that are intermediate results."""


@dataclass(frozen=True)
class Rounding:
    """A rounding model: its name, and what it allows kernels on 16-bit arrays. It allows all others the same.

    everything: every intermediate result is stored in 16 bits. operands: those that enter matrix products are, and row
    sums Σ dO ∘ O are taken from the stored O. In float32 and float64 every operation is in that dtype.
    """

    name: str
    meaning: str
    everything: bool = False
    operands: bool = False

    def amounts(self, dtype: str) -> Amounts:
        """What the model allows for arrays of a dtype."""
        unit = roundoff(ACCUMULATION[dtype])
        stored = roundoff(dtype) / unit
        least = smallest(dtype) / unit
        plain = {"input": 1.0, "value": 1.0, "function": 1.0, "total": 0.0, "operand": 0.0}
        if stored == 1 or not (self.everything or self.operands):
            return Amounts(unit, plain)
        if self.everything:
            return Amounts(unit, dict.fromkeys(PLACES, stored) | {"operand": 0.0}, least)
        return Amounts(unit, plain | {"operand": stored}, least, stored)


MODELS: dict[str, Rounding] = {
    model.name: model
    for model in (
        Rounding(
            "exact dtype",
            "every operation in the dtype of the arrays; of 16 bits, sums are in float32 and every result is stored",
            everything=True,
        ),
        Rounding("float32 inside", "arrays of 16 bits are read and written; everything between is float32"),
        Rounding(
            "FlashAttention",
            "float32 inside, but what enters matrix products is rounded to 16 bits (P and dS), and row sums of "
            "gradients come from the stored output: D = rowsum(dO ∘ O)",
            operands=True,
        ),
    )
}
"""The rounding models by name. Kernels that this project generates are asked for "float32 inside"."""

DEFAULT = "float32 inside"


def model(name: str) -> Rounding:
    """The rounding model of that name."""
    if name not in MODELS:
        raise AlgebraError(f"there is no rounding model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]


def roundoff(dtype: str) -> float:
    """Unit roundoff u of a dtype: the largest relative error of rounding to it."""
    return {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]


def smallest(dtype: str) -> float:
    """The largest absolute error of rounding a small number to a dtype; 0 where that is beyond what matters here."""
    return {"float64": 0.0, "float32": 0.0, "float16": 2.0**-25, "bfloat16": 0.0}[dtype]


def underflow(dtype: str) -> float:
    """Below this, a result may lose digits to underflow."""
    return {"float64": 1e-300, "float32": 1e-35, "float16": 2.0**-24, "bfloat16": 1e-35}[dtype]


def largest(dtype: str) -> float:
    """The largest finite number of a dtype; what is larger is stored as infinity."""
    return {
        "float64": float(np.finfo(np.float64).max),
        "float32": float(np.finfo(np.float32).max),
        "float16": 65504.0,
        "bfloat16": float(2.0**128 - 2.0**120),
    }[dtype]
