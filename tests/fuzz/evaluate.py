"""What a program means: its values and gradients in 40 digits, entry by entry, straight from its tree.

Nothing here is clever. A sum is a loop, an entry is computed when it is read, and gradients go backward over a record
of every operation. Three rules settle what index notation leaves open:

* a product one of whose 0/1 factors is 0 is 0, and its other factors are not evaluated;
* an index outside of its tensor that is not hidden in this way makes the whole case :class:`Undefined`;
* where a maximum ties, both sides get half of the slope, and ``abs`` has slope 0 at 0 (inputs are drawn so that neither
  matters).

Whatever is computed from positions, sizes, integers and conditions is an exact fraction; the rest are :class:`Number`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import count, product
from math import floor
from typing import Any

import mpmath

from tests.fuzz import trees as t
from tests.fuzz.trees import Axis, Definition, Input, Program, Tree

MP = mpmath.MPContext()
MP.dps = 40

Index = tuple[int, ...]
Array = Mapping[Index, Any]
"""A tensor's entries by index."""

LARGEST_EXPONENT = 300
"""A larger argument of exp overflows in double precision before long."""


class Undefined(Exception):
    """An entry outside of its tensor is read, and nothing hides it."""


class Singular(Exception):
    """A logarithm of nothing, a division by 0 or an overflow: no case to judge by."""


class Tie(Exception):
    """Two computed real numbers that are compared are equal: rounding would decide."""


_serial = count()


@dataclass(frozen=True, eq=False)
class Number:
    """A real number, and what it was made from: for each, the slope of this number in it."""

    value: Any
    made_from: tuple[tuple[Number, Any], ...] = ()
    serial: int = field(default_factory=lambda: next(_serial))


Value = Fraction | Number


def number(value: Value) -> Number:
    """A fraction as a number that depends on nothing."""
    return value if isinstance(value, Number) else Number(MP.mpf(value.numerator) / value.denominator)


def made(value: Any, *made_from: tuple[Value, Any]) -> Number:
    """A number made from others; what is a fraction or depends on nothing needs no record."""
    return Number(value, tuple((n, slope) for n, slope in made_from if isinstance(n, Number)))


def plus(left: Value, right: Value) -> Value:
    """The sum of two values."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left + right
    return made(number(left).value + number(right).value, (left, MP.one), (right, MP.one))


def times(left: Value, right: Value) -> Value:
    """The product of two values."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left * right
    x, y = number(left).value, number(right).value
    return made(x * y, (left, y), (right, x))


def power(base: Value, exponent: int) -> Value:
    """An integer power."""
    if number(base).value == 0 and exponent < 0:
        raise Singular("division by 0")
    if isinstance(base, Fraction):
        return base**exponent
    slope = exponent * base.value ** (exponent - 1) if exponent else MP.zero
    return made(base.value**exponent, (base, slope))


def applied(name: str, *args: Value, branches: bool = False) -> Value:
    """A function of its arguments; with ``branches``, logarithms and roots of negative numbers are complex."""
    if name == "max":
        return reduce(_larger, args)
    if name == "min":
        return _minus(reduce(_larger, map(_minus, args)))
    if name == "mod":
        dividend, divisor = args
        return _exact(dividend) % _exact(divisor)
    (x,) = args
    if name == "floor":
        return Fraction(floor(_exact(x)))
    if name == "abs" and isinstance(x, Fraction):
        return abs(x)
    at = number(x).value
    if branches and name in ("log", "sqrt") and at != 0:
        at = MP.mpc(at)
    value, slope = _with_slope(name, at)
    return made(value, (x, slope))


