"""The refuter: one rational counterexample at small sizes, or none found.

It looks for inputs at which the two sides of a statement differ by more than rounding in fifty digits can explain.
Finding none proves nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath
import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Axis, Delta, Entry, Tensor, free_axes
from derive.algebra.axes import is_size
from derive.errors import AlgebraError
from derive.forward.program import Definition, Input, Output, Parameter, Program
from derive.proof.arithmetic import ROUNDED, Bounded, RunningErrors
from derive.proof.compared import integers_compared, near_thresholds, whole_number
from derive.proof.interpreter import Nested, interpret
from derive.proof.points import at_the_edge, filled, lengths
from derive.proof.rationals import read

TRIES = 8
"""Random points at which a statement is looked at; a false one holds at a random point only by accident."""

DRAWN = 4 * TRIES
"""Points that are drawn at most: a statement is not defined at all of them."""

ANYWHERE = (range(-3, 7), range(2))
"""What integers that are no positions are drawn from in turn: far, to tell them from their squares; near, to meet."""


@dataclass(frozen=True)
class Counterexample:
    """Sizes, rational inputs and parameters, and the entry at which the two sides differ, with what each is there."""

    sizes: Mapping[str, int]
    inputs: Mapping[str, Nested]
    parameters: Mapping[str, Fraction]
    at: Mapping[str, int]
    left: str
    right: str

    def __str__(self) -> str:
        given = ", ".join(f"{n} = {_written(v)}" for n, v in {**self.parameters, **self.inputs}.items())
        place = f" at {', '.join(f'{a} = {k}' for a, k in self.at.items())}" if self.at else ""
        return f"{given}: the left side is {self.left}{place}, the right side {self.right}"


def refute(
    left: sp.Expr, right: sp.Expr, definitions: tuple[Definition, ...] = (), *, all_visible: bool = True, seed: int = 0
) -> Counterexample | None:
    """A point at which the sides differ, where every defined tensor has the value of its definition.

    ``all_visible`` keeps to points at which every query sees every key, a premise of most statements.
    """
    program, looked_at = as_program(left, right, definitions), 0
    for attempt in range(DRAWN):
        try:
            found = _at_random(program, attempt, random.Random(seed + attempt), all_visible)
        except (AlgebraError, ZeroDivisionError):
            continue  # not defined at this point
        looked_at += 1
        if found is not None or looked_at == TRIES:
            return found
    return None


def as_program(left: sp.Expr, right: sp.Expr, definitions: tuple[Definition, ...]) -> Program:
    """The statement as a program that gives both sides, from the tensors and symbols that nothing defines."""
    axes = tuple(sorted(free_axes(left) | free_axes(right), key=lambda a: a.name))
    sides = tuple(
        Definition(Tensor(f"{name}_side", *axes)[axes], side) for name, side in (("left", left), ("right", right))
    )
    outputs = tuple(Output(d.target.tensor, axes, "") for d in sides)
    statement = Program("statement", "", (), (), (*definitions, *sides), outputs)
    statement = statement.returning(*(o.name for o in outputs))
    values = [d.value for d in statement.definitions]
    used, defined = {e.base for v in values for e in v.atoms(Entry)}, {d.target.base for d in statement.definitions}
    given = tuple(Input(tensor, _own_axes(tensor), "") for tensor in sorted(used - defined, key=lambda t: str(t.name)))
    sizes = {s for tensor in used | defined for s in tensor.shape if s.is_Symbol}
    labels = {t.args[0] for v in values for t in v.atoms(Tensor)}
    scalars = {s for v in values for s in v.free_symbols if not isinstance(s, (Axis, Entry, Tensor))} - sizes - labels
    parameters = tuple(Parameter(s, sp.S.Zero, "") for s in sorted(scalars, key=str) if not is_size(s))
    return replace(statement, inputs=given, parameters=parameters)


def _own_axes(tensor: Tensor) -> tuple[Axis, ...]:
    return tuple(Axis(f"a{k}", size) for k, size in enumerate(tensor.shape, 1))


def _at_random(program: Program, attempt: int, chance: random.Random, all_visible: bool) -> Counterexample | None:
    """What a random point says; it raises where one of the sides is not defined."""
    whole = any(i.tensor.discrete and not i.tensor.boolean for i in program.inputs)
    grown = attempt // 2 % 4 if whole else 0  # 0 and 1 are their own squares: longer axes have other positions
    distinct = {name: 2 + k % 2 + grown for k, name in enumerate(_sizes(program))}
    sizes = at_the_edge(distinct, attempt % TRIES, chance, 2 + grown)
    parameters: dict[str, Any] = {
        p.name: max(whole_number(p, sizes, chance, attempt % TRIES), 0)  # below, a row may see no key
        if p.symbol.is_integer
        else Fraction(chance.randint(1, 5), 2)
        for p in program.parameters
    }
    real = near_thresholds(program, lambda c: Fraction(c.randint(-4, 4), c.randint(1, 2)), _fraction)
    compared = integers_compared(program, parameters, sizes)
    inputs: dict[str, Nested] = {}
    for given in program.inputs:
        shape = lengths(given.tensor.shape, sizes)
        if given.tensor.boolean:
            inputs[given.name] = filled(shape, lambda: 1 if all_visible else chance.randrange(2))
        elif given.tensor.discrete:
            drawn_from = _integers(program, given.tensor, sizes, attempt, compared)
            inputs[given.name] = filled(shape, partial(chance.choice, drawn_from))
        else:
            inputs[given.name] = filled(shape, partial(real, chance))
    values = interpret(program, inputs, sizes=sizes, parameters=parameters, arithmetic=RunningErrors())
    left, right = (_flat(values[o.name], len(o.axes)) for o in program.outputs)
    for place, first in left.items():
        second = right[place]
        if _finite(first) and _finite(second) and apart(first, second):
            at = dict(zip((a.name for a in program.outputs[0].axes), place, strict=True))
            return Counterexample(sizes, inputs, parameters, at, *_told_apart(first.value, second.value))
    return None


def _fraction(value: Any) -> Fraction:
    return Fraction(*read(value))


def _integers(
    program: Program, tensor: Tensor, sizes: Mapping[str, int], attempt: int, compared: Sequence[int]
) -> Sequence[int]:
    """What an integer input is drawn from: positions on the axes that it points into, −1 if a condition is on it.

    One that is no position is also drawn around what is compared; what is known of its range holds.
    """
    least, below = (-sp.oo, sp.oo) if tensor.bounds is None else tensor.bounds
    below = below if below.is_number else lengths((below,), sizes)[0]
    drawn = _drawn_from(program, tensor, sizes, attempt, compared)
    return [number for number in drawn if least <= number < below] or [0]


def _drawn_from(
    program: Program, tensor: Tensor, sizes: Mapping[str, int], attempt: int, compared: Sequence[int]
) -> Sequence[int]:
    parts = {part for d in program.definitions for part in d.value.atoms(Entry, Delta, Relational)}
    lengths_of: list[sp.Expr] = []
    for part in parts:
        if isinstance(part, Entry):
            lengths_of += [
                n for index, n in zip(part.indices, part.base.shape, strict=True) if _mentions(index, tensor)
            ]
        elif isinstance(part, Delta) and _mentions(part, tensor):
            lengths_of += [axis.size for axis in part.args if isinstance(axis, Axis)]
    if not lengths_of:
        return [*ANYWHERE[attempt % len(ANYWHERE)], *compared]
    asked = any(isinstance(part, Relational) and _mentions(part, tensor) for part in parts)
    return range(-1 if asked else 0, min(lengths(lengths_of, sizes)))


def _mentions(expr: sp.Basic, tensor: Tensor) -> bool:
    return any(entry.base == tensor for entry in expr.atoms(Entry))


def _finite(bounded: Bounded) -> bool:
    """Whether a side is defined: a statement says nothing about the logarithm of 0."""
    return bool(bounded.value - bounded.value == 0)


def apart(first: Bounded, second: Bounded) -> bool:
    """Whether two numbers differ by more than rounding in fifty digits can explain."""
    if first.value == second.value:
        return False
    return not abs(first.value - second.value) <= ROUNDED * (1 + first.error + second.error)


def _sizes(program: Program) -> list[str]:
    """The names of all sizes, also of axes that no input has."""
    axes = {a for d in program.definitions for a in (*d.axes, *d.value.atoms(Axis))}
    shapes = {s for i in program.inputs for s in (*i.tensor.shape, *(i.tensor.bounds or ()))}
    return sorted({str(s) for size in (*shapes, *(a.size for a in axes)) for s in sp.sympify(size).free_symbols})


def _flat(nested: Nested, rank: int, place: tuple[int, ...] = ()) -> dict[tuple[int, ...], Any]:
    if rank == 0:
        return {place: nested}
    return {p: v for k, part in enumerate(nested) for p, v in _flat(part, rank - 1, (*place, k)).items()}


def _told_apart(first: Any, second: Any) -> tuple[str, str]:
    """Two different numbers in six digits, or in as many as it takes to see that they differ."""
    short = f"{float(first):.6g}", f"{float(second):.6g}"
    longer = ((mpmath.nstr(first, digits), mpmath.nstr(second, digits)) for digits in range(7, 51))
    return next((pair for pair in (short, *longer) if pair[0] != pair[1]), short)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return str(value)
