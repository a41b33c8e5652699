"""Every property of every program, on every backend: one body, shapes and options drawn by Hypothesis."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import numeric
from numeric.backends import Backend
from numeric.properties import LIMIT, Property
from numeric.properties_attention import properties_for
from numeric.samples import Sample
from numeric.verify import dtypes
from tests.families import ATTENTION
from tests.numeric.strategies import samples

CASES = [(name, prop) for name in ATTENTION for prop in properties_for(numeric.load(name))]


@pytest.mark.parametrize(("name", "prop"), CASES, ids=[f"{n}: {p.name}" for n, p in CASES])
@given(data=st.data())
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_property_holds(device: Backend, name: str, prop: Property, data: st.DataObject) -> None:
    """The scaled error stays within the limit for random shapes, dtypes, masks, layouts and cotangents."""
    kernel = numeric.load(name)
    sample = data.draw(samples(kernel.signature, tuple(dtypes(device))))
    error = prop.body(kernel, device, sample)
    assert error is None or error <= LIMIT, f"{prop.statement}: scaled error {error} for {sample}"


EDGES = [sizes for sizes in itertools.product((0, 1, 3), repeat=4) if 0 in sizes or 1 in sizes]


@pytest.mark.parametrize("prop_name", ["outputs equal the definitions", "gradients equal the chain rule"])
def test_edge_sizes(device: Backend, program: str, prop_name: str) -> None:
    """Sizes of 0 and 1 in every combination, with a mask and without, shapes kept and values exact."""
    kernel = numeric.load(program)
    prop = next(p for p in properties_for(kernel) if p.name == prop_name)
    for number, sizes in enumerate(EDGES):
        named = dict(zip(kernel.signature.sizes, sizes, strict=True))
        options = ((), ("mask",), ("bias",), ("mask", "bias"))[number % 4]
        sample = Sample(program, named, ((), (2,), (0,))[number % 3], "float64", number, options)
        error = prop.body(kernel, device, sample)
        assert error is None or error <= LIMIT, f"scaled error {error} for {sample}"