def _with_slope(name: str, x: Any) -> tuple[Any, Any]:
    """The value and the derivative of a function of one real number."""
    if name == "exp":
        if x.real > LARGEST_EXPONENT:
            raise Singular(f"exp({MP.nstr(x, 5)})")
        return MP.exp(x), MP.exp(x)
    if name == "log":
        if x == 0 or (_is_real(x) and x < 0):
            raise Singular(f"log({MP.nstr(x, 5)})")
        return MP.log(x), 1 / x
    if name == "sqrt":
        if _is_real(x) and x < 0:
            raise Singular(f"sqrt({MP.nstr(x, 5)})")
        return MP.sqrt(x), 1 / (2 * MP.sqrt(x)) if x else MP.inf
    if name == "tanh":
        return MP.tanh(x), 1 - MP.tanh(x) ** 2
    if name == "sin":
        return MP.sin(x), MP.cos(x)
    if name == "cos":
        return MP.cos(x), -MP.sin(x)
    if name == "abs":
        return abs(x), MP.mpf((x > 0) - (x < 0)) if _is_real(x) else MP.zero
    raise ValueError(f"there is no function {name!r}")


def _is_real(x: Any) -> bool:
    return not isinstance(x, MP.mpc)


def _larger(left: Value, right: Value) -> Value:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return max(left, right)
    x, y = _in_order(left), _in_order(right)
    if x == y:
        return made(x, (left, MP.mpf("0.5")), (right, MP.mpf("0.5")))
    return left if x > y else right


def _in_order(value: Value) -> Any:
    """A number that can be compared: one whose imaginary part, if it has any, is 0."""
    x = number(value).value
    if not _is_real(x) and x.imag:
        raise Singular("complex numbers have no order")
    return x.real


def _minus(value: Value) -> Value:
    return times(Fraction(-1), value)


def _exact(value: Value) -> Fraction:
    if not isinstance(value, Fraction):
        raise TypeError("a position is computed from a real number")
    return value


def slopes(loss: Value) -> dict[Number, Any]:
    """The slope of a number in everything that it was made from, backward over the record."""
    if isinstance(loss, Fraction):
        return {}
    found: dict[Number, Any] = {loss: MP.one}
    for node in _latest_first(loss):
        for source, slope in node.made_from:
            found[source] = found.get(source, MP.zero) + found[node] * slope
    return found


def _latest_first(last: Number) -> list[Number]:
    """A number and all that it was made from, each after everything that was made from it."""
    seen, waiting = {last}, [last]
    while waiting:
        for source, _ in waiting.pop().made_from:
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return sorted(seen, key=lambda n: -n.serial)


# Programs.


