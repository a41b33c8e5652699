"""The checkers are checked: kernels that are wrong on purpose must fail the properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import numeric
from numeric.backends import backend
from numeric.findings import measured
from numeric.kernels import Kernel, Result
from numeric.oracle import exact_run, scaled_error
from numeric.properties import LIMIT, Property, any_program
from numeric.properties_attention import properties_for
from numeric.samples import Sample

Arrays = dict[str, np.ndarray]
SAMPLES = [
    Sample("attention", {"n": 4, "m": 6, "d": 3, "d_v": 5}, (2,), dtype, 7, ("mask",))
    for dtype in ("float64", "float32")
]


class Broken(Kernel):
    """A kernel whose gradients or outputs are tampered with."""

    def __init__(self, tamper: Callable[[Arrays, Result], Arrays], *, outputs: bool = False) -> None:
        super().__init__("attention", None)
        self.tamper, self.outputs = tamper, outputs

    def forward(self, **inputs: Any) -> Result:
        result = super().forward(**inputs)
        if self.outputs:
            result.outputs.update(self.tamper(result.outputs, result))
        return result

    def backward(self, result: Result, cotangents: Mapping[str, np.ndarray]) -> Arrays:
        gradients = super().backward(result, cotangents)
        return gradients if self.outputs else {**gradients, **self.tamper(gradients, result)}


def _scale(result: Result) -> float:
    return result.arguments.sizes["d"] ** -0.5


def _stale() -> Callable[[Arrays, Result], Arrays]:
    memory: list[Arrays] = []

    def tamper(gradients: Arrays, result: Result) -> Arrays:
        memory.append(gradients)
        return memory[0] if memory[0]["Q"].shape == gradients["Q"].shape else gradients

    return tamper


MISTAKES: dict[str, Callable[[Arrays, Result], Arrays]] = {
    "zeros": lambda g, r: {n: np.zeros_like(a) for n, a in g.items()},
    "unwritten": lambda g, r: {n: np.full_like(a, np.nan) for n, a in g.items()},
    "dQ off by a thousandth": lambda g, r: {"Q": (g["Q"] * 1.001).astype(g["Q"].dtype)},
    "one entry off": lambda g, r: {"K": _one_entry_off(g["K"])},
    "scale dropped in dQ": lambda g, r: {"Q": (g["Q"] / _scale(r)).astype(g["Q"].dtype)},
    "scale dropped in dQ and dK": lambda g, r: {n: (g[n] / _scale(r)).astype(g[n].dtype) for n in ("Q", "K")},
    "negated": lambda g, r: {n: -a for n, a in g.items()},
    "value gradient of equal weights": lambda g, r: {"V": g["V"].mean(-2, keepdims=True) + 0 * g["V"]},
    "keys permuted": lambda g, r: {"K": g["K"][..., ::-1, :]},
    "previous answer": _stale(),
}


def _one_entry_off(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[-1] += 64 * np.finfo(array.dtype).eps * max(abs(changed.flat[-1]), 1)
    return changed


@pytest.mark.parametrize("name", list(MISTAKES))
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.dtype)
def test_wrong_gradients_are_refused(name: str, sample: Sample) -> None:
    """Some property fails for every tampered gradient, and none for the untampered kernel."""
    kernel, device = Broken(MISTAKES[name]), backend("numpy")
    if name == "previous answer":
        kernel.backward(kernel.forward(**SAMPLES[0].inputs(kernel.signature)), {})
        sample = Sample(**{**sample.__dict__, "seed": 8})
    failing = [p.name for p in properties_for(kernel) if _fails(p.body(kernel, device, sample))]
    assert "gradients equal the chain rule" in failing
    if name != "one entry off":  # 64 roundings in one entry drown in what rounding may do to a whole sum
        assert "forward mode agrees" in failing, "an oracle that does not know reverse mode must see it too"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.dtype)
def test_the_true_kernel_passes_where_the_wrong_ones_fail(sample: Sample) -> None:
    """The same samples hold for the kernel itself."""
    kernel, device = numeric.load("attention"), backend("numpy")
    assert not [p.name for p in properties_for(kernel) if _fails(p.body(kernel, device, sample))]


OUTPUT_MISTAKES: dict[str, Callable[[Arrays, Result], Arrays]] = {
    "O off by a ten-thousandth": lambda o, r: {"O": (o["O"] * (1 + 1e-4)).astype(o["O"].dtype)},
    "L in base two": lambda o, r: {"L": (o["L"] / np.log(2)).astype(o["L"].dtype)},
    "O of the first batch entry": lambda o, r: {"O": o["O"][:1] + 0 * o["O"]},
}


@pytest.mark.parametrize("name", list(OUTPUT_MISTAKES))
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.dtype)
def test_wrong_outputs_are_refused(name: str, sample: Sample) -> None:
    """A tampered forward pass is told from the right one."""
    kernel, device = Broken(OUTPUT_MISTAKES[name], outputs=True), backend("numpy")
    prop = next(p for p in any_program.properties if p.name == "outputs equal the definitions")
    assert _fails(prop.body(kernel, device, sample))


def test_a_leak_from_hidden_entries_is_refused() -> None:
    """A kernel that lets NaN through from hidden keys fails, though it is right on finite inputs."""

    def leak(gradients: Arrays, result: Result) -> Arrays:
        K = result.arguments.tensors["K"]
        return {"Q": gradients["Q"] + 0 * K.sum()}

    kernel, device, sample = Broken(leak), backend("numpy"), SAMPLES[0]
    prop = next(p for p in properties_for(kernel) if p.name == "hidden entries contribute nothing")
    with np.errstate(invalid="ignore"):
        assert _fails(prop.body(kernel, device, sample))
    assert not _fails(any_program.properties[1].body(kernel, device, sample))


def test_small_gradients_are_judged_as_strictly_as_large_ones() -> None:
    """Gradients of a mean over many outputs are tiny; an error of 1 % in them is still refused."""
    kernel, sample = numeric.load("attention"), SAMPLES[0]
    inputs = sample.inputs(kernel.signature)
    result = kernel.forward(**inputs)
    dO = np.full(result.outputs["O"].shape, 1e-7)
    gradients = kernel.backward(result, {"O": dO})
    exact = exact_run("attention", inputs, {"O": dO}, {})
    assert float(np.abs(gradients["Q"]).max()) < 1e-6
    assert scaled_error(gradients["Q"], exact.gradients["Q"]) <= LIMIT
    assert scaled_error(gradients["Q"] * 1.01, exact.gradients["Q"]) > 1e9
    assert np.allclose(gradients["Q"] * 0, gradients["Q"], atol=1e-2), "what common practice would have passed"


def _fails(error: float | None) -> bool:
    return error is not None and not error <= LIMIT


def test_a_property_that_speaks_of_no_sample_is_not_measured_and_nan_is_no_small_error() -> None:
    """Neither is a success: an empty check, and an error that compares as smaller than nothing."""
    kernel, device = numeric.load("softmax_rows"), backend("numpy")
    silent = measured(kernel, device, Property("silent", "", lambda *_: None), SAMPLES)
    assert (silent.status, silent.evidence) == ("not measured", "")
    broken = measured(kernel, device, Property("broken", "", lambda *_: float("nan")), SAMPLES)
    assert (broken.status, broken.error) == ("fails", float("inf"))
