"""The exact interpreter: literal values, what it refuses, hidden entries, and kinds of numbers that agree."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.algebra import Axis, Delta, Indicator, Maximum, Tensor, Total, Visible
from derive.errors import AlgebraError
from derive.forward import Builder, Program, program
from derive.proof import Decimals, Duals, RunningErrors, Symbolic, Weights, interpret
from derive.proof.fingerprint import FiniteField
from derive.proof.rationals import read
from tests.derive.test_algebra import FREE, SHAPES, SIZES, Expressions, random_inputs

i, k = Axis("i", "n"), Axis("k", "n")
j, c = Axis("j", "m"), Axis("c", "d")
e = sp.E


def one(value: Any, axes: tuple[Axis, ...], **inputs: tuple[Axis, ...]) -> Program:
    """The program Y := value of the given input tensors."""
    b = Builder("one", "")
    for name, own in inputs.items():
        b.input(name, *own)
    b.define("Y", axes, value)
    return b.output("Y").build()


def _kind(arithmetic: Any) -> str:
    return type(arithmetic).__name__


X, Z = Tensor("X", i, j), Tensor("Z", i)


# Literal values.


def test_the_softmax_of_one_and_zero() -> None:
    """Two keys with scores 1 and 0, values 1 and 0: e/(1+e), and log(1+e)."""
    values = interpret(program("attention"), {"Q": [[1]], "K": [[1], [0]], "V": [[1], [0]]})
    assert values["S"] == [[1, 0]]
    assert values["A"] == [[e / (1 + e), 1 / (1 + e)]]
    assert values["O"] == [[e / (1 + e)]]
    assert values["L"] == [sp.log(1 + e)]


def test_equal_scores_average_the_values() -> None:
    values = interpret(program("attention"), {"Q": [[0, 0]], "K": [[1, 2], [3, 4], [5, 6]], "V": [[1], [2], [6]]})
    assert values["A"] == [[sp.Rational(1, 3)] * 3]
    assert values["O"] == [[3]]
    assert values["L"] == [sp.log(3)]


def test_the_default_scale_is_one_over_the_root_of_the_width() -> None:
    inputs = {"Q": [[1, 1, 1, 1]], "K": [[1, 2, 3, 4]], "V": [[1]]}
    assert interpret(program("attention"), inputs)["S"] == [[5]]
    assert interpret(program("attention"), inputs, parameters={"scale": 1})["S"] == [[10]]
    assert interpret(program("attention"), inputs, parameters={"scale": Fraction(1, 5)})["S"] == [[2]]
    odd = {"Q": [[1, 1]], "K": [[1, 2]], "V": [[1]]}
    assert interpret(program("attention"), odd)["S"] == [[3 / sp.sqrt(2)]]


@pytest.mark.parametrize(("offset", "seen"), [(0, [[1, 0, 0], [1, 1, 0]]), (1, [[1, 1, 0], [1, 1, 1]])])
def test_causal_visibility(offset: int, seen: list[list[int]]) -> None:
    """Key j is visible to query i where j ≤ i + offset; top-left unless an offset is given."""
    inputs = {"Q": [[0], [0]], "K": [[0]] * 3, "V": [[0]] * 3}
    assert interpret(program("causal_attention"), inputs, parameters={"offset": offset})["M"] == seen
    if offset == 0:
        assert interpret(program("causal_attention"), inputs)["M"] == seen


def test_a_row_that_sees_nothing_is_zero_with_logsumexp_minus_infinity() -> None:
    values = interpret(
        program("attention"), {"Q": [[1], [1]], "K": [[1], [2]], "V": [[3], [4]], "mask": [[0, 0], [1, 0]]}
    )
    assert values["A"] == [[0, 0], [1, 0]]
    assert values["O"] == [[0], [3]]
    assert values["L"] == [-sp.oo, 1]


def test_sums_deltas_indicators_maxima_and_positions() -> None:
    given: dict[str, Any] = {"X": [[1, 5], [7, 3]], "Z": [2, 10]}
    shapes = {"X": (i, j), "Z": (i,)}
    expected: list[tuple[Any, Any]] = [
        (Total(X[i, j], j), [6, 10]),
        (Total(X[i, j], i, j) + 0 * Z[i], [16, 16]),
        (Total(Delta(i, k) * Z[k], k), [2, 10]),
        (Total(Delta(i, k) * Z[k] ** 2, k) + Delta(i, i), [5, 101]),
        (Total(Indicator(k < i) * Z[k], k), [0, 2]),
        (Total(Indicator(Z[k] > 3), k) * Z[i], [2, 10]),
        (Maximum(X[i, j], j), [5, 7]),
        (Maximum(Visible(Indicator(j > 0), X[i, j]), j), [5, 3]),
        (Maximum(Visible(Indicator(j > 9), X[i, j]), j), [0, 0]),
        (i * Z[i] + j.size, [2, 12]),
        (Total(Z[i], j), [4, 20]),
        (Z[i] ** -2, [sp.Rational(1, 4), sp.Rational(1, 100)]),
        (sp.sqrt(Z[i]) * sp.tanh(Z[i]), [sp.sqrt(2) * sp.tanh(2), sp.sqrt(10) * sp.tanh(10)]),
    ]
    for value, result in expected:
        assert interpret(one(value, (i,), **shapes), given)["Y"] == result, value


def test_a_scalar_and_an_entry_at_a_fixed_position() -> None:
    given: dict[str, Any] = {"X": [[1, 5], [7, 3]]}
    assert interpret(one(Total(X[i, j], i, j), (), X=(i, j)), given)["Y"] == 16
    assert interpret(one(X[i, 1], (i,), X=(i, j)), given)["Y"] == [5, 3]
    assert interpret(one(Delta(i, 1) * X[i, 0], (i,), X=(i, j)), given)["Y"] == [0, 7]


def test_all_definitions_are_returned_in_order() -> None:
    values = interpret(program("attention"), {"Q": [[1]], "K": [[1]], "V": [[1]]})
    assert list(values) == ["M", "S", "A", "O", "L"]


@pytest.mark.parametrize("number", [Fraction(1, 2), "1/2", "0.5", sp.Rational(1, 2)])
def test_exact_numbers_are_taken_in_every_form(number: Any) -> None:
    assert interpret(one(2 * Z[i], (i,), Z=(i,)), {"Z": [number]})["Y"] == [1]


@pytest.mark.parametrize(
    "arithmetic", [Symbolic(), Weights(), Decimals(), FiniteField()], ids=lambda a: type(a).__name__
)
def test_a_mask_may_be_true_and_false(arithmetic: Any) -> None:
    """The input's own words: True where key j is visible to query i."""
    inputs = {"Q": [[1]], "K": [[1], [2]], "V": [[3], [5]], "mask": [[True, False]]}
    values = interpret(program("attention"), inputs, parameters={"scale": 1}, arithmetic=arithmetic)
    assert values["O"] == [[arithmetic.number(3)]]


