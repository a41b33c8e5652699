"""Small inputs that broke real kernels of attention's variants, with the right answers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import numeric

Array = np.ndarray[Any, Any]


def gradients(program: str, cotangents: dict[str, Array], **inputs: Any) -> tuple[dict[str, Array], dict[str, Array]]:
    kernel = numeric.load(program, "numpy")
    result = kernel.forward(**inputs)
    return result.outputs, kernel.backward(result, cotangents)


# Groups: head h uses key head ⌊h/G⌋, and the gradient of shared keys and values is summed over the group.


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (4, 2), (3, 3), (5, 1)])
def test_grouped_gradients_are_those_of_repeated_keys_summed(heads: int, groups: int) -> None:
    rng, each = np.random.default_rng(heads), heads // groups
    Q, K, V = rng.normal(size=(heads, 4, 2)), rng.normal(size=(groups, 5, 2)), rng.normal(size=(groups, 5, 3))
    dO = rng.normal(size=(heads, 4, 3))
    outputs, got = gradients("grouped_query", {"O": dO}, Q=Q, K=K, V=V)
    repeated = {"K": np.repeat(K, each, axis=0), "V": np.repeat(V, each, axis=0)}
    wanted, want = gradients("attention", {"O": dO}, Q=Q, **repeated)
    np.testing.assert_allclose(outputs["O"], wanted["O"], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(got["Q"], want["Q"], rtol=1e-12, atol=1e-14)
    for name in ("K", "V"):
        summed = want[name].reshape(groups, each, *want[name].shape[1:]).sum(axis=1)
        np.testing.assert_allclose(got[name], summed, rtol=1e-12, atol=1e-14)


def test_a_number_of_heads_that_the_groups_do_not_divide_is_refused() -> None:
    with pytest.raises(numeric.InputError, match="Q"):
        gradients("grouped_query", {}, Q=np.ones((5, 3, 2)), K=np.ones((2, 3, 2)), V=np.ones((2, 3, 2)))


# Softcap.


@pytest.mark.parametrize("cap", [0.5, 2.0, 30.0])
def test_a_score_as_large_as_the_cap_becomes_tanh_of_one_times_it(cap: float) -> None:
    """One key, so that L is its score."""
    outputs, _ = gradients(
        "softcap_attention", {}, Q=np.array([[cap]]), K=np.ones((1, 1)), V=np.ones((1, 1)), scale=1, cap=cap
    )
    assert outputs["L"][0] == pytest.approx(0.7615941559557649 * cap, rel=1e-15)


def test_softcap_with_a_hidden_entry_uses_the_score_before_hiding() -> None:
    """The hidden key's score is −∞ only after the cap: the factor 1 − tanh² of the visible ones stays finite."""
    rng = np.random.default_rng(3)
    Q, K, V, dO = (rng.normal(size=s) for s in ((2, 3), (4, 3), (4, 2), (2, 2)))
    hide = np.zeros((2, 4))
    hide[0, 1] = hide[1, 3] = -np.inf
    outputs, got = gradients("softcap_attention", {"O": dO}, Q=Q, K=K, V=V, bias=hide)
    masked, want = gradients("softcap_attention", {"O": dO}, Q=Q, K=K, V=V, mask=hide == 0)
    assert all(np.isfinite(g).all() for g in got.values())
    np.testing.assert_array_equal(outputs["O"], masked["O"])
    for name in ("Q", "K", "V"):
        np.testing.assert_array_equal(got[name], want[name])
    poisoned = K.copy()
    poisoned[1] = np.nan
    _, alone = gradients("softcap_attention", {"O": dO[:1]}, Q=Q[:1], K=poisoned, V=V, mask=hide[:1] == 0)
    assert np.isfinite(alone["Q"]).all()
    assert (alone["K"][1] == 0).all()


# Sinks.


def test_one_key_and_a_sink_of_the_same_score_share_the_weight() -> None:
    one = np.ones((1, 1))
    outputs, got = gradients("sink_attention", {"O": one}, Q=0 * one, K=one, V=one, sink=np.array(0.0))
    assert outputs["O"][0, 0] == 0.5
    assert float(got["sink"]) == -0.25


