"""The catalogue of identities: complete, as stated in every program, in numbers too, and never without its premises."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import sympy as sp

from derive.algebra import Axis, Delta, Indicator, Tensor, Total
from derive.calculus import backward
from derive.forward import Builder, names, program
from derive.modes import COMMITTED
from derive.modes import program as in_mode
from derive.proof.axioms import LAWS
from derive.proof.identities import identities
from derive.proof.prover import Identity, prove
from derive.proof.verdict import settle
from tests.derive.both_sides import sides
from tests.families import ATTENTION

i, j = Axis("i", "n"), Axis("j", "m")


@cache
def catalogue(name: str) -> dict[str, Identity]:
    """The identities of a program by name."""
    return {identity.name: identity for identity in identities(program(name))}


WITH = tuple(
    name
    for name in names()
    if name
    in {
        *ATTENTION,
        "window_attention",
        "prefix_attention",
        "document_attention",
        "longformer_attention",
        "alternating_attention",
        "dilated_attention",
        "block_sparse_attention",
        "reformer_attention",
        "linformer_attention",
        "softcap_attention",
        "learned_scale_attention",
        "temperature_attention",
        "attention_head",
        "multi_head",
        "cross_attention",
        "grouped_query",
        "multi_query",
        "rope_attention",
        "rope_interleaved_attention",
        "rotary_embedding",
        "rotary_embedding_interleaved",
        "alibi_attention",
        "relative_bias_attention",
        "dual_chunk_attention",
        "layer_norm",
        "rms_norm",
        "cross_entropy",
        "prefill",
        "decode_step",
    }
)
"""The programs that the catalogue speaks of."""


@pytest.mark.parametrize("name", WITH)
def test_every_statement_is_as_stated_in_every_program(name: str) -> None:
    assert catalogue(name)
    assert len(catalogue(name)) == len(identities(program(name)))
    for identity in catalogue(name).values():
        verdict = settle(identity)
        assert verdict.as_stated, (identity.name, verdict.reason)
        assert verdict.word == ("proved" if identity.holds else "refuted")
        assert identity.statement
        assert identity.relied_on
        assert identity.topic


def test_other_programs_have_none() -> None:
    for name in set(names()) - set(WITH):
        assert catalogue(name) == {}, name
    b = Builder("other", "")
    X = b.input("X", i)
    b.define("Y", (i,), X[i] ** 2)
    assert identities(b.output("Y").build()) == ()


@pytest.mark.parametrize("name", COMMITTED)
def test_modes_have_none_that_are_not_as_stated(name: str) -> None:
    assert all(settle(identity).as_stated for identity in identities(in_mode(name)))


def test_every_definition_of_the_derivation_is_compared_in_both_conventions() -> None:
    derived = {d.name for d in backward(program("attention")).derived.definitions}
    assert {f"{name} in columns is {name} in rows" for name in derived} <= set(catalogue("attention"))


EXPECTED = {
    "attention": (
        "softmax Jacobian",
        "the softmax Jacobian is symmetric",
        "the softmax Jacobian annihilates constants",
        "the softmax Jacobian is a weighted variance",
        "shift invariance",
        "the gradient of temperature",
        "the gradient of logsumexp is softmax",
        "what one score moves",
        "a value against the others",
        "routing is strongest at one half",
        "routing gradient",
        "score gradients sum to zero",
        "outputs move by the Jacobian",
        "outputs are averages of values",
        "equal values give no routing gradient",
        "two keys",
        "centred keys",
        "query gradients are a covariance",
        "key gradients of one query sum to zero",
        "centred queries leave the sum of key gradients",
        "queries must not be centred in key gradients",
        "query gradients lie in the span of key differences",
        "dQ in columns is dQ in rows",
        "dK in columns is dK in rows",
        "dV in columns is dV in rows",
        "scores do not depend on the basis",
        "query gradients turn with the keys",
        "variance of a score",
        "row sums from outputs",
        "score gradients from D and the cotangent of L",
        "weights come back from L",
        "merging partial results is associative",
        "merging partial results is commutative",
        "an empty partial result changes nothing",
        "two merged blocks are the whole",
        "tiled attention is attention",
        "the order of tiles does not matter",
        "hidden scores contribute nothing",
        "hidden values contribute nothing",
    ),
    "attention_head": (
        "the gradient of states has four branches",
        "score gradients in matrix form",
        "dH without an output map",
        "scores compare states by a map of rank d",
        "a head writes by a map of rank d_v",
    ),
    "multi_head": ("the sum of heads is one map of their concatenation",),
    "grouped_query": ("dK is the sum over the group", "dV is the sum over the group"),
    "rope_attention": ("scores depend on distances alone",),
    "rotary_embedding": (
        "rotations keep lengths",
        "a rotation's transpose is its inverse",
        "going back turns the other way",
    ),
    "layer_norm": (
        "state gradients of layer norm are centred",
        "layer norm does not notice length",
        "state gradients of layer norm are orthogonal to what was normalised",
        "layer norm does not notice a shift",
    ),
    "rms_norm": ("state gradients of RMS norm are orthogonal to the states", "RMS norm does not notice length"),
    "cross_entropy": ("logit gradients are probabilities less the target", "logit gradients are centred"),
    "prefill": ("outputs with a cache are those of the full causal pass",),
    "decode_step": ("outputs with a cache are those of the full causal pass",),
}
"""What people rely on, and the program in which it is stated."""


@pytest.mark.parametrize("name", EXPECTED)
def test_the_catalogue_is_complete(name: str) -> None:
    assert set(EXPECTED[name]) <= set(catalogue(name))


NUMBERS = [
    (name, statement)
    for name in ATTENTION
    for statement, x in catalogue(name).items()
    if x.refutable and x.holds and x.definitions and statement not in ("two keys", "the gradient of temperature")
]
"""The identities at the program's own tensors and sizes whose premises hold at random points; others: test_refuter."""


