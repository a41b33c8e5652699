"""Findings: what was found out about a property of a program, and with what evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from numeric.backends import Backend
from numeric.errors import KernelError
from numeric.kernels import Kernel
from numeric.properties import LIMIT, Property
from numeric.samples import Sample

Status = Literal["holds", "fails", "not measured"]


@dataclass(frozen=True)
class Finding:
    """One row: a property of a program on a backend, the evidence, and the scaled error where there is one.

    ``missed`` is the power of two below which the probability lies that a fingerprint misses a difference; ``seed`` is
    what random points came from, where they are of finite fields or of rational numbers.
    """

    program: str
    property: str
    backend: str
    evidence: str
    status: Status
    error: float | None = None
    detail: str = ""
    missed: int | None = None
    seed: int | None = None


def measured(kernel: Kernel, device: Backend, prop: Property, samples: Iterable[Sample]) -> Finding:
    """The worst scaled error of a property over the samples that are asked about it, and where it was reached."""
    name, worst, where = prop.name, -1.0, ""
    for sample in filter(prop.asks, samples):
        try:
            error = prop.body(kernel, device, sample)
        except KernelError as broken:
            return Finding(kernel.program, name, device.name, "checked", "fails", float("inf"), f"{sample}: {broken}")
        if error is None:
            continue  # the property says nothing about this sample
        error = float("inf") if error != error else error  # NaN is no small error
        if error >= worst:
            worst, where = error, str(sample)
    if worst < 0:
        return Finding(
            kernel.program, name, device.name, "", "not measured", None, f"{name}: no sample that it speaks of"
        )
    holds = worst <= LIMIT
    return Finding(kernel.program, name, device.name, "checked", "holds" if holds else "fails", worst, where)
