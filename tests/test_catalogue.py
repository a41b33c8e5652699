"""Every program that comes with the package: derived in two ways that agree, and run against the definitions."""

from __future__ import annotations

from itertools import islice

import pytest

import numeric
from derive.errors import AlgebraError
from derive.forward import names
from derive.proof.checks import compacting_changed_nothing
from numeric.backends import backend
from numeric.oracle import derivation_of
from numeric.properties import LIMIT, any_program
from numeric.verify import samples


@pytest.mark.parametrize("name", names())
def test_the_compact_gradients_equal_the_bare_chain_rule(name: str) -> None:
    try:
        assert compacting_changed_nothing(derivation_of(name)) == []
    except AlgebraError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", numeric.programs())
def test_kernels_equal_the_definitions(name: str) -> None:
    """Every property of any program, on the NumPy backend, with and without optional inputs."""
    kernel, device = numeric.load(name), backend("numpy")
    for sample in islice(samples(kernel, device), 2):
        for prop in any_program.properties:
            error = prop.body(kernel, device, sample)
            assert error is None or error <= LIMIT, f"{prop.name}: {error}"
