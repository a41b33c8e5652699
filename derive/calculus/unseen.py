"""Rows that see nothing: where all terms of a sum are hidden, so may be those of what it is divided by.

The chain rule sums Σ_k g(i,k) x(i,k)/z(i), term by term, and a term that a 0/1 factor g hides is 0 whatever z is. With
z before the sum, a row of which nothing is seen would be 0/0 where z is itself a sum of what is seen. A factor
[Σ_k g(i,k) > 0] beside such a quotient keeps the row what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import permutations

import sympy as sp

from derive.algebra import Entry, Indicator, Tensor, Total, free_axes
from derive.algebra.binders import rewrite
from derive.algebra.tensors import is_gate
from derive.forward.program import Definition

Definitions = Mapping[Tensor, Definition]


def guarded(value: sp.Expr, definitions: Definitions) -> sp.Expr:
    """A value with a factor beside every sum of hidden terms over what may be 0 where all of them are hidden."""
    return rewrite(value, partial(_guarded, definitions))


def _guarded(definitions: Definitions, node: sp.Expr) -> sp.Expr:
    if not isinstance(node, sp.Mul):
        return node
    divisors = [f.base for f in node.args if isinstance(f, sp.Pow) and f.exp.is_negative]
    counts = dict.fromkeys(count for divisor in divisors for count in _emptied(divisor, definitions))
    seen = [
        count
        for count in counts
        if not _cover(_gates(node, {}), count) and _vanishes(node, count, definitions)  # its own gates do as well
    ]
    return sp.Mul(*(Indicator(count > 0) for count in seen), node)


def _emptied(divisor: sp.Expr, definitions: Definitions) -> Iterator[Total]:
    """How many terms are seen of the sums that a divisor is a multiple of."""
    if isinstance(divisor, Total):
        body, axes = divisor.open()
        gates = [gate for gate in _gates(body, definitions) if free_axes(gate) & set(axes)]
        counted = Total(sp.Mul(*gates), *(a for a in axes if any(a in free_axes(g) for g in gates)))
        yield from (count for count in sp.Mul.make_args(counted) if isinstance(count, Total))
    elif isinstance(divisor, sp.Mul) or (isinstance(divisor, sp.Pow) and divisor.exp.is_positive):
        for part in divisor.args:
            yield from _emptied(part, definitions)
    elif isinstance(divisor, Entry) and divisor.base in definitions:
        yield from _emptied(definitions[divisor.base].at(*divisor.indices), definitions)


def _vanishes(value: sp.Expr, count: Total, definitions: Definitions, around: tuple[sp.Expr, ...] = ()) -> bool:
    """Whether all terms of a value are hidden where none is counted."""
    if isinstance(value, sp.Add):
        return all(_vanishes(term, count, definitions, around) for term in value.args)
    gates = (*around, *_gates(value, definitions))
    if _cover(gates, count):
        return True
    inner = (
        f.open()[0] if isinstance(f, Total) else f for f in sp.Mul.make_args(value) if isinstance(f, (Total, sp.Add))
    )
    return any(_vanishes(part, count, definitions, gates) for part in inner)


def _cover(gates: Collection[sp.Expr], count: Total) -> bool:
    """Whether one of some 0/1 factors is 0 where none is counted: they are those that are counted, at any place."""
    counted, over = count.open()
    asked = sp.Mul.make_args(counted)
    places = sorted({axis for gate in gates for axis in free_axes(gate)}, key=str)
    renamed = (dict(zip(over, chosen, strict=True)) for chosen in permutations(places, len(over)))
    return Indicator(count > 0) in gates or any({g.xreplace(names) for g in asked} <= {*gates} for names in renamed)


def _gates(product: sp.Expr, definitions: Definitions) -> tuple[sp.Expr, ...]:
    """The 0/1 factors of a product, and those of the definitions that it multiplies."""
    found: list[sp.Expr] = []
    for factor in sp.Mul.make_args(product):
        if is_gate(factor):
            found.append(factor)
        elif isinstance(factor, Entry) and factor.base in definitions:
            found += _gates(definitions[factor.base].at(*factor.indices), definitions)
    return tuple(found)
