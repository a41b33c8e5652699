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

from derive.algebra import Entry, Tensor, Term, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.forward.program import Definition
from derive.proof.refuter import Counterexample, refute


@dataclass(frozen=True)
class Axiom:
    """A named rewriting of one term; it returns the same term where it does not apply."""

    name: str
    apply: Callable[[Term], Term]


@dataclass(frozen=True)
class Identity:
    """A statement ``left = right`` for all sizes.

    unfold: the definitions that the proof may use; axioms: what it may assume of tensors that stay folded;
    premises: when it holds, in words; relied_on: who uses it; definitions: what every tensor in it stands for, in
    order, for counterexamples; all_visible: whether hidden keys are outside of its premises.
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
    found = refute(
        identity.left, identity.right, identity.definitions or identity.unfold, all_visible=identity.all_visible
    )
    left, right = (_reduced(side, identity, []) for side in (identity.left, identity.right))
    return Proof(identity, "refuted" if found else "open", tuple(rewrites), remainder, found, left, right)


def _reduced(difference: sp.Expr, identity: Identity, rewrites: list[str]) -> sp.Expr:
    """The canonical form of an expression, by unfolding, splitting exponentials and applying axioms."""
    for definition in reversed(identity.unfold):
        unfolded = _unfold(difference, definition)
        if unfolded != difference:
            rewrites.append(f"unfold {definition.name}")
            difference = unfolded
    split = rewrite(difference, _split_exponential)
    if split != difference:
        rewrites.append("exp(x + y) = exp x · exp y")
    return _normal(split, identity.axioms, rewrites)


def _unfold(expr: sp.Expr, definition: Definition) -> sp.Expr:
    tensor = definition.target.tensor
    return rewrite(expr, lambda e: definition.at(*e.indices) if isinstance(e, Entry) and e.base == tensor else e)


def _split_exponential(expr: sp.Expr) -> sp.Expr:
    if isinstance(expr, sp.exp) and isinstance(expr.args[0], sp.Add):
        return sp.Mul(*(sp.exp(part) for part in expr.args[0].args))
    return expr


def _normal(expr: sp.Expr, axioms: Sequence[Axiom], rewrites: list[str]) -> sp.Expr:
    """The canonical form modulo axioms."""
    while True:
        terms = []
        for term in terms_of(expr):
            for axiom in axioms:
                while (simpler := axiom.apply(term)) is not term:
                    rewrites.append(axiom.name)
                    term = simpler
            terms.append(term)
        closed = from_terms(terms)
        if closed == expr:
            return closed
        expr = closed


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
