"""Fixtures that every test body runs over: backends, programs, dtypes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from numeric.backends import Backend, backend, cupy_missing
from tests.families import ATTENTION

settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(params=["numpy", "cupy"])
def device(request: pytest.FixtureRequest) -> Backend:
    """A backend to run on; CuPy without a device is a skip that says why."""
    if request.param == "cupy" and (reason := cupy_missing()):
        pytest.skip(reason)
    return backend(request.param)


@pytest.fixture(params=ATTENTION)
def program(request: pytest.FixtureRequest) -> str:
    """The name of a generated program."""
    return str(request.param)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of its own for each test, the same on every run."""
    return np.random.default_rng(list(request.node.name.encode()))
