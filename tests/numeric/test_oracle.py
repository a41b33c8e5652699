"""The oracle's evaluator: values and gradients from forward definitions alone, and other ways to the same numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp

import numeric
from derive.algebra import Axis, Delta, Indicator, Total
from derive.calculus import backward
from derive.errors import AlgebraError
from derive.forward import Builder, Program
from derive.forward import program as forward_program
from derive.forward.softmax import softmax
from derive.modes import program as any_program
from derive.proof import Decimals, interpret
from numeric.errors import InputError
from numeric.oracle import Oracle, exact_run, pushed_forward, runs
from numeric.oracle.calls import signature_of
from numeric.oracle.discrete import OutsideError
from numeric.samples import Sample

i, k = Axis("i", "n"), Axis("k", "n")
j, c, v = Axis("j", "m"), Axis("c", "d"), Axis("v", "d_v")
Host = np.ndarray


# Against the entrywise interpreter and the derived program.


def nested(array: Host) -> Any:
    if array.ndim:
        return [nested(row) for row in array]
    return int(array) if array.dtype.kind in "bi" else float(array)


def entries(rows: Any) -> list[Any]:
    return [x for row in rows for x in entries(row)] if isinstance(rows, list) else [rows]


COMPARED = (
    *("attention", "alibi_attention", "rope_attention", "relative_bias_attention", "block_sparse_attention"),
    *("dual_chunk_attention", "adaptive_span_attention", "squared_attention", "reformer_attention", "sink_attention"),
    *("layer_norm", "gelu_mlp", "swiglu", "embedding", "cross_entropy", "attention_double_backward", "gpt_block"),
)


@pytest.mark.parametrize("name", COMPARED)
def test_values_and_gradients_are_those_of_the_interpreter_and_the_derived_program(name: str) -> None:
    """Two evaluators and two ways to differentiate, which share no code, agree in 17 digits."""
    source = any_program(name)
    sample = Sample(name, {str(s): 2 + n % 3 for n, s in enumerate(source.sizes)}, (), "float64", 3)
    inputs = sample.inputs(signature_of(source))
    shapes = {o.name: exact_run(source, inputs).outputs[o.name].shape for o in source.outputs}
    rng = np.random.default_rng(1)
    cotangents = {n: rng.standard_normal(shape) for n, shape in shapes.items()}
    exact = exact_run(source, inputs, cotangents)
    arithmetic, sizes = Decimals(), dict(sample.sizes)
    given = {n: nested(apart(source, n, a, sizes)) for n, a in inputs.items()}
    derivation = backward(source)
    values = interpret(derivation.forward, given, sizes=sizes, arithmetic=arithmetic)
    arriving = {derivation.names[n]: nested(a) for n, a in cotangents.items()}
    known = {**given, **values, **arriving}
    needed = {x.name: known[x.name] for x in derivation.derived.inputs if x.name in known}
    gradients = interpret(derivation.derived, needed, sizes=sizes, arithmetic=arithmetic)
    pairs = [(exact.definitions[d.name].value, values[d.name]) for d in source.definitions]
    pairs += [(e.value, gradients[derivation.names[n]]) for n, e in exact.gradients.items()]
    with mpmath.workdps(50):
        for got, want in pairs:
            size = max((abs(x) for x in entries(want) if mpmath.isfinite(x)), default=0)
            for x, y in zip(got.ravel(), entries(want), strict=True):
                assert x == float(y) or abs(mpmath.mpf(str(x)) - y) <= 1e-17 * max(size, 1)


def apart(source: Program, name: str, array: Host, sizes: dict[str, int]) -> Host:
    """An input with every axis by itself."""
    axes = source.input(name).axes
    return array.reshape([int(a.size.subs({s: sizes[str(s)] for s in a.size.free_symbols})) for a in axes])


@pytest.mark.parametrize("seed", range(4))
def test_tangents_and_gradients_are_adjoint(seed: int) -> None:
    """⟨u, J v⟩ = ⟨Jᵀ u, v⟩: forward mode by dual numbers against the chain rule."""
    rng = np.random.default_rng(seed)
    inputs = {n: rng.standard_normal(s) for n, s in (("Q", (2, 4, 3)), ("K", (5, 3)), ("V", (2, 5, 2)))}
    inputs |= {"mask": rng.random((4, 5)) < 0.5, "bias": rng.standard_normal((1, 5))}
    u = {"O": rng.standard_normal((2, 4, 2)), "L": rng.standard_normal((2, 4))}
    gradients = exact_run("attention", inputs, u).gradients
    tangents = {n: rng.standard_normal(inputs[n].shape) for n in gradients}
    moved = pushed_forward("attention", inputs, tangents)
    pushed = sum((moved[n] * a).sum() for n, a in u.items())
    pulled = sum((gradients[n].value * t).sum() for n, t in tangents.items())
    assert abs(pushed - pulled) <= 1e-17 * abs(pushed)


# What is hidden.


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_hidden_does_not_count(value: float) -> None:
    """Forward and backward, and through definitions: A is hidden, and A · V with it."""
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s) for n, s in (("Q", (3, 2)), ("K", (4, 2)), ("V", (4, 2)), ("bias", (3, 4)))}
    inputs["mask"] = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]], dtype=bool)
    cotangents = {"O": rng.standard_normal((3, 2)), "L": rng.standard_normal(3)}
    clean = exact_run("attention", inputs, cotangents)
    spoiled = {n: a.copy() for n, a in inputs.items()}
    spoiled["K"][3], spoiled["V"][3], spoiled["bias"][:, 3] = value, value, value
    spoiled["bias"][0, 1] = -np.inf
    found = exact_run("attention", spoiled, cotangents)
    for name, exact in clean.outputs.items():
        assert np.array_equal(found.outputs[name].value, exact.value)
    for name, exact in clean.gradients.items():
        assert np.array_equal(found.gradients[name].value, exact.value), name
        assert np.isfinite(found.gradients[name].unit("float64")).all()
    assert (found.gradients["K"].value[3] == 0).all()
    assert (found.gradients["bias"].value[~inputs["mask"]] == 0).all()


def test_a_hidden_product_hides_its_other_factors_in_the_chain_rule() -> None:
    """Y = M (X/Z) with Z = 0 where M hides: no gradient passes, and none is undefined."""
    p = Builder("hidden", "")
    X, Z, M = p.input("X", i), p.input("Z", i), p.input("M", i, values="boolean")
    H = p.define("H", (i,), M[i] * X[i] / Z[i])
    p.define("Y", (i, k), H[i] * X[k])
    source = p.output("Y").build()
    arrays = {"X": np.array([3.0, np.nan]), "Z": np.array([2.0, 0.0]), "M": np.array([True, False])}
    found = exact_run(source, arrays, {"Y": np.ones((2, 2))})
    assert found.outputs["Y"].value[0, 0] == 4.5
    assert found.outputs["Y"].value[1, 0] == 0
    assert found.gradients["Z"].value[1] == 0
    assert np.isnan(found.outputs["Y"].value[0, 1])


def test_only_zero_one_factors_hide() -> None:
    """An ordinary 0 does not: 0 · ∞ is no number, and shows."""
    p = Builder("plain", "")
    X, Z = p.input("X", i, j), p.input("Z", i)
    p.define("Y", (i,), Z[i] * Total(X[i, j], j))
    found = exact_run(p.output("Y").build(), {"X": np.array([[np.inf]]), "Z": np.array([0.0])})
    assert np.isnan(found.outputs["Y"].value[0])


def test_a_row_that_sees_nothing() -> None:
    """O = 0, L = −∞, and no gradients, whatever arrives."""
    arrays = {n: np.ones((2, 2)) for n in ("Q", "K", "V")} | {"mask": np.array([[False, False], [True, True]])}
    found = exact_run("attention", arrays, {"O": np.ones((2, 2)), "L": np.ones(2)})
    assert (found.outputs["O"].value[0] == 0).all()
    assert found.outputs["L"].value[0] == -np.inf
    assert (found.gradients["Q"].value[0] == 0).all()
    assert found.outputs["L"].unit("float64")[0] < 1e-299


# Indices.


def test_an_index_outside_is_an_error_that_names_entry_and_index() -> None:
    p = Builder("shifted", "")
    X = p.input("X", j, c)
    p.input("Q", i, c)
    table = p.input("table", i, values="integer")
    p.define("Y", (i, c), X[table[i], c])
    arrays = {"X": np.ones((2, 3)), "Q": np.ones((4, 3)), "table": np.array([0, 1, 2, 0])}
    with pytest.raises(OutsideError, match=r"X\[table\[i\], c\] lies outside of X: index \(2, 0\)"):
        exact_run(p.output("Y").build(), arrays)


def test_a_hidden_index_outside_is_none() -> None:
    """A factor that is 0 hides it, one of a definition too; a sum around it does not lose which entry it was."""
    p = Builder("shifted", "")
    X, table = p.input("X", j), p.input("table", i, values="integer")
    p.define("Y", (i,), Indicator(table[i] >= 0) * Total(Indicator(table[i] + j < j.size) * X[table[i] + j], j))
    source = p.output("Y").build()
    found = exact_run(source, {"X": np.array([1.0, 2.0, 4.0]), "table": np.array([-1, 1, 0])}, {"Y": np.ones(3)})
    assert found.outputs["Y"].value.tolist() == [0, 6, 7]
    assert found.gradients["X"].value.tolist() == [1, 2, 2]
    p = Builder("shifted", "")
    X, table = p.input("X", j), p.input("table", i, values="integer")
    p.define("Y", (i,), Total(X[table[i] + j], j))
    with pytest.raises(OutsideError, match=r"X\[j\S* .*\] lies outside of X: index \(3,\)|index \(3,\)"):
        exact_run(p.output("Y").build(), {"X": np.ones(3), "table": np.array([0, 1])})


def test_diagonals_deltas_and_tables_pass_gradients_back() -> None:
    p = Builder("diagonal", "")
    X, Z, table = p.input("X", i, k), p.input("Z", j), p.input("table", i, values="integer", below=j)
    p.define("Y", (i,), X[i, i] * Z[table[i]] + Total(Delta(i, k) * X[k, i], k))
    arrays = {"X": np.array([[1.0, 5], [7, 3]]), "Z": np.array([10.0, 20, 30]), "table": np.array([2, 2])}
    found = exact_run(p.output("Y").build(), arrays, {"Y": np.array([1.0, 2])})
    assert found.outputs["Y"].value.tolist() == [31, 93]
    assert found.gradients["X"].value.tolist() == [[31, 0], [0, 62]]
    assert found.gradients["Z"].value.tolist() == [0, 0, 7]


def test_offsets_of_any_size() -> None:
    """Positions are counted in integers of any size where parameters are large."""
    arrays = {n: np.ones((2, 2)) for n in ("Q", "K", "V")}
    for offset, seen in ((2**62, True), (-(2**62), False)):
        found = exact_run("causal_attention", arrays, {}, {"offset": offset})
        assert (found.definitions["M"].value == seen).all()


# Kinks.


@pytest.mark.parametrize(
    ("function", "x", "y", "shares"),
    [
        (lambda x, y: sp.Max(x, y), 1.0, 1.0, (0.5, 0.5)),
        (lambda x, y: sp.Min(x, y), 1.0, 2.0, (1.0, 0.0)),
        (lambda x, y: sp.Max(x, 1) + 0 * y, 1.0, 0.0, (0.0, 0.0)),
        (lambda x, y: sp.Max(x, 1) + 0 * y, 1.5, 0.0, (1.0, 0.0)),
        (lambda x, y: sp.Max(x, y, x + y), 0.0, 0.0, (2 / 3, 2 / 3)),
        (lambda x, y: sp.Abs(x) + y, 0.0, 0.0, (0.0, 1.0)),
        (lambda x, y: sp.Abs(x) - y, -2.0, 0.0, (-1.0, -1.0)),
    ],
)
def test_slopes_at_kinks(function: Any, x: float, y: float, shares: tuple[float, float]) -> None:
    """abs has slope 0 at 0; a constant that ties wins; tensors that tie share equally."""
    p = Builder("kinked", "")
    X, Z = p.input("X", i), p.input("Z", i)
    p.define("Y", (i,), function(X[i], Z[i]) + Z[i] - Z[i])
    found = exact_run(p.output("Y").build(), {"X": np.array([x]), "Z": np.array([y])}, {"Y": np.ones(1)})
    assert [float(found.gradients[n].value[0]) for n in ("X", "Z")] == pytest.approx(shares)


class Rounded(sp.Function):
    """Rounding with a straight-through slope."""

    nargs = 1
    definition = property(lambda self: sp.floor(self.args[0] + sp.Rational(1, 2)))

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        return sp.S.One


def test_a_function_has_the_value_and_the_slope_that_it_declares() -> None:
    p = Builder("rounded", "")
    X = p.input("X", i)
    p.define("Y", (i,), Rounded(3 * X[i]))
    source = p.output("Y").build()
    arrays = {"X": np.array([0.4, -1.1])}
    found = exact_run(source, arrays, {"Y": np.array([1.0, 10.0])})
    assert found.outputs["Y"].value.tolist() == [1, -3]
    assert found.gradients["X"].value.tolist() == [3, 30]
    assert pushed_forward(source, arrays, {"X": np.ones(2)})["Y"].tolist() == [3, 3]


def test_what_jumps_is_constant_where_no_gradient_is_asked_for() -> None:
    p = Builder("signs", "")
    X, Z = p.input("X", i), p.input("Z", i, constant=True)
    p.define("Y", (i,), X[i] * sp.sign(Z[i]) * sp.floor(Z[i]))
    found = exact_run(p.output("Y").build(), {"X": np.ones(2), "Z": np.array([2.5, -0.5])}, {"Y": np.ones(2)})
    assert found.gradients["X"].value.tolist() == [2, 1]
    assert (found.gradients["X"].unit("float64") < 1e-14).all()
    p = Builder("signs", "")
    X = p.input("X", i)
    p.define("Y", (i,), X[i] * sp.sign(X[i]))
    with pytest.raises(AlgebraError, match="sign has no derivative that is known here"):
        exact_run(p.output("Y").build(), {"X": np.ones(2)}, {"Y": np.ones(2)})


def test_what_has_no_value_is_named() -> None:
    p = Builder("strange", "")
    Z = p.input("Z", i)
    p.define("Y", (i,), sp.Function("mystery")(Z[i]))
    with pytest.raises(AlgebraError, match="mystery"):
        exact_run(p.output("Y").build(), {"Z": np.ones(2)})


# Calls.


def test_gradients_of_what_is_repeated_are_summed() -> None:
    """Leading axes broadcast, and optional inputs within their own axes."""
    rng = np.random.default_rng(3)
    shapes = {"Q": (3, 1, 4, 5), "K": (2, 6, 5), "V": (1, 6, 2), "bias": (3, 1, 1, 6), "mask": (2, 1, 6)}
    arrays = {n: rng.standard_normal(s) for n, s in shapes.items()}
    arrays["mask"] = arrays["mask"] > -0.5
    cotangents = {"O": rng.standard_normal((3, 2, 4, 2)), "L": rng.standard_normal((3, 2, 4))}
    found = exact_run("attention", arrays, cotangents)
    full = {
        n: np.ascontiguousarray(np.broadcast_to(a, (3, 2, *((4, 6) if n in ("bias", "mask") else a.shape[-2:]))))
        for n, a in arrays.items()
    }
    whole = exact_run("attention", full, cotangents)
    for name in ("Q", "K", "V", "bias"):
        want, shape = whole.gradients[name].value, (1,) * (4 - arrays[name].ndim) + arrays[name].shape
        axes = tuple(n for n, length in enumerate(shape) if length == 1 and want.shape[n] != 1)
        summed = want.sum(axis=axes, keepdims=True).reshape(arrays[name].shape)
        np.testing.assert_allclose(found.gradients[name].value, summed, rtol=1e-17, atol=1e-18)


def test_axes_that_share_a_dimension_and_cotangents_that_are_missing() -> None:
    rng = np.random.default_rng(4)
    arrays = {"Q": rng.standard_normal((6, 3, 2)), "K": rng.standard_normal((2, 4, 2)), "V": np.ones((2, 4, 5))}
    found = exact_run("grouped_query", arrays, {"L": np.ones((6, 3))})
    assert found.outputs["O"].shape == (6, 3, 5)
    assert found.gradients["Q"].shape == (6, 3, 2)
    assert (found.gradients["V"].value == 0).all()
    assert (found.gradients["V"].unit("float32") < 1e-34).all()
    assert exact_run("grouped_query", arrays).gradients["K"].value.tolist() == np.zeros((2, 4, 2)).tolist()


@pytest.mark.parametrize("sizes", [(0, 2, 3, 2), (2, 0, 3, 2), (2, 3, 0, 2), (2, 3, 2, 0)])
def test_sizes_of_zero(sizes: tuple[int, int, int, int]) -> None:
    n, m, d, d_v = sizes
    arrays = {"Q": np.ones((n, d)), "K": np.ones((m, d)), "V": np.ones((m, d_v))}
    found = exact_run("attention", arrays, {"O": np.ones((n, d_v)), "L": np.ones(n)})
    assert found.outputs["O"].shape == (n, d_v)
    assert {name: e.unit("float64").shape for name, e in found.gradients.items()} == {
        "Q": (n, d),
        "K": (m, d),
        "V": (m, d_v),
    }


def test_wrong_calls_are_explained() -> None:
    x = np.ones((2, 2))
    with pytest.raises(AlgebraError, match="input V is missing"):
        exact_run("attention", {"Q": x, "K": x})
    with pytest.raises(AlgebraError, match="no input W; it has"):
        exact_run("attention", {"Q": x, "K": x, "V": x, "W": x})
    with pytest.raises(AlgebraError, match="no parameter offset"):
        exact_run("attention", {"Q": x, "K": x, "V": x}, {}, {"offset": 1})
    with pytest.raises(InputError, match=r"the cotangent of O has shape \(2,\); expected \(2, 2\)"):
        exact_run("attention", {"Q": x, "K": x, "V": x}, {"O": np.ones(2)})
    with pytest.raises(numeric.InputError, match="expected"):
        exact_run("attention", {"Q": x, "K": np.ones((2, 3)), "V": x})


@pytest.mark.parametrize("name", numeric.programs())
def test_a_program_says_of_itself_what_its_kernel_says(name: str) -> None:
    """Sizes, kinds and dimensions are read off the definitions, without the generated code."""
    ours, kernel = signature_of(any_program(name)), numeric.load(name).signature
    assert (ours.inputs, ours.outputs, ours.sizes) == (kernel.inputs, kernel.outputs, kernel.sizes)
    assert ours.parameters == kernel.parameters
    assert set(kernel.gradients) <= set(ours.gradients)


# Numbers.


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0, 3000.0])
def test_long_doubles_hold_what_fifty_digits_give(spread: float) -> None:
    """Whatever the scores are: exponents have a range of their own, so that exp(10⁵) is a number."""
    rng = np.random.default_rng(5)
    arrays = {n: rng.standard_normal(s) for n, s in (("Q", (3, 4)), ("K", (5, 4)), ("V", (5, 2)))}
    arrays["Q"] *= spread
    arrays["bias"] = np.array([[1e5], [-1e5], [0]]) + rng.standard_normal((3, 5))
    cotangents = {"O": rng.standard_normal((3, 2)), "L": rng.standard_normal(3)}
    fast, slow = exact_run("attention", arrays, cotangents), exact_run("attention", arrays, cotangents, digits=60)
    for part in ("outputs", "gradients"):
        for name, exact in getattr(fast, part).items():
            want = getattr(slow, part)[name]
            units = want.unit("float64")
            with mpmath.workdps(60):
                off = [abs(mpmath.mpf(str(x)) - y) for x, y in zip(exact.value.flat, want.value.flat, strict=True)]
            assert all(o <= u * 2e-3 for o, u in zip(off, units.flat, strict=True)), (part, name)
            assert np.allclose(units, exact.unit("float64"), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_machines_without_long_doubles_have_the_same_units(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Digits stand in for long doubles where float64 is asked for, float64 where less is."""
    rng = np.random.default_rng(7)
    shapes = (("Q", (3, 4)), ("K", (5, 4)), ("V", (5, 2)), ("bias", (3, 5)))
    arrays = {n: rng.standard_normal(s).astype(dtype) for n, s in shapes}
    arrays["bias"][0] -= 2000
    cotangents = {"O": rng.standard_normal((3, 2)).astype(dtype)}
    usual = Oracle().exact_run("attention", arrays, cotangents)
    monkeypatch.setattr(runs, "has_long_doubles", lambda: False)
    found = Oracle().exact_run("attention", arrays, cotangents)
    for name, exact in usual.gradients.items():
        units = exact.unit(dtype)
        assert np.allclose(found.gradients[name].unit(dtype), units, rtol=1e-6, atol=0)
        values = np.array([np.longdouble(str(x)) for x in found.gradients[name].value.flat]).reshape(exact.shape)
        assert (np.abs(values - exact.value) <= units / 100).all()


