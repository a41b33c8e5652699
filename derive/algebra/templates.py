"""Templates: an expression without the letters of its free axes, to recognise it at other indices."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from derive.algebra.axes import Axis, free_axes, is_bound, is_fresh


def in_order(expr: sp.Basic) -> tuple[Axis, ...]:
    """The free axes of an expression in order of appearance."""
    free = free_axes(expr)
    return tuple(dict.fromkeys(a for a in sp.preorder_traversal(expr) if isinstance(a, Axis) and a in free))


def template(expr: sp.Expr, axes: Sequence[Axis]) -> sp.Expr:
    """The expression with numbered places for the given axes."""
    return expr.xreplace({axis: axis.renamed(f"#{place}") for place, axis in enumerate(axes)})


def lettered(axes: Sequence[Axis], letters: Sequence[Axis]) -> dict[Axis, Axis]:
    """Readable letters for axes that may be fresh: one of the given letters of the same size, or that with a number."""
    names: dict[Axis, Axis] = {}
    for axis in axes:
        known = [a.name for a in letters if a.size == axis.size] or ["j"]
        candidates = ([] if is_fresh(axis) or is_bound(axis) else [axis.name]) + known
        candidates += [f"{known[0]}{number}" for number in range(2, len(axes) + 3)]
        used = {a.name for a in names.values()}
        names[axis] = axis.renamed(next(c for c in candidates if c not in used))
    return names
