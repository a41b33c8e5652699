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

    Raises
    ------
    AlgebraError: the name is one of those that bound axes have, or no name; the size is no name and no integer.
    """

    __slots__ = ("size",)
    size: sp.Expr

    def __new__(cls, name: str, size: str | sp.Expr | int) -> Axis:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise AlgebraError(f"{name!r} cannot name an axis; start with a letter, and go on with letters and digits")
        if isinstance(size, str):
            return cls.of(name, size_symbol(size))
        length = sp.sympify(size, strict=True)
        if not is_whole(length) or length.is_negative:
            raise AlgebraError(f"axis {name} has size {length}; give a name, such as 'n', or a whole number")
        return cls.of(name, length)

    @classmethod
    def of(cls, name: str, size: sp.Expr) -> Axis:
        """An axis under any name: bound and fresh ones have names that nobody can write."""
        axis: Axis = sp.Symbol.__xnew__(cls, name, integer=True, nonnegative=True)
        axis.size = size
        return axis

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return Axis.of, (self.name, self.size)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.size)

    def renamed(self, name: str) -> Axis:
        """The same range under another letter."""
        return Axis.of(name, self.size)


def size_symbol(name: str) -> sp.Symbol:
    """The symbol of a size: a nonnegative integer."""
    if not name.isidentifier():
        raise AlgebraError(f"{name!r} cannot name a size; take letters, digits and _, or give a SymPy expression")
    return sp.Symbol(name, integer=True, nonnegative=True)


def is_size(symbol: sp.Symbol) -> bool:
    """Whether a symbol is the size of an axis: a nonnegative integer, and no tensor's label."""
    return bool(type(symbol) is sp.Symbol and symbol.is_integer and symbol.is_nonnegative)


def is_whole(value: sp.Expr) -> bool:
    """Whether an expression is known to be an integer wherever it is evaluated.

    SymPy leaves a remainder open because the divisor may be 0; what is divided by a size stands on an axis of it.
    """
    if isinstance(value, (sp.Add, sp.Mul, sp.Max, sp.Min, sp.Mod)):
        return all(map(is_whole, value.args))
    return value.is_integer is True or isinstance(value, (sp.floor, sp.ceiling))


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
