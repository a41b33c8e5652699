"""Programs in index notation as plain data: a small syntax tree of our own, without SymPy.

What a random program means must not depend on the code that is under test. So programs are drawn, evaluated, shrunk
and shown as the trees of this module; only :mod:`tests.fuzz.product` translates them into the package's own terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Literal

Kind = Literal["real", "boolean", "integer"]


@dataclass(frozen=True)
class Axis:
    """A named index that runs over 0 … size − 1; the size is a symbol, and several axes may share it."""

    name: str
    size: str


@dataclass(frozen=True)
class Tree:
    """Any node: an expression or a condition."""

    def __add__(self, other: Tree | int) -> Tree:
        return Add((self, tree(other)))

    def __sub__(self, other: Tree | int) -> Tree:
        return Add((self, negative(tree(other))))

    def __mul__(self, other: Tree | int) -> Tree:
        return Mul((self, tree(other)))

    def __truediv__(self, other: Tree | int) -> Tree:
        return Div(self, tree(other))

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True)
class Num(Tree):
    """A rational number."""

    value: Fraction


@dataclass(frozen=True)
class Param(Tree):
    """A parameter by name."""

    name: str


@dataclass(frozen=True)
class Size(Tree):
    """The size of an axis as a number."""

    name: str


@dataclass(frozen=True)
class Pos(Tree):
    """The position that an axis stands at."""

    axis: Axis


@dataclass(frozen=True)
class Entry(Tree):
    """One entry of a tensor."""

    tensor: str
    indices: tuple[Tree, ...]


@dataclass(frozen=True)
class Sum(Tree):
    """The sum of a body over axes; an inner sum may use the name of an outer axis again."""

    axes: tuple[Axis, ...]
    body: Tree


@dataclass(frozen=True)
class Add(Tree):
    """A sum of terms."""

    terms: tuple[Tree, ...]


@dataclass(frozen=True)
class Mul(Tree):
    """A product; a factor that is 0 or 1 hides the others where it is 0."""

    factors: tuple[Tree, ...]


@dataclass(frozen=True)
class Div(Tree):
    """A quotient; it is part of the product around it."""

    above: Tree
    below: Tree


@dataclass(frozen=True)
class Pow(Tree):
    """An integer power."""

    base: Tree
    exponent: int


@dataclass(frozen=True)
class Fn(Tree):
    """A function by name: exp, log, tanh, sin, cos, sqrt, abs, max, min; of positions also mod, floor, max, min."""

    name: str
    args: tuple[Tree, ...]


@dataclass(frozen=True)
class Delta(Tree):
    """Kronecker's delta of two positions."""

    left: Tree
    right: Tree


@dataclass(frozen=True)
class Ind(Tree):
    """1 where a condition holds, else 0."""

    condition: Tree


@dataclass(frozen=True)
class Cmp(Tree):
    """A comparison of two numbers: ``<=``, ``<``, ``==`` or ``!=``."""

    op: str
    left: Tree
    right: Tree


@dataclass(frozen=True)
class And(Tree):
    """All of several conditions."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Or(Tree):
    """Any of several conditions."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Not(Tree):
    """The contrary of a condition."""

    part: Tree


ONE, ZERO, MINUS = Num(Fraction(1)), Num(Fraction(0)), Num(Fraction(-1))


def tree(value: Tree | int | Fraction) -> Tree:
    """A number as a tree; a tree as it is."""
    return value if isinstance(value, Tree) else Num(Fraction(value))


def negative(expr: Tree) -> Tree:
    """Minus an expression."""
    return Num(-expr.value) if isinstance(expr, Num) else Mul((MINUS, expr))


def product(*factors: Tree) -> Tree:
    """The product of some factors; of one, itself."""
    return factors[0] if len(factors) == 1 else Mul(factors) if factors else ONE


def total(expr: Tree, *axes: Axis) -> Tree:
    """The sum over some axes, if there are any."""
    return Sum(axes, expr) if axes else expr


# Programs.


