"""Decoding with a cache: new positions read what earlier ones have left, and one another."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Indicator, Total
from derive.forward.attention import AXES, c, i, scale_of, v
from derive.forward.blocks import memory
from derive.forward.builder import Builder
from derive.forward.heads import source
from derive.forward.program import Program
from derive.forward.softmax import exponentials, logsumexp, softmax

DECODING = AXES | {"i": "new positions", "j": "new positions seen", "k": "cached positions"}

OUTPUTS = ("outputs: the weighted averages of the values", "logsumexp of the visible scores, natural logarithm")


@cache
def prefill() -> Program:
    """A chunk of new positions: each sees the whole cache, and the new positions up to itself."""
    p = Builder("prefill", "Causal attention of a chunk of new positions, with a cache of earlier keys and values.")
    Q = p.input("Q", i, c, meaning="queries of the new positions")
    K = p.input("K", source, c, meaning="keys of the new positions")
    V = p.input("V", source, v, meaning="values of the new positions")
    K_cache = p.input("K_cache", memory, c, meaning="keys of earlier positions")
    V_cache = p.input("V_cache", memory, v, meaning="values of earlier positions")
    scale = scale_of(p)
    M = p.define("M", (i, source), Indicator(source <= i), values="boolean")
    S = p.define("S", (i, source), scale * Total(Q[i, c] * K[source, c], c))
    S_cache = p.define("S_cache", (i, memory), scale * Total(Q[i, c] * K_cache[memory, c], c))
    seen, cached = exponentials(S[i, source], source, M[i, source]), exponentials(S_cache[i, memory], memory)
    A = p.define("A", (i, source), softmax(S[i, source], source, M[i, source], beside=cached))
    A_cache = p.define("A_cache", (i, memory), softmax(S_cache[i, memory], memory, beside=seen))
    averages = Total(A[i, source] * V[source, v], source) + Total(A_cache[i, memory] * V_cache[memory, v], memory)
    p.define("O", (i, v), averages)
    p.define("L", (i,), logsumexp(S[i, source], source, M[i, source], beside=cached))
    return p.output("O", OUTPUTS[0]).output("L", OUTPUTS[1], statistic=True).build(axis_meaning=DECODING)


@cache
def decode_step() -> Program:
    """One new position: it sees the whole cache and itself."""
    p = Builder("decode_step", "Attention of one new position, with a cache of earlier keys and values.")
    Q = p.input("Q", c, meaning="the query of the new position")
    K = p.input("K", c, meaning="the key of the new position")
    V = p.input("V", v, meaning="the value of the new position")
    K_cache = p.input("K_cache", memory, c, meaning="keys of earlier positions")
    V_cache = p.input("V_cache", memory, v, meaning="values of earlier positions")
    scale = scale_of(p)
    S = p.define("S", (), scale * Total(Q[c] * K[c], c))
    S_cache = p.define("S_cache", (memory,), scale * Total(Q[c] * K_cache[memory, c], c))
    own, cached = sp.exp(S[()]), exponentials(S_cache[memory], memory)
    A = p.define("A", (), own / (own + cached))
    A_cache = p.define("A_cache", (memory,), softmax(S_cache[memory], memory, beside=own))
    p.define("O", (v,), A[()] * V[v] + Total(A_cache[memory] * V_cache[memory, v], memory))
    p.define("L", (), logsumexp(S_cache[memory], memory, beside=own))
    return p.output("O", OUTPUTS[0]).output("L", OUTPUTS[1], statistic=True).build(axis_meaning=DECODING)
