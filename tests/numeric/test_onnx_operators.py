"""The published cases of ONNX's softmax, normalisations, rotary embedding and loss, run through our kernels.

An adapter for each operator spells a node as calls of our programs. What they cannot express is listed by name,
with a reason, in ``tests/data/onnx_not_applicable.toml``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

import numeric
from tests.numeric.onnx_cases import Case, NotApplicableError, listed, published

Outputs = dict[str, np.ndarray]


def softmax(case: Case) -> Outputs:
    """The axis last, one row for every other position."""
    x = case.inputs["input"]
    moved = np.moveaxis(x, case.attributes.get("axis", -1), -1)
    rows = numeric.load("softmax_rows", "numpy").forward(X=moved.reshape(-1, moved.shape[-1])).outputs["P"]
    return {"output": np.moveaxis(rows.reshape(moved.shape), -1, case.attributes.get("axis", -1))}


def _normalised(case: Case, program: str, **more: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The axes from ``axis`` on as one, the others as positions; the result in X's shape, and what the pass keeps."""
    x = case.inputs["X"]
    first = case.attributes.get("axis", -1) % x.ndim
    width = prod(x.shape[first:])
    vectors = {n: a.reshape(width) for n, a in more.items()}
    epsilon = float(case.attributes.get("epsilon", 1e-5))
    result = numeric.load(program, "numpy").forward(X=x.reshape(-1, width), **vectors, eps=epsilon)
    kept = {
        n: a.reshape(*x.shape[:first], *[1] * (x.ndim - first))
        for n, a in result.saved.items()
        if a.ndim == 1 and n.startswith("rstd")
    }
    return result.outputs["Y"].reshape(x.shape), kept


def layer_normalisation(case: Case) -> Outputs:
    """Y, and the reciprocal deviation that the forward pass keeps; the mean is no output of the program."""
    y, kept = _normalised(case, "layer_norm", weight=case.inputs["Scale"], shift=case.inputs["B"])
    return {"Y": y, "InvStdDev": kept["rstd_Y"]}


def rms_normalisation(case: Case) -> Outputs:
    return {"Y": _normalised(case, "rms_norm", weight=case.inputs["scale"])[0]}


def rotary_embedding(case: Case) -> Outputs:
    """Heads before positions, cosines and sines picked by position, and only the first coordinates turned."""
    x, tables = case.inputs["X"], [case.inputs[n] for n in ("cos_cache", "sin_cache")]
    if "position_ids" in case.inputs:
        tables = [table[case.inputs["position_ids"]] for table in tables]
    heads = x if x.ndim == 4 else x.reshape(*x.shape[:2], case.attributes["num_heads"], -1).swapaxes(1, 2)
    width = case.attributes.get("rotary_embedding_dim", 0) or heads.shape[-1]
    program = "rotary_embedding_interleaved" if case.attributes.get("interleaved", 0) else "rotary_embedding"
    cosine, sine = (table[:, None] for table in tables)
    turned = numeric.load(program, "numpy").forward(X=heads[..., :width], cos=cosine, sin=sine).outputs["Y"]
    whole = np.concatenate([turned, heads[..., width:]], axis=-1)
    return {"Y": whole if x.ndim == 4 else whole.swapaxes(1, 2).reshape(x.shape)}


def cross_entropy(case: Case) -> Outputs:
    """The mean of all positions; without a reduction every position is a call of its own, as a leading axis."""
    if "weights" in case.inputs:
        raise NotApplicableError("weights")
    scores, labels = np.moveaxis(case.inputs["scores"], 1, -1), case.inputs["labels"]
    targets = np.where(labels == case.attributes.get("ignore_index", -100), -1, labels)
    kernel, classes = numeric.load("cross_entropy", "numpy"), scores.shape[-1]
    rows = scores.reshape(-1, 1, classes)
    alone = kernel.forward(Z=rows, targets=targets.reshape(-1, 1)).outputs["loss"]
    losses = {
        b"mean": lambda: kernel.forward(Z=rows[:, 0], targets=targets.reshape(-1)).outputs["loss"],
        b"none": lambda: alone.reshape(labels.shape),
        b"sum": lambda: alone.sum(dtype=alone.dtype),
    }
    each = np.broadcast_to(np.arange(classes)[:, None, None], (classes, len(rows), 1))
    surprise = kernel.forward(Z=np.broadcast_to(rows, (classes, *rows.shape)), targets=each).outputs["loss"]
    log_prob = np.moveaxis(-surprise.T.reshape(scores.shape), -1, 1)
    return {"output": np.asarray(losses[case.attributes["reduction"]]()), "log_prob": log_prob}


OPERATORS: dict[str, Callable[[Case], Outputs]] = {
    "Softmax": softmax,
    "LayerNormalization": layer_normalisation,
    "RMSNormalization": rms_normalisation,
    "RotaryEmbedding": rotary_embedding,
    "SoftmaxCrossEntropyLoss": cross_entropy,
}

CASES = {(operator, name): case for operator in OPERATORS for name, case in published(operator).items()}
LISTED = {(operator, name): reason for operator in OPERATORS for name, reason in listed(operator).items()}

UNSPELLED = {"Mean"}
"""Outputs that no program has."""


@pytest.mark.parametrize(("operator", "name"), sorted(set(CASES) - set(LISTED)))
def test_published_case(operator: str, name: str) -> None:
    case = CASES[operator, name]
    computed = OPERATORS[operator](case)
    for output, expected in case.outputs.items():
        if output not in UNSPELLED:
            assert computed[output].dtype == expected.dtype
            assert computed[output].shape == expected.shape
            np.testing.assert_allclose(computed[output], expected, rtol=1e-5, atol=1e-6, err_msg=output)


@pytest.mark.parametrize(("operator", "name"), sorted(LISTED))
def test_listed_case_is_not_applicable(operator: str, name: str) -> None:
    """A listed case exists and uses what the programs cannot express, and the reason names it."""
    assert (operator, name) in CASES, "there is no such case"
    with pytest.raises(NotApplicableError) as refused:
        OPERATORS[operator](CASES[operator, name])
    assert str(refused.value) in LISTED[operator, name]


def test_the_cases_are_all_there() -> None:
    counts = {operator: sum(o == operator for o, _ in CASES) for operator in OPERATORS}
    least = {"Softmax": 7, "LayerNormalization": 19, "RMSNormalization": 19, "RotaryEmbedding": 8}
    assert all(counts[operator] >= number for operator, number in (least | {"SoftmaxCrossEntropyLoss": 34}).items())
