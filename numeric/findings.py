"""Findings: what was found out about a property of a program, and with what evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from numeric.backends import Backend
from numeric.kernels import Kernel
from numeric.properties import LIMIT, Body
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


def measured(
    kernel: Kernel, device: Backend, name: str, evidence: str, body: Body, samples: Iterable[Sample]
) -> Finding:
    """The worst scaled error of a property's body over samples, and where it was reached."""
    worst, where = -1.0, ""
    for sample in samples:
        error = body(kernel, device, sample)
        if error is None:
            continue  # the property says nothing about this sample
        error = float("inf") if error != error else error  # NaN is no small error
        if error >= worst:
            worst, where = error, place(sample)
    if worst < 0:
        return Finding(
            kernel.program, name, device.name, "", "not measured", None, f"{name}: no sample that it speaks of"
        )
    holds = worst <= LIMIT
    return Finding(kernel.program, name, device.name, evidence, "holds" if holds else "fails", worst, where)


def place(sample: Sample) -> str:
    """Which sample it is, in words."""
    return f"{sample.dtype}, sizes {dict(sample.sizes)}, seed {sample.seed}"
