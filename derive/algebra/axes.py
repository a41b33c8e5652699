"""Axes: named indices with symbolic sizes.

An axis is a SymPy symbol that also knows its size, so it can stand in index positions
(``Q[i, c]``) and in scalar expressions (``j <= i + offset``) alike. Three kinds share the class:

* *free* axes carry the name that the author gave (``i``);
* *bound* axes belong to a :class:`~derive.algebra.binders.Binder` and are named by their height
  (``_1``, ``_2``), so that expressions which differ only in bound names are the same object;
* *fresh* axes (``~7``) exist only while a binder is open for rewriting.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import sympy as sp

from derive.errors import AlgebraError

_serial = count(1)


class Axis(sp.Symbol):
    """A named index that runs over ``0 … size − 1``.

    Parameters
    ----------
    name: the letter the index is written with.
    size: the number of values, as a name (``"n"``) or a SymPy expression.
    """

    __slots__ = ("size",)
    size: sp.Expr

    def __new__(cls, name: str, size: str | sp.Expr | int) -> Axis:
        axis: Axis = sp.Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
        axis.size = size_symbol(size) if isinstance(size, str) else sp.sympify(size)
        return axis

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.size)

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.name, self.size), {}

    def renamed(self, name: str) -> Axis:
        """The same range under another letter."""
        return Axis(name, self.size)


def size_symbol(name: str) -> sp.Symbol:
    """The symbol of a size: a nonnegative integer."""
    return sp.Symbol(name, integer=True, nonnegative=True)


def is_size(symbol: sp.Symbol) -> bool:
    """Whether a symbol is the size of an axis: a nonnegative integer."""
    return bool(symbol.is_integer and symbol.is_nonnegative)


def fresh(axis: Axis) -> Axis:
    """An axis of the same size under a name nobody else holds."""
    return axis.renamed(f"~{next(_serial)}")


def bound(axis: Axis, level: int) -> Axis:
    """The canonical name of a bound axis at the given height."""
    return axis.renamed(f"_{level}")


def is_bound(axis: Axis) -> bool:
    """Whether the axis carries a canonical bound name."""
    return str(axis.name).startswith("_")


def is_fresh(axis: Axis) -> bool:
    """Whether the axis was made by :func:`fresh`."""
    return str(axis.name).startswith("~")


def free_axes(expr: sp.Basic) -> frozenset[Axis]:
    """The axes that occur free in an expression."""
    return frozenset(a for a in expr.free_symbols if isinstance(a, Axis))


def check_axes(axes: tuple[Any, ...], where: str) -> tuple[Axis, ...]:
    """The given axes if they are distinct axes, else an error that says where they were used."""
    for axis in axes:
        if not isinstance(axis, Axis):
            raise AlgebraError(f"{where}: {axis!r} is not an Axis")
    repeated = sorted({a.name for a in axes if axes.count(a) > 1})
    if repeated:
        raise AlgebraError(f"{where}: axis {', '.join(repeated)} is used twice; give each position its own axis")
    return axes
