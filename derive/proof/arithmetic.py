"""Kinds of numbers that a program can be evaluated over; the interpreter is the same for all.

An arithmetic supplies constants and functions; its numbers support ``+``, ``-``, ``*`` and ``**``
with integer exponents.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, Protocol

import mpmath
import sympy as sp

from derive.errors import AlgebraError
from derive.proof.rationals import Kind, Rational, fastest, python_flint, ratio, read, spelled

Number = Any


class Arithmetic(Protocol):
    """What the interpreter needs from a kind of numbers."""

    def number(self, value: Any) -> Number:
        """The number for an exact value (int, rational of any kind, SymPy number, or one of its own)."""

    def function(self, function: type[sp.Function], *args: Number) -> Number:
        """A function such as ``sympy.exp`` at numbers."""

    def power(self, base: Number, exponent: sp.Rational) -> Number:
        """A rational power."""

    def compared(self, value: Number) -> sp.Expr:
        """The number as SymPy compares it, in conditions such as ``bias > −∞``."""


class UndefinedError(AlgebraError):
    """A root or quotient that does not exist at a random point; draw another."""


class Symbolic:
    """Exact SymPy numbers: ``exp(1/2)`` stays ``exp(1/2)``. The symbolic oracle."""

    def number(self, value: Any) -> sp.Expr:
        """A SymPy number; floats are refused, because they are not exact."""
        if (parts := ratio(value)) is not None:
            return sp.Rational(*parts)
        if isinstance(value, float) and value not in (float("inf"), float("-inf")):
            raise AlgebraError(
                f"{value!r} is a float; the exact interpreter takes integers, fractions and SymPy numbers"
            )
        return sp.Rational(*read(value)) if isinstance(value, str) else sp.sympify(value)

    def function(self, function: type[sp.Function], *args: sp.Expr) -> sp.Expr:
        """The function applied; log 0 is −∞, the limit that a row without visible keys has."""
        return -sp.oo if function is sp.log and args[0] == 0 else function(*args)

    def power(self, base: sp.Expr, exponent: sp.Rational) -> sp.Expr:
        """SymPy's power."""
        return base**exponent

    def compared(self, value: sp.Expr) -> sp.Expr:
        """Itself."""
        return value


class Decimals:
    """Floating-point numbers with many digits (mpmath): a reference that rounds far below float64."""

    def __init__(self, digits: int = 50) -> None:
        self.context = mpmath.mp.clone()
        self.context.dps = digits

    def number(self, value: Any) -> Any:
        """A number rounded to the working precision."""
        if (parts := ratio(value)) is not None:
            return self.context.mpf(parts[0]) / parts[1]
        return self._real(value) if isinstance(value, sp.Basic) else self.context.mpf(value)

    def _real(self, value: sp.Basic) -> Any:
        if value in (sp.oo, -sp.oo):
            return self.context.mpf("inf") * (1 if value == sp.oo else -1)
        return self.context.mpf(str(sp.N(value, self.context.dps + 5)))

    def function(self, function: type[sp.Function], *args: Any) -> Any:
        """Mpmath's function of the same name."""
        if function in ORDERED:
            return ordered(function, self, args)
        known = getattr(self.context, function.__name__, None)
        if known is None:
            raise AlgebraError(f"mpmath has no function {function.__name__}")
        return self._checked(known(*args))

    def power(self, base: Any, exponent: sp.Rational) -> Any:
        """Mpmath's power, where it is real."""
        if exponent.q == 1:
            return base ** int(exponent)
        return self._checked(self.context.power(base, self.number(exponent)))

    def _checked(self, value: Any) -> Any:
        """A value if it is real: a root or logarithm of a negative number is not defined."""
        if isinstance(value, self.context.mpc):
            raise UndefinedError(f"{value} is not a real number")
        return value

    def compared(self, value: Any) -> sp.Expr:
        """A SymPy float of the same value."""
        return (
            sp.oo * int(self.context.sign(value))
            if self.context.isinf(value)
            else sp.Float(str(value), self.context.dps)
        )


