"""Where a program's definitions have values: what is asked of a kernel elsewhere says nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from derive.algebra import Axis, Entry
from derive.errors import AlgebraError
from derive.forward.program import Program
from numeric.errors import NumericError
from numeric.oracle import ORACLE
from numeric.oracle.calls import signature_of
from numeric.oracle.floats import Floats
from numeric.samples.sample import Sample


def is_defined(program: Program, sample: Sample, *, differentiated: bool = False) -> bool:
    """Whether every output has a value at a sample, and every gradient for cotangents of 1 where that is asked.

    A quotient by 0, the root of a negative number and an entry that a tensor does not have are no values; −∞, the
    logsumexp of nothing, is one.
    """
    try:
        inputs = sample.inputs(signature_of(program))
        base = Floats(np.longdouble)
        values = ORACLE.values(ORACLE.asked(program, inputs, {}, sample.parameters), base)
        found = list(values.outputs.values())
        if differentiated:
            ones = {name: np.ones(array.shape) for name, array in values.outputs.items()}
            asked = ORACLE.asked(program, inputs, ones, sample.parameters)
            found += ORACLE.values(asked, base).gradients.values()
    except (AlgebraError, NumericError, ZeroDivisionError):
        return False
    return not any(np.isnan(array.astype(float)).any() for array in found)


def looks_up(program: Program) -> bool:
    """Whether entries are read at computed positions, which may lie outside of a tensor for some sizes."""
    entries = (entry for d in program.definitions for entry in d.value.atoms(Entry))
    return any(not isinstance(index, Axis) for entry in entries for index in entry.indices)


def needs_positive(program: Program, plain: Sample) -> bool:
    """Whether the definitions have no value at ordinary numbers, but at positive ones, as logarithms of inputs do."""
    if is_defined(program, plain):
        return False
    return is_defined(program, replace(plain, values=replace(plain.values, positive=True)))
