"""Exact results, and errors of what was computed, in units of what rounding may cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numeric.oracle.labelled import Host
from numeric.oracle.rounding import DEFAULT, Rounding, largest, model, roundoff, underflow
from numeric.oracle.units import SCALE, root_mean_square

Sampled = Callable[[Rounding, str], Host]
"""Samples of the error, directions first, under a rounding model for arrays of a dtype."""


@dataclass(frozen=True)
class Exact:
    """An exact result in the shape of the caller's array, or a weighted sum of its entries.

    value: long doubles, or objects in many digits. dtype: that of the program's inputs. spread: the standard deviation
    of the error. ``stored`` is the root of the sum of squares that rounding every entry to its dtype adds up to, and
    ``entries`` by how much underflow counts; a single entry is rounded once, and for certain.
    """

    value: Host
    dtype: str
    spread: Sampled = field(repr=False)
    samples: Sampled | None = field(default=None, repr=False)
    stored: Host | None = field(default=None, repr=False)
    entries: Host | float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the caller's array."""
        return tuple(self.value.shape)

    def unit(self, dtype: str, rounding: str = DEFAULT) -> Host:
        """What rounding may do to each entry of an array that is stored in a dtype, under a rounding model; float64."""
        spread = self.spread(model(rounding), computed_in(self.dtype, dtype))
        stored = roundoff(dtype)
        small = underflow(dtype) * self.entries
        if self.stored is None:
            size = np.abs(self.value).astype(float)
            return np.asarray(SCALE * spread + np.where(np.isfinite(size), stored * size, 0) + small)
        return np.asarray(SCALE * np.hypot(spread, stored * self.stored) + small)

    def deviation(self, computed: Host) -> Host:
        """How far computed numbers are from exact ones, entry by entry; infinite where no computed number is right.

        An infinite one stands for all that are too large for its dtype: it is as far as the nearest of them.
        """
        if computed.shape != self.shape:
            raise ValueError(f"shapes differ: {computed.shape} and {self.shape}")
        if self.value.dtype == object:
            pairs = zip(computed.flat, self.value.flat, strict=True)
            found = np.array([_apart(float(got), want) for got, want in pairs], dtype=float)
            return found.reshape(self.shape)
        got = computed.astype(np.longdouble)
        with np.errstate(invalid="ignore"):
            apart = np.abs(got - self.value).astype(float)
            beyond = np.maximum(largest(computed.dtype.name) - self.value * np.sign(got), 0).astype(float)
        apart = np.where(np.isinf(got), beyond, np.where(np.isfinite(got), apart, np.inf))
        return np.where(got == self.value, 0.0, np.where(np.isfinite(self.value), apart, np.inf))

    def weighted(self, weights: Host, axis: int | tuple[int, ...]) -> Exact:
        """The sums of entries times weights along axes of the caller's array; weights broadcast to it.

        Their error is that of the sums: errors of single entries that cancel, cancel.
        """
        axes = tuple(k - self.value.ndim if k >= 0 else k for k in ((axis,) if isinstance(axis, int) else axis))
        if self.samples is None:
            raise ValueError("sums are known of outputs and gradients alone")
        source, wide = self.samples, np.asarray(weights).astype(float)
        full = np.broadcast_to(wide, self.shape)

        def samples(rounding: Rounding, dtype: str) -> Host:
            return np.asarray((source(rounding, dtype) * full).sum(axis=axes))

        value = (self.value * full.astype(self.value.dtype if self.value.dtype != object else object)).sum(axis=axes)
        sizes = np.where(full == 0, 0, np.abs(self.value).astype(float) * np.abs(full))
        stored = np.sqrt(np.square(sizes).sum(axis=axes))
        spread = _spread(samples)
        return Exact(np.asarray(value), self.dtype, spread, samples, np.asarray(stored), np.abs(full).sum(axis=axes))


def together(parts: Sequence[Exact]) -> Exact:
    """The sum of several sums, which are made of results of one run."""
    sampled = [part.samples for part in parts if part.samples is not None]

    def samples(rounding: Rounding, dtype: str) -> Host:
        return np.asarray(sum(one(rounding, dtype) for one in sampled))

    stored = np.sqrt(sum(np.square(part.stored) for part in parts if part.stored is not None))
    entries = sum(np.asarray(part.entries) for part in parts)
    value = np.asarray(sum(part.value for part in parts))
    return Exact(value, parts[0].dtype, _spread(samples), samples, np.asarray(stored), np.asarray(entries))


def _spread(samples: Sampled) -> Sampled:
    def spread(rounding: Rounding, dtype: str) -> Host:
        return root_mean_square(samples(rounding, dtype))

    return spread


def computed_in(inputs: str, stored: str) -> str:
    """The dtype whose rounding model counts: the inputs' where they have 16 bits and the result more, else its own."""
    return inputs if roundoff(inputs) > roundoff("float32") and roundoff(stored) < roundoff(inputs) else stored


def _apart(got: float, want: Any) -> float:
    if got == want:
        return 0.0
    return float(abs(got - want)) if np.isfinite(got) else float("inf")


@dataclass(frozen=True)
class Worst:
    """The entry with the largest error: in units of what rounding may cause, where, and what was expected there."""

    error: float
    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        return f"{self.got:.6g} for {self.expected:.6g} at {self.index}: {self.error:.3g} units"


def scaled_error(computed: Host, exact: Exact, rounding: str = DEFAULT) -> float:
    """The largest error of an array, in units of what rounding alone may cause under a rounding model.

    Correct kernels stay below 1; up to 2 is let pass. ``rounding`` is one of "exact dtype", "float32 inside" and
    "FlashAttention" (:mod:`numeric.oracle.rounding`); in float32 and float64 they are the same.
    """
    return worst(exact.deviation(computed), exact.unit(computed.dtype.name, rounding))


def worst_entry(computed: Host, exact: Exact, rounding: str = DEFAULT) -> Worst | None:
    """The entry with the largest scaled error; None of an array without entries."""
    if not computed.size:
        return None
    errors = ratios(exact.deviation(computed), exact.unit(computed.dtype.name, rounding))
    at = np.unravel_index(int(np.argmax(errors)), errors.shape)
    index = tuple(int(k) for k in at)
    return Worst(float(errors[index]), index, float(exact.value[index]), float(computed[index]))


def worst(deviations: Host, units: Host) -> float:
    """The largest deviation in its unit; 0 where nothing deviates, infinity where what must be exact does."""
    return float(np.max(ratios(deviations, units), initial=0.0))


def ratios(deviations: Host, units: Host) -> Host:
    """Deviations in their units; 0 where nothing deviates, infinite where one is no number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(deviations == 0, 0.0, deviations / units)
    return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True)
class ExactRun:
    """What one call should give: outputs, gradients by input, definitions, and cotangents of definitions, by name."""

    outputs: Mapping[str, Exact]
    gradients: Mapping[str, Exact]
    definitions: Mapping[str, Exact]
    cotangents: Mapping[str, Exact]
