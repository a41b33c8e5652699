"""How likely a fingerprint is to miss a difference: degrees, counted along with the numbers.

Schwartz and Zippel: a polynomial of degree D that is not 0 vanishes at a random point with probability at most D/q,
where every variable is drawn from q or more elements. Two fractions N/M and N'/M' agree where NM' − N'M vanishes,
whose degree is at most the sum of their four degrees.

A number with k roots that are free (:mod:`derive.proof.roots`) has 2ᵏ conjugates, whose product has 2ᵏ times the degree
and no root; only one point in 2ᵏ has all roots. So each costs two bits. A root that may be one of a square has the sign
that its square's root has at the point: a difference that shows for one choice of s signs is missed with probability
1 − 2⁻ˢ, and more points have to be looked at.

What is assumed, and not proved: that what exp and log give counts as free elements, one for every argument.
Arguments that differ may still be equal at the point, which is why such a value has its argument's degree, and not 1.
Divisors that have one value at the point are taken to be one divisor. Points at which a quotient does not exist are
drawn again, and the draw that is used counts as the first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import sympy as sp

from derive.printers.style import superscript
from derive.proof.arithmetic import UndefinedError
from derive.proof.fields import derived_seed
from derive.proof.fingerprint import FiniteField, Residue, Sides
from derive.proof.interpreter import OutsideError, Seen
from derive.proof.points import EQUAL, is_edge
from derive.proof.roots import Roots


class Divisors:
    """A product of powers of divisors, each known by its value at the point, and the degree of the whole."""

    __slots__ = ("degree", "powers")

    def __init__(self, powers: Mapping[int, tuple[int, int]]) -> None:
        self.powers = powers
        self.degree = sum(degree * power for degree, power in powers.values())

    def value(self, modulus: int) -> int:
        """The product at the point."""
        return math.prod(pow(key, power, modulus) for key, (_, power) in self.powers.items()) % modulus


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
    """A residue that is a fraction of polynomials in what was drawn and in roots, with bounds on their degrees.

    ``roots`` are the uses of roots, as bits.
    """

    __slots__ = ("divisors", "numerator", "residue", "roots")

    def __init__(self, residue: Residue, numerator: int = 0, divisors: Divisors = _NONE, roots: int = 0) -> None:
        self.residue, self.numerator, self.divisors, self.roots = residue, numerator, divisors, roots

    @property
    def degree(self) -> int:
        """The degrees of numerator and denominator together."""
        return self.numerator + self.divisors.degree

    def __add__(self, other: Measured) -> Measured:
        residue, one, two = self.residue + other.residue, self.divisors, other.divisors
        roots = self.roots | other.roots
        if one is two:
            return Measured(residue, max(self.numerator, other.numerator), one, roots)
        if self._is_nothing or other._is_nothing:
            kept = other if self._is_nothing else self
            return Measured(residue, kept.numerator, kept.divisors, roots)
        both = _common_multiple(one, two)
        left, right = self.numerator + both.degree - one.degree, other.numerator + both.degree - two.degree
        return Measured(residue, max(left, right), both, roots)

    def __mul__(self, other: Measured) -> Measured:
        one, two = self.divisors, other.divisors
        divisors = one if two is _NONE else two if one is _NONE else _product(one, two)
        numerator = self.numerator + other.numerator
        return Measured(self.residue * other.residue, numerator, divisors, self.roots | other.roots)

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

    ordered = False

    def __init__(self, field: FiniteField) -> None:
        self.field = field

    @property
    def roots(self) -> Roots:
        """The field's."""
        return self.field.roots

    def number(self, value: Any) -> Measured:
        """A residue that was drawn as a variable; any other exact number as a constant."""
        if isinstance(value, Measured):
            return value
        return Measured(self.field.number(value), 1 if isinstance(value, Residue) else 0)

    def function(self, function: type[sp.Function], *args: Measured) -> Measured:
        """The field's function; its value counts as a polynomial of its argument's degree."""
        degree = sum(x.degree for x in args)
        value = self.field.function(function, *(x.residue for x in args))
        roots = 0
        for x in args:
            roots |= x.roots
        if function is sp.exp and args[0].residue.exponent is not None:
            roots <<= 1
        return Measured(value, max(degree, 1) if args else 0, _NONE, roots)

    def power(self, base: Measured, exponent: sp.Rational) -> Measured:
        """The field's power: a negative one turns a fraction around; a root counts as a free element."""
        value = self.field.power(base.residue, exponent)
        if exponent.q != 1:
            used = self.roots.used(base.residue.value) if exponent.q == 2 else 0
            taken = self.field.power(base.residue, sp.Rational(1, exponent.q))
            root = Measured(taken, base.degree, _NONE, base.roots | used)
            return _raised(value, root, int(exponent.p))
        return _raised(value, base, int(exponent))

    def compared(self, value: Measured) -> sp.Expr:
        """As the field does."""
        return self.field.compared(value.residue)


def _raised(value: Residue, base: Measured, power: int) -> Measured:
    """An integer power of a number, whose value is known."""
    if power >= 0:
        powers = {key: (degree, p * power) for key, (degree, p) in base.divisors.powers.items()}
        return Measured(value, base.numerator * power, Divisors(powers) if powers and power else _NONE, base.roots)
    numerator = -power * base.divisors.degree
    if base.numerator == 0:
        return Measured(value, numerator, _NONE, base.roots)
    modulus = value.primes.modulus
    key = base.residue.value * base.divisors.value(modulus) % modulus
    return Measured(value, numerator, _power_of(key, base.numerator, -power), base.roots)