def test_the_sink_of_many_float16_queries_is_reduced_in_float32() -> None:
    """4096 equal contributions of about −2⁻¹²: summed in float16 they stop growing at a fraction of the sum."""
    n = 4096
    ones = {"K": np.ones((1, 1), np.float16), "V": np.ones((1, 1), np.float16)}
    cotangent = np.full((n, 1), 2.0**-10, np.float16)
    _, got = gradients(
        "sink_attention", {"O": cotangent}, Q=np.zeros((n, 1), np.float16), **ones, sink=np.array(0, np.float16)
    )
    assert got["sink"].dtype == np.float16
    assert float(got["sink"]) == pytest.approx(-0.25 * n * 2.0**-10, rel=1e-3)


# Scores and weights.


def test_the_gradient_of_a_learned_scale_sums_score_gradients_times_scores() -> None:
    rng = np.random.default_rng(5)
    Q, K, V, dO = (rng.normal(size=s) for s in ((3, 2), (4, 2), (4, 5), (3, 5)))
    kernel = numeric.load("learned_scale_attention", "numpy")
    learned = [s.name for s in kernel.signature.inputs if not s.axes and not s.optional]
    assert len(learned) == 1
    _, got = gradients("learned_scale_attention", {"O": dO}, Q=Q, K=K, V=V, **{learned[0]: np.array(1.7)})
    scores = Q @ K.T / np.sqrt(2)
    weights = np.exp(1.7 * scores)
    weights /= weights.sum(axis=1, keepdims=True)
    moved = dO @ V.T
    d_scores = weights * (moved - (weights * moved).sum(axis=1, keepdims=True))
    assert float(got[learned[0]]) == pytest.approx(float((d_scores * scores).sum()), rel=1e-12)


def test_dropout_uses_the_weights_before_it_in_the_row_sum() -> None:
    keep, rate = np.array([[True, False, True]]), 1 / 3
    Q, K, V = np.ones((1, 1)), np.array([[0.1], [0.4], [-0.3]]), np.array([[1.0], [2.0], [4.0]])
    outputs, got = gradients("dropout_attention", {"O": np.ones((1, 1))}, Q=Q, K=K, V=V, keep=keep, rate=rate)
    A = np.exp(K[:, 0]) / np.exp(K[:, 0]).sum()
    dropped = keep[0] / (1 - rate)
    assert outputs["O"][0, 0] == pytest.approx(float((A * dropped * V[:, 0]).sum()), rel=1e-14)
    dA = dropped * V[:, 0]
    want = A * (dA - (A * dA).sum())
    np.testing.assert_allclose(got["K"][:, 0], want, rtol=1e-13)


# Rotations.


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_the_backward_of_a_rotation_turns_the_other_way(layout: str) -> None:
    """The two halves have sines of their own, so that a sine taken from the wrong half shows."""
    sine = np.array([[0.1, 0.2, 0.3, 0.4]])
    cosine = np.sqrt(1 - sine**2)
    program = "rotary_embedding" if layout == "half" else "rotary_embedding_interleaved"
    rng = np.random.default_rng(6)
    X, dY = rng.normal(size=(2, 1, 8)), rng.normal(size=(2, 1, 8))
    first, second = (slice(0, 4), slice(4, 8)) if layout == "half" else (slice(0, 8, 2), slice(1, 8, 2))
    outputs, got = gradients(program, {"Y": dY}, X=X, cos=cosine, sin=sine)
    back, _ = gradients(program, {}, X=dY, cos=cosine, sin=-sine)
    np.testing.assert_allclose(got["X"], back["Y"], rtol=1e-15)
    np.testing.assert_allclose(outputs["Y"][..., first], cosine * X[..., first] - sine * X[..., second], rtol=1e-15)
    np.testing.assert_allclose(outputs["Y"][..., second], cosine * X[..., second] + sine * X[..., first], rtol=1e-15)


# Second derivatives.


