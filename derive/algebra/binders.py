"""Binders: the sum of a body over axes, and its maximum.

A binder names its axes by height (one more than the binders inside it), so alpha-equivalent
expressions are structurally equal. **Never substitute under a closed binder by hand**: open it
(:meth:`Binder.open`), rewrite the body, and close it again; :func:`rewrite` does this throughout
an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import permutations, product
from typing import Any

import sympy as sp

from derive.algebra.axes import Axis, bound, check_axes, free_axes, fresh, is_bound
from derive.errors import AlgebraError


class Binder(sp.Expr):
    """A body and the axes that it binds; ``args`` is ``(body, *axes)`` with canonical axis names."""

    is_commutative = True

    @property
    def body(self) -> sp.Expr:
        """The expression under the binder."""
        body: sp.Expr = self.args[0]
        return body

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The bound axes."""
        return self.args[1:]  # type: ignore[no-any-return]

    @property
    def free_symbols(self) -> set[sp.Basic]:
        """All symbols of the body but the bound axes."""
        return self.body.free_symbols - set(self.axes)  # type: ignore[no-any-return]

    def open(self) -> tuple[sp.Expr, tuple[Axis, ...]]:
        """The body with fresh axes in place of the bound ones, and those axes."""
        names = {axis: fresh(axis) for axis in self.axes}
        return self.body.xreplace(names), tuple(names.values())

    def _eval_derivative(self, wrt: sp.Basic) -> sp.Expr:
        raise AlgebraError(f"{self} was differentiated directly; use derive.calculus, which contracts deltas")

    @classmethod
    def _close(cls, body: sp.Expr, axes: tuple[Axis, ...]) -> sp.Expr:
        """The binder with canonical names: by height, and among axes of one size the least spelling."""
        height = max((len(b.axes) + b._height for b in body.atoms(Binder)), default=0)
        axes = tuple(sorted(axes, key=lambda a: (str(a.size), a.name)))
        sizes = {size: [a for a in axes if a.size == size] for size in dict.fromkeys(a.size for a in axes)}
        spellings: list[tuple[sp.Basic, ...]] = []
        for order in product(*(permutations(group) for group in sizes.values())):
            flat = [axis for group in order for axis in group]
            names = {axis: bound(axis, height + k) for k, axis in enumerate(flat, 1)}
            spellings.append((body.xreplace(names), *names.values()))
        if len(spellings) > 1:
            order_of = cmp_to_key(sp.Basic.compare)
            spellings.sort(key=lambda spelling: order_of(spelling[0]))
        binder: sp.Expr = sp.Expr.__new__(cls, *spellings[0])
        return binder

    @property
    def _height(self) -> int:
        return int(self.axes[0].name.removeprefix("_")) - 1


class Total(Binder):
    """The sum of a body over axes: ``Total(Q[i, c] * K[j, c], c)``.

    Evaluation on construction: factors that do not depend on the axes move out, an axis the body
    does not mention becomes its size, nested sums merge, and a product falls apart into the sums
    of its independent parts.
    """

    def __new__(cls, body: Any, *axes: Axis) -> sp.Expr:
        body = sp.sympify(body)
        check_axes(axes, "Total")
        check_closed(body, axes)
        if body == 0 or not axes:
            return body
        if isinstance(body, Total):
            inner, more = body.open()
            return cls(inner, *axes, *more)
        outside: list[sp.Expr] = []
        inside: list[sp.Expr] = []
        for factor in sp.Mul.make_args(body):
            (inside if free_axes(factor) & set(axes) else outside).append(factor)
        mentioned = set().union(*map(free_axes, inside)) if inside else set()
        outside += [axis.size for axis in axes if axis not in mentioned]
        parts = [
            cls._part(factors, own) for factors, own in _components(inside, tuple(a for a in axes if a in mentioned))
        ]
        return sp.Mul(*outside, *parts)

    @classmethod
    def _part(cls, factors: list[sp.Expr], axes: tuple[Axis, ...]) -> sp.Expr:
        flat: list[sp.Expr] = []
        for factor in factors:
            if isinstance(factor, Total):
                factor, more = factor.open()
                axes = (*axes, *more)
            flat.append(factor)
        return cls._close(sp.Mul(*flat), axes)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.body.is_nonnegative else None

    def _eval_is_real(self) -> bool | None:
        return True if self.body.is_real else None


class Maximum(Binder):
    """The largest value of a body over axes; hide entries with :class:`~derive.algebra.tensors.Visible`.

    It appears only after differentiation, as the shift that stabilises a softmax; a program that
    holds one is not differentiated again. Where nothing is visible it is 0.
    """

    def __new__(cls, body: Any, *axes: Axis) -> sp.Expr:
        check_axes(axes, "Maximum")
        check_closed(sp.sympify(body), axes)
        return cls._close(sp.sympify(body), axes)

    def _eval_is_real(self) -> bool:
        return True


class Supremum(Maximum):
    """A maximum that is −∞ where nothing is visible: one part of a larger maximum."""

    def _eval_is_real(self) -> None:  # type: ignore[override]
        return None


def check_closed(body: sp.Expr, axes: tuple[Axis, ...]) -> None:
    """Refuse a body that was taken out of a binder without :meth:`Binder.open`: its axes would be captured.

    SymPy rebuilds a binder from its own args, whose axes are bound names; that is the one legitimate case.
    """
    loose = sorted(a.name for a in free_axes(body) if is_bound(a))
    if loose and not all(map(is_bound, axes)):
        raise AlgebraError(f"{body} holds the bound axis {', '.join(loose)} of another sum; take it apart with open()")


def _components(factors: list[sp.Expr], axes: tuple[Axis, ...]) -> list[tuple[list[sp.Expr], tuple[Axis, ...]]]:
    """Split a product into parts that share no axis, each with its own axes, in order."""
    parts: list[tuple[list[sp.Expr], set[Axis]]] = []
    for factor in factors:
        touched = set(free_axes(factor)) & set(axes)
        joined, rest = [factor], []
        for members, own in parts:
            if own & touched:
                joined, touched = members + joined, touched | own
            else:
                rest.append((members, own))
        parts = [*rest, (joined, touched)]
    return [(members, tuple(a for a in axes if a in own)) for members, own in parts]


def rewrite(expr: sp.Expr, rule: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """Apply a rule bottom-up, with every binder opened; a node that nothing changes stays itself."""
    if isinstance(expr, Binder):
        body, axes = expr.open()
        changed = rewrite(body, rule)
        if changed == body:
            return rule(expr)
        return rule(expr.func(changed, *axes))
    if expr.args and not isinstance(expr, sp.Indexed):
        args = [
            rewrite(arg, rule) if isinstance(arg, (sp.Expr, sp.logic.boolalg.Boolean)) else arg for arg in expr.args
        ]
        if any(new is not old for new, old in zip(args, expr.args, strict=True)):
            expr = expr.func(*args)
    return rule(expr)
