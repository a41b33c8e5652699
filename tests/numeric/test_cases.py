"""Small inputs that broke real attention kernels, each with the right answer and its whole kind.

One test a row of the list of cases; the table :data:`ROWS` at the end says where each of the 40 rows is, or why
it cannot be expressed yet. Right answers are literal numbers, or come from :func:`loop`, which reads visible entries
only, one query at a time, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import numeric
from numeric.backends import Backend
from numeric.errors import InputError

Arrays = dict[str, Any]
"""NumPy arrays by name."""

SHOWS_ALL: dict[str, dict[str, int]] = {"attention": {}, "causal_attention": {"offset": 1000}}
"""By program, the parameters with which every key is visible."""

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff by dtype."""

LIMIT = {"float64": 30, "float32": 30, "float16": 4, "bfloat16": 4}
"""By dtype, how many unit roundoffs a correct tensor may be off, relative to its norm."""

STATISTIC = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}
"""By dtype of the inputs, the dtype of L."""

REAL = ("Q", "K", "V", "bias")

both_programs = pytest.mark.parametrize("program", list(SHOWS_ALL))
wide = pytest.mark.parametrize("dtype", ["float32", "float64"])
all_dtypes = pytest.mark.parametrize("dtype", list(UNIT))


# Running a kernel


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype of that name; bfloat16 is the one of ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def on_device(device: Backend, array: Any, dtype: str) -> Any:
    """The array on the device: truth values as they are, numbers in the dtype."""
    if device.name == "cupy" and dtype == "bfloat16":
        pytest.skip("CuPy has no bfloat16 arrays")
    array = np.asarray(array)
    return device.xp.asarray(array if array.dtype == bool else array.astype(dtype_of(dtype)))


def on_host(array: Any) -> np.ndarray:
    """The array as a NumPy array."""
    return np.asarray(array.get() if hasattr(array, "get") else array)


def run(
    device: Backend, program: str, inputs: dict[str, Any], dO: Any, dL: Any = None, dtype: str = "float64"
) -> Arrays:
    """O, L, dQ, dK, dV and, where a bias is given, dbias, in float64; dtypes and shapes are checked.

    Inputs are NumPy arrays and Python numbers by name.
    """
    given = {n: on_device(device, x, dtype) if isinstance(x, np.ndarray) else x for n, x in inputs.items()}
    return run_as_given(program, given, dO=on_device(device, dO, dtype), dL=dL, device=device, dtype=dtype)


def run_as_given(program: str, given: dict[str, Any], dO: Any, dL: Any, device: Backend, dtype: str) -> Arrays:
    """As :func:`run`, with the inputs and dO as they are, strides included."""
    kernel = numeric.load(program)
    result = kernel.forward(**given)
    cotangents = {"O": dO, "L": None if dL is None else on_device(device, dL, STATISTIC[dtype])}
    gradients = kernel.backward(result, cotangents)
    assert set(gradients) == {n for n in REAL if given.get(n) is not None}
    for name, gradient in gradients.items():
        assert gradient.shape == given[name].shape, name
        assert gradient.dtype == dtype_of(dtype), name
    assert result.outputs["O"].dtype == dtype_of(dtype)
    assert result.outputs["L"].dtype == STATISTIC[dtype]
    arrays = {**result.outputs, **{f"d{n}": g for n, g in gradients.items()}}
    return {n: on_host(a).astype(np.float64) for n, a in arrays.items()}


# The right answer


def loop(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    visible: np.ndarray,
    dO: np.ndarray,
    dL: np.ndarray | None = None,
    bias: np.ndarray | float = 0.0,
    scale: float | None = None,
) -> Arrays:
    """O, L and all gradients by plain loops in float64; a hidden entry is never read.

    Q, K and V have the same leading axes; visible and bias broadcast to the scores. dbias has the scores' shape.
    """
    shape = (*Q.shape[:-1], K.shape[-2])
    scale = 1 / math.sqrt(Q.shape[-1]) if scale is None else scale
    visible, bias = np.broadcast_to(visible, shape), np.broadcast_to(bias, shape)
    dL = np.zeros(shape[:-1]) if dL is None else dL
    out = {"O": np.zeros((*Q.shape[:-1], V.shape[-1])), "L": np.full(shape[:-1], -np.inf)}
    out |= {"dQ": np.zeros(Q.shape), "dK": np.zeros(K.shape), "dV": np.zeros(V.shape), "dbias": np.zeros(shape)}
    for *lead, i in np.ndindex(shape[:-1]):
        b, row = tuple(lead), (*lead, i)
        keys = np.flatnonzero(visible[row])
        if not len(keys):
            continue
        scores = scale * K[b][keys] @ Q[row] + bias[row][keys]
        exps = np.exp(scores - scores.max())
        weights = exps / exps.sum()
        jacobian = np.diag(weights) - np.outer(weights, weights)
        dscores = jacobian @ (V[b][keys] @ dO[row]) + weights * dL[row]
        out["O"][row] = weights @ V[b][keys]
        out["L"][row] = scores.max() + math.log(exps.sum())
        out["dQ"][row] = scale * dscores @ K[b][keys]
        out["dK"][b][keys] += scale * np.outer(dscores, Q[row])
        out["dV"][b][keys] += np.outer(weights, dO[row])
        out["dbias"][row][keys] = dscores
    return out


def causal(n: int, m: int, offset: int = 0) -> np.ndarray:
    """True where j ≤ i + offset."""
    return np.array([[j <= i + offset for j in range(m)] for i in range(n)], dtype=bool).reshape(n, m)


def error(actual: np.ndarray, right: np.ndarray, dtype: str, least: float = 0.0) -> float:
    """‖X̂ − X‖_F / ‖X‖_F in unit roundoffs of the dtype; infinite where only one of the two is finite.

    Entries smaller than `least` count as that large in the norm.
    """
    finite = np.isfinite(right)
    if actual.shape != right.shape or not np.array_equal(actual[~finite], right[~finite]):
        return math.inf
    difference = np.linalg.norm(actual[finite] - right[finite])
    if difference == 0:
        return 0.0
    norm = np.linalg.norm(np.maximum(np.abs(right[finite]), least))
    return float(difference / (norm * UNIT[dtype])) if np.isfinite(difference) and norm else math.inf


def assert_right(actual: Arrays, right: Arrays, dtype: str) -> None:
    """Every computed tensor is within :data:`LIMIT` of the right one; where that is 0, it is exactly 0.

    An entry of L is a logarithm: a relative error of its sum is an absolute one of L, so it counts as at least 1.
    """
    for name, array in actual.items():
        precision = STATISTIC[dtype] if name == "L" else dtype
        off = error(array, right[name], precision, least=1.0 if name == "L" else 0.0)
        assert off <= LIMIT[precision], f"{name} is off by {off:.3g} unit roundoffs"


