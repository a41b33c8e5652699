"""Differentiation: compact gradients, readable steps, and derivatives that are right on many small programs.

Three checks share nothing with each other: dual numbers over exact rationals, a fingerprint of the bare chain
rule, and a difference quotient in eighty digits.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import pytest
import sympy as sp

from derive.algebra import Axis, Entry, Indicator, Maximum, Tensor, Total, equal, free_axes, fresh
from derive.algebra.binders import rewrite
from derive.calculus import Derivation, Step, backward, tangent
from derive.calculus.parts import name_parts
from derive.errors import DerivationError
from derive.forward import Builder, Program, names, program
from derive.forward.program import Definition
from derive.forward.softmax import logsumexp, softmax
from derive.proof import Decimals, interpret
from derive.proof.checks import compacting_changed_nothing, forward_mode_agrees
from tests.derive.test_algebra import within
from tests.families import ATTENTION

i, k, l = (Axis(name, "n") for name in "ikl")
j, p = Axis("j", "m"), Axis("p", "m")
c, e, v = Axis("c", "d"), Axis("e", "d"), Axis("v", "d_v")

SIZES = {"n": 3, "m": 2, "d": 4, "d_v": 5}
ROOT = Path(__file__).parents[2]


# Small programs.


def chain() -> Program:
    """Two matrix products."""
    b = Builder("chain", "")
    X, W, U = b.input("X", i, c), b.input("W", c, j), b.input("U", j, k)
    H = b.define("H", (i, j), Total(X[i, c] * W[c, j], c))
    b.define("Y", (i, k), Total(H[i, j] * U[j, k], j))
    return b.output("Y").build()


def gram() -> Program:
    """One tensor as queries and as keys: X Xᵀ."""
    b = Builder("gram", "")
    X = b.input("X", i, c)
    b.define("S", (i, k), Total(X[i, c] * X[k, c], c))
    return b.output("S").build()


def self_attention() -> Program:
    """Queries, keys and values are one tensor."""
    b = Builder("self_attention", "")
    X = b.input("X", i, c)
    S = b.define("S", (i, k), Total(X[i, c] * X[k, c], c))
    A = b.define("A", (i, k), softmax(S[i, k], over=k))
    b.define("O", (i, c), Total(A[i, k] * X[k, c], k))
    return b.output("O").build()


def diagonal() -> Program:
    """The diagonal of a square matrix, and the matrix."""
    b = Builder("diagonal", "")
    X = b.input("X", i, k)
    b.define("Y", (i,), X[i, i] ** 2 + Total(X[i, k] * X[k, k], k))
    return b.output("Y").build()


def powers() -> Program:
    """Roots, quotients, powers, exponentials and logarithms, entry by entry."""
    b = Builder("powers", "")
    X, W = b.input("X", i), b.input("W", i)
    positive = b.define("P", (i,), X[i] ** 2 + 1)
    b.define("Y", (i,), sp.sqrt(positive[i]) * W[i] ** 3 + sp.log(positive[i]) / positive[i] + sp.exp(W[i]) * X[i])
    return b.output("Y").build()


def used_output() -> Program:
    """An output that a later definition uses."""
    b = Builder("used_output", "")
    X = b.input("X", i, j)
    Y = b.define("Y", (i, j), X[i, j] ** 2)
    b.define("Z", (i,), Total(Y[i, j] * X[i, j], j))
    return b.output("Y").output("Z").build()


def several_outputs() -> Program:
    """Outputs of different shapes that share an input."""
    b = Builder("several_outputs", "")
    X, W = b.input("X", i, j), b.input("W", j)
    b.define("Y", (i,), Total(X[i, j] * W[j], j))
    b.define("Z", (j,), Total(X[i, j], i) * W[j])
    b.define("T", (), Total(W[j], j) ** 2)
    return b.output("Y").output("Z").output("T").build()


def softmax_twice() -> Program:
    """A softmax of a softmax."""
    b = Builder("softmax_twice", "")
    S, V = b.input("S", i, j), b.input("V", j, v)
    A = b.define("A", (i, j), softmax(S[i, j], over=j))
    B = b.define("B", (i, j), softmax(A[i, j], over=j))
    b.define("O", (i, v), Total(B[i, j] * V[j, v], j))
    return b.output("O").build()


def logsumexp_alone() -> Program:
    """A logsumexp whose softmax nobody names."""
    b = Builder("logsumexp_alone", "")
    S = b.input("S", i, j)
    b.define("L", (i,), logsumexp(S[i, j], over=j))
    return b.output("L").build()


def reductions() -> Program:
    """Down to one axis, and to a number."""
    b = Builder("reductions", "")
    X = b.input("X", i, j)
    R = b.define("R", (i,), Total(X[i, j], j))
    b.define("T", (), Total(R[i] ** 2, i) / i.size)
    return b.output("T").build()


def broadcast_vector() -> Program:
    """A vector added to every row and multiplied into every column."""
    b = Builder("broadcast_vector", "")
    X, u, w = b.input("X", i, j), b.input("u", j), b.input("w", i)
    b.define("Y", (i, j), (X[i, j] + u[j]) * w[i])
    return b.output("Y").build()


def broadcast_definition() -> Program:
    """A definition with an axis that its value does not have."""
    b = Builder("broadcast_definition", "")
    x, W = b.input("x", i), b.input("W", i, j)
    Y = b.define("Y", (i, j), sp.exp(x[i]))
    b.define("O", (i,), Total(Y[i, j] * W[i, j] ** 2, j))
    return b.output("O").build()


def unused_input() -> Program:
    """An input on which no output depends."""
    b = Builder("unused_input", "")
    X, U = b.input("X", i, j), b.input("U", i)
    b.define("T", (i,), U[i] ** 2)
    b.define("Y", (i, j), X[i, j] ** 2)
    return b.output("Y").build()


def nested_sums() -> Program:
    """Σ_j A (Σ_k B C) in one definition, and a sum of a function of a sum."""
    b = Builder("nested_sums", "")
    A, B, C = b.input("A", i, j), b.input("B", j, k), b.input("C", k, c)
    b.define("Y", (i, c), Total(A[i, j] * Total(B[j, k] * C[k, c], k), j))
    b.define("Z", (i,), Total(A[i, j] * sp.exp(Total(B[j, k], k)), j))
    return b.output("Y").output("Z").build()


def square_of_sum() -> Program:
    """(Σ x)², and its square again."""
    b = Builder("square_of_sum", "")
    X = b.input("X", i, j)
    b.define("Y", (i,), Total(X[i, j], j) ** 2 + Total(X[i, j] ** 2, j) ** 2)
    return b.output("Y").build()


def layer_norm() -> Program:
    """Mean and variance normalisation, without epsilon."""
    b = Builder("layer_norm", "")
    X, gain = b.input("X", i, c), b.input("gain", c)
    mean = b.define("mean", (i,), Total(X[i, c], c) / c.size)
    variance = b.define("variance", (i,), Total((X[i, c] - mean[i]) ** 2, c) / c.size)
    N = b.define("N", (i, c), (X[i, c] - mean[i]) / sp.sqrt(variance[i]))
    b.define("Y", (i, c), N[i, c] * gain[c])
    return b.output("Y").build()


def distances() -> Program:
    """A kernel of distances between the points of one set, which is 1 where a point meets itself."""
    b = Builder("distances", "")
    x = b.input("x", i)
    D = b.define("D", (i, k), sp.exp(-((x[i] - x[k]) ** 2)))
    b.define("O", (i,), Total(D[i, k] * x[k], k))
    return b.output("O").build()


def quadratic_form() -> Program:
    """xᵀ Y x, and x ∘ Y x."""
    b = Builder("quadratic_form", "")
    x, Y = b.input("x", i), b.input("Y", i, k)
    b.define("T", (), Total(x[i] * Y[i, k] * x[k], i, k))
    b.define("U", (i,), x[i] * Total(Y[i, k] * x[k], k))
    return b.output("T").output("U").build()


def cancelling_uses() -> Program:
    """X reaches the output twice, with opposite signs."""
    b = Builder("cancelling_uses", "")
    X, W = b.input("X", i), b.input("W", i)
    P = b.define("P", (i,), X[i] * W[i])
    b.define("Y", (i,), P[i] - X[i] * W[i] + W[i] ** 2)
    return b.output("Y").build()


def masked_mean() -> Program:
    """A mean over what a mask shows."""
    b = Builder("masked_mean", "")
    X, mask = b.input("X", i, j), b.input("mask", i, j, values="boolean")
    b.define("Y", (i,), Total(mask[i, j] * X[i, j] ** 2, j) / (1 + Total(mask[i, j], j)))
    return b.output("Y").build()


def positions() -> Program:
    """Positions as numbers and in comparisons."""
    b = Builder("positions", "")
    X = b.input("X", i, k)
    b.define("Y", (i,), Total(Indicator(k <= i) * X[i, k] ** 2 * (i - k + 1), k))
    return b.output("Y").build()


def rectifier() -> Program:
    """max(x, 0) by an indicator, which has no gradient of its own."""
    b = Builder("rectifier", "")
    X = b.input("X", i)
    b.define("Y", (i,), X[i] * Indicator(X[i] > 1))
    return b.output("Y").build()


def first_column() -> Program:
    """One entry of each row, at a fixed position."""
    b = Builder("first_column", "")
    X = b.input("X", i, c)
    b.define("Y", (i, c), X[i, 0] * X[i, c])
    return b.output("Y").build()


def step_size() -> Program:
    """A tensor t beside a tensor dt, which is also what the cotangent of t would like to be called."""
    b = Builder("step_size", "")
    t, dt, tt = b.input("t", i), b.input("dt", i), b.input("tt", i)
    b.define("Y", (i,), t[i] * dt[i] ** 2 * tt[i] ** 3)
    return b.output("Y").build()


def parameter_r() -> Program:
    """A parameter with the letter that a named reduction would like to have."""
    b = Builder("parameter_r", "")
    r = b.parameter("r", sp.Rational(1, 2))
    S, V = b.input("S", i, j), b.input("V", j)
    A = b.define("A", (i, j), softmax(r * S[i, j], over=j))
    b.define("O", (i,), Total(A[i, j] * V[j], j))
    return b.output("O").build()


def residual() -> Program:
    """A vector and a matrix times it: its cotangent is added as it is, and multiplied."""
    b = Builder("residual", "")
    Y, x = b.input("Y", i, k), b.input("x", i)
    b.define("T", (i,), x[i] + Total(Y[i, k] * x[k], k))
    return b.output("T").build()


def causal_and_softmax() -> Program:
    """A causal product and half a softmax of one tensor, whose gradient is a long sum of calls and products."""
    b = Builder("causal_and_softmax", "")
    X, W = b.input("X", i, j), b.input("W", j, c)
    b.define("P", (c, i), Total(Indicator(j <= i) * X[i, j] * W[j, c], j))
    b.define("H", (i, j), softmax(X[i, j], over=j) / 2)
    return b.output("H").output("P").build()


def repeated_gradient() -> Program:
    """One gradient has an axis that its value lacks, and another one needs that value at its own axes."""
    b = Builder("repeated_gradient", "")
    X, Y, W = b.input("X", i, j), b.input("Y", i, k), b.input("W", j, p)
    b.define("T", (j, i), (i.size * W[j, j] + Total(X[k, j], k)) * Y[i, i])
    return b.output("T").build()


SMALL: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        chain,
        gram,
        self_attention,
        diagonal,
        powers,
        used_output,
        several_outputs,
        softmax_twice,
        logsumexp_alone,
        reductions,
        broadcast_vector,
        broadcast_definition,
        unused_input,
        nested_sums,
        square_of_sum,
        layer_norm,
        distances,
        quadratic_form,
        cancelling_uses,
        masked_mean,
        positions,
        rectifier,
        first_column,
        step_size,
        parameter_r,
        residual,
        causal_and_softmax,
        repeated_gradient,
    )
}
CATALOGUE: dict[str, Callable[[], Program]] = {
    **{name: (lambda name=name: program(name)) for name in ATTENTION},
    **{f"plain {name}": (lambda name=name: program(name).plain()) for name in ATTENTION},
}
PROGRAMS = {**SMALL, **CATALOGUE}


@cache
def derived(name: str) -> Derivation:
    """The gradients of a program of the list."""
    with within(5):
        return backward(PROGRAMS[name]())


@cache
def pushed(name: str) -> Derivation:
    """The tangents of a program of the list."""
    with within(5):
        return tangent(PROGRAMS[name]())


# Right derivatives.


@pytest.mark.parametrize("name", PROGRAMS)
def test_reverse_mode_agrees_with_dual_numbers(name: str) -> None:
    """⟨cotangent, J·v⟩ = ⟨gradient, v⟩, exactly, in rational numbers."""
    derivation = derived(name)
    assert all(forward_mode_agrees(derivation, seed) for seed in range(3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_compacting_changes_nothing(name: str) -> None:
    """The compact gradients and the bare chain rule agree at random points of a finite field."""
    assert compacting_changed_nothing(derived(name)) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_reverse_mode_agrees_with_a_difference_quotient(name: str) -> None:
    """⟨cotangent, J·v⟩ from the program itself, run at two points close together, in eighty digits."""
    assert gradient_error(derived(name)) < 1e-30


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_agrees_with_a_difference_quotient(name: str) -> None:
    """The tangent program gives J·v, entry by entry."""
    assert tangent_error(pushed(name)) < 1e-30


COMPOSED: dict[str, Callable[[Program], Derivation]] = {
    "backward of backward": lambda source: backward(backward(source).derived),
    "backward of tangent": lambda source: backward(tangent(source).derived),
    "tangent of backward": lambda source: tangent(backward(source).derived),
    "tangent of tangent": lambda source: tangent(tangent(source).derived),
}


@pytest.mark.parametrize("name", ["chain", "plain attention", "attention", "layer_norm"])
@pytest.mark.parametrize("composition", COMPOSED)
def test_second_derivatives_are_derivatives_of_programs(composition: str, name: str) -> None:
    """Derived programs are programs: both modes apply to them again, and are right."""
    derivation = COMPOSED[composition](PROGRAMS[name]())
    error = tangent_error if composition.startswith("tangent") else gradient_error
    assert error(derivation) < 1e-30


FUNCTIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "exp": sp.exp,
    "log": sp.log,
    "tanh": sp.tanh,
    "sin": sp.sin,
    "cosh": sp.cosh,
    "sqrt": sp.sqrt,
    "reciprocal root": lambda x: 1 / sp.sqrt(x),
    "fifth power": lambda x: x**5,
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + sp.exp(-x)),
    "silu": lambda x: x / (1 + sp.exp(-x)),
    "gelu": lambda x: x * (1 + sp.tanh(sp.sqrt(2) * (x + x**3 / 20))) / 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementwise_functions_have_their_derivatives(name: str) -> None:
    b = Builder("elementwise", "")
    X, W = b.input("X", i, j), b.input("W", j)
    H = b.define("H", (i, j), FUNCTIONS[name](X[i, j]))
    b.define("Y", (i,), Total(H[i, j] * W[j], j))
    source = b.output("Y").build()
    assert gradient_error(backward(source)) < 1e-30
    assert tangent_error(tangent(source)) < 1e-30


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_differentiable_input_gets_a_gradient_in_declared_order(name: str) -> None:
    """One that no output depends on gets zeros."""
    expected = [x.name for x in PROGRAMS[name]().inputs if x.differentiable]
    found = [o.meaning.removeprefix("gradient with respect to ") for o in derived(name).derived.outputs]
    assert found == expected


def test_a_zero_one_input_gets_no_gradient() -> None:
    assert [o.name for o in derived("masked_mean").derived.outputs] == ["dX"]


def test_what_may_be_infinite_gets_a_gradient_only_where_it_is_finite() -> None:
    """The derivative of [x > −∞] x is [x > −∞], not 1."""
    b = Builder("finite", "")
    x = b.input("x", i, values="extended")
    b.define("Y", (i,), x[i] * Indicator(x[i] > -sp.oo))
    (definition,) = backward(b.output("Y").build()).derived.definitions
    assert equal(definition.value, Tensor("dY", i)[i] * Indicator(x[i] > -sp.oo))


# Compact form.


Q, K, V = Tensor("Q", i, c), Tensor("K", j, c), Tensor("V", j, v)
A, dA, dS = (Tensor(name, i, j) for name in ("A", "dA", "dS"))
dO, dL, r = Tensor("dO", i, v), Tensor("dL", i), Tensor("r", i)
scale = sp.Symbol("scale", real=True)

GRADIENTS = {
    "dV[j, v]": Total(A[i, j] * dO[i, v], i),
    "dA[i, j]": Total(V[j, v] * dO[i, v], v),
    "r[i]": Total(A[i, j] * dA[i, j], j),
    "dS[i, j]": A[i, j] * (dA[i, j] - r[i]),
    "dQ[i, c]": scale * Total(dS[i, j] * K[j, c], j),
    "dK[j, c]": scale * Total(dS[i, j] * Q[i, c], i),
}


def formulas(derivation: Derivation) -> dict[str, sp.Expr]:
    """The derived definitions: left sides as text, right sides."""
    return {str(d.target): d.value for d in derivation.derived.definitions}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_has_the_gradients_of_the_textbooks(name: str) -> None:
    assert formulas(derived(f"plain {name}")) == GRADIENTS


@pytest.mark.parametrize("name", ATTENTION)
def test_with_the_logsumexp_returned_only_the_row_sum_changes(name: str) -> None:
    expected = {**GRADIENTS, "r[i]": GRADIENTS["r[i]"] - dL[i], "dbias[i, j]": dS[i, j]}
    assert formulas(derived(name)) == expected


@pytest.mark.parametrize("name", ATTENTION)
def test_with_mask_and_bias_and_without_the_logsumexp_nothing_changes(name: str) -> None:
    """Visibility is inside A; no mask appears in any gradient."""
    assert formulas(backward(program(name).returning("O"))) == {**GRADIENTS, "dbias[i, j]": dS[i, j]}


def test_the_logsumexp_alone_passes_its_cotangent_along_the_softmax() -> None:
    """L returned with O, but no cotangent for O: that part of dS is A ∘ dL."""
    source = program("attention").without("mask", "bias")
    found = formulas(backward(source.returning("O", "L")))
    assert equal(_unfolded(found["dS[i, j]"], derived("attention")).coeff(dL[i]), A[i, j])


def _unfolded(value: sp.Expr, derivation: Derivation) -> sp.Expr:
    """A value with named reductions spelled out."""
    reductions = {d.target.tensor: d for d in derivation.derived.definitions if d.name.startswith("r")}

    def spelled(node: sp.Expr) -> sp.Expr:
        known = isinstance(node, Entry) and node.tensor in reductions
        return reductions[node.tensor].at(*node.indices) if known else node

    return sp.expand(rewrite(value, spelled))


def test_the_softmax_of_a_given_score_has_the_compact_gradient() -> None:
    """Over either axis, and with the mask inside A alone."""
    for over, row in ((j, i), (i, j)):
        b = Builder("weights", "")
        S, mask = b.input("S", i, j), b.input("mask", i, j, values="boolean")
        b.define("A", (i, j), softmax(S[i, j], over=over, visible=mask[i, j]))
        found = formulas(backward(b.output("A").build()))
        assert found[f"r[{row}]"] == Total(A[i, j] * dA[i, j], over)
        assert found["dS[i, j]"] == A[i, j] * (dA[i, j] - Tensor("r", row)[row])


def test_a_softmax_of_scores_that_have_no_name_is_folded_too() -> None:
    """A := softmax(scale Σ Q K) in one definition: no exponential is left in the gradients."""
    b = Builder("unnamed_scores", "")
    Q, K = b.input("Q", i, c), b.input("K", j, c)
    b.define("A", (i, j), softmax(Total(Q[i, c] * K[j, c], c), over=j))
    found = backward(b.output("A").build()).derived.definitions
    assert not any(d.value.has(sp.exp) for d in found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_gradient_has_a_loose_axis(name: str) -> None:
    for derivation in (derived(name), pushed(name)):
        for definition in derivation.derived.definitions:
            assert free_axes(definition.value) <= set(definition.axes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_name_in_a_derived_program_is_given_or_defined_before_use(name: str) -> None:
    for derivation in (derived(name), pushed(name)):
        known = [x.name for x in derivation.derived.inputs]
        for definition in derivation.derived.definitions:
            used = {str(x.tensor.name) for x in definition.value.atoms(Entry)}
            assert used <= set(known)
            known.append(definition.name)
        assert len(known) == len(set(known)), f"a name is used twice: {known}"
        assert {o.name for o in derivation.derived.outputs} <= set(known)
        parameters = {x.name for x in derivation.derived.parameters}
        assert not parameters & set(known)


# Steps.


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_says_the_same_before_and_after(name: str) -> None:
    """Contraction and factoring are equalities by themselves; folding is one of the definitions it names."""
    derivation = derived(name)
    defined = {d.name for d in derivation.derived.definitions}
    last = {s.name: Definition(s.target, s.after) for s in derivation.steps if s.name not in defined}
    everything = (*derivation.forward.definitions, *last.values(), *derivation.derived.definitions)
    for step in derivation.steps:
        before, after = step.before, step.after
        if step.rule in ("fold", "write out", "vanishing sum"):
            used = tuple(last.values()) if step.rule == "write out" else everything
            before, after = (_spelled(side, used) for side in (before, after))
        assert equal(before, after), f"{step.name}, {step.rule}"


def _spelled(value: sp.Expr, definitions: tuple[Any, ...]) -> sp.Expr:
    """A value with definitions put in until none is left to put in."""
    for definition in reversed(definitions):
        tensor = definition.target.tensor
        if not any(entry.base == tensor for entry in definition.value.atoms(Entry)):
            value = rewrite(
                value,
                lambda x, d=definition, t=tensor: d.at(*x.indices) if isinstance(x, Entry) and x.base == t else x,
            )
    return value


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_follow_from_one_another(name: str) -> None:
    """For each name: contributions, their sum, folded, factored, each from what the one before left."""
    derivation = derived(name)
    for target in dict.fromkeys(step.name for step in derivation.steps):
        steps = [s for s in derivation.steps if s.name == target]
        parts = [s for s in steps if s.forward]
        rest = [s for s in steps if not s.forward]
        assert list(steps) == parts + rest
        if parts and rest and len(parts) == 1 and rest[0].rule != "sum over uses":
            assert rest[0].before == parts[0].after
        if rest and rest[0].rule == "sum over uses":
            given = rest[0].before - sp.Add(*(s.after for s in parts))
            assert given == 0 or isinstance(given, Entry)  # an output's own cotangent has no step
        for one, two in pairwise(rest):
            assert two.before == one.after


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_last_step_of_a_name_is_its_definition(name: str) -> None:
    """Up to the reductions that got a name of their own."""
    derivation = derived(name)
    for definition in derivation.derived.definitions:
        steps = derivation.steps_for(definition.name)
        if steps:
            assert equal(_unfolded(definition.value, derivation), _unfolded(steps[-1].after, derivation))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_derived_definition_has_steps_unless_it_is_zero(name: str) -> None:
    derivation = derived(name)
    assert all(derivation.steps_for(d.name) for d in derivation.derived.definitions if d.value != 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_reason_is_one_readable_sentence(name: str) -> None:
    for derivation in (derived(name), pushed(name)):
        for step in derivation.steps:
            assert step.reason == step.reason.strip()
            assert len(step.reason) > 8
            assert not re.search(r"\s\s|\s,|,\s*,|the ,|\bNone\b|\(\)|[.;:]$|\. [A-Z]|\b_\d", step.reason), step.reason


ATTENTION_STEPS = [
    ("dV", "product", "V is multiplied by A; the sum runs over the queries, which V does not have"),
    ("dA", "product", "A is multiplied by V; the sum runs over the value coordinates, which A does not have"),
    ("dS", "softmax", "A is a softmax of S over the keys, one for each of the queries"),
    ("dS", "fold", "what spells A is written by name again"),
    ("dS", "factor", "every term has this factor in common"),
    ("r", "name a reduction", "one number for each of the queries"),
    (
        "dQ",
        "product",
        "Q is multiplied by K; the sum runs over the keys, which Q does not have, and the factor scale comes along",
    ),
    (
        "dK",
        "product",
        "K is multiplied by Q; the sum runs over the queries, which K does not have, and the factor scale comes along",
    ),
]


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_derived_in_these_steps(name: str) -> None:
    assert [(s.name, s.rule, s.reason) for s in derived(f"plain {name}").steps] == ATTENTION_STEPS


def test_scores_that_two_outputs_use_are_a_sum_over_uses() -> None:
    steps = derived("attention").steps_for("dS")
    assert [s.rule for s in steps] == ["logsumexp", "softmax", "sum over uses", "fold", "factor"]
    assert steps[2].reason == "S is used in 2 places, and the cotangents of all uses add up"


def test_steps_name_the_definition_that_they_differentiate() -> None:
    forward = [[d.name for d in s.forward] for s in derived("plain attention").steps]
    assert forward == [["O"], ["O"], ["A"], [], [], [], ["S"], ["S"]]


def test_a_logarithm_is_not_always_a_logsumexp() -> None:
    """log(1 + x²) is nobody's softmax denominator."""
    b = Builder("logarithm", "")
    x = b.input("x", i)
    b.define("Y", (i,), sp.log(1 + x[i] ** 2))
    (step,) = (s for s in backward(b.output("Y").build()).steps if s.forward)
    assert step.rule != "logsumexp"
    assert "softmax" not in step.reason


