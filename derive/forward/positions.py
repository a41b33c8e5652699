"""Positions: rotations of queries and keys, and biases that depend on the distance."""

from __future__ import annotations

from functools import cache
from typing import Literal

import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.algebra.functions import QuarterTurn
from derive.forward.attention import averaged, i, j, masked, scale_of, scaled_scores, v, variant
from derive.forward.builder import Builder
from derive.forward.program import Program

side, pair = Axis("s", 2), Axis("p", "pairs")
"""A vector of even width is a list of pairs: which of the two, and which pair."""

Layout = Literal["half", "interleaved"]


def paired(layout: Layout) -> tuple[Axis, Axis]:
    """The last dimension of a rotated vector: its halves hold the first and second members, or pairs lie together."""
    return (side, pair) if layout == "half" else (pair, side)


def rotated(X: Tensor, lead: tuple[Axis, ...], layout: Layout, cosine: sp.Expr, sine: sp.Expr) -> sp.Expr:
    """Each pair of ``X[lead, pair]`` turned by its angle: cos·x + sin·(x turned by a right angle)."""
    other = Axis("s2", 2)
    here, there = ((side, pair), (other, pair)) if layout == "half" else ((pair, side), (pair, other))
    return cosine * X[(*lead, *here)] + sine * Total(QuarterTurn(side, other) * X[(*lead, *there)], other)


