"""Sizes: the rules by which a sample's sizes are chosen for any program, and what bounds them.

A program has any number of sizes, and its arrays have products of several: what a rule asks for is given as far as the
work of the program's definitions at those sizes stays within :data:`WORK`, one size after another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

import sympy as sp

from derive.algebra import Axis, Total
from derive.forward.program import Program
from numeric.oracle.calls import signature_of

WORK = 20_000
"""The most products that a sample's definitions form, summed up: a few tenths of a second for the oracle."""

LIGHT = 8_000
"""The most products of a sample that is there several times, or has leading axes too."""

LENGTHS = ((64, 65, 63), (16, 17, 15), (8, 9, 7))
"""Multiples of the lengths of tiles and of vector registers, one more, and one less; the longest first."""

LARGE = (257, 320, 191, 131, 65, 33, 17)
"""Longer than a tile of 64 or 128 and no multiple of it, or a multiple; the first that the work allows is taken."""

Lengths = dict[str, int]


class Sizes:
    """The sizes of a program, and rules to choose them by.

    A seed turns which size gets which length; every rule gives the same lengths for every seed.
    """

    def __init__(self, program: Program, seed: int = 0) -> None:
        self.names = signature_of(program).sizes
        self.seed = seed
        self._terms = _terms(program)
        self._square = _square(program)
        self._averaged = _averaged(program)

    def work(self, sizes: Mapping[str, int]) -> int:
        """How many products the definitions form at these sizes, about."""
        return sum(math.prod(length(sizes) for length in term) for term in self._terms)

    def distinct(self, turn: int = 0, least: int = 3) -> Lengths:
        """Pairwise distinct and small: no axis can stand for another. As small as they can be where work is large."""
        count = len(self.names)
        sizes = {name: least + (k + turn + self.seed) % count for k, name in enumerate(self.names)}
        return sizes if self.work(sizes) <= LIGHT else self.small(turn)

    def small(self, turn: int = 0) -> Lengths:
        """As small as sizes can be that are not 1, neighbours distinct."""
        return self._at_least({name: 2 + (k + turn + self.seed) % 3 for k, name in enumerate(self.names)})

    def _at_least(self, sizes: Lengths) -> Lengths:
        """Sizes that are averaged over are 3 at least: two numbers less their mean, over their deviation, are ±1, and
        rounding is all that is left of a gradient.
        """
        return {name: max(length, 3) if name in self._averaged else length for name, length in sizes.items()}

    def square(self) -> Iterator[Lengths]:
        """All sizes alike, so that a transpose has the right shape: small, and as long as a vector register."""
        yield dict.fromkeys(self.names, 4)
        if self.work(eight := dict.fromkeys(self.names, 8)) <= WORK:
            yield eight

    def ones(self) -> Iterator[Lengths]:
        """Each size 1 by itself, then all of them."""
        if len(self.names) > 1:
            for turn, name in enumerate(self.names):
                yield {**self.distinct(turn), name: 1}
        yield dict.fromkeys(self.names, 1)

    def tiles(self) -> Iterator[Lengths]:
        """Multiples of 8, 16 and 64, one more and one less: each for every size, as far as the work allows."""
        for turn in range(6):
            half, shift = turn % 2, turn // 2
            wanted = {
                name: tuple(level[(shift + k // 2 + self.seed) % 3] for level in LENGTHS[(k + half) % 2 :])
                for k, name in enumerate(self.names)
            }
            yield self._grown(wanted, self.small(turn), first=turn)

    def large(self) -> Iterator[Lengths]:
        """Each size large by itself, the others small; the least of the large lengths whatever the work."""
        for turn, name in enumerate(self.names):
            least = self._at_least({other: 2 + (k + turn) % 2 for k, other in enumerate(self.names)})
            sizes = self._grown({name: LARGE[(turn + self.seed) % 2 :]}, least, work=4 * WORK)
            yield {**sizes, name: max(sizes[name], LARGE[-1])}

    def pairs(self, longest: tuple[int, int] = (129, 67)) -> Iterator[Lengths]:
        """The two sizes of most definitions long at once, as where blocks of scores are skipped."""
        wanted = {name: (length, length // 2) for name, length in zip(self._square, longest, strict=False)}
        if len(wanted) > 1:
            yield self._grown(wanted, self._at_least(dict.fromkeys(self.names, 2)), work=4 * WORK)

    def _grown(self, wanted: Mapping[str, Sequence[int]], least: Lengths, first: int = 0, work: int = WORK) -> Lengths:
        """Sizes with the first of the wanted lengths that the work allows, one after another; a size without stays."""
        names = list(wanted)
        for k in range(len(names)):
            name = names[(k + first) % len(names)]
            tried = ({**least, name: length} for length in wanted[name])
            least = next((sizes for sizes in tried if self.work(sizes) <= work), least)
        return least


def _square(program: Program) -> tuple[str, ...]:
    """The pair of sizes that most definitions have; those of scores, where there are some."""
    pairs = [tuple(dict.fromkeys(str(a.size) for a in d.axes if a.size.is_Symbol)) for d in program.definitions]
    counted = Counter(pair for names in pairs for pair in combinations(names, 2))
    return max(counted, key=lambda pair: counted[pair], default=())


def _averaged(program: Program) -> set[str]:
    """The sizes that a definition divides by."""
    powers = (power for d in program.definitions for power in d.value.atoms(sp.Pow))
    return {str(power.base) for power in powers if power.base.is_Symbol and power.exp == -1}


Length = Callable[[Mapping[str, int]], int]


def _terms(program: Program) -> list[tuple[Length, ...]]:
    """For each definition and each sum in it, the lengths of the axes whose entries are formed."""
    found: dict[frozenset[Axis], None] = {}
    for definition in program.definitions:
        found[frozenset(definition.axes)] = None
        for total in definition.value.atoms(Total):
            found[frozenset(total.atoms(Axis))] = None
    return [tuple(_length(axis) for axis in sorted(axes, key=str)) for axes in found]


def _length(axis: Axis) -> Length:
    size = axis.size
    if size.is_Integer:
        return lambda sizes: int(size)
    if size.is_Symbol:
        return lambda sizes: sizes[str(size)]
    return lambda sizes: int(size.xreplace({s: sizes[str(s)] for s in size.free_symbols}))