def draw(
    rng: np.random.Generator, dtype: str, n: int, m: int, d: int = 4, dv: int = 3, lead: tuple[int, ...] = ()
) -> Arrays:
    """Normal Q, K, V and dO that the dtype represents exactly, in float64; and dL for float32."""
    shapes = {"Q": (n, d), "K": (m, d), "V": (m, dv), "dO": (n, dv)}
    arrays = {k: rng.normal(size=(*lead, *s)).astype(dtype_of(dtype)).astype(np.float64) for k, s in shapes.items()}
    return {**arrays, "dL": rng.normal(size=(*lead, n)).astype(np.float32).astype(np.float64)}


def qkv(x: Arrays) -> Arrays:
    """The inputs among drawn arrays."""
    return {n: x[n] for n in ("Q", "K", "V")}


def hiding(program: str, visible: np.ndarray, spelling: str) -> dict[str, Any]:
    """Arguments that hide what is not visible: a boolean mask, or an additive −∞."""
    hidden = {"mask": visible} if spelling == "mask" else {"bias": np.where(visible, 0.0, -np.inf)}
    return {**hidden, **SHOWS_ALL[program]}


def weights(device: Backend, program: str, inputs: dict[str, Any]) -> np.ndarray:
    """The weights A ``[.., n, m]`` in float64: the outputs where value j is the unit vector j."""
    m = inputs["K"].shape[-2]
    lead = inputs["K"].shape[:-2]
    identity = np.broadcast_to(np.eye(m), (*lead, m, m))
    given = {n: on_device(device, x, "float64") if isinstance(x, np.ndarray) else x for n, x in inputs.items()}
    outputs = numeric.load(program).forward(**{**given, "V": on_device(device, identity, "float64")}).outputs
    return on_host(outputs["O"])


spellings = pytest.mark.parametrize("spelling", ["mask", "bias"])


# The rows


@both_programs
@spellings
@all_dtypes
@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (5, 1)])
def test_a_row_that_sees_nothing_is_zero(
    device: Backend, rng: np.random.Generator, program: str, spelling: str, dtype: str, shape: tuple[int, int]
) -> None:
    """Row 1: O = 0, L = −∞ and dQ = 0 there, everything finite, the other rows untouched; also if it holds NaN."""
    x = draw(rng, dtype, *shape)
    visible = np.ones(shape, dtype=bool)
    visible[0] = False
    hidden = hiding(program, visible, spelling)
    right = loop(**x, visible=visible)
    for cotangents in ({"dO": x["dO"], "dL": x["dL"]}, {"dO": x["dO"] * (np.arange(shape[0]) > 0)[:, None]}):
        actual = run(device, program, {**qkv(x), **hidden}, **cotangents, dtype=dtype)
        assert not actual["O"][0].any()
        assert actual["L"][0] == -np.inf
        assert not actual["dQ"][0].any()
        assert_right(actual, loop(**{**qkv(x), **cotangents}, visible=visible), dtype)
    x["Q"][0] = np.nan
    assert_right(run(device, program, {**qkv(x), **hidden}, x["dO"], x["dL"], dtype), right, dtype)


@both_programs
@spellings
@all_dtypes
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("poisoned", ["K", "V", "KV"])
def test_a_key_hidden_from_all_may_hold_anything(
    device: Backend, rng: np.random.Generator, program: str, spelling: str, dtype: str, poison: float, poisoned: str
) -> None:
    """Row 2: with NaN or infinity in a hidden key or value, all is as without it; its own gradients are 0."""
    n, m, j = 3, 4, 1
    x = draw(rng, dtype, n, m, lead=(2,))
    without = np.arange(m) != j
    less = {**x, "K": x["K"][:, without], "V": x["V"][:, without]}
    right = loop(**less, visible=np.ones((n, m - 1), dtype=bool))
    for name in poisoned:
        x[name][:, j] = poison
    visible = np.broadcast_to(without, (n, m))
    actual = run(device, program, {**qkv(x), **hiding(program, visible, spelling)}, x["dO"], x["dL"], dtype)
    assert not actual["dK"][:, j].any()
    assert not actual["dV"][:, j].any()
    actual |= {name: actual[name][:, without] for name in ("dK", "dV")}
    actual.pop("dbias", None)
    assert_right(actual, right, dtype)


@wide
@pytest.mark.parametrize("poisoned", ["K", "V", "KV"])
def test_a_key_hidden_from_some_leaves_those_alone(
    device: Backend, rng: np.random.Generator, dtype: str, poisoned: str
) -> None:
    """Row 2, the kind: a causal query before a NaN key has the outputs and gradient that it has without it."""
    n = 5
    x = draw(rng, dtype, n, n)
    right = loop(**x, visible=causal(n, n))
    for name in poisoned:
        x[name][-1] = np.nan
    actual = run(device, "causal_attention", qkv(x), x["dO"], x["dL"], dtype)
    before = {name: actual[name][:-1] for name in ("O", "L", "dQ")}
    assert_right(before, {name: right[name][:-1] for name in before}, dtype)
    assert np.isnan(actual["O"][-1]).all()


@all_dtypes
@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 2), (4, 3)])
def test_more_queries_than_keys_bottom_right(
    device: Backend, rng: np.random.Generator, dtype: str, n: int, m: int
) -> None:
    """Row 3: with offset m − n, the first n − m rows see nothing: outputs and gradients are 0 there."""
    x = draw(rng, dtype, n, m)
    actual = run(device, "causal_attention", {**qkv(x), "offset": m - n}, x["dO"], x["dL"], dtype)
    assert not actual["O"][: n - m].any()
    assert not actual["dQ"][: n - m].any()
    assert (actual["L"][: n - m] == -np.inf).all()
    np.testing.assert_array_equal(actual["O"][n - m], x["V"][0])
    assert_right(actual, loop(**x, visible=causal(n, m, m - n)), dtype)


@both_programs
@all_dtypes
@pytest.mark.parametrize("lead", [(), (2,), (0,), (2, 0)])
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("extra", [(), ("mask",), ("bias",), ("mask", "bias")])
def test_no_queries_or_no_keys(
    device: Backend,
    rng: np.random.Generator,
    program: str,
    dtype: str,
    lead: tuple[int, ...],
    n: int,
    m: int,
    extra: tuple[str, ...],
) -> None:
    """Row 4: shapes are kept; without queries dK = dV = 0, without keys O = 0 and L = −∞."""
    x = draw(rng, dtype, n, m, lead=lead)
    options = {"mask": np.ones((n, m), dtype=bool), "bias": np.zeros((n, m))}
    actual = run(device, program, {**qkv(x), **{name: options[name] for name in extra}}, x["dO"], x["dL"], dtype)
    assert actual["O"].shape == (*lead, n, 3)
    assert actual["L"].shape == (*lead, n)
    assert (actual["L"] == -np.inf).all()
    assert not any(actual[name].any() for name in actual if name != "L")


