"""Queries, keys, values and gradients recorded in two layers of a trained sentence encoder.

Batch 2, 12 heads, 18 positions, head size 32; ``key_is_real`` is False at the padding of the shorter sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numeric
from numeric.backends import Backend

DATA = Path(__file__).parents[1] / "data"
LAYERS = ("minilm_layer0", "minilm_layer3")
RECORDED = {"O": "o", "Q": "dq", "K": "dk", "V": "dv"}
Arrays = dict[str, np.ndarray]


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> Arrays:
    """The recorded arrays of one layer, in float64."""
    with np.load(DATA / f"{request.param}.npz") as file:
        return dict(file)


def attend(device: Backend, layer: Arrays, dtype: str, mask: np.ndarray | None) -> Arrays:
    """O and the gradients with respect to Q, K and V, computed by `attention` in the dtype given."""
    q, k, v, do = (device.xp.asarray(layer[name].astype(dtype)) for name in ("q", "k", "v", "do"))
    kernel = numeric.load("attention")
    result = kernel.forward(Q=q, K=k, V=v, mask=None if mask is None else device.xp.asarray(mask))
    return {n: on_host(a) for n, a in {"O": result.outputs["O"], **kernel.backward(result, {"O": do})}.items()}


def on_host(array: Any) -> np.ndarray:
    """The array as a NumPy array."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def errors(computed: Arrays, layer: Arrays) -> dict[str, float]:
    """‖X̂ − X‖_F / ‖X‖_F of O and of each gradient."""
    recorded = {n: layer[key] for n, key in RECORDED.items()}
    return {n: float(np.linalg.norm(computed[n] - x) / np.linalg.norm(x)) for n, x in recorded.items()}


def real_keys(layer: Arrays) -> np.ndarray:
    """The mask ``[batch, 1, 1, m]`` that hides the padding."""
    return layer["key_is_real"][:, None, None, :]


def test_reproduced_in_float64(device: Backend, layer: Arrays) -> None:
    """O, dQ, dK and dV agree with the recorded ones to 1e-12 in the Frobenius norm."""
    computed = attend(device, layer, "float64", real_keys(layer))
    assert {a.dtype.name for a in computed.values()} == {"float64"}
    assert max(errors(computed, layer).values()) <= 1e-12


def test_reproduced_in_float32(device: Backend, layer: Arrays) -> None:
    """In float32 the error stays within 30 unit roundoffs of each tensor's norm."""
    computed = attend(device, layer, "float32", real_keys(layer))
    assert {a.dtype.name for a in computed.values()} == {"float32"}
    assert max(errors(computed, layer).values()) <= 30 * 2.0**-24


def test_padding_gets_no_gradient(device: Backend, layer: Arrays) -> None:
    """The gradients of padding keys and values are exactly 0, and there are some."""
    padding = ~layer["key_is_real"]
    computed = attend(device, layer, "float64", real_keys(layer))
    assert padding.any()
    for name in ("K", "V"):
        assert not np.any(np.moveaxis(computed[name], 1, 2)[padding])


def test_a_dropped_mask_would_be_seen(device: Backend, layer: Arrays) -> None:
    """The comparison has teeth: without the mask, O and every gradient are off by more than 1e-3."""
    assert min(errors(attend(device, layer, "float64", None), layer).values()) > 1e-3


@pytest.mark.parametrize("mistake", ["no scale", "Q and K swapped", "heads swapped"])
def test_other_mistakes_would_be_seen(device: Backend, layer: Arrays, mistake: str) -> None:
    """The comparison has teeth: a wrong scale or a mix-up of tensors or heads shows in every gradient and in O."""
    wrong = dict(layer)
    if mistake == "no scale":
        wrong["q"] = layer["q"] * np.sqrt(32)
    elif mistake == "Q and K swapped":
        wrong["q"], wrong["k"] = layer["k"], layer["q"]
    else:
        wrong["k"] = layer["k"][:, ::-1]
    assert min(errors(attend(device, wrong, "float64", real_keys(layer)), layer).values()) > 1e-3
