"""The published cases of the ONNX operator Attention, run through the generated NumPy kernels.

A small adapter spells each node as one call of `attention`, `causal_attention` or `softcap_attention` (see
:func:`attend`).
What the programs cannot express is listed by name, with a reason, in ``tests/data/onnx_not_applicable.toml``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import numeric
from tests.numeric.onnx_cases import Case, NotApplicableError, listed, published

LISTED = listed("Attention")

SPELLED = {
    *("scale", "is_causal", "q_num_heads", "kv_num_heads", "left_window_size", "right_window_size"),
    *("qk_matmul_output_mode", "softmax_precision", "softcap"),
}
"""The attributes that the adapter can spell; any other one that is set makes a case not applicable."""

SINGLE = 1
"""ONNX's number for float32: the precision in which our kernels compute a 16-bit softmax."""

RAW, CAPPED, WITH_BIAS, WEIGHTS = range(4)
"""The modes of the output ``qk_matmul_output``."""


CASES = published("Attention")


@dataclass(frozen=True)
class Call:
    """One call of a program. Shapes: Q ``[B, Hk, G, n, d]``, K and V ``[B, Hk, 1, m, ..]``, mask and bias broadcast."""

    program: str
    tensors: dict[str, Any]
    parameters: dict[str, Any]

    def run(self, **changed: Any) -> dict[str, np.ndarray]:
        """The outputs O and L, with some tensors changed."""
        tensors = {**self.tensors, **changed}
        return numeric.load(self.program, "numpy").forward(**tensors, **self.parameters).outputs


def refuse_what_has_no_spelling(case: Case) -> None:
    """Raise unless the programs can express every feature that the case uses."""
    unknown = sorted(set(case.attributes) - SPELLED)
    if unknown:
        raise NotApplicableError(unknown[0])
    if case.attributes.get("softmax_precision", SINGLE) != SINGLE:
        raise NotApplicableError("softmax_precision")


def attend(case: Case) -> dict[str, np.ndarray]:
    """The outputs of a case by name, computed by our kernels.

    3-D inputs are split into heads; query heads are grouped by their key head, over which K and V broadcast;
    the past comes before the new keys. Visibility: a boolean attn_mask, a window and the padding after
    nonpad_kv_seqlen are the mask, is_causal is the program, how many keys precede the queries its offset.
    """
    refuse_what_has_no_spelling(case)
    flat = case.inputs["Q"].ndim == 3
    q, k, v = (_heads(case, name, flat) for name in ("Q", "K", "V"))
    k = np.concatenate([case.inputs.get("past_key", k[..., :0, :]), k], axis=-2)
    v = np.concatenate([case.inputs.get("past_value", v[..., :0, :]), v], axis=-2)
    lengths = case.inputs.get("nonpad_kv_seqlen")
    # An offset is one number a call: with a length for each sequence, each has a call of its own.
    rows = [slice(None)] if lengths is None else [slice(b, b + 1) for b in range(len(q))]
    parts = [_attend_rows(case, q[row], k[row], v[row], row) for row in rows]
    outputs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    outputs["Y"] = _merged(outputs["Y"]) if flat else outputs["Y"]
    return {**outputs, "present_key": k, "present_value": v}


def _heads(case: Case, name: str, flat: bool) -> np.ndarray:
    """An input as ``[B, heads, length, size]``."""
    array = case.inputs[name]
    if not flat:
        return array
    heads = case.attributes["q_num_heads" if name == "Q" else "kv_num_heads"]
    return array.reshape(*array.shape[:2], heads, -1).swapaxes(1, 2)


def _merged(array: np.ndarray) -> np.ndarray:
    """``[B, heads, length, size]`` as ``[B, length, heads · size]``."""
    return array.swapaxes(1, 2).reshape(array.shape[0], array.shape[2], -1)


def _attend_rows(case: Case, q: np.ndarray, k: np.ndarray, v: np.ndarray, row: slice) -> dict[str, np.ndarray]:
    """Y and qk_matmul_output for some sequences of the batch, which share one offset."""
    call = _call(case, q, k, v, row)
    shape = (*q.shape[:-1], v.shape[-1])
    outputs = {"Y": call.run()["O"].reshape(shape)}
    if "qk_matmul_output" in case.outputs:
        outputs["qk_matmul_output"] = _scores(case, call).reshape(*q.shape[:-1], k.shape[-2]).astype(q.dtype)
    return outputs


def _call(case: Case, q: np.ndarray, k: np.ndarray, v: np.ndarray, row: slice) -> Call:
    """The call that spells the node for some sequences of the batch."""
    n, m, key_heads = q.shape[-2], k.shape[-2], k.shape[1]
    offset = case.inputs["past_key"].shape[-2] if "past_key" in case.inputs else 0
    mask = _window(n, m, offset, case)
    if "nonpad_kv_seqlen" in case.inputs:
        (length,) = (int(length) for length in case.inputs["nonpad_kv_seqlen"][row])
        offset = length - n
        mask = _window(n, m, offset, case) & (np.arange(m) < length)
    bias = None
    if "attn_mask" in case.inputs:
        given = _grouped_mask(case.inputs["attn_mask"], m, key_heads, row)
        mask, bias = (mask & given, None) if given.dtype == bool else (mask, given)
    tensors = {
        "Q": q.reshape(q.shape[0], key_heads, -1, *q.shape[2:]),
        "K": k[:, :, None],
        "V": v[:, :, None],
        "mask": mask,
        "bias": bias,
    }
    causal = bool(case.attributes.get("is_causal", 0))
    parameters = {"scale": case.attributes.get("scale")}
    if case.attributes.get("softcap", 0) > 0:
        if causal:
            tensors["mask"] = mask & (np.arange(m) <= np.arange(n)[:, None] + offset)
        return Call("softcap_attention", tensors, {**parameters, "cap": case.attributes["softcap"]})
    if causal:
        return Call("causal_attention", tensors, {**parameters, "offset": offset})
    return Call("attention", tensors, parameters)


