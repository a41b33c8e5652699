"""From tokens to states, from states to logits, and the next-token loss."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.forward.builder import Builder
from derive.forward.norms import i, x
from derive.forward.program import Program
from derive.forward.softmax import logsumexp, softmax

t = Axis("t", "T")

AXES = {"i": "positions", "x": "coordinates", "t": "tokens of the vocabulary"}


@cache
def embedding() -> Program:
    """One learned row for each token: e_i = W_E[tokens_i]."""
    p = Builder("embedding", "Token embedding: a row of the table for each token.")
    tokens = p.input("tokens", i, meaning="token numbers", values="integer", below=t)
    W_E = p.input("W_E", t, x, meaning="one row for each token of the vocabulary")
    p.define("X", (i, x), W_E[tokens[i], x])
    return p.output("X", "states").build(axis_meaning=AXES)


@cache
def unembedding() -> Program:
    """Logits: every state against every row of a table; tied where it is the embedding's."""
    p = Builder("unembedding", "Logits of every token of the vocabulary.")
    X = p.input("X", i, x, meaning="states")
    W_U = p.input("W_U", t, x, meaning="one row for each token of the vocabulary")
    p.define("Z", (i, t), Total(X[i, x] * W_U[t, x], x))
    return p.output("Z", "logits").build(axis_meaning=AXES)


@cache
def softmax_rows() -> Program:
    """A softmax by itself, over the last axis."""
    p = Builder("softmax_rows", "Softmax of every row of X/τ.")
    X = p.input("X", i, t, meaning="logits")
    temperature = p.parameter("temperature", 1, "divides the logits")
    S = p.define("S", (i, t), X[i, t] / temperature)
    p.define("P", (i, t), softmax(S[i, t], over=t))
    return p.output("P", "weights that sum to 1 in every row").build(axis_meaning=AXES)


def mean_loss(p: Builder, Z: Tensor, targets: Tensor, temperature: sp.Expr) -> Tensor:
    """Define the mean of −log softmax(Z/τ) at the targets; a negative target is ignored."""
    S = p.define("S", (i, t), Z[i, t] / temperature)
    p.define("P", (i, t), softmax(S[i, t], over=t))
    counted = p.define("counted", (i,), Indicator(targets[i] >= 0), values="boolean")
    N = p.define("N", (), sp.Max(Total(counted[i], i), 1))
    surprise = logsumexp(S[i, t], over=t) - S[i, targets[i]]
    nll = p.define("nll", (i,), counted[i] * surprise)
    return p.define("loss", (), Total(nll[i], i) / N[()])


@cache
def cross_entropy() -> Program:
    """The next-token objective, averaged over the positions whose target is not ignored."""
    p = Builder("cross_entropy", "Cross-entropy of the targets under softmax(Z/τ), averaged.")
    Z = p.input("Z", i, t, meaning="logits")
    targets = p.input(
        "targets", i, meaning="the right tokens; negative ones are ignored", values="integer", below=t, negative=True
    )
    temperature = p.parameter("temperature", 1, "divides the logits")
    mean_loss(p, Z, targets, temperature)
    return p.output("loss", "the mean over counted positions", statistic=True).build(axis_meaning=AXES)
