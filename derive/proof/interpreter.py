"""The exact interpreter: evaluates a program entry by entry, straight from its definitions.

It is the oracle of the symbolic side. It shares nothing with lowering, printers or generated code:
a sum is a loop over an axis, and a hidden entry is skipped, not multiplied by zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra.axes import Axis, is_whole
from derive.algebra.binders import Maximum, Supremum, Total
from derive.algebra.functions import definition_of, moves
from derive.algebra.tensors import Delta, Entry, Indicator, Visible, is_gate
from derive.errors import AlgebraError
from derive.forward.program import Input, Program
from derive.proof.arithmetic import Arithmetic, Duals, Number, Symbolic, UndefinedError
from derive.proof.compared import asks_for_order, bends

At = dict[Axis, int]
"""The positions of axes."""

Evaluate = Callable[[At], Number]

Seen = dict[sp.Basic, set[bool]]
"""By comparison what it said at the points of a check; of Max, Min, Abs and steps, whether the first is the larger."""

HIDDEN = object()
"""The value of a product that a 0/1 factor hides: 0 in sums, and times anything still hidden, NaN included."""


class OutsideError(AlgebraError):
    """A tensor is read at an index that it does not have."""


Nested = Any
"""A number, or a (nested) sequence of numbers: an array's rows."""


def interpret(
    program: Program,
    inputs: Mapping[str, Nested],
    *,
    sizes: Mapping[str, int] | None = None,
    parameters: Mapping[str, Any] | None = None,
    arithmetic: Arithmetic | None = None,
) -> dict[str, Nested]:
    """Evaluate every definition of a program.

    Parameters
    ----------
    inputs: nested lists of exact numbers, each shaped like the input's axes; optional ones may be missing.
    sizes: sizes by name, needed only where an empty list hides them.
    parameters: values of parameters; a missing one takes its default.
    arithmetic: the kind of numbers; :class:`~derive.proof.arithmetic.Symbolic` if not given.

    Returns
    -------
    The nested lists of all definitions by name, outputs among them.

    Raises
    ------
    AlgebraError: an input is missing, has another shape, or an expression cannot be evaluated.
    """
    machine = Machine(program, arithmetic or Symbolic(), dict(sizes or {}))
    machine.take_inputs(inputs)
    machine.take_parameters(parameters or {})
    return {d.name: machine.define(d.target, d.value) for d in program.definitions}