def test_a_weight_in_a_softmax_is_not_said_to_be_its_score() -> None:
    """W exp(X) / Σ W exp(X) is no softmax of W."""
    b = Builder("weighted", "")
    X, W = b.input("X", i, j), b.input("W", i, j)
    b.define("A", (i, j), W[i, j] * sp.exp(X[i, j]) / Total(W[i, j] * sp.exp(X[i, j]), j))
    steps = backward(b.output("A").build()).steps_for("dW")
    assert steps
    assert not any("softmax of W" in s.reason for s in steps)


def test_a_divisor_before_a_sum_keeps_rows_that_see_nothing() -> None:
    """Each term of the chain rule is hidden, whatever Z is; before the sum 1/Z would be 1/0."""
    b = Builder("seen", "")
    S, X, seen = b.input("S", i), b.input("X", k), Indicator(k < i)
    Z = b.define("Z", (i,), Total(seen * sp.exp(S[i]), k))
    b.define("A", (i, k), seen * sp.exp(S[i]) * X[k] / Z[i])
    derivation = backward(b.output("A").build())
    steps = {name: [s.rule for s in derivation.steps_for(name)] for name in ("dZ", "dS", "dX")}
    assert steps["dZ"][-1] == "nothing seen"
    assert "nothing seen" not in steps["dX"]  # where i is summed over, each term has its own condition
    count = Total(Indicator(k < i), k)
    assert derivation.derived.definition("dZ").value.has(Indicator(count > 0))
    assert compacting_changed_nothing(derivation) == []
    assert forward_mode_agrees(derivation)


