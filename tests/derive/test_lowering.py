"""Lowering: array code has the value of the definitions, few operations, no overflow, and never 0 · NaN."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import numeric
from derive.algebra import Axis, Entry, Indicator, Maximum, Tensor, Total, Visible
from derive.calculus import backward
from derive.errors import DeriveError, LoweringError
from derive.forward import Builder, Program, program
from derive.forward.softmax import logsumexp, softmax
from derive.lower import Kernel, dense, operations, tensorise
from derive.lower.arrays import Apply, Name, Node, Scalar, View, arranged, mentioned, walk
from derive.lower.stabilise import stabilise
from derive.pipeline import kernel, module
from derive.printers.arrays import ArrayPrinter
from derive.proof import Decimals, interpret
from numeric import support
from tests.derive.test_algebra import SHAPES, Expressions, random_inputs
from tests.derive.test_algebra import SIZES as RANDOM_SIZES
from tests.derive.test_calculus import SIZES, SMALL, derived, seed_names
from tests.families import ATTENTION

i, k = Axis("i", "n"), Axis("k", "n")
j, p = Axis("j", "m"), Axis("p", "m")
c, v = Axis("c", "d"), Axis("v", "d_v")
HELPERS = ("all_of", "as_numbers", "filled", "matmul", "visible_matmul", "visible_max", "visible_only")


# Operations.


def test_plain_attention_takes_seventeen_operations() -> None:
    assert kernel(program("attention").plain()).operations == 17


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("namespace", ["numpy", "cupy"])
def test_the_header_counts_what_the_kernels_count(name: str, namespace: str) -> None:
    source = program(name)
    header = " ".join(module(source, namespace).split('"""')[1].split())
    plain, full = re.search(r"views: (\d+) for the plain program .*, (\d+) with mask, bias and L", header).groups()
    assert int(plain) == kernel(source.plain()).operations
    assert int(full) == kernel(source).operations


class Counted:
    """An array that counts the operations it takes part in; transposes and new axes are views and free."""

    def __init__(self, array: np.ndarray, log: list[str]) -> None:
        self.array, self.log = array, log
        self.shape = array.shape

    @property
    def mT(self) -> Counted:
        return Counted(self.array.mT, self.log)

    def __getitem__(self, index: Any) -> Counted:
        return Counted(self.array[index], self.log)

    def _operator(self, name: str, other: Any, *, swap: bool = False) -> Counted:
        self.log.append(name)
        pair = (self.array, other.array if isinstance(other, Counted) else other)
        return Counted(getattr(np, name)(*(pair[::-1] if swap else pair)), self.log)

    def __add__(self, other: Any) -> Counted:
        return self._operator("add", other)

    def __sub__(self, other: Any) -> Counted:
        return self._operator("subtract", other)

    def __mul__(self, other: Any) -> Counted:
        return self._operator("multiply", other)

    def __rmul__(self, other: Any) -> Counted:
        return self._operator("multiply", other, swap=True)

    def __truediv__(self, other: Any) -> Counted:
        return self._operator("divide", other)

    def __matmul__(self, other: Any) -> Counted:
        return self._operator("matmul", other)


class CountingNamespace:
    """The functions of NumPy on counted arrays."""

    inf = np.inf

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __getattr__(self, name: str) -> Callable[..., Counted]:
        def function(*args: Any, **options: Any) -> Counted:
            self.log.append(name)
            return Counted(
                getattr(np, name)(*(a.array if isinstance(a, Counted) else a for a in args), **options), self.log
            )

        return function


def test_plain_attention_executes_at_most_seventeen_operations(rng: np.random.Generator) -> None:
    """Counted while the printed code runs, not from the nodes."""
    log: list[str] = []
    functions = _executed(module(program("attention").plain(), "numpy"), xp=CountingNamespace(log))
    arrays = {n: rng.normal(size=s) for n, s in {"Q": (3, 4), "K": (5, 4), "V": (5, 2), "dO": (3, 2)}.items()}
    counted = {n: Counted(a, log) for n, a in arrays.items()}
    outputs, saved = functions["forward"](counted["Q"], counted["K"], counted["V"])
    gradients = functions["backward"](counted["dO"], **saved)
    assert len(log) <= 17, log
    assert log.count("matmul") == 6
    reference = numeric.load("attention")
    result = reference.forward(**{n: arrays[n] for n in "QKV"})
    np.testing.assert_allclose(outputs["O"].array, result.outputs["O"], rtol=1e-12)
    for name, gradient in reference.backward(result, {"O": arrays["dO"]}).items():
        np.testing.assert_allclose(gradients[name].array, gradient, rtol=1e-12)