def test_recent_results_are_remembered_by_value() -> None:
    """Equal arrays, equal definitions: one result; other numbers, dtypes, parameters or definitions: another."""
    oracle = Oracle()
    arrays = {n: np.ones((2, 2)) for n in ("Q", "K", "V")}
    first = oracle.exact_run("attention", arrays, {"O": np.ones((2, 2))})
    assert oracle.exact_run("attention", {n: a.copy() for n, a in arrays.items()}, {"O": np.ones((2, 2))}) is first
    assert oracle.exact_run(forward_program("attention"), arrays, {"O": np.ones((2, 2))}) is first
    others = [
        oracle.exact_run("attention", {**arrays, "Q": 2 * arrays["Q"]}, {"O": np.ones((2, 2))}),
        oracle.exact_run("attention", {n: a.astype(np.float32) for n, a in arrays.items()}, {"O": np.ones((2, 2))}),
        oracle.exact_run("attention", arrays, {"O": np.ones((2, 2))}, {"scale": 1.0}),
        oracle.exact_run("attention", arrays),
    ]
    assert all(other is not first for other in others)
    results = []
    for factor in (2, 3):
        p = Builder("twice", "")
        X = p.input("X", i)
        p.define("Y", (i,), factor * X[i] ** 2)
        results.append(oracle.exact_run(p.output("Y").build(), {"X": np.ones(1)}, {"Y": np.ones(1)}))
    assert [float(r.gradients["X"].value[0]) for r in results] == [4, 6]


