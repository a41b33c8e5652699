"""Scalar functions: their values and slopes, from what SymPy and a function's own declaration say of them.

A function with a ``definition`` is evaluated by that; its slope is the one that it declares (``fdiff``), which may be
another than its definition's: a rounding with a straight-through slope.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from derive.algebra.functions import definition_of
from derive.algebra.tensors import Indicator
from derive.errors import AlgebraError
from numeric.oracle.labelled import Mask, arranged, union

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}

STEPS = (sp.floor, sp.ceiling, sp.sign, sp.Heaviside)
"""Functions that jump: their slope is nowhere of use."""


@lru_cache(maxsize=256)
def derivative(function: type, arity: int, argument: int = 0) -> tuple[tuple[sp.Symbol, ...], sp.Expr]:
    """The slope of a function in one of its arguments, as an expression of symbols that stand for all of them.

    Raises
    ------
    AlgebraError: the function has no slope that can be used.
    """
    symbols = tuple(sp.Dummy(f"x{k}", real=True) for k in range(arity))
    applied = function(*symbols)
    slope = sp.diff(applied, symbols[argument])
    if issubclass(function, STEPS) or slope.atoms(sp.Derivative, sp.Subs, sp.DiracDelta):
        raise AlgebraError(f"{function.__name__} has no derivative that is known here")
    return symbols, slope


@lru_cache(maxsize=256)
def definition(function: type, arity: int) -> tuple[tuple[sp.Symbol, ...], sp.Expr] | None:
    """What a declared function stands for, as an expression of symbols; None of one that SymPy knows."""
    symbols = tuple(sp.Dummy(f"x{k}", real=True) for k in range(arity))
    applied = function(*symbols)
    spelled_out = definition_of(applied)
    return None if spelled_out is None else (symbols, spelled_out)


def evaluated(expr: sp.Expr, given: Mapping[sp.Basic, Any], kind: Any) -> Any:
    """A scalar expression in arrays of a kind of numbers, which stand for its symbols.

    Raises
    ------
    AlgebraError: the expression holds something that has no value here, by name.
    """
    if expr in given:
        return given[expr]
    if expr.is_Rational:
        return kind.rational(Fraction(int(expr.p), int(expr.q)))
    if expr.is_Float:
        return evaluated(sp.Rational(expr), given, kind)
    if expr in (sp.oo, -sp.oo):
        return kind.given(np.asarray(np.inf if expr is sp.oo else -np.inf), ())
    if expr is sp.pi:
        return kind.pi()
    if expr is sp.E:
        return kind.function(sp.exp, kind.rational(Fraction(1)))
    if isinstance(expr, Indicator):
        return kind.given(~_fails(expr.args[0], given, kind).data, _fails(expr.args[0], given, kind).labels)
    if isinstance(expr, sp.Pow) and not isinstance(expr, sp.exp):
        return _power(expr, given, kind)
    parts = [evaluated(arg, given, kind) for arg in expr.args]
    if isinstance(expr, sp.Add):
        return kind.add(parts)
    if isinstance(expr, sp.Mul):
        return kind.multiply(parts)
    if isinstance(expr, (sp.Max, sp.Min)):
        return reduce(lambda one, other: _extreme(isinstance(expr, sp.Max), one, other, kind), parts)
    if isinstance(expr, sp.Heaviside):
        half = kind.multiply([kind.function(sp.sign, parts[0]), kind.rational(Fraction(1, 2))])
        return kind.add([half, kind.rational(Fraction(1, 2))])
    if definition(expr.func, len(parts)) is not None:
        return kind.declared(expr.func, parts)
    if isinstance(expr, sp.Function) and len(parts) == 1:
        return kind.function(expr.func, parts[0])
    raise AlgebraError(f"the oracle cannot evaluate {type(expr).__name__} in {expr}")


def by_definition(function: type, arrays: Sequence[Any], kind: Any) -> Any:
    """A declared function at arrays, by what it stands for."""
    known = definition(function, len(arrays))
    assert known is not None
    return evaluated(known[1], dict(zip(known[0], arrays, strict=True)), kind)


def _power(expr: sp.Pow, given: Mapping[sp.Basic, Any], kind: Any) -> Any:
    base = evaluated(expr.base, given, kind)
    if expr.exp.is_Rational:
        return kind.power(base, Fraction(int(expr.exp.p), int(expr.exp.q)))
    exponent = evaluated(expr.exp, given, kind)
    return kind.function(sp.exp, kind.multiply([exponent, kind.function(sp.log, base)]))


def _extreme(largest: bool, one: Any, other: Any, kind: Any) -> Any:
    """The larger or smaller of two arrays, entry by entry."""
    labels = union(one.labels, other.labels)
    left, right = (arranged(kind.compared(x), x.labels, labels) for x in (one, other))
    first = left >= right if largest else left <= right
    return kind.chosen([kind.masked(one, Mask(~first, labels)), kind.masked(other, Mask(first, labels))])


def _fails(condition: sp.Basic, given: Mapping[sp.Basic, Any], kind: Any) -> Mask:
    """Where a condition on symbols does not hold."""
    if isinstance(condition, (sp.And, sp.Or, sp.Not)):
        parts = [_fails(part, given, kind) for part in condition.args]
        labels = union(*(part.labels for part in parts))
        data = [arranged(part.data, part.labels, labels) for part in parts]
        if isinstance(condition, sp.Not):
            return Mask(~data[0], labels)
        combine = operator.or_ if isinstance(condition, sp.And) else operator.and_
        return Mask(np.asarray(reduce(combine, data)), labels)
    if not isinstance(condition, Relational):
        raise AlgebraError(f"the condition {condition} is no comparison")
    left, right = (evaluated(side, given, kind) for side in condition.args)
    labels = union(left.labels, right.labels)
    holds = COMPARE[condition.rel_op](
        arranged(kind.compared(left), left.labels, labels), arranged(kind.compared(right), right.labels, labels)
    )
    return Mask(~np.asarray(holds, dtype=bool), labels)