def _executed(source: str, **names: Any) -> dict[str, Any]:
    """The names that a generated module defines, with some replaced."""
    space: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, "generated.py", "exec"), space)
    space.update(names)
    return space


# The same module over the strict Array API.


@cache
def strict(name: str) -> dict[str, Any]:
    return _executed(module(program(name), "array_api_strict"))


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask": {"mask": True},
    "bias": {"bias": True},
    "mask, bias and the cotangent of L": {"mask": True, "bias": True, "dL": True},
    "leading axes": {"leading": (2, 3), "dL": True},
    "leading axes and mask": {"leading": (2,), "mask": True},
    "another scale": {"scale": 0.3},
    "offset 2": {"offset": 2},
    "offset −1": {"offset": -1, "dL": True},
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("case", CASES)
def test_the_module_runs_on_the_strict_array_api(name: str, case: str, rng: np.random.Generator) -> None:
    """Forward and backward equal the NumPy kernel's to 1e-12: nothing in the code is NumPy's own."""
    options = CASES[case]
    inputs, parameters, cotangents = _case(rng, name, options)
    with np.errstate(all="ignore"):
        found, gradients = _run_strict(name, inputs, parameters, cotangents)
    reference = numeric.load(name)
    result = reference.forward(**inputs, **parameters)
    for output, array in result.outputs.items():
        np.testing.assert_allclose(found[output], array, rtol=1e-12, atol=1e-12)
    for given_, gradient in reference.backward(result, cotangents).items():
        np.testing.assert_allclose(gradients[given_], gradient, rtol=1e-12, atol=1e-12)


