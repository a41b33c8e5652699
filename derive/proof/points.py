"""Points at which programs and statements are evaluated: sizes, whole numbers, thresholds, and everything else given.

A check has several points, told apart by their numbers. The sizes of most are pairwise distinct, so that swapped axes
show; at :data:`ALONE` some are 1, at :data:`EQUAL` all are one number. Integer parameters are near their defaults, then
too small to matter, then beyond every size; integers and real numbers that are compared with a constant are drawn
around it too. What the comparisons of a program said is kept (:class:`Seen`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import sympy as sp

from derive.algebra import Entry
from derive.forward.program import Definition, Input, Program
from derive.proof.arithmetic import Arithmetic, Number, UndefinedError
from derive.proof.compared import integers_compared, near_thresholds, usual, whole_number
from derive.proof.fields import derived_seed
from derive.proof.interpreter import Machine, Nested, OutsideError, Seen
from derive.proof.roots import NoRootError, Roots

POSITIONS = 3
"""Positions, buckets and documents are drawn below this."""

ALONE, EQUAL = 3, 4
"""The numbers of two points: at one some sizes are 1, at the other all sizes are one number."""

ATTEMPTS, EDGE_ATTEMPTS = 8, 2
"""How often a point is drawn anew at which something does not exist; at the edge it may be that nothing exists."""

Answer = TypeVar("Answer")


def is_edge(number: int) -> bool:
    """Whether a point of a check has sizes at which little is told apart: it may refute, and counts for nothing."""
    return number in (ALONE, EQUAL)


def where_defined(attempt: Callable[[int], Answer], seed: int, attempts: int = ATTEMPTS) -> Answer:
    """The first attempt, over derived seeds, at whose random point every root and quotient exists."""
    for number in range(attempts):
        try:
            return attempt(derived_seed(seed, "again", number) if number else seed)
        except UndefinedError:
            continue
    raise UndefinedError("no random point was found at which every root and quotient exists")


# Sizes.


def sizes_at(program: Program, seed: int, number: int, *, rational: bool) -> dict[str, int]:
    """The sizes of a point of a check, by its number; in rational numbers sizes under a root are squares."""
    chance = random.Random(derived_seed(seed, "sizes", number))
    return at_the_edge(small_sizes(program, seed), number, chance, 4 if rational and rooted_sizes(program) else 2)


def at_the_edge(sizes: dict[str, int], number: int, chance: random.Random, equal: int) -> dict[str, int]:
    """Sizes as they are, but at two points: some of them 1, and all of them one number."""
    if number == EQUAL:
        return dict.fromkeys(sizes, equal)
    if number != ALONE or not sizes:
        return sizes
    alone = chance.choice(list(sizes))
    return {n: 1 if n == alone or chance.random() < 0.5 else length for n, length in sizes.items()}


def small_sizes(program: Program, seed: int, least: int = 2) -> dict[str, int]:
    """Pairwise distinct sizes for every size of a program, none below the least, so that swapped axes show.

    Sizes under a root are squares, so that the root is rational; the axes of roots of tensors are short, because half
    of a finite field has no root.
    """
    shapes = (s for i in program.inputs for s in i.tensor.shape if not s.is_Integer)
    names = list(dict.fromkeys(map(str, (*shapes, *program.sizes))))
    rooted = rooted_sizes(program) & set(names)
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


def rooted_sizes(program: Program) -> set[str]:
    """The names of the sizes that stand under a root."""
    powers = {power for d in program.definitions for power in d.value.atoms(sp.Pow) if power.exp.is_Rational}
    sized = (power.base for power in powers if power.exp.q == 2 and not power.base.atoms(Entry))
    return {str(s) for base in sized for s in base.free_symbols}


# Everything that is given.


@dataclass
class _Stretch:
    """Definitions up to one that may be undefined, and the inputs that they are the first to use."""

    inputs: list[Input] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)


PARAMETERS = 5
"""How often integer parameters are drawn: at some a program is not defined."""

USUAL = (0, 1, 2, 4, 8)
"""What is added to their defaults in turn after that, until no index lies outside of a tensor."""

FAILURES = 40
"""How often inputs are drawn at most that a later stretch of definitions finds no roots for."""

UNDEFINED = 200
"""How often a quotient may have no value at what is drawn for one point: some programs divide by 0 at all points."""

ROOTS = 64
"""How often real parameters are drawn at most, until those that stand under a root have one."""


def random_point(
    program: Program,
    sizes: Mapping[str, int],
    chance: random.Random,
    arithmetic: Arithmetic,
    draw: Callable[[random.Random], Number],
    *,
    draw_parameter: Callable[[random.Random], Number] | None = None,
    visible: float = 0.7,
    hiding: float = 0.0,
    number: int = 0,
    seen: Seen | None = None,
) -> tuple[dict[str, Nested], dict[str, Number]]:
    """Random inputs and parameters at which every definition is defined, of an arithmetic's own random numbers.

    Half of a field has no square root. Where a root or a quotient does not exist, the inputs since the one before
    are drawn again, so that a program with many roots takes the sum of their tries and not the product. ``visible`` is
    the chance that a 0/1 entry is 1, ``hiding`` that an entry which may be infinite is −∞; ``number`` says which point
    of a check it is, and ``seen`` takes note of what comparisons said.
    """
    measure = draw_parameter or draw
    whole = [p for p in program.parameters if p.symbol.is_integer]
    real = [p.name for p in program.parameters if not p.symbol.is_integer]
    for beyond in (*[None] * PARAMETERS, *USUAL) if whole else (0,):
        near = beyond is not None
        integers = {
            p.name: whole_number(p, sizes, chance, number) if beyond is None else usual(p, sizes) + beyond
            for p in whole
        }
        for _ in range(ROOTS):
            parameters = {**{name: measure(chance) for name in real}, **integers}
            here: Seen = {}
            machine = Machine(program, arithmetic, dict(sizes), here)
            machine.take_parameters(parameters)
            drawing = _Drawing(program, sizes, chance, machine, draw, visible, hiding, parameters, patient=near)
            try:
                inputs = drawing.inputs()
            except NoRootError:
                continue  # of a parameter
            except (UndefinedError, OutsideError, ZeroDivisionError) as error:
                if near and (not isinstance(error, OutsideError) or not whole or beyond == USUAL[-1]):
                    raise
                break
            if seen is not None:
                for condition, answers in here.items():
                    seen.setdefault(condition, set()).update(answers)
            return inputs, parameters
    raise UndefinedError("no parameters were found at which the program is defined")


class _Drawing:
    """Inputs of a program, drawn again where a root or a quotient does not exist."""

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        chance: random.Random,
        machine: Machine,
        draw: Callable[[random.Random], Number],
        visible: float,
        hiding: float,
        parameters: Mapping[str, Any],
        *,
        patient: bool,
    ) -> None:
        self.program, self.sizes, self.chance, self.machine = program, sizes, chance, machine
        self.visible, self.hiding, self.patient = visible, hiding, patient
        self.roots: Roots = getattr(machine.arithmetic, "roots", None) or Roots()
        self.roots.forget(0)
        self.variables = {getattr(value, "value", None) for value in parameters.values()}
        self.kept: dict[str, Nested] = {}
        self.undefined = 0
        self.integers = integers_compared(program, parameters, sizes)
        self.draw = near_thresholds(program, draw, machine.arithmetic.number)

    def inputs(self) -> dict[str, Nested]:
        """All inputs, in stretches."""
        stretches, at, failures = _stretches(self.program), 0, 0
        starts: list[int] = []
        while at < len(stretches):
            del starts[at:]
            starts.append(len(self.roots.place))
            stretch = stretches[at]
            if self._drawn_well(stretch, starts[at]):
                at += 1
                continue
            self.roots.forget(starts[at])
            failures += 1
            if (at == 0 and failures > 3) or failures > FAILURES or not self.patient:
                raise UndefinedError("no random point was found at which every root and quotient exists")
            at = max(at - 1, 0)
            self.roots.forget(starts[at])
        return self.kept

    def _drawn_well(self, stretch: _Stretch, start: int) -> bool:
        """Draw a stretch's inputs until everything exists; False if that takes too many tries."""
        roots, free, everything, missed = self.roots, set[int](), True, set[int]()
        for tries in range(1, 200 if self.patient else 12):
            roots.forget(start)
            if everything:
                free.clear()
            self._take(stretch.inputs, everything)
            try:
                rooted = self._define(stretch.definitions)
            except NoRootError as missing:
                if missing.radicand in self.variables:
                    raise
                if missing.radicand in missed:
                    return False  # it depends on nothing that is drawn here
                missed.add(missing.radicand)
                free.add(missing.place)
                everything = tries % 50 == 0
            except UndefinedError:
                everything = True
                self.undefined += 1
                if self.undefined > UNDEFINED:
                    raise
            else:
                self._look_for_free(stretch, rooted, start, free, tries)
                return True
            if not stretch.inputs:
                return False
        return False

    def _define(self, definitions: Sequence[Definition]) -> int:
        """Evaluate definitions; returned is how many there are up to the last that takes a root that is new."""
        rooted = 0
        for at, definition in enumerate(definitions, 1):
            before = len(self.roots.place)
            self.machine.define(definition.target, definition.value)
            if len(self.roots.place) > before:
                rooted = at
        return rooted

    def _look_for_free(self, stretch: _Stretch, rooted: int, start: int, free: set[int], tries: int) -> None:
        """Draw on, with the same integers, to see which roots do not always exist; then return to what was drawn."""
        variables = {place for radicand, place in self.roots.place.items() if radicand in self.variables}
        wanted, free = set(range(start, len(self.roots.place))), free | variables
        kept = {given.name: self.kept[given.name] for given in stretch.inputs}
        for _ in range(64 + 8 * tries):
            if wanted <= free or not any(map(_is_real, stretch.inputs)):
                break
            self.roots.forget(start)
            self._take(stretch.inputs, everything=False)
            try:
                self._define(stretch.definitions[:rooted])
            except NoRootError as missing:
                free.add(missing.place)
            except UndefinedError:
                continue
        if any(self.kept[name] is not nested for name, nested in kept.items()):
            self.roots.forget(start)
            for given in stretch.inputs:
                self.kept[given.name] = kept[given.name]
                self.machine.take_input(given, kept[given.name])
            self._define(stretch.definitions)
        self.roots.free |= wanted & free

    def _take(self, inputs: Sequence[Input], everything: bool) -> None:
        for given in inputs:
            if everything or _is_real(given):
                self.kept[given.name] = self._drawn(given)
                self.machine.take_input(given, self.kept[given.name])

    def _drawn(self, given: Input) -> Nested:
        shape, chance = lengths(given.tensor.shape, self.sizes), self.chance
        if given.tensor.boolean:
            return filled(shape, lambda: int(chance.random() < self.visible))
        if given.tensor.discrete:
            least = -1 if given.negative or given.below is None else 0
            whole = range(least, below(given, self.sizes))
            some = self.integers if given.below is None else ()
            return filled(shape, lambda: chance.choice(some if some and chance.random() < 0.5 else whole))
        if self.hiding and given.tensor.values == "extended":
            return filled(shape, lambda: -sp.oo if chance.random() < self.hiding else self.draw(chance))
        return filled(shape, partial(self.draw, chance))