@both_programs
@wide
def test_batch_entries_without_queries_or_keys(
    device: Backend, rng: np.random.Generator, program: str, dtype: str
) -> None:
    """Row 4, the kind: in a padded batch, entries with no query or no key give zeros and leave the others alone."""
    lengths = [(4, 5), (0, 5), (4, 0), (0, 0), (2, 3)]
    n, m = 4, 5
    x = draw(rng, dtype, n, m, lead=(len(lengths),))
    visible = np.array([np.outer(np.arange(n) < a, np.arange(m) < b) for a, b in lengths])
    for entry, (a, b) in enumerate(lengths):
        x["Q"][entry, a:] = x["K"][entry, b:] = x["V"][entry, b:] = np.nan
    actual = run(device, program, {**qkv(x), "mask": visible, **SHOWS_ALL[program]}, x["dO"], x["dL"], dtype)
    assert not any(actual[name][1:4].any() for name in ("O", "dQ", "dK", "dV"))
    assert_right(actual, loop(**x, visible=visible), dtype)


@both_programs
@wide
@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 4), (4, 3), (5, 7), (13, 9)])
def test_sizes_that_no_tile_divides(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, m: int
) -> None:
    """Row 5: rows padded to a multiple of 4 by NaN, cut off or hidden, give the dense answer."""
    x = draw(rng, dtype, n, m)
    dense = loop(**x, visible=np.ones((n, m), dtype=bool))
    padded = {name: np.full((-(-len(a) // 4) * 4, *a.shape[1:]), np.nan) for name, a in x.items()}
    for name, array in x.items():
        padded[name][: len(array)] = array
    visible = np.outer(np.arange(len(padded["Q"])) < n, np.arange(len(padded["K"])) < m)
    hidden = {"mask": visible, **SHOWS_ALL[program]}
    actual = run(device, program, {**qkv(padded), **hidden}, padded["dO"], padded["dL"], dtype)
    assert not any(actual[name][n:].any() for name in ("O", "dQ"))
    assert not any(actual[name][m:].any() for name in ("dK", "dV"))
    lengths = {"O": n, "L": n, "dQ": n, "dK": m, "dV": m}
    assert_right({name: actual[name][:length] for name, length in lengths.items()}, dense, dtype)
    views = {name: on_device(device, a, dtype) for name, a in qkv(padded).items()}
    views = {name: a[: len(x[name])] for name, a in views.items()}
    dO = on_device(device, padded["dO"], dtype)[:n]
    assert_right(run_as_given(program, {**views, **SHOWS_ALL[program]}, dO, x["dL"], device, dtype), dense, dtype)


def parts_of(x: Arrays, cuts: list[int]) -> list[tuple[int, Arrays]]:
    """The keys and values cut into blocks, each with its first key's place; an empty block stays."""
    edges = [0, *cuts, x["K"].shape[-2]]
    return [(a, {"Q": x["Q"], "K": x["K"][..., a:b, :], "V": x["V"][..., a:b, :]}) for a, b in pairwise(edges)]


def merging(parts: list[Arrays]) -> Arrays:
    """Inputs of `attention` that merge partial results (O, L): each is a value, with L as its score."""
    values = np.stack([p["O"] for p in parts], axis=-2)
    scores = np.stack([p["L"] for p in parts], axis=-1)[..., None, :]
    one = np.zeros((*values.shape[:-2], 1, 1))
    return {"Q": one, "K": np.zeros((*values.shape[:-1], 1)), "V": values, "bias": scores}


@both_programs
@wide
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("empty", ["no keys", "hidden keys"])
def test_merging_empty_partial_results(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, empty: str
) -> None:
    """Row 6: two empty partial results merge to (0, −∞), and with a third to that third, without NaN."""
    x = draw(rng, dtype, n, 4)
    nothing = np.zeros((n, 4), dtype=bool)
    first = {**qkv(x), "mask": nothing} if empty == "hidden keys" else {**qkv(x), "K": x["K"][:0], "V": x["V"][:0]}
    second = {**qkv(x), "K": x["K"][:0], "V": x["V"][:0]}
    parts = [run(device, program, part, x["dO"], dtype=dtype) for part in (first, second)]
    dO, dL = x["dO"][:, None], x["dL"][:, None]
    merged = run(device, program, merging(parts), dO, dL, dtype)
    assert not merged["O"].any()
    assert (merged["L"] == -np.inf).all()
    assert not any(merged[name].any() for name in ("dQ", "dK", "dV", "dbias"))
    third = run(device, program, {**qkv(x), **SHOWS_ALL[program]}, x["dO"], dtype=dtype)
    merged = run(device, program, {**merging([*parts, third]), **SHOWS_ALL[program]}, dO, dL, dtype)
    np.testing.assert_array_equal(merged["O"][:, 0], third["O"])
    np.testing.assert_array_equal(merged["L"][:, 0], third["L"])
    np.testing.assert_array_equal(merged["dV"], np.stack([0 * x["dO"], 0 * x["dO"], x["dO"]], axis=-2))


@both_programs
@all_dtypes
@pytest.mark.parametrize(("n", "d"), [(1, 16), (1, 1), (4, 3)])
def test_one_key_takes_all_the_weight(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, d: int
) -> None:
    """Row 7: with m = 1, exactly O = V, dV = Σ dO and dQ = dK = 0 without a gradient of L."""
    x = draw(rng, dtype, n, 1, d=d, dv=d)
    actual = run(device, program, qkv(x), x["dO"], dtype=dtype)
    np.testing.assert_array_equal(actual["O"], np.repeat(x["V"], n, axis=0))
    assert not actual["dQ"].any()
    assert not actual["dK"].any()
    assert_right({"dV": actual["dV"]}, {"dV": x["dO"].sum(axis=0, keepdims=True)}, dtype)
    if n == 1:
        np.testing.assert_array_equal(actual["dV"], x["dO"])


@both_programs
@all_dtypes
@pytest.mark.parametrize("level", [-3.0, -100.0, -1024.0, -32768.0, 1024.0, 32768.0])
@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("seen", ["all", "all but the last"])
def test_scores_far_from_zero(device: Backend, program: str, dtype: str, level: float, m: int, seen: str) -> None:
    """Row 8: scores all strongly negative (L < 0), or positive, give the gradients of the scores near 0.

    A hidden score at the opposite end changes nothing.
    """
    steps = np.arange(m) / 4
    x = {
        "Q": np.array([[1.0, 1.0]]),
        "K": np.stack([0 * steps, steps], axis=-1),
        "V": np.stack([steps, 1 + steps], axis=-1),
    }
    x |= {"dO": np.array([[1.0, 0.5]]), "dL": np.array([2.0])}
    visible = (np.arange(m) < m - 1)[None, :] | (seen == "all")
    near = loop(**x, visible=visible, scale=1.0)
    shifted = {**qkv(x), "bias": np.where(visible, level, -level), "scale": 1.0, **SHOWS_ALL[program]}
    extra = {} if seen == "all" else {"mask": visible}
    actual = run(device, program, {**shifted, **extra}, x["dO"], x["dL"], dtype)
    assert_right(actual, {**near, "L": near["L"] + level}, dtype)


@both_programs
@wide
@pytest.mark.parametrize("level", [-1e5, 1e5])
def test_literal_weights_far_from_zero(device: Backend, program: str, dtype: str, level: float) -> None:
    """Row 8, the kind: scores ±1e5 and ±1e5 + 1 weigh 1/(1 + e) and e/(1 + e), though exp of them is 0 or ∞."""
    inputs = {
        "Q": np.array([[1.0]]),
        "K": np.array([[level], [level + 1]]),
        "V": np.array([[1.0], [0.0]]),
        "scale": 1.0,
    }
    actual = run(device, program, {**inputs, **SHOWS_ALL[program]}, dO=np.array([[1.0]]), dtype=dtype)
    a, b = 1 / (1 + math.e), math.e / (1 + math.e)
    right: dict[str, Any] = {
        "O": [[a]],
        "L": [level + math.log1p(math.e)],
        "dV": [[a], [b]],
        "dK": [[a * b], [-a * b]],
        "dQ": [[-a * b]],
    }
    assert actual["L"][0] == pytest.approx(right["L"][0], rel=4 * UNIT[dtype])
    assert actual["dQ"][0, 0] == pytest.approx(-a * b, rel=2 * abs(level) * UNIT[dtype])
    assert_right({n: actual[n] for n in ("O", "dV", "dK")}, {n: np.array(right[n]) for n in right}, dtype)


@wide
@pytest.mark.parametrize(("blocks", "size"), [(3, 1), (3, 2), (2, 4)])
def test_blocks_that_spell_causal(
    device: Backend, rng: np.random.Generator, dtype: str, blocks: int, size: int
) -> None:
    """Row 9: full, triangular and empty blocks that spell causal give the causal answer, forward and backward."""
    full, empty = np.ones((size, size), dtype=bool), np.zeros((size, size), dtype=bool)
    triangle = np.tril(full)
    spelled = np.block(
        [[full if q > k else triangle if q == k else empty for k in range(blocks)] for q in range(blocks)]
    )
    n = blocks * size
    x = draw(rng, dtype, n, n)
    right = loop(**x, visible=causal(n, n))
    assert_right(run(device, "attention", {**qkv(x), "mask": spelled}, x["dO"], x["dL"], dtype), right, dtype)
    assert_right(run(device, "causal_attention", qkv(x), x["dO"], x["dL"], dtype), right, dtype)


@both_programs
@all_dtypes
@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 5), (5, 3)])
def test_backward_hides_what_forward_hides(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, m: int
) -> None:
    """Row 10: any mask and any bias with −∞, alone and together, also with the causal condition."""
    x = draw(rng, dtype, n, m, lead=(2,))
    mask = rng.random((2, n, m)) < 0.6
    bias = np.where(rng.random((n, m)) < 0.7, rng.integers(-2, 3, (n, m)), -np.inf)
    allowed = causal(n, m, 1) if program == "causal_attention" else np.ones((n, m), dtype=bool)
    offset = {"offset": 1} if program == "causal_attention" else {}
    for extra in ({}, {"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias}):
        visible = allowed & extra.get("mask", True) & (extra.get("bias", np.zeros(())) > -np.inf)
        actual = run(device, program, {**qkv(x), **extra, **offset}, x["dO"], x["dL"], dtype)
        right = loop(**x, visible=visible, bias=extra.get("bias", 0.0))
        assert_right(actual, {**right, "dbias": right["dbias"].sum(axis=0)}, dtype)


@both_programs
@wide
@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 5), (5, 3)])
def test_a_kernel_that_is_not_causal_has_no_causal_backward(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, m: int
) -> None:
    """Row 11: `attention`, and `causal_attention` with an offset that shows all, see every key, backward too."""
    x = draw(rng, dtype, n, m)
    offsets = [{}] if program == "attention" else [{"offset": m - 1}, {"offset": m + 7}]
    for offset in offsets:
        actual = run(device, program, {**qkv(x), **offset}, x["dO"], x["dL"], dtype)
        assert_right(actual, loop(**x, visible=np.ones((n, m), dtype=bool)), dtype)
        assert actual["dK"].all()


