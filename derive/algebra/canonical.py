"""Canonical form: expressions that differ only in bound names, order or distribution become one object."""

from __future__ import annotations

import sympy as sp

from derive.algebra.binders import Binder, Total
from derive.algebra.terms import Term, from_terms, merge, terms_of
from derive.memory import remembered


@remembered
def canonical(expr: sp.Expr) -> sp.Expr:
    """The sum of products with contracted deltas and canonical bound names, inside functions too.

    Idempotent: passes are repeated until one changes nothing, and each distributes a product, contracts a
    delta or lets SymPy evaluate a function of something simpler.
    """
    expr = sp.sympify(expr)
    while (simpler := _pass(expr)) != expr:
        expr = simpler
    return expr


def _pass(expr: sp.Expr) -> sp.Expr:
    return from_terms(Term(t.coefficient, _inner(t), t.bound) for t in terms_of(expr))


def _inner(term: Term) -> dict[sp.Expr, sp.Expr]:
    """Canonical factors; several sums that divide are multiplied out into one: 1/((a+1)(b+1)) is 1/(ab+a+b+1)."""
    powers = {_canonical_arguments(base): power for base, power in term.powers.items()}
    divisors = {b: p for b, p in powers.items() if isinstance(b, sp.Add) and p.is_Integer and p < 0}
    if len(divisors) > 1:
        product = canonical(sp.Mul(*(base**-power for base, power in divisors.items())))
        powers = {b: p for b, p in powers.items() if b not in divisors}
        powers = merge(powers, {product: sp.Integer(-1)})
    return powers


def _canonical_arguments(expr: sp.Expr) -> sp.Expr:
    if isinstance(expr, (sp.Indexed, sp.Symbol)) or expr.is_number:
        return expr
    if isinstance(expr, Total):
        return _pass(expr)
    if isinstance(expr, Binder):
        body, axes = expr.open()
        return expr.func(canonical(body), *axes)
    if isinstance(expr, sp.Add):
        return canonical(expr)
    args = [canonical(arg) if isinstance(arg, sp.Expr) else arg for arg in expr.args]
    return expr.func(*args)


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether two expressions have one canonical form. ``False`` means *not shown equal*."""
    return bool(canonical(left - right) == 0)
