"""Sums of products: the flat form in which deltas contract, definitions fold and proofs compare.

``terms_of`` opens an expression into terms *coefficient × Π factor^power, summed over bound axes*;
``from_terms`` closes it again; ``compacted`` takes out what terms of a sum share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sympy as sp

from derive.algebra.axes import Axis, free_axes
from derive.algebra.binders import Total
from derive.algebra.ranges import within
from derive.algebra.tensors import Delta

Powers = dict[sp.Expr, sp.Expr]

MANY = 32
"""From so many terms on, a product is collected before it is multiplied on."""


@dataclass(frozen=True)
class Term:
    """One product: a rational coefficient, factors with their powers, and the axes summed over."""

    coefficient: sp.Expr
    powers: Powers
    bound: tuple[Axis, ...] = ()

    def __mul__(self, other: Term) -> Term:
        """The product; the two terms' bound axes are distinct because opening makes fresh ones."""
        return Term(self.coefficient * other.coefficient, merge(self.powers, other.powers), self.bound + other.bound)

    def without(self, *factors: sp.Expr, over: Axis | None = None) -> Term:
        """The term without some of its factors, and without its sum over an axis."""
        rest = {base: power for base, power in self.powers.items() if base not in factors}
        return Term(self.coefficient, rest, tuple(a for a in self.bound if a != over))

    def times(self, powers: Powers) -> Term:
        """The term with more factors."""
        return Term(self.coefficient, merge(self.powers, powers), self.bound)

    def multiplied(self, factor: sp.Expr) -> Term:
        """The term times a product of a number and factors."""
        return self.times(powers_of(factor))._with_numbers_outside()

    def renamed(self, names: dict[Axis, sp.Expr]) -> Term:
        """The term with axes replaced throughout its factors."""
        powers: Powers = {}
        for base, power in self.powers.items():
            powers = merge(powers, powers_of((base**power).xreplace(names)))
        return Term(self.coefficient, powers, self.bound)._with_numbers_outside()

    def _with_numbers_outside(self) -> Term:
        """The term with factors that are numbers in its coefficient; nothing but 0 is left of a term that is 0."""
        numbers = {base: power for base, power in self.powers.items() if base.is_Rational and power.is_Integer}
        if not numbers:
            return self
        coefficient = sp.Mul(self.coefficient, *(base**power for base, power in numbers.items()))
        return (
            Term(coefficient, {}, ()) if coefficient == 0 else replace(self.without(*numbers), coefficient=coefficient)
        )

    @property
    def product(self) -> sp.Expr:
        """The factors multiplied out, without coefficient and sums."""
        return sp.Mul(*(base**power for base, power in self.powers.items()))

    def uses(self, axis: Axis) -> int:
        """How many factors mention an axis."""
        return sum(axis in free_axes(base**power) for base, power in self.powers.items())


def merge(left: Powers, right: Powers) -> Powers:
    """The powers of a product of two products."""
    powers = dict(left)
    for base, power in right.items():
        total = powers.get(base, sp.S.Zero) + power
        if total == 0:
            del powers[base]
        else:
            closed = base**total  # lets idempotent factors collapse: M² = M
            powers.pop(base, None)
            powers[base] = sp.S.One if closed == base else total
    return powers


def powers_of(expr: sp.Expr) -> Powers:
    """The factors of a product and their powers; an integer multiple in an exponent becomes a power of exp."""
    powers: Powers = {}
    for factor in sp.Mul.make_args(expr):
        base, power = factor.as_base_exp() if not isinstance(factor, sp.exp) else (factor, sp.S.One)
        if isinstance(factor, sp.exp):
            multiple, argument = factor.args[0].as_coeff_Mul()
            if multiple.is_Integer:
                base, power = sp.exp(argument), multiple
        powers = merge(powers, {base: power})
    return powers


def terms_of(expr: sp.Expr) -> list[Term]:
    """Open an expression into terms: products over sums distributed, sums over axes opened, deltas contracted."""
    return [contracted for term in _expand(sp.sympify(expr)) if (contracted := contract(term)).coefficient != 0]


def _expand(expr: sp.Expr) -> list[Term]:
    if isinstance(expr, sp.Add):
        return [term for part in expr.args for term in _expand(part)]
    if isinstance(expr, sp.Mul):
        product = [Term(sp.S.One, {})]
        for factor in expr.args:
            product = [left * right for left in product for right in _expand(factor)]
            if len(product) > MANY:
                product = _collected(product)
        return product
    if isinstance(expr, Total):
        body, axes = expr.open()
        return [Term(t.coefficient, t.powers, (*axes, *t.bound)) for t in _expand(body)]
    if (
        isinstance(expr, sp.Pow)
        and expr.exp.is_Integer
        and expr.exp > 1
        and isinstance(expr.base, (sp.Add, sp.Mul, Total))
    ):
        return _expand(sp.Mul(*[expr.base] * int(expr.exp), evaluate=False))
    if expr.is_Rational:
        return [Term(expr, {})]
    return [Term(sp.S.One, powers_of(expr))]


def _collected(terms: list[Term]) -> list[Term]:
    """The terms with like ones added up, those under sums left as they are: powers of sums have few that differ."""
    rest = [t for t in terms if t.bound]
    like: dict[frozenset[tuple[sp.Expr, sp.Expr]], sp.Expr] = {}
    for term in terms:
        if not term.bound:
            key = frozenset(term.powers.items())
            like[key] = like.get(key, sp.S.Zero) + term.coefficient
    return [*(Term(number, dict(key)) for key, number in like.items() if number != 0), *rest]


