"""Fingerprints: equality at random points of a finite field, with exp as a homomorphism.

A number is a pair (a mod q, b mod p) where q divides p − 1; exp maps it to gᵃ with g of order q, so that
exp(x + y) = exp x · exp y holds exactly. What has passed through exp has no first part and cannot be
exponentiated again. Two programs that differ as rational functions of degree D in the weights and
inputs agree at a random point with probability at most about D/q (Schwartz and Zippel), q = 2⁶¹ − 1.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import sympy as sp

from derive.algebra import Entry
from derive.errors import AlgebraError
from derive.forward.program import Definition, Input, Program
from derive.proof.arithmetic import ORDERED, Arithmetic, Number, UndefinedError, from_parts
from derive.proof.interpreter import Machine, Nested, interpret
from derive.proof.rationals import read

EXPONENTS = 2**61 - 1
"""The order of the exponent group, a prime."""

MODULUS = 66 * EXPONENTS + 1
"""The field of values, a prime p = 3 mod 4 of which the exponent group's order divides p − 1."""

POSITIONS = 3
"""Positions, buckets and documents are drawn below this."""

GENERATOR = pow(2, 66, MODULUS)
"""An element of order ``EXPONENTS``."""


@dataclass(frozen=True)
class Residue:
    """A number of the field; ``exponent`` is None where it may not be exponentiated."""

    exponent: int | None
    value: int

    def __add__(self, other: Residue) -> Residue:
        known = self.exponent is not None and other.exponent is not None
        exponent = (self.exponent + other.exponent) % EXPONENTS if known else None  # type: ignore[operator]
        return Residue(exponent, (self.value + other.value) % MODULUS)

    def __mul__(self, other: Residue) -> Residue:
        known = self.exponent is not None and other.exponent is not None
        exponent = self.exponent * other.exponent % EXPONENTS if known else None  # type: ignore[operator]
        return Residue(exponent, self.value * other.value % MODULUS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residue) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Hiding(Residue):
    """−∞, which hides: 0 where it is not hidden itself, and −∞ to a condition that asks."""


Answer = TypeVar("Answer")


def where_defined(attempt: Callable[[int], Answer], seed: int) -> Answer:
    """The first attempt, over derived seeds, at whose random point every root and quotient exists."""
    for number in range(8):
        try:
            return attempt(seed + 1000003 * number)
        except UndefinedError:
            continue
    raise AlgebraError("no random point was found at which every root and quotient exists")


def _fixed(*texts: str) -> Residue:
    """A number that looks random and is always the same for the same texts, one for its exponent, one for its value."""
    digests = [int.from_bytes(hashlib.blake2b(t.encode(), digest_size=16).digest(), "big") for t in texts]
    return Residue(digests[0] % EXPONENTS, digests[1] % MODULUS)


