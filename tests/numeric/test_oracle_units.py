"""Units of error: what is wrong is refused, and correct kernels of every kind stay below 1, at every size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.algebra import Axis, Total
from derive.calculus import backward, reverse
from derive.forward import Builder, Program
from derive.forward import program as forward_program
from derive.memory import forget
from numeric.backends import backend
from numeric.mutate.arrays import MutantKernel
from numeric.oracle import ExactRun, exact_run, scaled_error, worst_entry
from numeric.oracle.rounding import MODELS
from numeric.properties import LIMIT, any_program
from numeric.samples import Sample
from numeric.samples import dtype as dtype_of
from tests.numeric import kernels_by_hand as by_hand

Host = np.ndarray
Arrays = dict[str, Host]

i, j, x = Axis("i", "n"), Axis("j", "m"), Axis("x", "D")


def errors(computed: Arrays, exact: ExactRun, rounding: str = "float32 inside") -> dict[str, float]:
    """The scaled error of O and of each gradient."""
    known = {**exact.outputs, **exact.gradients}
    return {name: scaled_error(array, known[name], rounding) for name, array in computed.items()}


def drawn(n: int, m: int, d: int, dtype: str, seed: int = 0, spread: float = 1.0) -> Arrays:
    """Q, K, V and dO."""
    rng = np.random.default_rng(seed)
    shapes = {"Q": (n, d), "K": (m, d), "V": (m, d), "dO": (n, d)}
    return {name: (spread * rng.standard_normal(s)).astype(dtype_of(dtype)) for name, s in shapes.items()}


def exact_of(arrays: Arrays, **more: Any) -> ExactRun:
    inputs = {n: a for n, a in arrays.items() if n != "dO"}
    return exact_run("attention", {**inputs, **more}, {"O": arrays["dO"]})


def ours(arrays: Arrays, **more: Any) -> Arrays:
    """This project's kernel."""
    kernel = numeric.load("attention")
    result = kernel.forward(**{n: a for n, a in arrays.items() if n != "dO"}, **more)
    return {"O": result.outputs["O"], **kernel.backward(result, {"O": arrays["dO"]})}


# Wrong derivations.