@wide
def test_one_query_sees_both_keys_bottom_right(device: Backend, dtype: str) -> None:
    """Row 12: n = 1, m = 2 with offset 1: weights 1/2, so dK = ±1/4 and dV = 1/2; top-left sees one key only."""
    inputs = {"Q": np.array([[1.0]]), "K": np.zeros((2, 1)), "V": np.array([[1.0], [0.0]]), "scale": 1.0}
    actual = run(device, "causal_attention", {**inputs, "offset": 1}, dO=np.array([[1.0]]), dtype=dtype)
    np.testing.assert_array_equal(actual["O"], [[0.5]])
    np.testing.assert_array_equal(actual["dK"], [[0.25], [-0.25]])
    np.testing.assert_array_equal(actual["dV"], [[0.5], [0.5]])
    actual = run(device, "causal_attention", inputs, dO=np.array([[1.0]]), dtype=dtype)
    np.testing.assert_array_equal(actual["dK"], [[0.0], [0.0]])
    np.testing.assert_array_equal(actual["dV"], [[1.0], [0.0]])


@all_dtypes
@pytest.mark.parametrize(("n", "m"), [(1, 2), (1, 7), (2, 5)])
def test_decoding_gives_every_key_a_gradient(
    device: Backend, rng: np.random.Generator, dtype: str, n: int, m: int
) -> None:
    """Row 12, the kind: few queries after many keys, bottom-right."""
    x = draw(rng, dtype, n, m)
    actual = run(device, "causal_attention", {**qkv(x), "offset": m - n}, x["dO"], x["dL"], dtype)
    assert actual["dK"].any(axis=-1).all()
    assert actual["dV"].any(axis=-1).all()
    assert_right(actual, loop(**x, visible=causal(n, m, m - n)), dtype)


@both_programs
@wide
@pytest.mark.parametrize(("n", "window"), [(3, 1), (5, 1), (5, 2), (6, 3)])
def test_backward_uses_the_window(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, n: int, window: int
) -> None:
    """Row 13: the last `window` keys up to the query's own; with a window of 1, exactly O = V and dV = dO."""
    x = draw(rng, dtype, n, n)
    visible = np.array([[i - window < j <= i for j in range(n)] for i in range(n)])
    x["dL"] *= window > 1
    actual = run(device, program, {**qkv(x), "mask": visible}, x["dO"], x["dL"], dtype)
    if window == 1:
        np.testing.assert_array_equal(actual["O"], x["V"])
        np.testing.assert_array_equal(actual["dV"], x["dO"])
        assert not actual["dQ"].any()
        assert not actual["dK"].any()
    assert_right(actual, loop(**x, visible=visible), dtype)


