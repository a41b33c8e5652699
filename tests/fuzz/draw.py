"""Random programs: one seed, one program, its inputs and its cotangents.

Every feature of index notation has a small method of its own that draws it; a program mixes them. What may be undefined
is hidden on purpose by 0/1 factors, but for a few programs that read outside of a tensor and have to be refused.
Entries of inputs depend on the seed, the tensor's name and the index alone, so that a case that is shrunk keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any, TypeVar

from tests.fuzz import trees as t
from tests.fuzz.evaluate import Array, Index
from tests.fuzz.names import Names
from tests.fuzz.trees import (
    ONE,
    ZERO,
    Add,
    And,
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
    Not,
    Num,
    Or,
    Param,
    Parameter,
    Pos,
    Pow,
    Program,
    Size,
    Sum,
    Tree,
    negative,
    total,
    tree,
)

HOSTILE = 0.3
"""The share of programs with hostile names and texts."""

OUTSIDE = 0.04
"""The share of programs that read outside of a tensor, which nothing hides."""

KINDS: tuple[tuple[float, t.Kind], ...] = ((7, "real"), (1.5, "boolean"), (2, "integer"))
"""The kinds of further inputs, by weight."""

BATCH = 0.15
"""The share of programs that are run with a leading axis."""


@dataclass(frozen=True)
class Case:
    """A program and the seed of its numbers; ``runs`` data sets are given in one call."""

    program: Program
    seed: int
    runs: int = 1

    def data(self, run: int = 0) -> dict[str, Array]:
        """The inputs of one run."""
        return {i.name: self._array(i.name, run, _entry_of(i, self.program)) for i in self.program.inputs}

    def cotangents(self, run: int = 0) -> dict[str, Array]:
        """The cotangents of one run."""
        return {n: self._array(f"d {n}", run, _real, self.program.axes_of(n)) for n in self.program.outputs}

    def _array(
        self, name: str, run: int, draw: Callable[[Random], Any], axes: tuple[Axis, ...] | None = None
    ) -> dict[Index, Any]:
        shape = (self.program.sizes[a.size] for a in (self.program.axes_of(name) if axes is None else axes))
        places = product(*map(range, shape))
        return {at: draw(Random(f"{self.seed} {run} {name} {at}")) for at in places}


def _real(rng: Random) -> float:
    return rng.choice((-1, 1)) * rng.uniform(0.1, 2.0)


def _entry_of(given: Input, program: Program) -> Callable[[Random], Any]:
    """How an entry of an input is drawn."""
    if given.kind == "boolean":
        return lambda rng: rng.random() < 0.65
    if given.kind == "integer":
        low, high = given.low, given.high
        if given.below is not None:
            low, high = -1 if given.negative else 0, program.sizes[given.below.size] - 1
        return lambda rng: rng.randint(low, high)
    return (lambda rng: rng.uniform(0.3, 2.5)) if given.positive else _real


def draw(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    return Case(Drawer(rng, Names(rng, rng.random() < HOSTILE)).program(), seed, 2 if rng.random() < BATCH else 1)


@dataclass(frozen=True)
class Placed:
    """An expression, the 0/1 factors that hide it where it is undefined, and axes that are still to be summed over."""

    node: Tree
    gates: tuple[Tree, ...] = ()
    axes: tuple[Axis, ...] = ()


Scope = tuple[Axis, ...]
Item = TypeVar("Item")


class Drawer:
    """Draws expressions over given axes, tensors and parameters.

    strict: whether an axis stands only where its size is that of the tensor, as it need not where a 0/1 factor hides.
    """

    def __init__(self, rng: Random, names: Names, *, strict: bool = False) -> None:
        self.rng, self.names, self.strict = rng, names, strict
        self.pool: list[Axis] = []
        self.tensors: dict[str, Input | Definition] = {}
        self.parameters: list[Parameter] = []

    def chance(self, share: float) -> bool:
        """True in that share of calls."""
        return self.rng.random() < share

    def pick(self, *weighted: tuple[float, Item]) -> Item:
        """One of several items, by weight."""
        return self.rng.choices([item for _, item in weighted], [weight for weight, _ in weighted])[0]

    # Programs.

    def program(self) -> Program:
        """A whole program."""
        sizes = self.axes()
        inputs = self.inputs()
        covered = {a.size for i in inputs for a in i.axes}
        if not self.chance(0.02):
            self.pool = [a for a in self.pool if a.size in covered] or self.pool
        parameters = [self.parameter() for _ in range(self.pick((5, 0), (4, 1), (1, 2)))]
        self.parameters = parameters
        definitions: list[Definition] = []
        for _ in range(self.pick((3, 1), (4, 2), (3, 3), (2, 4), (1, 5))):
            for definition in self.definitions():
                self.tensors[definition.name] = definition
                definitions.append(definition)
        if self.chance(OUTSIDE) and (outside := self.outside()) is not None:
            definitions.append(outside)
        outputs = self.outputs(definitions)
        return _needed(
            Program(
                self.names.program(),
                self.names.text() or "A random program.",
                tuple(inputs),
                tuple(parameters),
                tuple(definitions),
                outputs,
                sizes,
            )
        )

    def axes(self) -> dict[str, int]:
        """Sizes with values, and the axes of the program; several axes share a size."""
        sizes: dict[str, int] = {}
        for _ in range(self.pick((2, 1), (6, 2), (4, 3))):
            equal = sizes and self.chance(0.2)
            length = (
                self.rng.choice(list(sizes.values())) if equal else self.pick((1, 1), (4, 2), (4, 3), (2, 4), (1, 5))
            )
            size = self.names.size()
            sizes[size] = length
            self.pool += [Axis(self.names.axis(), size) for _ in range(self.pick((3, 1), (5, 2), (1, 3)))]
        return sizes

    def inputs(self) -> list[Input]:
        """One to four inputs, at least one of them real (but for a few programs)."""
        made = []
        for number in range(self.rng.randint(1, 4)):
            first = number == 0 and not self.chance(0.01)
            kind: t.Kind = "real" if first else self.pick(*KINDS)
            made.append(self.input(kind, 1 if first else 0))
            self.tensors[made[-1].name] = made[-1]
        return made

    def input(self, kind: t.Kind, least: int) -> Input:
        """An input with some axes, each once."""
        rank = max(least, min(self.pick((1, 0), (6, 1), (6, 2), (1, 3)), len(self.pool)))
        axes = tuple(self.rng.sample(self.pool, rank))
        given = Input(self.names.tensor(), axes, kind, self.names.text())
        if kind == "real":
            return replace(given, constant=least == 0 and self.chance(0.08), positive=self.chance(0.12))
        if kind == "integer" and self.chance(0.8):
            return replace(given, below=self.rng.choice(self.pool), negative=self.chance(0.2))
        return replace(given, low=self.rng.choice((0, 0, -1)), high=self.rng.choice((1, 2, 3)))

    def parameter(self) -> Parameter:
        """A parameter, most of them real."""
        integer = self.chance(0.25)
        value = (
            Fraction(self.rng.randint(0, 2))
            if integer
            else Fraction(self.rng.randint(1, 9), self.rng.choice((2, 4, 5)))
        )
        return Parameter(self.names.parameter(), value, integer, self.names.text(), self.chance(0.5))

    def outputs(self, definitions: list[Definition]) -> tuple[str, ...]:
        """One or two real definitions, the last among them."""
        real = [d.name for d in definitions if d.kind == "real"]
        chosen = [real[-1]]
        if len(real) > 1 and self.chance(0.4):
            chosen.append(self.rng.choice(real[:-1]))
        return tuple(chosen if self.chance(0.5) else chosen[::-1])

    # Definitions.

    def definitions(self) -> list[Definition]:
        """One real definition, at times with a boolean or integer one before it that later ones may use."""
        before = []
        if self.chance(0.12):
            axes = self.some_axes(1)
            before.append(Definition(self.names.tensor(), axes, t.product(*self.gates(axes)), "boolean"))
        if self.chance(0.06):
            axes = self.some_axes(1)
            before.append(Definition(self.names.tensor(), axes, self.whole(axes), "integer"))
        for definition in before:
            self.tensors[definition.name] = definition
        axes = self.some_axes()
        return [*before, Definition(self.names.tensor(), axes, self.idiom(axes))]

    def some_axes(self, least: int = 0) -> Scope:
        """The axes of a definition."""
        rank = min(max(least, self.pick((1.5, 0), (6, 1), (6, 2), (0.6, 3))), len(self.pool))
        return tuple(self.rng.sample(self.pool, rank))

    def idiom(self, scope: Scope) -> Tree:
        """The value of a definition: a common pattern, or any expression."""
        return self.pick(
            (14, lambda: self.real(scope, 3)),
            (6, lambda: self.real(scope, 2)),
            (3, lambda: self.softmax(scope)),
            (1.5, lambda: self.logsumexp(scope)),
            (2, lambda: self.scaled_products(scope)),
            (1, lambda: self.scaled_over(scope)),
            (2, lambda: self.mean(scope)),
            (1, lambda: self.normalised(scope)),
        )()

    def softmax(self, scope: Scope) -> Tree:
        """visible · exp(S) / Σ visible · exp(S), over one of the axes."""
        if not scope:
            return self.real(scope, 2)
        over = self.rng.choice(scope)
        score = self.mild(scope, 1)
        if over not in t.free_axes(score):
            score = score + self.mild((over,), 0)
        weight = t.product(*(self.gates(scope, 1) if self.chance(0.5) else ()), Fn("exp", (score,)))
        if self.chance(0.3):
            return weight / Sum((over,), weight)
        inner = t.unused_axis(over, t.free_axes(weight))
        return weight / Sum((inner,), t.substituted(weight, {over: Pos(inner)}))

    def logsumexp(self, scope: Scope) -> Tree:
        """Log Σ exp(S) over one more axis; every row sees a key."""
        over = self.new_axis(scope)
        if over is None:
            return self.real(scope, 2)
        inner = (*scope, over)
        seen = [a for a in scope if a.size == over.size]
        gate = [Ind(Cmp("<=", Pos(over), Pos(seen[0])))] if seen and self.chance(0.4) else []
        return Fn("log", (Sum((over,), t.product(*gate, Fn("exp", (self.mild(inner, 1),)))),))

    def scaled_products(self, scope: Scope) -> Tree:
        """s Σ Q K, or s Σ X X with one tensor twice."""
        over = self.new_axis(scope)
        if over is None:
            return self.real(scope, 2)
        inner = (*scope, over)
        one = self.entry(inner)
        again = one.node.tensor if isinstance(one.node, Entry) and self.chance(0.4) else None
        other = one if self.chance(0.2) else self.entry(inner, again)
        bound = tuple(dict.fromkeys((over, *one.axes, *other.axes)))
        gates = dict.fromkeys((*one.gates, *other.gates))
        return t.product(self.scalar(), total(t.product(*gates, one.node, other.node), *bound))

    def scaled_over(self, scope: Scope) -> Tree:
        """s Σ Q K / (1 + Q²)."""
        over = self.new_axis(scope)
        if over is None:
            return self.real(scope, 2)
        one, other = self.entry((*scope, over)), self.entry((*scope, over))
        bound = tuple(dict.fromkeys((over, *one.axes, *other.axes)))
        body = t.product(*one.gates, *other.gates, one.node, other.node) / (ONE + Pow(one.node, 2))
        return t.product(self.scalar(), total(body, *bound))

    def mean(self, scope: Scope) -> Tree:
        """An entry minus its mean over an axis, or the mean."""
        over = self.new_axis(scope)
        if over is None:
            return self.real(scope, 2)
        mean = Sum((over,), self.leaf((*scope, over))) / Size(over.size)
        return mean if self.chance(0.5) else self.leaf(scope) - mean

    def normalised(self, scope: Scope) -> Tree:
        """An entry over the root of one plus its mean square."""
        over = self.new_axis(scope)
        if over is None:
            return self.real(scope, 2)
        square = Sum((over,), Pow(self.leaf((*scope, over)), 2)) / Size(over.size)
        return self.leaf(scope) / Fn("sqrt", (square + Num(Fraction(1, 8)),))

    def outside(self) -> Definition | None:
        """A definition that reads outside of a tensor where nothing hides it."""
        found = [x for x in self.tensors.values() if x.kind == "real" and x.axes]
        if not found:
            return None
        chosen = self.rng.choice(found)
        axes = tuple(dict.fromkeys(chosen.axes))
        shift = self.rng.choice((Pos(axes[0]) + 1, Pos(axes[0]) - 1, Size(axes[0].size), Pos(axes[0]) + 2))
        value = Entry(chosen.name, (shift, *map(Pos, axes[1:])))
        return Definition(self.names.tensor(), axes, self.pick((1, value), (1, value * self.leaf(axes))))

    # Real expressions.

    def real(self, scope: Scope, depth: int) -> Tree:
        """Any real expression over some axes."""
        if depth <= 0:
            return self.leaf(scope)
        return self.pick(
            (16, lambda: Add((self.real(scope, depth - 1), self.real(scope, depth - 1)))),
            (4, lambda: self.real(scope, depth - 1) - self.real(scope, depth - 2)),
            (15, lambda: Mul((self.real(scope, depth - 1), self.real(scope, depth - 2)))),
            (22, lambda: self.sum(scope, depth)),
            (5, lambda: Div(self.real(scope, depth - 1), self.positive(scope, depth - 2))),
            (5, lambda: Pow(self.real(scope, depth - 2), self.pick((4, 2), (1, 3)))),
            (14, lambda: self.function(scope, depth)),
            (10, lambda: t.product(*self.gates(scope), self.real(scope, depth - 1))),
            (6, lambda: self.contracted(scope)),
            (3, lambda: t.product(self.scalar(), self.real(scope, depth - 1))),
            (3, lambda: self.count(scope) * self.real(scope, depth - 2)),
            (4, lambda: self.leaf(scope)),
        )()

    def leaf(self, scope: Scope) -> Tree:
        """An entry, mostly; else a scalar or a position."""
        choice = self.pick((17, "entry"), (2, "scaled"), (1, "number"), (1, "position"))
        if choice == "number":
            return self.scalar()
        if choice == "position" and scope:
            return Pos(self.rng.choice(scope)) if self.chance(0.7) else Size(self.rng.choice(scope).size)
        placed = self.entry(scope)
        body = total(t.product(*placed.gates, placed.node), *placed.axes)
        return self.scalar() * body if choice == "scaled" else body

    def scalar(self) -> Tree:
        """A number or a parameter."""
        if self.parameters and self.chance(0.5):
            return Param(self.rng.choice(self.parameters).name)
        return Num(Fraction(self.rng.choice((-3, -2, -1, 1, 2, 3)), self.rng.choice((1, 1, 2, 3))))

    def sum(self, scope: Scope, depth: int) -> Tree:
        """A sum over one or two axes; at times one uses an outer name again, or the body does not mention it."""
        axis = self.new_axis(scope)
        if self.chance(0.12) and scope:
            axis = self.rng.choice(scope)
        if axis is None:
            return self.real(scope, depth - 1)
        axes = [axis]
        if self.chance(0.15) and (second := self.new_axis((*scope, axis))) is not None and second != axis:
            axes.append(second)
        inner = (*(a for a in scope if a not in axes), *axes)
        if self.chance(0.05):
            return Sum(tuple(axes), ONE if self.chance(0.5) else self.leaf(scope))
        if self.chance(0.65):
            factors = [self.leaf(inner) for _ in range(self.pick((3, 1), (10, 2), (1, 3)))]
            return Sum(tuple(axes), t.product(*(self.gates(inner, 1) if self.chance(0.15) else ()), *factors))
        return Sum(tuple(axes), self.real(inner, depth - 1))

    def contracted(self, scope: Scope) -> Tree:
        """Σ_k δ(k, e) f(k) for some position e, or a delta of two positions times something."""
        axis = self.new_axis(scope)
        if axis is None or not scope:
            return self.leaf(scope)
        same = [a for a in scope if a.size == axis.size]
        e = self.offset(self.rng.choice(same or list(scope)))
        if not same and isinstance(e, Pos):
            e = Fn("mod", (e, Size(axis.size)))
        return Sum((axis,), Delta(Pos(axis), e) * self.leaf((*scope, axis)))

    def offset(self, axis: Axis) -> Tree:
        """A position computed from an axis, which may lie outside of the range."""
        p, n = Pos(axis), Size(axis.size)
        forms = (
            (4, p + 1),
            (3, p - 1),
            (3, p),
            (1, p + 2),
            (2, n - 1 - p),
            (1, n - p),
            (1, p * 2),
            (1, Fn("mod", (p + 1, n))),
        )
        return self.pick(*forms)

    def count(self, scope: Scope) -> Tree:
        """Σ_j of a condition on positions."""
        axis = self.new_axis(scope)
        if axis is None:
            return self.scalar()
        return Sum((axis,), Ind(self.comparison((*scope, axis), axis)))

    def function(self, scope: Scope, depth: int) -> Tree:
        """A function of an expression, kept where it is defined and moderate."""
        inside = self.real(scope, depth - 2)
        return self.pick(
            (3, lambda: Fn("exp", (self.mild(scope, 1),))),
            (2, lambda: Fn("log", (self.positive(scope, depth - 2),))),
            (4, lambda: Fn("tanh", (inside,))),
            (2, lambda: Fn("sin", (inside,))),
            (2, lambda: Fn("cos", (inside,))),
            (2, lambda: Fn("sqrt", (self.positive(scope, depth - 2),))),
            (3, lambda: self.sigmoid(self.mild(scope, 1))),
            (2, lambda: Fn("abs", (inside,))),
            (2, lambda: Fn("max", (inside, self.pick((2, ZERO), (2, self.leaf(scope)))))),
            (1, lambda: Fn("min", (inside, self.pick((1, ONE), (2, self.leaf(scope)))))),
            (2, lambda: self.sigmoid(self.mild(scope, 1)) * self.mild(scope, 0)),
        )()

    def sigmoid(self, inside: Tree) -> Tree:
        """1 / (1 + exp(−x))."""
        return ONE / (ONE + Fn("exp", (negative(inside),)))

    def positive(self, scope: Scope, depth: int) -> Tree:
        """An expression that is above 0."""
        base = self.real(scope, depth)
        return self.pick(
            (4, ONE + Pow(base, 2)),
            (2, ONE + Fn("exp", (self.mild(scope, 1),))),
            (1, Num(Fraction(3, 2)) + Fn("cos", (base,))),
        )

    def mild(self, scope: Scope, depth: int) -> Tree:
        """An expression of moderate size, for exponents."""
        given = [x for x in self.tensors.values() if isinstance(x, Input) and x.kind == "real"]
        if depth <= 0 or not given or self.chance(0.15):
            return Fn(self.rng.choice(("tanh", "sin")), (self.leaf(scope),))
        placed = self.entry(scope, self.rng.choice(given).name)
        entry = total(t.product(*placed.gates, placed.node), *placed.axes)
        return self.pick(
            (5, lambda: entry), (3, lambda: self.scalar() * entry), (3, lambda: entry + self.mild(scope, depth - 1))
        )()

    # Entries and positions.

    def entry(self, scope: Scope, name: str | None = None) -> Placed:
        """An entry of a real tensor (at times of another kind), at positions of the scope or of axes to sum over."""
        if name is None:
            weights = {"real": 12.0, "boolean": 0.6, "integer": 0.6}
            real = any(x.kind == "real" for x in self.tensors.values())
            made = {x.name: 1.0 if isinstance(x, Input) else 1.8 for x in self.tensors.values()}
            options = [(made[x.name] * weights[x.kind] if real else 1.0, x.name) for x in self.tensors.values()]
            name = self.pick(*options)
        return self.placed(name, scope, 2)

    def placed(self, name: str, scope: Scope, depth: int) -> Placed:
        """An entry of a tensor; each index is drawn by itself."""
        tensor = self.tensors[name]
        indices: list[Tree] = []
        gates: list[Tree] = []
        axes: list[Axis] = []
        for axis in tensor.axes:
            used = frozenset().union(*map(t.free_axes, indices))
            place = self.place(axis.size, (*scope, *axes), used, depth)
            if place is None:
                axes.append(self.fresh_axis(axis.size, (*scope, *axes)))
                place = Placed(Pos(axes[-1]))
            indices.append(place.node)
            gates += place.gates
        return Placed(Entry(name, tuple(indices)), tuple(dict.fromkeys(gates)), tuple(axes))

    def place(self, size: str, scope: Scope, used: frozenset[Axis], depth: int) -> Placed | None:
        """A position along an axis of some size, or None where an axis to sum over serves best."""
        same = [a for a in scope if a.size == size]
        if used and self.chance(0.97):
            same = [a for a in same if a not in used]
        if same and (depth <= 0 or self.chance(0.72)):
            return Placed(Pos(self.rng.choice(same)))
        if not same and self.chance(0.75):
            return None
        return self.computed(size, same, [a for a in scope if a.size != size], scope, depth)

    def computed(self, size: str, same: list[Axis], other: list[Axis], scope: Scope, depth: int) -> Placed | None:
        """A computed position: shifts are hidden where they leave the range."""
        n = Size(size)
        options: list[tuple[float, Callable[[], Placed | None]]] = [
            (0.3, lambda: Placed(ZERO)),
            (0.3, lambda: Placed(n - 1)),
        ]
        if same:
            p = Pos(self.rng.choice(same))
            options += [
                (2.0, lambda: Placed(p + 1, (self.hidden_above(p, n),))),
                (2.0, lambda: Placed(p - 1, (self.hidden_below(p),))),
                (1.5, lambda: Placed(n - 1 - p)),
                (1.5, lambda: Placed(Fn("mod", (p + self.rng.choice((1, 1, 2)), n)))),
                (1.0, lambda: Placed(Fn("floor", (p / 2,)))),
                (0.8, lambda: Placed(Fn("max", (p - 1, ZERO)))),
                (0.8, lambda: Placed(Fn("min", (p + 2, n - 1)))),
            ]
        if len(same) > 1:
            a, b = map(Pos, self.rng.sample(same, 2))
            options.append((0.7, lambda: Placed(a - b, (Ind(Cmp("<=", b, a)),))))
            options.append((0.4, lambda: Placed(Fn("abs", (a - b,)))))
            options.append((0.4, lambda: Placed(Fn("mod", (a + b, n)))))
        if other:
            q = Pos(self.rng.choice(other))
            options.append((0.5, lambda: Placed(Fn("mod", (q, n)))))
            options.append((0.5, lambda: Placed(Fn("min", (q, n - 1)))))
            options.append((0.0 if self.strict else 0.03, lambda: Placed(q, (Ind(Cmp("<", q, n)),))))
        if depth > 0 and any(x.kind == "integer" for x in self.tensors.values()):
            options.append((4.0, lambda: self.looked_up(size, scope, depth)))
        return self.pick(*options)()

    def hidden_above(self, p: Tree, n: Tree) -> Tree:
        """One of the ways to say that p + 1 is a position."""
        return Ind(
            self.pick(
                (2, Cmp("<", p + 1, n)), (1, Cmp("<=", p + 1, n - 1)), (1, Cmp("<", p, n - 1)), (1, Cmp("!=", p, n - 1))
            )
        )

    def hidden_below(self, p: Tree) -> Tree:
        """One of the ways to say that p − 1 is a position."""
        return Ind(
            self.pick(
                (2, Cmp("<=", ZERO, p - 1)),
                (1, Cmp("<", ZERO, p)),
                (1, Cmp("!=", p, ZERO)),
                (1, Not(Cmp("==", p, ZERO))),
            )
        )

    def looked_up(self, size: str, scope: Scope, depth: int) -> Placed | None:
        """An entry of an integer tensor as a position, hidden where it may lie outside."""
        found = [x for x in self.tensors.values() if x.kind == "integer"]
        tensor = self.rng.choice(
            [x for x in found if isinstance(x, Input) and x.below and x.below.size == size] or found
        )
        placed = self.placed(tensor.name, scope, depth - 1)
        if placed.axes:
            return None
        gates, at = list(placed.gates), placed.node
        safe = isinstance(tensor, Input) and tensor.below is not None and tensor.below.size == size
        if not safe or (isinstance(tensor, Input) and tensor.negative):
            gates.append(Ind(Cmp("<=", ZERO, at)))
        if not safe:
            gates.append(Ind(Cmp("<", at, Size(size))))
        return Placed(at, tuple(gates))

    def whole(self, scope: Scope) -> Tree:
        """An integer expression over some axes."""
        p = Pos(self.rng.choice(scope))
        n = Size(p.axis.size)
        return self.pick(
            (1, lambda: n - 1 - p),
            (1, lambda: Fn("mod", (p + 1, n))),
            (1, lambda: Fn("floor", (p / 2,))),
            (1, lambda: self.count(scope)),
            (1, lambda: Fn("max", (p - 1, ZERO))),
        )()

    def new_axis(self, scope: Scope) -> Axis | None:
        """An axis that the scope does not have."""
        free = [a for a in self.pool if a not in scope]
        return self.rng.choice(free) if free else None

    def fresh_axis(self, size: str, scope: Scope) -> Axis:
        """An axis of some size to sum over."""
        free = [a for a in self.pool if a.size == size and a.name not in {b.name for b in scope}]
        return self.rng.choice(free) if free else t.unused_axis(Axis("k", size), set(scope))

    # Conditions and gates.

    def gates(self, scope: Scope, most: int = 2) -> list[Tree]:
        """One or two 0/1 factors."""
        return [self.gate(scope) for _ in range(self.pick((4, 1), (1, most)))]

    def gate(self, scope: Scope) -> Tree:
        """A 0/1 factor."""
        masks = [x.name for x in self.tensors.values() if x.kind == "boolean"]
        if masks and self.chance(0.35):
            placed = self.placed(self.rng.choice(masks), scope, 1)
            if not placed.axes:
                return t.product(*placed.gates, placed.node)
        if not scope:
            return Ind(Cmp("<", self.real_side(scope), self.real_side(scope)))
        pairs = [(a, b) for a in scope for b in scope if a != b and a.size == b.size]
        if pairs and self.chance(0.2):
            a, b = self.rng.choice(pairs)
            return Delta(Pos(a), self.offset(b))
        return Ind(self.condition(scope))

    def condition(self, scope: Scope) -> Tree:
        """A condition on positions, integers and, at times, real numbers."""
        one = self.comparison(scope)
        return self.pick(
            (7, lambda: one),
            (1, lambda: And((one, self.comparison(scope)))),
            (1.5, lambda: Or((one, self.comparison(scope)))),
            (1, lambda: Not(one)),
            (1.2, lambda: Cmp(self.rng.choice(("<=", "<")), self.real_side(scope), self.real_side(scope))),
        )()

    def real_side(self, scope: Scope) -> Tree:
        """One side of a comparison of real numbers: an entry or a number."""
        names = [x.name for x in self.tensors.values() if x.kind == "real"]
        if not names or self.chance(0.3):
            return Num(Fraction(self.rng.randint(-2, 2), 3))
        placed = self.placed(self.rng.choice(names), scope, 0)
        return total(placed.node, *placed.axes)

    def comparison(self, scope: Scope, about: Axis | None = None) -> Tree:
        """A comparison of positions, or of integer entries."""
        left = Pos(about or self.rng.choice(scope))
        others: list[tuple[float, Tree]] = [(1.0, tree(self.rng.randint(0, 2))), (0.5, Size(left.axis.size) - 1 - left)]
        others += [(4.0, Pos(a)) for a in scope if a != left.axis and a.size == left.axis.size]
        others += [(0.7, Pos(a)) for a in scope if a.size != left.axis.size]
        others += [(1.5, Pos(a) + 1) for a in scope if a != left.axis and a.size == left.axis.size]
        integers = [p.name for p in self.parameters if p.integer]
        others += [(1.0, Param(p)) for p in integers]
        others += [(1.0, Pos(a) + Param(p)) for p in integers for a in scope if a != left.axis]
        for x in self.tensors.values():
            if x.kind == "integer":
                placed = self.placed(x.name, scope, 0)
                if not placed.axes and not placed.gates:
                    others.append((1.0, placed.node))
        right = self.pick(*others)
        if self.chance(0.1):
            left_side: Tree = Fn("mod", (left, tree(2)))
            return Cmp(self.rng.choice(("==", "!=")), left_side, tree(self.rng.randint(0, 1)))
        if self.chance(0.5):
            return Cmp(self.rng.choice(("<=", "<", "==", "!=")), left, right)
        return Cmp(self.rng.choice(("<=", "<", "!=")), right, left)


def _needed(program: Program) -> Program:
    """The program without some of the definitions and inputs that no output needs; sizes stay known."""
    used, wanted = {a.size for i in program.inputs for a in i.axes}, set(program.outputs)
    definitions: list[Definition] = []
    for d in reversed(program.definitions):
        if d.name in wanted:
            wanted |= t.tensors_in(d.value)
            definitions.insert(0, d)
    used |= {s for d in definitions for s in (*t.sizes_in(d.value), *(a.size for a in d.axes))}
    sizes = {s: v for s, v in program.sizes.items() if s in used}
    below = {i.below.size for i in program.inputs if i.below is not None}
    sizes |= {s: program.sizes[s] for s in below}
    return replace(program, definitions=tuple(definitions), sizes=sizes)
