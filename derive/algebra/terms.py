"""Sums of products: the flat form in which deltas contract, definitions fold and proofs compare.

``terms_of`` opens an expression into terms *coefficient × Π factor^power, summed over bound axes*;
``from_terms`` closes it again; ``compacted`` takes out what terms of a sum share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from derive.algebra.axes import Axis, free_axes
from derive.algebra.binders import Total
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

    def renamed(self, names: dict[Axis, sp.Expr]) -> Term:
        """The term with axes replaced throughout its factors."""
        powers: Powers = {}
        for base, power in self.powers.items():
            powers = merge(powers, powers_of((base**power).xreplace(names)))
        number = powers.pop(sp.S.One, sp.S.One)
        return Term(self.coefficient * number, powers, self.bound)

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
    """Contract Kronecker deltas: Σ_a δ(a, b) f(a) = f(b), and δ(a, b) f(a) = δ(a, b) f(b) for free a, b.

    Each step removes a bound axis, or one mention of an axis beside its delta, so it ends.
    """
    for base in term.powers:
        if not isinstance(base, Delta):
            continue
        left, right = base.args
        for axis, other in ((left, right), (right, left)):
            if axis in term.bound and axis not in free_axes(other):  # δ(a, n − a) counts the a that are their own image
                return contract(term.without(base, over=axis).renamed({axis: other}))
        rest = term.without(base)
        if right not in free_axes(left) and rest.uses(right):
            return contract(rest.renamed({right: left}).times({base: sp.S.One}))
    return term


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
