"""Hundreds of calls drawn at random, of every program, dtype and scale: correct kernels stay below 1."""

from __future__ import annotations

import numpy as np
import pytest

import numeric
from numeric.backends import backend
from numeric.oracle import exact_run, ratios
from numeric.properties import run_of
from numeric.samples import Sample, Values
from numeric.verify import dtypes

UNDEFINED = ("adaptive_span_attention", "block_sparse_attention")
"""Not defined at all sizes: where a span reaches no key, 0 is divided by 0, and a layout has to have every block."""

CHUNKS, EACH = 20, 20


def drawn(seed: int) -> Sample:
    """A call: sizes from 3 up, because a norm of two entries is a constant, and rounding is all that is left of it."""
    rng = np.random.default_rng([31, seed])
    names = [name for name in numeric.programs() if name not in UNDEFINED]
    name = names[rng.integers(len(names))]
    signature = numeric.load(name).signature
    most = 7 if len(signature.sizes) > 4 else int(rng.choice([5, 10, 30, 80]))
    sizes = {size: int(rng.integers(3, most + 1)) for size in signature.sizes}
    given = tuple(s.name for s in signature.inputs if s.optional and rng.random() < 0.4)
    leading = () if rng.random() < 0.6 else (2,)
    storage, spread = rng.choice(dtypes(backend("numpy"))), rng.choice([0.1, 1, 1, 3])
    return Sample(
        name, sizes, leading, str(storage), int(rng.integers(2**30)), given, values=Values(spread=float(spread))
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_correct_kernels_stay_below_one(chunk: int) -> None:
    for seed in range(EACH * chunk, EACH * (chunk + 1)):
        sample = drawn(seed)
        made = run_of(numeric.load(sample.program), backend("numpy"), sample)
        exact = exact_run(sample.program, made.inputs, made.cotangents, made.parameters)
        known = {**{n: (a, exact.outputs[n]) for n, a in made.outputs.items()}}
        known |= {f"d{n}": (a, exact.gradients[n]) for n, a in made.gradients.items()}
        for name, (array, want) in known.items():
            found = ratios(want.deviation(array), want.unit(array.dtype.name))
            assert np.max(found, initial=0) < 1, f"{name} of {sample}"