def waves(p: Builder, name: str, position: sp.Expr, at: Axis, base: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Cosine and sine of the angle at a position; pair p turns by position · base^(−p/pairs) (Su et al. 2021)."""
    theta = position * base ** (-pair / pair.size)
    C = p.define(f"C_{name}", (at, pair), sp.cos(theta))
    N = p.define(f"N_{name}", (at, pair), sp.sin(theta))
    return C[at, pair], N[at, pair]


def _rope(name: str, summary: str, layout: Layout) -> Program:
    p = Builder(name, summary)
    Q = p.input("Q", i, paired(layout), meaning="queries, of even width")
    K = p.input("K", j, paired(layout), meaning="keys, of even width")
    V = p.input("V", j, v, meaning="values")
    at_q = p.input("position_q", i, meaning="the position of query i", constant=True)
    at_k = p.input("position_k", j, meaning="the position of key j", constant=True)
    bias, shown = masked(p)
    base = turning_base(p)
    last = paired(layout)
    Q_turned = p.define("Q_turned", (i, *last), rotated(Q, (i,), layout, *waves(p, "q", at_q[i], i, base)))
    K_turned = p.define("K_turned", (j, *last), rotated(K, (j,), layout, *waves(p, "k", at_k[j], j, base)))
    M = p.define("M", (i, j), shown, values="boolean")
    products = Total(Q_turned[(i, *last)] * K_turned[(j, *last)], side, pair)
    S = p.define("S", (i, j), scaled_scores(p, products, 2 * pair.size) + bias)
    return averaged(p, S, M, V)


def turning_base(p: Builder) -> sp.Symbol:
    """The parameter ``base``: pair p at a position turns by position · base^(−p/pairs) (Su et al. 2021)."""
    return p.parameter("base", 10000, "pair p turns by the position times base to the power −p/pairs")


@cache
def rope_attention() -> Program:
    """Rotary positions; a vector's halves hold the first and the second members of its pairs."""
    return _rope("rope_attention", "Attention with rotary positions, halves layout.", "half")


@cache
def rope_interleaved_attention() -> Program:
    """Rotary positions; pairs lie together."""
    return _rope("rope_interleaved_attention", "Attention with rotary positions, interleaved layout.", "interleaved")


def _rotary(name: str, summary: str, layout: Layout) -> Program:
    p = Builder(name, summary)
    X = p.input("X", i, paired(layout), meaning="vectors of even width")
    C = p.input("cos", i, pair, meaning="cosine of the angle of pair p at position i", constant=True)
    N = p.input("sin", i, pair, meaning="sine of the angle of pair p at position i", constant=True)
    p.define("Y", (i, *paired(layout)), rotated(X, (i,), layout, C[i, pair], N[i, pair]))
    return p.output("Y", "the rotated vectors", dims=(i, paired(layout))).build()


@cache
def rotary_embedding() -> Program:
    """The rotation alone, with given cosines and sines."""
    return _rotary("rotary_embedding", "Rotation of pairs by given angles, halves layout.", "half")


@cache
def rotary_embedding_interleaved() -> Program:
    """The rotation alone, pairs lying together."""
    return _rotary(
        "rotary_embedding_interleaved", "Rotation of pairs by given angles, interleaved layout.", "interleaved"
    )


def distance_penalty(p: Builder, s: sp.Expr) -> sp.Expr:
    """``s − slope·|i − j|`` (Press et al. 2021)."""
    return s - p.input("slope", meaning="what a step of distance costs; one for each head")[()] * sp.Abs(i - j)


@cache
def alibi_attention() -> Program:
    """Linear biases, with the gradient of the slopes."""
    return variant("alibi_attention", "Attention with linear biases: s − slope·|i − j|.", score=distance_penalty)


def relative_bias(p: Builder, s: sp.Expr) -> sp.Expr:
    """A learned number for each distance, clipped at both ends (after Shaw et al. 2018 and T5)."""
    r = Axis("r", "distances")
    table = p.input("table", r, meaning="the bias of each distance, −reach … reach; one for each head")
    reach = p.parameter("reach", sp.floor((r.size - 1) / 2), "distances beyond this share a bias", integer=True)
    return s + table[sp.Min(sp.Max(j - i, -reach), reach) + reach]


@cache
def relative_bias_attention() -> Program:
    """A learned relative bias, with its gradient."""
    return variant("relative_bias_attention", "Attention with a learned bias for each distance.", score=relative_bias)


@cache
def dual_chunk_attention() -> Program:
    """Dual chunk attention (An et al. 2024): within a chunk, to the chunk before, and to any earlier one.

    Distances never exceed what training has seen: queries have three positions, keys one, and the chunks that the
    two lie in decide which counts.
    """
    p = Builder("dual_chunk_attention", "Causal attention with dual-chunk rotary positions.")
    Q = p.input("Q", i, paired("half"), meaning="queries, of even width")
    K = p.input("K", j, paired("half"), meaning="keys, of even width")
    V = p.input("V", j, v, meaning="values")
    chunk = p.parameter("chunk", 2, "how many positions make a chunk", integer=True, least=1)
    longest = p.parameter("longest", 8, "the number of positions seen in training", integer=True)
    local = p.parameter("local", 1, "how many positions keep their distance to the chunk before", integer=True)
    base = turning_base(p)
    places = {
        "inner": sp.Mod(i, chunk),
        "next": sp.Min(sp.Mod(i, chunk) + chunk, chunk + local - 1),
        "far": longest - 1,
    }
    here, there = sp.floor(i / chunk), sp.floor(j / chunk)
    gates = {"inner": sp.Eq(here, there), "next": sp.Eq(here, there + 1), "far": here > there + 1}
    turning = waves(p, "k", sp.Mod(j, chunk), j, base)
    K_turned = p.define("K_turned", (j, side, pair), rotated(K, (j,), "half", *turning))
    scale = scale_of(p, 2 * pair.size)
    total = sp.S.Zero
    for name, place in places.items():
        turning = waves(p, name, place, i, base)
        turned = p.define(f"Q_{name}", (i, side, pair), rotated(Q, (i,), "half", *turning))
        products = Total(turned[i, side, pair] * K_turned[j, side, pair], side, pair)
        total += Indicator(gates[name]) * p.define(f"S_{name}", (i, j), scale * products)[i, j]
    M = p.define("M", (i, j), Indicator(j <= i), values="boolean")
    S = p.define("S", (i, j), total)
    return averaged(p, S, M, V)
