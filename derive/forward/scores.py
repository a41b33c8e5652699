"""What may become of a score before, and instead of, the softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from derive.algebra import Total
from derive.algebra.functions import Sigmoid
from derive.forward.attention import (
    AXES,
    Score,
    averaged,
    c,
    i,
    j,
    mask_of,
    masked,
    queries_keys_values,
    scale_of,
    scaled_scores,
    scored,
    v,
    variant,
)
from derive.forward.builder import Builder
from derive.forward.program import Program
from derive.forward.softmax import exponentials, softmax


def softcap(p: Builder, s: sp.Expr) -> sp.Expr:
    """``cap · tanh(s/cap)``: scores stay within ±cap (Gemma 2)."""
    cap = p.parameter("cap", 2, "scores stay between −cap and cap")
    return cap * sp.tanh(s / cap)


@cache
def softcap_attention() -> Program:
    """Capped before anything is hidden or added."""
    return variant("softcap_attention", "Attention with softly capped scores: cap·tanh(s/cap).", score=softcap)


def learned_scale(p: Builder, s: sp.Expr) -> sp.Expr:
    """The score times a learned number, one for each head."""
    return p.input("gain", meaning="multiplies the scaled scores; one for each head")[()] * s


@cache
def learned_scale_attention() -> Program:
    """A learned scalar on the score, with its gradient."""
    return variant("learned_scale_attention", "Attention whose scores a learned number scales.", score=learned_scale)


def cooled(p: Builder, s: sp.Expr) -> sp.Expr:
    """The score over a temperature."""
    return s / p.input("temperature", meaning="divides the scaled scores; one for each head")[()]


@cache
def temperature_attention() -> Program:
    """Softmax with a temperature τ: p_j ∝ exp(s_j/τ), and τ's gradient."""
    return variant("temperature_attention", "Attention with a temperature: softmax(s/τ).", score=cooled)


def _weighted(name: str, summary: str, weight: Callable[[sp.Expr], sp.Expr], score: Score | None = None) -> Program:
    """Attention whose weight is a function of the score alone."""
    p = Builder(name, summary)
    S, M, V = scored(p, score)
    A = p.define("A", (i, j), M[i, j] * weight(S[i, j]))
    p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    return p.output("O", "outputs: the weighted sums of the values").build(axis_meaning=AXES)


def shifted(p: Builder, s: sp.Expr) -> sp.Expr:
    """The score plus a number: −log m makes weights about as large as a softmax's."""
    return s + p.parameter("shift", 0, "added to the scores; −log m imitates a softmax's size")


@cache
def sigmoid_attention() -> Program:
    """Every key is weighed by itself (Ramapuram et al. 2024)."""
    return _weighted("sigmoid_attention", "Attention with weights sigmoid(s + shift).", Sigmoid, shifted)


@cache
def relu_attention() -> Program:
    """Weights max(s, 0)/m (Wortsman et al. 2023); the gradient at the kink is 0."""
    return _weighted("relu_attention", "Attention with weights max(s, 0)/m.", lambda s: sp.Max(s, 0) / j.size)


@cache
def squared_attention() -> Program:
    """Weights max(s, 0)²/m; smooth at 0."""
    return _weighted("squared_attention", "Attention with weights max(s, 0)²/m.", lambda s: sp.Max(s, 0) ** 2 / j.size)


@cache
def dropout_attention() -> Program:
    """Dropout of weights with a given keep mask: what is kept is divided by the chance of being kept."""
    p = Builder("dropout_attention", "Attention whose weights are dropped out after the softmax.")
    Q, K, V = queries_keys_values(p)
    keep = p.input("keep", i, j, meaning="True where a weight is kept", values="boolean")
    bias, shown = masked(p)
    rate = p.parameter("rate", sp.Rational(1, 4), "the chance of being dropped")
    M = p.define("M", (i, j), shown, values="boolean")
    S = p.define("S", (i, j), scaled_scores(p, Total(Q[i, c] * K[j, c], c), c.size) + bias)
    A = p.define("A", (i, j), softmax(S[i, j], over=j, visible=M[i, j]))
    W = p.define("W", (i, j), keep[i, j] * A[i, j] / (1 - rate))
    p.define("O", (i, v), Total(W[i, j] * V[j, v], j))
    return p.output("O", "outputs: the averages of the values under the weights that are kept").build(axis_meaning=AXES)


@cache
def sink_attention() -> Program:
    """A learned score that takes weight and gives no value, so that a query may attend to nothing (as in gpt-oss)."""
    p = Builder("sink_attention", "Attention with a sink: one more score in the denominator, without a value.")
    Q, K, V = queries_keys_values(p)
    sink = p.input("sink", meaning="the score of the sink; one for each head")
    bias, shown = masked(p)
    T = p.define("T", (i,), sink[()])
    M = p.define("M", (i, j), shown, values="boolean")
    S = p.define("S", (i, j), scaled_scores(p, Total(Q[i, c] * K[j, c], c), c.size) + bias)
    taken = sp.exp(T[i])
    p.define("A_sink", (i,), taken / (taken + exponentials(S[i, j], j, M[i, j])))
    return averaged(p, S, M, V, beside=taken)


@cache
def differential_attention() -> Program:
    """The difference of two softmaxes (Ye et al. 2024); λ is learned."""
    p = Builder("differential_attention", "Attention with the difference of two softmaxes.")
    scale, weights = scale_of(p), []
    V = p.input("V", j, v, meaning="values")
    lam = p.input("lam", meaning="how much of the second softmax is subtracted; one for each head")
    mask = mask_of(p)
    M = p.define("M", (i, j), mask[i, j], values="boolean")
    for part in (1, 2):
        Q = p.input(f"Q{part}", i, c, meaning=f"queries of softmax {part}")
        K = p.input(f"K{part}", j, c, meaning=f"keys of softmax {part}")
        S = p.define(f"S{part}", (i, j), scale * Total(Q[i, c] * K[j, c], c))
        weights.append(p.define(f"A{part}", (i, j), softmax(S[i, j], over=j, visible=M[i, j])))
    A = p.define("A", (i, j), weights[0][i, j] - lam[()] * weights[1][i, j])
    p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    return p.output("O", "outputs: the values under the difference of two weightings").build(axis_meaning=AXES)
