"""Decoding with a cache: new positions get what the full causal pass would give them."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Indicator, Total
from derive.forward.program import Program
from derive.proof.identities.known import Known
from derive.proof.statements import Identity, equation

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
    around = f"on the left the positions up to {place}, itself among them; {PREMISE}"
    for name, left, right in (
        ("outputs", weighted / exponentials, k.at("O")),
        ("logsumexps", sp.log(exponentials), k.at("L")),
    ):
        yield k.stated(
            equation(
                f"{name} with a cache are those of the full causal pass",
                left,
                right,
                unfold,
                setting=around,
                relied_on=relied,
            )
        )