def test_a_definition_may_spell_everything_in_one_line() -> None:
    """Sums of products of exponentials that no definition names, contracted where they stand."""
    p = Builder("inline", "")
    Q, K, V = p.input("Q", i, c), p.input("K", j, c), p.input("V", j, v)
    p.define("O", (i, v), Total(softmax(Total(Q[i, c] * K[j, c], c) / sp.sqrt(c.size), over=j) * V[j, v], j))
    rng = np.random.default_rng(6)
    arrays = {n: rng.standard_normal(s) for n, s in (("Q", (3, 4)), ("K", (5, 4)), ("V", (5, 2)))}
    cotangent = {"O": rng.standard_normal((3, 2))}
    found, want = exact_run(p.output("O").build(), arrays, cotangent), exact_run("attention", arrays, cotangent)
    for name in ("Q", "K", "V"):
        np.testing.assert_allclose(found.gradients[name].value, want.gradients[name].value, rtol=1e-16, atol=1e-18)


# Independence.


def test_the_oracle_loads_nothing_that_it_checks() -> None:
    """No derivation, lowering, printer or proof, until a mode, whose definitions are derived, is asked for."""
    code = """
import sys, numpy as np
from numeric.oracle import exact_run, scaled_error, enclosures, pushed_forward
x = np.ones((2, 2))
exact = exact_run("attention", {"Q": x, "K": x, "V": x}, {"O": x})
scaled_error(x, exact.outputs["O"], "FlashAttention")
pushed_forward("attention", {"Q": x, "K": x, "V": x}, {"Q": x})
rooms = ("derive.calculus", "derive.lower", "derive.printers", "derive.proof", "derive.modes", "numeric.generated")
print([name for name in sys.modules if name.startswith(rooms)])
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    loaded = [name for name in eval(done.stdout) if not name.startswith("numeric.generated")]
    assert loaded == []