def _is_real(given: Input) -> bool:
    return not given.tensor.discrete


def _stretches(program: Program) -> list[_Stretch]:
    """The program in stretches; the last takes the inputs that no definition uses.

    A stretch without inputs of its own goes with the one before: nothing in it can be drawn again.
    """
    waiting = {i.tensor: i for i in program.inputs}
    stretches, open_ = [_Stretch()], False
    for definition in program.definitions:
        used = [t for t in waiting if definition.mentions(t)]
        if open_ and any(_is_real(waiting[t]) for t in used):
            stretches.append(_Stretch())
            open_ = False
        stretches[-1].inputs += [waiting.pop(t) for t in used]
        stretches[-1].definitions.append(definition)
        powers = (p.exp for p in definition.value.atoms(sp.Pow) if p.base.atoms(Entry))
        open_ = open_ or any(not e.is_Integer or e.is_negative for e in powers)
    stretches[-1].inputs += waiting.values()
    return stretches


def lengths(shape: Iterable[sp.Expr], sizes: Mapping[str, int]) -> list[int]:
    """Symbolic sizes as numbers."""
    return [int(size) if size.is_Integer else sizes[str(size)] for size in shape]


def below(given: Input, sizes: Mapping[str, int]) -> int:
    """What the entries of an integer input are drawn below."""
    return POSITIONS if given.below is None else sizes[str(given.below)]


def filled(shape: Sequence[int], draw: Callable[[], Any]) -> Nested:
    """A nested list of the given shape, entries drawn in order."""
    if not shape:
        return draw()
    return [filled(shape[1:], draw) for _ in range(shape[0])]


def entries(nested: Nested, rank: int) -> list[Any]:
    """The entries of a nested list, in order."""
    if rank == 0:
        return [nested]
    return [entry for part in nested for entry in entries(part, rank - 1)]