def test_sums_of_what_is_always_seen_have_no_condition() -> None:
    """A softmax over all keys, and one with a divisor that hides nothing, stay as they are."""
    b = Builder("all_seen", "")
    S, V = b.input("S", i, j), b.input("V", j)
    Z = b.define("Z", (i,), Total(sp.exp(S[i, j]) ** 2, j))
    b.define("A", (i,), Total(sp.exp(S[i, j]) * V[j], j) / Z[i])
    assert all(s.rule != "nothing seen" for s in backward(b.output("A").build()).steps)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_two_reductions_spell_the_same(name: str) -> None:
    """The same row sum, needed at i and at k, is one definition."""
    spelled = [
        d.at(*(Axis(f"a{at}", a.size) for at, a in enumerate(d.axes)))
        for d in derived(name).derived.definitions
        if re.fullmatch(r"r\d*", d.name)
    ]
    assert len(spelled) == len(set(spelled))


# What cannot be differentiated.


NOT_DIFFERENTIABLE: dict[str, Callable[[sp.Expr], sp.Expr]] = {
    "sign": sp.sign,
    "floor": sp.floor,
    "ceiling": sp.ceiling,
    "Heaviside": sp.Heaviside,
    "f": sp.Function("f"),
}


@pytest.mark.parametrize("function", NOT_DIFFERENTIABLE)
@pytest.mark.parametrize("under", [False, True], ids=["alone", "under a sum"])
def test_a_function_without_a_derivative_is_named_with_its_definition(function: str, under: bool) -> None:
    """Not even inside a sum, and never as a silent zero."""
    b = Builder("jumps", "")
    X = b.input("X", i, j)
    value = NOT_DIFFERENTIABLE[function](X[i, j]) * X[i, j]
    b.define("Height", (i,) if under else (i, j), Total(value, j) if under else value)
    source = b.output("Height").build()
    for mode in (backward, tangent):
        with pytest.raises(DerivationError, match=rf"(?s){function}.*Height|Height.*{function}"):
            mode(source)


