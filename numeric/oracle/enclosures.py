"""Rigorous balls around exact results, from the forward definitions and the bare chain rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np

from derive.forward.program import Program
from numeric.oracle.calls import Arrays
from numeric.oracle.labelled import Host
from numeric.oracle.objects import Balls
from numeric.oracle.results import Exact, worst
from numeric.oracle.rounding import DEFAULT
from numeric.oracle.runs import ORACLE, definitions_of
from numeric.runs import Run


@dataclass(frozen=True)
class Enclosure:
    """How one tensor of a run lies to rigorous balls around its exact values: bounds, not estimates.

    error: the largest deviation of an entry, in units of what rounding may cause; deviation: the largest that an entry
    may be away from its exact value; radius: the largest of a ball.
    """

    tensor: str
    error: float
    deviation: float
    radius: float

    def __str__(self) -> str:
        return f"{self.tensor} up to {_up(self.deviation, 2)} from a ball of radius {_up(self.radius, 1)}"


@dataclass(frozen=True)
class BallRun:
    """Balls around the outputs and gradients of a call: object arrays of Arb's balls, by name."""

    outputs: Mapping[str, Host]
    gradients: Mapping[str, Host]


def ball_run(
    program: Program | str,
    inputs: Arrays,
    cotangents: Arrays | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> BallRun:
    """Balls around what a call of a program should give.

    Raises
    ------
    AlgebraError: python-flint is missing, or Arb has no function that the program needs.
    """
    values = ORACLE.values(ORACLE.asked(definitions_of(program), inputs, cotangents, parameters), Balls())
    return BallRun(values.outputs, values.gradients)


def enclosures(program: Program | str, made: Run, rounding: str = DEFAULT) -> list[Enclosure]:
    """A run's outputs and gradients, each held against rigorous balls around its exact values.

    A gradient is called "d" and the name of its input, in what is told.

    Raises
    ------
    AlgebraError: python-flint is missing, or Arb has no function that the program needs.
    """
    balls = ball_run(program, made.inputs, made.cotangents, made.parameters)
    exact = ORACLE.exact_run(program, made.inputs, made.cotangents, made.parameters)
    outputs = [_enclosed(n, a, balls.outputs[n], exact.outputs[n], rounding) for n, a in made.outputs.items()]
    return outputs + [
        _enclosed(f"d{n}", a, balls.gradients[n], exact.gradients[n], rounding) for n, a in made.gradients.items()
    ]


def _enclosed(tensor: str, computed: Host, balls: Host, exact: Exact, rounding: str) -> Enclosure:
    pairs = list(zip(computed.flat, balls.flat, strict=True))
    deviations = np.array([_deviation(float(x), ball) for x, ball in pairs], dtype=float).reshape(computed.shape)
    error = worst(deviations, exact.unit(computed.dtype.name, rounding))
    radius = max((_above(ball.rad()) for _, ball in pairs), default=0.0)
    return Enclosure(tensor, error, float(np.max(deviations, initial=0.0)), radius)


def _deviation(got: float, ball: Any) -> float:
    """A bound on how far a number is from any number of a ball."""
    if np.isinf(got):
        return 0.0 if float(ball.mid()) == got else float("inf")
    return float("inf") if np.isnan(got) else _above(abs(ball - got))


def _above(ball: Any) -> float:
    """A float that no number of a ball exceeds; a ball that encloses nothing has none but infinity."""
    upper = float(ball.upper())
    return math.inf if math.isnan(upper) else math.nextafter(upper, math.inf) if upper else 0.0


def _up(bound: float, digits: int) -> str:
    """A bound in so many digits, rounded up, so that it stays one."""
    if bound in (0, math.inf):
        return "0" if bound == 0 else "∞"
    return f"{Context(digits, ROUND_CEILING).create_decimal(bound):.{digits - 1}e}"