def test_a_wrong_derivation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of the calculus is broken; the kernel that is derived with it disagrees with the definitions."""
    rule = reverse.partials_of

    def broken(*arguments: Any) -> Iterator[Any]:
        for partial in rule(*arguments):
            yield replace(partial, weight=2 * partial.weight) if str(arguments[-1].name) == "K" else partial

    forget()  # what derivations remember would hide the broken rule, and later the right one
    with monkeypatch.context() as patched:
        patched.setattr(reverse, "partials_of", broken)
        wrong = backward(forward_program("attention"))
    forget()
    right = backward(forward_program("attention"))
    prop = next(p for p in any_program.properties if p.name == "gradients equal the chain rule")
    sample = Sample("attention", {"n": 3, "m": 4, "d": 2, "d_v": 5}, (), "float64", 1, ("mask", "bias"))
    found = [prop.body(MutantKernel("attention", made), backend("numpy"), sample) for made in (right, wrong)]
    assert found[0] is not None
    assert found[0] < 1
    assert found[1] is not None
    assert found[1] > 1e10


# Rows of 4,096 keys in float32: every fault, one after another.


@pytest.fixture(scope="module")
def long() -> tuple[Arrays, ExactRun]:
    arrays = drawn(16, 4096, 64, "float32")
    return arrays, exact_of(arrays)


FAULTS = {
    "every product in bfloat16": (
        lambda a: by_hand.attention(**a, product=by_hand.rounded_product(dtype_of("bfloat16"))),
        100,
    ),
    "TF32 products": (lambda a: by_hand.attention(**a, product=by_hand.tf32_product), 30),
    "the last four keys dropped": (lambda a: by_hand.attention(**a, dropped=4), 1000),
    "dQ times 1.005": (lambda a: {"Q": ours(a)["Q"] * np.float32(1.005)}, 100),
    "the smallest entry of O doubled": (lambda a: {"O": _smallest_doubled(ours(a)["O"])}, LIMIT),
    "the smallest entry of dQ doubled": (lambda a: {"Q": _smallest_doubled(ours(a)["Q"])}, LIMIT),
}


def _smallest_doubled(array: Host) -> Host:
    changed = array.copy()
    changed.flat[np.argmin(np.abs(array))] *= 2
    return changed


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults_in_long_rows_are_refused(long: tuple[Arrays, ExactRun], fault: str) -> None:
    """A running error bound that grows with the number of keys let each of them pass."""
    pytest.importorskip("ml_dtypes")
    make, least = FAULTS[fault]
    found = errors(make(long[0]), long[1])
    assert min(found.values()) > least, found


def test_large_logits_hide_no_fault_of_a_few_percent() -> None:
    """A bias of ±1e5 leaves float32 scores two digits after the point; 7 % of O and 28 % of dQ are more than that."""
    arrays = drawn(8, 4096, 64, "float32")
    bias = np.round(np.random.default_rng(1).standard_normal((8, 4096)))
    bias = (bias + np.where(np.arange(8) % 2, 1e5, -1e5)[:, None]).astype(np.float32)
    exact, computed = exact_of(arrays, bias=bias), ours(arrays, bias=bias)
    assert max(errors(computed, exact).values()) < 1
    assert errors({"O": computed["O"] * np.float32(1.07)}, exact)["O"] > LIMIT
    assert errors({"Q": computed["Q"] * np.float32(1.28)}, exact)["Q"] > 2 * LIMIT


def test_a_common_offset_of_keys_hides_no_fault() -> None:
    """Keys of 100 + N(0, 1): 48 % passed; a thousandth is seen in the whole of dQ, a ten-thousandth in O."""
    arrays = drawn(16, 4096, 64, "float32")
    arrays["K"] += np.float32(100)
    exact, computed = exact_of(arrays), ours(arrays)
    assert max(errors(computed, exact).values()) < 1
    assert errors({"Q": computed["Q"] * np.float32(1.002)}, exact)["Q"] > LIMIT
    assert errors({"O": computed["O"] * np.float32(1.0003)}, exact)["O"] > LIMIT


# Correct kernels.


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_kernels_that_are_right_stay_below_one_in_long_rows(dtype: str) -> None:
    arrays = drawn(8, 4096, 64, dtype, 3)
    assert max(errors(ours(arrays), exact_of(arrays)).values()) < 1


@pytest.mark.parametrize("n", [1, 2, 8, 64, 512, 4096])
@pytest.mark.parametrize("transposed", [False, True], ids=["queries", "keys"])
def test_every_length_from_1_to_4096(n: int, transposed: bool) -> None:
    arrays = drawn(*((5, n) if transposed else (n, 5)), 16, "float32", n)
    exact = exact_of(arrays)
    assert max(errors(ours(arrays), exact).values()) < 1
    assert max(errors(by_hand.attention(**arrays), exact).values()) < 1


def test_sums_in_the_worst_order_are_right_too(long: tuple[Arrays, ExactRun]) -> None:
    """Term after term, which loses more than blocks do: 64 times the roundoff at 4,096 terms, not 4,096 times."""
    found = errors(by_hand.attention(**long[0], product=by_hand.one_after_another), long[1])
    assert max(found.values()) < 1, found


@pytest.mark.parametrize("spread", [10.0, 100.0, 1000.0])
def test_saturated_weights(spread: float) -> None:
    """One key takes all the weight: a correct kernel passes, a gradient that is a thousandth off does not."""
    arrays = drawn(16, 256, 16, "float32", 2)
    arrays["Q"] *= np.float32(spread)
    exact, computed = exact_of(arrays), ours(arrays)
    assert max(errors(computed, exact).values()) < 1
    assert errors({"V": computed["V"] * np.float32(1.001)}, exact)["V"] > LIMIT


def test_pytorch_s_attention_is_right(long: tuple[Arrays, ExactRun]) -> None:
    """A peer's kernel, fused or not, in float32: short rows and long ones."""
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed; install backprove[peers]")
    short = drawn(33, 50, 20, "float32", 4)
    for arrays, exact in (long, (short, exact_of(short))):
        tensors = [torch.tensor(arrays[name], requires_grad=True) for name in "QKV"]
        output = torch.nn.functional.scaled_dot_product_attention(*(t[None, None] for t in tensors))[0, 0]
        gradients = torch.autograd.grad(output, tensors, torch.tensor(arrays["dO"]))
        made = {"O": output.detach().numpy(), **{n: g.numpy() for n, g in zip("QKV", gradients, strict=True)}}
        assert max(errors(made, exact).values()) < 1, errors(made, exact)


