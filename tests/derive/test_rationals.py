"""Kinds of rational numbers: python-flint's and Python's give the same results, and each can be read by all."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp

from derive.calculus import backward
from derive.errors import AlgebraError
from derive.forward import program
from derive.mistakes import MISTAKES, apply
from derive.modes import derivation_in
from derive.proof import Decimals, Duals, Symbolic, Weights, interpret
from derive.proof.arithmetic import ORDERED, Balls, UndefinedError
from derive.proof.checks import forward_mode_agrees, tangents_agree
from derive.proof.fingerprint import FiniteField
from derive.proof.points import random_point, small_sizes
from derive.proof.rationals import Kind, fastest, ratio, spelled

flint = pytest.importorskip("flint", reason="python-flint is not installed; install backprove[test]")

KINDS = [Fraction, flint.fmpq]
HALVES = [Fraction(1, 2), flint.fmpq(1, 2), sp.Rational(1, 2)]

kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)


def _ratios(nested: Any) -> Any:
    return [_ratios(x) for x in nested] if isinstance(nested, list) else ratio(nested)


def test_the_fast_path_is_taken_where_it_is_installed() -> None:
    assert fastest() is flint.fmpq
    assert isinstance(Weights().number(1), flint.fmpq)
    assert isinstance(Weights(kind=Fraction).number(flint.fmpq(1, 3)), Fraction)


def test_without_python_flint_everything_works_but_balls() -> None:
    """In a process that cannot import it."""
    code = """
import sys
sys.modules["flint"] = None
from fractions import Fraction
from derive.calculus import backward
from derive.errors import AlgebraError
from derive.forward import program
from derive.proof.arithmetic import Balls, Weights
from derive.proof.checks import forward_mode_agrees
assert type(Weights().number("1/2")) is Fraction
assert forward_mode_agrees(backward(program("attention")))
try:
    Balls()
except AlgebraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install python-flint" in done.stdout


@kinds
def test_a_number_is_read_from_every_form(kind: Kind) -> None:
    weights = Weights(kind=kind)
    for form in (*HALVES, "1/2", "0.5", 0.5):
        number = weights.number(form)
        assert type(number) is kind
        assert number == weights.number(1) * weights.number(2) ** -1
        assert ratio(number) == (1, 2)
    assert weights.number(sp.Integer(3)) == 3
    assert hash(weights.number(3)) == hash(3)
    with pytest.raises(ValueError, match="one half"):
        weights.number("one half")


@pytest.mark.parametrize("half", HALVES, ids=lambda h: type(h).__name__)
def test_every_arithmetic_reads_every_kind(half: Any) -> None:
    assert Symbolic().number(half) == sp.Rational(1, 2)
    assert Decimals().number(half) == 0.5
    assert Balls().number(half) == 0.5
    assert FiniteField().number(half) * FiniteField().number(2) == FiniteField().number(1)
    assert Duals(Weights()).number(half).value == Weights().number(half)


@pytest.mark.parametrize("value", [0.5, "1/2", sp.pi, sp.oo, sp.Symbol("x"), None, [1]])
def test_what_is_no_rational_number_has_no_ratio(value: Any) -> None:
    assert ratio(value) is None