def test_a_maximum_is_not_differentiated() -> None:
    b = Builder("peaks", "")
    X = b.input("X", i, j)
    b.define("Y", (i, j), X[i, j] - Maximum(X[i, j], j))
    source = b.output("Y").build()
    for mode in (backward, tangent):
        with pytest.raises(DerivationError, match=r"Maximum.* has no derivative: differentiate before stabilising"):
            mode(source)


def test_a_function_without_a_derivative_does_no_harm_where_nothing_depends_on_it() -> None:
    b = Builder("constant_jump", "")
    X, mask = b.input("X", i), b.input("mask", i, values="boolean")
    b.define("Y", (i,), X[i] * sp.floor(mask[i]))
    assert [o.name for o in backward(b.output("Y").build()).derived.outputs] == ["dX"]


# Determinism.


PRINT = """
from tests.derive.test_calculus import PROGRAMS, written
for name in ("gram", "self_attention", "diagonal", "quadratic_form", "several_outputs", "attention", "layer_norm"):
    print(written(PROGRAMS[name]()))
"""


def written(source: Program) -> str:
    """Both derivations of a program as text."""
    lines = []
    for derivation in (backward(source), tangent(source)):
        lines += [f"{d.target} = {d.value}" for d in derivation.derived.definitions]
        lines += [f"{s.name} {s.rule} {s.before} {s.after} {s.reason}" for s in derivation.steps]
    return "\n".join(lines)