def _window(n: int, m: int, offset: int, case: Case) -> np.ndarray:
    """Which keys lie in the window around each query's absolute position; −1 leaves a side open."""
    left, right = (case.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    distance = np.arange(n)[:, None] + offset - np.arange(m)
    return np.logical_and((distance <= left) | (left < 0), (-distance <= right) | (right < 0))


def _grouped_mask(mask: np.ndarray, m: int, key_heads: int, row: slice) -> np.ndarray:
    """An attn_mask ``[.., heads, n, m]`` as ``[B, Hk, G, n, m]``; where it ends early, the rest is hidden."""
    rest = [*[(0, 0)] * (mask.ndim - 1), (0, m - mask.shape[-1])]
    mask = np.pad(mask, rest, constant_values=False if mask.dtype == bool else -np.inf)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    mask = mask[row] if len(mask) > 1 else mask
    groups = (key_heads, -1) if mask.shape[1] > 1 else (1, 1)
    return mask.reshape(mask.shape[0], *groups, *mask.shape[2:])


def _scores(case: Case, call: Call) -> Any:
    """The scores or weights ``[B, Hk, G, n, m]``, read from the outputs that the kernels have.

    Weights: O where value j is the unit vector j. Scores: L where a query sees one key at a time, in a new
    axis before the queries.
    """
    m = call.tensors["K"].shape[-2]
    if case.attributes.get("qk_matmul_output_mode", RAW) == WEIGHTS:
        return call.run(V=np.eye(m, dtype=call.tensors["V"].dtype))["O"]
    one_key = {n: np.repeat(call.tensors[n][..., None, :, :], m, axis=-3) for n in ("Q", "K", "V")}
    only = np.eye(m, dtype=bool)[:, None, :]
    mode = case.attributes.get("qk_matmul_output_mode", RAW)
    if mode in (RAW, CAPPED):
        cap = {"cap": call.parameters["cap"]} if mode == CAPPED and "cap" in call.parameters else {}
        program = "softcap_attention" if cap else "attention"
        raw = Call(program, {**one_key, "mask": only}, {"scale": call.parameters["scale"], **cap})
        return raw.run()["L"].swapaxes(-1, -2)
    mask = call.tensors["mask"][..., None, :, :] & only
    bias = None if call.tensors["bias"] is None else call.tensors["bias"][..., None, :, :]
    return call.run(**one_key, mask=mask, bias=bias)["L"].swapaxes(-1, -2)


RTOL = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 2.0**-6}
"""By dtype: the cases' own 1e-3, tighter for float32; for bfloat16 two units in the last place, as in ONNX's runner.

The published 16-bit values were themselves rounded to 16 bits between the steps.
"""


def assert_as_published(case: Case) -> None:
    """Every output of the case in its dtype and shape, within :data:`RTOL` and the case's own atol."""
    computed = attend(case)
    for name, expected in case.outputs.items():
        assert computed[name].dtype == expected.dtype, name
        assert computed[name].shape == expected.shape, name
        actual, right = computed[name].astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(actual, right, rtol=RTOL[expected.dtype.name], atol=case.atol, err_msg=name)


@pytest.mark.parametrize("name", sorted(set(CASES) - set(LISTED)))
def test_published_case(name: str) -> None:
    """Y, present_key, present_value and qk_matmul_output of a published case; it fails if it is not applicable."""
    assert_as_published(CASES[name])


@pytest.mark.parametrize("name", sorted(LISTED))
def test_listed_case_is_not_applicable(name: str) -> None:
    """A listed case exists and uses a feature that the programs cannot express, and the reason names it."""
    assert name in CASES, "there is no such case"
    with pytest.raises(NotApplicableError) as refused:
        attend(CASES[name])
    assert str(refused.value) in LISTED[name]


def test_the_cases_are_all_there() -> None:
    """The collection is not silently empty, and only a few cases are not applicable."""
    assert len(CASES) >= 93
    assert len(LISTED) <= 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("test_attention_4d_scaled", {"scale": None}),
        ("test_attention_4d_causal", {"is_causal": 0}),
        ("test_attention_4d_causal_with_past_and_present", {"is_causal": 0}),
        ("test_attention_local_window", {"left_window_size": 1}),
        ("test_attention_3d_gqa", {"q_num_heads": 3, "kv_num_heads": 1}),
    ],
)
def test_a_mistake_would_be_seen(name: str, change: dict[str, Any]) -> None:
    """The comparison has teeth: with one attribute wrong, the case fails."""
    attributes = {k: v for k, v in {**CASES[name].attributes, **change}.items() if v is not None}
    wrong = replace(CASES[name], attributes=attributes)
    with pytest.raises(AssertionError):
        assert_as_published(wrong)
