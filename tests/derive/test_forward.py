"""Forward definitions: what the builder refuses, how programs are cut down, and how a softmax is recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sympy as sp

from derive.algebra import Axis, Entry, Indicator, Tensor, Total
from derive.errors import DefinitionError
from derive.forward import Builder, Program, names, program
from derive.forward.softmax import logsumexp, recognise, softmax
from derive.proof import interpret
from tests.families import ATTENTION

i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
S = Tensor("S", i, j)


def scores() -> Builder:
    """A builder with two inputs and their product."""
    p = Builder("scores", "Scores.")
    Q, K = p.input("Q", i, c), p.input("K", j, c)
    p.define("S", (i, j), Total(Q[i, c] * K[j, c], c))
    return p


# The builder.


def test_a_program_holds_its_parts_in_order() -> None:
    p = scores()
    scale = p.parameter("scale", sp.Integer(2), "a factor")
    p.define("T", (i,), scale * Total(S[i, j], j))
    built = p.output("T", "row sums").build(axis_meaning={"i": "queries"})
    assert [x.name for x in built.inputs] == ["Q", "K"]
    assert [x.name for x in built.definitions] == ["S", "T"]
    assert [(x.name, x.default) for x in built.parameters] == [("scale", 2)]
    assert [(x.name, x.meaning, x.axes) for x in built.outputs] == [("T", "row sums", (i,))]
    assert built.axis_meaning == {"i": "queries"}


def test_a_parameter_is_real_unless_an_integer_is_asked_for() -> None:
    """A temperature of 1 may become 1.5; an offset may not."""
    p = scores()
    assert p.parameter("offset", 0, integer=True).is_integer
    assert not p.parameter("temperature", 1).is_integer
    assert not p.parameter("scale", sp.Rational(1, 2)).is_integer


@pytest.mark.parametrize("name", ["lambda", "Q-1", "A b", "∇", "xp", "math", "visible_only", "1x", ""])
def test_a_name_must_be_usable_in_generated_code(name: str) -> None:
    """Keywords, spaces, and the names that generated code needs are refused."""
    with pytest.raises(DefinitionError, match="cannot name a variable"):
        scores().input(name, i)


def test_text_is_never_evaluated() -> None:
    """A definition is an expression; a string is refused, whatever it says."""
    with pytest.raises(DefinitionError, match="text is never evaluated"):
        scores().define("T", (i,), "__import__('os').getcwd()")


def test_a_softmax_runs_over_an_axis_of_its_score() -> None:
    with pytest.raises(DefinitionError, match=r"softmax over c: the score S\[i, j\] does not have that axis"):
        softmax(S[i, j], over=c)


REFUSED: dict[str, tuple[Callable[[Builder], object], str]] = {
    "input with one axis twice": (lambda p: p.input("X", i, i), r"scores: X: axis i is used twice"),
    "definition with one axis twice": (
        lambda p: p.define("T", (i, i), S[i, j]),
        r"scores: T: axis i is used twice",
    ),
    "axis that is a string": (lambda p: p.input("X", "i"), r"scores: X: 'i' is not an Axis"),
    "loose axis": (
        lambda p: p.define("T", (i,), S[i, j]),
        r"scores: T\[i\] mentions axis j, which is neither an axis of T nor summed over; add it to T, or sum with "
        r"Total\(…, j\)",
    ),
    "two loose axes": (lambda p: p.define("T", (), S[i, j]), r"mentions axis i, j"),
    "unknown tensor": (
        lambda p: p.define("T", (i, j), Tensor("A", i, j)[i, j]),
        r"scores: T mentions A\[i, j\], which no input or earlier definition gives",
    ),
    "tensor of the same name and another shape": (
        lambda p: p.define("T", (i, c), Tensor("S", i, c)[i, c]),
        r"T mentions S\[i, c\], which no input or earlier definition gives",
    ),
    "one letter for two sizes": (lambda p: p.input("X", Axis("i", "m")), r"scores: X.*i.*(n.*m|m.*n)"),
    "input of a taken name": (lambda p: p.input("Q", i), r"scores: Q is already there; every tensor is defined once"),
    "definition of a taken name": (
        lambda p: p.define("S", (i, j), S[i, j]),
        r"scores: S is already there; every tensor is defined once",
    ),
    "output that is an input": (lambda p: p.output("Q"), r"scores: output Q is not defined"),
    "output that nobody defined": (lambda p: p.output("O"), r"scores: output O is not defined"),
    "no output": (lambda p: p.build(), r"scores has no output; end with \.output\(name\)"),
    "parameter twice": (lambda p: (p.parameter("a", 1), p.parameter("a", 2)), r"scores: a is already there"),
    "parameter with a tensor's name": (lambda p: p.parameter("Q", 1), r"scores: Q is already there"),
    "tensor with a parameter's name": (lambda p: (p.parameter("a", 1), p.input("a", i)), r"scores: a is already there"),
    "output twice": (lambda p: p.output("S").output("S"), r"scores: .*S.*(twice|already)"),
    "symbol that nobody declared": (
        lambda p: p.define("T", (i, j), sp.Symbol("alpha", real=True) * S[i, j]),
        r"scores: T mentions alpha",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_the_builder_refuses_and_says_what_is_wrong(mistake: str) -> None:
    make, message = REFUSED[mistake]
    with pytest.raises(DefinitionError, match=message):
        make(scores())


def test_a_definition_may_not_mention_itself() -> None:
    p = Builder("loop", "")
    p.input("X", i)
    with pytest.raises(DefinitionError, match=r"T mentions T\[i\]"):
        p.define("T", (i,), Tensor("T", i)[i])


def test_a_definition_may_mention_positions_sizes_and_parameters() -> None:
    p = scores()
    offset = p.parameter("offset", 0)
    p.define("T", (i, j), Indicator(j <= i + offset) * S[i, j] / c.size)
    assert p.output("T").build().definition("T").value.has(Indicator)


# Cutting programs down.


@pytest.mark.parametrize("name", ATTENTION)
def test_the_plain_program_has_the_required_inputs_and_the_first_output(name: str) -> None:
    plain = program(name).plain()
    assert [x.name for x in plain.inputs] == ["Q", "K", "V"]
    assert [x.name for x in plain.outputs] == ["O"]
    assert plain.optional == {}
    assert "L" not in {d.name for d in plain.definitions}


def test_plain_attention_has_no_visibility_left() -> None:
    plain = program("attention").plain()
    assert [x.name for x in plain.definitions] == ["S", "A", "O"]
    assert recognise(plain.definition("A")) is not None
    assert not any(d.value.has(Indicator) for d in plain.definitions)


def test_plain_causal_attention_keeps_the_comparison_of_positions() -> None:
    plain = program("causal_attention").plain()
    assert plain.definition("M").value == Indicator(j <= i + plain.parameters[1].symbol)


def test_without_puts_the_neutral_value_in_place() -> None:
    without = program("attention").without("bias")
    assert [x.name for x in without.inputs] == ["Q", "K", "V", "mask"]
    assert not any(e.tensor.name == "bias" for d in without.definitions for e in d.value.atoms(Entry))
    assert without.definition("M").value == program("attention").input("mask").entry


@pytest.mark.parametrize("name", ATTENTION)
def test_an_optional_input_left_out_is_its_neutral_value_everywhere(name: str) -> None:
    inputs: dict[str, Any] = {"Q": [[1], [2]], "K": [[3], [1], [2]], "V": [[1], [5], [4]]}
    whole = program(name)
    given = {**inputs, "mask": [[1] * 3] * 2, "bias": [[0] * 3] * 2}
    shown = [interpret(whole, inputs), interpret(whole, given)]
    shown += [interpret(whole.without("mask"), inputs), interpret(whole.without("mask", "bias"), inputs)]
    for values in shown:
        assert (values["O"], values["L"]) == (shown[0]["O"], shown[0]["L"])


def test_required_and_unknown_inputs_cannot_be_left_out() -> None:
    with pytest.raises(DefinitionError, match=r"attention: input Q is not optional"):
        program("attention").without("Q")
    with pytest.raises(DefinitionError, match=r"attention has no input 'q'; it has Q, K, V, mask, bias"):
        program("attention").without("q")


def test_an_output_that_becomes_a_constant_is_still_an_output() -> None:
    """M is 1 everywhere without a mask; whoever asked for M gets it, or is told that it is gone."""
    p = Builder("visible", "")
    mask = p.input("mask", i, j, optional=1, values="boolean")
    X = p.input("X", i, j)
    M = p.define("M", (i, j), mask[i, j], values="boolean")
    p.define("Y", (i, j), M[i, j] * X[i, j])
    built = p.output("Y").output("M").build()
    try:
        without = built.without("mask")
    except DefinitionError as error:
        assert "M" in str(error)  # noqa: PT017 (either is right)
        return
    assert {o.name for o in without.outputs} <= {d.name for d in without.definitions}


def test_returning_keeps_what_an_output_needs_in_order() -> None:
    returned = program("attention").returning("L")
    assert [x.name for x in returned.outputs] == ["L"]
    assert [x.name for x in returned.definitions] == ["M", "S", "L"]
    both = program("attention").returning("L", "O")
    assert [x.name for x in both.outputs] == ["L", "O"]
    assert [x.name for x in both.definitions] == ["M", "S", "A", "O", "L"]


def test_returning_something_else_than_an_output_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"attention has no output 'A'; it has O, L"):
        program("attention").returning("A")


def test_cutting_leaves_the_program_itself_alone() -> None:
    whole = program("causal_attention")
    before = (whole.inputs, whole.definitions, whole.outputs)
    whole.plain()
    assert (whole.inputs, whole.definitions, whole.outputs) == before


def test_a_part_that_is_missing_is_named_with_what_there_is() -> None:
    with pytest.raises(DefinitionError, match=r"attention has no definition 'P'; it has M, S, A, O, L"):
        program("attention").definition("P")


# The softmax.


def defined(value: Callable[[Any, Any, Any], sp.Expr]) -> Program:
    """A program that defines A over i and j from scores X, weights W and a mask."""
    p = Builder("weights", "")
    X, W, mask = p.input("X", i, j), p.input("W", i, j), p.input("mask", i, j, values="boolean")
    p.define("A", (i, j), value(X[i, j], W[i, j], mask[i, j]))
    return p.output("A").build()


@pytest.mark.parametrize("over", [i, j], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_a_softmax_is_recognised_over_either_axis(over: Axis, masked: bool) -> None:
    definition = defined(lambda X, W, M: softmax(X, over, M if masked else 1)).definition("A")
    form = recognise(definition)
    assert form is not None
    assert form.over == over
    assert str(form.score) == "X[i, j]"
    assert str(form.visible) == ("mask[i, j]" if masked else "1")


def test_a_softmax_of_a_compound_score_is_recognised() -> None:
    form = recognise(defined(lambda X, W, M: softmax(2 * X + W, j)).definition("A"))
    assert form is not None
    assert str(form.score) == "W[i, j] + 2*X[i, j]"


NO_SOFTMAX: dict[str, Callable[[Any, Any, Any], sp.Expr]] = {
    "sum over both axes": lambda X, W, M: sp.exp(X) / Total(sp.exp(X), i, j),
    "another score below": lambda X, W, M: sp.exp(X) / Total(sp.exp(W), j),
    "mask missing below": lambda X, W, M: M * sp.exp(X) / Total(sp.exp(X), j),
    "mask missing above": lambda X, W, M: sp.exp(X) / Total(M * sp.exp(X), j),
    "twice the softmax": lambda X, W, M: 2 * softmax(X, j),
    "squared": lambda X, W, M: softmax(X, j) ** 2,
    "softmax and something": lambda X, W, M: softmax(X, j) + W,
    "no division": lambda X, W, M: sp.exp(X),
    "no exponential": lambda X, W, M: X / Total(X, j),
    "logsumexp": lambda X, W, M: X - logsumexp(X, j),
    "weighted by a real tensor": lambda X, W, M: W * sp.exp(X) / Total(W * sp.exp(X), j),
    "one more below": lambda X, W, M: sp.exp(X) / (1 + Total(sp.exp(X), j)),
}


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_what_is_not_a_softmax_is_not_recognised(name: str) -> None:
    assert recognise(defined(NO_SOFTMAX[name]).definition("A")) is None


def test_logsumexp_is_the_logarithm_of_the_denominator() -> None:
    X = defined(lambda X, W, M: softmax(X, j)).input("X").entry
    assert sp.exp(logsumexp(X, j)) == sp.exp(X) / softmax(X, j)


# The catalogue.


def test_the_catalogue_lists_its_programs_and_gives_each_by_name() -> None:
    assert names() == tuple(program(name).name for name in names())
    assert {"attention", "causal_attention"} <= set(names())


def test_an_unknown_program_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(DefinitionError, match=r"there is no program 'flash'; there are attention, causal_attention"):
        program("flash")


@pytest.mark.parametrize("name", ATTENTION)
def test_every_part_of_every_program_says_what_it_is(name: str) -> None:
    whole = program(name)
    assert whole.summary.endswith(".")
    assert all(x.meaning for x in (*whole.inputs, *whole.parameters, *whole.outputs))
    letters = {a.name for x in (*whole.inputs, *whole.definitions) for a in x.axes}
    assert letters <= set(whole.axis_meaning)
