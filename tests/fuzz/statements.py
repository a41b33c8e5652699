"""Random statements ``left = right`` for a prover: true ones by rewriting, and half of them changed to be false.

The rewritings are those that people make by hand, and so are the changes: a wrong index, a factor lost, an axiom used
where it does not apply. What a statement was made from is only a hint. Whether it is true is settled by evaluating both
sides at small sizes, at random numbers that keep what is assumed of them (:func:`falsehood`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any, Literal

from tests.fuzz import trees as t
from tests.fuzz.draw import Drawer
from tests.fuzz.evaluate import MP, Array, Index, Machine, Singular, Tie, Undefined, number
from tests.fuzz.names import Names
from tests.fuzz.shrink import smaller, weight_of
from tests.fuzz.trees import (
    MINUS,
    ONE,
    ZERO,
    Add,
    Axis,
    Cmp,
    Definition,
    Delta,
    Div,
    Entry,
    Fn,
    Ind,
    Input,
    Mul,
    Num,
    Parameter,
    Pos,
    Pow,
    Program,
    Size,
    Sum,
    Tree,
    tree,
)

TRIALS = 6
"""At how many random points a statement is looked at."""

MOST_SIGNS = 8
"""An expectation is taken over at most so many entries, all of whose values are gone through."""


@dataclass(frozen=True)
class Assumed:
    """What a statement assumes of a tensor.

    ``sums_to_one``: Σ tensor = 1 over the index in place ``over``; ``products_sum_to_delta``: Σ tensor · other over it
    is δ of the other indices; ``square_is``: tensor² = 1 − other²; ``expected``: the sides are expectations, and the
    entries of the tensor independent, of mean 0 and variance 1.
    """

    kind: Literal["sums_to_one", "products_sum_to_delta", "square_is", "expected"]
    tensor: str
    other: str = ""
    over: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.tensor}{f', {self.other}' if self.other else ''}; index {self.over})"


@dataclass(frozen=True)
class Statement:
    """``left = right`` for all positions of the free axes and all sizes.

    change: what was done to it that is likely to have made it false; nothing, if it is true by construction.
    """

    left: Tree
    right: Tree
    tensors: tuple[Input, ...]
    definitions: tuple[Definition, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    change: str = ""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The free axes of both sides, by name."""
        return tuple(sorted(t.free_axes(self.left) | t.free_axes(self.right), key=lambda a: (a.name, a.size)))

    @property
    def sizes(self) -> tuple[str, ...]:
        """All sizes, by name."""
        trees = (self.left, self.right, *(d.value for d in self.definitions))
        found = {s for node in trees for s in t.sizes_in(node)} | {a.size for a in self.axes}
        found |= {a.size for x in (*self.tensors, *self.definitions) for a in x.axes}
        return tuple(sorted(found | {x.below.size for x in self.tensors if x.below is not None}))

    def program(self, sizes: Mapping[str, int]) -> Program:
        """The tensors and definitions as a program at some sizes, without outputs."""
        return Program("statement", "", self.tensors, self.parameters, self.definitions, (), dict(sizes))

    def __str__(self) -> str:
        lines = [f"  tensor {t.show_input(x)}" for x in self.tensors]
        lines += [f"  parameter {p.name}" for p in self.parameters]
        lines += [f"  {d.name}[{', '.join(a.name for a in d.axes)}] := {d.value}" for d in self.definitions]
        lines += [f"  assumed {a}" for a in self.assumed]
        sides = [f"  left  = {self.left}", f"  right = {self.right}"]
        changed = [f"  changed: {self.change}"] if self.change else []
        return "\n".join(["statement", *lines, *sides, *changed])


# Truth.


@dataclass(frozen=True)
class Point:
    """Sizes, entries of tensors as nested lists, parameters, and a position of the free axes, all by name."""

    sizes: Mapping[str, int]
    tensors: Mapping[str, Any]
    parameters: Mapping[str, Fraction]
    at: Mapping[str, int]


def falsehood(statement: Statement, seed: int, trials: int = TRIALS) -> str | None:
    """Why a statement is not true: a point at which the sides differ. None where they agree at all points looked at.

    Divisions by 0 and logarithms of 0 are passed over: a statement is about all other points. An entry that one side
    alone reads outside of its tensor is a difference.

    Raises
    ------
    Undefined: neither side has a value at any of the points.
    """
    looked = 0
    for trial in range(trials):
        rng = Random(f"{seed} {trial}")
        sizes = _sizes(statement, rng)
        for at, left, right in _sides(statement, sizes, rng):
            where = f"{_spelled(sizes)}, at {_spelled({a.name: v for a, v in at.items()})}"
            if isinstance(left, str) and isinstance(right, str):
                continue
            looked += 1
            apart = _apart(left, right, "1e-22")
            if apart:
                return f"{apart}: {where}"
    if not looked:
        raise Undefined("no point at which a side has a value")
    return None


def differs_at(statement: Statement, point: Point) -> bool:
    """Whether the sides of a statement that assumes nothing differ at one point.

    Raises
    ------
    Singular: a side has no finite value there.
    """
    rng = Random(0)  # what the two sides do not depend on may be missing
    parameters = tuple(replace(p, value=Fraction(point.parameters.get(p.name, p.value))) for p in statement.parameters)
    program = replace(statement, parameters=parameters).program({s: point.sizes.get(s, 1) for s in statement.sizes})
    given = _data(statement, program.sizes, rng)
    for name in given.keys() & point.tensors.keys():
        given[name] = {place: _read(point.tensors[name], place) for place in given[name]}
    machine = Machine(program, given, branches=True, ties=True)
    at = {axis: point.at.get(axis.name, 0) for axis in statement.axes}
    sides = [_mean([(MP.one, machine)], side, at) for side in (statement.left, statement.right)]
    return bool(_apart(*sides, "1e-33"))