def test_deriving_prints_the_same_under_every_hash_seed() -> None:
    found = []
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True, timeout=120)
        found.append(done.stdout)
    assert found[0]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["gram", "self_attention", "quadratic_form", "attention"])
def test_deriving_again_prints_the_same(name: str) -> None:
    """Whatever fresh names were used up in between."""
    first = written(PROGRAMS[name]())
    for _ in range(4):
        for _ in range(23):
            fresh(i)
        assert written(PROGRAMS[name]()) == first


# A difference quotient in eighty digits.


DIGITS = Decimals(80)
STEP = DIGITS.number(Fraction(1, 10**20))


def point(source: Program, seed: int) -> dict[str, Any]:
    """Positive fractions for real inputs; zeros and ones for the others, with a one in front of every row."""
    chance = random.Random(seed)

    def array(axes: tuple[Axis, ...], boolean: bool, first: bool = True) -> Any:
        if not axes:
            return int(first or chance.random() < 0.5) if boolean else Fraction(chance.randint(3, 40), 20)
        return [array(axes[1:], boolean, at == 0) for at in range(SIZES[str(axes[0].size)])]

    return {x.name: array(x.axes, x.tensor.boolean) for x in source.inputs}


def moved(at: Any, by: Any, step: Any) -> Any:
    """A nested list, some way along another one."""
    if isinstance(at, list):
        return [moved(x, y, step) for x, y in zip(at, by, strict=True)]
    return DIGITS.number(at) + step * DIGITS.number(by)


