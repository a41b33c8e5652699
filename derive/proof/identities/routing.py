"""Routing: what moving one score does to the output, and what a loss tells each score."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total
from derive.algebra.binders import rewrite
from derive.forward.program import Definition, unfolded
from derive.proof.identities.attention import NO_DL, SEEN, Attention
from derive.proof.identities.known import with_entries_replaced
from derive.proof.identities.softmax import closed_jacobian, derivative
from derive.proof.prover import Identity


def routing_identities(a: Attention) -> Iterator[Identity]:
    """The statements of one query that reads an average of values, for all queries at once."""
    yield from _what_a_score_moves(a)
    yield from _what_a_score_learns(a)
    yield from _where_nothing_is_learned(a)


def _what_a_score_moves(a: Attention) -> Iterator[Identity]:
    j, v, q, r = a.j, a.v, Axis("q", a.j.size), Axis("r", a.j.size)
    V, A, O = a.V, a.weight(q), a.O.target
    V_q = V.base[q, v]
    unfold = a.known.chosen("O")
    w = Tensor("w", v)
    yield Identity(
        "outputs are averages of values",
        "O[i,v] − w[v] = Σ_j A[i,j] (V[j,v] − w[v]), and A ≥ 0",
        O - w[v],
        Total(a.A.target * (V - w[v]), j),
        unfold,
        a.axioms,
        (SEEN,),
        "O lies in the convex hull of the visible values",
    )
    moved = Definition(a.O.target, unfolded(a.O.value, [a.A]))
    yield Identity(
        "outputs move by the Jacobian",
        "∂O[i,v]/∂S[i,q] = Σ_j V[j,v] J[j,q], with J = diag(a) − a aᵀ",
        derivative(moved, a.S.target.tensor, q),
        unfolded(Total(closed_jacobian(a, q) * V, j), [a.A]),
        premises=(SEEN,),
        relied_on="∂o/∂s = V (diag α − α αᵀ)",
    )
    first_order = A * (V_q - O)
    yield Identity(
        "what one score moves",
        "∂O[i,v]/∂S[i,q] = A[i,q] (V[q,v] − O[i,v])",
        Total(closed_jacobian(a, q) * V, j),
        first_order,
        unfold,
        relied_on="Δo = ε α_j (v_j − o) to first order: a score that grows pulls the output towards its value",
    )
    others = Total((1 - Delta(q, r)) * a.weight(r) * V.base[r, v], r) / (1 - A)
    yield Identity(
        "a value against the others",
        "∂O[i,v]/∂S[i,q] = A[i,q] (1 − A[i,q]) (V[q,v] − Σ_{r≠q} A[i,r] V[r,v]/(1 − A[i,q]))",
        first_order,
        A * (1 - A) * (V_q - others),
        unfold,
        premises=("the query sees another key too",),
        relied_on="weights near 0 and near 1 hardly move the output",
    )
    alpha = sp.Symbol("alpha", real=True)
    yield Identity(
        "routing is strongest at one half",
        "1/4 − α (1 − α) = (α − 1/2)², so α (1 − α) is largest at α = 1/2",
        sp.Rational(1, 4) - alpha * (1 - alpha),
        (alpha - sp.Rational(1, 2)) ** 2,
        premises=("the other keys' relative weights stay as they are",),
        relied_on="saturated heads learn slowly",
    )


def _what_a_score_learns(a: Attention) -> Iterator[Identity]:
    j, v, V = a.j, a.v, a.V
    dS, chain = a.known.at("dS"), a.chain
    yield Identity(
        "routing gradient",
        "dS[i,j] = A[i,j] Σ_v dO[i,v] (V[j,v] − O[i,v])",
        dS,
        a.A.target * Total(a.dO * (V - a.O.target), v),
        (*a.known.chosen("O"), *chain),
        premises=(NO_DL,),
        relied_on="β_j = α_j gᵀ(v_j − o): a key gains where its value points along the gradient",
    )
    yield Identity(
        "score gradients sum to zero",
        "Σ_j dS[i,j] = 0",
        Total(dS, j),
        sp.S.Zero,
        chain,
        a.axioms,
        (SEEN, NO_DL),
        "centring; a check worth running on every kernel",
    )
    yield Identity(
        "value gradients sum to the output gradient",
        "Σ_j dV[j,v] = Σ_i dO[i,v]",
        Total(a.known.at(name := a.known.derivation.names[str(V.base.name)]), j),
        Total(a.dO, a.i),
        a.known.chosen(name),
        a.axioms,
        (SEEN,),
        "finding a transpose or a weight that was lost",
    )
    yield _two_keys(a)


def _two_keys(a: Attention) -> Identity:
    """DS for two keys, both seen, with sums and weights spelled out."""
    pair = Axis("j", 2)
    g, s = Tensor("g", pair), Tensor("s", pair)
    weights = [sp.exp(s[k]) / (sp.exp(s[0]) + sp.exp(s[1])) for k in (0, 1)]
    A, dA = (t.target.base for t in (a.A, a.known.by_name["dA"]))
    value = unfolded(a.known.by_name["dS"].value, a.known.chosen("r"))

    def spelled(node: sp.Expr) -> sp.Expr:
        if isinstance(node, Total):
            body, (axis,) = node.open()
            return sp.Add(*(body.xreplace({axis: sp.Integer(k)}) for k in (0, 1)))
        return node

    def numbered(node: sp.Expr) -> sp.Expr:
        if isinstance(node, Entry) and node.base in (A, dA):
            return weights[int(node.indices[1])] if node.base == A else g[node.indices[1]]
        return node

    first = rewrite(rewrite(value, spelled).xreplace({a.j: sp.S.Zero}), numbered)
    return Identity(
        "two keys",
        "dS[1] = −dS[2] = a₁ a₂ (g̃₁ − g̃₂) for two keys, with a = softmax(s) and g̃ = dA",
        first,
        weights[0] * weights[1] * (g[0] - g[1]),
        premises=("the query sees two keys", NO_DL),
        relied_on="the smallest example; gradients vanish where one key has all the weight",
    )


def _where_nothing_is_learned(a: Attention) -> Iterator[Identity]:
    dS = a.known.at("dS")
    if a.form.visible != 1:
        hidden = 1 - a.form.visible
        yield Identity(
            "a hidden score has gradient zero",
            "(1 − M[i,j]) dS[i,j] = 0",
            hidden * dS,
            sp.S.Zero,
            (*a.known.chosen("A"), *a.known.chosen("dS")),
            relied_on="masks; skipped tiles",
        )
        yield from _masked(a)
    w, tensor = Tensor("w", a.v), a.V.base
    yield Identity(
        "equal values give no routing gradient",
        "V[j,v] = w[v] for all j ⇒ dS = 0",
        dS,
        sp.S.Zero,
        with_entries_replaced(a.chain, tensor, lambda entry: w[entry.indices[1]]),
        a.axioms,
        (SEEN, NO_DL),
        "reading what a head can learn",
    )


def _masked(a: Attention) -> Iterator[Identity]:
    """What a query does not see may hold anything."""
    M, j, v = a.form.visible, a.j, a.v
    X, Y = Tensor("X", *a.S.axes), Tensor("Y", a.i, j, v)
    anything = M * a.form.score + (1 - M) * X[a.S.axes]
    weights = a.A.value
    changed = M * sp.exp(anything) / Total(M * sp.exp(anything), j)
    yield Identity(
        "hidden scores contribute nothing",
        "softmax over M of M S + (1 − M) X is that of S, for any X",
        changed,
        weights,
        relied_on="masks: what a hidden score holds does not matter",
    )
    yield Identity(
        "hidden values contribute nothing",
        "Σ_j A[i,j] (M[i,j] V[j,v] + (1 − M[i,j]) Y[i,j,v]) = O[i,v], for any Y",
        Total(weights * (M * a.V + (1 - M) * Y[a.i, j, v]), j),
        unfolded(a.O.value, [a.A]),
        relied_on="skipped tiles; keys and values of padding",
    )
