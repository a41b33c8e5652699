"""Every program that comes with the package: derived in two ways that agree, and run against the definitions."""

from __future__ import annotations

from itertools import islice

import pytest

import numeric
from derive.errors import AlgebraError
from derive.modes import names
from derive.proof.checks import compacting_changed_nothing, forward_mode_agrees
from numeric.backends import backend
from numeric.oracle import derivation_of
from numeric.properties import LIMIT, run_of
from numeric.properties_attention import properties_for
from numeric.verify import samples


@pytest.mark.parametrize("name", names())
def test_the_compact_gradients_equal_the_bare_chain_rule(name: str) -> None:
    try:
        assert compacting_changed_nothing(derivation_of(name)) == []
    except AlgebraError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", names())
def test_forward_mode_agrees_exactly_or_in_a_finite_field(name: str) -> None:
    """A random point may lie where a definition is not defined, 0/0; another one is drawn then."""
    try:
        assert forward_mode_agrees(derivation_of(name))
    except AlgebraError as reason:
        pytest.skip(str(reason))


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
