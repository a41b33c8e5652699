"""Units of error: what rounding alone may do to each entry of an exact result.

A rounding model says where a correct kernel may round, and how far. The definitions are evaluated, and the chain rule
is applied, with :data:`DIRECTIONS` independent random perturbations of that size at every such place carried along as
tangents (:mod:`numeric.oracle.jets`). At a result each tangent is one sample of the error that roundings cause, to
first order: its root mean square over the directions estimates the standard deviation σ of that error,

    σ² = Σ (slope of the entry in a perturbed number)² · (size of its rounding)²,

entry by entry, without any formula for the entry. The unit is c·σ, plus one rounding of the result to the dtype that it
is stored in, plus what underflow may do.

σ comes from 32 samples, so it is a little off: (error/σ̂) follows Student's t distribution with 32 degrees of freedom
rather than the normal one. Where that needs 5.3 standard deviations for one false alarm in ten million entries, t needs
6.9. Signs are drawn, not normal numbers, so that where one rounding decides, its size is exact, and not estimated. A
rounding is uniform within ±u·2^e and mostly smaller than the u·|x| that is drawn: its own standard deviation is 0.42 of
that. So c = 4 leaves room: 6.9 · 0.42 = 2.9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from derive.algebra.axes import Axis
from numeric.oracle.evaluation import Asked, Reader
from numeric.oracle.floats import Floats
from numeric.oracle.jets import DIRECTION, Jet, Jets, Roundings
from numeric.oracle.labelled import Host, Label, Labelled, Labels
from numeric.oracle.machine import Machine
from numeric.oracle.plan import Planned
from numeric.oracle.rounding import Rounding
from numeric.oracle.steps import Power, Product, Read
from numeric.oracle.terms import Term

DIRECTIONS = 32
"""How many random perturbations estimate a standard deviation."""

SCALE = 4.0
"""c: standard deviations of the perturbed results in a unit."""

AT_ONCE = 2**22
"""How many tangents of one array are carried at once; more directions are carried one part after another."""


MOVING = Floats(np.float64)
"""Tangents need no more digits than these."""


@dataclass(frozen=True)
class Samples:
    """Samples of the first-order error, directions first, of outputs and gradients; root mean squares of the rest."""

    outputs: dict[str, Host]
    gradients: dict[str, Host]
    definitions: dict[str, Host]
    cotangents: dict[str, Host]


def samples(asked: Asked, base: Any, model: Rounding, dtype: str) -> Samples:
    """Errors of all results under a rounding model, for arrays of a dtype: as large as they are."""
    amounts = model.amounts(dtype)
    largest = _largest(asked)
    at_once = max(4, min(DIRECTIONS, AT_ONCE // max(largest, 1)))
    rng = np.random.default_rng(20_240_229)
    parts: list[Samples] = []
    for first in range(0, DIRECTIONS, at_once):
        count = min(at_once, DIRECTIONS - first)
        kind = Jets(base, MOVING, Roundings(amounts, rng, count, SCALE))
        machine = asked.evaluated(kind, Following)
        reader = Reader(asked, machine, _tangents, (DIRECTION,))
        reader.sizes = {**machine.sizes, DIRECTION: count}
        with np.errstate(all="ignore"):
            found = Samples(reader.outputs(), reader.gradients(), reader.definitions(), reader.cotangents())
        parts.append(_sized(found, amounts.unit))
    return _joined(parts)


def _largest(asked: Asked) -> int:
    """The number of entries of the largest tensor."""
    call = asked.call
    sizes = {axis: 0 for d in call.program.definitions for axis in d.axes}
    names = call.named_sizes
    for axis in sizes:
        sizes[axis] = int(axis.size.xreplace({s: sp.Integer(names[str(s)]) for s in axis.size.free_symbols}))
    leading = int(np.prod(call.leading, dtype=int))
    lengths = [int(np.prod([sizes[a] for a in d.axes], dtype=int)) for d in call.program.definitions]
    return leading * max([*lengths, *(a.size for a in call.inputs.values())], default=1)


def _tangents(jet: Jet) -> tuple[Host, Labels]:
    if jet.tangents is None:
        return np.zeros(()), ()
    plain = MOVING.plain(jet.tangents)
    return plain.data, plain.labels


def _sized(found: Samples, unit: float) -> Samples:
    """Errors in place of multiples of the unit roundoff; mean squares where no more is kept."""
    with np.errstate(all="ignore"):
        return Samples(
            {n: a * unit for n, a in found.outputs.items()},
            {n: a * unit for n, a in found.gradients.items()},
            {n: length(a * unit) for n, a in found.definitions.items()},
            {n: length(a * unit) for n, a in found.cotangents.items()},
        )


def _joined(parts: list[Samples]) -> Samples:
    def stacked(which: str) -> dict[str, Host]:
        first: dict[str, Host] = getattr(parts[0], which)
        return {n: np.concatenate([getattr(part, which)[n] for part in parts]) for n in first}

    def root(which: str) -> dict[str, Host]:
        first: dict[str, Host] = getattr(parts[0], which)
        return {n: length(np.stack([getattr(p, which)[n] for p in parts])) / math.sqrt(DIRECTIONS) for n in first}

    return Samples(stacked("outputs"), stacked("gradients"), root("definitions"), root("cotangents"))


class Following(Machine):
    """The evaluator that follows roundings, those of stored outputs in row sums of gradients among them.

    Where a definition A is divided by a sum along an axis (a softmax) and its products with something are summed along
    that axis (O = A V), the chain rule needs r = Σ_j dA ∘ A. Fused kernels take it from what they have stored,
    r = Σ_v dO ∘ O, so that roundings of O perturb r.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, rounds=True)
        self.from_outputs = _row_sums(self) if self.kind.roundings.amounts.from_outputs else {}

    def adjusted(self, planned: Planned, k: int, cotangent: Term) -> Term:
        """The cotangent of a reciprocal denominator, perturbed where it is a row sum."""
        for name, names in self.from_outputs.get((planned.name, k), ()):
            if name in self.cotangents:
                reciprocal = self.runs[planned.name].values[k].array
                cotangent = Term(self._perturbed(cotangent.array, name, names, reciprocal), cotangent.hidden)
        return cotangent

    def _perturbed(self, jet: Jet, output: str, names: dict[Label, Label], reciprocal: Jet) -> Jet:
        kind = self.kind
        terms = kind.multiply([_still(self.cotangents[output].array), _still(self.tensors[output].array)]).value
        light = kind.moving.light(terms)
        amount = np.where(np.isfinite(light.data), light.data, 0) * kind.roundings.amounts.from_outputs
        moved = Labelled(amount * kind.roundings.signs(amount.shape), (DIRECTION, *light.labels))
        rows = kind.moving.total(moved, [a for a in self.axes[output] if a not in names])
        inverse = kind.moving.power(kind.moving.light(reciprocal.value), Fraction(-1))
        tangents = kind.moving.multiply([rows.renamed(names), inverse])
        return Jet(jet.value, tangents if jet.tangents is None else kind.moving.add([jet.tangents, tangents]))


