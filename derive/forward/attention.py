"""Scaled dot-product attention, with every key visible or a causal half of them."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Indicator, Total
from derive.forward.program import Builder, Program, Writing
from derive.forward.softmax import logsumexp, softmax

i, j, c, v = Axis("i", "n"), Axis("j", "m"), Axis("c", "d"), Axis("v", "d_v")

AXES = {"i": "queries", "j": "keys", "c": "coordinates", "v": "value coordinates"}

WRITING = {
    # The matrix calculus guide's letters: rows are positions.
    "row": Writing({"dO": "G", "dA": "G̃"}, {"dO": "G", "dA": r"\tilde G"}),
    # The lecture notes' letters: columns are positions.
    "column": Writing({"dO": "B", "dA": "E", "dS": "R"}, {"dO": "B", "dA": "E", "dS": "R"}),
}


@cache
def attention() -> Program:
    """Every query sees every key, but for what ``mask`` and ``bias`` hide."""
    return _attention("attention", "Scaled dot-product attention.", causal=False)


@cache
def causal_attention() -> Program:
    """Query i sees key j where j ≤ i + offset: 0 is top-left, m − n is bottom-right."""
    return _attention(
        "causal_attention", "Causal attention: key j is visible to query i where j ≤ i + offset.", causal=True
    )


def _attention(name: str, summary: str, *, causal: bool) -> Program:
    p = Builder(name, summary)
    Q = p.input("Q", i, c, meaning="queries")
    K = p.input("K", j, c, meaning="keys")
    V = p.input("V", j, v, meaning="values")
    mask = p.input("mask", i, j, meaning="True where key j is visible to query i", optional=1, values="boolean")
    bias = p.input("bias", i, j, meaning="added to the scaled scores; −∞ hides", optional=0, values="extended")
    scale = p.parameter("scale", 1 / sp.sqrt(c.size), "multiplies the scores before the bias is added")
    visible = mask[i, j] * Indicator(sp.Ne(bias[i, j], -sp.oo))  # NaN is not −∞: it stays visible and shows
    if causal:
        offset = p.parameter("offset", 0, "key j is visible to query i where j <= i + offset", integer=True)
        visible *= Indicator(j <= i + offset)

    M = p.define("M", (i, j), visible, values="boolean")
    S = p.define("S", (i, j), scale * Total(Q[i, c] * K[j, c], c) + bias[i, j])
    A = p.define("A", (i, j), softmax(S[i, j], over=j, visible=M[i, j]))
    p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    p.define("L", (i,), logsumexp(S[i, j], over=j, visible=M[i, j]))
    p.output("O", "outputs: the weighted averages of the values")
    p.output("L", "logsumexp of the visible scores, natural logarithm", statistic=True)
    return p.build(axis_meaning=AXES, writing=WRITING)
