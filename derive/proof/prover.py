"""The prover: identities for all sizes, by canonical form and a small ordered set of laws and axioms.

A proof unfolds the definitions that it is allowed to, rewrites by the laws of :mod:`derive.proof.axioms`, applies the
axioms term by term as long as one applies, multiplies by what divides, and closes the result into canonical form. An
identity is *proved* when the difference of its two sides becomes 0. Otherwise a counterexample at small sizes makes it
*refuted*; where none is found it is *open*, with the canonical forms of both sides. Nothing is ever proved by sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import sympy as sp

from derive.algebra import Tensor, Term, Total, free_axes, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.algebra.terms import Powers, merge
from derive.forward.program import Definition, unfolded
from derive.proof.axioms import ALWAYS, LAWS, Axiom
from derive.proof.refuter import Counterexample, refute

ROUNDS = 60
"""How often a form may be rewritten before the prover gives up; proofs of the catalogue take fewer than ten."""


@dataclass(frozen=True)
class Identity:
    """A statement ``left = right`` for all sizes.

    unfold: the definitions that the proof may use; axioms: what it may assume of tensors that stay folded;
    premises: when it holds, in words; relied_on: who uses it; definitions: what every tensor in it stands for, in
    order, for counterexamples; all_visible: whether hidden keys are outside of its premises; refutable: whether all
    premises hold at random points, so that a counterexample is one; holds: False for an equation that people may take
    for true, which is listed with its counterexample; topic: what it is about, for lists.
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
    holds: bool = True
    topic: str = ""


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
    """Prove or refute an identity, or leave it open.

    It ends: definitions are not recursive, axioms take factors away, and rounds are counted.
    """
    trace: dict[str, None] = {}
    remainder = _without_divisors(_reduced(identity.left - identity.right, identity, trace), identity.axioms, trace)
    if remainder == 0:
        return Proof(identity, "proved", tuple(trace))
    known = identity.definitions or identity.unfold
    assumed = {axiom.tensor for axiom in identity.axioms} - {d.target.base for d in known} - {None}
    found = None
    if identity.refutable and not assumed:  # a random tensor is not what is assumed of it
        found = refute(identity.left, identity.right, known, all_visible=identity.all_visible)
    left, right = (_reduced(side, identity, {}) for side in (identity.left, identity.right))
    return Proof(identity, "refuted" if found else "open", tuple(trace), remainder, found, left, right)


def vanishes(expr: sp.Expr, axioms: Sequence[Axiom] = ()) -> bool:
    """Whether an expression is 0 for all sizes, by laws and axioms: a proof in which nothing unfolds."""
    return bool(_without_divisors(_normal(_by_laws(expr, {}), (*axioms, *ALWAYS), {}), axioms, {}) == 0)


def _reduced(difference: sp.Expr, identity: Identity, trace: dict[str, None]) -> sp.Expr:
    """The canonical form of an expression, by unfolding, laws and axioms."""
    for definition in reversed(identity.unfold):
        written_out = unfolded(difference, [definition])
        if written_out != difference:
            trace[f"unfold {definition.name}"] = None
            difference = written_out
    difference = _by_laws(difference, trace)
    return _normal(difference, (*identity.axioms, *ALWAYS), trace)


def _by_laws(expr: sp.Expr, trace: dict[str, None]) -> sp.Expr:
    """The expression rewritten by every law, from the inside out."""
    laws = [law for law in LAWS if expr.has(*law.about)]

    def rule(node: sp.Expr) -> sp.Expr:
        for law in laws:
            if isinstance(node, law.about) and (rewritten := law.rule(node)) != node:
                trace[f"{law.name}: {law.statement}"] = None
                node = rewritten
        return node

    return rewrite(expr, rule)


def _normal(expr: sp.Expr, axioms: Sequence[Axiom], trace: dict[str, None]) -> sp.Expr:
    """The canonical form modulo axioms, inside divisors and functions too."""
    for _ in range(ROUNDS):
        terms = [_inside(term, axioms, trace) for term in terms_of(expr)]
        closed = from_terms(done for term in terms for done in _by_axioms(term, axioms, trace))
        if closed == expr:
            break
        expr = closed
    return expr


def _inside(term: Term, axioms: Sequence[Axiom], trace: dict[str, None]) -> Term:
    """The term with the sums that its factors hold in canonical form; expectations do not reach into functions."""
    axioms = [axiom for axiom in axioms if not axiom.expectation]
    powers: Powers = {}
    for base, power in term.powers.items():
        if base.has(Total):
            if isinstance(base, (sp.Add, Total)):
                base = _normal(base, axioms, trace)
            elif isinstance(base, sp.Function):
                args = (_normal(arg, axioms, trace) if isinstance(arg, sp.Expr) else arg for arg in base.args)
                base = base.func(*args)
        powers = merge(powers, {base: power})
    return Term(term.coefficient, powers, term.bound)


def _by_axioms(term: Term, axioms: Sequence[Axiom], trace: dict[str, None], depth: int = 0) -> Iterable[Term]:
    """What a term becomes when axioms are applied until none applies."""
    for axiom in axioms:
        made = axiom.apply(term)
        if made is not term and depth < ROUNDS:
            trace[f"{axiom.name}: {axiom.statement}"] = None
            for part in made if isinstance(made, tuple) else (made,):
                yield from _by_axioms(part, axioms, trace, depth + 1)
            return
    yield term


def _without_divisors(remainder: sp.Expr, axioms: Sequence[Axiom], trace: dict[str, None]) -> sp.Expr:
    """A remainder times what divides its terms: a product that is 0 has a factor 0, and no divisor is.

    Under an expectation only what is not random may be taken out.
    """
    random = {axiom.tensor for axiom in axioms if axiom.expectation}
    for _ in range(ROUNDS):
        terms = terms_of(remainder)
        divisors: dict[sp.Expr, sp.Expr] = {}
        for term in terms:
            for base, power in term.powers.items():
                fixed = not free_axes(base) & set(term.bound) and not random & base.atoms(Tensor)
                if power.is_Integer and power < 0 and fixed:
                    divisors[base] = max(divisors.get(base, sp.S.Zero), -power)
        if len(terms) < 2 or not divisors:
            break
        trace["multiply by what divides"] = None
        multiplied = from_terms(t.times(divisors) for t in terms)
        remainder = _normal(multiplied, (*axioms, *ALWAYS), trace)
    return remainder