def _apart(left: Any, right: Any, tolerance: str) -> str:
    """How two sides differ, relatively; in place of a value stands the reason why there is none."""
    if isinstance(left, str) and isinstance(right, str):
        return ""
    if isinstance(left, str) or isinstance(right, str):
        missing, why = ("left", left) if isinstance(left, str) else ("right", right)
        return f"only the {missing} side is undefined ({why})"
    if abs(left - right) > MP.mpf(tolerance) * max(1, abs(left), abs(right)):
        return f"left = {MP.nstr(left, 12)}, right = {MP.nstr(right, 12)}"
    return ""


def _read(nested: Any, place: Index) -> Any:
    for k in place:
        nested = nested[k]
    return _mpf(nested) if isinstance(nested, Fraction) else nested


def _spelled(values: Mapping[str, int]) -> str:
    return ", ".join(f"{n} = {v}" for n, v in values.items()) or "no axes"


def _sizes(statement: Statement, rng: Random) -> dict[str, int]:
    """Random sizes; those of assumed tensors fit what is assumed."""
    sizes = {s: rng.choice((1, 2, 2, 3, 3, 4)) for s in statement.sizes}
    for assumed in statement.assumed:
        axes = next(x.axes for x in statement.tensors if x.name == assumed.tensor)
        if assumed.kind == "products_sum_to_delta":
            rows, columns = axes[assumed.over].size, axes[1 - assumed.over].size
            if assumed.tensor != assumed.other:
                sizes[rows] = sizes[columns]
            sizes[rows], sizes[columns] = max(sizes[rows], sizes[columns]), min(sizes[rows], sizes[columns])
        if assumed.kind == "expected":
            for axis in axes:
                sizes[axis.size] = min(sizes[axis.size], 3 if len(axes) == 1 else 2)
    return sizes


def _sides(statement: Statement, sizes: dict[str, int], rng: Random) -> Iterator[tuple[dict[Axis, int], Any, Any]]:
    """Both sides at every position of the free axes; in place of a value stands the reason why there is none."""
    data = _data(statement, sizes, rng)
    parameters = tuple(replace(p, value=_parameter(p, rng)) for p in statement.parameters)
    program = replace(statement, parameters=parameters).program(sizes)
    random = next((a.tensor for a in statement.assumed if a.kind == "expected"), None)
    worlds = [(MP.one, data)] if random is None else list(_worlds(statement, sizes, rng, random, data))
    machines = [(share, Machine(program, world, branches=True)) for share, world in worlds]
    for places in product(*(range(sizes[a.size]) for a in statement.axes)):
        at = dict(zip(statement.axes, places, strict=True))
        try:
            yield at, _mean(machines, statement.left, at), _mean(machines, statement.right, at)
        except (Tie, Singular):
            continue


def _parameter(parameter: Parameter, rng: Random) -> Fraction:
    """A statement is about all values of its parameters, 0 among them."""
    if rng.random() < 0.1:
        return Fraction(0)
    return Fraction(rng.randint(-2, 4)) if parameter.integer else Fraction(rng.randint(1, 24), 8) * rng.choice((-1, 1))


def _mean(machines: Sequence[tuple[Any, Machine]], side: Tree, at: Mapping[Axis, int]) -> Any:
    try:
        return sum(share * number(machine.value(side, at)).value for share, machine in machines)
    except Undefined as error:
        return str(error)


def _worlds(
    statement: Statement, sizes: dict[str, int], rng: Random, name: str, data: dict[str, Array]
) -> Iterator[tuple[Any, dict[str, Array]]]:
    """All values of a random tensor with their probabilities, of mean 0 and variance 1: ±1, or −1/2 and 2."""
    lopsided = rng.random() < 0.5
    values = ((Fraction(-1, 2), Fraction(4, 5)), (Fraction(2), Fraction(1, 5))) if lopsided else _SIGNS
    axes = next(x.axes for x in statement.tensors if x.name == name)
    places = list(product(*(range(sizes[a.size]) for a in axes)))
    for chosen in product(values, repeat=len(places)):
        share = Fraction(1)
        for _, probability in chosen:
            share *= probability
        world = {at: _mpf(value) for at, (value, _) in zip(places, chosen, strict=True)}
        yield _mpf(share), {**data, name: world}


_SIGNS = ((Fraction(-1), Fraction(1, 2)), (Fraction(1), Fraction(1, 2)))


def _mpf(value: Fraction) -> Any:
    return MP.mpf(value.numerator) / value.denominator


def _data(statement: Statement, sizes: Mapping[str, int], rng: Random) -> dict[str, Array]:
    """Random numbers for all tensors; assumptions hold in 40 digits."""
    data: dict[str, Array] = {}
    for given in statement.tensors:
        places = product(*(range(sizes[a.size]) for a in given.axes))
        data[given.name] = {at: _entry(given, sizes, rng) for at in places}
    for assumed in statement.assumed:
        shape = tuple(sizes[a.size] for a in next(x.axes for x in statement.tensors if x.name == assumed.tensor))
        if assumed.kind == "sums_to_one":
            data[assumed.tensor] = _stochastic(data[assumed.tensor], assumed.over % len(shape), rng)
        if assumed.kind == "square_is":
            turns = data[assumed.tensor]
            data[assumed.tensor] = {at: MP.sin(x) for at, x in turns.items()}
            data[assumed.other] = {at: MP.cos(x) for at, x in turns.items()}
        if assumed.kind == "products_sum_to_delta":
            data |= _inverses(assumed, shape, rng)
    return data


def _entry(given: Input, sizes: Mapping[str, int], rng: Random) -> Any:
    if given.kind == "boolean":
        return rng.random() < 0.6
    if given.kind == "integer":
        low, high = given.low, given.high
        if given.below is not None:
            low, high = -1 if given.negative else 0, sizes[given.below.size] - 1
        return rng.randint(low, high)
    return rng.uniform(0.3, 2) * rng.choice((1, 1, 3)) * rng.choice((-1, 1))