def test_all_functions_and_powers_are_the_same_in_both_kinds() -> None:
    """Weights from the same seed, order, roots of squares and of others, negative exponents."""
    for seed in range(3):
        plain, fast = (Weights(seed, kind) for kind in KINDS)
        for a, b in ((-7, 3), (0, 1), (4, 9), (2, 1), (3**4000, 2**9000)):
            x, y = Fraction(a, b), flint.fmpq(a, b)
            for function in (sp.exp, sp.tanh, sp.Abs, sp.sign, sp.Heaviside):
                assert ratio(plain.function(function, x)) == ratio(fast.function(function, y))
                assert type(fast.function(function, y)) is flint.fmpq
            for exponent in (2, 0, -3):
                if a or exponent >= 0:
                    assert ratio(plain.power(x, sp.Integer(exponent))) == ratio(fast.power(y, sp.Integer(exponent)))
            if 0 < a < 9:
                for exponent in (sp.Rational(1, 2), sp.Rational(-3, 2)):
                    assert ratio(plain.power(x, exponent)) == ratio(fast.power(y, exponent))
            assert plain.compared(x) == fast.compared(y) == sp.Rational(a, b)
    for weights in (plain, fast):
        with pytest.raises(UndefinedError):
            weights.power(weights.number(0), sp.Integer(-1))
        assert weights.function(sp.Max, weights.number("1/3"), weights.number("1/2")) == weights.number("1/2")
        assert weights.function(sp.exp, weights.number(1)) != Weights(99, weights.kind).function(sp.exp, 1)
    assert spelled(Fraction(-1, 2)) == spelled(flint.fmpq(-1, 2)) == "-1/2"
    assert set(ORDERED) >= {sp.Abs, sp.sign, sp.Heaviside, sp.Max, sp.Min}


@pytest.mark.parametrize("name", ["causal_attention", "relu_attention", "softcap_attention", "cross_entropy"])
def test_a_program_has_the_same_values_in_both_kinds(name: str) -> None:
    """Sums, quotients, order and unknown functions."""
    source, found = program(name), []
    for kind in KINDS:
        weights, chance, sizes = Weights(5, kind), random.Random(2), small_sizes(program(name), 1)
        draw = lambda c, weights=weights: weights.kind(c.randint(-9, 9), c.randint(1, 4))  # noqa: E731
        inputs, parameters = random_point(source, sizes, chance, weights, draw)
        given: dict[str, Any] = {"sizes": sizes, "parameters": parameters}
        found.append(_ratios(list(interpret(source, inputs, arithmetic=weights, **given).values())))
    assert found[0] == found[1]


@kinds
@pytest.mark.parametrize("name", ["attention", "squared_attention", "grouped_query"])
def test_forward_mode_agrees_in_both_kinds_and_sees_a_wrong_gradient(name: str, kind: Kind) -> None:
    derivation = backward(program(name))
    assert forward_mode_agrees(derivation, kind=kind)
    target = derivation.derived.definitions[-1]
    doubled = replace(target, value=2 * target.value)
    wrong = replace(derivation.derived, definitions=(*derivation.derived.definitions[:-1], doubled))
    assert not forward_mode_agrees(replace(derivation, derived=wrong), kind=kind)
    assert tangents_agree(derivation_in(program(name), "tangent"), kind=kind) == []


@kinds
def test_sizes_may_be_given(kind: Kind) -> None:
    """What is not given is drawn; a mistake in the scale of scores cannot be seen where there is one key."""
    right = backward(program("attention").returning("O"))
    wrong = replace(right, derived=apply(next(m for m in MISTAKES if m.name == "scale_lost_in_queries"), right))
    assert not forward_mode_agrees(wrong, kind=kind)
    assert forward_mode_agrees(wrong, sizes={"m": 1}, kind=kind)
    assert forward_mode_agrees(backward(program("layer_norm")), sizes={"D": 9}, kind=kind)
    assert not forward_mode_agrees(wrong, sizes={"n": 6, "m": 5, "d": 7, "d_v": 3}, kind=kind)
    assert tangents_agree(derivation_in(program("attention"), "tangent"), sizes={"n": 6}, kind=kind) == []


@pytest.mark.parametrize("sizes", [{"length": 3}, {"n": -1}, {"n": 2.0}])
def test_a_size_that_there_is_not_is_named(sizes: dict[str, Any]) -> None:
    with pytest.raises(AlgebraError, match=r"attention has no size .*; give whole numbers for some of n, d, m, d_v"):
        forward_mode_agrees(backward(program("attention")), sizes=sizes)