class Weights:
    """Rational numbers, with functions as unknown but fixed positive values: equal arguments, equal weights.

    A statement that holds here does not rest on what exp is, only on its being a function. The same seed gives the
    same weights in every ``kind`` of rational numbers; the fastest that is installed, if none is asked for. Results
    are of that kind, so make what is computed with them afterwards by :meth:`number` too.
    """

    def __init__(self, seed: int = 0, kind: Kind | None = None) -> None:
        self.seed = seed
        self.kind = kind or fastest()
        self.known: dict[tuple[str, tuple[Rational, ...]], Rational] = {}

    def number(self, value: Any) -> Rational:
        """A rational; strings such as ``"1/2"`` are parsed as fractions, never evaluated."""
        if type(value) is self.kind:
            return value
        if isinstance(value, sp.Basic) and not value.is_Rational:
            return self._constant(value)
        return self.kind(*read(value))

    def _constant(self, value: sp.Basic) -> Rational:
        """A constant that is irrational, from its parts: functions, and π, are what they are everywhere else."""
        parts = tuple(map(self.number, value.args))
        if isinstance(value, sp.Add):
            return sum(parts[1:], parts[0])
        if (built := from_parts(value, self)) is not None:
            return built
        if not isinstance(value, (sp.Function, sp.NumberSymbol)):
            raise AlgebraError(f"{value} has no exact value in rational numbers")
        if isinstance(value, sp.exp) or value is sp.E:
            return self.function(sp.exp, *(parts or (self.number(1),)))
        return self.function(type(value), *parts)

    def function(self, function: type[sp.Function], *args: Rational) -> Rational:
        """A positive rational that depends on the function and its arguments alone."""
        if function in ORDERED:
            return self.number(ordered(function, self, args))
        key = (function.__name__, args)
        if key not in self.known:
            chance = random.Random(f"{self.seed} {function.__name__} {' '.join(map(spelled, args))}")
            self.known[key] = self.kind(chance.randint(1, 1000), chance.randint(1, 1000))
        return self.known[key]

    def power(self, base: Rational, exponent: sp.Rational) -> Rational:
        """A power; a root that is not rational is an unknown function of its argument, whose square is not that."""
        if base == 0 and exponent < 0:
            raise UndefinedError("zero has no inverse")
        if exponent.q == 1:
            return base ** int(exponent)
        root = sp.root(self.compared(base), exponent.q)
        if not root.is_Rational:
            root = self.function(sp.root, base, self.kind(1, int(exponent.q)))
        return self.number(root) ** int(exponent.p)

    def compared(self, value: Rational) -> sp.Expr:
        """The same rational."""
        return sp.Rational(*read(value))


ORDERED = (sp.Abs, sp.sign, sp.Heaviside, sp.Max, sp.Min)
"""The functions that follow from the order of numbers alone."""


def ordered(function: type[sp.Basic], arithmetic: Arithmetic, args: tuple[Number, ...]) -> Any:
    """Abs, sign, Max and Min over any ordered numbers; a step is 1/2 where it jumps."""
    if function in (sp.Max, sp.Min):
        return max(args) if function is sp.Max else min(args)
    x, zero = args[0], arithmetic.number(0)
    side = (x > zero) - (x < zero)
    if function is sp.Abs:
        return x * arithmetic.number(side or 1)
    return arithmetic.number(side if function is sp.sign else Fraction(1 + side, 2))


def from_parts(value: sp.Basic, arithmetic: Arithmetic) -> Any:
    """A constant that is a root or product of others, else None."""
    if isinstance(value, sp.Pow) and value.exp.is_Rational:
        return arithmetic.power(arithmetic.number(value.base), value.exp)
    if not isinstance(value, sp.Mul):
        return None
    product = arithmetic.number(1)
    for factor in value.args:
        product = product * arithmetic.number(factor)
    return product


def slope(function: type[sp.Function], x: Number, value: Number, arithmetic: Arithmetic) -> Number:
    """The derivative of a scalar function at a number, where its value there is known already."""
    if function is sp.exp:
        return value
    symbol = sp.Symbol("x", real=True)
    derivative = sp.diff(function(symbol), symbol)
    if derivative.atoms(sp.Derivative, sp.Subs, sp.DiracDelta):
        raise AlgebraError(f"{function.__name__} has no derivative that is known here")
    return at_number(derivative, symbol, x, arithmetic)


