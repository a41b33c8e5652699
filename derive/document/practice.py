"""Questions, with answers that the derivation and the interpreter give."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sympy as sp

from derive.algebra import Total
from derive.calculus import backward
from derive.document import values
from derive.document.example import Example
from derive.document.model import Question, Section, paragraph, words
from derive.document.run import cut
from derive.document.values import Values
from derive.forward import program
from derive.proof import Symbolic, interpret

POSITIONS, WIDTH = 1024, 64
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def practice(example: Example) -> Section:
    """Five questions; each answer is computed where it is written."""
    questions = (_cost(example), _values(example), _one_row(example), _causal(example), _spread(example))
    return Section("Practice", questions)


def _question(ask: str, *answer: str) -> Question:
    return Question(words(ask), tuple(map(paragraph, answer)))


def _cost(example: Example) -> Question:
    """Counted from the definition of the scores: its axes, and the axis that it sums over."""
    S = example.definition("S")
    (total,) = S.value.atoms(Total)
    n, m, d = (axis.size for axis in (*S.axes, *total.axes))
    sizes = {n: POSITIONS, m: POSITIONS, d: WIDTH}
    return _question(
        f"A layer attends over ${n} = {m} = {POSITIONS}$ positions with ${d} = {WIDTH}$. How many scores are there, "
        "and how many multiply-adds do they take?",
        f"${n} {m} = {_grouped((n * m).subs(sizes))}$ scores, and ${n} {m} {d} = {_grouped((n * m * d).subs(sizes))}$ "
        "multiply-adds.",
    )


def _values(example: Example) -> Question:
    A, G = [[HALF, HALF], [QUARTER, 3 * QUARTER]], [[2, 0], [0, 4]]
    dV = _run(example, ("A", "dO"), "dV", {"A": A, "dO": G})
    has = f"has the {example.row}s"
    return _question(
        f"${example.name('A')}$ {has} {_and(A)}, and ${example.name('dO')}$ {has} {_and(G)}. "
        f"Find ${example.name('dV')}$.",
        f"${example.value(example.definition('dV'))}$ {has} {_and(dV)}.",
    )


def _one_row(example: Example) -> Question:
    weights, arriving = [HALF, QUARTER, QUARTER], [2, 0, 4]
    given = {"A": [weights], "dA": [arriving]}
    row, average = (_run(example, ("A", "dA"), name, given)[0] for name in ("dS", "r"))
    A, dA, dS, r = (example.name(t) for t in ("A", "dA", "dS", "r"))
    return _question(
        f"A {example.row} of ${A}$ is ${_listed(weights)}$, and the same {example.row} of ${dA}$ is "
        f"${_listed(arriving)}$. What is that {example.row} of ${dS}$?",
        f"Its entry of ${r}$ is ${values.decimal(average)}$, and the {example.row} is ${values.row(row)}$.",
    )


def _causal(example: Example) -> Question:
    """Causal attention, run on letters: what comes out holds for all numbers."""
    derivation = backward(program("causal_attention").plain())
    letters = {name: [[sp.Symbol(f"{name}{k}", real=True)] for k in range(3)] for name in ("Q", "K", "V", "dO")}
    inputs = {i.name: letters[i.name] for i in derivation.forward.inputs}
    forward = interpret(derivation.forward, inputs, arithmetic=Symbolic())
    known = {**letters, **forward}
    given = {i.name: known[i.name] for i in derivation.derived.inputs}
    gradient = interpret(derivation.derived, given, arithmetic=Symbolic())
    A, dS, dA, r = (example.name(t) for t in ("A", "dS", "dA", "r"))
    weights, scores = (values.tuple_of(list(map(sp.latex, rows[0]))) for rows in (forward["A"], gradient["dS"]))
    return _question(
        f"Under a causal mask the first query sees the first key and no other. What are its {example.row} of ${A}$ and "
        f"its {example.row} of ${dS}$?",
        f"With three keys, ${weights}$ and ${scores}$; more keys add zeros. All the weight goes to the first key, for "
        f"any score, so ${r}$ is that key's entry of ${dA}$, and their difference is 0. The derivation of causal "
        "attention, run on letters, says so for every input.",
    )


def _spread(example: Example) -> Question:
    """The variance of a sum of independent products of unit variance is their number; a factor counts squared."""
    S = program("attention").plain().definition("S")
    (total,) = S.value.atoms(Total)
    terms = total.axes[0].size
    scale = next(p for p in example.forward.parameters if p.name == "scale")
    scaled = sp.sqrt(sp.simplify(scale.default**2 * terms))
    plain = sp.sqrt(terms).subs(terms, WIDTH)
    default = example.writer.style.quotient("1", example.writer.style.root(str(terms)))
    return _question(
        f"Fill a query and a key of width ${terms} = {WIDTH}$ with independent numbers of mean 0 and variance 1. What "
        "is the standard deviation of their product, and what that of the score?",
        f"The product sums ${terms} = {WIDTH}$ independent terms of variance 1, so its standard deviation is "
        f"${sp.latex(sp.sqrt(terms))} = {plain}$. Times ${default}$ it is ${scaled}$, whatever the width.",
    )


def _run(example: Example, given: tuple[str, ...], wanted: str, inputs: Mapping[str, Any]) -> Any:
    return interpret(cut(example.backward, given, wanted), inputs, arithmetic=Values())[wanted]


def _and(rows: Any) -> str:
    return " and ".join(f"${_listed(row)}$" for row in rows)


def _listed(row: Any) -> str:
    numbers = Values()
    return values.row([numbers.number(x) for x in row])


def _grouped(number: sp.Expr) -> str:
    return f"{int(number):,}".replace(",", "{,}")