class Machine:
    """A program under evaluation: tensors as dictionaries from index tuples to numbers.

    A tensor may be given or defined again: what is computed from it afterwards uses the new numbers. ``seen`` takes
    note of what comparisons say.
    """

    def __init__(
        self, program: Program, arithmetic: Arithmetic, sizes: dict[str, int], seen: Seen | None = None
    ) -> None:
        self.program, self.arithmetic, self.sizes, self.seen = program, arithmetic, sizes, seen
        self.tensors: dict[str, dict[tuple[int, ...], Number]] = {}
        self.scalars: dict[sp.Symbol, Number] = {}
        self.code: dict[sp.Expr, Evaluate] = {}
        self.conditions: dict[sp.Basic, Callable[[At], bool]] = {}
        self.sums: list[dict[tuple[int, ...], Number]] = []
        self.axes: dict[Axis, Axis] = {}
        self.lengths: dict[sp.Expr, int] = {}
        self.zero, self.one = arithmetic.number(0), arithmetic.number(1)

    def take_inputs(self, inputs: Mapping[str, Nested]) -> None:
        unknown = sorted(inputs.keys() - {i.name for i in self.program.inputs})
        if unknown:
            raise AlgebraError(f"{self.program.name} has no input {', '.join(unknown)}")
        for given in self.program.inputs:
            if given.name in inputs:
                for size, length in zip(given.tensor.shape, _shape(inputs[given.name], len(given.axes)), strict=False):
                    known = int(size) if size.is_Integer else self.sizes.setdefault(str(size), length)
                    if known != length:
                        raise AlgebraError(f"{self.program.name}: {given.name} has {length} where {size} is {known}")
        for given in self.program.inputs:
            if given.name in inputs:
                self.take_input(given, inputs[given.name])
            elif given.neutral is None:
                raise AlgebraError(f"{self.program.name}: input {given.name} is missing")
            else:
                value = self.arithmetic.number(given.neutral)
                self.keep(given.name, dict.fromkeys(self._indices(given.axes), value))

    def take_input(self, given: Input, nested: Nested) -> None:
        """One input's numbers, shaped like its axes."""
        self.keep(given.name, self._read(given.name, given.axes, nested))

    def take_parameters(self, parameters: Mapping[str, Any]) -> None:
        unknown = sorted(parameters.keys() - {p.name for p in self.program.parameters})
        if unknown:
            raise AlgebraError(f"{self.program.name} has no parameter {', '.join(unknown)}")
        for parameter in self.program.parameters:
            if parameter.name in parameters:
                value = parameters[parameter.name]
            else:
                value = parameter.default.subs({s: max(self.size(s), 1) for s in parameter.default.free_symbols})
            self.scalars[parameter.symbol] = value if parameter.symbol.is_integer else self.arithmetic.number(value)

    def define(self, target: Entry, value: sp.Expr) -> Nested:
        axes, evaluate = [self._one(axis) for axis in target.indices], self._compiled(value)
        entries = {at: evaluate(dict(zip(axes, at, strict=True))) for at in self._indices(axes)}
        self.keep(str(target.tensor.name), entries)
        shown = {at: self._shown(value) for at, value in entries.items()}
        return _nested(shown, [self.size(a.size) for a in axes])

    def keep(self, name: str, entries: dict[tuple[int, ...], Number]) -> None:
        """A tensor's numbers, in the dictionary that compiled expressions hold; new ones make known sums stale."""
        if name in self.tensors:
            for known in self.sums:
                known.clear()
        kept = self.tensors.setdefault(name, {})
        kept.clear()
        kept.update(entries)

    def _shown(self, value: Number) -> Number:
        return self.zero if value is HIDDEN else value

    def _read(self, name: str, axes: tuple[Axis, ...], nested: Nested) -> dict[tuple[int, ...], Number]:
        wanted = f"{self.program.name}: {name} is not a full array of its axes {', '.join(map(str, axes))}"
        level: dict[tuple[int, ...], Nested] = {(): nested}
        for axis in axes:
            length = self.size(axis.size)
            if any(not _is_list(item) or len(item) != length for item in level.values()):
                raise AlgebraError(wanted)
            level = {(*at, k): item for at, row in level.items() for k, item in enumerate(row)}
        if any(_is_list(item) for item in level.values()):
            raise AlgebraError(f"{wanted}: it has more")
        return {at: self.arithmetic.number(int(x) if isinstance(x, bool) else x) for at, x in level.items()}

    def size(self, size: sp.Expr) -> int:
        """A size as a number."""
        if size not in self.lengths:
            if not size.is_Integer and str(size) not in self.sizes:
                raise AlgebraError(f"{self.program.name}: size {size} cannot be read off the inputs; give it in sizes=")
            self.lengths[size] = int(size) if size.is_Integer else self.sizes[str(size)]
        return self.lengths[size]

    def _one(self, axis: Axis) -> Axis:
        """One object for equal axes: a position is looked up faster by a key that is the same."""
        return self.axes.setdefault(axis, axis)

    def constant(self, value: sp.Expr) -> Any:
        """What numbers, sizes and parameters make: an int, a Fraction or ±∞ where that is exact, else a number."""
        exact = value.xreplace({s: self._number_of(s) for s in value.free_symbols if s.is_integer})
        if exact.is_Rational:
            return int(exact) if exact.is_Integer else Fraction(int(exact.p), int(exact.q))
        return exact if exact in (sp.oo, -sp.oo) else self._compiled(value)({})

    def _indices(self, axes: Sequence[Axis]) -> list[tuple[int, ...]]:
        return list(product(*(range(self.size(a.size)) for a in axes)))

    def _compiled(self, expr: sp.Expr) -> Evaluate:
        """The expression as a function of the positions of its axes; each expression is compiled once."""
        if expr not in self.code:
            self.code[expr] = self._compile(expr)
        return self.code[expr]

    def _compile(self, expr: sp.Expr) -> Evaluate:
        arithmetic = self.arithmetic
        if isinstance(expr, Entry):
            return self._entry(expr)
        if expr.is_number and not any(map(_is_declared, expr.atoms(sp.Function))):
            constant = arithmetic.number(expr)
            return lambda at: constant
        if isinstance(expr, Axis):
            axis = self._one(expr)
            return lambda at: arithmetic.number(at[axis])
        if isinstance(expr, sp.Symbol):
            scalar = self._scalar(expr)
            return lambda at: scalar
        if isinstance(expr, (Total, Maximum)):
            return self._reduced(expr)
        if isinstance(expr, sp.Add):
            terms = [self._compiled(a) for a in expr.args]
            return lambda at: self._sum(term(at) for term in terms)
        if isinstance(expr, sp.Mul):
            return self._product(expr)
        if isinstance(expr, Indicator):
            holds = self._decided(expr.args[0])
            return lambda at: self.one if holds(at) else self.zero
        if isinstance(expr, Delta):
            left, right = map(self._place, expr.args)
            return lambda at: self.one if left(at) == right(at) else self.zero
        if isinstance(expr, sp.Pow) and expr.exp.is_Rational and expr.exp.q != 1 and self._is_made_of_sizes(expr):
            number = arithmetic.number(expr.xreplace({s: sp.Integer(self.size(s)) for s in expr.free_symbols}))
            return lambda at: number
        if isinstance(expr, sp.Pow) and expr.exp.is_Rational:
            base, exponent = self._compiled(expr.base), expr.exp
            return lambda at: arithmetic.power(self._shown(base(at)), exponent)
        whole = isinstance(expr, sp.Pow) and (is_whole(expr.exp) or not expr.exp.atoms(Entry, Total))
        if whole and not isinstance(expr, sp.exp):
            base, exponent = self._compiled(expr.base), self._exact(expr.exp)
            return lambda at: arithmetic.power(self._shown(base(at)), exponent(at))
        if isinstance(expr, sp.Pow) and not isinstance(expr, sp.exp):
            return self._general_power(expr)
        if isinstance(expr, (sp.Mod, sp.floor, sp.Min, sp.Max, sp.Abs)) and self._is_discrete(expr):
            exact = self._exact(expr)
            return self._watched(expr, lambda at: arithmetic.number(exact(at)))
        if (spelled_out := definition_of(expr)) is not None:
            return self._compiled(spelled_out)
        if isinstance(expr, (sp.Max, sp.Min)):
            return self._extreme(expr)
        if isinstance(expr, sp.Function):
            function, arguments = expr.func, [self._compiled(a) for a in expr.args]
            return self._watched(
                expr, lambda at: arithmetic.function(function, *(self._shown(a(at)) for a in arguments))
            )
        raise AlgebraError(f"the interpreter cannot evaluate {type(expr).__name__} in {expr}")

    def _extreme(self, expr: sp.Max | sp.Min) -> Evaluate:
        """A maximum or minimum; where numbers move, what holds no tensor wins a tie, and tensors share theirs."""
        function, arithmetic = expr.func, self.arithmetic
        groups = ([a for a in expr.args if moves(a) is kind] for kind in (False, True))
        fixed, moving = ([self._compiled(a) for a in group] for group in groups)

        def evaluate(at: At) -> Number:
            numbers, tensors = ([self._shown(a(at)) for a in group] for group in (fixed, moving))
            if not isinstance(arithmetic, Duals):
                return arithmetic.function(function, *numbers, *tensors)
            return arithmetic.extreme(function, numbers, tensors)

        return self._watched(expr, evaluate)

    def _general_power(self, expr: sp.Pow) -> Evaluate:
        """bᵉ as exp(e log b), with a number in the exponent apart: whatever log is here, b^(e + 1) is then b · bᵉ."""
        number, rest = expr.exp.as_coeff_Add()
        base, exponent, arithmetic = self._compiled(expr.base), self._compiled(rest), self.arithmetic

        def evaluate(at: At) -> Number:
            value = self._shown(base(at))
            power = arithmetic.function(sp.exp, self._shown(exponent(at)) * arithmetic.function(sp.log, value))
            return power * arithmetic.power(value, number)

        return evaluate

    def _watched(self, expr: sp.Expr, evaluate: Evaluate) -> Evaluate:
        """The same, taking note of the side of every bend of Max, Min, Abs and steps that is asked for."""
        if self.seen is None:
            return evaluate
        found = list(bends(expr))
        pairs = [(b.args[0], b.args[1] if isinstance(b, (sp.Max, sp.Min)) else sp.S.Zero) for b in found]
        sides = [self._decided(sp.StrictGreaterThan(*pair, evaluate=False)) for pair in pairs]

        def watched(at: At) -> Number:
            for side in sides:
                side(at)
            return evaluate(at)

        return watched if sides else evaluate

    @staticmethod
    def _is_discrete(expr: sp.Expr) -> bool:
        """Whether an expression is computed from positions, sizes, integer parameters, integer inputs and counts."""
        return all(s.is_integer for s in expr.free_symbols) and not expr.atoms(Maximum)

    def _is_made_of_sizes(self, expr: sp.Expr) -> bool:
        """Whether an expression is a number once sizes are known: no entries, axes, sums or parameters."""
        symbols = expr.free_symbols
        plain = all(not isinstance(s, Axis) and s not in self.scalars and str(s) in self.sizes for s in symbols)
        return plain and not expr.atoms(Entry, Total, Maximum)

    def _entry(self, expr: Entry) -> Evaluate:
        entries = self.tensors[str(expr.tensor.name)]
        indices = [self._one(index) if isinstance(index, Axis) else index for index in expr.indices]
        sizes = expr.tensor.shape
        if all(isinstance(index, Axis) and index.size == size for index, size in zip(indices, sizes, strict=True)):
            return lambda at: entries[tuple([at[index] for index in indices])]
        places = [self._place(index) for index in indices]

        def evaluate(at: At) -> Number:
            where = tuple(place(at) for place in places)
            if where not in entries:
                raise OutsideError(f"{expr} lies outside of {expr.tensor.name}: index {where}")
            return entries[where]

        return evaluate

    def _place(self, index: sp.Expr) -> Callable[[At], int]:
        """An index as an integer: an axis, a number, or something computed from positions and integer inputs."""
        if isinstance(index, Axis):
            axis = self._one(index)
            return lambda at: at[axis]
        value = self._exact(index)

        def whole(at: At) -> int:
            number = value(at)
            if number.is_finite is not True:
                raise UndefinedError(f"{index} is no position where it is {number}")
            return int(number)

        return self._watched(index, whole)

    def _exact(self, index: sp.Expr) -> Callable[[At], sp.Expr]:
        """What is computed from positions, sizes, parameters and integer inputs as a SymPy number."""
        looked_up: dict[sp.Basic, Evaluate] = {}
        outer = index
        for kind in (Total, Entry):  # what is counted first, then what stands outside of counts
            names = {part: sp.Dummy(integer=True) for part in outer.atoms(kind)}
            looked_up |= {dummy: self._compiled(part) for part, dummy in names.items()}
            outer = outer.xreplace(names)
        fixed = {s: self._number_of(s) for s in outer.free_symbols if not isinstance(s, (Axis, sp.Dummy))}
        outer = outer.xreplace(fixed)
        axes = [self._one(s) for s in outer.free_symbols if isinstance(s, Axis)]

        known: dict[tuple[Any, ...], sp.Expr] = {}  # there are few positions, and SymPy is slow

        def evaluate(at: At) -> sp.Expr:
            places = [at[axis] for axis in axes]
            counted = [self._whole(self._shown(part(at))) for part in looked_up.values()]
            key = (*places, *counted)
            if key not in known:
                given = (*zip(axes, map(sp.Integer, places), strict=True), *zip(looked_up, counted, strict=True))
                known[key] = outer.xreplace(dict(given))
            return known[key]

        return evaluate

    def _whole(self, value: Number) -> sp.Expr:
        """A count or an integer input as a SymPy number: also one that is known with a radius only."""
        number = self.arithmetic.compared(value)
        return sp.Integer(int(number)) if number.is_Float and float(number).is_integer() else number

    def _number_of(self, symbol: sp.Symbol) -> sp.Expr:
        """A parameter or size as a SymPy number."""
        value = self.scalars.get(symbol)
        if value is None:
            return sp.Integer(self.size(symbol))
        return sp.Integer(value) if symbol.is_integer else self.arithmetic.compared(value)

    def _scalar(self, symbol: sp.Symbol) -> Number:
        value = self.scalars.get(symbol)
        return self.arithmetic.number(self.size(symbol) if value is None else value)

    def _sum(self, values: Iterable[Number]) -> Number:
        total = self.zero
        for value in values:
            if value is not HIDDEN:
                total = total + value
        return total

    def _product(self, expr: sp.Mul) -> Evaluate:
        """A product whose 0/1 factors are decided first: what they hide is not evaluated, and stays hidden."""
        gates = [f for f in expr.args if is_gate(f)]
        ordered = [self._compiled(f) for f in gates]
        others = [self._compiled(f) for f in expr.args if f not in gates]

        def evaluate(at: At) -> Number:
            result = self.one
            for gate in ordered:
                value = gate(at)
                if value is HIDDEN or value == self.zero:
                    return HIDDEN
                result = result * value
            for factor in others:
                value = factor(at)
                if value is HIDDEN:
                    return HIDDEN
                result = result * value
            return result

        return evaluate

    def _reduced(self, expr: Total | Maximum) -> Evaluate:
        """A sum or maximum, remembered for each position of its free axes."""
        free = sorted((self._one(a) for a in expr.free_symbols if isinstance(a, Axis)), key=str)
        pinned = {self._one(axis): place for axis, place in self._pinned(expr).items()}
        looped = [self._one(axis) for axis in expr.axes if axis not in pinned]
        ranges = [dict(zip(looped, more, strict=True)) for more in self._indices(looped)]
        reduce = self._total(expr.body) if isinstance(expr, Total) else self._maximum(expr)
        memory: dict[tuple[int, ...], Number] = {}
        self.sums.append(memory)

        def evaluate(at: At) -> Number:
            key = tuple([at[axis] for axis in free])
            if key not in memory:
                here = dict(at)
                for axis, place in pinned.items():
                    here[axis] = place(at)
                inside = all(0 <= here[axis] < self.size(axis.size) for axis in pinned)
                memory[key] = reduce([{**here, **more} for more in ranges] if inside else [])
            return memory[key]

        return evaluate

    def _pinned(self, expr: Total | Maximum) -> dict[Axis, Callable[[At], int]]:
        """The axes of a sum at which a Kronecker delta leaves one position, given by what is outside of the sum."""
        pinned: dict[Axis, Callable[[At], int]] = {}
        deltas = [f for f in sp.Mul.make_args(expr.body) if isinstance(f, Delta)] if isinstance(expr, Total) else []
        for delta in deltas:
            for axis, other in (delta.args, delta.args[::-1]):
                if axis in expr.axes and axis not in pinned and not other.free_symbols & set(expr.axes):
                    pinned[axis] = self._place(other)
                    break
        return pinned

    def _total(self, body: sp.Expr) -> Callable[[list[At]], Number]:
        value = self._compiled(body)
        return lambda everywhere: self._sum(value(at) for at in everywhere)

    def _maximum(self, expr: Maximum) -> Callable[[list[At]], Number]:
        visibility, score = expr.body.args if isinstance(expr.body, Visible) else (sp.S.One, expr.body)
        seen, value = self._compiled(visibility), self._compiled(score)
        empty = self.arithmetic.number(-sp.oo) if isinstance(expr, Supremum) else self.zero

        def largest(everywhere: list[At]) -> Number:
            visible = [self._shown(value(at)) for at in everywhere if self._shown(seen(at)) != self.zero]
            return max(visible) if visible else empty

        return largest

    def _decided(self, condition: sp.Basic) -> Callable[[At], bool]:
        """A condition on positions, parameters and inputs as a function of the positions."""
        if condition not in self.conditions:
            self.conditions[condition] = self._condition(condition)
        return self.conditions[condition]

    def _condition(self, condition: sp.Basic) -> Callable[[At], bool]:
        if isinstance(condition, (sp.And, sp.Or)):
            parts, every = [self._decided(c) for c in condition.args], isinstance(condition, sp.And)
            return lambda at: (all if every else any)(part(at) for part in parts)
        if isinstance(condition, sp.Not):
            inner = self._decided(condition.args[0])
            return lambda at: not inner(at)
        if not isinstance(condition, Relational):
            raise AlgebraError(f"the condition {condition} is no comparison of positions, parameters and inputs")
        if asks_for_order(condition) and not getattr(self.arithmetic, "ordered", True):
            raise AlgebraError(f"{condition} has no fingerprint: the elements of a finite field have no order")
        left, right = (self._side(side) for side in condition.args)
        compare, seen = COMPARE[condition.rel_op], self.seen
        if seen is None:
            return lambda at: bool(compare(left(at), right(at)))
        said = seen.setdefault(condition, set())

        def evaluate(at: At) -> bool:
            answer = bool(compare(left(at), right(at)))
            said.add(answer)
            return answer

        return evaluate

    def _side(self, side: sp.Expr) -> Callable[[At], Any]:
        """One side of a comparison as something that Python compares."""
        if side.is_number:
            constant = int(side) if side.is_Integer else side
            return lambda at: constant
        if self._is_discrete(side):
            return self._place(side)
        value = self._compiled(side)
        return lambda at: self.arithmetic.compared(self._shown(value(at)))


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def _shape(nested: Nested, rank: int) -> list[int]:
    """The lengths down the first entries; shorter than the rank where an empty list hides the rest."""
    shape = []
    for _ in range(rank):
        if not _is_list(nested):
            break
        shape.append(len(nested))
        if not nested:
            break
        nested = nested[0]
    return shape


def _nested(entries: dict[tuple[int, ...], Number], shape: list[int], prefix: tuple[int, ...] = ()) -> Nested:
    if len(prefix) == len(shape):
        return entries[prefix]
    return [_nested(entries, shape, (*prefix, k)) for k in range(shape[len(prefix)])]


def _is_declared(function: sp.Function) -> bool:
    """Whether a function's value is known from what a program says of it, and not from SymPy."""
    return isinstance(function, sp.core.function.AppliedUndef) or definition_of(function) is not None


def _is_list(nested: Nested) -> bool:
    """Whether it is a row of something; a string is one number, spelled out."""
    return isinstance(nested, Sequence) and not isinstance(nested, str)
