"""Kernels against a reference written by hand, which shares nothing with derivation or generated code."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.calculus import backward
from derive.forward import program as forward_program
from derive.proof import interpret
from numeric.backends import Backend
from numeric.runs import on_host
from tests.numeric.reference import Reference, attention_reference

TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        ml_dtypes = pytest.importorskip("ml_dtypes")
        return rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
    return rng.standard_normal(shape).astype(dtype)


def _assert_close(got: object, want: np.ndarray, dtype: str, what: str) -> None:
    computed = on_host(got).astype(np.float64)
    assert computed.shape == want.shape, what
    finite = np.isfinite(want)
    assert np.array_equal(computed[~finite], want[~finite]), what
    size = max(float(np.abs(want[finite]).max(initial=0.0)), 1e-3)
    assert float(np.abs(computed[finite] - want[finite]).max(initial=0.0)) <= TOLERANCE[dtype] * size, what


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("options", [(), ("mask",), ("bias",), ("mask", "bias")], ids=["plain", "mask", "bias", "both"])
@pytest.mark.parametrize("sizes", [(5, 7, 4, 3), (7, 5, 3, 4), (1, 6, 5, 2), (6, 1, 2, 5)], ids=str)
def test_kernel_equals_the_reference(
    device: Backend,
    program: str,
    rng: np.random.Generator,
    dtype: str,
    options: tuple[str, ...],
    sizes: tuple[int, int, int, int],
) -> None:
    """O, L and all gradients, for cotangents of both outputs."""
    if dtype == "bfloat16" and device.name == "cupy":
        pytest.skip("CuPy has no bfloat16 arrays")
    n, m, d, d_v = sizes
    inputs = {"Q": _draw(rng, (n, d), dtype), "K": _draw(rng, (m, d), dtype), "V": _draw(rng, (m, d_v), dtype)}
    if "mask" in options:
        inputs["mask"] = rng.random((n, m)) < 0.6
    if "bias" in options:
        inputs["bias"] = _draw(rng, (n, m), dtype)
    offset = {"offset": m - n} if program == "causal_attention" else {}
    kernel = numeric.load(program)
    result = kernel.forward(**{k: device.xp.asarray(a) for k, a in inputs.items()}, **offset)
    dO = _draw(rng, (n, d_v), dtype)
    dL = rng.standard_normal(n).astype(on_host(result.outputs["L"]).dtype)
    gradients = kernel.backward(result, {"O": device.xp.asarray(dO), "L": device.xp.asarray(dL)})
    want = attention_reference(**inputs, dO=dO, dL=dL, offset=offset.get("offset"))
    _assert_close(result.outputs["O"], want.O, dtype, "O")
    _assert_close(result.outputs["L"], want.L, "float32" if dtype in ("float16", "bfloat16") else dtype, "L")
    for name, gradient in gradients.items():
        _assert_close(gradient, getattr(want, f"d{name}"), dtype, f"d{name}")


def test_reference_has_known_values() -> None:
    """The reference itself, on a case worked by hand: softmax(1, 0) = (e, 1)/(e + 1)."""
    Q, K = np.array([[1.0, 1, 1, 1], [1, -1, 0, 0]]), np.array([[1.0, 1, 0, 0], [0, 0, 1, -1]])
    V, dO = np.array([[1.0, 0], [0, 2]]), np.array([[1.0, -1], [0, 1]])
    want: Reference = attention_reference(Q, K, V, dO, np.zeros(2))
    e = np.e
    np.testing.assert_allclose(want.O, [[e / (e + 1), 2 / (e + 1)], [0.5, 1]], rtol=1e-15)
    np.testing.assert_allclose(want.dV, [[0.7311, -0.2311], [0.2689, 0.2311]], atol=5e-5)
    np.testing.assert_allclose(want.dbias, [[0.5898, -0.5898], [-0.5, 0.5]], atol=5e-5)
    np.testing.assert_allclose(want.dQ[1], [-0.25, -0.25, 0.25, -0.25], rtol=1e-14)


def test_gradients_of_broadcast_inputs_are_summed(device: Backend, program: str, rng: np.random.Generator) -> None:
    """Leading axes broadcast; each input's gradient has its own shape and sums over what it was repeated along."""
    shapes = {"Q": (3, 1, 4, 5), "K": (2, 6, 5), "V": (1, 6, 2), "bias": (3, 1, 1, 6), "mask": (2, 1, 6)}
    inputs: dict[str, np.ndarray] = {n: rng.standard_normal(s) for n, s in shapes.items()}
    inputs["mask"] = inputs["mask"] > -0.5
    kernel = numeric.load(program)
    result = kernel.forward(**{k: device.xp.asarray(a) for k, a in inputs.items()})
    dO, dL = rng.standard_normal((3, 2, 4, 2)), rng.standard_normal((3, 2, 4))
    gradients = kernel.backward(result, {"O": device.xp.asarray(dO), "L": device.xp.asarray(dL)})
    full = {
        n: np.broadcast_to(a, (3, 2, *((4, 6) if n in ("bias", "mask") else a.shape[-2:]))) for n, a in inputs.items()
    }
    sums = {n: np.zeros(full[n].shape) for n in gradients}
    for at in np.ndindex(3, 2):
        offset = 0 if program == "causal_attention" else None
        want = attention_reference(**{n: a[at] for n, a in full.items()}, dO=dO[at], dL=dL[at], offset=offset)
        for name, total in sums.items():
            total[at] = getattr(want, f"d{name}")
    for name, gradient in gradients.items():
        shape = shapes[name]
        padded = (1,) * (sums[name].ndim - len(shape)) + shape
        axes = tuple(k for k, length in enumerate(padded) if length == 1 and sums[name].shape[k] != 1)
        expected = sums[name].sum(axis=axes, keepdims=True).reshape(shape)
        np.testing.assert_allclose(on_host(gradient), expected, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
def test_kernel_equals_the_exact_interpreter_in_rationals(program: str, seed: int) -> None:
    """Rational inputs through the symbolic oracle, exponentials kept exact, against the float64 kernel."""
    chance, (n, m, d, d_v) = random.Random(seed), ((2, 3, 2, 1), (3, 2, 1, 2), (1, 3, 2, 2))[seed]

    def drawn(rows: int, columns: int) -> list[list[Fraction]]:
        return [[Fraction(chance.randint(-6, 6), 4) for _ in range(columns)] for _ in range(rows)]

    source = forward_program(program)
    exact = {"Q": drawn(n, d), "K": drawn(m, d), "V": drawn(m, d_v), "bias": drawn(n, m), "dO": drawn(n, d_v)}
    values = interpret(source, {k: exact[k] for k in ("Q", "K", "V", "bias")})
    known = {**exact, **values, "dL": [Fraction(1, 2)] * n}
    derived = backward(source).derived
    values |= interpret(derived, {i.name: known[i.name] for i in derived.inputs})
    kernel = numeric.load(program)
    result = kernel.forward(**{k: np.array(exact[k], dtype=np.float64) for k in ("Q", "K", "V", "bias")})
    gradients = kernel.backward(result, {"O": np.array(exact["dO"], dtype=np.float64), "L": np.full(n, 0.5)})
    for name, array in (*result.outputs.items(), *((f"d{k}", g) for k, g in gradients.items())):
        want = np.array(sp.Matrix(values[name]).evalf(30).tolist(), dtype=np.float64).reshape(array.shape)
        np.testing.assert_allclose(array, want, rtol=1e-13, atol=1e-15, err_msg=name)
