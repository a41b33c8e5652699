"""The prover: identities for all sizes, by canonical form and a few named axioms.

A proof unfolds definitions, distributes products over sums, contracts deltas, applies axioms until none
applies, and closes the result into canonical form. An identity is *proved* when the difference of its two
sides becomes 0. Otherwise a counterexample at small sizes makes it *refuted*; where none is found it is *open*,
with the canonical forms of both sides. Nothing is ever proved by sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import sympy as sp

from derive.algebra import Delta, Entry, Indicator, Tensor, Term, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.algebra.functions import QuarterTurn
from derive.algebra.terms import merge
from derive.forward.program import Definition, unfolded
from derive.proof.refuter import Counterexample, refute


@dataclass(frozen=True)
class Axiom:
    """A named rewriting of one term into another, or into several; it returns the same term where it does not apply."""

    name: str
    apply: Callable[[Term], Term | tuple[Term, ...]]


@dataclass(frozen=True)
class Identity:
    """A statement ``left = right`` for all sizes.

    unfold: the definitions that the proof may use; axioms: what it may assume of tensors that stay folded;
    premises: when it holds, in words; relied_on: who uses it; definitions: what every tensor in it stands for, in
    order, for counterexamples; all_visible: whether hidden keys are outside of its premises; refutable: whether all
    premises hold at random points, so that a counterexample is one.
    """

    name: str
    statement: str
    left: sp.Expr
    right: sp.Expr
    unfold: tuple[Definition, ...] = ()
    axioms: tuple[Axiom, ...] = ()
    premises: tuple[str, ...] = ()
    relied_on: str = ""
    definitions: tuple[Definition, ...] = ()
    all_visible: bool = True
    refutable: bool = True


@dataclass(frozen=True)
class Proof:
    """The outcome: ``proved``, ``refuted`` by a counterexample, or ``open``.

    rewrites: what was done to the difference of the two sides; remainder: its canonical form; left, right: those of the
    sides, where the statement is not proved.
    """

    identity: Identity
    status: Literal["proved", "refuted", "open"]
    rewrites: tuple[str, ...]
    remainder: sp.Expr = field(default=sp.S.Zero)
    counterexample: Counterexample | None = None
    left: sp.Expr = field(default=sp.S.Zero)
    right: sp.Expr = field(default=sp.S.Zero)


def prove(identity: Identity) -> Proof:
    """Try to prove an identity. It ends: every axiom removes a factor, and definitions are not recursive."""
    rewrites: list[str] = []
    remainder = _reduced(identity.left - identity.right, identity, rewrites)
    if remainder == 0:
        return Proof(identity, "proved", tuple(rewrites))
    known = identity.definitions or identity.unfold
    found = (
        refute(identity.left, identity.right, known, all_visible=identity.all_visible) if identity.refutable else None
    )
    left, right = (_reduced(side, identity, []) for side in (identity.left, identity.right))
    return Proof(identity, "refuted" if found else "open", tuple(rewrites), remainder, found, left, right)


def _reduced(difference: sp.Expr, identity: Identity, rewrites: list[str]) -> sp.Expr:
    """The canonical form of an expression, by unfolding, splitting exponentials and applying axioms."""
    for definition in reversed(identity.unfold):
        written_out = unfolded(difference, [definition])
        if written_out != difference:
            rewrites.append(f"unfold {definition.name}")
            difference = written_out
    split = rewrite(difference, split_exponential)
    if split != difference:
        rewrites.append("exp(x + y) = exp x · exp y")
    return by_axioms(split, identity.axioms, rewrites)


def split_exponential(expr: sp.Expr) -> sp.Expr:
    """A rule for rewriting: exp(x + y) = exp x · exp y."""
    if isinstance(expr, sp.exp) and isinstance(expr.args[0], sp.Add):
        return sp.Mul(*(sp.exp(part) for part in expr.args[0].args))
    return expr


def by_axioms(expr: sp.Expr, axioms: Sequence[Axiom], rewrites: list[str] | None = None) -> sp.Expr:
    """The canonical form modulo axioms; what was done is added to the rewrites."""
    rewrites = [] if rewrites is None else rewrites
    while True:
        closed = from_terms(done for term in terms_of(expr) for done in _by_axioms(term, axioms, rewrites))
        if closed == expr:
            return closed
        expr = closed


def _by_axioms(term: Term, axioms: Sequence[Axiom], rewrites: list[str]) -> list[Term]:
    """What a term becomes when axioms are applied until none applies."""
    for axiom in axioms:
        made = axiom.apply(term)
        if made is not term:
            rewrites.append(axiom.name)
            parts = made if isinstance(made, tuple) else (made,)
            return [done for part in parts for done in _by_axioms(part, axioms, rewrites)]
    return [term]


def square_is(tensor: Tensor, other: Tensor) -> Axiom:
    """N² = 1 − C², entry by entry: cosine and sine of one angle."""

    def apply(term: Term) -> Term | tuple[Term, ...]:
        for base, power in term.powers.items():
            if isinstance(base, Entry) and base.base == tensor and power == 2:
                rest = {b: p for b, p in term.powers.items() if b != base}
                squared = merge(rest, {other[base.indices]: sp.Integer(2)})
                return Term(term.coefficient, rest, term.bound), Term(-term.coefficient, squared, term.bound)
        return term

    return Axiom(f"{tensor.name}² = 1 − {other.name}²", apply)


def quarter_turns() -> Axiom:
    """A turn by a right angle: T Tᵀ = 1, T T = −1, and Σ T[s, t] f(s) f(t) = 0, because T[t, s] = −T[s, t]."""

    def apply(term: Term) -> Term:
        turns = [b for b, p in term.powers.items() if isinstance(b, QuarterTurn) and p == 1]
        for one in turns:
            rest = {b: p for b, p in term.powers.items() if b != one}
            left, right = one.args
            if {left, right} <= set(term.bound):
                swapped = Term(term.coefficient, rest, term.bound).renamed({left: right, right: left})
                if swapped.powers == rest:
                    return Term(sp.S.Zero, {}, ())
            for two in (t for t in turns if t != one):
                for axis in set(one.args) & set(two.args) & set(term.bound):
                    if term.uses(axis) == 2:
                        others = [next(a for a in t.args if a != axis) for t in (one, two)]
                        sign = 1 if one.args.index(axis) == two.args.index(axis) else -1
                        kept = {b: p for b, p in rest.items() if b != two}
                        bound = tuple(a for a in term.bound if a != axis)
                        return Term(sign * term.coefficient, merge(kept, {Delta(*others): sp.S.One}), bound)
        return term

    return Axiom("turns by right angles", apply)


def inverse_of(left: Tensor, right: Tensor) -> Axiom:
    """Σ_c B[c, e] C[c, f] = δ[e, f]: Cᵀ is the inverse of B."""

    def apply(term: Term) -> Term:
        entries = [b for b, p in term.powers.items() if isinstance(b, Entry) and p == 1]
        for one in (e for e in entries if e.base == left):
            for two in (e for e in entries if e.base == right and e.indices[0] == one.indices[0]):
                axis = one.indices[0]
                if axis in term.bound and term.uses(axis) == 2:
                    rest = {b: p for b, p in term.powers.items() if b not in (one, two)}
                    delta = {Delta(one.indices[1], two.indices[1]): sp.S.One}
                    return Term(term.coefficient, merge(rest, delta), tuple(a for a in term.bound if a != axis))
        return term

    return Axiom(f"{right.name}ᵀ is the inverse of {left.name}", apply)


def no_jump_at_zero() -> Axiom:
    """X · [x ≥ 0] = x · [x > 0], and the same of max(x, 0): where the two conditions differ, the product is 0."""

    def apply(term: Term) -> Term:
        for base, power in term.powers.items():
            condition = base.args[0] if isinstance(base, Indicator) else None
            if isinstance(condition, sp.Ge) and condition.rhs == 0:
                x = condition.lhs
                if any(term.powers.get(factor, sp.S.Zero).is_positive for factor in (x, sp.Max(x, 0))):
                    rest = {b: p for b, p in term.powers.items() if b != base}
                    return Term(term.coefficient, merge(rest, {Indicator(x > 0): power}), term.bound)
        return term

    return Axiom("x · [x ≥ 0] = x · [x > 0]", apply)


def rows_sum_to_one(tensor: Tensor) -> Axiom:
    """Σ_j A[i, j] = 1 over the last axis: a factor whose last index is summed and used nowhere else is 1."""

    def apply(term: Term) -> Term:
        for base, power in term.powers.items():
            if isinstance(base, Entry) and base.base == tensor and power == 1:
                last = base.indices[-1]
                alone = base.indices.count(last) == 1  # A[i, i] is no row
                if alone and last in term.bound and term.uses(last) == 1:
                    rest = {b: p for b, p in term.powers.items() if b != base}
                    return Term(term.coefficient, rest, tuple(a for a in term.bound if a != last))
        return term

    return Axiom(f"Σ {tensor.name} = 1 along rows", apply)


def absorbs(tensor: Tensor, visibility: Tensor) -> Axiom:
    """A · M = A: weights vanish where they are hidden."""

    def apply(term: Term) -> Term:
        for base in term.powers:
            if isinstance(base, Entry) and base.base == visibility and tensor[base.indices] in term.powers:
                rest = {b: p for b, p in term.powers.items() if b != base}
                return Term(term.coefficient, rest, term.bound)
        return term

    return Axiom(f"{tensor.name} · {visibility.name} = {tensor.name}", apply)
