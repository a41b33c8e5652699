"""Heads: projections of states, groups that share keys and values, and the update that is added back."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.forward.attention import AXES, c, i, j, mask_of, scale_of, scaled_scores, v
from derive.forward.builder import Builder
from derive.forward.norms import x
from derive.forward.program import Program, Writing
from derive.forward.softmax import logsumexp, softmax

head, member, source, latent = Axis("h", "H"), Axis("g", "G"), Axis("j", "n"), Axis("r", "R")

MEANING = AXES | {"h": "heads", "g": "members of a group", "x": "states' coordinates", "r": "latent coordinates"}

_LETTERS = {"dY": "G", "dO": "B", "dA": "E", "dS": "R"}
NOTES = dict.fromkeys(("row", "column"), Writing(_LETTERS, _LETTERS))
"""The lecture notes' letters, in both conventions."""


BRANCHES = {"Y": "residual", "Q": "query", "K": "key", "V": "value"}


@cache
def attention_head() -> Program:
    """One causal head of the lecture notes, with its residual: Y = H + W_O V A in their column convention."""
    p = Builder("attention_head", "One causal attention head with projections and the residual: H + O W_O.")
    H = p.input("H", i, x, meaning="states")
    W_Q = p.input("W_Q", x, c, meaning="the queries' map")
    W_K = p.input("W_K", x, c, meaning="the keys' map")
    W_V = p.input("W_V", x, v, meaning="the values' map")
    W_O = p.input("W_O", v, x, meaning="the output map")
    scale = scale_of(p)
    Q = p.define("Q", (i, c), Total(H[i, x] * W_Q[x, c], x))
    K = p.define("K", (source, c), Total(H[source, x] * W_K[x, c], x))
    V = p.define("V", (source, v), Total(H[source, x] * W_V[x, v], x))
    S = p.define("S", (i, source), scale * Total(Q[i, c] * K[source, c], c))
    A = p.define("A", (i, source), softmax(S[i, source], over=source, visible=Indicator(source <= i)))
    O = p.define("O", (i, v), Total(A[i, source] * V[source, v], source))
    p.define("Y", (i, x), H[i, x] + Total(O[i, v] * W_O[v, x], v))
    return p.output("Y", "updated states").build(axis_meaning=MEANING, writing=NOTES, branches=BRANCHES)


def attended(
    p: Builder, X: Tensor, C: Tensor, keys: Axis, visible: sp.Expr, scale: sp.Expr, *, biases: bool = False
) -> sp.Expr:
    """What several heads at ``X[i, x]`` take from ``C[keys, x]``, with their weights declared."""

    def projected(name: str, of: Tensor, at: Axis, to: Axis, whose: str) -> Tensor:
        W = p.input(f"W_{name}", x, head, to, meaning=f"the {whose}' maps")
        value = Total(of[at, x] * W[x, head, to], x)
        if biases:
            value += p.input(f"b_{name}", head, to, meaning=f"added to the {whose}")[head, to]
        return p.define(name, (head, at, to), value)

    Q = projected("Q", X, i, c, "queries")
    K = projected("K", C, keys, c, "keys")
    V = projected("V", C, keys, v, "values")
    W_O = p.input("W_O", head, v, x, meaning="the output map of each head")
    products = Total(Q[head, i, c] * K[head, keys, c], c)
    S = p.define("S", (head, i, keys), scale * products)
    A = p.define("A", (head, i, keys), softmax(S[head, i, keys], over=keys, visible=visible))
    O = p.define("O", (head, i, v), Total(A[head, i, keys] * V[head, keys, v], keys))
    update = Total(O[head, i, v] * W_O[head, v, x], head, v)
    return update + p.input("b_O", x, meaning="added to the output")[x] if biases else update