def _case(rng: np.random.Generator, name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    lead, n, m, d, w = options.get("leading", ()), 4, 5, 3, 2
    inputs = {"Q": rng.normal(size=(*lead, n, d)), "K": rng.normal(size=(*lead, m, d))}
    inputs["V"] = rng.normal(size=(*lead, m, w))
    if options.get("mask"):
        inputs["mask"] = rng.random((*lead, n, m)) < 0.6
    if options.get("bias"):
        inputs["bias"] = np.where(rng.random((*lead, n, m)) < 0.8, rng.normal(size=(*lead, n, m)), -np.inf)
    parameters = {x: options[x] for x in ("scale", "offset") if x in options}
    if name != "causal_attention":
        parameters.pop("offset", None)
    cotangents = {"O": rng.normal(size=(*lead, n, w))}
    if options.get("dL"):
        cotangents["L"] = rng.normal(size=(*lead, n))
    return inputs, parameters, cotangents


def _run_strict(
    name: str, inputs: Mapping[str, Any], parameters: Mapping[str, Any], cotangents: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    xp = array_api_strict
    functions = strict(name)
    outputs, saved = functions["forward"](**{n: xp.asarray(a) for n, a in inputs.items()}, **parameters)
    gradients = functions["backward"](**{f"d{n}": xp.asarray(a) for n, a in cotangents.items()}, **saved)
    return tuple({n: np.asarray(a) for n, a in arrays.items()} for arrays in (outputs, gradients))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ATTENTION)
def test_the_module_equals_the_interpreter(name: str, rng: np.random.Generator) -> None:
    """Every output and gradient, against the definitions evaluated in thirty digits."""
    inputs, _, cotangents = _case(rng, name, {"mask": True, "dL": True})
    inputs["mask"][:, 0] = True
    derivation = backward(program(name))
    exact = interpret(program(name), {n: _exact(a) for n, a in inputs.items()}, arithmetic=Decimals(30))
    given_ = {n: _exact(a) for n, a in inputs.items()} | exact | {f"d{n}": _exact(a) for n, a in cotangents.items()}
    needed = {x.name: given_[x.name] for x in derivation.derived.inputs if x.name in given_}
    sizes = {"n": 4, "m": 5, "d": 3, "d_v": 2}
    exact |= interpret(derivation.derived, needed, sizes=sizes, arithmetic=Decimals(30))
    found, gradients = _run_strict(name, inputs, {}, cotangents)
    for output, array in {**found, **{f"d{n}": g for n, g in gradients.items()}}.items():
        np.testing.assert_allclose(array, np.array(exact[output], dtype=float), rtol=1e-12, atol=1e-12)


def _exact(array: np.ndarray) -> Any:
    return array.astype(int).tolist() if array.dtype == bool else _fractions(array.tolist())


def _fractions(nested: Any) -> Any:
    return [_fractions(x) for x in nested] if isinstance(nested, list) else Fraction(nested)


@pytest.mark.parametrize("name", ATTENTION)
def test_what_hidden_keys_and_values_hold_does_not_matter(name: str, rng: np.random.Generator) -> None:
    """NaN and infinity in a key and a value that no query sees: the rest is as if they were not there."""
    inputs, _, cotangents = _case(rng, name, {"dL": True})
    mask = np.ones((4, 5), dtype=bool)
    mask[:, 2] = False
    clean, gradients = _run_strict(name, {**inputs, "mask": mask}, {}, cotangents)
    spoiled = {n: a.copy() for n, a in inputs.items()}
    spoiled["K"][2], spoiled["V"][2] = np.nan, np.inf
    with np.errstate(all="ignore"):
        outputs, found = _run_strict(name, {**spoiled, "mask": mask}, {}, cotangents)
    for one, two in ((clean, outputs), (gradients, found)):
        for n in one:
            np.testing.assert_array_equal(one[n], two[n])


# Small programs, all the way to running code.

LOWERED = [
    "chain",
    "gram",
    "self_attention",
    "powers",
    "several_outputs",
    "softmax_twice",
    "logsumexp_alone",
    "reductions",
    "broadcast_vector",
    "used_output",
    "square_of_sum",
    "unused_input",
    "layer_norm",
    "quadratic_form",
    "masked_mean",
    "parameter_r",
    "residual",
    "causal_and_softmax",
]


@pytest.mark.parametrize("name", LOWERED)
def test_generated_code_of_small_programs_equals_the_interpreter(name: str) -> None:
    """Outputs and gradients, with the inputs' shapes: nothing is left to be broadcast."""
    derivation, given_ = derived(name), _point(SMALL[name]())
    source = derivation.forward
    exact = interpret(source, given_, sizes=SIZES, arithmetic=Decimals(30))
    functions = _executed(module(source, "numpy"))
    arrays = {x.name: np.array(given_[x.name], dtype=bool if x.tensor.boolean else float) for x in source.inputs}
    outputs, saved = functions["forward"](**arrays)
    cotangents = {n: _point_of(o.axes, 9) for n, o in zip(seed_names(derivation), source.outputs, strict=True)}
    exact |= {f"d{n}": a for n, a in _gradients(derivation, {**given_, **exact, **cotangents}, source).items()}
    gradients = functions["backward"](**{n: np.array(a, dtype=float) for n, a in cotangents.items()}, **saved)
    for output in source.outputs:
        np.testing.assert_allclose(outputs[output.name], np.array(exact[output.name], dtype=float), rtol=1e-12)
    for n, gradient in gradients.items():
        expected = np.array(exact[f"d{n}"], dtype=float)
        assert np.shape(gradient) == expected.shape, n
        np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-12, err_msg=n)


def _gradients(derivation: Any, known: Mapping[str, Any], source: Program) -> dict[str, Any]:
    needed = {x.name: known[x.name] for x in derivation.derived.inputs}
    found = interpret(derivation.derived, needed, sizes=SIZES, arithmetic=Decimals(30))
    meanings = {o.meaning.removeprefix("gradient with respect to "): o.name for o in derivation.derived.outputs}
    return {n: found[o] for n, o in meanings.items()}


