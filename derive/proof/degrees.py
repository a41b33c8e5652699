"""How likely a fingerprint is to miss a difference: degrees, counted along with the numbers.

Schwartz and Zippel: a polynomial of degree D that is not 0 vanishes at a random point with probability at most D/q,
where every variable is drawn from q or more elements. Two fractions N/M and N'/M' agree where NM' − N'M vanishes,
whose degree is at most the sum of their four degrees.

What is assumed, and not proved: that what exp, log and roots give counts as free elements, one for every argument.
Arguments that differ may still be equal at the point, which is why such a value has its argument's degree, and not 1.
Divisors that have one value at the point are taken to be one divisor. Points at which a root or quotient does not
exist are drawn again, and the draw that is used counts as the first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp

from derive.proof.fingerprint import EXPONENTS, MODULUS, FiniteField, Residue, Sides


class Divisors:
    """A product of powers of divisors, each known by its value at the point, and the degree of the whole."""

    __slots__ = ("degree", "powers")

    def __init__(self, powers: Mapping[int, tuple[int, int]]) -> None:
        self.powers = powers
        self.degree = sum(degree * power for degree, power in powers.values())

    def value(self) -> int:
        """The product at the point."""
        return math.prod(pow(key, power, MODULUS) for key, (_, power) in self.powers.items()) % MODULUS


_NONE = Divisors({})


def _merged(one: Divisors, other: Divisors, power: Callable[[int, int], int]) -> Divisors:
    powers = dict(one.powers)
    for key, (degree, exponent) in other.powers.items():
        known, already = powers.get(key, (degree, 0))
        powers[key] = max(degree, known), power(exponent, already)
    return Divisors(powers)


@lru_cache(maxsize=2**16)  # the entries of a row share their divisors, and meet those of another row again and again
def _product(one: Divisors, other: Divisors) -> Divisors:
    return _merged(one, other, operator.add)


@lru_cache(maxsize=2**16)
def _common_multiple(one: Divisors, other: Divisors) -> Divisors:
    return _merged(one, other, max)


class Measured:
    """A residue that is a fraction of polynomials in what was drawn, with bounds on their degrees."""

    __slots__ = ("divisors", "numerator", "residue")

    def __init__(self, residue: Residue, numerator: int = 0, divisors: Divisors = _NONE) -> None:
        self.residue, self.numerator, self.divisors = residue, numerator, divisors

    @property
    def degree(self) -> int:
        """The degrees of numerator and denominator together."""
        return self.numerator + self.divisors.degree

    def __add__(self, other: Measured) -> Measured:
        residue, one, two = self.residue + other.residue, self.divisors, other.divisors
        if one is two:
            return Measured(residue, max(self.numerator, other.numerator), one)
        if self._is_nothing or other._is_nothing:
            kept = other if self._is_nothing else self
            return Measured(residue, kept.numerator, kept.divisors)
        both = _common_multiple(one, two)
        left, right = self.numerator + both.degree - one.degree, other.numerator + both.degree - two.degree
        return Measured(residue, max(left, right), both)

    def __mul__(self, other: Measured) -> Measured:
        one, two = self.divisors, other.divisors
        divisors = one if two is _NONE else two if one is _NONE else _product(one, two)
        return Measured(self.residue * other.residue, self.numerator + other.numerator, divisors)

    @property
    def _is_nothing(self) -> bool:
        """The number 0 itself, which has no degree."""
        return self.numerator == 0 and self.divisors is _NONE and self.residue.value == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Measured) and self.residue == other.residue

    def __hash__(self) -> int:
        return hash(self.residue)


class Degrees:
    """A finite field whose numbers know their degrees: what was drawn has degree 1, constants have 0."""

    def __init__(self, field: FiniteField) -> None:
        self.field = field

    def number(self, value: Any) -> Measured:
        """A residue that was drawn as a variable; any other exact number as a constant."""
        if isinstance(value, Measured):
            return value
        return Measured(self.field.number(value), 1 if isinstance(value, Residue) else 0)

    def function(self, function: type[sp.Function], *args: Measured) -> Measured:
        """The field's function; its value counts as a polynomial of its argument's degree."""
        degree = sum(x.degree for x in args)
        value = self.field.function(function, *(x.residue for x in args))
        return Measured(value, max(degree, 1) if args else 0)

    def power(self, base: Measured, exponent: sp.Rational) -> Measured:
        """The field's power: a negative one turns a fraction around; a root counts as a free element."""
        value = self.field.power(base.residue, exponent)
        if exponent.q != 1:
            root = Measured(self.field.power(base.residue, sp.Rational(1, exponent.q)), base.degree)
            return _raised(value, root, int(exponent.p))
        return _raised(value, base, int(exponent))

    def compared(self, value: Measured) -> sp.Expr:
        """As the field does."""
        return self.field.compared(value.residue)


def _raised(value: Residue, base: Measured, power: int) -> Measured:
    """An integer power of a number, whose value is known."""
    if power >= 0:
        powers = {key: (degree, p * power) for key, (degree, p) in base.divisors.powers.items()}
        return Measured(value, base.numerator * power, Divisors(powers) if powers and power else _NONE)
    numerator = -power * base.divisors.degree
    if base.numerator == 0:
        return Measured(value, numerator)
    key = base.residue.value * base.divisors.value() % MODULUS
    return Measured(value, numerator, _power_of(key, base.numerator, -power))


@lru_cache(maxsize=2**16)
def _power_of(key: int, degree: int, power: int) -> Divisors:
    return Divisors({key: (degree, power)})


@dataclass
class FailureBound:
    """The largest degree of a difference among those that were looked at, and what follows from it."""

    degree: int = 0

    def note(self, sides: Sides) -> None:
        """Two sides, number by number, over :class:`Degrees`."""
        for pairs in sides.values():
            for numbers in pairs:  # what is undefined differs from every number, and is missed nowhere
                self.degree = max(self.degree, sum(x.degree for x in numbers if isinstance(x, Measured)))

    @property
    def bits(self) -> int:
        """A difference is missed at a point with probability below 2 to the power of minus this."""
        return math.floor(math.log2(EXPONENTS) - math.log2(max(self.degree, 1)))
