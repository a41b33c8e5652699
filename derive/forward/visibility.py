"""Which keys a query sees: predicates over positions, documents and buckets, each a product of 0/1 factors."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Delta, Indicator, Total
from derive.forward.attention import (
    averaged,
    c,
    i,
    j,
    queries_keys_values,
    scale_of,
    scaled_scores,
    v,
    variant,
)
from derive.forward.builder import Builder
from derive.forward.program import Program


def causal(p: Builder) -> sp.Expr:
    """Key j is visible to query i where j ≤ i + offset."""
    offset = p.parameter("offset", 0, "key j is visible to query i where j <= i + offset", integer=True)
    return Indicator(j <= i + offset)


@cache
def causal_attention() -> Program:
    """Query i sees key j where j ≤ i + offset: 0 is top-left, m − n is bottom-right."""
    return variant(
        "causal_attention", "Causal attention: key j is visible to query i where j ≤ i + offset.", visible=causal
    )


def window(p: Builder) -> sp.Expr:
    """At most ``left`` keys before and ``right`` keys after the position itself."""
    left = p.parameter("left", 1, "how many keys before its own position a query sees", integer=True)
    right = p.parameter("right", 0, "how many keys after its own position a query sees", integer=True)
    return Indicator(j >= i - left) * Indicator(j <= i + right)


@cache
def window_attention() -> Program:
    """A sliding window; a causal one by default."""
    return variant("window_attention", "Sliding-window attention: i − left ≤ j ≤ i + right.", visible=window)


def prefix(p: Builder) -> sp.Expr:
    """The first ``prefix`` keys are visible to all, the others causally; one length for each batch entry."""
    length = p.input("prefix", meaning="how many first keys every query sees", values="integer")
    return Indicator(sp.Or(j < length[()], j <= i))


@cache
def prefix_attention() -> Program:
    """A prefix language model's visibility."""
    return variant("prefix_attention", "Attention over a prefix, causal after it.", visible=prefix)


def same_document(p: Builder) -> sp.Expr:
    """Packed sequences: a query sees the keys of its own document."""
    query = p.input("document_q", i, meaning="the document that query i belongs to", values="integer")
    key = p.input("document_k", j, meaning="the document that key j belongs to", values="integer")
    return Indicator(sp.Eq(query[i], key[j]))


@cache
def document_attention() -> Program:
    """Several documents packed into one sequence, none of which sees another."""
    return variant(
        "document_attention", "Attention within documents that are packed into one sequence.", visible=same_document
    )


def window_and_global(p: Builder) -> sp.Expr:
    """A symmetric window, and positions that see and are seen by all (Longformer)."""
    width = p.parameter("width", 1, "how far from its own position a query sees", integer=True)
    query = p.input("global_q", i, meaning="True where query i sees every key", values="boolean")
    key = p.input("global_k", j, meaning="True where every query sees key j", values="boolean")
    near = sp.Abs(i - j) <= width
    return Indicator(sp.Or(near, sp.Eq(query[i], 1), sp.Eq(key[j], 1)))


@cache
def longformer_attention() -> Program:
    """Longformer (Beltagy et al. 2020): a window and global positions."""
    return variant("longformer_attention", "Attention in a window, with global positions.", visible=window_and_global)


def alternating(p: Builder) -> sp.Expr:
    """Causal; every other layer sees a band only (GPT-3, after the sparse transformer)."""
    layer = p.parameter("layer", 1, "the layer's number: even ones are dense, odd ones banded", integer=True)
    band = p.parameter("band", 2, "how many keys a banded layer's query sees", integer=True)
    return Indicator(j <= i) * Indicator(i - j < band + i.size * (1 - sp.Mod(layer, 2)))


@cache
def alternating_attention() -> Program:
    """Dense and locally banded layers in turn (Brown et al. 2020)."""
    return variant("alternating_attention", "Causal attention whose odd layers see a band only.", visible=alternating)