@pytest.mark.parametrize(("name", "statement"), NUMBERS)
def test_every_identity_holds_in_numbers(name: str, statement: str) -> None:
    """Both sides agree in thirty digits where the premises hold: the prover is not the only judge."""
    identity = catalogue(name)[statement]
    tau = {s: sp.Rational(5, 3) for s in (identity.left - identity.right).free_symbols if s.name in ("tau", "alpha")}
    left, right = sides(replace(identity, left=identity.left.subs(tau), right=identity.right.subs(tau)), program(name))
    assert all(abs(x - y) < 1e-20 * (1 + abs(x)) for x, y in zip(left, right, strict=True))
    assert any(abs(x) > 1e-3 for x in left) or identity.right == 0 or "hidden" in statement


@pytest.mark.parametrize("name", ATTENTION)
def test_the_softmax_lemmas_are_proved_from_the_primitive_form_alone(name: str) -> None:
    lemmas = ("softmax rows sum to one", "softmax Jacobian", "shift invariance", "stabilised softmax")
    assert all(catalogue(name)[lemma].axioms == () for lemma in lemmas)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("statement", ["row sums from outputs", "scale balance"])
def test_identities_without_premises_need_no_row_sums(name: str, statement: str) -> None:
    """They hold for any weights A, normalised or not."""
    identity = catalogue(name)[statement]
    assert identity.premises == ()
    assert prove(replace(identity, axioms=())).status == "proved"


@pytest.mark.parametrize("name", WITH)
def test_no_proof_goes_through_without_its_axioms_or_definitions(name: str) -> None:
    """An axiom or definition that is listed is needed, or at least not all of them are idle."""
    for identity in catalogue(name).values():
        if identity.axioms:
            assert prove(replace(identity, axioms=(), refutable=False)).status == "open", identity.name
        if identity.unfold and identity.holds:
            assert prove(replace(identity, unfold=(), refutable=False)).status == "open", identity.name


@pytest.mark.parametrize("name", WITH)
def test_no_opposite_is_proved(name: str) -> None:
    for identity in catalogue(name).values():
        for wrong in (2 * identity.right + 1, identity.right + identity.left + 1):
            assert prove(replace(identity, right=wrong, refutable=False)).status == "open", identity.name


def test_what_is_open_is_not_hidden_and_says_what_else_is_known() -> None:
    """Neither has a proof: one has a fingerprint beside it, of the other nothing is known."""
    x, y = Tensor("X", i)[i], Tensor("Y", j)[j]
    inside_a_sum = Identity("divisors in a sum", "", Total(1 / (1 + y), j) + Total(y / (1 + y), j), j.size)
    verdict = settle(inside_a_sum)
    assert (verdict.proof.status, verdict.word, verdict.as_stated) == ("open", "fingerprinted", True)
    false = Identity("an error of a sum", "", sp.erf(x + 1), sp.erf(x) + sp.erf(1), refutable=False)
    verdict = settle(false)
    assert (verdict.word, verdict.as_stated) == ("open", None)
    assert verdict.reason.startswith("open: the left side is erf(X[i] + 1), the right side erf")


def test_laws_hold_in_numbers() -> None:
    """Each law rewrites an example of its kind into something else that is equal at random points."""
    (x, y), c = sp.symbols("x y", real=True), sp.Symbol("c", positive=True)
    M = Tensor("M", i, j, values="boolean")[i, j]
    k = Axis("k", "p")
    examples = {
        "visibility": M * sp.exp(M * x + (1 - M) * y),
        "positions": Indicator(k <= k.size + i),
        "exponentials": sp.exp(x + y),
        "angles": sp.cos(x - 2 * y) + sp.sin(x + y),
        "roots": sp.sqrt(c**2 * x**2 + c**2),
    }
    assert set(examples) == {law.name for law in LAWS}
    for law in LAWS:
        example = examples[law.name]
        nodes = [n for n in sp.preorder_traversal(example) if isinstance(n, law.about)]
        rewritten = [(n, law.rule(n)) for n in nodes]
        assert any(new != old for old, new in rewritten), law.name
        for old, new in rewritten:
            for at in ({M: 0}, {M: 1}):
                numbers = at | {x: 0.3, y: -0.7, c: 1.7, k: 1, k.size: 3, i: 2}
                before, after = (
                    sp.N(e.replace(Indicator, lambda condition: sp.Piecewise((1, condition), (0, True))).subs(numbers))
                    for e in (old, new)
                )
                assert abs(before - after) < 1e-12, law.name


def test_positions_are_decided_only_where_they_are_known() -> None:
    rule = next(law.rule for law in LAWS if law.name == "positions")
    k, p = Axis("k", "p"), Axis("k", "p").size
    assert rule(Indicator(k <= p - 1)) == 1
    assert rule(Indicator(k < p)) == 1
    assert rule(Indicator(k >= p)) == 0
    assert rule(Indicator(k > p + i)) == 0
    assert rule(Indicator(p + j <= p + i)) == Indicator(j <= i)
    inside = rule(Delta(i + 1, k))
    assert inside == Delta(i + 1, k) * Indicator(i + 2 <= p), "a delta whose index lies outside is 0"
    for undecided in (Indicator(k <= p - 2), Indicator(i <= j), Indicator(k >= 1)):
        assert rule(undecided) not in (0, 1)
