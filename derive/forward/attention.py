"""Scaled dot-product attention, and what every variant of it shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.forward.builder import Builder
from derive.forward.program import Program, Writing
from derive.forward.softmax import logsumexp, softmax

i, j, c, v = Axis("i", "n"), Axis("j", "m"), Axis("c", "d"), Axis("v", "d_v")

AXES = {"i": "queries", "j": "keys", "c": "coordinates", "v": "value coordinates"}

WRITING = {
    # The matrix calculus guide's letters: rows are positions.
    "row": Writing({"dO": "G", "dA": "G̃"}, {"dO": "G", "dA": r"\tilde G"}),
    # The lecture notes' letters: columns are positions.
    "column": Writing({"dO": "B", "dA": "E", "dS": "R"}, {"dO": "B", "dA": "E", "dS": "R"}),
}

Score = Callable[[Builder, sp.Expr], sp.Expr]
"""What a variant makes of the scaled score ``s`` of query i and key j; it may declare inputs and parameters."""

Shown = Callable[[Builder], sp.Expr]
"""A product of 0/1 factors: which keys j a query i sees."""


@cache
def attention() -> Program:
    """Every query sees every key, but for what ``mask`` and ``bias`` hide."""
    return variant("attention", "Scaled dot-product attention.")


def variant(name: str, summary: str, *, score: Score | None = None, visible: Shown | None = None) -> Program:
    """Attention with its score changed, or with fewer keys visible.

    ``score(p, s)`` gets the builder and the scaled score, before the bias is added; ``visible(p)`` the builder.
    Both write positions as :data:`i` and :data:`j`. What a head learns (a slope, a sink) is an input without axes
    of its own: one for each head where the leading axes are heads.
    """
    p = Builder(name, summary)
    return averaged(p, *scored(p, score, visible))


def scored(p: Builder, score: Score | None = None, visible: Shown | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The start of a variant: its inputs, visibility M and scores S; returns S, M and the values V."""
    Q, K, V = queries_keys_values(p)
    bias, shown = masked(p)
    scaled = scaled_scores(p, Total(Q[i, c] * K[j, c], c), c.size)
    if visible is not None:
        shown *= visible(p)
    M = p.define("M", (i, j), shown, values="boolean")
    S = p.define("S", (i, j), (scaled if score is None else score(p, scaled)) + bias)
    return S, M, V


def queries_keys_values(p: Builder) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs Q, K and V."""
    return (
        p.input("Q", i, c, meaning="queries"),
        p.input("K", j, c, meaning="keys"),
        p.input("V", j, v, meaning="values"),
    )


def masked(p: Builder) -> tuple[sp.Expr, sp.Expr]:
    """The optional inputs mask and bias: what is added to the scores, and what is visible."""
    mask = mask_of(p)
    bias = p.input("bias", i, j, meaning="added to the scaled scores; −∞ hides", optional=0, values="extended")
    # NaN is not −∞: it stays visible and shows.
    return bias[i, j], mask[i, j] * Indicator(sp.Ne(bias[i, j], -sp.oo))


def mask_of(p: Builder, keys: Axis = j) -> Tensor:
    """The optional input ``mask`` of queries and keys."""
    meaning = "True where key j is visible to query i"
    return p.input("mask", i, keys, meaning=meaning, optional=1, values="boolean")


def scaled_scores(p: Builder, products: sp.Expr, width: sp.Expr) -> sp.Expr:
    """Products of queries and keys times the parameter ``scale``, before a bias is added."""
    return scale_of(p, width, "multiplies the scores before the bias is added") * products


def scale_of(p: Builder, width: sp.Expr = c.size, meaning: str = "multiplies the scores") -> sp.Symbol:
    """The parameter ``scale``, by default one over the root of the width of queries and keys."""
    return p.parameter("scale", 1 / sp.sqrt(width), meaning)


def averaged(p: Builder, S: Tensor, M: Tensor | None, V: Tensor, over: Axis = j, beside: sp.Expr | int = 0) -> Program:
    """The end of every variant with a softmax: weights A, outputs O, and the statistic L.

    ``beside`` are further exponentials in the denominator.
    """
    visible = 1 if M is None else M[i, over]
    A = p.define("A", (i, over), softmax(S[i, over], over, visible, beside))
    p.define("O", (i, v), Total(A[i, over] * V[over, v], over))
    p.define("L", (i,), logsumexp(S[i, over], over, visible, beside))
    p.output("O", "outputs: the weighted averages of the values")
    p.output("L", "logsumexp of the visible scores, natural logarithm", statistic=True)
    return p.build(axis_meaning=AXES, writing=WRITING)