def at_number(expr: sp.Expr, symbol: sp.Symbol, x: Number, arithmetic: Arithmetic) -> Number:
    """A scalar expression of one symbol, evaluated in an arithmetic where the symbol is a number."""
    if expr == symbol:
        return x
    if not expr.has(symbol):
        return arithmetic.number(expr)
    parts = [at_number(arg, symbol, x, arithmetic) for arg in expr.args if not isinstance(expr, sp.Pow)]
    if isinstance(expr, sp.Add):
        return sum(parts[1:], parts[0])
    if isinstance(expr, sp.Mul):
        product = parts[0]
        for part in parts[1:]:
            product = product * part
        return product
    if isinstance(expr, sp.Pow) and expr.exp.is_Rational:
        return arithmetic.power(at_number(expr.base, symbol, x, arithmetic), expr.exp)
    return arithmetic.function(expr.func, *parts)


@dataclass(frozen=True)
class DualNumber:
    """``value + tangent·ε`` with ε² = 0."""

    value: Number
    tangent: Number

    def __add__(self, other: DualNumber) -> DualNumber:
        return DualNumber(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other: DualNumber) -> DualNumber:
        return DualNumber(self.value * other.value, self.value * other.tangent + self.tangent * other.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, DualNumber) else other))

    def __hash__(self) -> int:
        return hash(self.value)


class Duals:
    """Dual numbers over another arithmetic: forward-mode differentiation that shares no code with reverse mode."""

    def __init__(self, base: Arithmetic) -> None:
        self.base = base
        self.ordered: bool = getattr(base, "ordered", True)

    def number(self, value: Any) -> DualNumber:
        """A constant, or a dual number as it is."""
        return value if isinstance(value, DualNumber) else DualNumber(self.base.number(value), self.base.number(0))

    def dual(self, value: Any, tangent: Any) -> DualNumber:
        """A variable that moves at a given rate."""
        return DualNumber(self.base.number(value), self.base.number(tangent))

    def function(self, function: type[sp.Function], *args: DualNumber) -> DualNumber:
        """The chain rule for the scalar functions of definitions."""
        (x,) = args
        value = self.base.function(function, x.value)
        if function is sp.log and x.value == 0:
            return DualNumber(value, x.tangent)
        return DualNumber(value, slope(function, x.value, value, self.base) * x.tangent)

    def extreme(self, function: type[sp.Basic], fixed: list[DualNumber], moving: list[DualNumber]) -> DualNumber:
        """Max or Min: what is fixed wins a tie, and what moves shares its tie with the others that do."""
        best = self.base.function(function, *(x.value for x in (*fixed, *moving)))
        if any(x.value == best for x in fixed):
            return self.number(best)
        tied = [x.tangent for x in moving if x.value == best]
        return DualNumber(best, sum(tied[1:], tied[0]) * self.base.number(sp.Rational(1, len(tied))))

    def power(self, base: DualNumber, exponent: sp.Rational) -> DualNumber:
        """The power rule."""
        slope = self.base.number(exponent) * self.base.power(base.value, exponent - 1)
        return DualNumber(self.base.power(base.value, exponent), slope * base.tangent)

    def compared(self, value: DualNumber) -> sp.Expr:
        """The value: a condition does not move with its tangent."""
        return self.base.compared(value.value)


