"""Every mode of every program, run: committed or not, against the definitions, dual numbers and finite differences."""

from __future__ import annotations

import pytest

import numeric
from derive.forward import names
from derive.modes import MODES, program
from derive.pipeline import module
from numeric.backends import backend
from numeric.kernels import provide
from numeric.properties import LIMIT
from numeric.properties_attention import properties_for
from numeric.samples import Sample


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", names())
def test_a_mode_keeps_every_property_of_a_program(name: str, mode: str) -> None:
    """Tangents are held against the program's own gradients too: ⟨u, J v⟩ = ⟨Jᵀ u, v⟩."""
    made, device = f"{name}_{mode.replace('-', '_')}", backend("numpy")
    if made not in numeric.programs():
        provide(made, "numpy", module(program(made), "numpy"))
    kernel = numeric.load(made)
    sizes = {size: 2 + k % 2 for k, size in enumerate(kernel.signature.sizes)}
    sample = Sample(made, sizes, (), "float64", 0)
    checked = []
    for prop in properties_for(kernel):
        error = prop.body(kernel, device, sample)
        assert error is None or error <= LIMIT, f"{prop.name}: {error}"
        checked += [prop.name] if error is not None else []
    assert "outputs equal the definitions" in checked
    assert ("tangents and gradients are adjoint" in checked) == (mode == "tangent")
    assert ("finite differences agree" in checked) == (mode == "double-backward")
