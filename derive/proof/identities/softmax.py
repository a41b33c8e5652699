"""Softmax: its Jacobian, what it does not notice, its temperature, and the logarithm of its denominator."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Delta, Tensor, Total, fold, fresh, from_terms, terms_of
from derive.calculus.partials import partials
from derive.forward import softmax
from derive.forward.program import Definition
from derive.lower.stabilise import stabilise
from derive.proof.identities.attention import SEEN, Attention
from derive.proof.identities.known import entries_replaced
from derive.proof.prover import Identity


def derivative(definition: Definition, score: Tensor, q: Axis) -> sp.Expr:
    """∂Y[i, …]/∂S[i,q] of a definition Y of one query, by the chain rule from its primitive form."""
    row = fresh(definition.axes[0])
    total = sp.S.Zero
    for part in partials(definition.value.xreplace({definition.axes[0]: row}), score):
        deltas = sp.Mul(*(Delta(p, x) for p, x in zip((row, q), part.indices, strict=True)))
        total += Total(part.weight * deltas, *part.bound)
    return from_terms(terms_of(total)).xreplace({row: definition.axes[0]})


def closed_jacobian(a: Attention, q: Axis) -> sp.Expr:
    """∂A[i,j]/∂S[i,q] as diag(a) − a aᵀ says."""
    return a.A.target * (Delta(a.j, q) - a.weight(q))


def softmax_identities(a: Attention) -> Iterator[Identity]:
    """Statements about A = softmax(S), each from A's primitive form exp(S)/Σ exp(S)."""
    j, row, q = a.j, a.A.value, Axis("q", a.j.size)
    score = a.S.target.tensor
    J = closed_jacobian(a, q)
    yield Identity(
        "softmax rows sum to one",
        "Σ_j A[i,j] = 1",
        Total(row, j),
        sp.S.One,
        premises=(SEEN,),
        relied_on="every identity that calls it an axiom",
    )
    yield Identity(
        "softmax Jacobian",
        "∂A[i,j]/∂S[i,q] = A[i,j] (δ[j,q] − A[i,q])",
        fold(derivative(a.A, score, q), [(a.A.target, row)]),
        J,
        premises=(SEEN,),
        relied_on="the softmax step of every derivation",
    )
    other = Axis("p", j.size)
    yield Identity(
        "the softmax Jacobian is symmetric",
        "J[j,q] = J[q,j] with J = diag(a) − a aᵀ",
        J,
        J.xreplace({j: other}).xreplace({q: j}).xreplace({other: q}),
        relied_on="forward and reverse mode use one Jacobian",
    )
    yield Identity(
        "the softmax Jacobian annihilates constants",
        "Σ_q J[j,q] = 0",
        Total(J, q),
        sp.S.Zero,
        axioms=a.axioms,
        premises=(SEEN,),
        relied_on="shift invariance, seen backwards",
    )
    x = Tensor("x", j)
    average = Total(a.weight(q) * x[q], q)
    yield Identity(
        "the softmax Jacobian is a weighted variance",
        "xᵀ J x = Σ_j A[i,j] (x[j] − Σ_q A[i,q] x[q])² ≥ 0",
        Total(x[j] * J * x[q], j, q),
        Total(a.A.target * (x[j] - average) ** 2, j),
        axioms=a.axioms,
        premises=(SEEN,),
        relied_on="the Jacobian is positive semi-definite",
    )
    shift = Tensor("t", a.i)
    yield Identity(
        "shift invariance",
        "softmax(S + t 1ᵀ) = softmax(S)",
        softmax.softmax(a.form.score + shift[a.i], j, a.form.visible),
        row,
        premises=(SEEN,),
        relied_on="stabilisation: the largest score is subtracted before exponentiating",
    )
    stable = {d.name: d for d in stabilise(a.known.derivation.forward).definitions}
    helpers = tuple(d for n, d in stable.items() if n not in a.known.forward)
    yield Identity(
        "stabilised softmax",
        "exp(S − max)/Σ exp(S − max) = softmax(S)",
        stable["A"].value,
        row,
        unfold=tuple(d for d in helpers if stable["A"].mentions(d.target.base)),
        premises=(SEEN,),
        relied_on="the dense schedule",
    )
    yield from _temperature(a)
    L = softmax.logsumexp(a.form.score, j, a.form.visible)
    yield Identity(
        "the gradient of logsumexp is softmax",
        "∂/∂S[i,q] log Σ_j exp(S[i,j]) = A[i,q]",
        derivative(Definition(Tensor("L", a.i)[a.i], L), score, q),
        row.xreplace({j: q}),
        premises=(SEEN,),
        relied_on="the cotangent of L in fused backward passes; cross-entropy",
    )
    yield Identity(
        "weights come back from L",
        "A[i,j] = M[i,j] exp(S[i,j] − L[i])",
        a.form.visible * sp.exp(a.form.score - L),
        row,
        premises=(SEEN,),
        relied_on="fused backward passes keep L instead of A",
    )


def _temperature(a: Attention) -> Iterator[Identity]:
    """How the weights and the loss move with a temperature τ that divides all scores."""
    j, q, r, score = a.j, Axis("q", a.j.size), Axis("r", a.j.size), a.S.target.tensor
    tau, T = sp.Symbol("tau", positive=True), Tensor("T", *a.S.axes)
    weights = entries_replaced(a.A.value, score, lambda entry: entry / tau)
    # The chain rule over an explicit step T = S/τ, whose slope is −S/τ²: the Jacobian is taken at T.
    of_step = Definition(a.A.target, entries_replaced(a.A.value, score, lambda entry: T[entry.indices]))
    slope = Total(derivative(of_step, T, q) * -score[a.i, q] / tau**2, q)
    average = Total(weights.xreplace({j: r}) * score[a.i, r], r)
    yield Identity(
        "the gradient of temperature",
        "∂A[i,j]/∂τ = A[i,j] (Σ_r A[i,r] S[i,r] − S[i,j])/τ², with A = softmax(S/τ)",
        slope,
        weights * (average - a.form.score) / tau**2,
        unfold=(Definition(T[a.S.axes], a.form.score / tau),),
        premises=(SEEN, "τ > 0"),
        relied_on="learned temperatures; sampling: a lower temperature sharpens",
    )