# Hidden entries.


HIDDEN = {
    "infinite score": {"bias": [[0, sp.oo]]},
    "undefined score": {"bias": [[0, sp.nan]]},
    "minus infinity": {"bias": [[0, -sp.oo]]},
    "undefined key": {"K": [[1], [sp.nan]]},
    "infinite key": {"K": [[1], [sp.oo]]},
    "undefined value": {"V": [[3], [sp.nan]]},
    "infinite value": {"V": [[3], [sp.oo]]},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_hidden_entry_holds_does_not_matter(name: str) -> None:
    """Hidden by the mask: weight exactly 0, whatever stands there."""
    inputs = {"Q": [[1]], "K": [[1], [2]], "V": [[3], [5]], "mask": [[1, 0]], **HIDDEN[name]}
    values = interpret(program("attention"), inputs)
    assert values["A"] == [[1, 0]]
    assert values["O"] == [[3]]
    assert values["L"] == [1]


def test_a_bias_of_minus_infinity_hides() -> None:
    inputs = {"Q": [[1], [1]], "K": [[1], [2]], "V": [[3], [5]], "bias": [[0, -sp.oo], [-sp.oo, -sp.oo]]}
    values = interpret(program("attention"), inputs)
    assert values["M"] == [[1, 0], [0, 0]]
    assert values["O"] == [[3], [0]]
    assert values["L"] == [1, -sp.oo]


def test_only_zero_one_factors_hide() -> None:
    """An ordinary 0 does not: 0 · ∞ is undefined, and shows."""
    (value,) = interpret(one(Z[i] * Total(X[i, j], j), (i,), X=(i, j), Z=(i,)), {"X": [[sp.oo]], "Z": [0]})["Y"]
    assert value is sp.nan


# Sizes.


def test_no_keys_at_all_is_a_row_that_sees_nothing() -> None:
    values = interpret(program("attention"), {"Q": [[1]], "K": [], "V": []}, sizes={"d_v": 2})
    assert values["A"] == [[]]
    assert values["O"] == [[0, 0]]
    assert values["L"] == [-sp.oo]


def test_no_queries_and_no_coordinates() -> None:
    assert interpret(program("attention"), {"Q": [], "K": [[1]], "V": [[1]]})["O"] == []
    values = interpret(program("attention"), {"Q": [[]], "K": [[], []], "V": [[1], [3]]})
    assert values["S"] == [[0, 0]]
    assert values["O"] == [[2]]


def test_a_size_that_an_empty_list_hides_is_asked_for() -> None:
    with pytest.raises(AlgebraError, match=r"attention: size d_v cannot be read off the inputs; give it in sizes="):
        interpret(program("attention"), {"Q": [[1]], "K": [], "V": []})


def test_given_sizes_must_agree_with_the_inputs() -> None:
    with pytest.raises(AlgebraError, match=r"attention: Q has 1 where n is 2"):
        interpret(program("attention"), {"Q": [[1]], "K": [[1]], "V": [[1]]}, sizes={"n": 2})


def test_an_axis_of_a_fixed_size_takes_no_other() -> None:
    t = Axis("t", 3)
    source = one(Total(Tensor("T", t)[t], t), (), T=(t,))
    assert interpret(source, {"T": [1, 2, 3]})["Y"] == 6
    with pytest.raises(AlgebraError, match="3"):
        interpret(source, {"T": [1, 2]})


# What is refused.


def test_symbolic_refuses_floats() -> None:
    with pytest.raises(AlgebraError, match=r"0\.5 is a float; the exact interpreter takes integers, fractions"):
        interpret(one(Z[i], (i,), Z=(i,)), {"Z": [0.5]})


SHAPES_REFUSED: dict[str, Any] = {
    "keys of another width": {"K": [[1, 2, 3], [1, 2, 3]]},
    "values of another number": {"V": [[1]]},
    "flat": {"K": [1, 2]},
    "a number": {"K": 1},
    "a short row": {"K": [[1, 2], [3]]},
    "a long row": {"K": [[1, 2], [3, 4, 5]]},
    "a row of rows": {"K": [[[1], [2]], [[3], [4]]]},
    "text": {"K": ["12", "34"]},
}


@pytest.mark.parametrize("name", SHAPES_REFUSED)
def test_wrong_shapes_are_refused_with_the_inputs_name(name: str) -> None:
    inputs = {"Q": [[1, 2]], "K": [[1, 2], [3, 4]], "V": [[1], [2]], **SHAPES_REFUSED[name]}
    (changed,) = SHAPES_REFUSED[name]
    with pytest.raises(AlgebraError, match=rf"attention: .*\b{changed}\b"):
        interpret(program("attention"), inputs)


def test_missing_and_unknown_inputs_and_parameters_are_named() -> None:
    whole: dict[str, Any] = {"Q": [[1]], "K": [[1]], "V": [[1]]}
    with pytest.raises(AlgebraError, match=r"attention: input V is missing"):
        interpret(program("attention"), {"Q": [[1]], "K": [[1]]})
    with pytest.raises(AlgebraError, match=r"attention has no input W"):
        interpret(program("attention"), {**whole, "W": [[1]]})
    with pytest.raises(AlgebraError, match=r"attention has no parameter offset"):
        interpret(program("attention"), whole, parameters={"offset": 1})


def test_an_expression_outside_the_algebra_is_named() -> None:
    piecewise = sp.Piecewise((Z[i], Z[i] > 0), (0, True))
    with pytest.raises(AlgebraError, match=r"cannot evaluate .* in .*Z\[i\] > 0"):
        interpret(one(piecewise, (i,), Z=(i,)), {"Z": [1]})


@pytest.mark.parametrize("arithmetic", [Decimals(), Duals(Weights()), RunningErrors()], ids=_kind)
def test_a_function_that_an_arithmetic_does_not_know_is_named(arithmetic: Any) -> None:
    source = one(sp.Function("mystery")(Z[i]), (i,), Z=(i,))
    with pytest.raises(AlgebraError, match="mystery"):
        interpret(source, {"Z": [1]}, arithmetic=arithmetic)


# Kinds of numbers.


seeds = st.integers(0, 2**32 - 1)


def random_program(seed: int) -> Program:
    """One random definition over the shared random tensors."""
    b = Builder("random", "")
    for name, axes in SHAPES.items():
        b.input(name, *axes)
    b.input("mask", i, j, values="boolean")
    b.define("out", FREE, Expressions(seed).one(FREE, depth=2))
    return b.output("out").build()


def flat(nested: Any) -> list[Any]:
    return [x for part in nested for x in flat(part)] if isinstance(nested, list) else [nested]


@settings(max_examples=25)
@given(seed=seeds)
def test_decimals_are_symbolic_numbers_in_many_digits(seed: int) -> None:
    source, inputs = random_program(seed), random_inputs(seed)
    exact = flat(interpret(source, inputs, sizes=SIZES)["out"])
    rounded = flat(interpret(source, inputs, sizes=SIZES, arithmetic=Decimals(40))["out"])
    for x, y in zip(exact[:4], rounded[:4], strict=True):
        assert abs(mpmath.mpf(str(sp.N(x, 40))) - mpmath.mpf(str(y))) <= mpmath.mpf(10) ** -12 * (1 + abs(y))


@settings(max_examples=40)
@given(seed=seeds)
def test_rational_programs_have_the_same_values_in_every_arithmetic(seed: int) -> None:
    """Without functions nothing is unknown: weights, symbols and the field agree exactly."""
    source, inputs = random_program(seed), random_inputs(seed)
    if source.definitions[0].value.has(sp.exp):
        return
    exact = flat(interpret(source, inputs, sizes=SIZES)["out"])
    weights = flat(interpret(source, inputs, sizes=SIZES, arithmetic=Weights(seed))["out"])
    assert [sp.Rational(*read(x)) for x in weights] == exact
    field = FiniteField()
    residues = flat(interpret(source, inputs, sizes=SIZES, arithmetic=field)["out"])
    assert residues == [field.number(x) for x in exact]


def test_weights_are_functions_of_their_arguments() -> None:
    """Equal arguments, equal weights, in any order of asking; other functions, arguments and seeds, other weights."""
    one_way, other_way = Weights(3), Weights(3)
    arguments = [Fraction(a, b) for a in range(5) for b in range(1, 5)]
    found = {a: one_way.function(sp.exp, a) for a in arguments}
    assert {a: other_way.function(sp.exp, a) for a in reversed(arguments)} == found
    assert all(weight > 0 for weight in found.values())
    assert len(set(found.values())) > len(found) * 0.9
    assert one_way.function(sp.log, Fraction(1)) != found[Fraction(1)]
    assert Weights(4).function(sp.exp, Fraction(1)) != found[Fraction(1)]
    assert one_way.power(Fraction(2), sp.Rational(1, 2)) == other_way.power(Fraction(2), sp.Rational(1, 2))
    assert one_way.power(Fraction(2), sp.Integer(-3)) == Fraction(1, 8)


def test_dual_numbers_carry_the_derivative() -> None:
    """d/dt of exp, log, powers, products at literal points."""
    duals = Duals(Symbolic())
    t, three = duals.dual(2, 1), duals.number(3)
    assert (t * t * three).tangent == 12
    assert (t + three).tangent == 1
    assert duals.function(sp.exp, t).tangent == sp.exp(2)
    assert duals.function(sp.log, t).tangent == sp.Rational(1, 2)
    assert duals.power(t, sp.Integer(-1)).tangent == -sp.Rational(1, 4)
    assert duals.power(t, sp.Rational(1, 2)).tangent == 1 / (2 * sp.sqrt(2))
    assert duals.power(duals.dual(0, 1), sp.Integer(2)).tangent == 0


class Floats:
    """Double precision as Python computes it: what a running error bound is a bound for."""

    def number(self, value: Any) -> float:
        return float(value)

    def function(self, function: type[sp.Function], *args: float) -> float:
        return float(getattr(mpmath.fp, function.__name__)(*args))

    def power(self, base: float, exponent: sp.Rational) -> float:
        return base ** (int(exponent) if exponent.q == 1 else float(exponent))

    def compared(self, value: float) -> sp.Expr:
        return sp.Float(value)


def _dyadic(nested: Any) -> Any:
    """Inputs that double precision holds exactly, some of them negative."""
    if isinstance(nested, list):
        return [_dyadic(x) for x in nested]
    return Fraction(round(nested * 8) - 9, 8) if isinstance(nested, Fraction) else nested


@settings(max_examples=60)
@given(seed=seeds)
def test_running_errors_bound_the_error_of_double_precision(seed: int) -> None:
    """The value is right, and the bound holds, to first order, entry by entry."""
    source, inputs = random_program(seed), {n: _dyadic(a) for n, a in random_inputs(seed).items()}
    rounded = flat(interpret(source, inputs, sizes=SIZES, arithmetic=Floats())["out"])
    bounded = flat(interpret(source, inputs, sizes=SIZES, arithmetic=RunningErrors(40))["out"])
    exact = flat(interpret(source, inputs, sizes=SIZES, arithmetic=Decimals(40))["out"])
    unit = mpmath.mpf(2) ** -53
    for x, bound, value in zip(rounded, bounded, exact, strict=True):
        assert bound.value == value
        assert bound.error >= 0
        assert abs(mpmath.mpf(str(value)) - mpmath.mpf(x)) <= unit * mpmath.mpf(str(bound.error)) * 1.001


def test_running_errors_of_attention_bound_double_precision() -> None:
    inputs: dict[str, Any] = {
        "Q": [[Fraction(3, 2), -2], [Fraction(1, 4), 1]],
        "K": [[1, Fraction(-7, 8)], [Fraction(5, 4), 2], [-3, 1]],
        "V": [[1, -2, 3], [Fraction(1, 2), 4, -1], [8, Fraction(1, 8), 2]],
        "mask": [[1, 1, 1], [1, 0, 1]],
    }
    fixed: dict[str, Any] = {"parameters": {"scale": Fraction(1, 2)}}
    rounded = interpret(program("attention"), inputs, arithmetic=Floats(), **fixed)
    bounded = interpret(program("attention"), inputs, arithmetic=RunningErrors(), **fixed)
    for name in ("S", "A", "O", "L"):
        for x, bound in zip(flat(rounded[name]), flat(bounded[name]), strict=True):
            assert abs(float(bound.value - mpmath.mpf(x))) <= 2**-53 * float(bound.error)


def test_running_errors_are_zero_for_what_is_hidden() -> None:
    inputs = {"Q": [[1]], "K": [[1], [2]], "V": [[3], [5]], "mask": [[1, 0]]}
    (first, hidden) = interpret(program("attention"), inputs, arithmetic=RunningErrors())["A"][0]
    assert (hidden.value, hidden.error) == (0, 0)
    assert first.value == 1


def test_infinity_is_rounded_to_itself_and_bounds_stay_numbers() -> None:
    """A hidden score goes on as −∞; what is made of it has a bound, not NaN."""
    numbers = RunningErrors()
    hidden = numbers.number(float("-inf")) + numbers.number(0.1)
    weight = numbers.power(numbers.number(1) + numbers.function(sp.exp, hidden * numbers.number(-1)), sp.Integer(-1))
    assert (hidden.error, weight.value, weight.error) == (0, 0, 0)
    assert (weight * numbers.number(3)).error == 0
