"""Stabilisation: subtract the largest score before exponentiating.

Allowed by the shift invariance of every quotient of sums of exponentials; the pass shows the invariance
again for the program at hand. A sum Σ exp(s) becomes Peak · Σ exp(s − max) with Peak = exp(max), every
exp(s)/Peak folds into the shifted weights, log Peak is max, and no Peak may be left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import sympy as sp

from derive.algebra import Axis, Entry, Maximum, Supremum, Tensor, Total, Visible, factor_common, fold, free_axes
from derive.algebra.binders import rewrite
from derive.algebra.fold import Equation
from derive.algebra.templates import in_order, lettered, template
from derive.errors import LoweringError
from derive.forward.naming import unused
from derive.forward.program import Definition, Program

RELIES_ON = "shift invariance"


class Peak(sp.Function):
    """exp of a row's largest score, while it waits to cancel."""

    nargs = 1

    def _eval_is_positive(self) -> bool:
        return True


@dataclass(frozen=True)
class Part:
    """The weights of some scores relative to their shift.

    ``unshifted`` spells the weights with Peak, ``bare`` is the exponential alone, which must not remain.
    """

    weights: Definition
    unshifted: sp.Expr
    bare: sp.Expr


@dataclass(frozen=True)
class Shift:
    """A largest score, the weights relative to it, and their sum; several kinds of scores may share one."""

    largest: Definition
    parts: tuple[Part, ...]
    total: Definition

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """In the order in which they are computed."""
        return self.largest, *(part.weights for part in self.parts), self.total


def stabilise(program: Program) -> Program:
    """One program, stabilised; see :func:`stabilise_together`."""
    return stabilise_together(program).programs[0]


@dataclass(frozen=True)
class Stable:
    """Stabilised programs, and the names of the definitions that are shifts: any numbers would do in their place."""

    programs: tuple[Program, ...]
    shifts: tuple[str, ...]


def stabilise_together(*programs: Program) -> Stable:
    """The programs, run one after another, with every sum of exponentials relative to its largest visible score.

    Each kind of sum gives three definitions where it is first met: the largest score ``S_max``, the shifted
    weights ``E`` and their sum ``Z``; later programs use the same. A sum of exponentials that tensors multiply, as in
    Σ W exp(s), is made relative to its largest score too, unless its value depends on that: then it stays as it is.

    Raises
    ------
    LoweringError: a definition whose value depends on the shift.
    """
    try:
        return _stabilised(programs, weighted=True)
    except LoweringError:
        return _stabilised(programs, weighted=False)


def _stabilised(programs: Sequence[Program], *, weighted: bool) -> Stable:
    stabiliser = _Stabiliser(set().union(*(p.names for p in programs)), weighted)
    stable = tuple([stabiliser.stable_program(program) for program in programs])
    return Stable(stable, tuple(shift.largest.name for shift in stabiliser.shifts.values()))


