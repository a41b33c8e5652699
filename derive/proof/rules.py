"""The rules that proofs use, as data: what each says, and when it may be used. The checker looks at both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.proof.checker import EQUATIONS
from derive.proof.text import written


@dataclass(frozen=True)
class Rule:
    """A rule by its name in proofs: a title for people, what it puts equal, and its side conditions."""

    name: str
    title: str
    says: str
    conditions: tuple[str, ...] = ()


_SIGNS = {"not 0": "X is not 0", "> 0": "X > 0", ">= 0": "X ≥ 0"}

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "definition",
            "definition",
            "an entry is what its tensor is defined as",
            ("every index lies in its range", "no definition goes back to itself"),
        ),
        Rule(
            "premise",
            "premise",
            "what the statement assumes, at any of its own positions",
            ("every index lies in its range",),
        ),
        Rule(
            "derivative",
            "chain rule",
            "∂Y/∂X[q] is worked out: products, sums, exp, log, 1/x, and δ for entries of X",
            (
                "definitions of what stands between Y and X count, premises do not",
                "X is given, not defined",
                "what is divided by is not 0, and what is in a log is more",
                "no condition, index or other function of X is met",
            ),
        ),
        Rule(
            "gate",
            "0 or 1",
            "M f(M) = M f(1)",
            ("M is a delta, a condition, or an entry of a 0/1 tensor", "f is no derivative by what M depends on"),
        ),
        Rule(
            "delta_sum",
            "sum over a delta",
            "Σ_k δ[k,e] f(k) = [0 ≤ e] [e < size] f(e)",
            ("e is an integer", "e does not depend on k"),
        ),
        Rule(
            "delta_beside",
            "beside a delta",
            "δ[k,e] f(k) = δ[k,e] f(e)",
            ("f is no derivative by what e depends on",),
        ),
        Rule(
            "ranges",
            "ranges",
            "[0 ≤ e] is 1 where e cannot be negative, and 0 where it always is",
            ("e is an integer, linear in positions 0 … size − 1, or has a sign by a premise, a square, exp or a sum",),
        ),
        Rule(
            "inside",
            "inside",
            "f(x) = f(y) where x = y",
            ("x = y is proved in steps of its own, and not by multiplication", "f is no derivative"),
        ),
        Rule("multiply", "multiply", "x = 0 where d x = 0", ("d is not 0", "it is the whole that is multiplied")),
        *(
            Rule(name, name, f"{written(left)} = {written(right)}", (_SIGNS[needed],) if needed else ())
            for name, (left, right, needed) in EQUATIONS.items()
        ),
    )
}
"""Every rule, in the order in which they are explained."""
