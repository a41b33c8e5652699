"""Numbers of a worked example: exact, and to many digits, side by side; and how they are written."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import sympy as sp

from derive.proof import Decimals, Symbolic

DIGITS = 120
"""Digits carried, so that a slope has 40: with 9 above and 9 below the fraction bar, a score has up to 29 digits before
its point, which its weight loses, and a slope, a product of four inputs summed over a page, up to 41."""

PLACES = 4
"""Decimal places shown."""

LARGEST_EXACT = 80
"""Terms up to which an exact expression is carried along."""

LONGEST_CLOSED_FORM = 44
"""Characters of LaTeX beyond which a closed form says less than a rounded number."""


@dataclass(frozen=True)
class Value:
    """A number to :data:`DIGITS` digits, and exactly for as long as the exact expression is short enough to use.

    ``size`` bounds the terms in ``exact``; beyond :data:`LARGEST_EXACT` the exact number is dropped (None), so
    that the work on a page grows with its numbers, not with their expressions.
    """

    exact: sp.Expr | None
    digits: Any
    size: int = field(default=1, compare=False)

    def __add__(self, other: Value) -> Value:
        return self._joined(other, operator.add)

    def __mul__(self, other: Value) -> Value:
        return self._joined(other, operator.mul)

    def __neg__(self) -> Value:
        return Value(None if self.exact is None else -self.exact, -self.digits, self.size)

    def __sub__(self, other: Value) -> Value:
        return self + -other

    def _joined(self, other: Value, join: Callable[[Any, Any], Any]) -> Value:
        size, digits = self.size + other.size, join(self.digits, other.digits)
        if join is operator.mul and (self.is_zero or other.is_zero):
            return Value(sp.S.Zero, digits)
        if self.exact is None or other.exact is None or size > LARGEST_EXACT:
            return Value(None, digits, size)
        exact = join(self.exact, other.exact)
        return Value(exact, digits, 1 if exact.is_Rational else size)

    @property
    def is_zero(self) -> bool:
        """Whether it is exactly 0."""
        return self.exact is not None and bool(self.exact == 0)

    @property
    def negligible(self) -> bool:
        """Zero to 40 digits."""
        return bool(abs(self.digits) < 1e-40)

    def agrees(self, other: Value) -> bool:
        """Whether two numbers agree to 40 digits, relative to their size."""
        size = max(1, abs(self.digits), abs(other.digits))
        return bool(abs(self.digits - other.digits) < size * 1e-40)


class Values:
    """The interpreter's arithmetic over :class:`Value`: symbolic and decimal at once."""

    def __init__(self) -> None:
        self.symbolic, self.decimals = Symbolic(), Decimals(DIGITS)

    def number(self, value: Any) -> Value:
        """An exact number."""
        return value if isinstance(value, Value) else Value(self.symbolic.number(value), self.decimals.number(value))

    def function(self, function: type[sp.Function], *args: Value) -> Value:
        """A function of one number."""
        (x,) = args
        exact = None if x.exact is None else self.symbolic.function(function, x.exact)
        return Value(exact, self.decimals.function(function, x.digits), x.size + 1)

    def power(self, base: Value, exponent: sp.Rational) -> Value:
        """A rational power."""
        exact = None if base.exact is None else self.symbolic.power(base.exact, exponent)
        return Value(exact, self.decimals.power(base.digits, exponent), base.size + 1)

    def compared(self, value: Value) -> sp.Expr:
        """The exact number, or the decimal where that is not known."""
        return self.decimals.compared(value.digits) if value.exact is None else value.exact


@lru_cache(maxsize=4096)
def closed_form(exact: sp.Expr) -> sp.Expr | None:
    """The factored form with e as a symbol, or None where that is not a matter of a few terms.

    All powers of e are powers of one of them, so SymPy sees a rational function of small degree, and prints
    e + 1, not 1 + e.
    """
    if exact.is_Rational:
        return exact
    powers = sorted(exact.atoms(sp.exp) | exact.atoms(sp.core.numbers.Exp1), key=sp.default_sort_key)
    exponents = [sp.log(p) if p == sp.E else p.args[0] for p in powers]
    if not all(q.is_Rational for q in exponents):
        return None
    step = sp.Rational(gcd(*(int(q.p) for q in exponents)), lcm(*(int(q.q) for q in exponents))) if powers else sp.S.One
    if any(abs(q / step) > 12 for q in exponents):
        return None
    t = sp.Symbol("t", positive=True)
    short = exact.xreplace({p: t ** (q / step) for p, q in zip(powers, exponents, strict=True)})
    return sp.factor(short).subs(t, sp.Symbol("e", positive=True) ** step)