def dilated(p: Builder) -> sp.Expr:
    """Causal, every ``stride``-th key."""
    meaning = "a query sees every stride-th key back from its own position"
    stride = p.parameter("stride", 2, meaning, integer=True, least=1)
    return Indicator(j <= i) * Indicator(sp.Eq(sp.Mod(i - j, stride), 0))


@cache
def dilated_attention() -> Program:
    """A dilated window: distances that are multiples of a stride."""
    return variant("dilated_attention", "Causal attention to every stride-th key.", visible=dilated)


def blocks(p: Builder) -> sp.Expr:
    """Which block of keys is visible to which block of queries."""
    a, b = Axis("a", "n_blocks"), Axis("b", "m_blocks")
    block = p.parameter("block", 2, "how many neighbouring positions make a block", integer=True, least=1)
    layout = p.input("layout", a, b, meaning="True where a block of queries sees block b of keys", values="boolean")
    return layout[sp.floor(i / block), sp.floor(j / block)]


@cache
def block_sparse_attention() -> Program:
    """Visibility given block by block."""
    return variant("block_sparse_attention", "Block-sparse attention: visibility block by block.", visible=blocks)


@cache
def reformer_attention() -> Program:
    """Reformer (Kitaev et al. 2020): queries serve as keys at unit length, and only one's own bucket is visible."""
    other = Axis("j", "n")
    p = Builder("reformer_attention", "Attention within buckets, with shared queries and keys.")
    Q = p.input("Q", i, c, meaning="queries, and at unit length keys")
    V = p.input("V", other, v, meaning="values")
    bucket = p.input("bucket", i, meaning="the bucket that position i is hashed to", values="integer")
    penalty = p.parameter("penalty", 100, "subtracted from a position's score with itself")
    scale = scale_of(p)
    M = p.define("M", (i, other), Indicator(sp.Eq(bucket[i], bucket[other])) * Indicator(other <= i), values="boolean")
    U = p.define("U", (i,), Total(Q[i, c] ** 2, c) ** sp.Rational(-1, 2))
    K = p.define("K", (other, c), Q[other, c] * U[other])
    S = p.define("S", (i, other), scale * Total(Q[i, c] * K[other, c], c) - penalty * Delta(i, other))
    return averaged(p, S, M, V, over=other)


@cache
def adaptive_span_attention() -> Program:
    """Adaptive span (Sukhbaatar et al. 2019): weights fade out over a ramp, and the span is learned."""
    p = Builder("adaptive_span_attention", "Causal attention with a learned, soft span.")
    Q, K, V = queries_keys_values(p)
    span = p.input("span", meaning="how far back weights are full; one for each head")
    ramp = p.parameter("ramp", 8, "over how many positions weights fade out")
    S = p.define("S", (i, j), scaled_scores(p, Total(Q[i, c] * K[j, c], c), c.size))
    left = ramp + span[()] - i + j
    M = p.define("M", (i, j), Indicator(j <= i) * Indicator(left > 0), values="boolean")
    W = p.define("W", (i, j), sp.Min(left / ramp, 1))
    weight = M[i, j] * W[i, j] * sp.exp(S[i, j])
    A = p.define("A", (i, j), weight / Total(weight, j))
    p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    return p.output("O", "outputs: the weighted averages of the values").build()


@cache
def linformer_attention() -> Program:
    """Linformer (Wang et al. 2020): keys and values mixed along the sequence into a few."""
    r = Axis("r", "rank")
    p = Builder("linformer_attention", "Attention to low-rank mixtures of keys and values.")
    Q, K, V = queries_keys_values(p)
    E = p.input("E_k", r, j, meaning="mixes keys along the sequence")
    F = p.input("E_v", r, j, meaning="mixes values along the sequence")
    K_mixed = p.define("K_mixed", (r, c), Total(E[r, j] * K[j, c], j))
    V_mixed = p.define("V_mixed", (r, v), Total(F[r, j] * V[j, v], j))
    S = p.define("S", (i, r), scaled_scores(p, Total(Q[i, c] * K_mixed[r, c], c), c.size))
    return averaged(p, S, None, V_mixed, over=r)