def _stochastic(array: Array, over: int, rng: Random) -> dict[Index, Any]:
    """Entries whose sums over one index are 1; positive ones, or of both signs, since that is all that is assumed."""
    both = rng.random() < 0.5
    rows: dict[Index, list[Index]] = {}
    for at in array:
        rows.setdefault((*at[:over], *at[over + 1 :]), []).append(at)
    made: dict[Index, Any] = {}
    for row in rows.values():
        values = [MP.mpf(rng.uniform(0.3, 2)) for _ in row]
        if both and len(row) > 1:
            values[rng.randrange(len(row))] *= -MP.mpf("0.3")
        whole = sum(values)
        whole = whole if abs(whole) > 0.05 else whole + 1
        made |= {at: v / whole for at, v in zip(row, values, strict=True)}
        made[row[-1]] += 1 - sum(made[at] for at in row)
    return made


def _inverses(assumed: Assumed, shape: tuple[int, ...], rng: Random) -> dict[str, dict[Index, Any]]:
    """Columns that are orthonormal, or two matrices one of which is the transposed inverse of the other."""
    rows, columns = shape[assumed.over], shape[1 - assumed.over]
    matrix = MP.matrix(rows, columns)
    for a, b in product(range(rows), range(columns)):
        matrix[a, b] = rng.uniform(-1, 1) + (2 if a == b else 0)
    other = matrix
    if assumed.tensor != assumed.other:
        other = (matrix**-1).T
    else:
        for b in range(columns):  # Gram-Schmidt
            for c in range(b):
                along = sum(matrix[a, b] * matrix[a, c] for a in range(rows))
                for a in range(rows):
                    matrix[a, b] -= along * matrix[a, c]
            length = MP.sqrt(sum(matrix[a, b] ** 2 for a in range(rows)))
            for a in range(rows):
                matrix[a, b] /= length
    places = list(product(range(rows), range(columns)))
    upright = assumed.over == 0
    return {
        name: {((a, b) if upright else (b, a)): m[a, b] for a, b in places}
        for name, m in ((assumed.tensor, matrix), (assumed.other, other))
    }


# Drawing.

RANDOM = "X0"
"""The tensor over which expectations are taken."""

Scope = tuple[Axis, ...]
Rule = Callable[["Writer", Tree, Scope], Tree | None]


def draw(seed: int) -> Statement:
    """The statement of a seed."""
    return Writer(Random(f"statement {seed}")).statement()