# Rounding models.


@pytest.mark.parametrize("sizes", [(7, 9, 16), (64, 64, 64), (32, 1024, 64)], ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_rounding_model_passes_what_rounds_as_it_says(sizes: tuple[int, int, int], dtype: str) -> None:
    """FlashAttention rounds P and dS, and takes D from the stored O; that is more than float32 inside allows."""
    pytest.importorskip("ml_dtypes")
    arrays = drawn(*sizes, dtype, 5, 3)
    exact = exact_of(arrays)
    flash, coarse, fine = by_hand.flash_attention(**arrays), by_hand.all_in_sixteen_bits(**arrays), ours(arrays)
    assert max(errors(fine, exact, "float32 inside").values()) < 1
    assert max(errors(flash, exact, "FlashAttention").values()) < 1
    assert max(errors(coarse, exact, "exact dtype").values()) < 1
    assert min(errors(flash, exact, "float32 inside").values()) > LIMIT
    assert min(errors(coarse, exact, "float32 inside").values()) > LIMIT
    if sizes[0] > 7:
        assert max(errors(coarse, exact, "FlashAttention").values()) > LIMIT


def test_in_float32_all_models_are_one_and_unknown_ones_are_named() -> None:
    arrays = drawn(4, 5, 3, "float32")
    units = [exact_of(arrays).gradients["Q"].unit("float32", name) for name in MODELS]
    assert all(np.array_equal(unit, units[0]) for unit in units)
    with pytest.raises(Exception, match="there is no rounding model 'fast'; there are exact dtype, float32 inside"):
        exact_of(arrays).gradients["Q"].unit("float32", "fast")


def test_row_sums_come_from_stored_outputs_in_one_model_alone() -> None:
    """With P exact and D from an O of 16 bits, dQ is beyond float32 inside, and O is not."""
    pytest.importorskip("ml_dtypes")
    arrays = drawn(32, 64, 32, "bfloat16", 6)
    q, k, v, g = (arrays[n].astype(np.float64) for n in ("Q", "K", "V", "dO"))
    S = q @ k.T / np.sqrt(32)
    A = np.exp(S) / np.exp(S).sum(-1, keepdims=True)
    stored = (A @ v).astype(dtype_of("bfloat16"))
    dS = A * (g @ v.T - (stored.astype(float) * g).sum(-1, keepdims=True))
    made = {"O": stored, "Q": (dS @ k / np.sqrt(32)).astype(stored.dtype)}
    assert errors(made, exact_of(arrays), "FlashAttention")["Q"] < 1
    found = errors(made, exact_of(arrays))
    assert found["O"] < 1
    assert found["Q"] > LIMIT


# Formulas that lose digits.


def regression(*, width: bool = False) -> Program:
    """Y[i] = Σ_j exp(−w (X_i − Z_j)²/2) V_j, the width being 1 or learned."""
    p = Builder("regression", "Kernel regression.")
    X, Z, V = p.input("X", i), p.input("Z", j), p.input("V", j)
    w = p.input("w")[()] if width else sp.S.One
    p.define("Y", (i,), Total(sp.exp(-w * (X[i] - Z[j]) ** 2 / 2) * V[j], j))
    return p.output("Y").build()


def far() -> Arrays:
    """Points around 1000, a standard deviation apart."""
    rng = np.random.default_rng(7)
    drawn = {"X": 1000 + rng.standard_normal(6), "Z": 1000 + rng.standard_normal(9), "V": rng.standard_normal(9)}
    return {n: a.astype(np.float32) for n, a in drawn.items()}


def test_a_square_that_is_multiplied_out_is_refused() -> None:
    """An entry of dX is off by more than its size; with the difference taken first all are right."""
    arrays, dY = far(), np.ones(6, np.float32)
    X, Z, V = arrays["X"][:, None], arrays["Z"][None], arrays["V"]
    exact = exact_run(regression(), arrays, {"Y": dY}).gradients["X"]
    right = -((X - Z) * np.exp(-((X - Z) ** 2) / 2)) @ V
    wrong = -((X - Z) * np.exp(-(X * X) / 2 + X * Z - Z * Z / 2)) @ V
    assert np.max(np.abs((wrong - right) / right)) > 1
    assert scaled_error(right, exact) < 1
    assert scaled_error(wrong, exact) > 30


def test_the_gradient_of_a_width_that_is_multiplied_out_is_refused() -> None:
    """Σ E (X² − 2XZ + Z²): numbers of a million, whose difference is a few."""
    arrays, dY = far() | {"w": np.asarray(0.7, np.float32)}, np.ones(6, np.float32)
    X, Z, V, w = arrays["X"][:, None], arrays["Z"][None], arrays["V"], arrays["w"]
    exact = exact_run(regression(width=True), arrays, {"Y": dY}).gradients["w"]
    E = np.exp(-w * (X - Z) ** 2 / 2)
    right = np.asarray((-((X - Z) ** 2) / 2 * E * V).sum(dtype=np.float32))
    sums = [(E * V * part).sum(dtype=np.float32) for part in (X * X, X * Z, Z * Z)]
    wrong = np.asarray(-sums[0] / 2 + sums[1] - sums[2] / 2)
    assert scaled_error(right, exact) < 1
    assert scaled_error(wrong, exact) > 10
    found = worst_entry(wrong, exact)
    assert found is not None
    assert (found.index, found.expected) == ((), pytest.approx(float(exact.value)))
    assert "units" in str(found)


def layer_norm_in_one_line() -> Program:
    p = Builder("inline_norm", "LayerNorm in one definition.")
    X = p.input("X", i, x)
    mean = Total(X[i, x], x) / x.size
    other = Axis("y", "D")
    square = Total((X[i, other] - mean) ** 2, other) / x.size
    p.define("Y", (i, x), (X[i, x] - mean) / sp.sqrt(square + sp.Rational(1, 100_000)))
    return p.output("Y").build()


@pytest.mark.parametrize("source", [layer_norm_in_one_line(), "layer_norm"], ids=["inline", "named"])
def test_a_norm_that_is_multiplied_out_is_refused(source: Any) -> None:
    """At mean 1000, Σ x² − (Σ x)²/D has no digit left in float32; differences from the mean have most of theirs."""
    rng = np.random.default_rng(8)
    X, dY = (1000 + rng.standard_normal((5, 32))).astype(np.float32), rng.standard_normal((5, 32)).astype(np.float32)
    inputs = {"X": X} | (
        {"weight": np.ones(32, np.float32), "shift": np.zeros(32, np.float32)} if source == "layer_norm" else {}
    )
    exact = exact_run(source, inputs, {"Y": dY}).gradients["X"]

    def gradient(centred: Host, variance: Host) -> Host:
        rstd = 1 / np.sqrt(variance + np.float32(1e-5))
        n = centred * rstd
        made: Host = rstd * (dY - dY.mean(-1, keepdims=True) - n * (dY * n).mean(-1, keepdims=True))
        return made

    centred = X - X.mean(-1, keepdims=True)
    right = gradient(centred, (centred**2).mean(-1, keepdims=True))
    wrong = gradient(centred, (X * X).mean(-1, keepdims=True) - X.mean(-1, keepdims=True) ** 2)
    assert scaled_error(right, exact) < 1
    assert scaled_error(wrong, exact) > 10


# Sums of entries, and what is reported.


def test_sums_know_what_cancels() -> None:
    """Rows of dS sum to 0: their error is far below the sum of the errors of their entries."""
    arrays = drawn(6, 512, 8, "float32", 9)
    exact = exact_of(arrays, bias=np.zeros((6, 512), np.float32)).gradients["bias"]
    sums = exact.weighted(np.ones(()), -1)
    assert sums.shape == (6,)
    assert (np.abs(sums.value) < 1e-17).all()
    assert (sums.unit("float32") < exact.unit("float32").sum(-1) / 3).all()
    got = ours(arrays, bias=np.zeros((6, 512), np.float32))["bias"]
    assert (np.abs(got.astype(np.longdouble).sum(-1)) < sums.unit("float32")).all()


def test_units_are_the_same_each_time_and_scale_with_the_numbers() -> None:
    arrays = drawn(5, 6, 4, "float32", 10)
    first, second = (exact_of(arrays).gradients["K"].unit("float32") for _ in range(2))
    assert np.array_equal(first, second)
    small = {**arrays, "dO": arrays["dO"] * np.float32(2.0**-20)}
    assert np.allclose(exact_of(small).gradients["K"].unit("float32"), first * 2.0**-20, rtol=1e-6)
    double = exact_of({n: a.astype(np.float64) for n, a in arrays.items()}).gradients["K"].unit("float64")
    assert np.allclose(double, first * 2.0**-29, rtol=1e-3)


def test_what_is_too_large_for_a_dtype_is_infinite_there() -> None:
    p = Builder("large", "")
    X = p.input("X", i)
    p.define("Y", (i,), 1000 * X[i])
    exact = exact_run(p.output("Y").build(), {"X": np.array([100.0, 2.0], np.float16)}).outputs["Y"]
    assert scaled_error(np.array([np.inf, 2000], np.float16), exact) < 1
    assert scaled_error(np.array([-np.inf, 2000], np.float16), exact) > 1000, "as far as the nearest that is too small"
    assert scaled_error(np.array([np.inf, np.inf], np.float16), exact) > 1000
    assert scaled_error(np.array([np.nan, 2000], np.float16), exact) == np.inf
    with pytest.raises(ValueError, match=r"shapes differ: \(1,\) and \(2,\)"):
        scaled_error(np.zeros(1, np.float16), exact)


def test_rounding_decides_on_which_side_of_a_kink_a_number_is() -> None:
    """A score of 1e-9 out of terms of 1: a kernel may find it negative, and pass no gradient."""
    Q, K = np.array([[1.0, 1.0]], np.float32), np.array([[1.0, -1.0 + 2**-24], [1.0, 1.0]], np.float32)
    arrays = {"Q": Q, "K": K, "V": np.ones((2, 1), np.float32)}
    exact = exact_run("relu_attention", arrays, {"O": np.ones((1, 1), np.float32)}).gradients["Q"]
    other = np.array(exact.value - K[0] / (2 * np.sqrt(np.longdouble(2))), np.float32)
    assert scaled_error(other, exact) < 1
    sure = exact_run("relu_attention", {**arrays, "K": K + np.float32(0.5)}, {"O": np.ones((1, 1), np.float32)})
    assert (sure.gradients["Q"].unit("float32") < 1e-5).all()