def decimal(value: Value) -> str:
    """The number as LaTeX: in full if four places hold it, else rounded to four places."""
    exact = _short_decimal(value)
    if exact is not None:
        return exact
    scaled = int(value.digits.context.nint(value.digits * 10**PLACES))
    whole, rest = divmod(abs(scaled), 10**PLACES)
    return f"{'-' if scaled < 0 else ''}{whole}.{rest:0{PLACES}d}"


def shown_in_full(value: Value) -> bool:
    """Whether :func:`decimal` loses nothing."""
    return _short_decimal(value) is not None


def _short_decimal(value: Value) -> str | None:
    exact = None if value.exact is None else closed_form(value.exact)
    if exact is None or not exact.is_Rational or 10**PLACES % exact.q:
        return None
    whole, rest = divmod(abs(exact.p) * 10**PLACES // exact.q, 10**PLACES)
    sign = "-" if exact < 0 else ""
    return f"{sign}{whole}.{rest:0{PLACES}d}".rstrip("0").rstrip(".") if rest else f"{sign}{whole}"


def relation(values: Sequence[Value]) -> str:
    """``=`` where all numbers are shown in full, else ``≈``."""
    return "=" if all(map(shown_in_full, values)) else r"\approx"


def closed(value: Value) -> str | None:
    """The exact number as LaTeX where that is short and says more than the decimal."""
    exact = None if value.exact is None else closed_form(value.exact)
    if exact is None or shown_in_full(value):
        return None
    if any(max(abs(x.p), x.q) >= 10**LONGEST_CLOSED_FORM for x in exact.atoms(sp.Rational)):
        return None  # too long as a text, and thousands of digits cannot even be made one
    text = sp.latex(exact)
    return text if len(text) <= LONGEST_CLOSED_FORM else None


def equated(value: Value) -> str:
    """``= closed form ≈ decimal``, or as much of it as there is."""
    exact = closed(value)
    return f"{f'= {exact} ' if exact else ''}{relation([value])} {decimal(value)}"


def row(values: Sequence[Value]) -> str:
    """Numbers as a tuple."""
    return tuple_of(list(map(decimal, values)))


def tuple_of(parts: Sequence[str]) -> str:
    """Formulas as a tuple."""
    return "(" + ", ".join(parts) + ")"


def exactly(value: Value) -> str | None:
    """The exact number as LaTeX, decimal where that is exact, or None where it is too long."""
    return decimal(value) if shown_in_full(value) else closed(value)


def matrix(rows: Sequence[Sequence[Value]], write: Callable[[Value], str | None] = decimal) -> str:
    """Numbers as a matrix."""
    body = r" \\ ".join(" & ".join(write(x) or decimal(x) for x in one) for one in rows)
    return rf"\begin{{pmatrix}} {body} \end{{pmatrix}}"


def multiple(values: Sequence[Value]) -> str | None:
    """``0.2949 (1, 1, −1, 1)``: the numbers as a multiple of small integers, where they are one."""
    first = next((v for v in values if not v.negligible), None)
    if first is None or len(values) < 3 or all(map(_small_integer, values)):
        return None
    ratios = [v.digits / first.digits for v in values]
    nearest = [int(r.context.nint(r)) for r in ratios]
    if any(abs(r - k) > 1e-40 or abs(k) > 9 for r, k in zip(ratios, nearest, strict=True)):
        return None
    return rf"{decimal(first)}\, {tuple_of(list(map(str, nearest)))}"


def _small_integer(value: Value) -> bool:
    return value.exact is not None and bool(value.exact.is_Integer)