def test_a_hessian_times_a_vector_equals_central_differences_of_the_gradient() -> None:
    rng, step = np.random.default_rng(7), 1e-5
    own = {n: rng.normal(size=s) for n, s in (("Q", (3, 2)), ("K", (4, 2)), ("V", (4, 5)))}
    along = {n: rng.normal(size=a.shape) for n, a in own.items()}
    dO = rng.normal(size=(3, 5))
    kernel = numeric.load("attention_hessian_vector", "numpy")
    made = kernel.forward(**own, grad_O=dO, **{f"t{n}": a for n, a in along.items()}).outputs
    _, at = gradients("attention", {"O": dO}, **own)
    sides = [
        gradients("attention", {"O": dO}, **{n: a + s * step * along[n] for n, a in own.items()})[1] for s in (1, -1)
    ]
    for name in own:
        np.testing.assert_allclose(made[f"grad_{name}"], at[name], rtol=1e-12, atol=1e-14)
        slope = (sides[0][name] - sides[1][name]) / (2 * step)
        np.testing.assert_allclose(made[f"tgrad_{name}"], slope, rtol=1e-6, atol=1e-8)


# Normalisations.


def test_the_weight_enters_the_gradient_of_rms_norm_once() -> None:
    rng = np.random.default_rng(8)
    x, w, dy = rng.normal(size=(1, 5)), np.array([2.0, -1.0, 0.5, 3.0, 1.5]), rng.normal(size=(1, 5))
    _, got = gradients("rms_norm", {"Y": dy}, X=x, weight=w, eps=0.0)
    root = np.sqrt((x**2).mean())
    hat, moved = x / root, w * dy
    np.testing.assert_allclose(got["X"], (moved - hat * (moved * hat).mean()) / root, rtol=1e-12)
    assert float((got["X"] * x).sum()) == pytest.approx(0, abs=1e-12)


def test_layer_norm_gradients_are_orthogonal_to_ones_and_to_what_was_normalised() -> None:
    rng = np.random.default_rng(9)
    x, dy = rng.normal(size=(3, 6)), rng.normal(size=(3, 6))
    _, got = gradients("layer_norm", {"Y": dy}, X=x, weight=rng.normal(size=6), shift=np.ones(6), eps=0.0)
    centred = x - x.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(got["X"].sum(axis=1), 0, atol=1e-13)
    np.testing.assert_allclose((got["X"] * centred).sum(axis=1), 0, atol=1e-13)


# Shift invariance: a bias of the keys changes no weight, so it gets no gradient.


def test_a_bias_of_the_keys_gets_no_gradient() -> None:
    kernel = numeric.load("bert_block", "numpy")
    rng, sizes = np.random.default_rng(10), {"n": 4, "D": 6, "H": 2, "d": 3, "d_v": 3, "F": 5}
    inputs = {s.name: rng.normal(size=[sizes[a] for a in s.axes]) for s in kernel.signature.inputs if s.kind == "real"}
    inputs["real"] = np.array([True, True, True, False])
    result = kernel.forward(**inputs)
    got = kernel.backward(result, {"Y": rng.normal(size=(4, 6))})
    assert np.abs(got["b_K"]).max() <= 1e-14
    assert np.abs(got["b_Q"]).max() >= 1e-3
    assert np.abs(got["W_K"]).max() >= 1e-3


# Integers that point at rows.


@pytest.mark.parametrize(("tokens", "wrong"), [([0, 5], 5), ([-1, 2], -1), ([0, 10**6], 10**6)])
def test_tokens_outside_of_the_vocabulary_are_refused(tokens: list[int], wrong: int) -> None:
    """Not wrapped around, not clipped: a token that is not there has no row."""
    with pytest.raises(numeric.InputError, match=f"tokens holds {wrong}; expected integers from 0 below T = 5"):
        gradients("embedding", {}, tokens=np.array(tokens), W_E=np.ones((5, 2)))


def test_targets_may_be_negative_and_not_too_large() -> None:
    outputs, got = gradients("cross_entropy", {"loss": np.array(1.0)}, Z=np.zeros((2, 4)), targets=np.array([-1, 2]))
    assert float(outputs["loss"]) == pytest.approx(np.log(4))
    assert (got["Z"][0] == 0).all()
    np.testing.assert_allclose(got["Z"][1], [0.25, 0.25, -0.75, 0.25])
    with pytest.raises(numeric.InputError, match="targets holds 4; expected integers below T = 4"):
        gradients("cross_entropy", {}, Z=np.zeros((2, 4)), targets=np.array([0, 4]))


