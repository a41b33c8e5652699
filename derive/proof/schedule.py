"""The dense schedule, evaluated over any kind of numbers: what the printed array code computes, without arrays.

A node's axes say how its array is laid out, as they do for the printer; from there on operands meet by position and
broadcast as NumPy's do, so that a transpose too few shows. Where array code would hold NaN, there is no number: it
goes through arithmetic, and selection removes it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy as sp

from derive.algebra import Axis
from derive.algebra.functions import Sigmoid, definition_of
from derive.errors import AlgebraError
from derive.forward.program import Input
from derive.lower.arrays import (
    All,
    Apply,
    Checked,
    Fill,
    Gather,
    Name,
    Node,
    Number,
    Positions,
    Product,
    Reduce,
    Scalar,
    Select,
    View,
    Zeros,
    mentioned,
)
from derive.lower.dense import Kernel, Statement
from derive.lower.tensorise import FUNCTIONS
from derive.proof.arithmetic import Arithmetic, UndefinedError, at_number
from derive.proof.interpreter import COMPARE, Machine, Nested
from derive.proof.points import entries, filled, lengths
from derive.proof.strided import Array, ScheduleError, Shape, broadcast, rows_along, split, spread, viewed

UNDEFINED = object()
"""What stands where array code has NaN."""

_EXACT = frozenset({int, Fraction, type(sp.oo), type(-sp.oo)})


def run(
    kernel: Kernel,
    inputs: Mapping[str, Nested],
    cotangents: Mapping[str, Nested],
    *,
    sizes: Mapping[str, int],
    parameters: Mapping[str, Any],
    arithmetic: Arithmetic,
    shift: Callable[[], Any] | None = None,
) -> dict[str, Nested]:
    """The outputs and gradients of a kernel, by the names that they have in the forward and the derived program.

    Parameters
    ----------
    inputs, cotangents: nested lists by name, as for :func:`~derive.proof.interpreter.interpret`; those that the
        printed code takes as ``None`` may be missing.
    sizes, parameters: every size by name; parameters that are missing take their defaults.
    shift: gives a number for every row that stabilisation shifts, in place of the largest score; a row that sees
        nothing is shifted by 0.

    Raises
    ------
    ScheduleError: array code could not run this schedule.
    AlgebraError: numbers of this kind have no such function.
    """
    derivation = kernel.derivation
    machine = Machine(derivation.forward, arithmetic, dict(sizes))
    machine.take_parameters(parameters)
    schedule = Schedule(machine, set(kernel.shifts), shift)
    schedule.take(derivation.forward.inputs, inputs)
    schedule.run(kernel.forward)
    found = {o.name: schedule.read(o.name, o.axes) for o in derivation.forward.outputs}
    schedule.keep(kernel.saved)
    schedule.take([i for i in derivation.derived.inputs if i.name not in derivation.forward.tensors], cotangents)
    schedule.run(kernel.backward)
    return found | {o.name: schedule.read(o.name, o.axes) for o in derivation.derived.outputs}


class Schedule:
    """Statements under evaluation: arrays by name, None for what is not given."""

    def __init__(self, machine: Machine, shifts: set[str], shift: Callable[[], Any] | None) -> None:
        self.machine, self.arithmetic = machine, machine.arithmetic
        self.shifts, self.shift, self.shifting = shifts, shift, False
        self.arrays: dict[str, Array | None] = {}
        self.constants: dict[Any, Any] = {}

    def take(self, inputs: Iterable[Input], given: Mapping[str, Nested]) -> None:
        """Inputs as arrays: integers stay exact, 0 and 1 of a visibility are conditions."""
        for each in inputs:
            if each.name not in given:
                self.arrays[each.name] = None
                continue
            kind = bool if each.tensor.boolean else int if each.tensor.discrete else self.arithmetic.number
            shape = tuple(lengths(each.tensor.shape, self.machine.sizes))
            self.arrays[each.name] = Array(shape, [kind(x) for x in entries(given[each.name], len(shape))])

    def keep(self, names: Iterable[str]) -> None:
        """Forget all arrays but those that one pass hands to the next."""
        self.arrays = {name: self.arrays[name] for name in names}

    def read(self, name: str, axes: tuple[Axis, ...]) -> Nested:
        """An array as nested lists."""
        array = self._named(name)
        rest = iter([x if x is UNDEFINED else self._number(x) for x in array.entries])
        return filled(list(self._shape(axes)), lambda: next(rest))

    def run(self, statements: Iterable[Statement]) -> None:
        """Statements in order; a guarded one only where its input is given."""
        for statement in statements:
            if statement.guard is None or self.arrays.get(statement.guard) is not None:
                try:
                    self.arrays[statement.name] = self._statement(statement)
                except ScheduleError as error:
                    raise ScheduleError(f"{statement.name}: {error}") from None

    def _statement(self, statement: Statement) -> Array | None:
        shape = self._shape(statement.axes)
        self.shifting = statement.name in self.shifts
        array = self._evaluate(statement.node)
        if array is not None and array.shape != shape:
            raise ScheduleError(f"its array has shape {array.shape}, its axes have {shape}")
        return array

    def _shape(self, axes: Iterable[Axis]) -> Shape:
        return tuple(self.machine.size(axis.size) for axis in axes)

    def _named(self, name: str) -> Array:
        array = self.arrays.get(name)
        if array is None:
            raise ScheduleError(f"{name} is not there")
        return array

    def _number(self, value: Any) -> Any:
        """A number of the arithmetic; exact ones are converted once."""
        if value.__class__ not in _EXACT:
            return value
        if value not in self.constants:
            self.constants[value] = self.arithmetic.number(value)
        return self.constants[value]

    def _array(self, node: Node) -> Array:
        """The array of a node that needs its operands."""
        array = self._evaluate(node)
        if array is None:
            raise ScheduleError(f"{' or '.join(mentioned(node))} is used, and may be missing")
        return array

    def _evaluate(self, node: Node) -> Array | None:
        match node:
            case Name():
                if node.name not in self.arrays:
                    raise ScheduleError(f"{node.name} is not there")
                return self.arrays[node.name]
            case Scalar():
                return Array((), [self.machine.constant(node.value)])
            case Positions():
                length = self.machine.size(node.axis.size)
                return Array((length,), list(range(length)))
            case View():
                operand = self._evaluate(node.operand)
                return None if operand is None else viewed(operand, node.operand.axes, node.axes)
            case Fill():
                shape = self._shape(node.axes)
                return Array(shape, spread(self._array(node.operand), shape))
            case Zeros():
                shape = self._named(node.like).shape
                return Array(shape, [0] * math.prod(shape))
            case Number():
                condition = self._array(node.condition)
                return Array(condition.shape, [int(x) for x in condition.entries])
            case Apply():
                return self._elementwise(self._operation(node.function), [self._array(a) for a in node.arguments])
            case Select():
                visible = self._evaluate(node.visible)
                return self._selected(self._array(node.operand), visible)
            case All():
                return self._all(node)
            case Checked():
                return self._evaluate(node.index)
            case Gather():
                return self._gathered(node)
            case Reduce():
                return self._reduced(node)
            case Product():
                return self._product(node)
        raise AlgebraError(f"array code has no {type(node).__name__}")

    def _elementwise(self, operation: Callable[..., Any], arguments: Sequence[Array]) -> Array:
        shape = broadcast(*(a.shape for a in arguments))

        def apply(*values: Any) -> Any:
            if any(value is UNDEFINED for value in values):
                return UNDEFINED
            try:
                return operation(*values)
            except (UndefinedError, ZeroDivisionError):
                return UNDEFINED

        return Array(shape, [apply(*values) for values in zip(*(spread(a, shape) for a in arguments), strict=True)])

    def _operation(self, name: str) -> Callable[..., Any]:
        """A function of entries: of exact ones in integers and fractions, of others in the arithmetic."""
        if name == "power":
            return self._power
        if name in _CONDITIONS:
            return _CONDITIONS[name]
        if name in _COMPARISONS:
            return lambda left, right: self._compared(name, left, right)
        exact, general = _ON_EXACT.get(name), self._general(name)

        def operation(*values: Any) -> Any:
            if exact is not None and all(value.__class__ in _EXACT for value in values):
                return exact(*values)
            return general(*map(self._number, values))

        return operation

    def _general(self, name: str) -> Callable[..., Any]:
        number, function, power = self._number, self.arithmetic.function, self.arithmetic.power
        of_two: dict[str, Callable[..., Any]] = {
            "add": operator.add,
            "subtract": lambda x, y: x + number(-1) * y,
            "multiply": operator.mul,
            "divide": lambda x, y: x * power(y, sp.S.NegativeOne),
            "negative": lambda x: number(-1) * x,
            "sqrt": lambda x: power(x, sp.S.Half),
            "as_real": lambda x: x,
            "maximum": self._maximum,
            "minimum": lambda x, y: function(sp.Min, x, y),
            "remainder": lambda x, y: function(sp.Mod, x, y),
            "floor_divide": lambda x, y: function(sp.floor, x * power(y, sp.S.NegativeOne)),
        }
        return of_two.get(name) or self._scalar_function(_SCALAR[name])

    def _scalar_function(self, function: type[sp.Function]) -> Callable[[Any], Any]:
        symbol = sp.Symbol("x", real=True)
        spelled_out = definition_of(function(symbol))
        if spelled_out is None:
            return lambda x: self.arithmetic.function(function, x)
        return lambda x: at_number(spelled_out, symbol, x, self.arithmetic)

    def _power(self, base: Any, exponent: Any) -> Any:
        """A power whose exponent is an exact number."""
        if exponent.__class__ not in _EXACT:
            raise AlgebraError(f"a power with the exponent {exponent}, which is no exact number")
        return self.arithmetic.power(self._number(base), sp.Rational(exponent))

    def _compared(self, name: str, left: Any, right: Any) -> bool:
        exact = [value.__class__ in _EXACT for value in (left, right)]
        finite = not any(value in (sp.oo, -sp.oo) for value, known in zip((left, right), exact, strict=True) if known)
        if not all(exact) and finite and name not in ("equal", "not_equal"):
            self.arithmetic.function(sp.Max, *map(self._number, (left, right)))  # an error where there is no order
        sides = (v if known else self.arithmetic.compared(v) for v, known in zip((left, right), exact, strict=True))
        return bool(_COMPARISONS[name](*sides))

    def _selected(self, operand: Array, visible: Array | None) -> Array:
        if visible is None:
            return operand
        shape = broadcast(operand.shape, visible.shape)
        shown = zip(spread(operand, shape), spread(visible, shape), strict=True)
        return Array(shape, [value if seen else 0 for value, seen in shown])

    def _all(self, node: All) -> Array | None:
        """The conjunction of those conditions of which everything is given."""
        missing = {name for name in mentioned(node) if name in self.arrays and self.arrays[name] is None}
        given = [self._array(c) for c in node.conditions if not missing & set(mentioned(c))]
        if not given:
            return None
        return self._elementwise(lambda *seen: all(seen), given)

    def _gathered(self, node: Gather) -> Array:
        """Entries at an index, the nearest one where it lies outside."""
        values, index = self._array(node.operand), self._array(node.index)
        place = node.operand.axes.index(node.along)
        lead = broadcast(values.shape[:place], index.shape[:place])
        length, rest, new = values.shape[place], values.shape[place + 1 :], index.shape[place:]
        width, count = math.prod(rest), math.prod(new)
        rows, places = spread(values, (*lead, length, *rest)), spread(index, (*lead, *new))
        picked = []
        for at in range(math.prod(lead)):
            for k in places[at * count : (at + 1) * count]:
                start = (at * length + min(max(int(k), 0), length - 1)) * width
                picked += rows[start : start + width]
        return Array((*lead, *new, *rest), picked)

    def _reduced(self, node: Reduce) -> Array:
        operand, axis = self._array(node.operand), node.operand.axes.index(node.over)
        if len(operand.shape) != len(node.operand.axes):
            raise ScheduleError(f"an array of shape {operand.shape} is reduced as one of axes {node.operand.axes}")
        visible = None if node.visible is None else self._evaluate(node.visible)
        whole = operand.shape if visible is None else broadcast(operand.shape, visible.shape)
        rows = rows_along(Array(whole, spread(operand, whole)), axis)
        shape = whole[:axis] + whole[axis + 1 :]
        if node.function == "sum":
            return Array(shape, [self._sum(row) for row in rows])
        seen = [[True] * len(row) for row in rows]
        if visible is not None:
            seen = rows_along(Array(whole, spread(visible, whole)), axis)
        empty = -sp.oo if node.function == "supremum" else 0
        largest = [
            self._largest([x for x, s in zip(*pair, strict=True) if s], empty) for pair in zip(rows, seen, strict=True)
        ]
        return Array(shape, largest)

    def _largest(self, row: list[Any], empty: Any) -> Any:
        if any(value is UNDEFINED for value in row):
            return UNDEFINED
        return self._maximum(*map(self._number, row)) if row else empty

    def _maximum(self, *values: Any) -> Any:
        """The largest number; where it is a shift, any number that is asked for in its place."""
        return self.shift() if self.shifting and self.shift else self.arithmetic.function(sp.Max, *values)

    def _sum(self, values: Sequence[Any]) -> Any:
        """A sum: exact where all is, as counts are."""
        if any(value is UNDEFINED for value in values):
            return UNDEFINED
        if all(value.__class__ in _EXACT for value in values):
            return sum(values)
        total = self._number(values[0])
        for value in values[1:]:
            total = total + self._number(value)
        return total

    def _product(self, node: Product) -> Array:
        """A matrix product of neighbouring axes joined; what is hidden of the left operand has to be 0."""
        left, right = self._array(node.left), self._array(node.right)
        counts = len(node.rows), len(node.over), len(node.columns)
        left_lead, rows, over = split(left.shape, counts[0], counts[1])
        right_lead, deep, columns = split(right.shape, counts[1], counts[2])
        if math.prod(over) != math.prod(deep):
            raise ScheduleError(f"a product of shapes {left.shape} and {right.shape} sums over {over} and {deep}")
        lead = broadcast(left_lead, right_lead)
        high, inner, wide = map(math.prod, (rows, over, columns))
        visible = None if node.visible is None else self._evaluate(node.visible)
        left_shape = (*lead, *rows, *over)
        one, two = spread(left, left_shape), spread(right, (*lead, *deep, *columns))
        seen = [True] * len(one) if visible is None else spread(visible, left_shape)
        if any(
            not s and (x is UNDEFINED or self._number(x) != self._number(0)) for x, s in zip(one, seen, strict=True)
        ):
            raise ScheduleError("the left operand of a product is not 0 where it is hidden")
        result = []
        for at in range(math.prod(lead)):
            for start in range(at * high * inner, (at + 1) * high * inner, inner):
                shown = [(k, self._number_or_undefined(one[start + k])) for k in range(inner) if seen[start + k]]
                for column in range(wide):
                    first = at * inner * wide + column
                    terms = [self._multiplied(x, two[first + k * wide]) for k, x in shown]
                    result.append(self._sum(terms) if terms else 0)
        return Array((*lead, *rows, *columns), result)

    def _number_or_undefined(self, value: Any) -> Any:
        return value if value is UNDEFINED else self._number(value)

    def _multiplied(self, left: Any, right: Any) -> Any:
        return UNDEFINED if left is UNDEFINED or right is UNDEFINED else left * self._number(right)


_SCALAR: dict[str, type[sp.Function]] = {
    name: Sigmoid if function == "Sigmoid" else getattr(sp, function) for function, name in FUNCTIONS.items()
}

_CONDITIONS: dict[str, Callable[..., bool]] = {
    "logical_not": operator.not_,
    "logical_or": lambda left, right: left or right,
}

_COMPARISONS = {
    "less_equal": COMPARE["<="],
    "less": COMPARE["<"],
    "greater_equal": COMPARE[">="],
    "greater": COMPARE[">"],
    "equal": COMPARE["=="],
    "not_equal": COMPARE["!="],
}

_ON_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
    "divide": lambda x, y: Fraction(x) / y,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "maximum": max,
    "minimum": min,
    "abs": abs,
    "as_real": lambda x: x,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": math.floor,
    "ceil": math.ceil,
}
