"""Every program that comes with the package: derived in two ways that agree, and run against the definitions."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import numeric
from derive.modes import names
from derive.proof.checks import compacting_changed_nothing, forward_mode_agrees
from numeric.backends import backend
from numeric.derivations import derivation_of
from numeric.properties import LIMIT, run_of
from numeric.properties_attention import properties_for
from numeric.samples import Sample
from numeric.verify import samples


@pytest.mark.parametrize("name", names())
def test_the_compact_gradients_equal_the_bare_chain_rule(name: str) -> None:
    """In a finite field, or exactly where a maximum of real numbers is taken."""
    assert compacting_changed_nothing(derivation_of(name)) == []


@pytest.mark.parametrize("name", names())
def test_forward_mode_agrees_exactly_or_in_a_finite_field(name: str) -> None:
    """A random point may lie where a definition is not defined, 0/0; another one is drawn then."""
    assert forward_mode_agrees(derivation_of(name))


@pytest.mark.parametrize("name", numeric.programs())
def test_kernels_equal_the_definitions(name: str) -> None:
    """Every property of any program, on the NumPy backend, with and without optional inputs."""
    kernel, device = numeric.load(name), backend("numpy")
    for sample in islice(samples(kernel, device), 2):
        for prop in properties_for(kernel):
            error = prop.body(kernel, device, sample)
            assert error is None or error <= LIMIT, f"{prop.name}: {error}"


@pytest.mark.parametrize("name", numeric.programs())
@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_outputs_and_gradients_have_the_dtype_that_is_promised(name: str, storage: str) -> None:
    """Positions and integer inputs do not make a result wider: statistics have the accumulation dtype, all else the
    inputs'."""
    kernel, device = numeric.load(name), backend("numpy")
    sample = next(s for s in samples(kernel, device) if s.dtype == storage)
    made = run_of(kernel, device, sample)
    kept = {o.name: "float32" if o.statistic else storage for o in kernel.signature.outputs}
    assert {n: a.dtype.name for n, a in made.outputs.items()} == kept
    assert {a.dtype.name for a in made.gradients.values()} <= {storage}


@pytest.mark.parametrize("name", numeric.programs())
def test_any_axis_may_be_empty(name: str) -> None:
    """No keys, no positions, no heads, no width: shapes are kept and nothing is divided by a size of 0.

    What cannot be is refused: rows that integers point at, and sizes that cannot be told apart in a dimension of 0.
    """
    kernel, device = numeric.load(name), backend("numpy")
    looked_up = {s.below for s in kernel.signature.inputs if s.below}
    for empty in set(kernel.signature.sizes) - looked_up:
        sizes = {n: 0 if n == empty else 2 + k % 2 for k, n in enumerate(kernel.signature.sizes)}
        refused = ""
        try:
            made = run_of(kernel, device, Sample(name, sizes, (2,), "float64", 0))
        except numeric.InputError as error:
            refused = str(error)
        if refused:
            assert "table" in refused or any(f"{empty}*" in d for s in kernel.signature.inputs for d in s.axes)
            continue
        assert all(not np.isnan(a).any() for a in (*made.outputs.values(), *made.gradients.values())), empty