def test_a_loss_without_a_target_is_zero_and_has_no_gradient() -> None:
    outputs, got = gradients("cross_entropy", {"loss": np.array(1.0)}, Z=np.ones((2, 4)), targets=np.array([-1, -7]))
    assert float(outputs["loss"]) == 0
    assert (got["Z"] == 0).all()


# Dimensions that axes share.


@pytest.mark.parametrize(
    ("shape", "message"),
    [((3, 5), "Q"), ((3, 0), None), ((4,), "Q")],
)
def test_a_width_that_does_not_make_pairs_is_refused(shape: tuple[int, ...], message: str | None) -> None:
    inputs = {
        "K": np.ones((2, shape[-1])),
        "V": np.ones((2, 1)),
        "position_k": np.arange(2.0),
        "position_q": np.arange(3.0),
    }
    if message is None:
        outputs, _ = gradients("rope_attention", {}, Q=np.ones(shape), **inputs, scale=1.0)
        assert (outputs["O"] == 1).all()
        return
    with pytest.raises(numeric.InputError, match=message):
        gradients("rope_attention", {}, Q=np.ones(shape), **inputs)


# Heads.


def test_the_sum_over_heads_is_one_output_map_of_the_heads_side_by_side() -> None:
    """Forward and backward: concatenated head outputs times the stacked maps, as most libraries compute it."""
    rng, heads = np.random.default_rng(11), 3
    sizes = {"X": (4, 6), "W_Q": (6, heads, 2), "W_K": (6, heads, 2), "W_V": (6, heads, 5), "W_O": (heads, 5, 6)}
    arrays = {name: rng.normal(size=shape) for name, shape in sizes.items()}
    dY = rng.normal(size=(4, 6))
    outputs, got = gradients("multi_head", {"Y": dY}, **arrays)
    Q, K, V = (np.einsum("nx,xhc->hnc", arrays["X"], arrays[w]) for w in ("W_Q", "W_K", "W_V"))
    kernel = numeric.load("attention", "numpy")
    result = kernel.forward(Q=Q, K=K, V=V)
    beside = result.outputs["O"].swapaxes(0, 1).reshape(4, heads * 5)
    stacked = arrays["W_O"].reshape(heads * 5, 6)
    np.testing.assert_allclose(outputs["Y"], beside @ stacked, rtol=1e-12)
    np.testing.assert_allclose(got["W_O"].reshape(heads * 5, 6), beside.T @ dY, rtol=1e-12)
    dO = (dY @ stacked.T).reshape(4, heads, 5).swapaxes(0, 1)
    of_heads = kernel.backward(result, {"O": dO})
    np.testing.assert_allclose(got["W_Q"], np.einsum("nx,hnc->xhc", arrays["X"], of_heads["Q"]), rtol=1e-11, atol=1e-13)


# Parameters and scalars.


def test_a_parameter_that_would_divide_by_zero_is_refused() -> None:
    with pytest.raises(numeric.InputError, match=r"temperature = 0\.0 the forward pass divides by 0"):
        gradients("softmax_rows", {}, X=np.ones((2, 3)), temperature=0)
    ones = {n: np.ones((3, 2)) for n in ("Q", "K", "V")}
    with pytest.raises(numeric.InputError, match=r"stride is 0; expected an integer of at least 1"):
        gradients("dilated_attention", {}, **ones, stride=0)


def test_a_loss_is_an_array_and_what_is_computed_from_it_is_a_cotangent() -> None:
    kernel = numeric.load("cross_entropy", "numpy")
    result = kernel.forward(Z=np.ones((3, 4)), targets=np.array([0, 1, 2]))
    assert isinstance(result.outputs["loss"], np.ndarray)
    assert kernel.backward(result, {"loss": 2 * result.outputs["loss"]})["Z"].shape == (3, 4)


def test_a_backward_pass_without_a_result_says_what_to_pass() -> None:
    kernel: Any = numeric.load("cross_entropy", "numpy")
    with pytest.raises(numeric.InputError, match="NoneType is no result; pass what forward"):
        kernel.backward(None, {})