@dataclass(frozen=True)
class Input:
    """A tensor that the caller gives.

    below: the axis whose positions an integer input holds, which may then be negative too; else integers are drawn from
    ``low`` to ``high``. positive: whether real entries are drawn above 0. constant: whether it has no gradient.
    """

    name: str
    axes: tuple[Axis, ...]
    kind: Kind = "real"
    meaning: str = ""
    below: Axis | None = None
    negative: bool = False
    constant: bool = False
    positive: bool = False
    low: int = 0
    high: int = 2


@dataclass(frozen=True)
class Parameter:
    """A scalar without gradient, at its default; ``given`` says whether the caller passes the value as well."""

    name: str
    value: Fraction
    integer: bool = False
    meaning: str = ""
    given: bool = False


@dataclass(frozen=True)
class Definition:
    """``name[axes] := value``."""

    name: str
    axes: tuple[Axis, ...]
    value: Tree
    kind: Kind = "real"


@dataclass(frozen=True)
class Program:
    """What a user writes, and the sizes that it is run at."""

    name: str
    summary: str
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    definitions: tuple[Definition, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, Kind]:
        """What the entries of every tensor are."""
        return {t.name: t.kind for t in tensors_of(self)}

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        """The axes of a tensor."""
        return next(t.axes for t in tensors_of(self) if t.name == name)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self.sizes[a.size] for a in self.axes_of(name))

    def __str__(self) -> str:
        return show_program(self)


def tensors_of(program: Program) -> tuple[Input | Definition, ...]:
    """All tensors of a program, in order."""
    return (*program.inputs, *program.definitions)


# Walking.


def parts(node: Tree) -> tuple[Tree, ...]:
    """The trees directly under a node, in order."""
    found: list[Tree] = []
    for item in fields(node):
        value = getattr(node, item.name)
        found += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, Tree)]
    return tuple(found)


def with_parts(node: Tree, new: tuple[Tree, ...]) -> Tree:
    """The node with other trees directly under it."""
    left = list(new)
    changed: dict[str, Tree | tuple[Tree, ...]] = {}
    for item in fields(node):
        value = getattr(node, item.name)
        if isinstance(value, Tree):
            changed[item.name] = left.pop(0)
        elif isinstance(value, tuple) and value and isinstance(value[0], Tree):
            changed[item.name] = tuple(left.pop(0) for _ in value)
    return replace(node, **changed)


def walk(node: Tree) -> Iterator[Tree]:
    """Every tree in a tree, itself first."""
    yield node
    for part in parts(node):
        yield from walk(part)


def free_axes(node: Tree) -> frozenset[Axis]:
    """The axes that occur free."""
    if isinstance(node, Pos):
        return frozenset((node.axis,))
    inside = frozenset().union(*map(free_axes, parts(node)))
    return inside - frozenset(node.axes) if isinstance(node, Sum) else inside


def tensors_in(node: Tree) -> frozenset[str]:
    """The names of the tensors that are mentioned."""
    return frozenset(n.tensor for n in walk(node) if isinstance(n, Entry))


def sizes_in(node: Tree) -> frozenset[str]:
    """The names of the sizes that are mentioned, those of axes among them."""
    found = {n.name for n in walk(node) if isinstance(n, Size)} | {
        n.axis.size for n in walk(node) if isinstance(n, Pos)
    }
    return frozenset(found | {a.size for n in walk(node) if isinstance(n, Sum) for a in n.axes})


def rewritten(node: Tree, rule: Callable[[Tree], Tree]) -> Tree:
    """Apply a rule to every node, from the inside out."""
    return rule(with_parts(node, tuple(rewritten(p, rule) for p in parts(node))))


def substituted(node: Tree, places: Mapping[Axis, Tree]) -> Tree:
    """The tree with other positions in place of free axes; a summed axis that would capture one is renamed."""
    if isinstance(node, Pos):
        return places.get(node.axis, node)
    if not isinstance(node, Sum):
        return with_parts(node, tuple(substituted(p, places) for p in parts(node)))
    inside = free_axes(node)
    places = {a: e for a, e in places.items() if a in inside}
    arriving = frozenset().union(*map(free_axes, places.values()))
    renamed = {a: unused_axis(a, arriving | free_axes(node.body) | set(node.axes)) for a in node.axes if a in arriving}
    body = substituted(node.body, {a: Pos(b) for a, b in renamed.items()}) if renamed else node.body
    return Sum(tuple(renamed.get(a, a) for a in node.axes), substituted(body, places))


