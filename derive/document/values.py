"""Numbers of a worked example: exact, and to many digits, side by side; and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm
from typing import Any

import sympy as sp

from derive.proof import Decimals, Symbolic

DIGITS = 60
"""Digits carried: inputs have at most 9 above and 9 below the fraction bar, so 4 places are always right."""

PLACES = 4
"""Decimal places shown."""

LONGEST_CLOSED_FORM = 44
"""Characters of LaTeX beyond which a closed form says less than a rounded number."""


@dataclass(frozen=True)
class Value:
    """An exact SymPy number with its value to :data:`DIGITS` digits."""

    exact: sp.Expr
    digits: Any

    def __add__(self, other: Value) -> Value:
        return Value(self.exact + other.exact, self.digits + other.digits)

    def __mul__(self, other: Value) -> Value:
        return Value(self.exact * other.exact, self.digits * other.digits)

    def __neg__(self) -> Value:
        return Value(-self.exact, -self.digits)

    def __sub__(self, other: Value) -> Value:
        return self + -other

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
        """A function of numbers."""
        exact = self.symbolic.function(function, *(a.exact for a in args))
        return Value(exact, self.decimals.function(function, *(a.digits for a in args)))

    def power(self, base: Value, exponent: sp.Rational) -> Value:
        """A rational power."""
        return Value(self.symbolic.power(base.exact, exponent), self.decimals.power(base.digits, exponent))

    def compared(self, value: Value) -> sp.Expr:
        """The exact number."""
        return value.exact


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
    if sp.count_ops(exact) > 150 or not all(q.is_Rational for q in exponents):
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
    exact = closed_form(value.exact)
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
    exact = closed_form(value.exact)
    if exact is None or shown_in_full(value):
        return None
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


def matrix(rows: Sequence[Sequence[Value]]) -> str:
    """Numbers as a matrix."""
    body = r" \\ ".join(" & ".join(map(decimal, one)) for one in rows)
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
    return bool(value.exact.is_Integer)