class Writer:
    """Draws statements."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.drawer = Drawer(rng, Names(rng, hostile=False), strict=True)
        self.definitions: list[Definition] = []
        self.special: list[Input] = []
        self.assumed: list[Assumed] = []
        self.change = ""
        self.whole: Tree = ONE

    def statement(self) -> Statement:
        """A statement, true or changed."""
        drawer = self.drawer
        drawer.axes()
        inputs = [replace(i, positive=False) for i in drawer.inputs()]
        if drawer.chance(0.3):
            drawer.parameters.append(drawer.parameter())
        for _ in range(drawer.pick((5, 0), (3, 1), (2, 2))):
            axes = drawer.some_axes()
            definition = Definition(drawer.names.tensor(), axes, drawer.real(axes, 2))
            drawer.tensors[definition.name] = definition
            self.definitions.append(definition)
        scope = drawer.some_axes()
        wrong = drawer.chance(0.5)
        left, right = self.sides(scope, wrong)
        statement = Statement(
            left,
            right,
            (*inputs, *self.special),
            tuple(self.definitions),
            tuple(drawer.parameters),
            tuple(self.assumed),
            self.change,
        )
        return _needed(statement)

    def sides(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """Left and right."""
        drawer = self.drawer
        pattern = drawer.pick(
            (11, self.plain),
            (4, self.sums_to_one),
            (3, self.products_sum_to_delta),
            (2.5, self.expected),
            (1.5, self.square_is),
        )
        before = wrong and pattern != self.plain and drawer.chance(0.75)
        left, right = pattern(scope, before)
        if pattern != self.plain and drawer.chance(0.4):
            more = drawer.real(scope, 1)
            left, right = left + more, right + more
        if wrong and not self.change:
            right = self.changed(right, scope)
        if not any(a.kind == "expected" for a in self.assumed):
            left = self.rewritten(left, scope, drawer.rng.randint(0, 2))
        right = self.rewritten(right, scope, drawer.rng.randint(0 if pattern != self.plain else 1, 4))
        return (left, right) if drawer.chance(0.7) else (right, left)

    # Patterns.

    def plain(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """Any expression, twice."""
        expr = self.drawer.real(scope, self.rng.choice((2, 3)))
        return expr, expr

    def axis(self, scope: Scope, size: str | None = None) -> Axis:
        """An axis that the scope does not have."""
        sizes = sorted({a.size for a in self.drawer.pool})
        return self.drawer.fresh_axis(size or self.rng.choice(sizes), scope)

    def tensor(self, name: str, *axes: Axis) -> Input:
        """A tensor of which something is assumed; it stands nowhere else."""
        given = Input(name, axes)
        self.special.append(given)
        return given

    def sums_to_one(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """Σ_b A[e, b] f = f."""
        drawer, over = self.drawer, self.rng.choice((-1, 0))
        summed = self.axis(scope)
        beside = self.axis((*scope, summed))
        b = Pos(summed)
        rest = drawer.real(scope, 1)

        def entry(e: Tree, at: Tree) -> Tree:
            return Entry("A0", (e, at) if over == -1 else (at, e))

        place = drawer.place(beside.size, scope, frozenset(), 1)
        e = place.node if place is not None and not place.gates else ZERO
        left: Tree = entry(e, b)
        if wrong:
            n = Size(beside.size)
            along = b if beside.size == summed.size else Fn("mod", (b, n))
            self.change, left = self.rng.choice(
                (
                    ("the other index mirrors the summed one", entry(n - 1 - along, b)),
                    (
                        "the other index is the remainder of the summed one by 2",
                        entry(self._clipped(Fn("mod", (b, tree(2))), n), b),
                    ),
                    ("the other index is looked up at the summed one", entry(self.lookup(summed, beside), b)),
                    ("the diagonal", entry(along, b)),
                    ("the square", Pow(entry(e, b), 2)),
                    ("the summed index is clipped", entry(e, Fn("max", (b - 1, ZERO)))),
                    ("the summed index is halved", entry(e, Fn("floor", (b / 2,)))),
                    ("the summed index is looked up", entry(e, self.lookup(summed, summed))),
                    ("a factor that varies", entry(e, b) * drawer.leaf((*scope, summed))),
                    ("the absolute value", Fn("abs", (entry(e, b),))),
                    ("a gate on the summed index", Ind(drawer.comparison((*scope, summed), summed)) * entry(e, b)),
                )
            )
        self.tensor("A0", *((beside, summed) if over == -1 else (summed, beside)))
        self.assumed.append(Assumed("sums_to_one", "A0", "", over))
        return Sum((summed,), t.product(*self.shuffled((left, rest)))), rest

    def _clipped(self, place: Tree, n: Tree) -> Tree:
        return Fn("min", (place, n - 1))

    def lookup(self, at: Axis, into: Axis) -> Tree:
        """An integer tensor at an axis, whose entries are positions along another."""
        name = "J0" if into == at else "J1"
        self.special.append(Input(name, (at,), "integer", below=into))
        return Entry(name, (Pos(at),))

    def products_sum_to_delta(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """Σ_a B[a, p] B[a, q] f = δ(p, q) f."""
        drawer = self.drawer
        same = drawer.chance(0.7)
        row = self.axis(scope)
        column = self.axis((*scope, row), row.size if not same else None)
        over = self.rng.choice((0, 1))
        p, q = (self.column(scope, row, column.size) for _ in range(2))
        if p == q:
            q = ZERO
        rest = drawer.real(scope, 1)
        a, other = Pos(row), "B0" if same else "D0"

        def entry(name: str, at: Tree, of: Tree) -> Tree:
            return Entry(name, (at, of) if over == 0 else (of, at))

        left = entry("B0", a, p) * entry(other, a, q)
        right = Delta(p, q) * rest
        if wrong:
            n, m = Size(row.size), Size(column.size)
            along = Fn("mod", (a, m))
            self.change, left, right = self.rng.choice(
                (
                    ("one index is mirrored", entry("B0", a, p) * entry(other, n - 1 - a, q), right),
                    (
                        "a column that moves along",
                        entry("B0", a, along) * entry(other, a, q),
                        right,
                    ),
                    ("both columns move along", entry("B0", a, along) * entry(other, a, along), rest),
                    ("a cube", Pow(entry("B0", a, p), 2) * entry(other, a, p), rest),
                    ("the delta is lost", left, rest),
                    ("a gate on the summed index", Ind(Cmp("<=", ONE, a)) * left, right),
                    ("the wrong index is summed", entry("B0", p, a) * entry(other, q, a), right)
                    if row.size == column.size
                    else ("the fourth power", Pow(entry("B0", a, p), 4), rest),
                    (
                        "both indices are clipped",
                        t.product(*(entry(x, Fn("max", (a - 1, ZERO)), p) for x in ("B0", other))),
                        rest,
                    ),
                )
            )
        self.tensor("B0", *((row, column) if over == 0 else (column, row)))
        if other != "B0":
            self.tensor(other, *((row, column) if over == 0 else (column, row)))
        self.assumed.append(Assumed("products_sum_to_delta", "B0", other, over))
        return Sum((row,), t.product(*self.shuffled((left, rest)))), right

    def column(self, scope: Scope, row: Axis, size: str) -> Tree:
        """A position of some size that does not depend on the summed row."""
        same = [a for a in scope if a.size == size and a != row]
        if same:
            place = Pos(self.rng.choice(same))
            return self.drawer.pick((5, place), (1, Size(size) - 1 - place), (1, Fn("max", (place - 1, ZERO))))
        return self.rng.choice((ZERO, Size(size) - 1))

    def expected(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """E Σ_c,e X[c] X[e] W[c, e] = Σ_c W[c, c]."""
        drawer = self.drawer
        first = self.axis(scope)
        second = t.unused_axis(first, {*scope, first, *drawer.pool})
        inner = (*scope, first, second)
        c, e = Pos(first), Pos(second)
        weight = drawer.real(inner, 1)
        self.assumed.append(Assumed("expected", RANDOM))
        joined = t.substituted(weight, {second: c})
        if not wrong:
            self.tensor(RANDOM, first)
            if drawer.chance(0.3):
                return Sum((first,), Pow(self.x(c), 2) * joined), Sum((first,), joined)
            left = Sum((first, second), t.product(*self.shuffled((self.x(c), self.x(e), weight))))
            return left, Sum((first,), joined)
        third = t.unused_axis(first, {*inner, *drawer.pool})
        fourth = t.unused_axis(third, {*inner, third, *drawer.pool})
        f, g = Pos(third), Pos(fourth)
        n = Size(first.size)
        if drawer.chance(0.45):
            self.change = "moments of a tensor with two axes, by the first index alone"
            self.tensor(RANDOM, first, third)
            left = Sum((first, second), Entry(RANDOM, (c, f)) * Entry(RANDOM, (e, g)) * weight)
            return total_over((third, fourth), left), total_over((third, fourth), Sum((first,), joined))
        self.tensor(RANDOM, first)
        self.change, left, right = self.rng.choice(
            (
                (
                    "an expectation inside a function",
                    Fn("exp", (Pow(self.x(c), 2),)) * weight,
                    Fn("exp", (ONE,)) * weight,
                ),
                ("an expectation inside a divisor", weight / (ONE + Pow(self.x(c), 2)), weight / 2),
                ("a mean that is squared", Pow(self.x(c), 3) * weight, self.x(c) * weight),
                ("a mirrored index", self.x(n - 1 - c) * self.x(e) * weight, Delta(c, e) * weight),
                ("a linear term stays", self.x(c) * weight, weight),
                ("the square of a sum", self.x(c) * self.x(e) * weight, weight),
                ("the root of a square", Fn("sqrt", (Pow(self.x(c), 2),)) * weight, weight),
            )
        )
        return Sum((first, second), left), Sum((first, second), right)

    @staticmethod
    def x(at: Tree) -> Tree:
        """An entry of the random tensor."""
        return Entry(RANDOM, (at,))

    def square_is(self, scope: Scope, wrong: bool) -> tuple[Tree, Tree]:
        """N[p]² f = (1 − C[p]²) f."""
        drawer = self.drawer
        p, q = self.axis(scope), self.axis(scope)
        inner = (*scope, p)
        rest = drawer.real(inner, 1)
        self.tensor("N0", p)
        self.tensor("C0", p)
        self.assumed.append(Assumed("square_is", "N0", "C0"))
        other = Pos(q) if q.size == p.size else Size(p.size) - 1 - Pos(p)

        def entry(name: str, at: Tree) -> Tree:
            return Entry(name, (at,))

        place = self.rng.choice((Pos(p), Pos(p), Size(p.size) - 1 - Pos(p), Fn("mod", (Pos(p) + 1, Size(p.size)))))
        left = Pow(entry("N0", place), self.rng.choice((2, 2, 2, 3)))
        rest_of = ONE if left.exponent == 2 else entry("N0", place)
        right = (ONE - Pow(entry("C0", place), 2)) * rest_of
        if wrong:
            self.change, right = self.rng.choice(
                (
                    ("another index", ONE - Pow(entry("C0", other), 2)),
                    ("a sign", ONE + Pow(entry("C0", place), 2)),
                    ("no square", ONE - entry("C0", place)),
                    ("the root", Fn("sqrt", (ONE - Pow(entry("C0", place), 2),)) * entry("N0", place)),
                )
            )
        return Sum((p,), left * rest), Sum((p,), right * rest)

    def shuffled(self, factors: tuple[Tree, ...]) -> tuple[Tree, ...]:
        """Factors in any order."""
        return tuple(self.rng.sample(factors, len(factors)))

    # Rewriting.

    def rewritten(self, expr: Tree, scope: Scope, times: int) -> Tree:
        """The expression after some rewritings that change nothing."""
        for _ in range(times):
            expr, _ = self.somewhere(expr, scope, TRUE_RULES) or (expr, "")
        return expr

    def changed(self, expr: Tree, scope: Scope) -> Tree:
        """The expression after one change that is likely to make it another one."""
        made = self.somewhere(expr, scope, FALSE_RULES)
        if made is None:
            self.change = "one more"
            return expr + ONE
        expr, self.change = made
        return expr

    def somewhere(self, expr: Tree, scope: Scope, rules: Mapping[str, Rule]) -> tuple[Tree, str] | None:
        """A rule applied at a place where it applies, and its name; None where none does."""
        self.whole, places = expr, list(sites(expr, scope))
        for name in self.rng.sample(list(rules), len(rules)):
            for path, node, here in self.rng.sample(places, len(places)):
                made = rules[name](self, node, here)
                if made is not None and made != node:
                    return replaced(expr, path, made), name
        return None


def total_over(axes: Sequence[Axis], expr: Tree) -> Tree:
    """The sum over those of some axes that are free in an expression, and over the others too."""
    return Sum(tuple(axes), expr)


def sites(node: Tree, scope: Scope, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Tree, Scope]]:
    """Every expression in a tree that is neither an index nor in a condition, with its place and the axes around it."""
    yield path, node, scope
    if isinstance(node, (Entry, Delta, Ind)) or (isinstance(node, Fn) and node.name in ("mod", "floor")):
        return
    inner = (*(a for a in scope if a not in node.axes), *node.axes) if isinstance(node, Sum) else scope
    for k, part in enumerate(t.parts(node)):
        yield from sites(part, inner, (*path, k))


def replaced(node: Tree, path: tuple[int, ...], new: Tree) -> Tree:
    """The tree with another one at a place."""
    if not path:
        return new
    inside = list(t.parts(node))
    inside[path[0]] = replaced(inside[path[0]], path[1:], new)
    return t.with_parts(node, tuple(inside))


def is_plain(node: Tree) -> bool:
    """Whether a tree has a value everywhere: none of its entries may stand outside of a tensor."""
    return all(_inside(i) for n in t.walk(node) if isinstance(n, Entry) for i in n.indices)


def _inside(index: Tree) -> bool:
    """Whether an index is of a form that stays inside: an axis, its mirror image, what is clipped or comes round."""
    if isinstance(index, Add):
        shifted = isinstance(index.terms[-1], Num) and (index.terms[-1] == ONE or t.free_axes(index))
        return isinstance(index.terms[0], (Size, Add)) and not shifted
    return isinstance(index, (Pos, Num)) or (isinstance(index, Fn) and index.name != "abs")


# Rules that change nothing.


def _commute(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, (Add, Mul)):
        return type(node)(w.shuffled(t.parts(node)))
    return None


def _distribute(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Mul) or not is_plain(w.whole):
        return None
    sums = [f for f in node.factors if isinstance(f, Add)]
    if not sums:
        return None
    chosen = w.rng.choice(sums)
    k = node.factors.index(chosen)
    return Add(tuple(Mul((*node.factors[:k], term, *node.factors[k + 1 :])) for term in chosen.terms))


def _split_sum(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Sum) and isinstance(node.body, Add):
        return Add(tuple(Sum(node.axes, term) for term in node.body.terms))
    return None


def _join_sums(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Sum) and isinstance(node.body, Sum):
        inner = node.body
        if not set(inner.axes) & set(node.axes):
            return Sum((*inner.axes, *node.axes), inner.body)
    if isinstance(node, Sum) and len(node.axes) > 1:
        first, *rest = w.rng.sample(node.axes, len(node.axes))
        return Sum((first,), Sum(tuple(rest), node.body))
    return None


def _move_out(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Sum) or not isinstance(node.body, Mul) or not is_plain(node.body):
        return None
    outside = [f for f in node.body.factors if not t.free_axes(f) & set(node.axes)]
    inside = [f for f in node.body.factors if f not in outside]
    return t.product(*outside, Sum(node.axes, t.product(*inside))) if outside else None


def _move_in(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Mul) or not is_plain(node):
        return None
    sums = [f for f in node.factors if isinstance(f, Sum)]
    if not sums:
        return None
    chosen = w.rng.choice(sums)
    k = node.factors.index(chosen)
    others = (*node.factors[:k], *node.factors[k + 1 :])
    if any(t.free_axes(f) & set(chosen.axes) for f in others):
        return None
    return Sum(chosen.axes, Mul((*others, chosen.body)))


def _rename(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Sum):
        return None
    axis = w.rng.choice(node.axes)
    other = t.unused_axis(axis, {*scope, *node.axes, *t.free_axes(node.body)})
    body = t.substituted(node.body, {axis: Pos(other)})
    return Sum(tuple(other if a == axis else a for a in node.axes), body)


def _reindex(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """A sum goes backward, or starts at another position and comes round."""
    if not isinstance(node, Sum):
        return None
    axis = w.rng.choice(node.axes)
    n, p = Size(axis.size), Pos(axis)
    return Sum(node.axes, t.substituted(node.body, {axis: w.rng.choice((n - 1 - p, Fn("mod", (p + 1, n))))}))


def _delta(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """f(a) = Σ_k δ(k, a) f(k)."""
    free = sorted(t.free_axes(node), key=lambda a: a.name)
    if not free or isinstance(node, (Delta, Ind)) or not is_plain(w.whole):
        return None
    axis = w.rng.choice(free)
    k = t.unused_axis(axis, {*scope, *free})
    return Sum((k,), Mul((Delta(Pos(k), Pos(axis)), t.substituted(node, {axis: Pos(k)}))))


def _contract(w: Writer, node: Tree, scope: Scope, *, ranged: bool = True) -> Tree | None:
    """Σ_k δ(k, e) f(k) = [0 ≤ e] [e < n] f(e)."""
    if not isinstance(node, Sum) or not isinstance(node.body, Mul):
        return None
    for delta in node.body.factors:
        if isinstance(delta, Delta):
            for here, e in ((delta.left, delta.right), (delta.right, delta.left)):
                if isinstance(here, Pos) and here.axis in node.axes and not t.free_axes(e) & set(node.axes):
                    k = node.body.factors.index(delta)
                    rest = t.product(*node.body.factors[:k], *node.body.factors[k + 1 :])
                    gates = (Ind(Cmp("<=", ZERO, e)), Ind(Cmp("<", e, Size(here.axis.size)))) if ranged else ()
                    axes = tuple(a for a in node.axes if a != here.axis)
                    return t.product(*gates, t.total(t.substituted(rest, {here.axis: e}), *axes))
    return None


def _is_gate(w: Writer, node: Tree) -> bool:
    if isinstance(node, Entry) and node.tensor in w.drawer.tensors:
        return w.drawer.tensors[node.tensor].kind == "boolean"
    return isinstance(node, (Delta, Ind))


def _idempotent(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    return Mul((node, node)) if _is_gate(w, node) else None


def _compare(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """[a ≤ b] = 1 − [b < a], and the like."""
    if not isinstance(node, Ind) or not isinstance(node.condition, Cmp):
        return None
    other = {"<=": ("<", True), "<": ("<=", True), "==": ("!=", False), "!=": ("==", False)}
    op, swapped = other[node.condition.op]
    a, b = node.condition.left, node.condition.right
    return ONE - Ind(Cmp(op, b, a) if swapped else Cmp(op, a, b)) if is_plain(w.whole) else None


def _exponential(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """exp(x + y) = exp x · exp y, and the like of sine and cosine."""
    if not isinstance(node, Fn) or not isinstance(node.args[0], Add):
        return None
    x, y = (
        node.args[0].terms[0],
        t.Add(node.args[0].terms[1:]) if len(node.args[0].terms) > 2 else node.args[0].terms[1],
    )
    if node.name == "exp":
        return Fn("exp", (x,)) * Fn("exp", (y,))
    if node.name == "sin":
        return Fn("sin", (x,)) * Fn("cos", (y,)) + Fn("cos", (x,)) * Fn("sin", (y,))
    if node.name == "cos":
        return Fn("cos", (x,)) * Fn("cos", (y,)) - Fn("sin", (x,)) * Fn("sin", (y,))
    return None


def _powers(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Pow) or node.exponent < 2:
        return None
    if isinstance(node.base, Fn) and node.base.name == "sin" and node.exponent == 2:
        return ONE - Pow(Fn("cos", node.base.args), 2)
    return Mul((node.base,) * node.exponent)


def _cancel(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """x = x y / y for some y above 0."""
    if _is_gate(w, node) or not is_plain(node):
        return None
    y = ONE + Pow(w.drawer.leaf(scope), 2)
    return Div(Mul((y, node)), y) if is_plain(y) else None


def _signs(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Mul) and MINUS in node.factors and len(node.factors) == 2:
        other = next((f for f in node.factors if f != MINUS), ONE)
        if isinstance(other, Add):
            return Add(tuple(t.negative(term) for term in other.terms))
    if isinstance(node, Fn) and node.name in ("sin", "tanh"):
        return t.negative(Fn(node.name, (t.negative(node.args[0]),)))
    return None


def _unfold(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Entry):
        return None
    found = [d for d in w.definitions if d.name == node.tensor]
    return t.substituted(found[0].value, dict(zip(found[0].axes, node.indices, strict=True))) if found else None


def _root(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """√x = √(4 x)/2."""
    if isinstance(node, Fn) and node.name == "sqrt":
        return Fn("sqrt", (node.args[0] * 4,)) / 2
    return None


def _seen(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """M f(x) = M f(M x), as M is 0 or 1."""
    if not isinstance(node, Mul) or not any(_is_gate(w, f) for f in node.factors):
        return None
    gate = next(f for f in node.factors if _is_gate(w, f))
    for k, f in enumerate(node.factors):
        if isinstance(f, Fn) and f.name in ("exp", "tanh", "sin", "cos", "abs"):
            shown = Fn(f.name, (Mul((gate, f.args[0])),))
            return Mul((*node.factors[:k], shown, *node.factors[k + 1 :]))
    return None


def _maximum(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """max(x, 0) = x [0 ≤ x] = x [0 < x]."""
    if isinstance(node, Fn) and node.name == "max" and len(node.args) == 2 and node.args[1] == ZERO:
        x = node.args[0]
        return Mul((x, Ind(Cmp(w.rng.choice(("<", "<=")), ZERO, x))))
    return None


def _count(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """Σ_k f = n f, where f does not vary."""
    if isinstance(node, Sum) and not t.free_axes(node.body) & set(node.axes) and is_plain(node.body):
        return t.product(*(Size(a.size) for a in node.axes), node.body)
    return None


TRUE_RULES: Mapping[str, Rule] = {
    "commute": _commute,
    "distribute": _distribute,
    "split a sum": _split_sum,
    "exchange sums": _join_sums,
    "move a factor out": _move_out,
    "move a factor in": _move_in,
    "rename": _rename,
    "reindex": _reindex,
    "introduce a delta": _delta,
    "contract a delta": _contract,
    "idempotence": _idempotent,
    "turn a comparison": _compare,
    "exponentials and angles": _exponential,
    "powers": _powers,
    "multiply and divide": _cancel,
    "signs": _signs,
    "unfold": _unfold,
    "roots": _root,
    "what is seen": _seen,
    "maximum": _maximum,
    "count": _count,
}


# Changes.


def _wrong_index(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Entry) or not node.indices:
        return None
    k = w.rng.randrange(len(node.indices))
    old = node.indices[k]
    if not isinstance(old, Pos):
        return None
    same = [a for a in scope if a.size == old.axis.size and a != old.axis]
    new: Tree = Pos(w.rng.choice(same)) if same else Size(old.axis.size) - 1 - old
    return Entry(node.tensor, (*node.indices[:k], new, *node.indices[k + 1 :]))


def _lost_factor(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Mul):
        return None
    k = w.rng.randrange(len(node.factors))
    return t.product(*node.factors[:k], *node.factors[k + 1 :])


def _lost_term(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    return w.rng.choice(node.terms) if isinstance(node, Add) else None


def _sign(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if not isinstance(node, Add):
        return None
    k = w.rng.randrange(len(node.terms))
    return Add((*node.terms[:k], t.negative(node.terms[k]), *node.terms[k + 1 :]))


def _contract_unranged(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    return _contract(w, node, scope, ranged=False)


def _shifted_delta(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """f = Σ_k δ(k, e) f for an e that may lie outside."""
    free = sorted(set(scope), key=lambda a: a.name)
    if not free:
        return None
    axis = w.rng.choice(free)
    k = t.unused_axis(axis, {*scope, *t.free_axes(node)})
    return Sum((k,), Mul((Delta(Pos(k), w.drawer.offset(axis)), node)))


def _square_root(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """x = √(x²)."""
    return Fn("sqrt", (Pow(node, 2),)) if isinstance(node, (Entry, Add)) and not _is_gate(w, node) else None


def _split_root(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """x y = √(x²) √(y²), or √(x² y² …) taken apart."""
    if isinstance(node, Mul) and len(node.factors) == 2 and not any(_is_gate(w, f) for f in node.factors):
        x, y = node.factors
        return Fn("sqrt", (Pow(x, 2) * Pow(y, 2),))
    return None


def _log_of_product(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """x y = exp(log(x y)) = exp(log x + log y)."""
    if isinstance(node, Mul) and len(node.factors) == 2 and not any(_is_gate(w, f) for f in node.factors):
        x, y = node.factors
        return w.rng.choice(
            (
                Fn("exp", (Fn("log", (x,)) + Fn("log", (y,)),)),
                Fn("exp", (Fn("log", (Pow(x, 2),)) / 2 + Fn("log", (Pow(y, 2),)) / 2,)),
            )
        )
    return None


def _gate_inside(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """M f(x) = f(M x), which holds only where f(0) = 0."""
    if not isinstance(node, Mul) or len(node.factors) != 2:
        return None
    gate, f = node.factors
    if _is_gate(w, gate) and isinstance(f, Fn) and f.name in ("exp", "cos"):
        return Fn(f.name, (Mul((gate, f.args[0])),))
    return None


def _gate_dropped(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """f(M x) = f(x)."""
    if isinstance(node, Fn) and isinstance(node.args[0], Mul):
        rest = [f for f in node.args[0].factors if not _is_gate(w, f)]
        if len(rest) < len(node.args[0].factors):
            return Fn(node.name, (t.product(*rest), *node.args[1:]))
    return None


def _captured(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """A summed axis takes the name of one that is free in the body."""
    if not isinstance(node, Sum):
        return None
    free = [a for a in t.free_axes(node) if a.size in {b.size for b in node.axes}]
    if not free:
        return None
    other = w.rng.choice(sorted(free, key=lambda a: a.name))
    axis = next(a for a in node.axes if a.size == other.size)
    body = t.rewritten(node.body, lambda n: Pos(other) if n == Pos(axis) else n)
    return Sum(tuple(other if a == axis else a for a in node.axes), body)


def _strict(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Ind) and isinstance(node.condition, Cmp) and node.condition.op in ("<", "<="):
        op = "<" if node.condition.op == "<=" else "<="
        return Ind(replace(node.condition, op=op))
    return None


def _lost_size(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Sum) and not t.free_axes(node.body) & set(node.axes):
        return node.body
    return None


def _power_of_sum(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    if isinstance(node, Pow) and node.exponent == 2 and isinstance(node.base, (Add, Sum)):
        if isinstance(node.base, Sum):
            return Sum(node.base.axes, Pow(node.base.body, 2))
        return Add(tuple(Pow(term, 2) for term in node.base.terms))
    return None


def _product_of_sums(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """Σ_k f g = Σ_k f · Σ_k g."""
    if isinstance(node, Sum) and isinstance(node.body, Mul) and len(node.body.factors) == 2:
        f, g = node.body.factors
        return Sum(node.axes, f) * Sum(node.axes, g)
    return None


def _function_of_sum(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """f(Σ x) = Σ f(x), or f(x + y) = f(x) + f(y)."""
    if isinstance(node, Fn) and len(node.args) == 1:
        inside = node.args[0]
        if isinstance(inside, Sum):
            return Sum(inside.axes, Fn(node.name, (inside.body,)))
        if isinstance(inside, Add) and node.name != "log":
            return Add(tuple(Fn(node.name, (term,)) for term in inside.terms if node.name != "sqrt" or term != MINUS))
    return None


def _maximum_scaled(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """X y = max(x y, 0) + min(x y, 0) with the sign of y forgotten: y max(x, 0) + min(x y, 0)."""
    if isinstance(node, Mul) and len(node.factors) == 2 and not any(_is_gate(w, f) for f in node.factors):
        x, y = node.factors
        return y * Fn("max", (x, ZERO)) + Fn("min", (x * y, ZERO))
    return None


def _edge(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """A sum that goes one further and hides what is outside."""
    if not isinstance(node, Sum):
        return None
    axis = w.rng.choice(node.axes)
    p, n = Pos(axis), Size(axis.size)
    moved = t.substituted(node.body, {axis: p + 1})
    return Sum(node.axes, Mul((Ind(Cmp("<", p + 1, n)), moved)))


def _swapped(w: Writer, node: Tree, scope: Scope) -> Tree | None:
    """A transpose where both axes have one size."""
    if isinstance(node, Entry) and len(node.indices) == 2 and node.tensor in w.drawer.tensors:
        a, b = w.drawer.tensors[node.tensor].axes
        return Entry(node.tensor, node.indices[::-1]) if a.size == b.size else None
    return None


FALSE_RULES: Mapping[str, Rule] = {
    "a wrong index": _wrong_index,
    "a factor is lost": _lost_factor,
    "a term is lost": _lost_term,
    "a sign": _sign,
    "a delta contracted without its range": _contract_unranged,
    "a delta that may point outside": _shifted_delta,
    "the root of a square": _square_root,
    "the root of a product of squares": _split_root,
    "the logarithm of a product": _log_of_product,
    "a gate moved into a function": _gate_inside,
    "a gate dropped inside a function": _gate_dropped,
    "a name captured": _captured,
    "a strict comparison": _strict,
    "a size is lost": _lost_size,
    "the square of a sum": _power_of_sum,
    "a sum of products as a product of sums": _product_of_sums,
    "a function of a sum": _function_of_sum,
    "a factor of any sign moved out of a maximum": _maximum_scaled,
    "a sum over shifted positions": _edge,
    "a transpose": _swapped,
}


def _needed(statement: Statement) -> Statement:
    """The statement without tensors, definitions and parameters that it does not mention."""
    wanted = t.tensors_in(statement.left) | t.tensors_in(statement.right)
    wanted |= {n for a in statement.assumed for n in (a.tensor, a.other) if n}
    definitions: list[Definition] = []
    for d in reversed(statement.definitions):
        if d.name in wanted:
            wanted |= t.tensors_in(d.value)
            definitions.insert(0, d)
    trees = (statement.left, statement.right, *(d.value for d in definitions))
    named = {n.name for node in trees for n in t.walk(node) if isinstance(n, t.Param)}
    return replace(
        statement,
        tensors=tuple(x for x in statement.tensors if x.name in wanted),
        definitions=tuple(definitions),
        parameters=tuple(p for p in statement.parameters if p.name in named),
    )


def smaller_statements(statement: Statement) -> Iterator[Statement]:
    """Statements with something left out, for shrinking."""

    def made(left: Tree, right: Tree) -> Statement:
        return _needed(replace(statement, left=left, right=right))

    shared = [n for n in t.walk(statement.left) if n in set(t.walk(statement.right)) and not isinstance(n, (Num, Pos))]
    for node in sorted(shared, key=lambda n: -sum(1 for _ in t.walk(n))):
        for simple in (ONE, ZERO, Num(Fraction(2))):
            both = [
                t.rewritten(s, lambda n, node=node, e=simple: e if n == node else n)
                for s in (statement.left, statement.right)
            ]
            yield made(*both)
    for left in smaller(statement.left):
        yield made(left, statement.right)
    for right in smaller(statement.right):
        yield made(statement.left, right)
    for k, d in enumerate(statement.definitions):
        for less in smaller(d.value):
            definitions = list(statement.definitions)
            definitions[k] = replace(d, value=less)
            yield _needed(replace(statement, definitions=tuple(definitions)))
    for k in range(len(statement.assumed)):
        rest = statement.assumed[:k] + statement.assumed[k + 1 :]
        yield _needed(replace(statement, assumed=rest))


def weight_of_statement(statement: Statement) -> int:
    """How much a statement holds."""
    trees = (statement.left, statement.right, *(d.value for d in statement.definitions))
    declared = len(statement.tensors) + len(statement.definitions) + len(statement.parameters) + len(statement.assumed)
    return sum(map(weight_of, trees)) + 5 * declared


def well_formed(statement: Statement) -> bool:
    """Whether both sides and all definitions mention known tensors in full."""
    ranks = {x.name: len(x.axes) for x in statement.tensors}
    for d in statement.definitions:
        if not t.free_axes(d.value) <= set(d.axes) or not _fits(d.value, ranks):
            return False
        ranks[d.name] = len(d.axes)
    return _fits(statement.left, ranks) and _fits(statement.right, ranks)


def _fits(node: Tree, ranks: Mapping[str, int]) -> bool:
    return all(ranks.get(n.tensor) == len(n.indices) for n in t.walk(node) if isinstance(n, Entry))