def _point(source: Program) -> dict[str, Any]:
    return {x.name: _point_of(x.axes, at, boolean=x.tensor.boolean) for at, x in enumerate(source.inputs)}


def _point_of(axes: tuple[Axis, ...], seed: int, *, boolean: bool = False) -> Any:
    chance = random.Random(seed)

    def array(own: tuple[Axis, ...]) -> Any:
        if not own:
            return chance.randint(0, 1) if boolean else Fraction(chance.randint(-16, 16), 8)
        return [array(own[1:]) for _ in range(SIZES[str(own[0].size)])]

    return array(axes)


def test_a_masked_sum_selects_and_does_not_multiply(rng: np.random.Generator) -> None:
    """Σ_j M X: what stands where M is 0 never enters, in the value or in the gradient."""
    X = rng.normal(size=(3, 2))
    X[1, 0] = np.nan
    mask = np.array([[True, True], [False, True], [False, False]])
    functions = _executed(module(SMALL["masked_mean"](), "numpy"))
    outputs, saved = functions["forward"](X=X, mask=mask)
    assert np.isfinite(outputs["Y"]).all()
    gradient = functions["backward"](np.ones(3), **saved)["X"]
    np.testing.assert_array_equal(gradient[~mask], 0)
    assert np.isfinite(gradient).all()


# Stabilisation.


def scores(value: Callable[[Any, Any, Any], sp.Expr], axes: tuple[Axis, ...] = (i, j)) -> Program:
    """A program that defines Y from those of the scores S and T and a mask that its value uses."""
    b = Builder("scores", "")
    known = {"S": Tensor("S", i, j), "T": Tensor("T", i, j), "mask": Tensor("mask", i, j, values="boolean")}
    expression = value(*(t[i, j] for t in known.values()))
    for name, tensor in known.items():
        if any(entry.tensor == tensor for entry in expression.atoms(Entry)):
            b.input(name, i, j, values="boolean" if tensor.boolean else "real")
    b.define("Y", axes, expression)
    return b.output("Y").build()


def biased_logsumexp() -> Program:
    """A logsumexp of scores with a bias for each key, whose gradient is needed before that of the scores."""
    b = Builder("biased_logsumexp", "")
    S, bias = b.input("S", i, j), b.input("bias", j)
    P = b.define("P", (i,), Total(S[i, j] ** 2, j))
    L = b.define("L", (i,), logsumexp(S[i, j] + bias[j], over=j))
    b.define("Y", (i,), L[i] + P[i])
    return b.output("Y").build()


def scaled_softmaxes() -> Program:
    """A difference of two softmaxes, one of them of scores that are defined."""
    b = Builder("scaled_softmaxes", "")
    S = b.input("S", i, j)
    N = b.define("N", (i, j), 3 * S[i, j] + Total(S[i, p], p))
    b.define("Y", (i, j), softmax(N[i, j], over=j) - softmax(S[i, j], over=j) / 2)
    return b.output("Y").build()


STABLE: dict[str, Program] = {
    "biased logsumexp": biased_logsumexp(),
    "softmaxes of different definitions": scaled_softmaxes(),
    "softmax": scores(lambda S, T, M: softmax(S, j)),
    "softmax over the first axis": scores(lambda S, T, M: softmax(S, i)),
    "masked softmax": scores(lambda S, T, M: softmax(S, j, M)),
    "softmax of a sum": scores(lambda S, T, M: softmax(S + T, j)),
    "logsumexp": scores(lambda S, T, M: logsumexp(S, j, M), (i,)),
    "log softmax": scores(lambda S, T, M: S - logsumexp(S, j)),
    "difference of softmaxes": scores(lambda S, T, M: softmax(S, j) - softmax(T, j) / 2),
    "product of softmaxes": scores(lambda S, T, M: softmax(S, j) * softmax(T, j)),
    "softmaxes over both axes": scores(lambda S, T, M: softmax(S, j) * softmax(S, i)),
    "cross entropy": scores(lambda S, T, M: Total(T * (S - logsumexp(S, j)), i, j), ()),
    "mean under a softmax": scores(lambda S, T, M: Total(sp.exp(S) * T, j) / Total(sp.exp(S), j), (i,)),
}