def test_top_left_and_bottom_right(device: Backend) -> None:
    """Row 14: which of 5 keys 2 queries see, with offset 0 and with offset m − n."""
    inputs = {"Q": np.zeros((2, 3)), "K": np.zeros((5, 3))}
    top_left = weights(device, "causal_attention", inputs)
    np.testing.assert_array_equal(top_left > 0, [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_array_equal(top_left, [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]])
    bottom_right = weights(device, "causal_attention", {**inputs, "offset": 3})
    np.testing.assert_array_equal(bottom_right > 0, [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    np.testing.assert_allclose(bottom_right, [[0.25, 0.25, 0.25, 0.25, 0], [0.2] * 5], rtol=4 * UNIT["float64"])


@wide
@pytest.mark.parametrize(("n", "m"), [(2, 5), (5, 2), (4, 4), (1, 3)])
@pytest.mark.parametrize("offset", [-7, -2, -1, 0, 1, 3, 9])
def test_any_offset(device: Backend, rng: np.random.Generator, dtype: str, n: int, m: int, offset: int) -> None:
    """Row 14, the kind: key j is visible to query i where j ≤ i + offset, forward and backward."""
    x = draw(rng, dtype, n, m)
    actual = run(device, "causal_attention", {**qkv(x), "offset": offset}, x["dO"], x["dL"], dtype)
    assert_right(actual, loop(**x, visible=causal(n, m, offset)), dtype)


@wide
@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_window_as_long_as_the_sequence(device: Backend, rng: np.random.Generator, dtype: str, n: int) -> None:
    """Row 15: together with causal, a window of n hides nothing more."""
    x = draw(rng, dtype, n, n)
    window = np.array([[i - j < n for j in range(n)] for i in range(n)])
    right = loop(**x, visible=causal(n, n))
    assert_right(run(device, "causal_attention", {**qkv(x), "mask": window}, x["dO"], x["dL"], dtype), right, dtype)
    both = window & causal(n, n)
    assert_right(run(device, "attention", {**qkv(x), "mask": both}, x["dO"], x["dL"], dtype), right, dtype)


@both_programs
@all_dtypes
@pytest.mark.parametrize(("heads", "key_heads", "d", "dv"), [(6, 2, 2, 3), (4, 2, 4, 4), (6, 1, 3, 2), (3, 3, 2, 2)])
def test_grouped_heads_sum_their_gradients(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, heads: int, key_heads: int, d: int, dv: int
) -> None:
    """Row 16: with Q in groups over which K and V broadcast, head h reads key head h // group; dK, dV sum over it."""
    n, m, group = 3, 5, heads // key_heads
    x = draw(rng, dtype, n, m, d, dv, lead=(2, heads))
    x["K"], x["V"] = (x[name][:, :key_heads] for name in ("K", "V"))
    own = [h // group for h in range(heads)]
    visible = causal(n, m) if program == "causal_attention" else np.ones((n, m), dtype=bool)
    right = loop(**{**x, "K": x["K"][:, own], "V": x["V"][:, own]}, visible=visible)
    for name in ("dK", "dV"):
        per_head = right[name]
        right[name] = np.zeros((2, key_heads, *per_head.shape[2:]))
        for h in range(heads):
            right[name][:, own[h]] += per_head[:, h]
    grouped = {name: x[name].reshape(2, key_heads, group, *x[name].shape[2:]) for name in ("Q", "dO", "dL")}
    inputs = {"Q": grouped["Q"], "K": x["K"][:, :, None], "V": x["V"][:, :, None]}
    actual = run(device, program, inputs, grouped["dO"], grouped["dL"], dtype)
    assert_right({name: a.reshape(right[name].shape) for name, a in actual.items()}, right, dtype)


@both_programs
def test_which_key_head_a_head_reads(device: Backend, program: str) -> None:
    """Row 16, literally: values 10 and 20 in two key heads give six heads 10, 10, 10, 20, 20, 20 and dV = 3 each."""
    values = np.array([10.0, 20.0]).reshape(2, 1, 1, 1)
    inputs = {"Q": np.ones((2, 3, 1, 2)), "K": np.ones((2, 1, 1, 2)), "V": values}
    actual = run(device, program, inputs, dO=np.ones((2, 3, 1, 1)))
    assert actual["O"].ravel().tolist() == [10, 10, 10, 20, 20, 20]
    assert actual["dV"].ravel().tolist() == [3, 3]


@both_programs
@all_dtypes
@pytest.mark.parametrize("d", [1, 3, 5, 7])
def test_head_sizes_that_no_tile_divides(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, d: int
) -> None:
    """Row 17: inputs that are views of wider arrays, NaN beyond their columns, give the dense answer."""
    n, m, dv = 4, 6, d + 2
    x = draw(rng, dtype, n, m, d, dv)
    padded = {name: np.full((len(x[name]), 12), np.nan) for name in ("Q", "K", "V", "dO")}
    for name, array in padded.items():
        array[:, : x[name].shape[1]] = x[name]
    views = {name: on_device(device, a, dtype)[:, : x[name].shape[1]] for name, a in padded.items()}
    dO = views.pop("dO")
    actual = run_as_given(program, {**views, **SHOWS_ALL[program]}, dO, x["dL"], device, dtype)
    assert_right(actual, loop(**x, visible=np.ones((n, m), dtype=bool)), dtype)


@both_programs
@all_dtypes
@pytest.mark.parametrize(("d", "dv"), [(4, 3), (3, 4), (1, 5), (5, 1)])
def test_values_narrower_or_wider_than_keys(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, d: int, dv: int
) -> None:
    """Row 18: d ≠ dv, all sizes distinct; the default scale is that of d."""
    x = draw(rng, dtype, 7, 6, d, dv, lead=(2,))
    visible = causal(7, 6) if program == "causal_attention" else np.ones((7, 6), dtype=bool)
    assert_right(run(device, program, qkv(x), x["dO"], x["dL"], dtype), loop(**x, visible=visible), dtype)


def read_only(array: Any) -> Any:
    """The array, which NumPy then refuses to write to."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed": lambda xp, a: xp.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "batch last": lambda xp, a: xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(a, 0, -1)), -1, 0),
    "reversed": lambda xp, a: xp.ascontiguousarray(a[..., ::-1, ::-1])[..., ::-1, ::-1],
    "every other": lambda xp, a: xp.repeat(xp.repeat(a, 2, axis=-1), 2, axis=-2)[..., ::2, ::2],
}


@both_programs
@all_dtypes
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_strided_and_read_only_arrays(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, layout: str
) -> None:
    """Row 19: views of every kind give the answer of contiguous copies, and no input is changed."""
    n, m = 3, 5
    x = draw(rng, dtype, n, m, lead=(2,))
    x |= {"mask": rng.random((2, n, m)) < 0.8, "bias": rng.integers(-2, 3, (2, n, m)).astype(np.float64)}
    shown = np.ones((n, m), dtype=bool) if program == "attention" else causal(n, m)
    right = loop(**{k: v for k, v in x.items() if k != "mask"}, visible=x["mask"] & shown)
    names = ("Q", "K", "V", "mask", "bias", "dO")
    views = {k: read_only(LAYOUTS[layout](device.xp, on_device(device, x[k], dtype))) for k in names}
    assert not any(a.flags.c_contiguous for a in views.values())
    copies = {k: on_host(a).copy() for k, a in views.items()}
    inputs = {k: a for k, a in views.items() if k != "dO"}
    assert_right(run_as_given(program, inputs, views["dO"], x["dL"], device, dtype), right, dtype)
    for name, copy in copies.items():
        np.testing.assert_array_equal(on_host(views[name]), copy)


@both_programs
@wide
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_an_expanded_gradient(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, axes: tuple[int, ...]
) -> None:
    """Row 19, the kind: dO with stride 0, as the gradient of a sum or mean has it; and Q, K, V that are one array."""
    n = 4
    x = draw(rng, dtype, n, n, d=3, dv=3, lead=(2,))
    short_shape = tuple(1 if k in axes else s for k, s in enumerate(x["dO"].shape))
    small = x["dO"][tuple(slice(0, s) for s in short_shape)]
    dO = device.xp.broadcast_to(on_device(device, small, dtype), x["dO"].shape)
    assert 0 in dO.strides
    one = read_only(on_device(device, x["Q"], dtype))
    actual = run_as_given(program, {"Q": one, "K": one, "V": one}, dO, x["dL"], device, dtype)
    visible = np.ones((n, n), dtype=bool) if program == "attention" else causal(n, n)
    same = {"Q": x["Q"], "K": x["Q"], "V": x["Q"], "dO": np.broadcast_to(small, x["dO"].shape), "dL": x["dL"]}
    assert_right(actual, loop(**same, visible=visible), dtype)
    np.testing.assert_array_equal(on_host(one).astype(np.float64), x["Q"])


def only_l(device: Backend, program: str, inputs: dict[str, Any], dL: np.ndarray, dtype: str) -> Arrays:
    """The gradients for a cotangent of L alone, in float64."""
    kernel = numeric.load(program)
    given = {n: on_device(device, x, dtype) if isinstance(x, np.ndarray) else x for n, x in inputs.items()}
    result = kernel.forward(**given)
    gradients = kernel.backward(result, {"L": on_device(device, dL, STATISTIC[dtype])})
    return {f"d{n}": on_host(g).astype(np.float64) for n, g in gradients.items()}


@both_programs
@all_dtypes
def test_the_gradient_of_l_alone(device: Backend, rng: np.random.Generator, program: str, dtype: str) -> None:
    """Row 20: q = 0, k = [1, 0], scale 1, loss = L: dq = 1/2, dK = 0, dV = 0; and random inputs."""
    tiny = {"Q": np.zeros((1, 1)), "K": np.array([[1.0], [0.0]]), "V": np.ones((2, 1)), "scale": 1.0}
    actual = only_l(device, program, {**tiny, **SHOWS_ALL[program]}, np.ones(1), dtype)
    np.testing.assert_array_equal(actual["dQ"], [[0.5]])
    np.testing.assert_array_equal(actual["dK"], [[0.0], [0.0]])
    np.testing.assert_array_equal(actual["dV"], [[0.0], [0.0]])
    x = draw(rng, dtype, 4, 6)
    visible = np.ones((4, 6), dtype=bool) if program == "attention" else causal(4, 6)
    right = loop(**{**x, "dO": 0 * x["dO"]}, visible=visible)
    assert_right(only_l(device, program, qkv(x), x["dL"], dtype), right, dtype)


@both_programs
@all_dtypes
def test_a_sink_takes_its_share(device: Backend, program: str, dtype: str) -> None:
    """Row 23, spelled as one more key of value 0 with a bias: O = 1/2, and the gradient of its logit is −1/4."""
    inputs = {"Q": np.zeros((1, 1)), "K": np.zeros((2, 1)), "V": np.array([[1.0], [0.0]]), "bias": np.zeros((1, 2))}
    actual = run(device, program, {**inputs, **SHOWS_ALL[program]}, dO=np.array([[1.0]]), dtype=dtype)
    np.testing.assert_array_equal(actual["O"], [[0.5]])
    np.testing.assert_array_equal(actual["dbias"], [[0.25, -0.25]])


@both_programs
@all_dtypes
@pytest.mark.parametrize("n", [1, 100, 8192])
def test_a_shared_logit_is_reduced_in_float32(device: Backend, program: str, dtype: str, n: int) -> None:
    """Row 24, spelled as in row 23: n queries share the logit, whose gradient is −n/4, though float16 stops early."""
    values = np.array([[1.0], [0.0]])
    inputs = {"Q": np.zeros((n, 1)), "K": np.zeros((2, 1)), "V": values, "bias": np.zeros((1, 2))}
    actual = run(device, program, {**inputs, **SHOWS_ALL[program]}, dO=np.ones((n, 1)), dtype=dtype)
    np.testing.assert_array_equal(actual["dbias"], [[n / 4, -n / 4]])
    np.testing.assert_array_equal(actual["dV"], [[n / 2], [n / 2]])


@both_programs
@all_dtypes
def test_only_the_bias_needs_a_gradient(device: Backend, rng: np.random.Generator, program: str, dtype: str) -> None:
    """Row 25: with Q = K = 0 the bias alone makes the scores, and its gradient is right; dQ = dK = 0."""
    n, m = 4, 5
    x = draw(rng, dtype, n, m)
    x |= {"Q": np.zeros((n, 4)), "K": np.zeros((m, 4)), "bias": rng.integers(-2, 3, (n, m)).astype(np.float64)}
    visible = np.ones((n, m), dtype=bool) if program == "attention" else causal(n, m)
    actual = run(device, program, {**qkv(x), "bias": x["bias"]}, x["dO"], x["dL"], dtype)
    assert_right(actual, loop(**x, visible=visible), dtype)
    assert not actual["dbias"][~visible].any()
    literal = {"Q": np.zeros((1, 1)), "K": np.zeros((2, 1)), "V": np.array([[4.0], [8.0]]), "bias": np.zeros((1, 2))}
    actual = run(device, program, {**literal, **SHOWS_ALL[program]}, dO=np.array([[1.0]]), dtype=dtype)
    np.testing.assert_array_equal(actual["dbias"], [[-1.0, 1.0]])


@both_programs
@all_dtypes
@pytest.mark.parametrize(
    "shape", [(1, 1, 5), (5,), (1, 5), (4, 1), (4, 5), (3, 1, 5), (2, 1, 1, 5), (2, 3, 4, 5), (1, 1), (1,), ()]
)
def test_a_broadcast_bias_sums_its_gradient(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, shape: tuple[int, ...]
) -> None:
    """Row 26: dbias has the bias's shape, summed over the batch, heads, queries or keys that it was shared by."""
    full = (2, 3, 4, 5)
    x = draw(rng, dtype, 4, 5, lead=(2, 3))
    x["dL"] = np.abs(x["dL"])  # Without a sign, the sums do not cancel.
    bias = rng.integers(-2, 3, shape).astype(np.float64) * np.ones(shape)
    visible = np.ones((4, 5), dtype=bool) if program == "attention" else causal(4, 5)
    right = loop(**x, visible=visible, bias=np.broadcast_to(bias, full))
    summed = np.zeros(shape)
    for place in np.ndindex(full):
        own = tuple(p if s > 1 else 0 for p, s in zip(place[4 - len(shape) :], shape, strict=True))
        summed[own] += right["dbias"][place]
    actual = run(device, program, {**qkv(x), "bias": np.asarray(bias)}, x["dO"], x["dL"], dtype)
    assert_right(actual, {**right, "dbias": summed}, dtype)


@both_programs
@pytest.mark.parametrize(
    ("odd", "dtype", "rest"),
    [
        ("bias", "float32", "bfloat16"),
        ("bias", "float64", "float32"),
        ("bias", "float16", "float32"),
        ("V", "float32", "float16"),
        ("K", "bfloat16", "float16"),
        ("Q", "float32", "float64"),
    ],
)
def test_mixed_dtypes_are_refused(device: Backend, program: str, odd: str, dtype: str, rest: str) -> None:
    """Row 27: a float32 bias with bfloat16 scores, or any other mix, is an error that names tensors and dtypes."""
    shapes = {"Q": (2, 4), "K": (3, 4), "V": (3, 5), "bias": (2, 3)}
    inputs = {n: on_device(device, np.ones(s), dtype if n == odd else rest) for n, s in shapes.items()}
    with pytest.raises(InputError, match=f"(?=.*{odd} is {dtype})(?=.*is {rest})") as refused:
        numeric.load(program).forward(**inputs)
    assert program in str(refused.value)


@both_programs
@wide
@pytest.mark.parametrize("name", ["O", "L"])
def test_cotangents_of_another_dtype_are_refused(device: Backend, program: str, dtype: str, name: str) -> None:
    """Row 27, the kind: so is a cotangent whose dtype is not its output's."""
    kernel = numeric.load(program)
    ones = on_device(device, np.ones((2, 2)), dtype)
    result = kernel.forward(Q=ones, K=ones, V=ones)
    wrong = on_device(device, np.ones(result.outputs[name].shape), "float16")
    with pytest.raises(InputError, match=f"(?=.*float16)(?=.*{dtype})(?=.* {name} )"):
        kernel.backward(result, {name: wrong})


@both_programs
@all_dtypes
def test_the_scale_leaves_the_bias_alone(device: Backend, rng: np.random.Generator, program: str, dtype: str) -> None:
    """Row 30: scale 1/2, q · k = [0, 2], bias [1, 0]: both scores are 1; and the same for any scale, also 0 and < 0."""
    inputs = {"Q": np.array([[2.0]]), "K": np.array([[0.0], [1.0]]), "V": np.array([[8.0], [0.0]])}
    inputs |= {"bias": np.array([[1.0, 0.0]])}
    actual = run(device, program, {**inputs, "scale": 0.5, **SHOWS_ALL[program]}, dO=np.array([[1.0]]), dtype=dtype)
    np.testing.assert_array_equal(actual["O"], [[4.0]])
    assert actual["L"][0] == pytest.approx(1 + math.log(2), rel=4 * UNIT[STATISTIC[dtype]])
    np.testing.assert_array_equal(actual["dbias"], [[2.0, -2.0]])
    np.testing.assert_array_equal(actual["dQ"], [[-1.0]])
    np.testing.assert_array_equal(actual["dK"], [[2.0], [-2.0]])
    x = draw(rng, dtype, 3, 5)
    bias = rng.integers(-2, 3, (3, 5)).astype(np.float64)
    visible = np.ones((3, 5), dtype=bool) if program == "attention" else causal(3, 5)
    for scale in (0.5, 2, 0.0, -1.0):
        actual = run(device, program, {**qkv(x), "bias": bias, "scale": scale}, x["dO"], x["dL"], dtype)
        assert_right(actual, loop(**x, visible=visible, bias=bias, scale=scale), dtype)


@both_programs
@wide
@pytest.mark.parametrize("d", [1, 4, 16, 64])
def test_the_default_scale(device: Backend, program: str, dtype: str, d: int) -> None:
    """Row 31: without a scale it is 1/√d: q · k = √d ln 3 and 0 weigh 3/4 and 1/4, and ∂q is (3/16)/√d · k."""
    q, k = np.eye(1, d), np.stack([np.eye(1, d)[0] * math.sqrt(d) * math.log(3), np.zeros(d)])
    inputs = {"Q": q, "K": k, "V": np.array([[1.0], [0.0]]), **SHOWS_ALL[program]}
    actual = run(device, program, inputs, dO=np.array([[1.0]]), dtype=dtype)
    right = {
        "O": np.array([[0.75]]),
        "L": np.array([math.log(4)]),
        "dV": np.array([[0.75], [0.25]]),
        "dQ": 3 / 16 / math.sqrt(d) * k[:1],
        "dK": np.stack([q[0], -q[0]]) * 3 / 16 / math.sqrt(d),
    }
    assert_right(actual, right, dtype)


@both_programs
@wide
@pytest.mark.parametrize("cuts", [[3], [2, 4], [1, 1, 5], [0, 6]])
@pytest.mark.parametrize("backwards", [False, True])
def test_key_blocks_in_several_rounds(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, cuts: list[int], backwards: bool
) -> None:
    """Row 33, spelled as one call a block and one that merges them: forward and backward equal one piece.

    The merge's gradients of values and scores are the cotangents of each block's O and L.
    """
    n, m = 4, 6
    x = draw(rng, dtype, n, m)
    right = loop(**x, visible=causal(n, m) if program == "causal_attention" else np.ones((n, m), dtype=bool))
    order = parts_of(x, cuts)[:: -1 if backwards else 1]
    rounds = [
        (start, {**part, **({"offset": -start} if program == "causal_attention" else {})}) for start, part in order
    ]
    forward = [run(device, program, part, x["dO"], dtype=dtype) for _, part in rounds]
    merged = run(device, "attention", merging(forward), x["dO"][:, None], x["dL"][:, None], dtype)
    actual = {"O": merged["O"][:, 0], "L": merged["L"][:, 0]}
    actual |= {name: np.zeros(right[name].shape) for name in ("dQ", "dK", "dV")}
    for r, (start, part) in enumerate(rounds):
        gradients = run(device, program, part, merged["dV"][:, r], merged["dbias"][:, 0, r], dtype)
        stop = start + len(part["K"])
        actual["dQ"] += gradients["dQ"]
        actual["dK"][start:stop] = gradients["dK"]
        actual["dV"][start:stop] = gradients["dV"]
    assert_right(actual, right, dtype)


@both_programs
@all_dtypes
@pytest.mark.parametrize("shape", [(3, 5), (64, 48)])
def test_the_same_bits_twice(
    device: Backend, rng: np.random.Generator, program: str, dtype: str, shape: tuple[int, int]
) -> None:
    """Row 35: the same backward twice, from one forward or from two, with other calls in between, has the same bits."""
    x = draw(rng, dtype, *shape, lead=(2,))
    given = {k: on_device(device, x[k], dtype) for k in ("Q", "K", "V")}
    given["bias"] = on_device(device, rng.normal(size=(1, shape[1])), dtype)
    cotangents = {"O": on_device(device, x["dO"], dtype), "L": on_device(device, x["dL"], STATISTIC[dtype])}
    kernel = numeric.load(program)
    first = kernel.forward(**given)
    outputs = {n: on_host(a).tobytes() for n, a in first.outputs.items()}
    gradients = [kernel.backward(first, cotangents)]
    other = {n: -a for n, a in given.items()}
    kernel.backward(kernel.forward(**other), cotangents)
    gradients.append(kernel.backward(first, cotangents))
    second = kernel.forward(**given)
    gradients.append(kernel.backward(second, cotangents))
    assert {n: on_host(a).tobytes() for n, a in second.outputs.items()} == outputs
    bits = [{n: on_host(a).tobytes() for n, a in g.items()} for g in gradients]
    assert bits[0] == bits[1] == bits[2]


@both_programs
@pytest.mark.parametrize(
    ("n", "m", "d", "dv"), [(1, 1, 1, 1), (3, 5, 2, 4), (5, 3, 4, 2), (33, 17, 9, 11), (4, 200, 64, 32)]
)
def test_the_two_row_sums_agree(
    device: Backend, rng: np.random.Generator, program: str, n: int, m: int, d: int, dv: int
) -> None:
    """Row 37: rowsum(dO ∘ O) = rowsum(A ∘ dOVᵀ) for all sizes, and the rows of dbias sum to dL."""
    x = draw(rng, "float64", n, m, d, dv)
    inputs = {**qkv(x), "bias": np.zeros((n, m))}
    actual = run(device, program, inputs, x["dO"], x["dL"])
    a = weights(device, program, inputs)
    magnitude = (a * (np.abs(x["dO"]) @ np.abs(x["V"]).T)).sum(axis=-1) + np.abs(x["dL"])
    bound = 4 * (m + dv) * UNIT["float64"] * magnitude
    assert (np.abs((x["dO"] * actual["O"]).sum(axis=-1) - (a * (x["dO"] @ x["V"].T)).sum(axis=-1)) <= bound).all()
    assert (np.abs(actual["dbias"].sum(axis=-1) - x["dL"]) <= bound).all()


@both_programs
@pytest.mark.parametrize("name", ["mask", "bias"])
@pytest.mark.parametrize(
    "shape", [(3, 4), (2, 5), (2, 3), (1, 8), (4, 1), (5, 2, 4), (2, 3, 2, 4), (1, 1, 1, 1, 1), (0, 4)]
)
def test_a_mask_larger_than_the_scores_is_refused(
    device: Backend, program: str, name: str, shape: tuple[int, ...]
) -> None:
    """Row 40: a mask or bias that does not broadcast to the scores is an error with both shapes."""
    inputs = {
        n: on_device(device, np.ones(s), "float64") for n, s in {"Q": (3, 2, 6), "K": (4, 6), "V": (4, 5)}.items()
    }
    extra = on_device(device, np.ones(shape, dtype=bool if name == "mask" else np.float64), "float64")
    with pytest.raises(InputError) as refused:
        numeric.load(program).forward(**inputs, **{name: extra})
    message = str(refused.value)
    assert program in message
    assert f"{name} has shape {shape}" in message
    assert str((3, 2, 4)) in message


# The right answer is right, and wrong ones are seen


def test_the_loop_agrees_with_central_differences(rng: np.random.Generator) -> None:
    """The gradients of :func:`loop` are those of its own O and L."""
    x = {**draw(rng, "float64", 3, 4), "bias": rng.normal(size=(3, 4))}
    visible = causal(3, 4, 1)

    def loss(changed: Arrays) -> float:
        out = loop(**changed, visible=visible)
        return float((out["O"] * x["dO"]).sum() + (out["L"] * x["dL"]).sum())

    right = loop(**x, visible=visible)
    for name in REAL:
        step = rng.normal(size=x[name].shape)
        ahead, back = ({**x, name: x[name] + sign * 1e-5 * step} for sign in (1, -1))
        slope = (loss(ahead) - loss(back)) / 2e-5
        assert slope == pytest.approx(float((right[f"d{name}"] * step).sum()), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("wrong", ["scaled", "nan", "shape", "nonzero", "finite"])
def test_a_wrong_answer_is_seen(wrong: str) -> None:
    """The comparison has teeth: an error of 1e-3, a NaN, a shape, something for 0, and a finite L for −∞."""
    right = {"O": np.ones((2, 3)), "dQ": np.zeros((2, 3)), "L": np.array([-np.inf, 1.0])}
    answers = {
        "scaled": {"O": 1.001 * right["O"]},
        "nan": {"O": np.where(np.eye(2, 3) > 0, np.nan, 1.0)},
        "shape": {"O": np.ones((3, 2))},
        "nonzero": {"dQ": np.full((2, 3), 1e-30)},
        "finite": {"L": np.array([-1e30, 1.0])},
    }
    assert_right({k: v.copy() for k, v in right.items()}, right, "float32")
    with pytest.raises(AssertionError):
        assert_right(answers[wrong], right, "float32")


# Where each row is

NOT_YET = "not expressible yet: "

ROWS: dict[int, str] = {
    1: "test_a_row_that_sees_nothing_is_zero",
    2: "test_a_key_hidden_from_all_may_hold_anything",
    3: "test_more_queries_than_keys_bottom_right",
    4: "test_no_queries_or_no_keys",
    5: "test_sizes_that_no_tile_divides",
    6: "test_merging_empty_partial_results",
    7: "test_one_key_takes_all_the_weight",
    8: "test_scores_far_from_zero",
    9: "test_blocks_that_spell_causal",
    10: "test_backward_hides_what_forward_hides",
    11: "test_a_kernel_that_is_not_causal_has_no_causal_backward",
    12: "test_one_query_sees_both_keys_bottom_right",
    13: "test_backward_uses_the_window",
    14: "test_top_left_and_bottom_right",
    15: "test_a_window_as_long_as_the_sequence",
    16: "test_grouped_heads_sum_their_gradients",
    17: "test_head_sizes_that_no_tile_divides",
    18: "test_values_narrower_or_wider_than_keys",
    19: "test_strided_and_read_only_arrays",
    20: "test_the_gradient_of_l_alone",
    21: NOT_YET + "no program with a softcap",
    22: NOT_YET + "no program with a softcap",
    23: "test_a_sink_takes_its_share",
    24: "test_a_shared_logit_is_reduced_in_float32",
    25: "test_only_the_bias_needs_a_gradient",
    26: "test_a_broadcast_bias_sums_its_gradient",
    27: "test_mixed_dtypes_are_refused",
    28: NOT_YET + "the scale is a number without a gradient",
    29: NOT_YET + "no program with dropout",
    30: "test_the_scale_leaves_the_bias_alone",
    31: "test_the_default_scale",
    32: NOT_YET + "no program with rotary positions",
    33: "test_key_blocks_in_several_rounds",
    34: NOT_YET + "no program of second order",
    35: "test_the_same_bits_twice",
    36: NOT_YET + "no program with RMSNorm",
    37: "test_the_two_row_sums_agree",
    38: NOT_YET + "about checkers, not kernels",
    39: NOT_YET + "about checkers, not kernels",
    40: "test_a_mask_larger_than_the_scores_is_refused",
}


def test_every_row_is_accounted_for() -> None:
    """Each of the 40 rows has a test whose docstring names it, or a reason; and no test names a row twice over."""
    assert set(ROWS) == set(range(1, 41))
    for row, entry in ROWS.items():
        if not entry.startswith(NOT_YET):
            assert globals()[entry].__doc__.startswith((f"Row {row}:", f"Row {row},")), row
        else:
            assert len(entry) > len(NOT_YET)