def _many(name: str, summary: str, keys: Axis, states: str) -> Program:
    """Several heads over states X; keys and values from X itself, or from ``states``."""
    p = Builder(name, summary)
    X = p.input("X", i, x, meaning="states of the queries")
    C = X if states == "X" else p.input(states, keys, x, meaning="states of the keys and values")
    M = p.define("M", (i, keys), mask_of(p, keys)[i, keys], values="boolean")
    p.define("Y", (i, x), attended(p, X, C, keys, M[i, keys], scale_of(p)))
    return p.output("Y", "the sum of the heads' updates").build(axis_meaning=MEANING)


@cache
def multi_head() -> Program:
    """Self-attention with several heads; the sum of their updates is one output map of what they give side by side."""
    return _many("multi_head", "Multi-head self-attention with projections.", source, "X")


@cache
def cross_attention() -> Program:
    """Queries from one sequence, keys and values from another."""
    return _many("cross_attention", "Multi-head attention to another sequence.", j, "C")


def _shared(name: str, summary: str, heads: tuple[Axis, ...]) -> Program:
    """Queries in groups that share keys and values: what lacks the member's axis is summed over it flowing back."""
    p = Builder(name, summary)
    shared = (*heads, member)
    Q = p.input("Q", shared if heads else member, i, c, meaning="queries; the heads of a group are neighbours")
    K = p.input("K", *heads, j, c, meaning="keys, one for each group")
    V = p.input("V", *heads, j, v, meaning="values, one for each group")
    mask = mask_of(p)
    M = p.define("M", (i, j), mask[i, j], values="boolean")
    S = p.define("S", (*shared, i, j), scaled_scores(p, Total(Q[(*shared, i, c)] * K[(*heads, j, c)], c), c.size))
    entry = S[(*shared, i, j)]
    A = p.define("A", (*shared, i, j), softmax(entry, over=j, visible=M[i, j]))
    p.define("O", (*shared, i, v), Total(A[(*shared, i, j)] * V[(*heads, j, v)], j))
    p.define("L", (*shared, i), logsumexp(entry, over=j, visible=M[i, j]))
    dims = shared if heads else member
    p.output("O", "outputs: the weighted averages of the values", dims=(dims, i, v))
    p.output("L", "logsumexp of the visible scores, natural logarithm", statistic=True, dims=(dims, i))
    return p.build(axis_meaning=MEANING)


@cache
def grouped_query() -> Program:
    """Grouped-query attention (Ainslie et al. 2023): query head h uses key head ⌊h/G⌋."""
    return _shared("grouped_query", "Grouped-query attention: G query heads share each key head.", (head,))


@cache
def multi_query() -> Program:
    """Multi-query attention (Shazeer 2019): all query heads share one key head."""
    return _shared("multi_query", "Multi-query attention: all query heads share keys and values.", ())


@cache
def latent_attention() -> Program:
    """Keys and values from a low-rank latent that is all a cache has to keep (as in DeepSeek-V2's MLA)."""
    p = Builder("latent_attention", "Attention whose keys and values come from a low-rank latent.")
    Q = p.input("Q", head, i, c, meaning="queries")
    C = p.input("C", j, latent, meaning="latents, shared by all heads")
    W_K = p.input("W_K", head, latent, c, meaning="each head's map from latents to keys")
    W_V = p.input("W_V", head, latent, v, meaning="each head's map from latents to values")
    mask = mask_of(p)
    M = p.define("M", (i, j), mask[i, j], values="boolean")
    K = p.define("K", (head, j, c), Total(C[j, latent] * W_K[head, latent, c], latent))
    V = p.define("V", (head, j, v), Total(C[j, latent] * W_V[head, latent, v], latent))
    S = p.define("S", (head, i, j), scaled_scores(p, Total(Q[head, i, c] * K[head, j, c], c), c.size))
    A = p.define("A", (head, i, j), softmax(S[head, i, j], over=j, visible=M[i, j]))
    p.define("O", (head, i, v), Total(A[head, i, j] * V[head, j, v], j))
    return p.output("O", "outputs: the weighted averages of the values").build(axis_meaning=MEANING)