@pytest.mark.parametrize("name", STABLE)
def test_stabilising_keeps_the_value(name: str) -> None:
    source = STABLE[name]
    given_ = _point(source)
    if "mask" in given_:
        given_["mask"] = [[1, 0], [1, 1], [0, 1]]
    plain, stable = (
        interpret(s, given_, sizes=SIZES, arithmetic=Decimals(30))["Y"] for s in (source, stabilise(source))
    )
    np.testing.assert_allclose(np.array(stable, dtype=float), np.array(plain, dtype=float), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", STABLE)
def test_scores_of_any_size_do_not_overflow(name: str) -> None:
    """Scores of ±1e5, far apart in the two tensors: every value and gradient is finite, without a warning."""
    functions = _executed(module(STABLE[name], "numpy"))
    S = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.25]])
    mask = np.array([[True, False], [True, True], [True, True]])
    for shift, other in ((1e5, -1e5), (-1e5, 1e5), (1e5, 1e5)):
        arrays = {"S": S + shift, "T": S[::-1] + other, "mask": mask, "bias": np.array([other, other + 3])}
        used = {x.name: arrays[x.name] for x in STABLE[name].inputs}
        outputs, saved = functions["forward"](**used)
        assert np.isfinite(outputs["Y"]).all()
        gradients = functions["backward"](np.ones_like(outputs["Y"]), **saved)
        assert all(np.isfinite(g).all() for g in gradients.values())


UNSTABLE: dict[str, Program] = {
    "sum of exponentials": scores(lambda S, T, M: Total(sp.exp(S), j), (i,)),
    "masked sum of exponentials": scores(lambda S, T, M: Total(M * sp.exp(S), j), (i,)),
    "root of a sum of exponentials": scores(lambda S, T, M: sp.sqrt(Total(sp.exp(S), j)), (i,)),
    "exponential over a sum of others": scores(lambda S, T, M: sp.exp(2 * S) / Total(sp.exp(S), j)),
    "one more in the denominator": scores(lambda S, T, M: sp.exp(S) / (1 + Total(sp.exp(S), j))),
    "square of a sum below": scores(lambda S, T, M: sp.exp(S) / Total(sp.exp(S), j) ** 2),
}


@pytest.mark.parametrize("name", UNSTABLE)
def test_what_depends_on_the_shift_is_refused(name: str) -> None:
    with pytest.raises(
        LoweringError, match=r"Y\[i.*\] .*depends on a shift of the scores .*shift invariance does not hold"
    ):
        stabilise(UNSTABLE[name])


def test_the_largest_visible_score_is_subtracted() -> None:
    stable = {d.name: d.value for d in stabilise(STABLE["masked softmax"]).definitions}
    S, M = Tensor("S", i, j), Tensor("mask", i, j, values="boolean")
    assert stable["S_max"] == Maximum(Visible(M[i, j], S[i, j]), j)
    assert stable["E"] == M[i, j] * sp.exp(S[i, j] - Tensor("S_max", i)[i])
    assert stable["Z"] == Total(Tensor("E", i, j)[i, j], j)
    assert stable["Y"] == Tensor("E", i, j)[i, j] / Tensor("Z", i)[i]


def test_new_names_avoid_those_of_the_program() -> None:
    b = Builder("taken", "")
    S, E, Z = b.input("S", i, j), b.input("E", i), b.input("Z", i)
    b.define("S_max", (i,), E[i] + Z[i])
    b.define("Y", (i, j), softmax(S[i, j], j) * Tensor("S_max", i)[i])
    names_ = [d.name for d in stabilise(b.output("Y").build()).definitions]
    assert len(set(names_) | {"S", "E", "Z"}) == len(names_) + 3


def test_a_program_without_exponentials_relies_on_nothing() -> None:
    assert kernel(SMALL["chain"]()).relies_on == ()
    assert kernel(program("attention")).relies_on == ("shift invariance",)


# Single expressions.

