"""What a user gives for a worked example: matrices of exact numbers, read from JSON and never evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from derive.errors import DocumentError

Matrix = list[list[Fraction]]

MATRICES = ("Q", "K", "V", "G")
"""Queries, keys, values, and the gradient that arrives for the output."""

LONGEST_TEXT = 100_000
MOST_SCORES = 64
MOST_COORDINATES = 16
MOST_DIGITS = 9
LONGEST_NUMBER = 100

_DECIMAL = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,3}))?")
_QUOTIENT = re.compile(r"([+-]?[0-9]+)\s*/\s*([0-9]+)")
_EXPECTED = 'a number such as 2, 0.25 or 1e-3, or a string such as "1/2"'
_SHAPE = '{"Q": [[1, 0], [0, 1]], "K": …, "V": …}'


@dataclass(frozen=True)
class Inputs:
    """Checked matrices by name, and the scale if one was given."""

    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    scale: Fraction | None = None


@dataclass(frozen=True)
class _Literal:
    """A number as JSON spells it."""

    text: str


def parse_inputs(text: str) -> Inputs:
    """Read ``{"Q": [[…]], "K": [[…]], "V": [[…]], "G": [[…]], "scale": …}``; G and scale may be missing.

    Numbers keep the value of their decimal literal; strings may be fractions. Nothing is evaluated.

    Raises
    ------
    DocumentError: says what was given, what is expected and what to do.
    """
    given = _loaded(text)
    unknown = sorted(given.keys() - {*MATRICES, "scale"})
    if unknown:
        expected = f"{', '.join(MATRICES)} and scale"
        raise DocumentError(f"unknown key {_shown(unknown[0])}: expected {expected}; remove or rename it")
    scale = _number(given.pop("scale"), "scale") if "scale" in given else None
    return checked(given, scale)


def checked(given: Mapping[str, Any], scale: Fraction | None = None) -> Inputs:
    """Matrices of compatible sizes, small enough for a page, as lists of fractions."""
    unknown = sorted(given.keys() - set(MATRICES))
    if unknown:
        raise DocumentError(f"unknown matrix {_shown(unknown[0])}: expected {', '.join(MATRICES)}; remove or rename it")
    missing = [name for name in MATRICES[:3] if name not in given]
    if missing:
        raise DocumentError(f"{missing[0]} is missing: expected Q, K and V, as in {_SHAPE}; add it")
    matrices = {name: _matrix(given[name], name) for name in MATRICES if name in given}
    _check_sizes(matrices)
    if scale is not None and scale == 0:
        raise DocumentError("scale is 0: expected a number that is not 0; leave it out for 1/√d")
    return Inputs(matrices, scale if scale is None else _number(scale, "scale"))


def default_cotangent(queries: int, width: int) -> Matrix:
    """The gradient that arrives for O where none is given: a fixed pattern of small integers, no row constant."""
    return [[Fraction((2 * i + 3 * v + 3) % 5 - 2) for v in range(width)] for i in range(queries)]


def _loaded(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_TEXT:
        size = f"{len(text)} characters"
        raise DocumentError(f"the input has {size}: expected at most {LONGEST_TEXT}; give smaller matrices")
    try:
        given = json.loads(
            text,
            parse_float=_Literal,
            parse_int=_Literal,
            parse_constant=_not_finite,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        raise DocumentError(f"the input is nested too deeply: expected two levels, as in {_SHAPE}") from None
    except json.JSONDecodeError as error:
        raise DocumentError(
            f"the input is not JSON: {error.msg} in line {error.lineno}, column {error.colno}; expected {_SHAPE}"
        ) from None
    if not isinstance(given, dict):
        raise DocumentError(f"the input is {_kind(given)}: expected an object such as {_SHAPE}")
    return given


def _not_finite(constant: str) -> NoReturn:
    raise DocumentError(f"{constant} is not a finite number: expected {_EXPECTED}; replace it")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DocumentError(f"the key {_shown(key)} is given twice: expected each once; remove one of the two")
        found[key] = value
    return found


def _matrix(given: Any, name: str) -> Matrix:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise DocumentError(f"{name} is {_kind(given)}: expected a list of rows, such as [[1, 0], [0, 1]]")
    if not given:
        raise DocumentError(f"{name} has no rows: expected at least one, such as [[1, 0], [0, 1]]")
    for k, row in enumerate(given, 1):
        if not isinstance(row, Sequence) or isinstance(row, str):
            raise DocumentError(f"row {k} of {name} is {_kind(row)}: expected a list of numbers, such as [1, 0]")
        if not row:
            raise DocumentError(f"row {k} of {name} is empty: expected at least one number")
        if len(row) != len(given[0]):
            raise DocumentError(
                f"row {k} of {name} has {len(row)} numbers and row 1 has {len(given[0])}: "
                "expected rows of one length; fill in or remove numbers"
            )
    # Sizes come first: a matrix that is too large is refused before its numbers are read.
    if len(given) > MOST_SCORES or len(given[0]) > MOST_COORDINATES:
        raise DocumentError(
            f"{name} is {len(given)} × {len(given[0])}: expected at most {MOST_SCORES} rows of "
            f"{MOST_COORDINATES} numbers, to fit on a page; give a smaller example"
        )
    rows = enumerate(given, 1)
    return [[_number(x, f"{name}, row {k}, number {q}") for q, x in enumerate(row, 1)] for k, row in rows]


def _number(given: Any, where: str) -> Fraction:
    """An exact number from a literal, a string, an integer or a fraction."""
    if isinstance(given, bool) or not isinstance(given, (_Literal, str, int, Fraction)):
        hint = "; floats are not exact, so give Fraction('0.1') or parse JSON text" if isinstance(given, float) else ""
        raise DocumentError(f"{where} is {_kind(given)}: expected {_EXPECTED}{hint}")
    if isinstance(given, (int, Fraction)):
        return _within_limits(Fraction(given), where, "too long")
    text = given.text if isinstance(given, _Literal) else given.strip()
    if len(text) > LONGEST_NUMBER:  # far outside the limits, and refused before it is taken apart
        raise _outside(where, _shown(text))
    quotient = _QUOTIENT.fullmatch(text)
    if quotient is not None:
        above, below = (_digits(part, where, text) for part in quotient.groups())
        if below == 0:
            raise DocumentError(f"{where} is {_shown(text)}, a division by zero: expected {_EXPECTED}")
        return _within_limits(Fraction(above, below), where, _shown(text))
    number = _DECIMAL.fullmatch(text)
    if number is None or not (number[2] or number[3]):
        raise DocumentError(f"{where} is {_shown(text)}: expected {_EXPECTED}")
    digits = _digits(number[1] + number[2] + number[3], where, text)
    exponent = int(number[4] or 0) - len(number[3])
    if abs(exponent) > 40:  # far outside the limits, and refused before a power of ten is computed
        raise _outside(where, _shown(text))
    return _within_limits(digits * Fraction(10) ** exponent, where, _shown(text))


def _digits(text: str, where: str, given: str) -> int:
    if len(text) > 40:
        raise _outside(where, _shown(given))
    return int(text)


def _within_limits(number: Fraction, where: str, shown: str) -> Fraction:
    if max(abs(number.numerator), number.denominator) >= 10**MOST_DIGITS:
        raise _outside(where, shown)
    return number


def _outside(where: str, shown: str) -> DocumentError:
    return DocumentError(
        f"{where} is {shown}: expected at most {MOST_DIGITS} digits above and below the fraction bar; round it"
    )


def _check_sizes(matrices: Mapping[str, Matrix]) -> None:
    shapes = {name: (len(rows), len(rows[0])) for name, rows in matrices.items()}
    (n, d), (m, key_width), (values, width) = (shapes[name] for name in "QKV")
    if key_width != d:
        raise _clash("Q", "K", shapes, "as many numbers in a row of K as in a row of Q, because they are multiplied")
    if values != m:
        raise _clash("K", "V", shapes, "one row of V for every row of K")
    if shapes.get("G", (n, width)) != (n, width):
        raise _clash("O", "G", {**shapes, "O": (n, width)}, "the shape of O: Q's rows and V's columns")
    if n * m > MOST_SCORES:
        raise DocumentError(
            f"{n} queries and {m} keys make {n * m} scores: expected at most {MOST_SCORES}, to fit on a page; "
            "give fewer queries or keys"
        )


def _clash(one: str, two: str, shapes: Mapping[str, tuple[int, int]], expected: str) -> DocumentError:
    sizes = " and ".join(f"{name} is {shapes[name][0]} × {shapes[name][1]}" for name in (one, two))
    return DocumentError(f"{sizes}: expected {expected}; change one of the two")


def _kind(given: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    if isinstance(given, _Literal):
        return f"the number {_shown(given.text)}"
    return kinds.get(type(given), f"of type {type(given).__name__}")


def _shown(text: str) -> str:
    """A given text, quoted and cut short."""
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")
