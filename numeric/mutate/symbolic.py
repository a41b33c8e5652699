"""The symbolic checkers asked about mutants: the prover, with its counterexamples, and fingerprints.

Both compare a mutant with the right program at points: rational ones at which the prover refutes, and random ones of
a finite field. At a point the right definitions are evaluated once; of a mutant only what its mistake reaches is
evaluated again, up to the first output that comes out otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import sympy as sp

from derive.algebra import Entry, canonical
from derive.calculus import Derivation, joined
from derive.errors import AlgebraError
from derive.forward.program import Definition, unfolded
from derive.forward.softmax import recognise
from derive.mistakes import identified_sizes
from derive.proof.arithmetic import Arithmetic, Number, RunningErrors, UndefinedError
from derive.proof.fingerprint import FiniteField
from derive.proof.interpreter import HIDDEN, Machine, OutsideError
from derive.proof.points import random_point, small_sizes, where_defined
from derive.proof.refuter import apart
from derive.proof.statements import Premise, sums_to_one
from derive.proof.verdict import vanishes

POINTS = 16
"""How many random points are tried before a checker gives up; a wrong program agrees at one only by accident."""

Entries = dict[tuple[int, ...], Number]
Same = Callable[[Number, Number], bool]


class Point:
    """A derivation at one point, every definition evaluated."""

    def __init__(
        self,
        right: Derivation,
        sizes: Mapping[str, int],
        arithmetic: Arithmetic,
        draw: Callable[[random.Random], Number],
        measure: Callable[[random.Random], Number],
        seed: int,
        same: Same,
    ) -> None:
        whole = joined(right.forward, right.derived)
        chance = random.Random(seed)
        inputs, parameters = random_point(whole, sizes, chance, arithmetic, draw, draw_parameter=measure, hiding=0.2)
        self.outputs = {o.name for o in (*right.forward.outputs, *right.derived.outputs)}
        self.inputs = [i.tensor for i in right.forward.inputs]
        self.same = same
        self.machine = Machine(whole, arithmetic, dict(sizes))
        self.machine.take_inputs(inputs)
        self.machine.take_parameters(parameters)
        self.right: dict[str, tuple[Definition, Entries]] = {}
        for definition in whole.definitions:
            self.machine.define(definition.target, definition.value)
            self.right[definition.name] = definition, dict(self.machine.tensors[definition.name])

    def tells(self, wrong: Derivation) -> bool:
        """Whether an output or a gradient of a mutant comes out otherwise here, or is not defined where it should be.

        Raises
        ------
        AlgebraError: a definition of the mutant cannot be evaluated in this arithmetic.
        """
        if [i.tensor for i in wrong.forward.inputs] != self.inputs:
            return True  # it takes sizes to be equal that differ here
        spoiled: set[str] = set()
        try:
            for definition in (*wrong.forward.definitions, *wrong.derived.definitions):
                if self._is_as_it_was(definition, spoiled):
                    continue
                spoiled.add(definition.name)
                try:
                    self.machine.define(definition.target, definition.value)
                except (UndefinedError, OutsideError, ZeroDivisionError):
                    return True  # no such root or quotient, or an index outside of a tensor
                if self._agrees(definition.name):
                    spoiled.discard(definition.name)
                elif definition.name in self.outputs:
                    return True
            return False
        finally:
            for name in spoiled & self.right.keys():
                self.machine.keep(name, self.right[name][1])

    def _is_as_it_was(self, definition: Definition, spoiled: set[str]) -> bool:
        known = self.right.get(definition.name)
        if known is None or known[0] != definition:
            return False
        return not any(name in spoiled for name in _read(definition))

    def _agrees(self, name: str) -> bool:
        if name not in self.right:
            return False
        got, want = self.machine.tensors[name], self.right[name][1]
        return got.keys() == want.keys() and all(self._alike(got[at], want[at]) for at in want)

    def _alike(self, got: Number, want: Number) -> bool:
        zero = self.machine.zero
        return self.same(zero if got is HIDDEN else got, zero if want is HIDDEN else want)


def _read(definition: Definition) -> set[str]:
    return {str(t.name) for t in definition.value.atoms(sp.IndexedBase)}


class Points:
    """The points of one derivation, each made when it is first asked for."""

    def __init__(self, make: Callable[[int], Point]) -> None:
        self.make = make
        self.made: list[Point] = []

    def _defined(self, seed: int) -> Point:
        try:
            return self.make(seed)
        except ZeroDivisionError:
            raise UndefinedError("a parameter divides by 0 at this point") from None

    def __iter__(self) -> Iterator[Point]:
        for number in range(POINTS):
            if number == len(self.made):
                self.made.append(where_defined(self._defined, number))
            yield self.made[number]


def rational_points(right: Derivation) -> Points:
    """Points at which the prover refutes: rational numbers, told apart by more than rounding in 50 digits explains."""
    names = list(small_sizes(right.forward, 0))

    def point(seed: int) -> Point:
        least, most = (3, 6) if len(names) < 6 else (2, 4)  # wide programs take long to evaluate
        sizes = {name: least + (k + seed) % (most - least + 1) for k, name in enumerate(names)}
        return Point(right, sizes, RunningErrors(), _fraction, _positive, seed, lambda one, two: not apart(one, two))

    return Points(point)


def field_points(right: Derivation) -> Points:
    """Random points of a finite field, at pairwise distinct sizes."""
    names = small_sizes(right.forward, 0)

    def point(seed: int) -> Point:
        sizes = small_sizes(right.forward, seed, 2 if len(names) > 5 else 3)
        field = FiniteField(seed)
        return Point(right, sizes, field, field.draw, field.draw, seed, lambda one, two: bool(one == two))

    return Points(point)


def _fraction(chance: random.Random) -> Fraction:
    return chance.choice((-1, 1)) * _positive(chance)


def _positive(chance: random.Random) -> Fraction:
    """A parameter: some are bases of powers."""
    return Fraction(chance.randint(1, 7), 4)


def told_apart(points: Points, wrong: Derivation) -> bool | None:
    """Whether one of the points tells a mutant from the right program; None where there is no such point at all."""
    try:
        return any(point.tells(wrong) for point in points)
    except AlgebraError:
        return None


def equal_definitions(right: Derivation, wrong: Derivation) -> bool:
    """Whether every definition has one canonical form in both for all sizes, taken one by one."""
    ours, theirs = _by_name(right), _by_name(wrong)
    if identified_sizes(right, wrong) or ours.keys() != theirs.keys():
        return False
    return all(_vanishes(d.value - theirs[n].value) for n, d in ours.items() if d != theirs[n])


REACH = 4
"""How many definitions a mistake may change, and how many are written out, before a proof of equality is given up."""


def equal_outputs(right: Derivation, wrong: Derivation) -> bool:
    """Whether every output and gradient is proved to be the same for all sizes.

    Definition by definition, with what the mistake changed so far written out: where a definition comes out as it was,
    nothing after it is changed by it. That a shift of a row of scores changes no weights is found that way; that the
    gradients of such a row sum to 0, from Σ A = 1, which supposes that every query sees a key.
    """
    ours, theirs = _by_name(right), _by_name(wrong)
    outputs = {o.name for o in (*right.forward.outputs, *right.derived.outputs)}
    if identified_sizes(right, wrong) or not outputs <= theirs.keys():
        return False
    softmaxes = [(d, s.over) for d in right.forward.definitions if (s := recognise(d)) and s.beside == 0]
    rows = tuple(sums_to_one(d.target.tensor, d.axes, over, f"rows of {d.name} sum to 1") for d, over in softmaxes)
    derived = [d for d in right.derived.definitions if theirs.get(d.name) == d]
    changed: set[str] = set()
    for name, definition in theirs.items():
        known = ours.get(name)
        if known == definition and not _read(definition) & changed:
            continue
        if known is None or not _proved_equal(
            _written_out(known.value, ours, changed), _written_out(definition.value, theirs, changed), derived, rows
        ):
            changed.add(name)
        if changed & outputs or len(changed) > REACH:
            return False
    return True


def _proved_equal(left: sp.Expr, right: sp.Expr, derived: Sequence[Definition], premises: Sequence[Premise]) -> bool:
    """Whether a difference vanishes, once some cotangents are written out: the last first, as they build on the others.

    A cotangent is written out only if it is the same in both programs.
    """
    rest = left - right
    for _ in range(REACH):
        if _vanishes(rest, premises):
            return True
        read = {e.base for e in rest.atoms(Entry)}
        last = next((d for d in reversed(derived) if d.target.base in read), None)
        if last is None:
            return False
        rest = unfolded(rest, [last])
    return _vanishes(rest, premises)


def _vanishes(difference: sp.Expr, premises: Sequence[Premise] = ()) -> bool:
    """Whether a difference is 0 for all sizes: in canonical form, or by a proof."""
    rest = canonical(difference)
    return bool(rest == 0 or vanishes(rest, premises))


def _by_name(derivation: Derivation) -> dict[str, Definition]:
    return {d.name: d for d in (*derivation.forward.definitions, *derivation.derived.definitions)}


def _written_out(value: sp.Expr, known: Mapping[str, Definition], changed: set[str]) -> sp.Expr:
    definitions = [known[name] for name in changed if name in known]
    while (longer := unfolded(value, definitions)) != value:
        value = longer
    return value
