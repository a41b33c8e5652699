"""Decoding with a cache equals the full causal pass: exactly in rational numbers, and within rounding on arrays."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numeric
from derive.forward import program
from derive.proof import interpret
from derive.proof.arithmetic import Weights

Array = np.ndarray[Any, Any]


def _drawn(length: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {n: rng.normal(size=(2, length, width)) for n, width in (("Q", 3), ("K", 3), ("V", 5))}


def _chunked(arrays: dict[str, Array], ends: list[int]) -> tuple[Array, Array]:
    """Outputs and logsumexp of the chunks that end at the given positions, one after another."""
    kernel, outputs, statistics, start = numeric.load("prefill"), [], [], 0
    for end in ends:
        new = {n: a[:, start:end] for n, a in arrays.items()}
        result = kernel.forward(**new, K_cache=arrays["K"][:, :start], V_cache=arrays["V"][:, :start])
        outputs.append(result.outputs["O"])
        statistics.append(result.outputs["L"])
        start = end
    return np.concatenate(outputs, axis=1), np.concatenate(statistics, axis=1)


@given(length=st.integers(1, 9), cuts=st.sets(st.integers(1, 8)), seed=st.integers(0, 2**16))
def test_chunked_prefill_equals_the_full_causal_pass(length: int, cuts: set[int], seed: int) -> None:
    arrays = _drawn(length, seed)
    outputs, statistics = _chunked(arrays, [*sorted(c for c in cuts if c < length), length])
    whole = numeric.load("causal_attention").forward(**arrays).outputs
    np.testing.assert_allclose(outputs, whole["O"], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(statistics, whole["L"], rtol=1e-13, atol=1e-14)


def test_decoding_token_by_token_equals_the_full_causal_pass() -> None:
    arrays, kernel = _drawn(6), numeric.load("decode_step")
    whole = numeric.load("causal_attention").forward(**arrays).outputs
    for at in range(6):
        new = {n: a[:, at] for n, a in arrays.items()}
        result = kernel.forward(**new, K_cache=arrays["K"][:, :at], V_cache=arrays["V"][:, :at])
        np.testing.assert_allclose(result.outputs["O"], whole["O"][:, at], rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(result.outputs["L"], whole["L"][:, at], rtol=1e-13, atol=1e-14)


def test_both_equal_the_full_causal_pass_exactly_in_rational_numbers() -> None:
    """Positive rational weights in place of exp: no rounding, so equal means equal."""
    chance = random.Random(1)
    drawn = {
        n: [[Fraction(chance.randint(-9, 9), chance.randint(1, 4)) for _ in range(width)] for _ in range(5)]
        for n, width in (("Q", 2), ("K", 2), ("V", 3))
    }
    exact: dict[str, Any] = {"parameters": {"scale": 1}}
    whole = interpret(program("causal_attention"), drawn, arithmetic=Weights(0), parameters={"scale": 1, "offset": 0})[
        "O"
    ]
    for start, end in ((0, 2), (2, 5), (4, 5)):
        new = {n: rows[start:end] for n, rows in drawn.items()}
        cache = {f"{n}_cache": drawn[n][:start] for n in ("K", "V")}
        sizes = {"m": start, "d": 2, "d_v": 3}
        made = interpret(program("prefill"), new | cache, arithmetic=Weights(0), sizes=sizes, **exact)["O"]
        assert made == whole[start:end]
    for at in range(5):
        new = {n: rows[at] for n, rows in drawn.items()}
        cache = {f"{n}_cache": drawn[n][:at] for n in ("K", "V")}
        sizes = {"m": at, "d": 2, "d_v": 3}
        made = interpret(program("decode_step"), new | cache, arithmetic=Weights(0), sizes=sizes, **exact)["O"]
        assert made == whole[at]


def test_the_cache_gets_the_gradient_that_the_full_pass_gives_its_keys_and_values() -> None:
    """One step's gradients for cache and new position together are the full pass's, for that query alone."""
    arrays, at = _drawn(5), 4
    causal, step = numeric.load("causal_attention"), numeric.load("decode_step")
    cotangent = np.random.default_rng(7).normal(size=(2, 5))
    only_last = np.zeros((2, 5, 5))
    only_last[:, at] = cotangent
    want = causal.backward(causal.forward(**arrays), {"O": only_last})
    new = {n: a[:, at] for n, a in arrays.items()}
    result = step.forward(**new, K_cache=arrays["K"][:, :at], V_cache=arrays["V"][:, :at])
    got = step.backward(result, {"O": cotangent})
    for name in ("K", "V"):
        joined = np.concatenate([got[f"{name}_cache"], got[name][:, None]], axis=1)
        np.testing.assert_allclose(joined, want[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got["Q"], want["Q"][:, at], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sink", [-3000.0, -800.0, 0.0, 800.0, 3000.0])
@pytest.mark.parametrize("level", [-2000.0, 0.0, 2000.0])
def test_a_sink_far_above_or_below_the_scores_is_exact(sink: float, level: float) -> None:
    """The shift is the largest of scores and sink, so that nothing overflows and the larger one keeps its digits."""
    scores = np.array([[level, level + 1.0]])
    arrays: dict[str, Any] = {"Q": np.zeros((1, 1)), "K": np.zeros((2, 1)), "V": np.array([[1.0], [3.0]])}
    kernel = numeric.load("sink_attention")
    result = kernel.forward(**arrays, sink=np.array(sink), bias=scores)
    large = np.array([level, level + 1.0, sink], dtype=np.longdouble)
    weights = np.exp(large - large.max())
    weights /= weights.sum()
    assert result.outputs["O"][0, 0] == pytest.approx(float(weights[0] + 3 * weights[1]), rel=1e-12, abs=1e-300)
    gradients = kernel.backward(result, {"O": np.ones((1, 1))})
    assert all(np.isfinite(g).all() for g in gradients.values())
    expected = -float(weights[2] * (weights[0] + 3 * weights[1]))
    assert float(gradients["sink"]) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_a_query_that_sees_nothing_gives_all_its_weight_to_the_sink() -> None:
    kernel = numeric.load("sink_attention")
    arrays = {n: np.ones((3, 2)) for n in ("Q", "K", "V")}
    result = kernel.forward(**arrays, sink=np.array(-1000.0), mask=np.zeros((3, 3), dtype=bool))
    assert (result.outputs["O"] == 0).all()
    assert (result.outputs["L"] == -1000).all()
    assert all((g == 0).all() for g in kernel.backward(result, {"O": np.ones((3, 2))}).values())