class Machine:
    """A program at given inputs; entries of definitions are computed when they are first read, and kept.

    branches: whether logarithms and roots of negative numbers are complex, as statements take them; for programs they
    are not defined. ties: whether computed numbers that agree in 20 digits are compared as equal ones, as they are at
    a point of short rational numbers; otherwise that is a :class:`Tie`.
    """

    def __init__(
        self, program: Program, data: Mapping[str, Array], *, branches: bool = False, ties: bool = False
    ) -> None:
        self.branches, self.ties = branches, ties
        self.program, self.sizes = program, program.sizes
        self.inputs: dict[str, Input] = {i.name: i for i in program.inputs}
        self.definitions: dict[str, Definition] = {d.name: d for d in program.definitions}
        self.parameters = {p.name: p.value for p in program.parameters}
        self.integers = {p.name for p in program.parameters if p.integer}
        self.kinds = program.kinds
        self.data = data
        self.kept: dict[tuple[str, Index], Value] = {}

    def indices(self, axes: tuple[Axis, ...]) -> Iterator[Index]:
        """All positions of some axes."""
        return product(*(range(self.sizes[a.size]) for a in axes))

    def entry(self, name: str, at: Index) -> Value:
        """One entry of a tensor, which has to lie inside of it."""
        if (name, at) not in self.kept:
            shape = self.program.shape_of(name)
            if not all(0 <= place < length for place, length in zip(at, shape, strict=True)):
                raise Undefined(f"{name}[{', '.join(map(str, at))}] lies outside of {name} {shape}")
            self.kept[name, at] = self._given(name, at) if name in self.inputs else self._defined(name, at)
        return self.kept[name, at]

    def _given(self, name: str, at: Index) -> Value:
        value = self.data[name][at]
        return Number(MP.mpf(value)) if self.kinds[name] == "real" else Fraction(int(value))

    def _defined(self, name: str, at: Index) -> Value:
        definition = self.definitions[name]
        return self.value(definition.value, dict(zip(definition.axes, at, strict=True)))

    def value(self, node: Tree, at: Mapping[Axis, int]) -> Value:
        """An expression at positions of its free axes."""
        if isinstance(node, t.Num):
            return node.value
        if isinstance(node, t.Param):
            value = self.parameters[node.name]
            return value if node.name in self.integers else number(value)
        if isinstance(node, t.Size):
            return Fraction(self.sizes[node.name])
        if isinstance(node, t.Pos):
            return Fraction(at[node.axis])
        if isinstance(node, t.Entry):
            return self.entry(node.tensor, tuple(self.position(e, at) for e in node.indices))
        if isinstance(node, t.Sum):
            return self._sum(self.value(node.body, {**at, **here}) for here in self._places(node.axes))
        if isinstance(node, t.Add):
            return self._sum(self.value(term, at) for term in node.terms)
        if isinstance(node, (t.Mul, t.Div)):
            return self._product(node, at)
        if isinstance(node, t.Pow):
            return power(self.value(node.base, at), node.exponent)
        if isinstance(node, t.Fn):
            return applied(node.name, *(self.value(a, at) for a in node.args), branches=self.branches)
        if isinstance(node, t.Delta):
            return Fraction(int(self.position(node.left, at) == self.position(node.right, at)))
        if isinstance(node, t.Ind):
            return Fraction(int(self.holds(node.condition, at)))
        raise TypeError(f"{node} is no expression")

    def position(self, node: Tree, at: Mapping[Axis, int]) -> int:
        """An expression that stands for a position."""
        value = self.value(node, at)
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise Undefined(f"{node} is no position")
        return int(value)

    def holds(self, node: Tree, at: Mapping[Axis, int]) -> bool:
        """Whether a condition holds."""
        if isinstance(node, t.And):
            return all(self.holds(p, at) for p in node.parts)
        if isinstance(node, t.Or):
            return any(self.holds(p, at) for p in node.parts)
        if isinstance(node, t.Not):
            return not self.holds(node.part, at)
        assert isinstance(node, t.Cmp)
        return _compared(node.op, self.value(node.left, at), self.value(node.right, at), ties=self.ties)

    def _places(self, axes: tuple[Axis, ...]) -> Iterator[dict[Axis, int]]:
        return (dict(zip(axes, at, strict=True)) for at in self.indices(axes))

    @staticmethod
    def _sum(values: Iterator[Value]) -> Value:
        result: Value = Fraction(0)
        for value in values:
            result = plus(result, value)
        return result

    def _product(self, node: Tree, at: Mapping[Axis, int]) -> Value:
        factors = list(self._factors(node))
        gates = [f for f, _ in factors if self.is_gate(f)]
        around = [gate for f, exponent in factors if exponent > 0 for gate in self._outer_gates(f)]
        if self._hidden([*gates, *around], at) or t.Num(Fraction(0)) in (f for f, exponent in factors if exponent > 0):
            return Fraction(0)
        result: Value = Fraction(1)
        for factor, exponent in factors:
            if factor not in gates:
                value = self.value(factor, at)
                result = times(result, value if exponent == 1 else power(value, exponent))
        return result

    def _factors(self, node: Tree, exponent: int = 1) -> Iterator[tuple[Tree, int]]:
        """The factors of a product with the products and quotients that it holds taken apart; exponents are ±1."""
        if isinstance(node, t.Mul):
            for factor in node.factors:
                yield from self._factors(factor, exponent)
        elif isinstance(node, t.Div):
            yield from self._factors(node.above, exponent)
            yield from self._factors(node.below, -exponent)
        else:
            yield node, exponent

    def is_gate(self, node: Tree) -> bool:
        """Whether a factor is 0 or 1 by its kind."""
        if isinstance(node, t.Pow):
            return node.exponent > 0 and self.is_gate(node.base)
        if isinstance(node, t.Entry):
            return self.kinds[node.tensor] == "boolean"
        return isinstance(node, (t.Delta, t.Ind))

    def _outer_gates(self, node: Tree) -> Iterator[Tree]:
        """The gates that hide all of a sum: it is the same sum with them outside."""
        if isinstance(node, t.Sum):
            inside = [f for f, exponent in self._factors(node.body) if exponent > 0]
            gates = [f for f in inside if self.is_gate(f)]
            gates += [gate for f in inside for gate in self._outer_gates(f)]
            yield from (gate for gate in gates if not t.free_axes(gate) & set(node.axes))

    def _hidden(self, gates: list[Tree], at: Mapping[Axis, int]) -> bool:
        """Whether any gate is 0; one that is undefined counts only if no other hides it."""
        undefined: Undefined | None = None
        for gate in gates:
            try:
                if self.value(gate, at) == 0:
                    return True
            except Undefined as error:
                undefined = error
        if undefined is not None:
            raise undefined
        return False