def unused_axis(axis: Axis, taken: frozenset[Axis] | set[Axis]) -> Axis:
    """An axis of the same size whose name none of the given ones has."""
    names, k = {a.name for a in taken}, 0
    while f"{axis.name}{k}" in names:
        k += 1
    return Axis(f"{axis.name}{k}", axis.size)


# Showing.


def show(node: Tree) -> str:
    """A tree in readable index notation."""
    if isinstance(node, Num):
        return str(node.value) if node.value >= 0 else f"({node.value})"
    if isinstance(node, (Param, Size)):
        return node.name
    if isinstance(node, Pos):
        return node.axis.name
    if isinstance(node, Entry):
        return f"{node.tensor}[{', '.join(map(show, node.indices))}]"
    if isinstance(node, Sum):
        return f"Σ_{{{', '.join(f'{a.name}<{a.size}' for a in node.axes)}}} {_tight(node.body)}"
    if isinstance(node, Add):
        return _show_terms(node)
    if isinstance(node, Mul):
        return "·".join(map(_tight, node.factors))
    if isinstance(node, Div):
        return f"{_tight(node.above)}/{_tight(node.below)}"
    if isinstance(node, Pow):
        return f"{_tight(node.base)}^{node.exponent}"
    if isinstance(node, Fn):
        return f"{node.name}({', '.join(map(show, node.args))})"
    if isinstance(node, Delta):
        return f"δ({show(node.left)}, {show(node.right)})"
    if isinstance(node, Ind):
        return f"[{show(node.condition)}]"
    return _show_condition(node)


def _show_terms(node: Add) -> str:
    shown = ""
    for k, term in enumerate(node.terms):
        sign, rest = " + ", term
        if isinstance(term, Num) and term.value < 0:
            sign, rest = " − ", Num(-term.value)
        elif isinstance(term, Mul) and term.factors[0] == MINUS and len(term.factors) > 1:
            sign, rest = " − ", product(*term.factors[1:])
        flat = isinstance(rest, Add) and k == 0
        text = show(rest) if flat else _tight(rest) if isinstance(rest, (Add, Sum)) else show(rest)
        shown += text if k == 0 and sign == " + " else f"{sign}{text}" if k else f"−{text}"
    return shown


def _tight(node: Tree) -> str:
    wide = isinstance(node, (Add, Sum, Mul, Div))
    return f"({show(node)})" if wide else show(node)


def _show_condition(node: Tree) -> str:
    if isinstance(node, Cmp):
        return f"{show(node.left)} {node.op} {show(node.right)}"
    if isinstance(node, Not):
        return f"not ({show(node.part)})"
    assert isinstance(node, (And, Or))
    word = " and " if isinstance(node, And) else " or "
    return word.join(f"({show(p)})" for p in node.parts)


def show_program(program: Program) -> str:
    """A program in readable index notation, a line a part."""
    lines = [f"program {program.name!r}  summary {program.summary!r}"]
    lines += ["  sizes " + ", ".join(f"{n} = {v}" for n, v in program.sizes.items())]
    lines += [f"  input {show_input(i)}" for i in program.inputs]
    for p in program.parameters:
        kind = "integer" if p.integer else "real"
        passed = " (passed)" if p.given else ""
        lines.append(f"  parameter {p.name} = {p.value} {kind}{passed}" + (f"  {p.meaning!r}" if p.meaning else ""))
    for d in program.definitions:
        kind = "" if d.kind == "real" else f"  ({d.kind})"
        lines.append(f"  {d.name}[{_declared(d.axes)}] := {show(d.value)}{kind}")
    return "\n".join([*lines, "  outputs " + ", ".join(program.outputs)])


def show_input(given: Input) -> str:
    """A declaration of an input."""
    words = [f"{given.name}[{_declared(given.axes)}] {given.kind}"]
    if given.kind == "integer":
        words.append(f"{given.low} … {given.high}" if given.below is None else f"below {given.below.size}")
    words += ["or negative"] * given.negative + ["constant"] * given.constant + ["positive"] * given.positive
    return " ".join(words) + (f"  {given.meaning!r}" if given.meaning else "")


def _declared(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{a.name}<{a.size}" for a in axes)
