"""Rigorous balls: they hold the exact value, and a result outside is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.errors import AlgebraError
from derive.proof.arithmetic import Balls
from numeric.backends import backend
from numeric.oracle import bounded_error, exact_run
from numeric.properties import LIMIT, run_of
from numeric.samples import Run, Sample, run

pytest.importorskip("flint", reason="python-flint is not installed; install backprove[test]")


def _run(program: str, seed: int) -> Run:
    kernel = numeric.load(program)
    sample = Sample(program, {"n": 3, "m": 4, "d": 2, "d_v": 5}, (), "float64", seed, ("mask", "bias"))
    return run(kernel, backend("numpy"), sample.inputs(kernel.signature), sample.output_cotangents, {})


@pytest.mark.parametrize("seed", range(3))
def test_balls_hold_what_fifty_digits_give(program: str, seed: int) -> None:
    """Two evaluations of one program, by mpmath and by Arb: the ball is thin and the other value is in it."""
    made = _run(program, seed)
    digits = exact_run(program, made.inputs, made.cotangents, {})
    balls = exact_run(program, made.inputs, made.cotangents, {}, Balls())
    for name in ("O", "A", "dQ", "dK", "dV"):
        for ball, number in zip(balls[name].flat, digits[name].flat, strict=True):
            assert float(ball.rad()) < 1e-35
            assert abs(float(ball.mid()) - float(number.value)) <= 1e-15 * max(abs(float(number.value)), 1e-30)


def test_a_kernel_is_bounded_and_a_wrong_one_is_not(program: str) -> None:
    """One entry of dK off by a billionth is outside its ball."""
    made = _run(program, 0)
    assert bounded_error(made, program) <= LIMIT
    wrong = {**made.gradients, "K": made.gradients["K"].copy()}
    wrong["K"].flat[np.argmax(np.abs(wrong["K"]))] *= 1 + 1e-9
    assert bounded_error(replace(made, gradients=wrong), program) > 1e3


def test_balls_of_constants_and_what_they_refuse() -> None:
    """Fractions and roots are enclosed; a function that Arb lacks is named."""
    balls = Balls()
    assert balls.number(sp.Rational(1, 3)).contains(balls.flint.fmpq(1, 3))
    root = balls.number(sp.sqrt(2) / 2)
    assert float(abs(root * root * 2 - 1).upper()) < 1e-40
    assert float(balls.power(balls.number(4), sp.Rational(-3, 2)).mid()) == 0.125
    with pytest.raises(AlgebraError, match="mystery"):
        balls.function(sp.Function("mystery"), balls.number(1))


@pytest.mark.parametrize("name", ["cross_entropy", "language_model"])
def test_counts_are_whole_numbers_in_balls_too(name: str) -> None:
    """max(1, how many targets count) is decided on integers: a ball of radius 0 is one."""
    pytest.importorskip("flint", reason="balls come from python-flint")
    kernel, device = numeric.load(name), backend("numpy")
    sizes = {size: 2 + k % 2 for k, size in enumerate(kernel.signature.sizes)}
    made = run_of(kernel, device, Sample(name, sizes, (), "float64", 0))
    assert bounded_error(made, name) <= 2