@dataclass(frozen=True)
class Bounded:
    """A value and a first-order bound on the rounding error of computing it, in units of roundoff."""

    value: Any
    error: Any

    def __add__(self, other: Bounded) -> Bounded:
        value = self.value + other.value
        return rounded(value, self.error + other.error + abs(value))

    def __mul__(self, other: Bounded) -> Bounded:
        value = self.value * other.value
        return rounded(value, abs(self.value) * other.error + abs(other.value) * self.error + abs(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounded) and bool(self.value == other.value)

    def __lt__(self, other: Bounded) -> bool:
        return bool(self.value < other.value)

    def __gt__(self, other: Bounded) -> bool:
        return bool(self.value > other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def rounded(value: Any, error: Any) -> Bounded:
    """A value with its bound; infinity, a hidden score, is rounded to itself."""
    return Bounded(value, 0) if mpmath.isinf(value) else Bounded(value, error)


SHORT, ROUNDED = 10**6, 1e-30
"""The largest denominator of a short fraction, and how far from it rounding in fifty digits leads, in error units."""


class RunningErrors:
    """Values in many digits, each with the running error bound of a straightforward evaluation.

    This is the magnitude program of every program at once (Wilkinson's running error analysis, Higham,
    Accuracy and Stability of Numerical Algorithms, §3.3): a correct kernel that adds in any order
    stays within a small multiple of unit roundoff times the bound, entry by entry.
    """

    def __init__(self, digits: int = 50) -> None:
        self.base = Decimals(digits)
        self.zero = self.base.number(0)

    def number(self, value: Any) -> Bounded:
        """An exact number, or a bounded one as it is."""
        return value if isinstance(value, Bounded) else Bounded(self.base.number(value), self.zero)

    def function(self, function: type[sp.Function], *args: Bounded) -> Bounded:
        """The function's value, its argument's error amplified, and a rounding of its own."""
        if function in (sp.Max, sp.Min):
            largest: Bounded = ordered(function, self, args)
            return largest
        (x,) = args
        jumps = function in (sp.sign, sp.Heaviside, sp.floor, sp.ceiling)
        value = self.base.function(function, self.base.number(self.compared(x)) if jumps else x.value)
        if function is sp.exp:
            return rounded(value, value * (x.error + abs(x.value) + 1) if value else self.zero)
        if function is sp.log and not x.value:
            return Bounded(value, self.zero)
        return rounded(value, abs(slope(function, x.value, value, self.base)) * x.error + abs(value))

    def power(self, base: Bounded, exponent: sp.Rational) -> Bounded:
        """A power; its error is the base's, times the exponent, and a rounding of its own."""
        value = self.base.power(base.value, exponent)
        amplified = abs(self.base.number(exponent) * value / base.value) * base.error if base.value else self.zero
        return rounded(value, amplified + abs(value))

    def compared(self, value: Bounded) -> sp.Expr:
        """The value; one that rounding cannot tell from a short fraction is that fraction: 3 · (1/3) is not below 1."""
        if not self.base.context.isfinite(value.value):
            return self.base.compared(value.value)
        exact = Fraction(*mpmath.libmp.to_rational(self.base.context.mpf(value.value)._mpf_))
        short = exact.limit_denominator(SHORT)
        near = abs(self.base.number(exact - short)) <= ROUNDED * (1 + value.error)
        return sp.Rational(short.numerator, short.denominator) if near else self.base.compared(value.value)


class Balls:
    """Real numbers enclosed in balls with rigorous radii (Arb, through python-flint).

    Whatever is computed with them contains the exact value, so a deviation from a ball is bounded, not estimated.
    """

    def __init__(self, bits: int = 160) -> None:
        self.flint = python_flint()
        self.flint.ctx.prec = bits

    def number(self, value: Any) -> Any:
        """A ball around an exact number; floats are exact."""
        if value is sp.pi:
            return self.flint.arb.pi()
        arb = self.flint.arb
        if (parts := ratio(value)) is not None:
            return arb(self.flint.fmpq(*parts))
        if value in (sp.oo, -sp.oo):
            return arb("inf") if value == sp.oo else arb("-inf")
        return self._constant(value) if isinstance(value, sp.Basic) else arb(value)

    def _constant(self, value: sp.Basic) -> Any:
        """Roots and functions of exact numbers, by way of their parts."""
        built = from_parts(value, self)
        if built is None:
            raise AlgebraError(f"no ball is known for the constant {value}")
        return built

    def function(self, function: type[sp.Function], *args: Any) -> Any:
        """Arb's function of the same name."""
        if function in (sp.Max, sp.Min):
            return reduce(self.flint.arb.max if function is sp.Max else self.flint.arb.min, args)
        if function is sp.Abs:
            return abs(args[0])
        (x,) = args
        if function is sp.log and x == 0:
            return self.flint.arb("-inf")
        known = getattr(x, function.__name__, None)
        if known is None:
            raise AlgebraError(f"Arb has no function {function.__name__}")
        return known()

    def power(self, base: Any, exponent: sp.Rational) -> Any:
        """An integer power, or one of the square root."""
        if exponent.q > 2:
            return base ** self.number(exponent)
        base = base.sqrt() if exponent.q == 2 else base
        raised = base ** abs(int(exponent.p))
        return 1 / raised if exponent < 0 else raised

    def compared(self, value: Any) -> sp.Expr:
        """The middle of a ball: inputs are exact, and conditions are on inputs."""
        middle = float(value.mid())
        return sp.oo * (1 if middle > 0 else -1) if middle in (float("inf"), float("-inf")) else sp.Float(middle)
