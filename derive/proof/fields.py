"""Finite fields drawn at random, with primes that are proved, and the seeds that everything random comes from.

A field that nobody knows before a run cannot be prepared for: no constant of a program is 0 in it but by accident.
A seed gives one field, so a finding can be looked at again.
"""

from __future__ import annotations

import hashlib
import math
import random
import secrets
from dataclasses import dataclass
from functools import lru_cache

SQUARES = (3, 5, 7, 11, 13)
"""Odd primes that are squares in every field, as is 2: what a positive number made of them has, is a root."""

_WHEEL = 8 * math.prod(SQUARES)

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Bases by which Miller and Rabin's test decides every number below 2⁶⁴."""


def fresh_seed() -> int:
    """A seed that nothing else knows, from the operating system."""
    return secrets.randbits(32)


def derived_seed(seed: int, *what: object) -> int:
    """A seed for something of its own, from the seed of a run."""
    text = " ".join(map(str, (seed, *what)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


@dataclass(frozen=True)
class Primes:
    """What a field is made of.

    order: a prime q, the order of the group that exp maps to; modulus: a prime p of which q divides p − 1; generator:
    an element of order q, the base of exp; key: what unknown functions depend on beside their arguments.

    Both primes are 7 mod 8, so that −1 is no square and the root of an element that is one itself can be chosen: roots
    multiply as those of positive numbers do. Numbers made of 2 and :data:`SQUARES` are squares in both.
    """

    order: int
    modulus: int
    generator: int
    key: bytes


@lru_cache(maxsize=256)
def drawn_primes(seed: int) -> Primes:
    """The field of a seed: q has 95 bits, p about 118."""
    chance = random.Random(f"field {seed}")
    small = _small_prime(chance)
    order = _above(small, 2**94, 2**95, chance)
    modulus = _above(order, order << 22, order << 24, chance)
    generator = 1
    while generator == 1:
        generator = pow(chance.randrange(2, modulus), (modulus - 1) // order, modulus)
    return Primes(order, modulus, generator, chance.randbytes(16))


def _small_prime(chance: random.Random) -> int:
    """A prime of 58 bits."""
    while True:
        candidate = chance.randrange(2**57 + 1, 2**58, 2)
        if is_prime_below_2_64(candidate):
            return candidate


def _above(factor: int, least: int, most: int, chance: random.Random) -> int:
    """A prime p with p − 1 a multiple of a known prime, among which residues of :data:`SQUARES` are squares."""
    while True:
        residue = chance.choice(_residues())
        first = (residue - 1) * pow(factor, -1, _WHEEL) % _WHEEL
        step = factor * _WHEEL
        candidate = factor * first + 1 + step * chance.randrange(least // step, most // step + 1)
        if proved_prime(candidate, factor):
            return candidate


@lru_cache(maxsize=1)
def _residues() -> tuple[int, ...]:
    """What p may be, so that 2 and all of :data:`SQUARES` are squares and −1 is none (quadratic reciprocity)."""

    def fits(r: int, s: int) -> bool:
        opposite = s % 4 == 3  # r is 3 mod 4
        return r % s != 0 and (pow(r % s, (s - 1) // 2, s) == 1) != opposite

    return tuple(r for r in range(7, _WHEEL, 8) if all(fits(r, s) for s in SQUARES))


def is_prime_below_2_64(number: int) -> bool:
    """Whether a number below 2⁶⁴ is prime, by Miller and Rabin's test with bases that leave no doubt."""
    if number < 2 or any(number % w == 0 for w in _WITNESSES):
        return number in _WITNESSES
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    return all(_passes(pow(base, odd, number), twos, number) for base in _WITNESSES)


def _passes(power: int, twos: int, number: int) -> bool:
    for _ in range(twos):
        if power in (1, number - 1):
            return True
        power = power * power % number
        if power == 1:
            return False
    return False


def proved_prime(number: int, factor: int) -> bool:
    """Whether a number is proved prime by a prime factor of number − 1 that is above its root (Pocklington)."""
    if factor * factor <= number or (number - 1) % factor or any(number % w == 0 for w in _WITNESSES):
        return False
    return pow(2, number - 1, number) == 1 and any(
        pow(base, number - 1, number) == 1 and math.gcd(pow(base, (number - 1) // factor, number) - 1, number) == 1
        for base in _WITNESSES
    )
