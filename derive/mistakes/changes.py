"""Building blocks of mistakes: one small change to the value of one definition.

A mistake is ``at("dQ", drop_factor("scale"))``: in the definition of dQ, without the scale. Every change
works on SymPy terms, also under sums, and knows tensors and axes by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Entry, Indicator, Tensor, Total, free_axes, fresh
from derive.algebra.binders import rewrite
from derive.forward.program import Program
from derive.mistakes.places import Transformation

Change = Callable[[sp.Expr], sp.Expr]
"""From a definition's right value to a wrong one."""


def at(name: str, *changes: Change) -> Transformation:
    """Change one definition; the program has to have it."""

    def transformation(program: Program) -> Program:
        right = program.definition(name)
        value = right.value
        for change in changes:
            value = change(value)
        wrong = replace(right, value=value)
        return replace(program, definitions=tuple(wrong if d is right else d for d in program.definitions))

    return transformation


def together(*transformations: Transformation) -> Transformation:
    """Several changes as one mistake, for beliefs that spoil more than one step."""

    def transformation(program: Program) -> Program:
        for one in transformations:
            program = one(program)
        return program

    return transformation


def drop_factor(name: str) -> Change:
    """Without a factor: a parameter or tensor counts as 1."""
    return _everywhere(lambda e: sp.S.One if _named(e, name) else e)


def drop_term(name: str) -> Change:
    """Without the terms of sums that mention a tensor."""

    def rule(expr: sp.Expr) -> sp.Expr:
        if not isinstance(expr, sp.Add):
            return expr
        return sp.Add(*(term for term in expr.args if not any(_named(e, name) for e in term.atoms(Entry))))

    return _everywhere(rule)


def swap_axes(name: str) -> Change:
    """With a tensor's two axes exchanged: a transpose forgotten, or one too many."""
    return _everywhere(lambda e: Entry(e.tensor, *reversed(e.indices)) if _named(e, name) else e)


def sum_over(name: str, axis: str) -> Change:
    """With a tensor's total over one of the target's axes that it stands at, in place of its entry."""

    def rule(expr: sp.Expr) -> sp.Expr:
        indices = expr.indices if isinstance(expr, Entry) and _named(expr, name) else ()
        everywhere = {a: fresh(a) for a in indices if isinstance(a, Axis) and a.name == axis}
        return Total(expr.xreplace(everywhere), *everywhere.values())

    return _everywhere(rule)


def sum_wider(axis: str) -> Change:
    """With every sum taken over one of the target's axes too: one softmax for all queries."""

    def rule(expr: sp.Expr) -> sp.Expr:
        if not isinstance(expr, Total):
            return expr
        body, axes = expr.open()
        everywhere = {a: fresh(a) for a in free_axes(body) if a.name == axis}
        return Total(body.xreplace(everywhere), *axes, *everywhere.values())

    return _everywhere(rule)


def sum_across(size: str, axis: str) -> Change:
    """With the sums over an axis of that size taken over one of the target's axes, which it takes the place of."""

    def rule(expr: sp.Expr) -> sp.Expr:
        if not isinstance(expr, Total):
            return expr
        body, axes = expr.open()
        for other in (a for a in free_axes(body) if a.name == axis):
            for own in (a for a in axes if str(a.size) == size):
                body = body.xreplace({own: other, other: own})
        return Total(body, *axes)

    return _everywhere(rule)


def instead(name: str, other: str) -> Change:
    """With another tensor of the same axes in a tensor's place."""

    def rule(expr: sp.Expr) -> sp.Expr:
        if not (isinstance(expr, Entry) and _named(expr, name)):
            return expr
        axes = tuple(Axis(f"axis{k}", size) for k, size in enumerate(expr.tensor.shape))
        return Entry(Tensor(other, *axes), *expr.indices)

    return _everywhere(rule)


def replaced(name: str, made: Callable[[sp.Expr], sp.Expr]) -> Change:
    """With something else wherever an entry of a tensor or a parameter stands: its negative, one more, 0."""
    return _everywhere(lambda e: made(e) if _named(e, name) else e)


def neighbouring(name: str) -> Change:
    """With a tensor read one place too early along its first axis; the first place reads itself."""

    def shifted(entry: sp.Expr) -> sp.Expr:
        if not isinstance(entry, Entry) or not entry.indices:
            return entry
        first, *rest = entry.indices
        return Entry(entry.tensor, sp.Max(first - 1, 0), *rest)

    return replaced(name, shifted)


def twice(name: str) -> Change:
    """With a factor applied twice: a parameter or tensor is squared."""
    return _everywhere(lambda e: e**2 if _named(e, name) else e)


def first_alone(size: str) -> Change:
    """With the first summand in place of the sum over an axis of that size: what forgets to accumulate computes."""

    def rule(expr: sp.Expr) -> sp.Expr:
        if not isinstance(expr, Total) or not any(str(a.size) == size for a in expr.axes):
            return expr
        body, axes = expr.open()
        first = [Indicator(sp.Eq(a, 0)) for a in axes if str(a.size) == size]
        return Total(sp.Mul(body, *first), *axes)

    return _everywhere(rule)


def times(factor: sp.Expr | int) -> Change:
    """Multiplied by a number, parameter or size: ``times(-1)`` for a lost sign."""
    return lambda value: factor * value


def _everywhere(rule: Callable[[sp.Expr], sp.Expr]) -> Change:
    return lambda value: rewrite(value, rule)


def _named(expr: sp.Expr, name: str) -> bool:
    """Whether an expression is an entry of the tensor, or the parameter, of a name."""
    if isinstance(expr, Entry):
        return str(expr.tensor.name) == name
    return isinstance(expr, sp.Symbol) and not isinstance(expr, Axis) and expr.name == name
