"""Algorithms: what fused, tiled, ring and online computations of attention rely on."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Tensor, Total
from derive.forward.program import unfolded
from derive.proof.axioms import sums_to_one
from derive.proof.identities.attention import SEEN, Attention
from derive.proof.prover import Identity

NOT_ALL_EMPTY = "a key is seen in one of the parts"


def fused_identities(a: Attention) -> Iterator[Identity]:
    """D = rowsum(dO ∘ O), which saves fused backward passes a pass over the keys, with and without a cotangent of L."""
    D = Total(a.dO * a.O.target, a.v)
    yield Identity(
        "row sums from outputs",
        "Σ_j A[i,j] dA[i,j] = Σ_v dO[i,v] O[i,v]",
        Total(a.A.target * a.known.at("dA"), a.j),
        D,
        a.known.chosen("dA", "O"),
        relied_on="fused backward passes: D = rowsum(dO ∘ O) needs no second pass over the keys",
    )
    if a.with_L is None:
        return
    dS, dA, dL = (a.with_L.at(name) for name in ("dS", "dA", "dL"))
    chain = a.with_L.chosen("r", "dA", "dS")
    yield Identity(
        "score gradients sum to the cotangent of L",
        "Σ_j dS[i,j] = dL[i]",
        Total(dS, a.j),
        dL,
        chain,
        a.axioms,
        (SEEN,),
        "kernels that return the logsumexp",
    )
    yield Identity(
        "score gradients from D and the cotangent of L",
        "dS[i,j] = A[i,j] (dA[i,j] − (Σ_v dO[i,v] O[i,v] − dL[i]))",
        dS,
        a.A.target * (dA - (D - dL)),
        (*a.with_L.chosen("O"), *chain),
        premises=(SEEN,),
        relied_on="fused backward passes take dL off D and change nothing else",
    )


def tiling_identities(a: Attention) -> Iterator[Identity]:
    """Any assignment of keys to tiles, in any order; hidden keys may be in any tile or in none that is computed."""
    i, j, v = a.i, a.j, a.v
    t, u = Axis("t", "tiles"), Axis("u", "tiles")
    T = Tensor("T", t, j, values="boolean")
    every = (sums_to_one(T, "every key is in one tile", over=0),)
    weight = a.form.visible * sp.exp(a.form.score) * T[t, j]
    total = Total(weight, j)
    outputs, logs = Total(weight * a.V, j) / total, sp.log(total)
    premises = ("T[t,j] is 1 for the tile t that key j is in, else 0", SEEN, "an empty tile counts as (0, −∞)")
    whole = unfolded(a.O.value, [a.A])
    yield Identity(
        "tiled attention is attention",
        "Σ_t exp(L_t) O_t / Σ_t exp(L_t) = O, with O_t and L_t over the keys of tile t, for any tiles",
        Total(sp.exp(logs) * outputs, t) / Total(sp.exp(logs), t),
        whole,
        axioms=every,
        premises=premises,
        relied_on="tiled kernels; attention over a ring; keys split over machines",
        refutable=False,
    )
    yield Identity(
        "tiled logsumexp is logsumexp",
        "log Σ_t exp(L_t) = L, for any tiles",
        sp.log(Total(sp.exp(logs), t)),
        sp.log(Total(a.form.visible * sp.exp(a.form.score), j)),
        axioms=every,
        premises=premises,
        relied_on="tiled kernels keep L for the backward pass",
        refutable=False,
    )
    P, O, L = Tensor("P", t, u, values="boolean"), Tensor("O_tile", i, u, v), Tensor("L_tile", i, u)
    yield Identity(
        "the order of tiles does not matter",
        "Σ_t Σ_u P[t,u] exp(L_u) O_u / Σ_t Σ_u P[t,u] exp(L_u) is the same for every permutation P",
        Total(P[t, u] * sp.exp(L[i, u]) * O[i, u, v], t, u) / Total(P[t, u] * sp.exp(L[i, u]), t, u),
        Total(sp.exp(L[i, u]) * O[i, u, v], u) / Total(sp.exp(L[i, u]), u),
        axioms=(sums_to_one(P, "every tile has one turn", over=0),),
        premises=("P is a permutation",),
        relied_on="rings: each machine starts with its own block",
        refutable=False,
    )
    yield Identity(
        "gradients of tiles add up",
        "Σ_t Σ_j T[t,j] dS[i,j] x[j] = Σ_j dS[i,j] x[j] for any x, as for dQ",
        Total(T[t, j] * a.known.at("dS") * (x := Tensor("x", j))[j], t, j),
        Total(a.known.at("dS") * x[j], j),
        axioms=every,
        premises=premises[:1],
        relied_on="backward passes in tiles accumulate dQ",
        refutable=False,
    )


def merging_identities() -> Iterator[Identity]:
    """Partial results (O, L) of blocks of keys: how kernels that work in tiles, rounds or steps put them together."""
    a, b, c = map(_part, "abc")
    yield Identity(
        "merging partial results is associative",
        "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c), with (O, L) ⊕ (O′, L′) = ((e^L O + e^L′ O′)/(e^L + e^L′), log(e^L + e^L′))",
        _both(_merged(_merged(a, b), c)),
        _both(_merged(a, _merged(b, c))),
        premises=(NOT_ALL_EMPTY,),
        relied_on="tiles and rings: blocks may come in any grouping",
    )
    yield Identity(
        "merging partial results is commutative",
        "a ⊕ b = b ⊕ a",
        _both(_merged(a, b)),
        _both(_merged(b, a)),
        premises=(NOT_ALL_EMPTY,),
        relied_on="the order of a ring does not matter",
    )
    yield Identity(
        "an empty partial result changes nothing",
        "a ⊕ (0, −∞) = a",
        _both(_merged(a, (sp.S.Zero, -sp.oo))),
        _both(a),
        premises=("a is not empty itself",),
        relied_on="skipped tiles; a query that sees nothing in a block",
    )
    (S, V), (T, W) = _block(1), _block(2)
    sums = [_exponentials(s, w) for s, w in ((S, V), (T, W))]
    total = sums[0][1] + sums[1][1]
    yield Identity(
        "two merged blocks are the whole",
        "(O, L) over both blocks of keys = that of the first ⊕ that of the second, for blocks of any two sizes",
        _both(_merged(_result(S, V), _result(T, W))),
        _both(((sums[0][0] + sums[1][0]) / total, sp.log(total))),
        premises=("an empty block counts as (0, −∞)", NOT_ALL_EMPTY),
        relied_on="tiled kernels; decoding with a cache",
    )
    yield _online(S, V)


def _online(S: Tensor, V: Tensor) -> Identity:
    """One step of online softmax, for any running maximum: it is subtracted, and cancels.

    Both results as one expression: O′, and l′ freed of its maximum, which is the exponential of the merged L.
    """
    O, l, m, shift = (sp.Symbol(name, real=True) for name in ("O", "l", "m", "m_new"))
    j = Axis("j", S.shape[0])
    kept = sp.exp(m - shift) * l
    total = kept + Total(sp.exp(S[j] - shift), j)
    output = (kept * O + Total(sp.exp(S[j] - shift) * V[j], j)) / total
    weighted, exponentials = _exponentials(S, V)
    before = sp.exp(m) * l
    return Identity(
        "one step of online softmax",
        "l′ = e^(m−m′) l + Σ_j e^(s_j−m′) and O′ = (e^(m−m′) l O + Σ_j e^(s_j−m′) v_j)/l′ merge a block, for any m′",
        _both((output, sp.exp(shift) * total)),
        _both(((before * O + weighted) / (before + exponentials), before + exponentials)),
        premises=("l ≥ 0", "l > 0, or a key is seen"),
        relied_on="online softmax: the running maximum may be any number",
    )


_Partial = tuple[sp.Expr, sp.Expr]
"""One coordinate of an output, and its logsumexp."""


def _part(name: str) -> _Partial:
    return sp.Symbol(f"O_{name}", real=True), sp.Symbol(f"L_{name}", real=True)


def _block(number: int) -> tuple[Tensor, Tensor]:
    j = Axis("j", f"m_{number}")
    return Tensor(f"S_{number}", j), Tensor(f"V_{number}", j)


def _merged(one: _Partial, two: _Partial) -> _Partial:
    weights = sp.exp(one[1]) + sp.exp(two[1])
    return (sp.exp(one[1]) * one[0] + sp.exp(two[1]) * two[0]) / weights, sp.log(weights)


def _both(part: _Partial) -> sp.Expr:
    """A pair as one expression: pairs are equal where x O + y L are, for all x and y."""
    x, y = sp.symbols("x y", real=True)
    return x * part[0] + y * part[1]


def _exponentials(scores: Tensor, values: Tensor) -> _Partial:
    """Σ e^s v and Σ e^s over a block of keys."""
    j = Axis("j", scores.shape[0])
    return Total(sp.exp(scores[j]) * values[j], j), Total(sp.exp(scores[j]), j)


def _result(scores: Tensor, values: Tensor) -> _Partial:
    weighted, total = _exponentials(scores, values)
    return weighted / total, sp.log(total)
