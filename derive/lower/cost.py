"""What a kernel costs: operations, and numbers that are read, written and kept, as formulas in sizes.

A product of matrices counts two operations for every term that it sums, everything else one for every entry that it
makes. The counts are of the dense schedule: entries that a mask hides are computed too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis
from derive.lower.arrays import All, Node, Positions, Product, Reduce, walk
from derive.lower.dense import Kernel, Statement


@dataclass(frozen=True)
class Cost:
    """Operations and numbers, each a polynomial in sizes."""

    products: sp.Expr
    entrywise: sp.Expr


@dataclass(frozen=True)
class KernelCost:
    """The cost of both passes, the numbers that come in and go out, and those kept from one to the other."""

    forward: Cost
    backward: Cost
    inputs: sp.Expr
    outputs: sp.Expr
    saved: sp.Expr


def cost(kernel: Kernel) -> KernelCost:
    """The cost of a kernel for one entry of the leading axes."""
    program, derived = kernel.derivation.forward, kernel.derivation.derived
    axes = {i.name: i.axes for i in (*program.inputs, *derived.inputs)}
    axes |= {s.name: s.axes for s in (*kernel.forward, *kernel.backward)}
    return KernelCost(
        _cost(kernel.forward),
        _cost(kernel.backward),
        _numbers(i.axes for i in program.inputs),
        _numbers(o.axes for o in program.outputs),
        _numbers(axes[name] for name in kernel.saved),
    )


def _cost(statements: tuple[Statement, ...]) -> Cost:
    nodes = [node for statement in statements for node in walk(statement.node)]
    products = (2 * _entries((*node.axes, *node.over)) for node in nodes if isinstance(node, Product))
    return Cost(sp.expand(sp.Add(*products)), sp.expand(sp.Add(*map(_entrywise, nodes))))


def _entrywise(node: Node) -> sp.Expr:
    """The operations of a node that is no product; numbers, which have no axes, cost nothing."""
    if isinstance(node, (Product, Positions)) or not node.operation:
        return sp.S.Zero
    if isinstance(node, Reduce):
        return _entries(node.operand.axes)
    if isinstance(node, All):
        return (len(node.conditions) - 1) * _entries(node.axes)
    return _entries(node.axes) if node.axes else sp.S.Zero


def _numbers(tensors: Iterable[tuple[Axis, ...]]) -> sp.Expr:
    return sp.expand(sp.Add(*map(_entries, tensors)))


def _entries(axes: tuple[Axis, ...]) -> sp.Expr:
    return sp.Mul(*(axis.size for axis in axes))
