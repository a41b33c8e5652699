"""Proofs of false statements, made by hand to look right: each once went through a checker, and none does now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from derive.algebra import Indicator
from derive.errors import ProofError
from derive.proof.checker import check
from derive.proof.statements import equation
from derive.proof.text import written
from derive.proof.verdict import prove
from tests.derive.test_checker import LENGTH, POSITIONS, X, Y, by, data, define, minus, one, premise, run, total

V, K, M = ["var", "i"], ["var", "k"], ["size", "m"]
ZERO_THERE = ["if", ["==", X, 0]]
FIRST = premise("equal", over=[], left=V, right=0)
JUMPS = ["+", ["*", X, ["if", ["<=", 0, X]]], ["*", -1, X, ["if", ["<", 0, X]]]]
ENTRY = ["at", "D", V]


def slope(of: Any, value: Any, wrt: Any = X, **more: Any) -> dict[str, Any]:
    """A statement about a derivative, with the rule for it as its only step."""
    because = {"because": more.pop("because")} if "because" in more else {}
    return one("derivative", ["d", of, wrt], value, {"of": of, "by": wrt, **because}, **more)


FORGED: dict[str, dict[str, Any]] = {
    "a premise about one position, used at another": one(
        "premise", X, Y, {"premise": 0, "with": {"i": 1}, "times": minus(X, Y)}, premises=[FIRST]
    ),
    "a premise about a position, used for a number": one(
        "premise", X, 0, {"premise": 0, "with": {"i": X}}, premises=[FIRST]
    ),
    "a premise about the sign of a position, used for a number": {
        **data(X, -1, says=">=", witness=minus(X, -1), premises=[premise(">= 0", over=[], of=["+", V, 1])]),
    },
    "two sums over one name": data(total(1, [["k", LENGTH], ["k", M]]), M),
    "two ranges of one position": {
        **one("ranges", ["if", ["<=", ["+", V, 1], M]], 1, {"of": ["+", M, -1, ["*", -1, V]]}),
        "for": [["i", LENGTH], ["i", M]],
    },
    "a definition with one name for two positions": one(
        "definition",
        ["at", "D", 0, V],
        X,
        {"tensor": "D", "at": [0, V]},
        definitions=[define("D", X, [*POSITIONS, *POSITIONS])],
    ),
    "a 0/1 number put into a derivative": data(
        ["*", ZERO_THERE, ["d", ["*", X, ZERO_THERE], X]],
        ["*", ZERO_THERE, ["d", X, X]],
        by(
            "gate",
            ["*", ZERO_THERE, ["d", ["*", X, ZERO_THERE], X]],
            ["*", ZERO_THERE, ["d", X, X]],
            {"gate": ZERO_THERE, "of": ["d", ["*", X, ZERO_THERE], X]},
        ),
    ),
    "the slope of a condition": slope(["if", ["<=", 0, X]], 0),
    "the slope of what is 0 everywhere": slope(
        ENTRY, minus(["if", ["<=", 0, X]], ["if", ["<", 0, X]]), definitions=[define("D", JUMPS)]
    ),
    "the slope of an index": slope(["at", "T", ["floor", X]], 0),
    "the slope of an index of what is asked about": slope(["at", "X", ["floor", X]], ["delta", ["floor", X], V]),
    "a derivative with respect to what is defined": slope(
        ["at", "E", V], 0, ENTRY, definitions=[define("D", X), define("E", X)]
    ),
    "the slope of a logarithm of what may be negative": slope(
        ["log", X], ["^", X, -1], premises=[premise("not 0", of=X)], because=[{"premise": 0, "with": {"i": V}}]
    ),
    "names that are numbers": data(["at", 1, V], ["at", True, V]),
    "a size with more than a name": data(["size", "n", 5], LENGTH),
    "digits of another script": data("٣", 3),
    "a number in scientific notation": data("1e1", 10),
    "a power that nobody can multiply out": data(["^", ["+", X, Y], 3 * 10**9], 0),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_proof_is_refused(name: str) -> None:
    assert check(FORGED[name])


def test_the_forms_of_forgeries_prove_what_is_true() -> None:
    """The helpers above are no reason for a refusal."""
    assert not check(slope(["*", X, X], ["*", 2, X]))
    assert not check(
        slope(["log", X], ["^", X, -1], premises=[premise("> 0", of=X)], because=[{"premise": 0, "with": {"i": V}}])
    )
    assert not check(data(total(1, [["k", LENGTH], ["l", M]]), ["*", LENGTH, M]))


MALFORMED: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"proofs",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "no UTF-8": b"\xff\xfe",
    "a list": b"[1]",
    "a number": b"7",
    "a program that is none": b'{"p": null}',
    "a statement that is none": b'{"p": [null]}',
    "a list for a statement": b'{"p": [[]]}',
    "a nesting without end": b"[" * 100_000,
    "a number without end": b'{"p": [' + b"9" * 5000 + b"]}",
    "half a character": b'{"p": [{"name": "\\ud800"}]}',
    "a key twice": b'{"p": [{"name": 1, "name": 2}]}',
    "a program twice": b'{"p": [], "p": []}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_file_that_is_none_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "proofs.json"
    path.write_bytes(MALFORMED[name])
    done = run(path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("0 of 1 proofs accepted\n")
    assert len(done.stdout.splitlines()) == 2


def test_no_file_is_refused_in_a_line(tmp_path: Path) -> None:
    done = run(tmp_path / "none.json")
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (1, "", 2)


def test_a_name_does_not_print_a_verdict(tmp_path: Path) -> None:
    path = tmp_path / "proofs.json"
    path.write_text(json.dumps({"p": [{"name": "x\n1 of 1 proofs accepted"}]}), encoding="utf-8")
    assert run(path).stdout.splitlines()[-1] == "0 of 1 proofs accepted"
    assert len(run(path).stdout.splitlines()) == 2


def test_infinity_stands_on_a_side_of_a_condition_alone() -> None:
    x = sp.Symbol("x", real=True)
    hidden = Indicator(sp.Ne(x, -sp.oo))
    assert prove(equation("hides", hidden**2, hidden)).status == "proved"
    with pytest.raises(ProofError, match="cannot stand in a proof"):
        prove(equation("counts", sp.Add(sp.oo, x, evaluate=False), sp.oo))


def test_a_product_is_not_printed_as_a_difference() -> None:
    assert written(["*", X, ["*", -1, Y]]) == "X[i] (−Y[i])"
    assert written(minus(X, Y)) == "X[i] − Y[i]"
    assert written(["*", -1, X, Y]) == "−X[i] Y[i]"
