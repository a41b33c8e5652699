"""Rigorous balls: they hold the exact value, and a result outside is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.errors import AlgebraError
from numeric.backends import backend
from numeric.oracle import Enclosure, ball_run, enclosures, exact_run
from numeric.oracle.functions import evaluated
from numeric.oracle.objects import Balls
from numeric.properties import LIMIT, run_of
from numeric.runs import Run, run
from numeric.samples import Sample

pytest.importorskip("flint", reason="python-flint is not installed; install backprove[test]")


def _run(program: str, seed: int) -> Run:
    kernel = numeric.load(program)
    sample = Sample(program, {"n": 3, "m": 4, "d": 2, "d_v": 5}, (), "float64", seed, ("mask", "bias"))
    return run(kernel, backend("numpy"), sample.inputs(kernel.signature), sample.output_cotangents, {})


@pytest.mark.parametrize("seed", range(3))
def test_balls_hold_what_fifty_digits_give(program: str, seed: int) -> None:
    """Two evaluations of one program, by mpmath and by Arb: the ball is thin and the other value is in it."""
    made = _run(program, seed)
    digits = exact_run(program, made.inputs, made.cotangents, {}, digits=50)
    balls = ball_run(program, made.inputs, made.cotangents, {})
    pairs = [(balls.outputs[n], digits.outputs[n]) for n in ("O", "L")]
    pairs += [(balls.gradients[n], digits.gradients[n]) for n in ("Q", "K", "V", "bias")]
    for around, numbers in pairs:
        for ball, number in zip(around.flat, numbers.value.flat, strict=True):
            if np.isinf(float(number)):
                assert float(ball.mid()) == float(number)
                continue
            assert float(ball.rad()) < 1e-35
            assert abs(float(ball.mid()) - float(number)) <= 1e-15 * max(abs(float(number)), 1e-30)


def test_a_kernel_is_bounded_and_a_wrong_one_is_not(program: str) -> None:
    """One entry of dK off by a billionth is outside its ball, and it is dK that is told."""
    made = _run(program, 0)
    right = {e.tensor: e for e in enclosures(program, made)}
    assert set(right) == {"O", "L", "dQ", "dK", "dV", "dbias"}
    assert all(e.error <= LIMIT and e.deviation < 1e-14 and e.radius < 1e-35 for e in right.values())
    wrong = {**made.gradients, "K": made.gradients["K"].copy()}
    place = np.argmax(np.abs(wrong["K"]))
    off = abs(wrong["K"].flat[place]) * 1e-9
    wrong["K"].flat[place] *= 1 + 1e-9
    found = {e.tensor: e for e in enclosures(program, replace(made, gradients=wrong))}
    assert found["dK"].error > 1e3
    assert found["dK"].deviation == pytest.approx(off, rel=1e-4)
    assert {n: e for n, e in found.items() if n != "dK"} == {n: e for n, e in right.items() if n != "dK"}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_as_far_from_its_ball_as_can_be(value: float) -> None:
    made = _run("attention", 0)
    made.outputs["O"][0, 0] = value
    found = max(enclosures("attention", made), key=lambda e: e.error)
    assert (found.tensor, found.error, found.deviation) == ("O", np.inf, np.inf)


@pytest.mark.parametrize(
    ("deviation", "radius", "said"),
    [
        (3.1000000000000002e-16, 1.01e-46, "O up to 3.2e-16 from a ball of radius 2e-46"),
        (9.99e-8, 0.0, "O up to 1.0e-7 from a ball of radius 0"),
        (np.inf, 1e-3, "O up to ∞ from a ball of radius 2e-3"),
    ],
)
def test_bounds_are_rounded_up(deviation: float, radius: float, said: str) -> None:
    """A bound that is printed smaller than it is would be none; the float 1e-3 is above a thousandth."""
    assert str(Enclosure("O", 1.0, deviation, radius)) == said


def test_the_bound_holds_for_the_exact_value_itself() -> None:
    """Against a kernel's output and the exact rational mean of its values: nothing hidden, all scores alike."""
    kernel = numeric.load("attention")
    arrays = {"Q": np.zeros((1, 1)), "K": np.zeros((3, 1)), "V": np.array([[0.1], [0.7], [0.3]])}
    made = run(kernel, backend("numpy"), arrays, lambda result: {"O": np.ones((1, 1))}, {})
    exact = sum(Fraction(float(v)) for v in arrays["V"].flat) / 3
    away = abs(Fraction(float(made.outputs["O"][0, 0])) - exact)
    bound = next(e for e in enclosures("attention", made) if e.tensor == "O")
    assert away <= Fraction(bound.deviation)
    assert Fraction(bound.deviation) <= away * (1 + Fraction(1, 10**15)) + Fraction(1, 10**40)


def test_balls_of_constants_and_what_they_refuse() -> None:
    """Fractions and roots are enclosed; a function that Arb lacks is named."""
    balls = Balls()
    third = balls.rational(Fraction(1, 3)).data[()]
    assert third.contains(balls.flint.fmpq(1, 3))
    root = evaluated(sp.sqrt(2) / 2, {}, balls).data[()]
    assert float(abs(root * root * 2 - 1).upper()) < 1e-40
    assert float(balls.power(balls.rational(Fraction(4)), Fraction(-3, 2)).data[()].mid()) == 0.125
    largest = evaluated(sp.Max(sp.Symbol("x"), sp.Symbol("y"), evaluate=False), _numbers(balls, 1, 3), balls)
    assert largest.data[()] == 3
    with pytest.raises(AlgebraError, match="mystery"):
        balls.function(sp.Function("mystery"), balls.rational(Fraction(1)))


def _numbers(balls: Balls, *values: int) -> dict[sp.Symbol, Any]:
    """Numbers for x, y, … as balls."""
    return {sp.Symbol(name): balls.rational(Fraction(value)) for name, value in zip("xyz", values, strict=False)}


@pytest.mark.parametrize("name", ["cross_entropy", "language_model"])
def test_counts_are_whole_numbers_in_balls_too(name: str) -> None:
    """max(1, how many targets count) is decided on integers: a ball of radius 0 is one."""
    pytest.importorskip("flint", reason="balls come from python-flint")
    kernel, device = numeric.load(name), backend("numpy")
    sizes = {size: 2 + k % 2 for k, size in enumerate(kernel.signature.sizes)}
    made = run_of(kernel, device, Sample(name, sizes, (), "float64", 0))
    assert all(e.error <= LIMIT for e in enclosures(name, made))
