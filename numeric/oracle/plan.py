"""Plans: the definitions of a program as steps, read once from their SymPy expressions.

Nothing is derived, rewritten or simplified here: a definition is evaluated as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import sympy as sp

from derive.algebra.axes import Axis, free_axes
from derive.algebra.binders import Binder, Total
from derive.algebra.functions import definition_of
from derive.algebra.tensors import Delta, Entry, Indicator, is_gate
from derive.errors import AlgebraError
from derive.forward.program import Definition, Program
from numeric.oracle.discrete import divides, is_discrete
from numeric.oracle.steps import (
    Absolute,
    Counted,
    Exponentials,
    Extreme,
    Function,
    Number,
    Power,
    Product,
    Raised,
    Read,
    Step,
    Sum,
)


@dataclass(frozen=True)
class Planned:
    """A definition as steps; the last one named is its value. ``sides`` are the steps of what conditions compare.

    A definition of integers, or of 0 and 1 by conditions that are counted, has a ``counted`` expression in place of
    steps; a 0/1 definition with other conditions has ``gates``.
    """

    definition: Definition
    steps: tuple[Step, ...] = ()
    result: int = -1
    sides: dict[sp.Expr, int] = field(default_factory=dict)
    counted: sp.Expr | None = None
    gates: tuple[sp.Expr, ...] = ()

    @property
    def name(self) -> str:
        """The defined tensor's name."""
        return self.definition.name

    @property
    def moves(self) -> bool:
        """Whether a gradient passes through it."""
        return self.result >= 0 and self.steps[self.result].moves


@dataclass(frozen=True)
class Plan:
    """A program and its definitions as steps, in order."""

    program: Program
    definitions: tuple[Planned, ...]


def plan(program: Program) -> Plan:
    """The plan of a program.

    Raises
    ------
    AlgebraError: a definition holds something that has no value, by name.
    """
    moving = {i.name for i in program.inputs if i.differentiable}
    planned = []
    for definition in program.definitions:
        try:
            made = _planned(definition, moving)
        except AlgebraError as error:
            raise AlgebraError(f"{program.name}: {definition}: {error}") from None
        if made.moves:
            moving.add(definition.name)
        planned.append(made)
    return Plan(program, tuple(planned))


def _planned(definition: Definition, moving: set[str]) -> Planned:
    value = sp.sympify(definition.value)
    if definition.target.tensor.discrete and is_discrete(value):
        return Planned(definition, counted=value)
    planner = _Planner(moving)
    if definition.target.tensor.discrete:
        gates = sp.Mul.make_args(value)
        planner.conditions(gates)
        return Planned(definition, tuple(planner.steps), sides=planner.sides, gates=tuple(gates))
    planner.exponentials(value, frozenset(definition.axes))
    result = planner.step(value)
    return Planned(definition, tuple(planner.steps), result, planner.sides)


