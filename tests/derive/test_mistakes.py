"""Mistakes: each changes the step that it names, gives other numbers, and breaks the identity that it says."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp

from derive.algebra import Tensor, free_axes
from derive.calculus import Derivation, backward
from derive.errors import DefinitionError, DerivationError
from derive.forward import program
from derive.forward.program import Definition, Program
from derive.mistakes import MISTAKES, Mistake, applies, apply, assumed_sizes, changed, mistake, mistakes_for, names
from derive.mistakes.changes import at, drop_factor, drop_term, instead, sum_over, swap_axes, times, together
from derive.proof import Weights, interpret
from derive.proof.identities import identities
from derive.proof.verdict import prove

SQUARE = {"n": 3, "m": 3, "d": 4, "d_v": 2}
DISTINCT = {"n": 3, "m": 4, "d": 5, "d_v": 2}


TOLD = names()[:3]
"""The mistakes that a page tells; the others: below, and in ``tests/numeric/test_mutate.py``."""


@pytest.fixture(params=["attention", "causal_attention"])
def derivation(request: pytest.FixtureRequest) -> Derivation:
    return backward(program(request.param).plain())


def numbers(derivation: Derivation, sizes: dict[str, int], seed: int = 1) -> dict[str, list]:
    """Every forward tensor and cotangent, in exact rationals with free weights for exp."""
    chance = random.Random(seed)
    shapes = {i.name: i.tensor.shape for i in derivation.forward.inputs}
    shapes["dO"] = derivation.derived.input("dO").tensor.shape

    def matrix(rows: int, columns: int) -> list[list[Any]]:
        return [
            [Weights().kind(chance.randint(-9, 9), chance.randint(1, 5)) for _ in range(columns)] for _ in range(rows)
        ]

    given = {name: matrix(*(sizes[str(s)] for s in shape)) for name, shape in shapes.items()}
    inputs = {i.name: given[i.name] for i in derivation.forward.inputs}
    return given | interpret(derivation.forward, inputs, parameters={"scale": Fraction(1, 3)}, arithmetic=Weights())


def run(wrong: Program, known: dict[str, list]) -> dict[str, list]:
    inputs = {i.name: known[i.name] for i in wrong.inputs}
    return interpret(wrong, inputs, parameters={"scale": Fraction(1, 3)}, arithmetic=Weights())


def sizes_for(wrong: Program) -> dict[str, int]:
    return SQUARE if assumed_sizes(wrong) else DISTINCT


@pytest.mark.parametrize("name", TOLD)
def test_each_changes_the_step_that_it_names_and_no_other(name: str, derivation: Derivation) -> None:
    assert changed(derivation.derived, apply(mistake(name), derivation)) == (mistake(name).breaks,)


@pytest.mark.parametrize("name", TOLD)
def test_each_gives_other_numbers(name: str, derivation: Derivation) -> None:
    wrong = apply(mistake(name), derivation)
    known = numbers(derivation, sizes_for(wrong))
    right_numbers, wrong_numbers = run(derivation.derived, known), run(wrong, known)
    assert wrong_numbers[mistake(name).breaks] != right_numbers[mistake(name).breaks]


@pytest.mark.parametrize("name", TOLD)
def test_each_breaks_the_identity_that_it_says_and_the_right_program_keeps_it(
    name: str, derivation: Derivation
) -> None:
    identity = next(i for i in identities(derivation.forward) if i.name == mistake(name).violates)
    wrong = apply(mistake(name), derivation)
    known = numbers(derivation, sizes_for(wrong))
    axes = tuple(sorted(free_axes(identity.left - identity.right), key=str))
    target = Tensor("difference", *axes)[axes]
    for one, holds in ((derivation.derived, True), (wrong, False)):
        extended = Program(
            "with_identity", "", one.inputs, one.parameters,
            (*one.definitions, Definition(target, identity.left - identity.right)), (),
        )  # fmt: skip
        difference = run(extended, known)["difference"]
        flat = [x for one in difference for x in (one if isinstance(one, list) else [one])]
        assert all(x == 0 for x in flat) == holds


@pytest.mark.parametrize("one", [m for m in MISTAKES if m.violates], ids=lambda m: m.name)
def test_the_identity_that_a_mistake_violates_is_proved_without_it_and_refuted_with_it(one: Mistake) -> None:
    """The same statement about the wrong definitions; where a mistake confuses two sizes, it is not even defined."""
    source = program(one.program)
    identity = next(i for i in identities(source) if i.name == one.violates)
    assert prove(identity).status == "proved"
    wrong = one.change(replace(source, definitions=identity.definitions))
    if assumed_sizes(wrong):
        return
    unfolded = {d.name for d in identity.unfold}
    about_wrong = replace(
        identity, definitions=wrong.definitions, unfold=tuple(d for d in wrong.definitions if d.name in unfolded)
    )
    outcome = prove(replace(about_wrong, all_visible=one.name != "mask_leak"))
    assert outcome.status == "refuted", outcome.remainders


def test_the_untransposed_product_takes_as_many_queries_as_keys(derivation: Derivation) -> None:
    assert assumed_sizes(derivation.derived) == ()
    pairs = assumed_sizes(apply(mistake("values_untransposed"), derivation))
    assert [tuple(map(str, pair)) for pair in pairs] == [("n", "m")]
    for name in ("one_softmax_for_all_queries", "scale_lost_in_queries"):
        assert assumed_sizes(apply(mistake(name), derivation)) == ()


def test_values_untransposed_is_a_times_g() -> None:
    derivation = backward(program("attention").plain())
    wrong = apply(mistake("values_untransposed"), derivation)
    known = numbers(derivation, SQUARE)
    A, G = known["A"], known["dO"]
    assert run(wrong, known)["dV"] == [[sum(A[i][k] * G[k][v] for k in range(3)) for v in range(2)] for i in range(3)]


def test_one_softmax_subtracts_the_total_of_all_averages() -> None:
    derivation = backward(program("attention").plain())
    known = numbers(derivation, DISTINCT)
    right = run(derivation.derived, known)
    wrong = run(apply(mistake("one_softmax_for_all_queries"), derivation), known)
    total = sum(right["r"])
    assert wrong["r"] == right["r"]
    assert wrong["dS"] == [
        [a * (g - total) for a, g in zip(*rows, strict=True)] for rows in zip(known["A"], right["dA"], strict=True)
    ]


def test_a_lost_scale_leaves_the_direction() -> None:
    derivation = backward(program("attention").plain())
    known = numbers(derivation, DISTINCT)
    right, wrong = run(derivation.derived, known), run(apply(mistake("scale_lost_in_queries"), derivation), known)
    assert wrong["dQ"] == [[3 * x for x in row] for row in right["dQ"]]
    assert wrong["dK"] == right["dK"]


@pytest.mark.parametrize("one", MISTAKES, ids=lambda m: m.name)
def test_sentences_hold_in_every_convention(one: Mistake) -> None:
    for sentence in (one.belief, one.why):
        assert not re.search(r"\b(row|column)s?\b", sentence)
        assert sentence.endswith((".", "!", "?"))
    assert re.fullmatch(r"[a-z_]+", one.name)


def test_names_are_distinct_and_an_unknown_one_lists_the_known() -> None:
    assert len(set(names())) == len(MISTAKES) >= 3
    with pytest.raises(DefinitionError, match=r"no mistake 'swap'.*values_untransposed"):
        mistake("swap")


def test_mistakes_that_do_not_fit_are_left_out_and_refused(derivation: Derivation) -> None:
    assert set(mistakes_for(derivation)) == {m for m in MISTAKES if applies(m, derivation)}
    idle = Mistake("idle", "", "dV", "", "", at("dV", drop_factor("scale")))
    assert not applies(idle, derivation)
    with pytest.raises(DerivationError, match="idle leaves dV"):
        apply(idle, derivation)
    elsewhere = Mistake("elsewhere", "", "dX", "", "", at("dX", times(2)))
    assert not applies(elsewhere, derivation)
    with pytest.raises(DefinitionError, match="no definition 'dX'"):
        apply(elsewhere, derivation)


def test_a_new_mistake_is_a_few_lines(derivation: Derivation) -> None:
    lost_average = Mistake(
        name="average_lost",
        title="The average forgotten",
        breaks="dS",
        belief="The derivative of a softmax is the softmax.",
        why="The weights of a query share one denominator, which moves with every score.",
        change=at("dS", drop_term("r")),
        violates="score gradients sum to zero",
    )
    known = numbers(derivation, DISTINCT)
    right, wrong = run(derivation.derived, known), run(apply(lost_average, derivation), known)
    assert wrong["dS"] == [
        [a * g for a, g in zip(*rows, strict=True)] for rows in zip(known["A"], right["dA"], strict=True)
    ]


def value(transformation, name: str = "dV") -> sp.Expr:  # type: ignore[no-untyped-def]
    return transformation(backward(program("attention").plain()).derived).definition(name).value


def test_changes_work_on_the_terms_of_a_definition() -> None:
    right = backward(program("attention").plain()).derived
    assert value(at("dV", swap_axes("A"), swap_axes("A"))) == right.definition("dV").value
    assert value(at("dQ", times(-1)), "dQ") == -right.definition("dQ").value
    assert str(value(at("dK", drop_factor("Q"), drop_factor("scale")), "dK")) == "Total(dS[_1, j], _1)"
    assert str(value(at("r", sum_over("A", "i")), "r")) == "Total(A[_2, _1]*dA[i, _1], _1, _2)"
    assert str(value(at("dS", drop_term("r")), "dS")) == "A[i, j]*dA[i, j]"
    assert value(at("r", sum_over("A", "x")), "r") == right.definition("r").value


def test_a_mistake_may_break_several_steps_and_read_other_tensors(derivation: Derivation) -> None:
    both = Mistake(
        "scale_lost", "", "dQ", "", "", together(at("dQ", drop_factor("scale")), at("dK", drop_factor("scale")))
    )
    assert changed(derivation.derived, apply(both, derivation)) == ("dQ", "dK")
    scores = Mistake("scores_for_weights", "", "dV", "", "", at("dV", instead("A", "S")))
    wrong = apply(scores, derivation)
    assert {i.name for i in wrong.inputs} - {i.name for i in derivation.derived.inputs} == {"S"}
    known = numbers(derivation, DISTINCT)
    assert run(wrong, known)["dV"] != run(derivation.derived, known)["dV"]
    nowhere = Mistake("nowhere", "", "dV", "", "", at("dV", instead("A", "Z")))
    with pytest.raises(DerivationError, match="nowhere: it reads Z"):
        apply(nowhere, derivation)


def test_the_right_program_is_untouched(derivation: Derivation) -> None:
    before = derivation.derived.definitions
    for one in mistakes_for(derivation):
        apply(one, derivation)
    assert derivation.derived.definitions == before == backward(derivation.forward).derived.definitions


def test_mistakes_load_no_arrays() -> None:
    code = "import sys, derive.mistakes; print({m.split('.')[0] for m in sys.modules} & {'numpy', 'numeric', 'cupy'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
