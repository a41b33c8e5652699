"""The evaluator: a program's definitions on whole arrays, and the bare chain rule back through them.

It reads forward definitions and nothing else: no derivation, no lowering, no printer, no proof. The cotangent of every
tensor is the sum of what each of its uses hands back, ``dX[p] = Σ_y dY[y] · ∂f/∂X[p]``, without any rewriting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from derive.algebra.axes import Axis
from derive.algebra.tensors import Delta, Entry, Indicator
from derive.errors import AlgebraError
from numeric.oracle.discrete import Outside, Scope, Whole, hidden_by, whole
from numeric.oracle.labelled import Label, Mask, arranged, kept, union
from numeric.oracle.plan import Plan, Planned
from numeric.oracle.steps import Step
from numeric.oracle.terms import Gated, Term, gathered_cotangent, pulled

LARGE = 2**31
"""Parameters beyond this are counted with in integers of any size."""


class Machine:
    """One evaluation of a program in one kind of numbers.

    ``tensors`` and ``integers`` hold inputs and definitions, labelled by their own axes and by numbered leading axes;
    ``cotangents`` what the chain rule gives for each.
    """

    def __init__(
        self, plan: Plan, kind: Any, sizes: Mapping[Label, int], parameters: Mapping[str, Any], *, rounds: bool = False
    ) -> None:
        self.plan, self.kind, self.rounds = plan, kind, rounds
        self.tensors: dict[str, Term] = {}
        self.integers: dict[str, Whole] = {}
        self.runs: dict[str, Run] = {}
        self.arriving: dict[str, list[Term]] = {}
        self.cotangents: dict[str, Term] = {}
        program = plan.program
        self.axes: dict[str, tuple[Axis, ...]] = {i.name: i.axes for i in program.inputs}
        self.axes |= {d.name: d.axes for d in program.definitions}
        counted: dict[sp.Basic, int] = {s: int(sizes[str(s)]) for s in program.sizes}
        self.real: dict[sp.Basic, sp.Expr] = {s: sp.Integer(n) for s, n in counted.items()}
        for p in program.parameters:
            default = p.default.xreplace({s: sp.Integer(max(n, 1)) for s, n in counted.items()})
            value = sp.sympify(parameters[p.name]) if p.name in parameters else default
            self.real[p.symbol] = sp.Rational(value) if value.is_Float else value
        counted |= {p.symbol: int(self.real[p.symbol]) for p in program.parameters if p.symbol.is_integer}
        self.sizes: dict[Label, int] = {label: n for label, n in sizes.items() if isinstance(label, int)}
        large = any(abs(value) > LARGE for value in counted.values())
        self.scope = Scope(self.sizes, counted, self.integers, self.axes, large)
        for axis in _axes_of(plan):
            self.sizes[axis] = self.scope.length(axis.size)

    def forward(self) -> None:
        """Evaluate every definition.

        Raises
        ------
        OutsideError: an entry is read that its tensor does not have, and nothing hides it.
        """
        with np.errstate(all="ignore"):
            for planned in self.plan.definitions:
                self._define(planned)

    def _define(self, planned: Planned) -> None:
        run = self.runs[planned.name] = Run(self, planned)
        if planned.counted is not None:
            found = whole(planned.counted, self.scope)
            _refuse(found.outside)
            self.integers[planned.name] = Whole(_whole_numbers(found), found.labels)
            return
        for step in planned.steps:
            run.values.append(step.forward(run))
        if planned.gates:
            gated = run.gated(planned.gates)
            _refuse(gated.outside)
            self.integers[planned.name] = _shown(gated)
            return
        term = run.values[planned.result]
        _refuse(term.outside)
        self.tensors[planned.name] = Term(self.kind.rounded(term.array, "value"), term.hidden)

    def backward(self, seeds: Mapping[str, Term]) -> None:
        """The chain rule, from cotangents of outputs to those of every definition and input."""
        for name, seed in seeds.items():
            self.receive(name, seed)
        with np.errstate(all="ignore"):
            for planned in reversed(self.plan.definitions):
                if planned.moves and self.arriving.get(planned.name):
                    self._differentiate(planned)
            for given in self.plan.program.inputs:
                if self.arriving.get(given.name):
                    self._collect(given.name)

    def receive(self, name: str, cotangent: Term) -> None:
        """Part of a tensor's cotangent."""
        self.arriving.setdefault(name, []).append(cotangent)

    def _collect(self, name: str) -> Term:
        term = gathered_cotangent(self.kind, self.arriving.pop(name))
        self.cotangents[name] = Term(self.kind.rounded(term.array, "value"), term.hidden, (), term.given)
        return self.cotangents[name]

    def _differentiate(self, planned: Planned) -> None:
        run = self.runs[planned.name]
        arrived, over = self._collect(planned.name), set(planned.definition.axes) - planned.steps[planned.result].axes
        if over:  # a value that is the same along some axes
            arrived = pulled(self.kind, [arrived], run.no_gates, (), over, self.sizes)
        waiting: dict[int, list[Term]] = {planned.result: [arrived]}

        def give(k: int, term: Term) -> None:
            waiting.setdefault(k, []).append(term)

        for k in range(len(planned.steps) - 1, -1, -1):
            if k in waiting:
                step = planned.steps[k]
                cotangent = gathered_cotangent(self.kind, waiting.pop(k))
                step.backward(run, run.values[k], self.adjusted(planned, k, cotangent), give)

    def adjusted(self, planned: Planned, k: int, cotangent: Term) -> Term:
        """A step's cotangent as it is; what follows roundings may blur it."""
        return cotangent