def _still(jet: Jet) -> Jet:
    return Jet(jet.value, None)


def _row_sums(machine: Machine) -> dict[tuple[str, int], list[tuple[str, dict[Label, Label]]]]:
    """For each step that divides by a sum, the outputs that its row sums may come from, with names for their axes."""
    found: dict[tuple[str, int], list[tuple[str, dict[Label, Label]]]] = {}
    for place, planned in enumerate(machine.plan.definitions):
        for k, step in enumerate(planned.steps):
            if not isinstance(step, Power) or step.exponent != -1 or not _sums(planned, step.base):
                continue
            lost = set(planned.definition.axes) - step.axes
            for later in machine.plan.definitions[place + 1 :]:
                for read in _weighted(later, planned.name, planned.definition.axes, lost):
                    own = dict(zip(planned.definition.axes, read.entry.indices, strict=True))
                    names: dict[Label, Label] = {own[axis]: axis for axis in step.axes if isinstance(own[axis], Axis)}
                    if len(names) == len(step.axes) and set(names) <= set(later.definition.axes):
                        found.setdefault((planned.name, k), []).append((later.name, names))
    return found


def _sums(planned: Planned, k: int) -> bool:
    """Whether a step is a sum over an axis, or has one among its terms."""
    step = planned.steps[k]
    parts = getattr(step, "parts", (k,))
    return any(isinstance(planned.steps[p], Product) and bool(planned.steps[p].over) for p in parts)  # type: ignore[attr-defined]


def _weighted(later: Planned, name: str, axes: tuple[Axis, ...], lost: set[Axis]) -> list[Read]:
    """Where a definition sums products with another along the axes that its denominator lost."""
    found = []
    for step in later.steps:
        if isinstance(step, Product) and step.over:
            for factor in (later.steps[k] for k in step.factors):
                if isinstance(factor, Read) and str(factor.entry.tensor.name) == name:
                    own = dict(zip(axes, factor.entry.indices, strict=True))
                    if all(own[axis] in step.over for axis in lost):
                        found.append(factor)
    return found


def length(errors: Host) -> Host:
    """The root of the sum of squares along the first dimension, whatever underflows when it is squared."""
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(errors), axis=0, initial=0)
        scale = np.where((largest > 0) & np.isfinite(largest), largest, 1)
        return np.asarray(scale * np.sqrt(np.square(errors / scale).sum(0)))


def root_mean_square(errors: Host) -> Host:
    """The standard deviation of errors of mean 0, directions first."""
    return length(errors) / math.sqrt(len(errors))
