"""Softmax: its Jacobian, what it does not notice, its temperature, and the logarithm of its denominator."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Delta, Tensor, Total
from derive.forward import softmax
from derive.forward.program import Definition
from derive.lower.stabilise import stabilise
from derive.proof.identities.attention import Attention
from derive.proof.identities.known import entries_replaced
from derive.proof.statements import Claim, Identity, Premise, equation
from derive.proof.terms import Slope


def closed_jacobian(a: Attention, q: Axis) -> sp.Expr:
    """∂A[i,j]/∂S[i,q] as diag(a) − a aᵀ says."""
    return a.A.target * (Delta(a.j, q) - a.weight(q))


def softmax_identities(a: Attention) -> Iterator[Identity]:
    """Statements about A = softmax(S), each from A's primitive form exp(S)/Σ exp(S)."""
    i, j, A, q = a.i, a.j, a.A.target, Axis("q", a.j.size)
    score, J = a.S.target.tensor, closed_jacobian(a, q)
    yield equation(
        "softmax rows sum to one",
        Total(A, j),
        sp.S.One,
        (a.A,),
        premises=(a.seen,),
        relied_on="every identity that assumes it of A",
    )
    yield equation(
        "softmax Jacobian",
        Slope(A, score[i, q]),
        J,
        (a.A,),
        premises=(a.seen,),
        relied_on="the softmax step of every derivation",
    )
    yield equation(
        "the softmax Jacobian is symmetric",
        J,
        a.weight(q) * (Delta(q, j) - A),
        relied_on="forward and reverse mode use one Jacobian",
    )
    yield equation(
        "the softmax Jacobian annihilates constants",
        Total(J, q),
        sp.S.Zero,
        premises=(a.rows,),
        relied_on="shift invariance, seen backwards",
    )
    x = Tensor("x", j)
    spread = (x[j] - Total(a.weight(q) * x[q], q)) ** 2
    yield equation(
        "the softmax Jacobian is a weighted variance",
        Total(x[j] * J * x[q], j, q),
        Total(A * spread, j),
        premises=(a.rows,),
        relied_on="the Jacobian is positive semi-definite",
    )
    yield Identity(
        "weighted variances are not negative",
        (Claim(Total(A * spread, j), sp.S.Zero, Total(a.A.value * spread, j)),),
        (a.A,),
        relied_on="the Jacobian is positive semi-definite",
    )
    shifted = Definition(Tensor("A_shifted", i, j)[i, j], _of_scores(a, a.form.score + Tensor("t", i)[i]))
    yield equation(
        "shift invariance",
        shifted.target,
        A,
        (a.A, shifted),
        relied_on="stabilisation: the largest score is subtracted before exponentiating",
    )
    yield _stabilised(a)
    yield _temperature(a)
    L = Definition(Tensor("L", i)[i], softmax.logsumexp(a.form.score, j, a.form.visible))
    yield equation(
        "the gradient of logsumexp is softmax",
        Slope(L.target, score[i, q]),
        a.weight(q),
        (a.A, L),
        premises=(a.seen,),
        relied_on="the cotangent of L in fused backward passes; cross-entropy",
    )
    yield equation(
        "weights come back from L",
        a.form.visible * sp.exp(a.form.score - L.target),
        A,
        (a.A, L),
        premises=(a.seen,),
        relied_on="fused backward passes keep L instead of A",
    )


def _of_scores(a: Attention, score: sp.Expr) -> sp.Expr:
    return softmax.softmax(score, a.j, a.form.visible)


def _stabilised(a: Attention) -> Identity:
    """The weights as the schedule computes them: relative to a largest score, which may be any number."""
    stable = {d.name: d for d in stabilise(a.known.derivation.forward).definitions}
    helpers = [d for n, d in stable.items() if n not in a.known.forward and stable["A"].mentions(d.target.base)]
    A = Definition(Tensor("A_stable", *a.A.axes)[a.A.axes], stable["A"].value)
    return equation(
        "stabilised softmax",
        A.target,
        a.A.target,
        (a.A, *helpers, A),
        relied_on="the dense schedule",
    )


def _temperature(a: Attention) -> Identity:
    """How the weights move with a temperature τ that divides all scores."""
    i, j, r, score = a.i, a.j, Axis("r", a.j.size), a.S.target.tensor
    tau = Tensor("τ")[()]
    cooled = Tensor("A_τ", i, j)
    A = Definition(cooled[i, j], entries_replaced(a.A.value, score, lambda entry: entry / tau))
    average = Total(cooled[i, r] * score[i, r], r)
    exponentials = Total(a.form.visible * sp.exp(a.form.score / tau), j)
    return equation(
        "the gradient of temperature",
        Slope(A.target, tau),
        A.target * (average - a.form.score) / tau**2,
        (A,),
        premises=(
            Premise("every query sees a key", "not 0", exponentials, axes=(i,)),
            Premise("τ > 0", "> 0", tau),
        ),
        relied_on="learned temperatures; sampling: a lower temperature sharpens",
    )