seeds = st.integers(0, 2**32 - 1)


def evaluated(value: sp.Expr, axes: tuple[Axis, ...], arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The array code of a value, run by NumPy."""
    space = {**vars(support), **arrays, **RANDOM_SIZES}
    return np.asarray(eval(ArrayPrinter(like="X").print(tensorise(value, axes)), {"xp": np, "math": math, **space}))


def _checked(value: sp.Expr, axes: tuple[Axis, ...], seed: int = 0) -> None:
    """A lowered value has the interpreter's value and, where it has axes, its rank."""
    b = Builder("single", "")
    for name, own in SHAPES.items():
        b.input(name, *own)
    b.input("mask", i, j, values="boolean")
    b.define("out", axes, value)
    inputs = random_inputs(seed)
    exact = interpret(b.output("out").build(), inputs, sizes=RANDOM_SIZES, arithmetic=Decimals(30))["out"]
    arrays = {n: np.array(a, dtype=bool if n == "mask" else float) for n, a in inputs.items()}
    found = evaluated(value, axes, arrays)
    expected = np.array(exact, dtype=float)
    assert found.ndim in (0, expected.ndim)
    np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, rtol=1e-10, atol=1e-12)


@settings(max_examples=150)
@given(seed=seeds)
def test_lowered_expressions_have_the_interpreters_value(seed: int) -> None:
    """Or are refused by name; never another value, never another exception."""
    drawn = Expressions(seed, deltas=False, repeated=False)
    axes = drawn.chance.choice([(i, j), (j, i), (i, k), (j, c), (i,), (i, j, c), ()])
    value = drawn.one(axes)
    if value.atoms(Entry):
        try:
            tensorise(value, axes)
        except LoweringError:
            return
        _checked(value, axes, seed)


X, Y, W, U = Tensor("X", i, j), Tensor("Y", i, k), Tensor("W", j, p), Tensor("U", j, c)
vector, weight, small = Tensor("v", i), Tensor("w", j), Tensor("u", c)
MASK = Tensor("mask", i, j, values="boolean")

LITERAL: dict[str, tuple[sp.Expr, tuple[Axis, ...]]] = {
    "product of a matrix and its transpose": (Total(X[i, j] * X[k, j], j), (i, k)),
    "product that sums the first axis": (Total(X[i, j] * Y[i, k], i), (j, k)),
    "three matrices": (Total(X[i, j] * W[j, p] * U[p, c], j, p), (i, c)),
    "outer product": (vector[i] * weight[j], (j, i)),
    "row sums of a product": (Total(X[i, j] * weight[j], j), (i,)),
    "a number": (Total(X[i, j] * vector[i] * weight[j], i, j), ()),
    "conditions of different axes": (Indicator(i <= c) * Indicator(i <= j) * X[i, j] * small[c], (i, j, c)),
    "a condition and a mask of different axes": (Indicator(i <= c) * MASK[i, j] * small[c], (i, j, c)),
    "the number of positions between two": (Total(Indicator(k <= i) * Indicator(j <= k), k), (i, j)),
    "a count of visible keys": (Total(MASK[i, j], j), (i,)),
    "a mask times a mask": (Total(MASK[i, j] * MASK[k, j], j), (i, k)),
    "a mask plus something": (MASK[i, j] + weight[j], (i, j)),
    "one minus a mask": (1 - MASK[i, j], (i, j)),
    "a masked vector": (Indicator(j <= i) * weight[j], (i, j)),
    "a product under a condition of three axes": (Total(Indicator(j <= i) * X[i, j] * U[j, c], j), (i, c)),
    "a difference under a sum": (Total((X[i, j] - vector[i]) ** 2, j), (i,)),
    "a diagonal": (Y[i, i], (i,)),
    "a trace": (Total(Y[k, k], k), ()),
    "a diagonal beside the matrix": (Total(Y[i, i] * Y[i, k], k), (i,)),
    "a diagonal of what is looked up": (Y[i.size - 1 - i, sp.Max(i - 1, 0)], (i,)),
    "a mirrored vector": (vector[i.size - 1 - i] * vector[i], (i,)),
    "a shifted vector": (Indicator(i >= 1) * vector[i - 1], (i,)),
    "a cube root": (sp.cbrt(vector[i] ** 2 + 1), (i,)),
    "a power of two tensors": ((X[i, j] ** 2 + 1) ** vector[i] / (weight[j] ** 2 + 1) ** vector[i], (i, j)),
    "a sum of a product of sums": (Total((U[j, c] + small[c]) * X[i, j], j), (i, c)),
}


