"""Routing: what moving one score does to the output, and what a loss tells each score."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Delta, Tensor, Total
from derive.forward import softmax
from derive.forward.program import Definition
from derive.proof.identities.attention import NO_DL, Attention
from derive.proof.identities.known import with_entries_replaced
from derive.proof.identities.softmax import closed_jacobian
from derive.proof.statements import Claim, Identity, Premise, equation
from derive.proof.terms import Slope


def routing_identities(a: Attention) -> Iterator[Identity]:
    """The statements of one query that reads an average of values, for all queries at once."""
    yield from _what_a_score_moves(a)
    yield from _what_a_score_learns(a)
    yield from _where_nothing_is_learned(a)


def _what_a_score_moves(a: Attention) -> Iterator[Identity]:
    i, j, v, q, r = a.i, a.j, a.v, Axis("q", a.j.size), Axis("r", a.j.size)
    V, A, O, S = a.V, a.weight(q), a.O.target, a.S.target.tensor
    V_q = V.base[q, v]
    w = Tensor("w", v)
    yield Identity(
        "outputs are averages of values",
        (
            Claim(O - w[v], Total(a.A.target * (V - w[v]), j)),
            Claim(a.A.target, sp.S.Zero, a.A.value),
        ),
        (a.A, a.O),
        (a.seen,),
        relied_on="O lies in the convex hull of the visible values",
    )
    yield equation(
        "outputs move by the Jacobian",
        Slope(O, S[i, q]),
        Total(closed_jacobian(a, q) * V, j),
        (a.A, a.O),
        premises=(a.seen,),
        relied_on="∂o/∂s = V (diag α − α αᵀ)",
    )
    first_order = A * (V_q - O)
    yield equation(
        "what one score moves",
        Slope(O, S[i, q]),
        first_order,
        (a.A, a.O),
        premises=(a.seen,),
        relied_on="Δo = ε α_j (v_j − o) to first order: a score that grows pulls the output towards its value",
    )
    others = Total((1 - Delta(q, r)) * a.weight(r) * V.base[r, v], r) / (1 - A)
    yield equation(
        "a value against the others",
        first_order,
        A * (1 - A) * (V_q - others),
        (a.O,),
        premises=(Premise("the query sees another key too", "not 0", 1 - A, axes=(i, q)),),
        relied_on="weights near 0 and near 1 hardly move the output",
    )
    alpha = sp.Symbol("alpha", real=True)
    largest = sp.Rational(1, 4)
    yield Identity(
        "routing is strongest at one half",
        (Claim(largest, alpha * (1 - alpha), (alpha - sp.Rational(1, 2)) ** 2),),
        setting="the other keys' relative weights stay as they are; what is added is 0 at α = 1/2 alone",
        relied_on="saturated heads learn slowly",
    )


def _what_a_score_learns(a: Attention) -> Iterator[Identity]:
    j, v, V = a.j, a.v, a.V
    dS, chain = a.known.at("dS"), a.chain
    yield equation(
        "routing gradient",
        dS,
        a.A.target * Total(a.dO * (V - a.O.target), v),
        (*a.known.chosen("O"), *chain),
        setting=NO_DL,
        relied_on="β_j = α_j gᵀ(v_j − o): under descent a key loses where its value points along the gradient",
    )
    yield equation(
        "score gradients sum to zero",
        Total(dS, j),
        sp.S.Zero,
        chain,
        premises=(a.rows,),
        setting=NO_DL,
        relied_on="centring; a check worth running on every kernel",
    )
    name = a.known.derivation.names[str(V.base.name)]
    yield equation(
        "value gradients sum to the output gradient",
        Total(a.known.at(name), j),
        Total(a.dO, a.i),
        a.known.chosen(name),
        premises=(a.rows,),
        relied_on="finding a transpose or a weight that was lost",
    )
    yield _two_keys(a)


def _two_keys(a: Attention) -> Identity:
    """DS for two keys, both seen: the definitions of A, r and dS over an axis of two."""
    two = {a.j.size: sp.Integer(2)}

    def of_two(expr: sp.Expr) -> sp.Expr:
        axes = {axis: Axis.of(axis.name, sp.Integer(2)) for axis in expr.atoms(Axis) if axis.size == a.j.size}
        return expr.xreplace(axes).xreplace(two)

    seen = Definition(a.A.target, softmax.softmax(a.form.score, a.j))
    A, r, dS = (Definition(of_two(d.target), of_two(d.value)) for d in (seen, *a.known.chosen("r", "dS")))
    i, weight, g = A.axes[0], A.target.tensor, of_two(a.known.at("dA")).base
    product = weight[i, 0] * weight[i, 1] * (g[i, 0] - g[i, 1])
    first, second = (dS.target.tensor[i, k] for k in (0, 1))
    return Identity(
        "two keys",
        (Claim(first, product), Claim(second, -product)),
        (A, r, dS),
        setting=f"the query sees two keys; {NO_DL}",
        relied_on="the smallest example; gradients vanish where one key has all the weight",
    )


def _where_nothing_is_learned(a: Attention) -> Iterator[Identity]:
    dS = a.known.at("dS")
    if a.form.visible != 1:
        hidden = 1 - a.form.visible
        yield equation(
            "a hidden score has gradient zero",
            hidden * dS,
            sp.S.Zero,
            (*a.known.chosen("A"), *a.known.chosen("dS")),
            relied_on="masks; skipped tiles",
            all_visible=False,
        )
        yield from _masked(a)
    w, tensor = Tensor("w", a.v), a.V.base
    yield equation(
        "equal values give no routing gradient",
        dS,
        sp.S.Zero,
        with_entries_replaced(a.chain, tensor, lambda entry: w[entry.indices[1]]),
        premises=(a.rows,),
        setting=f"V[j,v] = w[v] for all keys j; {NO_DL}",
        relied_on="reading what a head can learn",
    )


def _masked(a: Attention) -> Iterator[Identity]:
    """What a query does not see may hold anything."""
    M, i, j, v = a.form.visible, a.i, a.j, a.v
    X, Y = Tensor("X_any", i, j), Tensor("Y_any", i, j, v)
    anything = M * a.form.score + (1 - M) * X[i, j]
    weights = M * sp.exp(anything) / Total(M * sp.exp(anything), j)
    A = Definition(Tensor("A_changed", i, j)[i, j], weights)
    yield equation(
        "hidden scores contribute nothing",
        A.target,
        a.A.target,
        (a.A, A),
        relied_on="masks: what a hidden score holds does not matter",
        all_visible=False,
    )
    yield equation(
        "hidden values contribute nothing",
        Total(a.A.target * (M * a.V + (1 - M) * Y[i, j, v]), j),
        a.O.target,
        (a.A, a.O),
        relied_on="skipped tiles; keys and values of padding",
        all_visible=False,
    )
