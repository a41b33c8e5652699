"""The catalogue of identities: complete, as stated in every program, in numbers too, and never without its premises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total
from derive.calculus import backward
from derive.forward import Builder, names, program
from derive.modes import COMMITTED
from derive.modes import program as in_mode
from derive.proof.identities import identities
from derive.proof.statements import Claim, Identity, as_data, equation, spelled
from derive.proof.verdict import prove, settle
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
        for claim in as_data(identity)["claims"]:
            assert claim["left"] != claim["right"], (identity.name, "nothing is left to prove")
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
        "softmax rows sum to one",
        "weighted variances are not negative",
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
    (name, statement, number)
    for name in ATTENTION
    for statement, x in catalogue(name).items()
    for number in range(len(x.claims))
    if x.refutable and x.holds and x.definitions and statement not in ("two keys", "the gradient of temperature")
]
"""The claims at the program's own tensors and sizes whose premises hold at random points; others: test_refuter."""


@pytest.mark.parametrize(("name", "statement", "number"), NUMBERS)
def test_every_identity_holds_in_numbers(name: str, statement: str, number: int) -> None:
    """Both sides agree in thirty digits where the premises hold: the prover is not the only judge."""
    identity = catalogue(name)[statement]
    claim = identity.claims[number]
    entries = [e.subs(_positive(e)) for e in (claim.left, claim.right)]
    left, right = sides(Claim(*entries), identity, program(name))
    if claim.witness is not None:
        assert all(x >= y for x, y in zip(left, right, strict=True))
        return
    assert all(abs(x - y) < 1e-20 * (1 + abs(x)) for x, y in zip(left, right, strict=True))
    assert any(abs(x) > 1e-3 for x in left) or claim.right == 0 or "hidden" in statement


def _positive(expr: sp.Expr) -> dict[sp.Symbol, sp.Rational]:
    return {s: sp.Rational(5, 3) for s in expr.free_symbols if s.name in ("tau", "τ", "alpha", "α")}


@pytest.mark.parametrize("name", ATTENTION)
def test_the_softmax_lemmas_are_proved_from_the_primitive_form_alone(name: str) -> None:
    """All that they assume is that a row's denominator is not 0: never what they say."""
    lemmas = ("softmax rows sum to one", "softmax Jacobian", "shift invariance", "stabilised softmax")
    for lemma in lemmas:
        assert [p.says for p in catalogue(name)[lemma].premises] in ([], ["not 0"])


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("statement", ["row sums from outputs", "scale balance"])
def test_identities_without_premises_need_no_row_sums(name: str, statement: str) -> None:
    """They hold for any weights A, normalised or not."""
    assert catalogue(name)[statement].premises == ()


@pytest.mark.parametrize("name", WITH)
def test_proofs_use_every_premise_and_do_not_go_through_without(name: str) -> None:
    """But for what is declared of integer inputs, which is listed wherever they are mentioned."""
    for identity in catalogue(name).values():
        if identity.holds:
            used = {use["premise"] for use in _uses(prove(identity).data["claims"])}
            assert used >= set(range(len(identity.premises))), identity.name
            if identity.premises:
                assert prove(replace(identity, premises=(), refutable=False)).status == "open", identity.name
            if identity.unfold:
                assert prove(replace(identity, unfold=(), refutable=False)).status == "open", identity.name


def _uses(data: Any) -> Iterator[dict[str, Any]]:
    """Where a proof uses a premise."""
    if isinstance(data, dict):
        if "premise" in data:
            yield data
        data = list(data.values())
    for part in data if isinstance(data, list) else ():
        yield from _uses(part)


@pytest.mark.parametrize("name", WITH)
def test_no_opposite_is_proved(name: str) -> None:
    for identity in catalogue(name).values():
        for number, claim in enumerate(identity.claims):
            for wrong in (2 * claim.right + 1, claim.right + claim.left + 1):
                claims = list(identity.claims)
                claims[number] = replace(claim, right=wrong)
                changed = replace(identity, claims=tuple(claims), refutable=False)
                assert prove(changed).status == "open", identity.name


def test_what_is_open_is_not_hidden_and_says_what_else_is_known() -> None:
    """Neither has a proof: one has a fingerprint beside it, of the other nothing is known."""
    x, y = Tensor("X", i)[i], Tensor("Y", j)[j]
    inside_a_sum = equation("divisors in a sum", Total(1 / (1 + y), j) + Total(y / (1 + y), j), j.size)
    verdict = settle(inside_a_sum)
    assert (verdict.proof.status, verdict.word, verdict.as_stated) == ("open", "fingerprinted", True)
    false = equation("an error of a sum", sp.erf(x + 1), sp.erf(x) + sp.erf(1), refutable=False)
    verdict = settle(false)
    assert (verdict.word, verdict.as_stated) == ("open", None)
    assert verdict.reason == "open: erf(X[i] + 1) − erf(X[i]) − erf(1) is left"


@pytest.mark.parametrize("name", WITH)
def test_statements_print_what_they_say_and_mention_nothing_that_is_not_explained(name: str) -> None:
    """The text is made of the terms; what it mentions is of the program, defined beside it, or free to choose."""
    source = program(name)
    of_program = {d.name for d in source.definitions} | {x.name for x in source.inputs}
    of_program |= {d.name for d in backward(source).derived.definitions} | {
        x.name for x in backward(source).derived.inputs
    }
    for identity in catalogue(name).values():
        explained = of_program | {d.name for d in identity.unfold} | {d.name for d in identity.definitions}
        for claim in identity.claims:
            mentioned = {str(e.tensor.name) for s in (claim.left, claim.right) for e in s.atoms(Entry)}
            assert all(entry in explained or entry in identity.statement for entry in mentioned)
        assert "Slope" not in identity.statement
        assert "Total" not in identity.statement
        assert spelled(identity.left, identity.known) is not None