def _compared(op: str, left: Value, right: Value, *, ties: bool) -> bool:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        x, y = left, right
    else:
        x, y = _in_order(left), _in_order(right)
        close = abs(x - y) <= max(abs(x), abs(y)) * MP.mpf("1e-20")
        if close and left is not right and not x == y == 0:
            if not ties:
                raise Tie(f"{MP.nstr(x, 10)} is compared with itself")
            y = x
    if op not in ("<=", "<", "==", "!="):
        raise ValueError(f"there is no comparison {op!r}")
    return bool({"<=": x <= y, "<": x < y, "==": x == y, "!=": x != y}[op])


@dataclass(frozen=True)
class Result:
    """Values of outputs and gradients of Σ cotangent · output for inputs.

    steepest: the largest slope that was met on the way, for tolerances; partial: whether some entry that an output does
    not need is undefined or singular, which code that computes whole arrays may stumble over.
    """

    values: dict[str, dict[Index, Any]]
    gradients: dict[str, dict[Index, Any]]
    steepest: Any
    partial: bool


def evaluate(program: Program, data: Mapping[str, Array], cotangents: Mapping[str, Array]) -> Result:
    """The outputs of a program, and the gradients of Σ cotangent · output in every real input that is no constant."""
    machine = Machine(program, data)
    outputs = {n: {at: machine.entry(n, at) for at in machine.indices(program.axes_of(n))} for n in program.outputs}
    loss: Value = Fraction(0)
    for name, entries in outputs.items():
        for at, value in entries.items():
            loss = plus(loss, times(Number(MP.mpf(cotangents[name][at])), value))
    found = slopes(loss)
    gradients: dict[str, dict[Index, Any]] = {}
    for given in program.inputs:
        if given.kind == "real" and not given.constant:
            read = {at: machine.kept.get((given.name, at)) for at in machine.indices(given.axes)}
            gradients[given.name] = {at: _slope(found, leaf) for at, leaf in read.items()}
    steepest = max((abs(s) for s in found.values()), default=MP.zero)
    values = {n: {at: number(v).value for at, v in entries.items()} for n, entries in outputs.items()}
    return Result(values, gradients, steepest, _partial(machine, program))


def _slope(found: Mapping[Number, Any], leaf: Value | None) -> Any:
    """The slope in an entry of an input; 0 in one that was never read."""
    return found.get(leaf, MP.zero) if isinstance(leaf, Number) else MP.zero


def _partial(machine: Machine, program: Program) -> bool:
    """Whether an entry of a definition has no value; outputs have been computed already."""
    try:
        for definition in program.definitions:
            for at in machine.indices(definition.axes):
                machine.entry(definition.name, at)
    except (Undefined, Singular, Tie):
        return True
    return False
