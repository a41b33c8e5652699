"""Inputs of worked examples: read exactly, never evaluated, and refused with a reason."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest

from derive.document import parse_inputs, worked_example
from derive.document.html import to_html
from derive.document.inputs import default_cotangent
from derive.document.markdown import to_markdown
from derive.errors import DocumentError

GOOD = {"Q": "[[1, 2]]", "K": "[[1, 0]]", "V": "[[1]]"}


def with_changed(**changes: str) -> str:
    return "{" + ", ".join(f'"{k}": {v}' for k, v in (GOOD | changes).items()) + "}"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("", "not JSON"),
        ("Q = [[1]]", "not JSON.*line 1, column 1"),
        ("[[1, 2]]", "is a list: expected an object"),
        ("3", "the number '3': expected an object"),
        ("null", "is null: expected an object"),
        ('{"Q": [[1]], "K": [[1]]}', "V is missing: expected Q, K and V"),
        ("{}", "Q is missing"),
        (with_changed(mask="[[1]]"), "unknown key 'mask': expected Q, K, V, G and scale"),
        ('{"Q": [[1]], "Q": [[2]]}', "'Q' is given twice"),
        (with_changed(Q="[]"), "Q has no rows"),
        (with_changed(Q="[[]]"), "row 1 of Q is empty"),
        (with_changed(Q="[1, 2]"), "row 1 of Q is the number '1': expected a list"),
        (with_changed(Q='"[[1]]"'), "Q is a string: expected a list of rows"),
        (with_changed(Q='{"a": 1}'), "Q is an object"),
        (with_changed(Q="[[1, 2], [3]]"), "row 2 of Q has 1 numbers and row 1 has 2"),
        (with_changed(Q="[[1, [2]]]"), "Q, row 1, number 2 is a list"),
        (with_changed(Q="[[1, true]]"), "number 2 is true or false"),
        (with_changed(Q="[[1, null]]"), "number 2 is null"),
        (with_changed(Q="[[1, NaN]]"), "NaN is not a finite number"),
        (with_changed(Q="[[1, Infinity]]"), "Infinity is not a finite number"),
        (with_changed(Q="[[1, -Infinity]]"), "-Infinity is not a finite number"),
        (with_changed(Q='[[1, "nan"]]'), "number 2 is 'nan': expected a number"),
        (with_changed(Q='[[1, "inf"]]'), "is 'inf'"),
        (with_changed(Q='[[1, ""]]'), "is ''"),
        (with_changed(Q='[[1, "."]]'), "is '.'"),
        (with_changed(Q='[[1, "1/0"]]'), "division by zero"),
        (with_changed(Q='[[1, "1/2/3"]]'), "is '1/2/3'"),
        (with_changed(Q='[[1, "0.5/2"]]'), "is '0.5/2'"),
        (with_changed(Q='[[1, "1_000"]]'), "is '1_000'"),
        (with_changed(Q='[[1, "٣"]]'), "is '.u0663'"),
        (with_changed(Q='[[1, "sqrt(2)"]]'), "is 'sqrt.2.'"),
        (with_changed(Q='[[1, "2**9"]]'), "expected a number"),
        (with_changed(Q="""[[1, "__import__('os')"]]"""), "number 2 is .__import__"),
        (with_changed(Q="[[1, 1e999999999]]"), "'1e999999999': expected"),
        (with_changed(Q="[[1, 1e-999999999]]"), "'1e-999999999': expected"),
        (with_changed(Q="[[1, 1e400]]"), "at most 9 digits"),
        (with_changed(Q='[[1, "1e9"]]'), "at most 9 digits"),
        (with_changed(Q=f"[[1, {'9' * 5000}]]"), "at most 9 digits"),
        (with_changed(Q=f'[[1, "1/{"9" * 5000}"]]'), "at most 9 digits"),
        (with_changed(Q="[[1, 0.0000000001]]"), "at most 9 digits"),
        (with_changed(Q="[[1, 2, 3]]"), "Q is 1 × 3 and K is 1 × 2: expected as many numbers"),
        (with_changed(V="[[1], [2]]"), "K is 1 × 2 and V is 2 × 1: expected one row of V for every row of K"),
        (with_changed(G="[[1, 2]]"), "O is 1 × 1 and G is 1 × 2: expected the shape of O"),
        (with_changed(G="[]"), "G has no rows"),
        (with_changed(Q=str([[1, 2]] * 65)), "Q is 65 × 2: expected at most 64 rows of 16 numbers"),
        (with_changed(V=str([[1] * 17])), "V is 1 × 17: expected at most 64 rows of 16 numbers"),
        (
            with_changed(Q=str([[1, 2]] * 9), K=str([[1, 0]] * 8), V=str([[1]] * 8)),
            "9 queries and 8 keys make 72 scores: expected at most 64",
        ),
        (with_changed(scale="0"), "scale is 0: expected a number that is not 0"),
        (with_changed(scale="[1]"), "scale is a list"),
        (with_changed(scale='"1/√d"'), "scale is '1/.u221ad'"),
        ("[" * 50_000, "nested too deeply|not JSON"),
        ('{"Q": ' + "[" * 50_000 + "]" * 50_000 + "}", "nested too deeply|characters"),
        (" " * 200_000 + "{}", "200002 characters: expected at most 100000"),
        (with_changed(Q=f'[[1, "{"1" * 90_000}x"]]'), "at most 9 digits"),
        (with_changed(Q=f'[[1, "{"1" * 90_000}/"]]'), "at most 9 digits"),
        (with_changed(Q=f"[[1, {'1' * 90_000}e12345]]"), "at most 9 digits"),
        (with_changed(Q=f'[[1, "{" " * 90_000}x"]]'), "is 'x': expected a number"),
        (with_changed(Q='[[1, "\\ud800"]]'), r"is '\\ud800': expected a number"),
        (with_changed(Q='[[1, "\\u0000"]]'), r"is '\\x00': expected a number"),
        (with_changed(Q='[[1, "\\u001b[31m"]]'), r"is '\\x1b.31m': expected a number"),
        (with_changed(Q='[[1, "2\\n"]]') + "\0", "not JSON"),
        ('{"\\ud800": 1}', r"unknown key '\\ud800': expected Q"),
        ('{"\\ud800": 1, "\\ud800": 2}', r"'\\ud800' is given twice"),
        ("{" + ", ".join(f'"k{k}": [[1]]' for k in range(6_000)) + "}", "unknown key 'k0'"),
        ("\ufeff{}", "not JSON.*BOM"),
        (with_changed(Q='{"a":' * 30_000), "nested too deeply|not JSON|characters"),
    ],
)
def test_bad_inputs_are_refused_quickly_and_say_what_to_do(given: str, complaint: str) -> None:
    start = time.perf_counter()
    with pytest.raises(DocumentError, match=complaint) as caught:
        parse_inputs(given)
    assert time.perf_counter() - start < 2
    assert len(str(caught.value)) < 400
    assert "expected" in str(caught.value)


def test_no_string_is_evaluated(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    payload = f"__import__('pathlib').Path('{mark}').write_text('x')"
    with pytest.raises(DocumentError):
        parse_inputs(with_changed(Q=f'[[1, "{payload}"]]'))
    with pytest.raises(DocumentError):
        worked_example({"Q": [[payload]], "K": [[1]], "V": [[1]]})  # type: ignore[list-item]
    with pytest.raises(DocumentError):
        worked_example(program=payload)
    assert not mark.exists()


def test_numbers_keep_the_value_of_their_literal() -> None:
    given = parse_inputs('{"Q": [[0.1, 1e-3, -2.50, "1/3", " 7 ", 3]], "K": [[1,1,1,1,1,1]], "V": [[1]], "scale": 0.3}')
    assert given.matrices["Q"] == [[Fraction(1, 10), Fraction(1, 1000), Fraction(-5, 2), Fraction(1, 3), 7, 3]]
    assert given.scale == Fraction(3, 10)
    assert "G" not in given.matrices


@pytest.mark.parametrize(
    ("matrices", "complaint"),
    [
        ({"Q": [[0.1]], "K": [[1]], "V": [[1]]}, "of type float: expected.*floats are not exact"),
        ({"Q": [[True]], "K": [[1]], "V": [[1]]}, "true or false"),
        ({"Q": [[1]], "K": [[1]], "V": [[1]], "mask": [[1]]}, "unknown matrix 'mask'"),
        ({"Q": [[10**5000]], "K": [[1]], "V": [[1]]}, "at most 9 digits"),
        ({"Q": 1, "K": [[1]], "V": [[1]]}, "Q is of type int"),
    ],
)
def test_matrices_from_python_are_checked_too(matrices: dict, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint):
        worked_example(matrices)


def test_the_default_gradient_has_no_constant_row_or_column() -> None:
    for n, width in ((2, 2), (3, 4), (8, 16)):
        rows = default_cotangent(n, width)
        assert all(len(set(row)) > 1 for row in rows)
        assert all(len(set(column)) > 1 for column in zip(*rows, strict=True))


# Whatever is within the limits works, in seconds.

NINE = 10**9 - 1


def fractions_of(rows: int, columns: int, kind: str) -> list[list[Fraction]]:
    """Numbers of nine digits, all different: as large as they may be, as small, or with as many digits."""
    made = {"large": (NINE, 1), "small": (1, NINE), "long": (NINE, NINE - 10**8)}[kind]
    numbers = [Fraction((-1) ** k * (made[0] - k * (made[0] > 1)), made[1] - k * (made[1] > 1)) for k in range(1024)]
    return [[numbers[(columns * q + c) * 7 % 1024] for c in range(columns)] for q in range(rows)]


@pytest.mark.parametrize("kind", ["large", "small", "long"])
@pytest.mark.parametrize(("queries", "keys", "notation"), [(64, 1, "row"), (8, 8, "column")])
def test_the_most_numbers_with_the_most_digits_make_a_page(queries: int, keys: int, notation: str, kind: str) -> None:
    """Sums of many fractions have thousands of digits, and products of many integers lose dozens: both are held."""
    shapes = {"Q": (queries, 16), "K": (keys, 16), "V": (keys, 16), "G": (queries, 16)}
    matrices = {name: fractions_of(*shape, kind) for name, shape in shapes.items()}
    scale = Fraction(NINE) if kind == "large" else None
    start = time.perf_counter()
    page = worked_example(matrices, notation, scale=scale)  # type: ignore[arg-type]
    assert len(to_html(page)) > len(to_markdown(page)) > 10_000
    assert time.perf_counter() - start < 60
