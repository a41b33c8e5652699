"""Centring: what may be taken off keys, values and queries, what a change of basis does, and the size of scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total, equal
from derive.forward.program import Definition
from derive.proof.identities.attention import NO_DL, SCALE, Attention, scaled_products
from derive.proof.statements import Identity, Premise, equation, products_sum_to_delta


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
    yield equation(
        "key gradients of one query sum to zero",
        Total(SCALE * dS * Q, j),
        sp.S.Zero,
        a.chain,
        premises=(a.rows,),
        setting=f"for each query i by itself; {NO_DL}",
        relied_on="keys can be centred",
    )
    yield equation(
        "centred keys",
        dQ,
        SCALE * Total(dS * centred, j),
        (*a.chain, *a.known.chosen("dQ")),
        premises=(a.rows,),
        setting=NO_DL,
        relied_on="dQ is the same with k and with k − k̄",
    )
    beta = a.A.target * Total(a.dO * (a.V - a.O.target), a.v)
    yield equation(
        "query gradients are a covariance",
        dQ,
        SCALE * Total(beta * centred, j),
        (*a.known.chosen("O"), *a.chain, *a.known.chosen("dQ")),
        premises=(a.rows,),
        setting=NO_DL,
        relied_on="dQ is the covariance of keys with what their values are worth, under the weights",
    )
    yield equation(
        "query gradients lie in the span of key differences",
        dQ,
        SCALE * Total(dS * (K - K.base[one, c]), j),
        (*a.chain, *a.known.chosen("dQ")),
        premises=(a.rows,),
        setting=f"for any one key p; {NO_DL}",
        relied_on="a query learns only along what tells keys apart",
    )


def _queries(p: Products) -> Iterator[Identity]:
    a, Q, c = p.a, p.Q, p.c
    dS, dK, z = a.known.at("dS"), p.gradient("dK", a.j, c), Tensor("z", c)
    centred = SCALE * Total(dS * (Q - z[c]), a.i)
    yield equation(
        "centred queries differ by the keys' share",
        centred,
        dK - SCALE * z[c] * Total(dS, a.i),
        a.known.chosen("dK"),
        relied_on="queries may be centred in dK where Σ_i dS[i,j] = 0, and nowhere else",
    )
    yield equation(
        "centred queries leave the sum of key gradients",
        Total(centred, a.j),
        sp.S.Zero,
        a.chain,
        premises=(a.rows,),
        setting=f"for every z, 0 among them; {NO_DL}",
        relied_on="where centring queries holds: summed over keys",
    )
    q = Axis("q", a.i.size)
    yield equation(
        "queries must not be centred in key gradients",
        dK,
        SCALE * Total(dS * (Q - Total(Q.base[q, c], q) / q.size), a.i),
        relied_on="what holds for keys in dQ does not hold for queries in dK",
        holds=False,
    )


def _basis(p: Products) -> Iterator[Identity]:
    a, Q, K, c = p.a, p.Q, p.K, p.c
    i, j, dS = a.i, a.j, a.known.at("dS")
    e, f, g = Axis("e", c.size), Axis("f", c.size), Axis("g", c.size)
    yield equation(
        "scale balance",
        Total(Q * p.gradient("dQ", i, e), i),
        Total(p.gradient("dK", j, c) * K.base[j, e], j),
        a.known.chosen("dQ", "dK"),
        relied_on="finding a scale that one of dQ and dK lost",
    )
    B, C = Tensor("B", e, f), Tensor("C", e, f)
    turned_q, turned_k = Total(B[e, f] * Q.base[i, f], f), Total(C[e, f] * K.base[j, f], f)
    yield equation(
        "scores do not depend on the basis",
        Total(turned_q * turned_k, e),
        Total(Q * K.base[j, c], c),
        premises=(products_sum_to_delta(B[e, f], C[e, g], e, "C is the transposed inverse of B"),),
        setting="queries are turned to B q, and keys to C k",
        relied_on="queries and keys mean something only together",
        refutable=False,
    )
    gradients = "a step along the gradient depends on the basis, although the scores do not"
    unmoved = "queries are turned to B q, and keys to C k with C = B⁻ᵀ; scores, and so dS, stay as they are"
    yield equation(
        "query gradients turn with the keys",
        SCALE * Total(dS * turned_k, j),
        Total(C[e, f] * p.gradient("dQ", i, f), f),
        a.known.chosen("dQ"),
        setting=unmoved,
        relied_on=gradients,
    )
    yield equation(
        "key gradients turn with the queries",
        SCALE * Total(dS * turned_q, i),
        Total(B[e, f] * p.gradient("dK", j, f), f),
        a.known.chosen("dK"),
        setting=unmoved,
        relied_on=gradients,
    )


def _size_of_scores(p: Products) -> Iterator[Identity]:
    """Expectations are sums over what may occur, ω for q and ζ for k, with the chances of each."""
    c, e = p.c, Axis("e", p.c.size)
    w, z = Axis("ω", "outcomes_q"), Axis("ζ", "outcomes_k")
    P, R, q, k = Tensor("P", w), Tensor("R", z), Tensor("q", w, c), Tensor("k", z, c)
    product = Total(q[w, c] * k[z, c], c)
    moments = tuple(
        Premise(f"coordinates of {x} are uncorrelated, of mean square 1", "equal", total, Delta(c, e), (c, e))
        for x, total in (("q", Total(P[w] * q[w, c] * q[w, e], w)), ("k", Total(R[z] * k[z, c] * k[z, e], z)))
    )
    independent = "q and k are independent, with chances P and R of their outcomes"
    yield equation(
        "variance of a score",
        Total(P[w] * R[z] * product**2, w, z),
        c.size,
        premises=moments,
        setting=f"{independent}; with means 0 this is the variance of kᵀq",
        relied_on="scores grow with the width",
        refutable=False,
    )
    yield equation(
        "scaled scores have unit variance",
        Total(P[w] * R[z] * (product / sp.sqrt(c.size)) ** 2, w, z),
        sp.S.One,
        premises=(*moments, Premise("d > 0", "> 0", c.size)),
        setting=independent,
        relied_on="the default scale 1/√d",
        refutable=False,
    )