@dataclass
class _Stabiliser:
    taken: set[str]
    weighted: bool
    shifts: dict[sp.Expr, Shift] = field(default_factory=dict)

    def stable_program(self, program: Program) -> Program:
        """The program with stable definitions, and the shifts that it is the first to need before them."""
        definitions: list[Definition] = []
        for definition in program.definitions:
            known = len(self.shifts)
            stable = self.stable(definition)
            definitions += [part for shift in list(self.shifts.values())[known:] for part in shift.definitions]
            definitions.append(stable)
        return replace(program, definitions=tuple(definitions))

    def stable(self, definition: Definition) -> Definition:
        """The definition in terms of shifted weights: every Peak cancels, and no bare exponential is left."""
        if not definition.value.has(sp.exp):
            return definition
        value = rewrite(definition.value, partial(self._joint, definition))
        for pure in (True, False):  # a sum of weights alone makes the shift, and weighted sums then share it
            value = rewrite(value, partial(self._within, definition, pure))
        if value == definition.value:
            return definition
        value = sp.expand_log(value)
        value = rewrite(value, lambda e: e.args[0].args[0] if isinstance(e, sp.log) and _is_peak(e.args[0]) else e)
        shifts = list(self.shifts.values())
        value = fold(value, self._weights())
        value = fold(value, [(s.total.target, s.total.value) for s in shifts])
        shifted = {peak.args[0].base for peak in value.atoms(Peak)}
        for shift in shifts:
            if any(fold(value, [(part.weights.target, part.bare)]) != value for part in shift.parts):
                shifted.add(shift.largest.target.base)
        if shifted:
            scores = ", ".join(str(s.largest.value) for s in shifts if s.largest.target.base in shifted)
            raise LoweringError(
                f"{definition} depends on a shift of the scores {scores}: {RELIES_ON} does not hold for it; "
                "only a quotient by the same sum of exponentials, or its logarithm, can be kept from overflowing; "
                "where this is one, name its scores in a definition of their own"
            )
        return replace(definition, value=factor_common(value))

    def _within(self, definition: Definition, pure: bool, node: sp.Expr) -> sp.Expr:
        """A sum relative to its shift; quotients by inner sums are folded first: Σ_i exp(s)/Σ_j exp(s) sums weights."""
        if not isinstance(node, Total):
            return node
        if node.has(Peak):
            return fold(node, self._weights())
        return self._relative(node, definition, pure)

    def _weights(self) -> list[Equation]:
        return [(part.weights.target, part.unshifted) for s in self.shifts.values() for part in s.parts]

    def _joint(self, definition: Definition, node: sp.Expr) -> sp.Expr:
        """A sum of several sums of exponentials, single ones among them, relative to the largest score of all."""
        summands = [_Summand.of(term) for term in node.args] if isinstance(node, sp.Add) else [None]
        known = [s for s in summands if s is not None]
        if len(known) < len(summands) or not any(s.over for s in known):
            return node
        axes = in_order(node)
        key = template(node, axes)
        if key not in self.shifts:
            names = lettered(axes, definition.axes)
            kept = tuple(names[a] for a in axes)
            parts = [s.renamed(names, definition.axes) for s in known]
            self.shifts[key] = self._shifted(parts, kept, sp.Max(*(s.largest for s in parts)))
        shift = self.shifts[key]
        here = dict(zip(shift.largest.axes, axes, strict=True))
        return Peak(shift.largest.target.xreplace(here)) * shift.total.target.xreplace(here)

    def _shifted(self, summands: Sequence[_Summand], kept: tuple[Axis, ...], largest: sp.Expr) -> Shift:
        """The shift of a sum of summands, whose names it makes up."""
        scores = (s.score for s in summands if isinstance(s.score, Entry) and s.over)
        stem = next((str(score.tensor.name) for score in scores), "score")
        top = self._named(f"{stem}_max", kept)
        parts = tuple(self._part(top, s, (*kept, *s.over)) for s in summands)
        sums = [Total(p.weights.target, *s.over) for p, s in zip(parts, summands, strict=True)]
        return Shift(Definition(top, largest), parts, Definition(self._named("Z", kept), sp.Add(*sums)))

    def _part(self, top: Entry, summand: _Summand, axes: tuple[Axis, ...]) -> Part:
        exponential, gates = sp.exp(summand.score), summand.gates
        weights = Definition(self._named("E", axes), gates * sp.exp(summand.score - top))
        return Part(weights, gates * exponential / Peak(top), exponential)

    def _relative(self, total: Total, definition: Definition, pure: bool) -> sp.Expr:
        """Σ rest · gate · exp(s) as Peak · Σ rest · E, where s varies along the sum."""
        body, bound = total.open()
        factors = sp.Mul.make_args(body)
        scores = [f.args[0] for f in factors if isinstance(f, sp.exp) and f.args[0].has(Entry)]
        over = [a for a in bound if scores and a in free_axes(scores[0])]
        if len(scores) != 1 or len(over) != 1:
            return total
        gated = [f for f in factors if f**2 == f and over[0] in free_axes(f)]
        rest = sp.Mul(*(f for f in factors if f not in (*gated, sp.exp(scores[0]))))
        summand = _Summand(sp.Mul(*gated), scores[0], (over[0],))
        axes = (*(a for a in in_order(summand.score * summand.gates) if a != over[0]), over[0])
        key = template(Maximum(Visible(summand.gates, summand.score), axes[-1]), axes)
        if (rest == 1) != pure or (not pure and key not in self.shifts and not self.weighted):
            return total
        shift = self._shift(key, summand, axes, definition)
        here = dict(zip(shift.parts[0].weights.axes, axes, strict=True))
        peak, weights = Peak(shift.largest.target.xreplace(here)), shift.parts[0].weights.target.xreplace(here)
        return peak * Total(rest * weights, *bound)

    def _shift(self, key: sp.Expr, summand: _Summand, axes: tuple[Axis, ...], definition: Definition) -> Shift:
        """The shift of scores over the last of their axes; the same scores at other axes have the same shift."""
        if key not in self.shifts:
            names = lettered(axes, definition.axes)
            own = _Summand(summand.gates.xreplace(names), summand.score.xreplace(names), (names[axes[-1]],))
            *kept, over = (names[a] for a in axes)
            largest = Maximum(Visible(own.gates, own.score), over)
            self.shifts[key] = self._shifted([own], tuple(kept), largest)
        return self.shifts[key]

    def _named(self, stem: str, axes: tuple[Axis, ...]) -> Entry:
        name = unused(stem, self.taken)
        self.taken.add(name)
        return Tensor(name, *axes)[axes]


@dataclass(frozen=True)
class _Summand:
    """``gates · exp(score)``, summed over one axis or none."""

    gates: sp.Expr
    score: sp.Expr
    over: tuple[Axis, ...]

    @classmethod
    def of(cls, term: sp.Expr) -> _Summand | None:
        """A term as a summand, if it is one."""
        body, over = term.open() if isinstance(term, Total) else (term, ())
        factors = sp.Mul.make_args(body)
        scores = [f.args[0] for f in factors if isinstance(f, sp.exp) and f.args[0].has(Entry)]
        gates = [f for f in factors if not isinstance(f, sp.exp)]
        if len(scores) != 1 or len(over) > 1 or any(f**2 != f for f in gates) or (gates and not over):
            return None
        return cls(sp.Mul(*gates), scores[0], over)

    def renamed(self, names: dict[Axis, Axis], letters: Sequence[Axis]) -> _Summand:
        """With readable letters, for the axis summed over too."""
        names = {**names, **lettered((*names, *self.over), (*letters, *names.values()))} | names
        return _Summand(self.gates.xreplace(names), self.score.xreplace(names), tuple(names[a] for a in self.over))

    @property
    def largest(self) -> sp.Expr:
        """The largest visible score."""
        return Supremum(Visible(self.gates, self.score), *self.over) if self.over else self.score


def _is_peak(expr: sp.Expr) -> bool:
    return isinstance(expr, Peak)