@lru_cache(maxsize=2**16)
def _power_of(key: int, degree: int, power: int) -> Divisors:
    return Divisors({key: (degree, power)})


LEAST_BITS = 40
"""A bound with fewer bits is none that a finding rests on."""

MOST_POINTS = 64
"""How many points are looked at before a bound that is too low is given up."""


MORE_POINTS = 3
"""How many points are looked at in search of the other answer of a comparison."""


@dataclass
class FailureBound:
    """What the points of a check are worth: how likely a difference is missed that shows at their sizes.

    degree: the largest of a difference among those that were looked at; each: for every point whose sizes tell axes
    apart, the bits that it gives; signs: the most signs of possible squares that one number has; seen: what comparisons
    said at all points; edges: how many points there were beside, at sizes of 1 and equal ones; seed: of the run.
    """

    degree: int = 0
    each: list[float] = field(default_factory=list)
    signs: int = 0
    seen: Seen = field(default_factory=dict)
    edges: int = 0
    seed: int = 0

    def note(self, sides: Sides, arithmetic: Degrees) -> None:
        """Two sides at a point, number by number."""
        order, known = math.log2(arithmetic.field.primes.order), dict[int, tuple[int, int]]()
        degree_bits, most = math.inf, 0
        for pairs in sides.values():
            for numbers in pairs:  # what is undefined differs from every number, and is missed nowhere
                some = [x for x in numbers if isinstance(x, Measured)]
                degree, uses = sum(x.degree for x in some), 0
                for x in some:
                    uses |= x.roots
                if uses not in known:
                    known[uses] = arithmetic.roots.counted(uses)
                free, signed = known[uses]
                self.degree, most = max(self.degree, degree), max(most, signed)
                degree_bits = min(degree_bits, order - math.log2(max(degree, 1)) - 2 * free)
        self.signs = max(self.signs, most)
        missed = min(2.0**-degree_bits + (1 - 2.0**-most), 1.0) if most else min(2.0**-degree_bits, 1.0)
        self.each.append(-math.log2(missed) if missed else order)

    @property
    def everywhere(self) -> bool:
        """Whether the bound holds at each point, and not at all of them together."""
        return min(self.each, default=0) >= LEAST_BITS

    @property
    def bits(self) -> int:
        """A difference is missed with probability below 2 to the power of minus this, if it shows at the sizes."""
        return math.floor(min(self.each) if self.everywhere else sum(self.each))

    @property
    def refused(self) -> str:
        """Why it is no bound that a finding rests on, in words; empty where it is one."""
        if self.bits >= LEAST_BITS:
            return ""
        why = f"{self.signs} of its roots may be those of squares, with signs that only more points tell"
        return (
            f"a difference is missed with probability up to {2.0 ** -sum(self.each):.2g} at {len(self.each)} points: "
            f"{why if self.signs else f'its degree {self.degree} is large for the field'} (seed {self.seed})"
        )

    @property
    def one_sided(self) -> list[str]:
        """The comparisons that said the same at all points."""
        return sorted(str(condition) for condition, answers in self.seen.items() if len(answers) < 2)

    def __str__(self) -> str:
        told = [f"seed {self.seed}"]
        if self.each:
            count, power = len(self.each), superscript(-self.bits)
            where = f"at each of {count} points" if self.everywhere else f"at {count} points together"
            told = [f"a difference is missed with probability below 2{power} {where} (degree {self.degree})", *told]
        if self.edges:
            told.append(f"{self.edges} points more at sizes of 1 and equal sizes")
        if self.one_sided:
            told.append(f"said the same at all points: {', '.join(self.one_sided)}")
        return "; ".join(told)


def looked_at(wrong_at: Callable[[int, int, FailureBound], list[str]], seed: int, bound: FailureBound) -> list[str]:
    """What is wrong at the points of a check: of a seed for each, its number, and a bound that takes notes.

    There are points of three draws of sizes and whole numbers, and two at the edge. Where they are worth too little,
    or a comparison said the same at all of them, more are looked at.
    """
    bound.seed, wrong = seed, dict[str, None]()
    for number in range(MOST_POINTS):
        if number > EQUAL and (wrong or not (_answers_wanted(bound, number) or _bits_wanted(bound))):
            break
        try:
            wrong |= dict.fromkeys(wrong_at(derived_seed(seed, "point", number), number, bound))
        except (UndefinedError, OutsideError):
            if not is_edge(number):
                raise
            continue  # it is not defined at such sizes
        bound.edges += is_edge(number)
    return list(wrong)


def _answers_wanted(bound: FailureBound, number: int) -> bool:
    """Whether a few points more are wanted because of comparisons that said one thing only.

    Nothing is −∞ in rational numbers, so none of their points would change what is said of it.
    """
    asked = (c for c, answers in bound.seen.items() if len(answers) < 2 and (bound.each or not c.has(sp.oo, -sp.oo)))
    return number <= EQUAL + MORE_POINTS and any(True for _ in asked)


def _bits_wanted(bound: FailureBound) -> bool:
    """Whether the points are worth too little, and as many as may be looked at can be worth enough."""
    return bool(bound.each) and bound.bits < LEAST_BITS <= sum(bound.each) / len(bound.each) * MOST_POINTS
