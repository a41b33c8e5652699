"""Centring: what may be taken off keys, values and queries, what a change of basis does, and the size of scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total, equal
from derive.forward.program import Definition
from derive.proof.axioms import expected, products_sum_to_delta
from derive.proof.identities.attention import NO_DL, SCALE, SEEN, Attention, scaled_products
from derive.proof.prover import Identity


@dataclass(frozen=True)
class Products:
    """An attention whose scores are S = scale · Q Kᵀ plus what does not depend on Q and K."""

    a: Attention
    Q: Entry
    K: Entry

    @classmethod
    def of(cls, a: Attention) -> Products | None:
        """The products in an attention, if all that Q and K do is to be multiplied."""
        found = scaled_products(a.known.program)
        if found is None or not {"dQ", "dK"} <= a.known.by_name.keys():
            return None
        Q, K = found
        dS = a.known.at("dS")
        plain = {"dQ": SCALE * Total(dS * K, a.j), "dK": SCALE * Total(dS * Q, a.i)}
        same = (equal(d.at(*e.indices), plain[d.name]) for d, e in zip(a.known.chosen("dQ", "dK"), found, strict=True))
        return cls(a, Q, K) if all(same) else None

    @property
    def c(self) -> Axis:
        """The axis of coordinates that are multiplied and summed."""
        axis: Axis = self.Q.indices[1]
        return axis

    @cached_property
    def chain(self) -> tuple[Definition, ...]:
        """The definitions that lead from dO to dQ and dK."""
        return (*self.a.known.chosen("O"), *self.a.chain, *self.a.known.chosen("dQ", "dK"))

    def gradient(self, name: str, at: Axis, c: Axis) -> sp.Expr:
        """An entry of dQ or dK."""
        return self.a.known.by_name[name].target.tensor[at, c]


def centring_identities(a: Attention) -> Iterator[Identity]:
    """The statements about Q and K, where scores are their products."""
    p = Products.of(a)
    if p is not None:
        yield from _keys(p)
        yield from _queries(p)
        yield from _basis(p)
        yield from _size_of_scores(p)


def _keys(p: Products) -> Iterator[Identity]:
    a, Q, K, c = p.a, p.Q, p.K, p.c
    i, j = a.i, a.j
    dS, dQ = a.known.at("dS"), p.gradient("dQ", i, c)
    r, one = Axis("r", j.size), Axis("p", j.size)
    centred = K - Total(a.weight(r) * K.base[r, c], r)
    given = (SEEN, NO_DL)
    yield Identity(
        "key gradients of one query sum to zero",
        "Σ_j scale dS[i,j] Q[i,c] = 0 for each query i",
        Total(SCALE * dS * Q, j),
        sp.S.Zero,
        p.chain,
        a.axioms,
        given,
        "keys can be centred",
    )
    yield Identity(
        "centred keys",
        "dQ[i,c] = scale Σ_j dS[i,j] (K[j,c] − Σ_r A[i,r] K[r,c])",
        dQ,
        SCALE * Total(dS * centred, j),
        p.chain,
        a.axioms,
        given,
        "dQ is the same with k and with k − k̄",
    )
    beta = a.A.target * Total(a.dO * (a.V - a.O.target), a.v)
    yield Identity(
        "query gradients are a covariance",
        "dQ[i,c] = scale Σ_j A[i,j] (Σ_v dO[i,v] (V[j,v] − O[i,v])) (K[j,c] − Σ_r A[i,r] K[r,c])",
        dQ,
        SCALE * Total(beta * centred, j),
        p.chain,
        a.axioms,
        given,
        "dQ is the covariance of keys with what their values are worth, under the weights",
    )
    yield Identity(
        "query gradients lie in the span of key differences",
        "dQ[i,c] = scale Σ_j dS[i,j] (K[j,c] − K[p,c]) for any one key p",
        dQ,
        SCALE * Total(dS * (K - K.base[one, c]), j),
        p.chain,
        a.axioms,
        given,
        "a query learns only along what tells keys apart",
    )


def _queries(p: Products) -> Iterator[Identity]:
    a, Q, c = p.a, p.Q, p.c
    dS, dK, z = a.known.at("dS"), p.gradient("dK", a.j, c), Tensor("z", c)
    centred = SCALE * Total(dS * (Q - z[c]), a.i)
    yield Identity(
        "centred queries differ by the keys' share",
        "scale Σ_i dS[i,j] (Q[i,c] − z[c]) = dK[j,c] − scale z[c] Σ_i dS[i,j]",
        centred,
        dK - SCALE * z[c] * Total(dS, a.i),
        a.known.chosen("dK"),
        relied_on="queries may be centred in dK where Σ_i dS[i,j] = 0, and nowhere else",
    )
    yield Identity(
        "centred queries leave the sum of key gradients",
        "Σ_j scale Σ_i dS[i,j] (Q[i,c] − z[c]) = 0 = Σ_j dK[j,c] for every z",
        Total(centred, a.j),
        sp.S.Zero,
        a.chain,
        a.axioms,
        (SEEN, NO_DL),
        "where centring queries holds: summed over keys",
    )
    q = Axis("q", a.i.size)
    yield Identity(
        "queries must not be centred in key gradients",
        "dK[j,c] ≠ scale Σ_i dS[i,j] (Q[i,c] − Σ_q Q[q,c]/n)",
        dK,
        SCALE * Total(dS * (Q - Total(Q.base[q, c], q) / q.size), a.i),
        relied_on="what holds for keys in dQ does not hold for queries in dK",
        holds=False,
    )


def _basis(p: Products) -> Iterator[Identity]:
    a, Q, K, c = p.a, p.Q, p.K, p.c
    i, j, dS = a.i, a.j, a.known.at("dS")
    e, f = Axis("e", c.size), Axis("f", c.size)
    yield Identity(
        "scale balance",
        "Σ_i Q[i,c] dQ[i,e] = Σ_j dK[j,c] K[j,e]",
        Total(Q * p.gradient("dQ", i, e), i),
        Total(p.gradient("dK", j, c) * K.base[j, e], j),
        p.chain,
        relied_on="finding a scale that one of dQ and dK lost",
    )
    B, C = Tensor("B", e, f), Tensor("C", e, f)
    turned_q, turned_k = Total(B[e, f] * Q.base[i, f], f), Total(C[e, f] * K.base[j, f], f)
    yield Identity(
        "scores do not depend on the basis",
        "q ↦ B q and k ↦ C k with C = B⁻ᵀ leave Σ_c Q[i,c] K[j,c]",
        Total(turned_q * turned_k, e),
        Total(Q * K.base[j, c], c),
        axioms=(products_sum_to_delta(B, C, "C is the transposed inverse of B"),),
        premises=("C = B⁻ᵀ",),
        relied_on="queries and keys mean something only together",
        refutable=False,
    )
    gradients = "a step along the gradient depends on the basis, although the scores do not"
    unmoved = ("C = B⁻ᵀ, so that scores do not depend on the basis, and dS stays as it is",)
    yield Identity(
        "query gradients turn with the keys",
        "q ↦ B q and k ↦ C k turn dQ into C dQ: scale Σ_j dS[i,j] (C k_j)[e] = Σ_f C[e,f] dQ[i,f]",
        SCALE * Total(dS * turned_k, j),
        Total(C[e, f] * p.gradient("dQ", i, f), f),
        p.chain,
        premises=unmoved,
        relied_on=gradients,
    )
    yield Identity(
        "key gradients turn with the queries",
        "q ↦ B q and k ↦ C k turn dK into B dK: scale Σ_i dS[i,j] (B q_i)[e] = Σ_f B[e,f] dK[j,f]",
        SCALE * Total(dS * turned_q, i),
        Total(B[e, f] * p.gradient("dK", j, f), f),
        p.chain,
        premises=unmoved,
        relied_on=gradients,
    )


def _size_of_scores(p: Products) -> Iterator[Identity]:
    c = p.c
    q, k = Tensor("q", c), Tensor("k", c)
    product, moments = Total(q[c] * k[c], c), (expected(q), expected(k))
    premise = "the coordinates of q and k are independent, of mean 0 and variance 1, so that E kᵀq = 0"
    yield Identity(
        "variance of a score",
        "Var(kᵀq) = E (kᵀq)² = d",
        product**2,
        c.size,
        axioms=moments,
        premises=(premise,),
        relied_on="scores grow with the width",
        refutable=False,
    )
    yield Identity(
        "scaled scores have unit variance",
        "Var(kᵀq/√d) = 1",
        (product / sp.sqrt(c.size)) ** 2,
        sp.S.One,
        axioms=moments,
        premises=(premise, "d > 0"),
        relied_on="the default scale 1/√d",
        refutable=False,
    )
