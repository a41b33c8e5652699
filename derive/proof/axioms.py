"""What a proof may use: laws that hold of all numbers, and axioms about single tensors, each named and stated.

A *law* rewrites expressions, wherever they stand; an *axiom* rewrites one term of a sum of products. The algebra
itself adds what it keeps canonical: sums distribute, deltas contract, M² = M, bound axes have no names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp
from sympy.core.relational import GreaterThan

from derive.algebra import Axis, Delta, Entry, Indicator, Tensor, Term, Total, canonical, factor_common
from derive.algebra.functions import QuarterTurn
from derive.algebra.ranges import decided, within
from derive.algebra.tensors import is_gate
from derive.algebra.terms import merge


@dataclass(frozen=True)
class Law:
    """A rewriting that holds of all numbers; it returns the same expression where it does not apply.

    about: the kinds of expressions that it rewrites, so that it is tried only where one occurs.
    """

    name: str
    statement: str
    rule: Callable[[sp.Expr], sp.Expr]
    about: tuple[type[sp.Basic], ...]


@dataclass(frozen=True)
class Axiom:
    """A rewriting of one term into another, or into several; it returns the same term where it does not apply.

    Every axiom takes factors away, or puts simpler ones in their place, so that applying axioms ends.
    tensor: what it is assumed of, if of a tensor; expectation: whether it holds only when the expectation over that
    tensor is taken. It is then no equation between values, and may not be used inside functions and divisors, nor after
    multiplying by what holds the tensor.
    """

    name: str
    statement: str
    apply: Callable[[Term], Term | tuple[Term, ...]]
    tensor: Tensor | None = None
    expectation: bool = False


def _shown(expr: sp.Expr) -> sp.Expr:
    if not isinstance(expr, sp.Mul):
        return expr
    gates = [f for f in expr.args if is_gate(f) and not isinstance(f, Delta)]
    others = [f for f in expr.args if f not in gates]
    seen = [f.xreplace(dict.fromkeys(gates, sp.S.One)) for f in others] if gates else others
    return expr if seen == others else sp.Mul(*gates, *seen)


def _exponentials(expr: sp.Expr) -> sp.Expr:
    if not isinstance(expr, sp.exp):
        return expr
    exponent = sp.expand(expr.args[0], deep=False)
    return sp.Mul(*map(sp.exp, exponent.args)) if isinstance(exponent, sp.Add) else expr


def _angles(expr: sp.Expr) -> sp.Expr:
    if not isinstance(expr, (sp.cos, sp.sin)):
        return expr
    angle = sp.expand(expr.args[0])
    if not isinstance(angle, sp.Add):
        return expr
    x, y = angle.as_two_terms()
    cos_x, sin_x, cos_y, sin_y = (_angles(f(part)) for part in (x, y) for f in (sp.cos, sp.sin))
    return cos_x * cos_y - sin_x * sin_y if isinstance(expr, sp.cos) else sin_x * cos_y + cos_x * sin_y


def _roots(expr: sp.Expr) -> sp.Expr:
    if not (isinstance(expr, sp.Pow) and expr.exp.is_Rational and not expr.exp.is_Integer and not expr.base.is_number):
        return expr
    factors = sp.Mul.make_args(factor_common(canonical(expr.base)))
    positive = [f for f in factors if f.is_positive and not f.is_number]
    rest = sp.Mul(*(f for f in factors if f not in positive))
    return sp.Mul(*(f**expr.exp for f in positive), rest**expr.exp) if positive else expr


def _positions(expr: sp.Expr) -> sp.Expr:
    """What the range of indices decides.

    Of comparisons ``0 ≤ d`` of positions and sizes, the least and the largest d; of a delta whose other index is
    computed, that it is 0 where the index lies outside.
    """
    if isinstance(expr, Delta):
        for axis, other in (expr.args, expr.args[::-1]):
            if isinstance(axis, Axis) and not isinstance(other, Axis):
                return expr * within(other, axis.size)
        return expr
    return decided(expr.args[0]) if isinstance(expr, Indicator) else expr


LAWS = (
    Law("positions", "an index is at least 0 and below its size", _positions, (Indicator, Delta)),
    Law("exponentials", "exp(x + y) = exp x · exp y", _exponentials, (sp.exp,)),
    Law(
        "angles",
        "cos(x + y) = cos x cos y − sin x sin y; sin(x + y) = sin x cos y + cos x sin y",
        _angles,
        (sp.cos, sp.sin),
    ),
    Law("roots", "(c x)^p = c^p x^p for c > 0", _roots, (sp.Pow,)),
    Law("visibility", "M · f(M) = M · f(1), as M is 0 or 1", _shown, (sp.Mul,)),
)
"""The laws, in the order in which they are applied."""


def _circle(term: Term) -> Term | tuple[Term, ...]:
    for base, power in term.powers.items():
        if isinstance(base, sp.sin) and power.is_Integer and power >= 2:
            return _by_squares(term, base, power, sp.cos(base.args[0]))
    return term


def _by_squares(term: Term, sine: sp.Expr, power: sp.Integer, cosine: sp.Expr) -> tuple[Term, ...]:
    """S^(2h) = (1 − C²)^h, multiplied out."""
    half = power // 2
    rest = merge(term.powers, {sine: -2 * half})
    return tuple(
        Term(term.coefficient * (-1) ** k * sp.binomial(half, k), merge(rest, {cosine: sp.Integer(2 * k)}), term.bound)
        if k
        else Term(term.coefficient, rest, term.bound)
        for k in range(half + 1)
    )


def _no_jump(term: Term) -> Term:
    for base, power in term.powers.items():
        condition = base.args[0] if isinstance(base, Indicator) else None
        if isinstance(condition, GreaterThan) and condition.rhs == 0:
            x = condition.lhs
            if any(term.powers.get(factor, sp.S.Zero).is_positive for factor in (x, sp.Max(x, 0))):
                return term.without(base).times({Indicator(x > 0): power})
    return term


ALWAYS = (
    Axiom("circle", "sin² = 1 − cos²", _circle),
    Axiom("no jump at zero", "x [x ≥ 0] = x [x > 0], and the same of max(x, 0)", _no_jump),
)
"""The axioms that every proof may use: they hold of all real numbers."""


def square_is(tensor: Tensor, other: Tensor) -> Axiom:
    """N² = 1 − C², entry by entry: cosine and sine of one angle."""

    def apply(term: Term) -> Term | tuple[Term, ...]:
        for base, power in term.powers.items():
            if isinstance(base, Entry) and base.base == tensor and power.is_Integer and power >= 2:
                return _by_squares(term, base, power, other[base.indices])
        return term

    return Axiom(f"{other.name} and {tensor.name} of one angle", f"{tensor.name}² = 1 − {other.name}²", apply, tensor)


def _turns(term: Term) -> Term:
    turns = [b for b, p in term.powers.items() if isinstance(b, QuarterTurn) and p == 1]
    for one in turns:
        rest = term.without(one)
        left, right = one.args
        if {left, right} <= set(term.bound):
            swapped = rest.renamed({left: right, right: left})
            if swapped.powers == rest.powers:
                return Term(sp.S.Zero, {}, ())
            here, there = (Total(one * x.product, *term.bound) for x in (rest, swapped))
            if sp.Basic.compare(here, there) > 0:  # of the two names of the summed pair, one is canonical
                return _negative(swapped.times({one: sp.S.One}))
        for two in (t for t in turns if t != one):
            for axis in set(one.args) & set(two.args) & set(term.bound):
                if term.uses(axis) == 2:
                    others = [next(a for a in t.args if a != axis) for t in (one, two)]
                    met = term.without(one, two, over=axis).times({Delta(*others): sp.S.One})
                    return met if one.args.index(axis) == two.args.index(axis) else _negative(met)
    return term


def _negative(term: Term) -> Term:
    return Term(-term.coefficient, term.powers, term.bound)


QUARTER_TURNS = Axiom("turns by right angles", "T Tᵀ = 1, T T = −1 and T[t,s] = −T[s,t]", _turns)
"""What the matrix of a quarter turn keeps; Σ T[s,t] f(s) f(t) = 0 follows."""


def products_sum_to_delta(left: Tensor, right: Tensor, name: str, over: int = 0) -> Axiom:
    """``Σ left[…a…] right[…a…] = δ`` of the other indices: one tensor is the transposed inverse of the other.

    The sum runs over the index in the place ``over``; where left is right, its rows are orthonormal.
    """

    def apply(term: Term) -> Term:
        entries = [b for b, p in term.powers.items() if isinstance(b, Entry) and p == 1]
        squares = [b for b, p in term.powers.items() if isinstance(b, Entry) and p == 2 and b.base == left == right]
        pairs = [(e, f) for e in entries if e.base == left for f in entries if f.base == right and f is not e]
        for one, two in (*pairs, *((s, s) for s in squares)):
            axis = one.indices[over]
            alone = all(e.indices.count(axis) == 1 for e in (one, two))  # B[a, a] is no column
            if alone and axis == two.indices[over] and axis in term.bound and term.uses(axis) == len({one, two}):
                others = zip(*(e.indices[:over] + e.indices[over + 1 :] for e in (one, two)), strict=True)
                deltas = {Delta(a, b): sp.S.One for a, b in others if a != b}
                return term.without(one, two, over=axis).times(deltas)
        return term

    places = ["b", "c"][: len(left.shape) - 1]
    one, two = (",".join([*p[:over], "a", *p[over:]]) for p in (places, [f"{x}′" for x in places]))
    deltas = " ".join(f"δ[{x},{x}′]" for x in places)
    return Axiom(name, f"Σ_a {left.name}[{one}] {right.name}[{two}] = {deltas}", apply, left)


def sums_to_one(tensor: Tensor, name: str, over: int = -1) -> Axiom:
    """``Σ tensor = 1`` over one index: a factor whose index there is summed and used nowhere else is 1."""

    def apply(term: Term) -> Term:
        for base, power in term.powers.items():
            if isinstance(base, Entry) and base.base == tensor and power == 1:
                axis = base.indices[over]
                alone = base.indices.count(axis) == 1  # A[i, i] is no row
                if alone and axis in term.bound and term.uses(axis) == 1:
                    return term.without(base, over=axis)
        return term

    return Axiom(name, f"Σ {tensor.name} = 1 over its {'last' if over == -1 else 'first'} index", apply, tensor)


def rows_sum_to_one(tensor: Tensor) -> Axiom:
    """Σ_j A[i, j] = 1: proved of every softmax, and then used of its name."""
    return sums_to_one(tensor, f"rows of {tensor.name}")


def expected(tensor: Tensor) -> Axiom:
    """E X[c] X[e] = δ[c, e]: coordinates that are independent, of mean 0 and variance 1.

    Only for terms that hold nothing else of X than two entries: an expectation is linear.
    """

    def apply(term: Term) -> Term:
        mine = {b: p for b, p in term.powers.items() if isinstance(b, Entry) and b.base == tensor}
        if sum(mine.values()) != 2 or not all(p.is_positive for p in mine.values()):
            return term
        rest = term.without(*mine)
        if any(tensor in {e.base for e in b.atoms(Entry)} for b in rest.powers):
            return term
        if len(mine) == 1:
            return rest
        one, two = mine
        return rest.times({Delta(one.indices[0], two.indices[0]): sp.S.One})

    statement = f"E {tensor.name}[c] {tensor.name}[e] = δ[c,e]"
    return Axiom(f"moments of {tensor.name}", statement, apply, tensor, expectation=True)