@pytest.mark.parametrize("name", LITERAL)
def test_a_lowered_expression_has_its_value(name: str) -> None:
    value, axes = LITERAL[name]
    _checked(value, axes)


@pytest.mark.parametrize("name", LITERAL)
def test_both_layouts_have_the_same_operations(name: str) -> None:
    value, axes = LITERAL[name]
    row, column = (tensorise(value, axes, layout=layout) for layout in ("row", "column"))  # type: ignore[arg-type]
    assert operations(row) == operations(column)
    if not isinstance(row, Scalar):
        assert column.axes == row.axes[::-1]


REFUSED: dict[str, tuple[sp.Expr, str]] = {
    "a maximum over two axes": (Maximum(X[i, j], i, j), "maximum over several axes"),
    "a function of two arguments": (sp.atan2(vector[i], vector[i]), r"atan2.* has no array form"),
    "a function that no array library has": (sp.Function("mystery")(vector[i]), "mystery"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_array_form_is_refused_by_name(name: str) -> None:
    value, message = REFUSED[name]
    with pytest.raises(LoweringError, match=message):
        tensorise(value, (i,))


@pytest.mark.parametrize(
    "function", [sp.exp, sp.log, sp.tanh, sp.sin, sp.cos, sp.sqrt, sp.Abs, sp.sign, sp.erf, sp.atan]
)
def test_elementwise_functions_run_or_are_refused(function: Any) -> None:
    """SymPy's name of a function is not always the Array API's."""
    try:
        source = ArrayPrinter().print(tensorise(function(vector[i]), (i,)))
    except DeriveError as error:
        assert str(function.__name__) in str(error)  # noqa: PT017 (either is right)
        return
    x = array_api_strict.asarray([0.25, 0.5, 2.0])
    found = np.asarray(eval(source, {"xp": array_api_strict, "v": x, "erf": support.erf}))
    expected = [float(sp.N(function(sp.Float(value, 20)))) for value in (0.25, 0.5, 2.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_an_entry_at_a_fixed_position_is_gathered() -> None:
    source = ArrayPrinter().print(tensorise(X[i, 0], (i,)))
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(eval(source, {"xp": np, "X": x, "gathered": support.gathered}), x[:, 0])


def test_a_definition_without_axes_or_with_fewer_than_its_target_fills_its_target() -> None:
    """dX[i,j] = dY[i] for Y[i] = Σ_j X[i,j]: the gradient has the input's shape."""
    b = Builder("row_sums", "")
    given_ = b.input("X", i, j)
    b.define("Y", (i,), Total(given_[i, j], j))
    functions = _executed(module(b.output("Y").build(), "numpy"))
    outputs, saved = functions["forward"](np.ones((3, 2)))
    np.testing.assert_array_equal(outputs["Y"], [2, 2, 2])
    gradient = functions["backward"](np.array([1.0, 2.0, 3.0]), **saved)["X"]
    np.testing.assert_array_equal(gradient, [[1, 1], [2, 2], [3, 3]])
    _, saved = functions["forward"](np.ones((4, 3, 2)))
    assert functions["backward"](np.ones((4, 3)), **saved)["X"].shape == (4, 3, 2)


def test_an_optional_factor_may_be_left_out() -> None:
    """neutral=1 on a real input: left out it is 1, given it multiplies."""
    b = Builder("weighted", "")
    given_, gain = b.input("X", i, j), b.input("gain", j, optional=1)
    b.define("Y", (i, j), given_[i, j] * gain[j])
    try:
        text = module(b.output("Y").build(), "numpy")
    except LoweringError as error:
        assert "gain" in str(error)  # noqa: PT017 (a refusal must name it)
        return
    functions = _executed(text)
    ones = np.ones((3, 2))
    outputs, _ = functions["forward"](ones)
    np.testing.assert_array_equal(outputs["Y"], ones)
    outputs, saved = functions["forward"](ones, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(outputs["Y"], [[2, 3]] * 3)
    gradients = functions["backward"](ones, **saved)
    np.testing.assert_array_equal(gradients["X"], [[2, 3]] * 3)


# Kernels and nodes.


@pytest.mark.parametrize("name", ATTENTION)
def test_the_backward_pass_uses_what_is_saved_and_nothing_else(name: str) -> None:
    scheduled = kernel(program(name))
    forward, defined = {s.name for s in scheduled.forward} | {x.name for x in program(name).inputs}, set()
    cotangents = {x.name for x in scheduled.derivation.derived.inputs if x.name.startswith("d")}
    for statement in scheduled.backward:
        assert set(mentioned(statement.node)) <= set(scheduled.saved) | cotangents | defined
        defined.add(statement.name)
    assert set(scheduled.saved) <= forward
    assert "S" not in scheduled.saved


@pytest.mark.parametrize("name", ATTENTION)
def test_every_statement_is_needed(name: str) -> None:
    scheduled = kernel(program(name))
    used = {n for s in (*scheduled.forward, *scheduled.backward) for n in mentioned(s.node)} | {"O", "L"}
    assert {s.name for s in scheduled.forward} <= used


@pytest.mark.parametrize("name", ATTENTION)
def test_weights_are_never_multiplied_by_what_may_be_hidden(name: str) -> None:
    """Every product with A or dS knows which entries are visible."""
    for node in _nodes(kernel(program(name))):
        if isinstance(node, Apply) and node.function == "multiply":
            continue
        if hasattr(node, "left") and {"A", "dS"} & set(mentioned(node)):
            assert node.visible is not None


def _nodes(scheduled: Kernel) -> Iterator[Node]:
    for statement in (*scheduled.forward, *scheduled.backward):
        yield from walk(statement.node)


def test_the_scale_is_multiplied_into_one_operand_once() -> None:
    statements = {s.name: s for s in kernel(program("attention").plain()).forward}
    assert mentioned(statements["Q_scaled"].node) == ("Q",)
    assert mentioned(statements["S"].node) == ("Q_scaled", "K")


def test_scheduling_changes_neither_program() -> None:
    derivation = backward(program("attention"))
    before = (derivation.forward.definitions, derivation.derived.definitions)
    dense(derivation)
    assert (derivation.forward.definitions, derivation.derived.definitions) == before


def test_views_and_names_are_free_and_arranging_twice_is_arranging_once() -> None:
    x = Name((i, j), "X")
    turned = arranged(x, (j, i))
    assert turned == View((j, i), x)
    assert arranged(turned, (i, j)) == x
    assert arranged(arranged(x, (k, j, i)), (j, i)) == View((j, i), x)
    assert [operations(n) for n in (x, turned, Apply((i, j), "exp", (x,)), Scalar((), sp.Integer(2)))] == [0, 0, 1, 0]


def test_zeros_take_the_shape_of_what_is_there_by_then() -> None:
    """A definition that is 0 before another of the same axes: not that one's shape, which comes later."""
    b = Builder("zeros", "")
    X, Y = b.input("X", i), b.input("Y", j)
    nothing = b.define("N", (i, j), sp.S.Zero)
    later = b.define("Later", (i, j), X[i] * Y[j])
    b.define("O", (i, j), nothing[i, j] + later[i, j])
    assert "N = filled(xp, xp.asarray(0, dtype=X.dtype), (n, m))" in module(b.output("O").build(), "numpy")
    b = Builder("zeros", "")
    X, Y = b.input("X", i), b.input("Y", i)
    nothing = b.define("N", (i,), sp.S.Zero)
    later = b.define("Later", (i,), X[i] * Y[i])
    b.define("O", (i,), nothing[i] + later[i])
    assert "N = xp.zeros_like(X)" in module(b.output("O").build(), "numpy")
