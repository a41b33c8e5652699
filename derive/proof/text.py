"""From the terms that the checker reads to text that people read: ``Σ_j A[i,j] V[j,v]``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from derive.printers.style import superscript

Term = Any

SUM, PRODUCT, POWER, ATOM = range(4)

_RELATIONS = {"<=": "≤", "<": "<", "==": "="}
_GREEK = {"tau": "τ", "lambda": "λ", "alpha": "α", "eps": "ε", "theta": "θ"}


def written(term: Term) -> str:
    """A term as people write it: ``Σ_j A[i,j] V[j,v]``."""
    return _written(term)[0]


def _written(term: Term) -> tuple[str, int]:
    if isinstance(term, (int, str)):
        text = str(term)
        return text, ATOM if text.isdecimal() else SUM if text.startswith("-") else PRODUCT
    head, *args = term
    if head in ("var", "size", "int", "real"):
        return _GREEK.get(args[0], args[0]), ATOM
    if head == "at":
        return f"{args[0]}[{','.join(map(written, args[1:]))}]" if args[1:] else args[0], ATOM
    if head == "delta":
        return f"δ[{written(args[0])},{written(args[1])}]", ATOM
    if head == "if":
        relation, left, right = args[0]
        return f"[{written(left)} {_RELATIONS[relation]} {written(right)}]", ATOM
    if head == "sum":
        names = [x for x, _ in args[0]]
        joined = "" if all(len(x.rstrip("′″")) == 1 for x in names) else ","
        return f"Σ_{joined.join(names)} {_inside(args[1], PRODUCT)}", PRODUCT
    if head == "d":
        return f"∂{_inside(args[0], ATOM)}/∂{_inside(args[1], ATOM)}", ATOM
    if head == "+":
        return _sum(args), SUM
    if head == "*":
        return _product(args), PRODUCT
    if head == "^":
        return _power(args[0], Fraction(args[1]))
    return f"{head}({', '.join(map(written, args))})", ATOM


def _inside(term: Term, strength: int) -> str:
    text, own = _written(term)
    return text if own >= strength else f"({text})"


def _sum(args: Sequence[Term]) -> str:
    if not args:
        return "0"
    signed = sorted((_signed(a) for a in args), key=lambda part: part[0] == "−")  # a sum does not begin with a minus
    texts = [f" {sign} {_inside(part, PRODUCT)}" for sign, part in signed]
    first = texts[0].removeprefix(" + ")
    return (f"−{first[3:]}" if first.startswith(" − ") else first) + "".join(texts[1:])


def _signed(term: Term) -> tuple[str, Term]:
    """A summand without its sign."""
    if isinstance(term, (int, str)) and str(term).startswith("-"):
        return "−", str(term)[1:]
    if isinstance(term, list) and term[0] == "*" and len(term) > 2:
        number, *rest = term[1:]
        if isinstance(number, (int, str)) and str(number).startswith("-"):
            positive = [] if str(number) == "-1" else [str(number)[1:]]
            return "−", ["*", *positive, *rest] if len(positive) + len(rest) > 1 else rest[0]
    return "+", term


def _product(args: Sequence[Term]) -> str:
    if not args:
        return "1"
    sign, whole = _signed(["*", *args])
    if sign == "−":
        return f"−{_inside(whole, PRODUCT)}"
    below = [a for a in args if isinstance(a, list) and a[0] == "^" and Fraction(a[2]) < 0]
    above = sorted((a for a in args if a not in below), key=_place)
    texts = [_inside(a, PRODUCT if k == len(above) - 1 and not below else POWER) for k, a in enumerate(above)]
    top = " ".join(f"({t})" if k and t.startswith("−") else t for k, t in enumerate(texts))  # no difference
    if not below:
        return top
    divided = [["^", a[1], str(-Fraction(a[2]))] for a in below]
    bottom = _inside(divided[0], POWER) if len(divided) == 1 else f"({' '.join(_inside(d, POWER) for d in divided)})"
    return f"{top or 1}/{bottom}"


def _place(factor: Term) -> int:
    """Where a factor stands in its product: numbers first, and last a sum, which reaches to the end."""
    order = ("size", "real", "int", "var", "^", "if", "delta", "at")
    if not isinstance(factor, list):
        return -1
    return {"+": len(order) + 1, "sum": len(order) + 2}.get(
        factor[0], order.index(factor[0]) if factor[0] in order else len(order)
    )


def _power(base: Term, exponent: Fraction) -> tuple[str, int]:
    if exponent == 1:
        return _written(base)
    if exponent == Fraction(1, 2):
        return f"√{_inside(base, ATOM)}", POWER
    if exponent < 0:
        return f"1/{_inside(['^', base, str(-exponent)], POWER)}", PRODUCT
    if exponent.denominator == 1:
        return f"{_inside(base, ATOM)}{superscript(int(exponent))}", POWER
    return f"{_inside(base, ATOM)}^({exponent})", POWER