class _Planner:
    """Steps for one definition; each expression becomes one step."""

    def __init__(self, moving: set[str]) -> None:
        self.moving = moving
        self.steps: list[Step] = []
        self.known: dict[sp.Expr, int] = {}
        self.sides: dict[sp.Expr, int] = {}
        self.among: dict[sp.Expr, Exponentials] = {}

    def step(self, expr: sp.Expr) -> int:
        """The number of the step that gives an expression."""
        if expr not in self.known:
            made = self._made(expr)
            self.steps.append(made)
            self.known[expr] = len(self.steps) - 1
        return self.known[expr]

    def exponentials(self, value: sp.Expr, axes: frozenset[Axis]) -> None:
        """Plan the arguments of a definition's exponentials, so that the largest is known when the first is taken."""
        found = [e for e in sp.preorder_traversal(value) if isinstance(e, sp.exp)]
        plain = [e for e in dict.fromkeys(found) if not e.args[0].has(sp.exp)]
        if not plain:
            return
        beside = {e: tuple(g for g in p.args if is_gate(g)) for p in value.atoms(sp.Mul) for e in p.args if e in plain}
        for gates in beside.values():
            self.conditions(gates)
        row = frozenset.intersection(*(free_axes(e) for e in plain)) & axes
        members = tuple((self.step(e.args[0]), beside.get(e, ())) for e in plain)
        self.among = dict.fromkeys(plain, Exponentials(members, row))

    def conditions(self, gates: Iterable[sp.Expr]) -> None:
        """Plan the sides of comparisons that are not counted."""
        for gate in gates:
            if isinstance(gate, Indicator) and not is_discrete(gate):
                for relation in gate.args[0].atoms(sp.core.relational.Relational):
                    if not all(map(is_discrete, relation.args)):
                        self.sides |= {side: self.step(side) for side in relation.args}

    def _made(self, expr: sp.Expr) -> Step:
        if isinstance(expr, Entry) and not expr.tensor.discrete:
            return Read(*self._about(expr, str(expr.tensor.name) in self.moving), expr)
        if expr.is_number and not expr.atoms(Binder) and not any(map(_is_declared, expr.atoms(sp.Function))):
            return Number(frozenset(), False, expr)
        if is_gate(expr) and not isinstance(expr, Delta):
            return self._product((expr,), frozenset(), frozenset(free_axes(expr)))
        if is_discrete(expr) and not divides(expr):
            return Counted(frozenset(free_axes(expr)), False, expr)
        if isinstance(expr, sp.Symbol):
            return Number(frozenset(), False, expr)
        if isinstance(expr, Total):
            bound = frozenset(expr.axes)
            return self._product(sp.Mul.make_args(expr.body), bound, free_axes(expr.body) - bound)
        if isinstance(expr, sp.Mul):
            return self._product(expr.args, frozenset(), free_axes(expr))
        if isinstance(expr, sp.Add):
            parts = tuple(map(self.step, expr.args))
            return Sum(*self._from(parts), parts)
        if isinstance(expr, sp.Pow) and not isinstance(expr, sp.exp):
            return self._power(expr)
        if isinstance(expr, (sp.Max, sp.Min)):
            parts, fixed = tuple(map(self.step, expr.args)), tuple(not arg.atoms(Entry) for arg in expr.args)
            return Extreme(*self._from(parts), parts, fixed, isinstance(expr, sp.Max))
        if isinstance(expr, sp.Abs):
            base = self.step(expr.args[0])
            return Absolute(*self._from([base]), base)
        if isinstance(expr, sp.Function) and (len(expr.args) == 1 or definition_of(expr) is not None):
            arguments = tuple(map(self.step, expr.args))
            return Function(*self._from(arguments), expr.func, arguments, self.among.get(expr))
        raise AlgebraError(f"the oracle cannot evaluate {type(expr).__name__} in {expr}")

    def _product(self, factors: Iterable[sp.Expr], over: frozenset[Axis], axes: Iterable[Axis]) -> Product:
        gates = tuple(f for f in factors if is_gate(f))
        self.conditions(gates)
        others = tuple(self.step(f) for f in factors if not is_gate(f))
        moves = any(self.steps[k].moves for k in others)
        return Product(frozenset(axes), moves, gates, others, over)

    def _power(self, expr: sp.Pow) -> Step:
        base, exponent = expr.args
        if exponent.is_Rational:
            k = self.step(base)
            return Power(*self._from([k]), k, Fraction(int(exponent.p), int(exponent.q)))
        if is_discrete(exponent):
            parts = (self.step(base), self.step(exponent))
            return Raised(*self._from(parts), *parts)
        logarithm = self.step(sp.log(base, evaluate=False))
        product = Product(
            *self._from([self.step(exponent), logarithm]), (), (self.step(exponent), logarithm), frozenset()
        )
        self.steps.append(product)
        argument = len(self.steps) - 1
        return Function(*self._from([argument]), sp.exp, (argument,))

    def _about(self, expr: sp.Expr, moves: bool) -> tuple[frozenset[Axis], bool]:
        return frozenset(free_axes(expr)), moves

    def _from(self, parts: Iterable[int]) -> tuple[frozenset[Axis], bool]:
        """The axes of a step made of others, and whether a gradient passes through it."""
        steps = [self.steps[k] for k in parts]
        return frozenset().union(*(step.axes for step in steps)), any(step.moves for step in steps)


def _is_declared(function: sp.Function) -> bool:
    return isinstance(function, sp.core.function.AppliedUndef) or definition_of(function) is not None
