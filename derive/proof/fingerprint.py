"""Fingerprints: equality at random points of a finite field, with exp as a homomorphism.

A number is a pair (a mod q, b mod p) where q divides p − 1; exp maps it to gᵃ with g of order q, so that
exp(x + y) = exp x · exp y holds exactly. What has passed through exp has no first part and cannot be
exponentiated again. Two programs that differ as rational functions of degree D in the weights and
inputs agree at a random point with probability at most about D/q (Schwartz and Zippel). The field, its primes of 95 and
118 bits and the base g, is drawn with the point (:mod:`derive.proof.fields`), so that no program is made for it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from typing import Any

import sympy as sp

from derive.errors import AlgebraError
from derive.forward.program import Program
from derive.proof.arithmetic import ORDERED, Number, UndefinedError, from_parts
from derive.proof.fields import Primes, drawn_primes
from derive.proof.interpreter import Nested, interpret
from derive.proof.points import entries, random_point
from derive.proof.rationals import read
from derive.proof.roots import NoRootError, Roots


class Residue:
    """A number of a field; ``exponent`` is None where it may not be exponentiated."""

    __slots__ = ("exponent", "primes", "value")

    def __init__(self, primes: Primes, exponent: int | None, value: int) -> None:
        self.primes, self.exponent, self.value = primes, exponent, value

    def __add__(self, other: Residue) -> Residue:
        one, two, primes = self.exponent, other.exponent, self.primes
        exponent = None if one is None or two is None else (one + two) % primes.order
        return Residue(primes, exponent, (self.value + other.value) % primes.modulus)

    def __mul__(self, other: Residue) -> Residue:
        one, two, primes = self.exponent, other.exponent, self.primes
        exponent = None if one is None or two is None else one * two % primes.order
        return Residue(primes, exponent, self.value * other.value % primes.modulus)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residue) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Residue({self.exponent}, {self.value})"


class Hiding(Residue):
    """−∞, which hides: 0 where it is not hidden itself, and −∞ to a condition that asks."""

    __slots__ = ()


class FiniteField:
    """The arithmetic of residues for the interpreter; log and roots are unknown functions of their argument.

    ``seed`` gives the field; another one given, this has its elements, and knows of the same roots.
    """

    ordered = False

    def __init__(self, seed: int = 0, like: FiniteField | None = None) -> None:
        self.primes: Primes = drawn_primes(seed) if like is None else like.primes
        self.roots: Roots = Roots() if like is None else like.roots

    def draw(self, chance: random.Random) -> Residue:
        """A random number of the field, exponent and value."""
        return Residue(self.primes, chance.randrange(self.primes.order), chance.randrange(self.primes.modulus))

    def number(self, value: Any) -> Residue:
        """An integer or fraction in the field; ±∞ only ever stands where it is hidden, as 0."""
        if isinstance(value, Residue):
            return value
        order, modulus = self.primes.order, self.primes.modulus
        if value in (sp.oo, -sp.oo):
            return Hiding(self.primes, 0, 0)
        if isinstance(value, sp.Basic) and not value.is_Rational:
            return self._constant(value)
        above, below = read(value)
        if below == 1:
            return Residue(self.primes, above % order, above % modulus)
        return Residue(self.primes, above * pow(below, -1, order) % order, above * pow(below, -1, modulus) % modulus)

    def _constant(self, value: sp.Basic) -> Residue:
        """An irrational constant such as π as a fixed random square, so that its root exists.

        The root of a number is one of two that have the same equation: nothing that was drawn has a sign by it.
        """
        apart = FiniteField(like=self)
        apart.roots = Roots()
        built: Residue | None = from_parts(value, apart)
        if built is not None:
            return built
        root = self._fixed(str(value), str(value))
        return root * root

    def _fixed(self, *texts: str) -> Residue:
        """A number that looks random and is the same for the same texts, one for its exponent, one for its value."""
        key = self.primes.key
        drawn = [hashlib.blake2b(t.encode(), digest_size=24, key=key).digest() for t in texts]
        exponent, value = (int.from_bytes(digest, "big") for digest in drawn)
        return Residue(self.primes, exponent % self.primes.order, value % self.primes.modulus)

    def function(self, function: type[sp.Function], *args: Residue) -> Residue:
        """Exp as a homomorphism; any other function, and exp of what has passed through exp, as a fixed random one."""
        if function in ORDERED:
            raise AlgebraError(f"{function.__name__} has no fingerprint: the elements of a finite field have no order")
        if function is sp.exp and args[0].exponent is not None:
            return Residue(self.primes, None, pow(self.primes.generator, args[0].exponent, self.primes.modulus))
        parts = [a.exponent for a in args], [a.value for a in args]
        drawn = self._fixed(*(f"{function.__name__} {part}" for part in parts))
        return drawn if all(a.exponent is not None for a in args) else Residue(self.primes, None, drawn.value)

    def power(self, base: Residue, exponent: sp.Rational) -> Residue:
        """An integer power; a negative one needs an invertible base."""
        if exponent.q > 2:
            return self.function(sp.Pow, base, self.number(exponent))
        if exponent.q == 2:
            base = self._root(base)
        power = int(exponent.p)
        if power < 0 and 0 in (base.exponent, base.value):
            raise UndefinedError("zero has no inverse")
        first = None if base.exponent is None else pow(base.exponent, power, self.primes.order)
        return Residue(self.primes, first, pow(base.value, power, self.primes.modulus))

    def _root(self, base: Residue) -> Residue:
        """The square root that is a square itself, in both fields; half of the elements have none."""
        place = self.roots.note(base.value)
        value = _square_root(base.value, self.primes.modulus)
        exponent = 0 if base.exponent is None else _square_root(base.exponent, self.primes.order)
        if value is None or exponent is None:
            raise NoRootError(base.value, place)
        return Residue(self.primes, None if base.exponent is None else exponent, value)

    def compared(self, value: Residue) -> sp.Expr:
        """Residues have no order; a condition may ask whether they are finite, and which whole number they are."""
        if isinstance(value, Hiding):
            return -sp.oo
        modulus = self.primes.modulus
        return sp.Integer(value.value if 2 * value.value < modulus else value.value - modulus)


def _square_root(square: int, prime: int) -> int | None:
    """The root that is a square itself, by a prime that is 3 mod 4."""
    root = pow(square, (prime + 1) // 4, prime)
    return root if root * root % prime == square else None


class ShiftedField(FiniteField):
    """A field in which scores may be shifted: log and nested exp know what a shift does to arguments met before.

    Where exp is a homomorphism, a shift t needs no more. Of the unknown functions two facts are used,

        log(z · exp(−t)) = log z − t    and    exp(x − t) = exp(x) · exp(−t),

    for the shifts t that were drawn and for z, x at which the function was asked for before. Both are true of the
    real functions, so what agrees by them agrees for a reason; a function's value elsewhere stays a random one.
    """

    def __init__(self, seed: int = 0, like: FiniteField | None = None) -> None:
        super().__init__(seed, like)
        self.shifts: list[tuple[Residue, Residue]] = []
        self.known: dict[type[sp.Function], dict[int, Residue]] = {sp.exp: {}, sp.log: {}}

    def shift(self, chance: random.Random) -> Residue:
        """A random number in place of a row's largest score."""
        drawn = self.draw(chance)
        self.shifts.append((drawn, super().function(sp.exp, drawn)))
        return drawn

    def function(self, function: type[sp.Function], *args: Residue) -> Residue:
        """As in any field, except at an argument that is a known one, shifted."""
        unknown = function is sp.log or (function is sp.exp and args[0].exponent is None)
        if not unknown or args[0].value in self.known[function]:
            return super().function(function, *args)
        known, minus = self.known[function], self.number(-1)
        for shift, peak in self.shifts:
            before = args[0] * peak if function is sp.log else args[0] + shift
            if before.value in known:
                found = known[before.value]
                return found + minus * shift if function is sp.log else found * self.power(peak, sp.S.NegativeOne)
        return known.setdefault(args[0].value, super().function(function, *args))