def flat(nested: Any) -> list[Any]:
    """The entries of a nested list."""
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [DIGITS.number(nested)]


def run(source: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    """A program's values in eighty digits."""
    parameters = {x.name: Fraction(1, 2) for x in source.parameters if not x.symbol.is_integer}
    inputs = {x.name: given[x.name] for x in source.inputs}
    return interpret(source, inputs, sizes=SIZES, parameters=parameters, arithmetic=DIGITS)


def slopes(source: Program, at: Mapping[str, Any], direction: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The outputs' derivatives along a direction: a central difference of which the error is about STEP²."""
    ends = []
    for step in (STEP, -STEP):
        there = {n: moved(a, direction[n], step) if n in direction else a for n, a in at.items()}
        ends.append(run(source, there))
    return {
        o.name: [(a - b) / (2 * STEP) for a, b in zip(flat(ends[0][o.name]), flat(ends[1][o.name]), strict=True)]
        for o in source.outputs
    }


def relative(one: list[Any], two: list[Any]) -> float:
    """The largest difference, against the largest entry."""
    size = max((abs(x) for x in one), default=0) + DIGITS.number(Fraction(1, 10**6))
    return float(max((abs(x - y) / size for x, y in zip(one, two, strict=True)), default=mpmath.mpf(0)))


def gradient_error(derivation: Derivation, seed: int = 1) -> float:
    """How far ⟨cotangent, J·v⟩ and ⟨gradient, v⟩ are apart."""
    source = derivation.forward
    at, direction = point(source, seed), point(source, seed + 1)
    direction = {x.name: direction[x.name] for x in source.inputs if x.differentiable}
    along, values = slopes(source, at, direction), run(source, at)
    cotangents: dict[str, Any] = {}
    forward = DIGITS.number(0)
    for output, name in zip(source.outputs, seed_names(derivation), strict=True):
        cotangents[name] = moved(values[output.name], values[output.name], DIGITS.number(Fraction(1, 3)))
        forward += sum(map(lambda a, b: a * b, flat(cotangents[name]), along[output.name]))
    pulled = run(derivation.derived, {**at, **values, **cotangents})
    back = DIGITS.number(0)
    for output in derivation.derived.outputs:
        name = output.meaning.removeprefix("gradient with respect to ")
        back += sum(map(lambda a, b: a * b, flat(pulled[output.name]), flat(direction[name])))
    return relative([forward], [back])


def seed_names(derivation: Derivation) -> list[str]:
    """What the cotangents of the outputs are called, in the order of the outputs."""
    named = {x.meaning.removeprefix("cotangent of "): x.name for x in derivation.derived.inputs}
    return [named[o.name] for o in derivation.forward.outputs]


def tangent_error(derivation: Derivation, seed: int = 1) -> float:
    """How far the tangent program and J·v are apart, over all outputs."""
    source = derivation.forward
    at, direction = point(source, seed), point(source, seed + 1)
    direction = {x.name: direction[x.name] for x in source.inputs if x.differentiable}
    along, values = slopes(source, at, direction), run(source, at)
    needed = {x.name for x in derivation.derived.inputs}
    tangents = {derivation.names[n]: a for n, a in direction.items() if derivation.names[n] in needed}
    pushed_on = run(derivation.derived, {**at, **values, **tangents})
    errors = [0.0]
    for output in derivation.derived.outputs:
        errors.append(relative(along[output.meaning.removeprefix("tangent of ")], flat(pushed_on[output.name])))
    return max(errors)


def test_the_difference_quotient_notices_a_wrong_gradient() -> None:
    """The check is checked: one gradient a millionth off."""
    derivation = derived("plain attention")
    definitions = tuple(
        type(d)(d.target, d.value * sp.Rational(1000001, 1000000)) if d.name == "dK" else d
        for d in derivation.derived.definitions
    )
    wrong = Derivation(
        derivation.forward,
        type(derivation.derived)(**{**vars(derivation.derived), "definitions": definitions}),
        (),
        derivation.names,
    )
    assert gradient_error(wrong) > 1e-9
    assert not forward_mode_agrees(wrong)


def test_steps_are_records() -> None:
    step = derived("plain attention").steps[0]
    assert isinstance(step, Step)
    assert hash(step) == hash(derived("plain attention").steps[0])


@pytest.mark.parametrize("name", names())
def test_parts_are_named_once(name: str) -> None:
    """What has a name gets no second one: a program with named parts is as it is."""
    once = name_parts(program(name))
    assert name_parts(once).definitions == once.definitions
