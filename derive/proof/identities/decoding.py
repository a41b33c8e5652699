"""Decoding with a cache: new positions get what the full causal pass would give them."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Indicator, Total
from derive.forward.program import Program
from derive.proof.identities.known import Known
from derive.proof.prover import Identity

PREMISE = "the cache holds the keys and values that the full pass computes for the first m positions"


def prefill_identities(program: Program) -> Iterator[Identity]:
    """A chunk of n new positions after m cached ones."""
    k = Known(program)
    yield from _full_pass(k, *k.by_name["S"].axes)


def decode_step_identities(program: Program) -> Iterator[Identity]:
    """One new position after m cached ones."""
    yield from _full_pass(Known(program), sp.S.Zero, sp.S.Zero)


def _full_pass(k: Known, i: sp.Expr, j: sp.Expr) -> Iterator[Identity]:
    """Position m + i of the causal pass over m + n positions: it sees the positions up to itself."""
    S, S_cache = k.at("S"), k.at("S_cache")
    V, V_cache = k.at("V"), k.at("V_cache")
    memory = S_cache.indices[-1]
    first = memory.size
    earlier = Indicator(memory <= first + i) * sp.exp(S_cache)
    own = Indicator(first + j <= first + i) * sp.exp(S)
    new = (j,) if isinstance(j, Axis) else ()
    exponentials = Total(earlier, memory) + Total(own, *new)
    weighted = Total(earlier * V_cache, memory) + Total(own * V, *new)
    unfold = k.chosen("M", "A", "A_cache", "O", "L")
    relied = "decoding token by token or in chunks of any size = the full causal pass"
    place = "m + i" if new else "m"
    yield k.stated(
        Identity(
            "outputs with a cache are those of the full causal pass",
            f"O = softmax over the positions r ≤ {place} of all scores, times all values",
            weighted / exponentials,
            k.at("O"),
            unfold,
            premises=(PREMISE,),
            relied_on=relied,
        )
    )
    yield k.stated(
        Identity(
            "logsumexps with a cache are those of the full causal pass",
            f"L = log Σ exp(scores) over the positions r ≤ {place}",
            sp.log(exponentials),
            k.at("L"),
            unfold,
            premises=(PREMISE,),
            relied_on=relied,
        )
    )
