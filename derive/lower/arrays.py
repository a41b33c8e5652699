"""Array expressions: what array code and matrix notation are printed from.

Every node has ``axes``, the axes of its value in layout order; leading axes (batch, heads) stand in
front of them and are not named. Transposes and broadcasts are views and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis

Axes = tuple[Axis, ...]


@dataclass(frozen=True)
class Node:
    """Base of all array expressions."""

    axes: Axes

    @property
    def operands(self) -> tuple[Node, ...]:
        """The nodes that this one is computed from."""
        return ()

    operation = True
    """Whether the node is an array operation; views, names and scalars are not."""


@dataclass(frozen=True)
class Name(Node):
    """A named tensor."""

    name: str
    operation = False


@dataclass(frozen=True)
class Scalar(Node):
    """A number, parameter or size."""

    value: sp.Expr
    operation = False


@dataclass(frozen=True)
class Positions(Node):
    """The positions 0 … size − 1 along one axis."""

    axis: Axis


@dataclass(frozen=True)
class View(Node):
    """The operand with its axes in another order; axes that it lacks are broadcast."""

    operand: Node
    operation = False

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Gather(Node):
    """Entries of the operand at given positions along one of its axes, for every entry of the index."""

    operand: Node
    index: Node
    along: Axis

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand, self.index)


@dataclass(frozen=True)
class Checked(Node):
    """Positions that have to lie in 0 … length − 1 where something is visible; ``text`` says what is looked up.

    ``visible`` has the positions' axes, and further ones: a position counts if it is visible at any place of them.
    """

    index: Node
    length: sp.Expr
    text: str
    visible: Node | None = None
    operation = False

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.index,)


@dataclass(frozen=True)
class Apply(Node):
    """An elementwise function (``add``, ``multiply``, ``exp``, ``less_equal`` …) of broadcast operands."""

    function: str
    arguments: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.arguments


@dataclass(frozen=True)
class Product(Node):
    """Matrix product over the axes ``over``: left ``[…, rows, over]`` times right ``[…, over, columns]``.

    ``visible`` has the axes of the left operand, whose entries it hides; hidden entries contribute nothing.
    """

    left: Node
    right: Node
    over: Axes
    visible: Node | None = None

    @property
    def rows(self) -> Axes:
        """The axes of the result that the left operand alone has."""
        return tuple(a for a in self.left.axes if a not in self.right.axes)

    @property
    def columns(self) -> Axes:
        """The axes of the result that the right operand alone has."""
        return tuple(a for a in self.right.axes if a not in self.left.axes)

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Reduce(Node):
    """Sum or maximum of the operand over one of its axes; a maximum may look at visible entries alone."""

    function: str
    operand: Node
    over: Axis
    visible: Node | None = None

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Select(Node):
    """The operand where a visibility is True, else exactly 0, whatever the operand holds there."""

    visible: Node
    operand: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class All(Node):
    """The conjunction of conditions; optional ones that are not given are skipped."""

    conditions: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.conditions

    @property
    def operation(self) -> bool:  # type: ignore[override]
        """A single condition is passed on as it is."""
        return len(self.conditions) > 1


@dataclass(frozen=True)
class Number(Node):
    """A condition as the numbers 0 and 1."""

    condition: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.condition,)


@dataclass(frozen=True)
class Fill(Node):
    """The operand repeated along the axes that it lacks, to its full size; a view."""

    operand: Node
    operation = False

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Zeros(Node):
    """Zeros in the shape of a named tensor."""

    like: str


def filled(node: Node, axes: Axes) -> Node:
    """The node with every axis at its full size: what a view only broadcasts is repeated."""
    held = node.operand.axes if isinstance(node, View) else node.axes
    return node if set(held) >= set(axes) else Fill(axes, arranged(node, axes))


def walk(node: Node) -> Iterator[Node]:
    """A node and everything that it is computed from, visibilities included."""
    yield node
    for operand in node.operands:
        yield from walk(operand)
    visible = getattr(node, "visible", None)
    if visible is not None:
        yield from walk(visible)


def operations(node: Node) -> int:
    """How many array operations a node takes; views, names and scalars are free."""
    own = int(node.operation and any(True for _ in node.axes)) if not isinstance(node, Reduce) else 1
    return own + sum(operations(operand) for operand in node.operands)


def mentioned(node: Node) -> tuple[str, ...]:
    """The names of the tensors under a node, in order of appearance."""
    names = (n.name if isinstance(n, Name) else n.like for n in walk(node) if isinstance(n, (Name, Zeros)))
    return tuple(dict.fromkeys(names))


def arranged(node: Node, axes: Axes) -> Node:
    """The node as a view with the given axes, broadcasting those that it lacks."""
    if isinstance(node, View) and node.axes != axes:
        node = node.operand
    return node if node.axes == axes or isinstance(node, Scalar) else View(axes, node)
