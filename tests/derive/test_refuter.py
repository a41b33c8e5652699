"""Refutation: false statements get a counterexample that can be checked by hand, and true ones get none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

from derive.algebra import Axis, Delta, Indicator, Tensor, Total
from derive.calculus import backward
from derive.forward import program
from derive.proof.identities import identities
from derive.proof.refuter import refute
from derive.proof.statements import Identity, equation, spelled
from derive.proof.verdict import prove
from tests.families import ATTENTION

i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
X, Y = Tensor("X", i, c), Tensor("Y", i, c)


@pytest.mark.parametrize("name", [*ATTENTION, "attention_head", "layer_norm", "rms_norm", "cross_entropy", "prefill"])
def test_what_is_proved_has_no_counterexample_and_its_opposite_has_one(name: str) -> None:
    for identity in identities(program(name)):
        if not (identity.refutable and identity.holds):
            continue  # its premises do not hold at random points, so none refutes it
        known = identity.known
        for claim in identity.claims:
            left, right = (spelled(side, known) for side in (claim.left, claim.right + (claim.witness or 0)))
            assert refute(left, right, known, all_visible=identity.all_visible) is None, identity.name
            found = refute(left, 2 * right + 1, known)
            assert found is not None, identity.name
            assert found.left != found.right


def test_a_counterexample_can_be_checked_by_hand() -> None:
    """Rational inputs at small sizes, the entry, and both sides there."""
    found = refute(Total(X[i, c] * Y[i, c], c), Total(X[i, c], c) * Total(Y[i, c], c))
    assert found is not None
    x, y, at = found.inputs["X"], found.inputs["Y"], found.at["i"]
    assert all(isinstance(entry, Fraction) for row in x for entry in row)
    assert float(found.left) == pytest.approx(float(sum(a * b for a, b in zip(x[at], y[at], strict=True))))
    assert float(found.right) == pytest.approx(float(sum(x[at]) * sum(y[at])))
    assert "X = [[" in str(found)
    assert f"at i = {at}, the right side {found.right}" in str(found)


def test_sides_that_differ_far_behind_the_point_are_shown_with_as_many_digits() -> None:
    """1 + 1e-24 and 1 would read as a statement that holds."""
    tiny = sp.Rational(1, 10**24)
    found = refute(Y[i, c] ** 2 + 1, Y[i, c] ** 2 + 1 + tiny)
    assert found is not None
    assert found.left != found.right
    assert len(found.right) > 20


def test_what_is_neither_proved_nor_refuted_is_open_with_both_sides() -> None:
    """True, but its divisors hold a summed index, by which the prover does not multiply."""
    y = Tensor("Z", j)[j]
    outcome = prove(equation("divisors in a sum", Total(1 / (1 + y), j) + Total(y / (1 + y), j), j.size))
    assert outcome.status == "open"
    assert outcome.counterexample is None
    assert outcome.remainders == ("Σ_k Z[k]/(Z[k] + 1) + Σ_k 1/(Z[k] + 1) − m",)


def test_centring_queries_is_refuted_where_centring_keys_is_proved() -> None:
    """dK_j = scale Σ_i dS_ij Q_i has no sum over i that vanishes, so queries must not be centred in it."""
    source = program("attention").plain()
    known = {d.name: d for d in (*source.definitions, *backward(source).derived.definitions)}
    dS, dK, Q = known["dS"].target, known["dK"].target, source.input("Q")
    scale, q, e = sp.Symbol("scale", real=True), dS.indices[0], dK.indices[1]
    mean = Total(Q.tensor[q, e], q) / q.size
    centred = scale * Total(dS * (Q.tensor[q, e] - mean), q)
    outcome = prove(equation("centred queries", dK, centred, definitions=tuple(known.values())))
    assert outcome.status == "refuted"


@pytest.mark.parametrize(
    ("name", "statement", "change"),
    [
        ("rotary_embedding", "rotations keep lengths", lambda x: replace(x, unfold=())),
        ("attention", "scores do not depend on the basis", lambda x: replace(x, premises=())),
        ("cross_entropy", "logit gradients are centred", lambda x: replace(x, premises=(), refutable=False)),
    ],
)
def test_no_proof_goes_through_without_what_it_rests_on(
    name: str, statement: str, change: Callable[[Identity], Identity]
) -> None:
    identity = next(x for x in identities(program(name)) if x.name == statement)
    assert prove(identity).status == "proved"
    assert prove(change(replace(identity, refutable=False))).status == "open"


def test_the_logarithm_of_0_is_no_counterexample() -> None:
    """A statement is about points at which both sides are defined."""
    k = Axis("k", "n")
    assert refute(sp.log(Delta(i, k)), 2 * sp.log(Delta(i, k))) is None


n, t = Tensor("tokens", i, values="integer"), Axis("t", "t")
W = Tensor("W", t, c)


@pytest.mark.parametrize("power", [2, 3, 4])
def test_integers_are_told_from_their_powers(power: int) -> None:
    """As numbers; as positions that a delta picks; as positions that index, where the power may lie outside."""
    assert refute(n[i], n[i] ** power) is not None
    assert refute(Total(Delta(n[i], t) * W[t, c], t), Total(Delta(n[i] ** power, t) * W[t, c], t)) is not None


def test_integers_are_told_from_their_size_and_sign() -> None:
    assert refute(sp.Abs(n[i]), n[i]) is not None
    assert refute(W[n[i], c], W[0, c]) is not None
    assert refute(W[n[i], c], W[n[i] ** 2, c]) is not None


def test_positions_stay_on_their_axis_unless_a_condition_asks_about_them() -> None:
    """δ[tokens, t] sums to 1 for every token that there is; where negative ones are ignored they are tried too."""
    assert refute(Total(Delta(n[i], t), t), sp.S.One) is None
    assert refute(W[n[i], c], Total(Delta(n[i], t) * W[t, c], t)) is None
    seen = Indicator(n[i] >= 0)
    assert refute(seen * Total(Delta(n[i], t), t), sp.S.One) is not None
    assert refute(seen * W[n[i], c], seen * Total(Delta(n[i], t) * W[t, c], t)) is None
    assert refute(seen * W[n[i], c], 2 * seen * W[n[i], c]) is not None


THIRD = sp.Rational(1, 3)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Indicator(3 * X[i, c] < -2), Indicator(X[i, c] < -2 * THIRD)),
        (Indicator(X[i, c] + THIRD > 1), Indicator(X[i, c] > 2 * THIRD)),
        (Indicator(X[i, c] / 7 >= THIRD), Indicator(X[i, c] >= 7 * THIRD)),
        (sp.sign(X[i, c] / 7 - THIRD / 7), sp.sign(3 * X[i, c] - 1)),
        (Indicator(X[i, c] <= THIRD), 1 - Indicator(X[i, c] * 9 > 3)),
    ],
)
def test_at_a_threshold_that_is_no_decimal_fraction_comparisons_are_exact(left: sp.Expr, right: sp.Expr) -> None:
    """Inputs are drawn at what they are compared with; in decimals 3 · (1/3) would be below 1."""
    for seed in range(0, 200, 40):
        assert refute(left, right, seed=seed) is None


def test_what_is_false_at_a_threshold_alone_is_refuted() -> None:
    assert refute(Indicator(X[i, c] <= THIRD), Indicator(X[i, c] < THIRD)) is not None


def test_integers_are_drawn_from_what_is_known_of_their_range() -> None:
    """An index is its own absolute value; an integer of any sign is not."""
    inside = Tensor("T", i, values="integer", within=(sp.S.Zero, j.size))
    anywhere = Tensor("T", i, values="integer")
    assert refute(sp.Abs(inside[i]), inside[i]) is None
    assert refute(inside[i] * Indicator(sp.Ge(inside[i], 0)), inside[i]) is None
    assert refute(inside[i] * Indicator(sp.Lt(inside[i], j.size)), inside[i]) is None
    assert refute(sp.Abs(anywhere[i]), anywhere[i]) is not None
