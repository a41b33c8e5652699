"""Rational numbers: of which kind they are computed, and how any kind is read.

Exact arithmetic is the same in every kind; python-flint's ``fmpq`` is a fast path where it is installed, Python's
``Fraction`` is there always. The kinds do not mix: ``fmpq`` neither adds to a ``Fraction`` nor equals one, so what
computes converts what it is given (:func:`ratio`) and computes in one kind.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

from derive.errors import AlgebraError

Rational = Any
"""A number of one of the kinds: it adds, multiplies, has integer powers, an order, a hash, and equals integers."""

Kind = Callable[[int, int], Rational]
"""Numerator and denominator to a number: ``Fraction``, or ``flint.fmpq``."""


def flint_missing() -> str | None:
    """Why python-flint cannot be used here, and what to install; None where it can."""
    try:
        importlib.import_module("flint")
    except ImportError as error:
        return f"rigorous balls need python-flint ({error}); pip install python-flint"
    return None


def python_flint() -> ModuleType:
    """The module ``flint``.

    Raises
    ------
    AlgebraError: it is not installed.
    """
    if reason := flint_missing():
        raise AlgebraError(reason)
    return importlib.import_module("flint")


@cache
def fastest() -> Kind:
    """The fastest kind that there is here."""
    return Fraction if flint_missing() else python_flint().fmpq


def ratio(value: Any) -> tuple[int, int] | None:
    """Numerator and denominator of an int, Fraction, ``fmpq`` or rational SymPy number; None for anything else."""
    if not hasattr(value, "denominator") or not hasattr(value, "numerator"):
        return None
    return int(value.numerator), int(value.denominator)


def read(value: Any) -> tuple[int, int]:
    """Numerator and denominator, also of a string such as ``"1/2"`` and of a float, which is exact."""
    return ratio(value) or Fraction(value).as_integer_ratio()


def spelled(value: Rational) -> str:
    """One text for one number, whatever its kind; hexadecimal, because Python limits the length of decimals."""
    above, below = read(value)
    return f"{above:x}/{below:x}"