def contract(term: Term) -> Term:
    """Contract Kronecker deltas: Σ_a δ(a, e) f(a) = [0 ≤ e < size] f(e), and δ(a, e) f(a) = δ(a, e) f(e) for a free a.

    What is left of a term where its delta is 0 may be an entry outside of its tensor; 0/1 factors hide it. Each step
    removes a bound axis, or an axis beside its delta, so it ends.
    """
    deltas = [base for base in term.powers if isinstance(base, Delta)]
    for delta in deltas:
        for axis in term.bound:
            place = solved(delta, axis)
            if place is not None:
                rest = term.without(delta, over=axis).renamed({axis: place})
                return contract(rest.multiplied(within(place, axis.size)))
    for delta in deltas:
        other, axis = delta.args if isinstance(delta.args[1], Axis) else delta.args[::-1]
        rest = term.without(delta)
        if isinstance(axis, Axis) and axis not in free_axes(other) and rest.uses(axis):
            return contract(rest.renamed({axis: other}).times({delta: sp.S.One}))
    return term


def solved(delta: Delta, axis: Axis) -> sp.Expr | None:
    """The one value of an axis at which a delta can be 1, where its difference is linear in the axis; else None."""
    left, right = delta.args
    for one, other in ((left, right), (right, left)):
        if one == axis and axis not in free_axes(other):
            return other
    if axis not in free_axes(delta):
        return None
    difference = sp.expand(left - right)
    slope = difference.coeff(axis)
    rest = sp.expand(difference - slope * axis)
    if slope not in (1, -1) or axis in free_axes(rest):
        return None  # δ(a, n − a) counts the a that are their own image, and δ(2 a, e) asks whether e is even
    return -slope * rest


def from_terms(terms: Iterable[Term]) -> sp.Expr:
    """Close terms into an expression; :class:`Total` moves independent factors out by itself."""
    return sp.Add(*(t.coefficient * Total(t.product, *t.bound) for t in terms))


def factor_common(expr: sp.Expr) -> sp.Expr:
    """Take out the factors that all terms of a sum share: A·x − A·Σ(A·x) becomes A·(x − Σ(A·x))."""
    shared, rest = _common(expr)
    return expr if shared == 1 else sp.Mul(shared, rest)


def _common(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """What all terms of a sum share, numbers aside, and the sum without it."""
    if not isinstance(expr, sp.Add):
        return sp.S.One, expr
    parts = [powers_of(term) for term in expr.args]
    shared: Powers = {}
    for base, power in parts[0].items():
        powers = [part.get(base, sp.S.Zero) for part in parts]
        if not base.is_number and all(p.is_number and p > 0 for p in powers):
            shared[base] = min(powers)
        elif not base.is_number and all(p == power for p in powers):
            shared[base] = power
    inverse = {base: -power for base, power in shared.items()}
    rest = sp.Add(*(sp.Mul(*(b**p for b, p in merge(part, inverse).items())) for part in parts))
    return Term(sp.S.One, shared).product, rest


def compacted(expr: sp.Expr) -> sp.Expr:
    """A sum with what its terms share taken out: what all share first, and what some share where that is shorter.

    A·x − A·Σ(A·x) becomes A·(x − Σ(A·x)), and y + r·x − r·m becomes y + r·(x − m).
    """
    whole = factor_common(expr)
    grouped = _grouped(whole)
    return grouped if _cost(grouped) < _cost(whole) else whole


def _grouped(expr: sp.Expr) -> sp.Expr:
    """Sums, also those inside products, with the factor that most terms share taken out of these, again and again."""
    if isinstance(expr, sp.Mul):
        return sp.Mul(*map(_grouped, expr.args))
    if not isinstance(expr, sp.Add):
        return expr
    parts = {term: powers_of(term) for term in expr.args}
    holders: dict[sp.Expr, list[sp.Expr]] = {}
    for term, powers in parts.items():
        for base, power in powers.items():
            if base.atoms(sp.Indexed):
                shared = base if power.is_positive else base**power  # of positive powers, the least is taken out
                holders.setdefault(shared, []).append(term)
    order = sorted(expr.args, key=sp.default_sort_key)
    best = max(holders.values(), key=lambda terms: (len(terms), -order.index(terms[0])), default=[])
    if len(best) < 2:
        return expr
    shared, inner = _common(sp.Add(*best))
    inner, rest = _grouped(inner), _grouped(sp.Add(*(term for term in expr.args if term not in best)))
    for sign in (1, -1):
        if sp.expand(rest - sign * inner) == 0:
            if all(term.could_extract_minus_sign() for term in sp.Add.make_args(inner)):
                return (-shared - sign) * -inner
            return (shared + sign) * inner
    return shared * inner + rest


def _cost(expr: sp.Expr) -> int:
    """How many operations on tensors an expression spells."""
    inside = sum(map(_cost, expr.args)) if not isinstance(expr, sp.Indexed) else 0
    if isinstance(expr, (sp.Add, sp.Mul)):
        numbers = [a for a in expr.args if a.is_number]
        spelled = bool(numbers) and sp.Mul(*numbers) != -1  # a sign is no operation
        return inside + len(expr.args) - len(numbers) - 1 + int(spelled)
    return inside + int(isinstance(expr, (sp.Pow, sp.Function, Total)) and not expr.is_number)