class FiniteField:
    """The arithmetic of residues for the interpreter; log and roots are unknown functions of their argument."""

    def number(self, value: Any) -> Residue:
        """An integer or fraction in the field; ±∞ only ever stands where it is hidden, as 0."""
        if isinstance(value, Residue):
            return value
        if value in (sp.oo, -sp.oo):
            return Hiding(0, 0)
        if isinstance(value, sp.Basic) and not value.is_Rational:
            return self._constant(value)
        above, below = read(value)
        return Residue(*(above * pow(below, -1, order) % order for order in (EXPONENTS, MODULUS)))

    def _constant(self, value: sp.Basic) -> Residue:
        """An irrational constant such as π as a fixed random square, so that its root exists."""
        built: Residue | None = from_parts(value, self)
        if built is not None:
            return built
        root = _fixed(str(value), str(value))
        return root * root

    def function(self, function: type[sp.Function], *args: Residue) -> Residue:
        """Exp as a homomorphism; any other function, and exp of what has passed through exp, as a fixed random one."""
        if function in ORDERED:
            raise AlgebraError(f"{function.__name__} has no fingerprint: the elements of a finite field have no order")
        if function is sp.exp and args[0].exponent is not None:
            return Residue(None, pow(GENERATOR, args[0].exponent, MODULUS))
        parts = [a.exponent for a in args], [a.value for a in args]
        drawn = _fixed(*(f"{function.__name__} {part}" for part in parts))
        return drawn if all(a.exponent is not None for a in args) else Residue(None, drawn.value)

    def power(self, base: Residue, exponent: sp.Rational) -> Residue:
        """An integer power; a negative one needs an invertible base."""
        if exponent.q > 2:
            return self.function(sp.Pow, base, self.number(exponent))
        if exponent.q == 2:
            base = self._root(base)
        power = int(exponent.p)
        if power < 0 and 0 in (base.exponent, base.value):
            raise UndefinedError("zero has no inverse")
        first = None if base.exponent is None else pow(base.exponent, power, EXPONENTS)
        return Residue(first, pow(base.value, power, MODULUS))

    def _root(self, base: Residue) -> Residue:
        """A square root in both fields, whose orders are 3 mod 4; half of the elements have none."""
        value = pow(base.value, (MODULUS + 1) // 4, MODULUS)
        if value * value % MODULUS != base.value % MODULUS:
            raise UndefinedError("this element of the field has no square root")
        if base.exponent is None:
            return Residue(None, value)
        first = pow(base.exponent, (EXPONENTS + 1) // 4, EXPONENTS)
        if first * first % EXPONENTS != base.exponent % EXPONENTS:
            raise UndefinedError("this exponent has no square root")
        return Residue(first, value)

    def compared(self, value: Residue) -> sp.Expr:
        """Residues have no order; a condition may ask whether they are finite, and which whole number they are."""
        if isinstance(value, Hiding):
            return -sp.oo
        return sp.Integer(value.value if 2 * value.value < MODULUS else value.value - MODULUS)


class ShiftedField(FiniteField):
    """A field in which scores may be shifted: log and nested exp know what a shift does to arguments met before.

    Where exp is a homomorphism, a shift t needs no more. Of the unknown functions two facts are used,

        log(z · exp(−t)) = log z − t    and    exp(x − t) = exp(x) · exp(−t),

    for the shifts t that were drawn and for z, x at which the function was asked for before. Both are true of the
    real functions, so what agrees by them agrees for a reason; a function's value elsewhere stays a random one.
    """

    def __init__(self) -> None:
        self.shifts: list[tuple[Residue, Residue]] = []
        self.known: dict[type[sp.Function], dict[int, Residue]] = {sp.exp: {}, sp.log: {}}

    def shift(self, chance: random.Random) -> Residue:
        """A random number in place of a row's largest score."""
        drawn = random_residue(chance)
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


@dataclass
class _Stretch:
    """Definitions up to one that may be undefined, and the inputs that they are the first to use."""

    inputs: list[Input]
    definitions: list[Definition]


def random_point(
    program: Program,
    sizes: Mapping[str, int],
    chance: random.Random,
    *,
    arithmetic: Arithmetic | None = None,
    draw: Callable[[random.Random], Number] | None = None,
    draw_parameter: Callable[[random.Random], Number] | None = None,
    visible: float = 0.7,
    hiding: float = 0.0,
) -> tuple[dict[str, Nested], dict[str, Number]]:
    """Random inputs and parameters at which every definition is defined: field elements if not asked otherwise.

    Half of a field has no square root. Where a root or a quotient does not exist, the inputs since the one before
    are drawn again, so that a program with many roots takes the sum of their tries and not the product. ``visible`` is
    the chance that a 0/1 entry is 1, ``hiding`` that an entry which may be infinite is −∞.
    """
    draw = draw or random_residue
    machine = Machine(program, arithmetic or FiniteField(), dict(sizes))
    measure = draw_parameter or draw
    parameters = {p.name: measure(chance) for p in program.parameters if not p.symbol.is_integer}
    counts = (p for p in program.parameters if p.symbol.is_integer and p.default.is_Integer)
    parameters |= {p.name: int(p.default) + chance.choice((0, 0, 1, 2)) for p in counts}
    machine.take_parameters(parameters)
    inputs: dict[str, Nested] = {}
    stretches, at, tries = _stretches(program), 0, 0
    while at < len(stretches):
        stretch = stretches[at]
        for given in stretch.inputs:
            inputs[given.name] = _drawn(given, sizes, chance, draw, visible, hiding)
            machine.take_input(given, inputs[given.name])
        try:
            for definition in stretch.definitions:
                machine.define(definition.target, definition.value)
            at, tries = at + 1, 0
        except UndefinedError:
            tries += 1
            if tries > 600:
                raise
            if not stretch.inputs or tries % 200 == 0:
                at = max(at - 1, 0)
    return inputs, parameters


def _stretches(program: Program) -> list[_Stretch]:
    """The program in stretches; the last takes the inputs that no definition uses."""
    waiting = {i.tensor: i for i in program.inputs}
    stretches = [_Stretch([], [])]
    for definition in program.definitions:
        used = [t for t in waiting if definition.mentions(t)]
        stretches[-1].inputs += [waiting.pop(t) for t in used]
        stretches[-1].definitions.append(definition)
        powers = (p.exp for p in definition.value.atoms(sp.Pow) if p.base.atoms(Entry))
        if any(not e.is_Integer or e.is_negative for e in powers):
            stretches.append(_Stretch([], []))
    stretches[-1].inputs += waiting.values()
    return stretches


def _drawn(
    given: Input,
    sizes: Mapping[str, int],
    chance: random.Random,
    draw: Callable[[random.Random], Number],
    visible: float,
    hiding: float,
) -> Nested:
    shape = lengths(given.tensor.shape, sizes)
    if given.tensor.boolean:
        return filled(shape, lambda: int(chance.random() < visible))
    if given.tensor.discrete:
        least = -1 if given.negative or given.below is None else 0
        return filled(shape, partial(chance.randrange, least, below(given, sizes)))
    if hiding and given.tensor.values == "extended":
        return filled(shape, lambda: -sp.oo if chance.random() < hiding else draw(chance))
    return filled(shape, partial(draw, chance))


def lengths(shape: Iterable[sp.Expr], sizes: Mapping[str, int]) -> list[int]:
    """Symbolic sizes as numbers."""
    return [int(size) if size.is_Integer else sizes[str(size)] for size in shape]


def below(given: Input, sizes: Mapping[str, int]) -> int:
    """What the entries of an integer input are drawn below."""
    return POSITIONS if given.below is None else sizes[str(given.below)]


def random_residue(chance: random.Random) -> Residue:
    """A random number of the field, exponent and value."""
    return Residue(chance.randrange(EXPONENTS), chance.randrange(MODULUS))


def filled(shape: list[int], draw: Any) -> Nested:
    """A nested list of the given shape, entries drawn in order."""
    if not shape:
        return draw()
    return [filled(shape[1:], draw) for _ in range(shape[0])]


def entries(nested: Nested, rank: int) -> list[Any]:
    """The entries of a nested list, in order."""
    if rank == 0:
        return [nested]
    return [entry for part in nested for entry in entries(part, rank - 1)]


Sides = dict[str, list[tuple[Number, Number]]]
"""By result: the two numbers of every entry that should be one."""


def agree(left: Program, right: Program, sizes: Mapping[str, int], seed: int) -> list[str]:
    """The outputs on which two programs of the same inputs differ at a random point; empty where they agree."""
    return differing(both_sides(left, right, sizes, seed, FiniteField()))


def both_sides(
    left: Program,
    right: Program,
    sizes: Mapping[str, int],
    seed: int,
    arithmetic: Arithmetic,
    draw: Callable[[random.Random], Number] | None = None,
) -> Sides:
    """The outputs of two programs of the same inputs at a random point, of the field if not asked otherwise."""
    drawn_in = None if draw is None else arithmetic
    inputs, parameters = random_point(left, sizes, random.Random(seed), arithmetic=drawn_in, draw=draw)
    given: dict[str, Any] = {"sizes": sizes, "parameters": parameters, "arithmetic": arithmetic}
    values = [interpret(p, {i.name: inputs[i.name] for i in p.inputs}, **given) for p in (left, right)]
    return {o.name: paired(values[0][o.name], values[1][o.name], len(o.axes)) for o in left.outputs}


def paired(left: Nested, right: Nested, rank: int) -> list[tuple[Number, Number]]:
    """Two nested lists, entry by entry."""
    return list(zip(entries(left, rank), entries(right, rank), strict=True))


def differing(sides: Sides) -> list[str]:
    """The results of which an entry has two numbers."""
    return [name for name, pairs in sides.items() if any(left != right for left, right in pairs)]


def small_sizes(program: Program, seed: int, least: int = 2) -> dict[str, int]:
    """Pairwise distinct sizes for every size of a program, none below the least, so that swapped axes show.

    Sizes under a root are squares, so that the root is rational; the axes of roots of tensors are short, because half
    of a finite field has no root.
    """
    names = list(dict.fromkeys(str(s) for i in program.inputs for s in i.tensor.shape if not s.is_Integer))
    powers = {power for d in program.definitions for power in d.value.atoms(sp.Pow) if power.exp.is_Rational}
    sized = (power.base for power in powers if power.exp.q == 2 and not power.base.atoms(Entry))
    rooted = {str(s) for base in sized for s in base.free_symbols} & set(names)
    chance = random.Random(seed)
    squares = dict(
        zip(sorted(rooted), chance.sample([k * k for k in range(2, 3 + len(rooted))], len(rooted)), strict=True)
    )
    roots = [
        d
        for d in program.definitions
        if any(p.exp.is_Rational and p.exp.q == 2 and p.base.atoms(Entry) for p in d.value.atoms(sp.Pow))
    ]
    others = [n for n in names if n not in squares]
    free = [k for k in range(least, least + 5 + len(names)) if k not in squares.values()][: max(len(others), 5)]
    rowed = [n for n in others if any(n == str(a.size) for d in roots for a in d.axes)]
    short = dict(zip(rowed, free, strict=False))
    rest = [n for n in others if n not in short]
    free = [k for k in free if k not in short.values()]
    drawn = {**squares, **short, **dict(zip(rest, chance.sample(free, len(rest)), strict=True))}
    return {n: drawn[n] for n in names}
