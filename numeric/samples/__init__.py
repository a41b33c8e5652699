"""Samples: what kernels are run on, one home for `verify`, the matrix of mistakes and anyone's kernel.

:mod:`numeric.samples.plan` says in a table what every sample is for; :func:`samples_of` makes them for any program,
from its definitions alone. :class:`Sample` draws the arrays of one of them.
"""

from numeric.samples.plan import PLAN, Purpose, Takes, samples_of
from numeric.samples.sample import Sample, dtype
from numeric.samples.sizes import Sizes
from numeric.samples.values import Values

__all__ = [
    "PLAN",
    "Purpose",
    "Sample",
    "Sizes",
    "Takes",
    "Values",
    "dtype",
    "samples_of",
]