Sides = dict[str, list[tuple[Number, Number]]]
"""By result: the two numbers of every entry that should be one."""


def agree(left: Program, right: Program, sizes: Mapping[str, int], seed: int) -> list[str]:
    """The outputs on which two programs of the same inputs differ at a random point; empty where they agree."""
    field = FiniteField(seed)
    inputs, parameters = random_point(left, sizes, random.Random(seed), field, field.draw)
    return differing(both_sides(left, right, inputs, {"sizes": sizes, "parameters": parameters, "arithmetic": field}))


def both_sides(left: Program, right: Program, inputs: Mapping[str, Nested], at: Mapping[str, Any]) -> Sides:
    """The outputs of two programs of the same inputs at a point; sizes, parameters and an arithmetic come with it."""
    values = [interpret(p, {i.name: inputs[i.name] for i in p.inputs}, **at) for p in (left, right)]
    return {o.name: paired(values[0][o.name], values[1][o.name], len(o.axes)) for o in left.outputs}


def paired(left: Nested, right: Nested, rank: int) -> list[tuple[Number, Number]]:
    """Two nested lists, entry by entry."""
    return list(zip(entries(left, rank), entries(right, rank), strict=True))


def differing(sides: Sides) -> list[str]:
    """The results of which an entry has two numbers."""
    return [name for name, pairs in sides.items() if any(left != right for left, right in pairs)]