@dataclass
class Run:
    """The evaluation of one definition: the terms of its steps."""

    machine: Machine
    planned: Planned
    values: list[Term] = field(default_factory=list)
    masks: dict[sp.Expr, Gated] = field(default_factory=dict)

    no_gates = Gated()

    @property
    def kind(self) -> Any:
        """The kind of numbers."""
        return self.machine.kind

    @property
    def steps(self) -> Sequence[Step]:
        """The definition's steps."""
        return self.planned.steps

    @property
    def sizes(self) -> Mapping[Label, int]:
        """The lengths of all axes."""
        return self.machine.sizes

    @property
    def scope(self) -> Scope:
        """What is counted."""
        return self.machine.scope

    @property
    def follows_roundings(self) -> bool:
        """Whether the kind of numbers follows roundings."""
        return self.machine.rounds

    def gated(self, gates: Sequence[sp.Expr]) -> Gated:
        """Where 0/1 factors hide."""
        found = [self._gate(gate) for gate in gates]
        return Gated(
            tuple(mask for one in found for mask in one.hidden), tuple(o for one in found for o in one.outside)
        )

    def _gate(self, gate: sp.Expr) -> Gated:
        if gate not in self.masks:
            mask, outside = self._hidden(gate)
            shown = kept(mask)
            self.masks[gate] = Gated(() if shown is None else (shown,), outside)
        return self.masks[gate]

    def _hidden(self, gate: sp.Expr) -> tuple[Mask, tuple[Outside, ...]]:
        if isinstance(gate, Indicator):
            real = {side: self._side(k) for side, k in self.planned.sides.items() if k < len(self.values)}
            return hidden_by(gate.args[0], self.scope, real)
        if not isinstance(gate, (Entry, Delta)):
            raise AlgebraError(f"{gate} is no 0/1 factor")
        found = whole(gate, self.scope)
        return Mask(np.asarray(found.top == 0, dtype=bool), found.labels), found.outside

    def _side(self, k: int) -> tuple[Any, tuple[Label, ...]]:
        array = self.values[k].array
        return self.kind.compared(array), array.labels


def _axes_of(plan: Plan) -> set[Axis]:
    """Every axis that a program mentions, those of sums too."""
    program = plan.program
    found = {axis for given in program.inputs for axis in given.axes}
    for definition in program.definitions:
        found |= {*definition.axes, *sp.sympify(definition.value).atoms(Axis)}
    return found


def _refuse(outside: Sequence[Outside]) -> None:
    for one in outside:
        one.refuse()


def _whole_numbers(found: Whole) -> Any:
    return found.top if found.bottom is None else np.asarray(found.top // found.bottom)


def _shown(gated: Gated) -> Whole:
    """1 where nothing hides, else 0."""
    labels = union(*(mask.labels for mask in gated.hidden))
    data = np.ones((1,) * len(labels), dtype=bool)
    for mask in gated.hidden:
        data = data & ~arranged(mask.data, mask.labels, labels)
    return Whole(np.asarray(data).astype(np.int64), labels)
