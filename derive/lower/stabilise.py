"""Stabilisation: subtract the largest score before exponentiating.

Allowed by the shift invariance of every quotient of sums of exponentials; the pass shows the invariance
again for the program at hand. A sum Σ exp(s) becomes Peak · Σ exp(s − max) with Peak = exp(max), every
exp(s)/Peak folds into the shifted weights, log Peak is max, and no Peak may be left.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import sympy as sp

from derive.algebra import Axis, Entry, Maximum, Tensor, Total, Visible, factor_common, fold, free_axes
from derive.algebra.binders import rewrite
from derive.algebra.templates import in_order, lettered, template
from derive.errors import LoweringError
from derive.forward.program import Definition, Program, unused

RELIES_ON = "shift invariance"


class Peak(sp.Function):
    """exp of a row's largest score, while it waits to cancel."""

    nargs = 1

    def _eval_is_positive(self) -> bool:
        return True


@dataclass(frozen=True)
class Shift:
    """A largest score, the weights relative to it, and their sum.

    ``unshifted`` spells the weights with Peak, ``bare`` is the exponential alone, which must not remain.
    """

    largest: Definition
    weights: Definition
    total: Definition
    unshifted: sp.Expr
    bare: sp.Expr

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """In the order in which they are computed."""
        return self.largest, self.weights, self.total


def stabilise(program: Program) -> Program:
    """One program, stabilised; see :func:`stabilise_together`."""
    (stable,) = stabilise_together(program)
    return stable


def stabilise_together(*programs: Program) -> tuple[Program, ...]:
    """The programs, run one after another, with every sum of exponentials relative to its largest visible score.

    Each kind of sum gives three definitions where it is first met: the largest score ``S_max``, the shifted
    weights ``E`` and their sum ``Z``; later programs use the same.

    Raises
    ------
    LoweringError: a definition whose value depends on the shift.
    """
    stabiliser = _Stabiliser(set().union(*(p.names for p in programs)))
    return tuple([stabiliser.stable_program(program) for program in programs])


@dataclass
class _Stabiliser:
    taken: set[str]
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
        value = definition.value
        for pure in (True, False):  # a sum of weights alone makes the shift, and weighted sums then share it
            value = rewrite(value, partial(self._within, definition, pure))
        if value == definition.value:
            return definition
        value = sp.expand_log(value)
        value = rewrite(value, lambda e: e.args[0].args[0] if isinstance(e, sp.log) and _is_peak(e.args[0]) else e)
        shifts = list(self.shifts.values())
        value = fold(value, [(s.weights.target, s.unshifted) for s in shifts])
        value = fold(value, [(s.total.target, s.total.value) for s in shifts])
        shifted = {peak.args[0].base for peak in value.atoms(Peak)}
        shifted |= {s.largest.target.base for s in shifts if fold(value, [(s.weights.target, s.bare)]) != value}
        if shifted:
            scores = ", ".join(str(s.largest.value) for s in shifts if s.largest.target.base in shifted)
            raise LoweringError(
                f"{definition.target} depends on a shift of the scores {scores}: {RELIES_ON} does not hold for it; "
                "divide by the same sum of exponentials, or take its logarithm"
            )
        return replace(definition, value=factor_common(value))

    def _within(self, definition: Definition, pure: bool, node: sp.Expr) -> sp.Expr:
        """A sum relative to its shift; quotients by inner sums are folded first: Σ_i exp(s)/Σ_j exp(s) sums weights."""
        if not isinstance(node, Total):
            return node
        if node.has(Peak):
            return fold(node, [(s.weights.target, s.unshifted) for s in self.shifts.values()])
        return self._relative(node, definition, pure)

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
        gates = sp.Mul(*gated)
        axes = (*(a for a in in_order(scores[0] * gates) if a != over[0]), over[0])
        key = template(Maximum(Visible(gates, scores[0]), axes[-1]), axes)
        if (rest == 1) != pure or (not pure and key not in self.shifts):
            return total
        shift = self._shift(key, scores[0], gates, axes, definition)
        here = dict(zip(shift.weights.axes, axes, strict=True))
        peak, weights = Peak(shift.largest.target.xreplace(here)), shift.weights.target.xreplace(here)
        return peak * Total(rest * weights, *bound)

    def _shift(
        self, key: sp.Expr, score: sp.Expr, gates: sp.Expr, axes: tuple[Axis, ...], definition: Definition
    ) -> Shift:
        """The shift of scores over the last of their axes; the same scores at other axes have the same shift."""
        if key not in self.shifts:
            names = lettered(axes, definition.axes)
            score, gates = score.xreplace(names), gates.xreplace(names)
            *kept, over = (names[a] for a in axes)
            stem = f"{score.tensor.name}_max" if isinstance(score, Entry) else "score_max"
            own = ((stem, tuple(kept)), ("E", (*kept, over)), ("Z", tuple(kept)))
            top, weights, total = (self._named(name, tensor) for name, tensor in own)
            self.shifts[key] = Shift(
                Definition(top, Maximum(Visible(gates, score), over)),
                Definition(weights, gates * sp.exp(score - top)),
                Definition(total, Total(weights, over)),
                gates * sp.exp(score) / Peak(top),
                sp.exp(score),
            )
        return self.shifts[key]

    def _named(self, stem: str, axes: tuple[Axis, ...]) -> Entry:
        name = unused(stem, self.taken)
        self.taken.add(name)
        return Tensor(name, *axes)[axes]


def _is_peak(expr: sp.Expr) -> bool:
    return isinstance(expr, Peak)
