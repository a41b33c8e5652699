"""What is known of a statement: a proof that the checker accepts, a counterexample, or other evidence."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy as sp

from derive.algebra import Tensor
from derive.errors import AlgebraError, ProofError
from derive.proof.checker import Poly, Refused, Statement, check, holds, text
from derive.proof.fingerprint import FiniteField, random_point, small_sizes, where_defined
from derive.proof.interpreter import interpret
from derive.proof.prover import Search
from derive.proof.refuter import Counterexample, as_program, refute
from derive.proof.statements import Claim, Identity, Premise, as_data, equation, letters_by_size, spelled
from derive.proof.text import written


@dataclass(frozen=True)
class Proof:
    """The outcome of a search: ``proved``, ``refuted`` by a counterexample, or ``open``.

    data: the statement as the checker reads it, with the steps of its claims where it is proved; remainders: what is
    left of the difference of a claim's sides when no rule applies any more, as text, where it is not proved.
    """

    identity: Identity
    status: Literal["proved", "refuted", "open"]
    data: Mapping[str, Any]
    counterexample: Counterexample | None = None
    remainders: tuple[str, ...] = field(default=())

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that the proof uses, in order of appearance."""
        steps = (step for claim in self.data["claims"] for step in claim.get("steps", ()))
        return tuple(dict.fromkeys(_rules_in(steps)))


def _rules_in(steps: Any) -> Iterator[str]:
    for step in steps:
        yield step["rule"]
        for instance in step.get("instances", ()):
            yield from _rules_in(instance.get("steps", ()))


def prove(identity: Identity) -> Proof:
    """Prove or refute a statement, or leave it open. Nothing counts as proved that the checker does not accept."""
    whole, left = _searched(identity)
    if not left:
        return Proof(identity, "proved", whole)
    found = _counterexample(identity)
    return Proof(identity, "refuted" if found else "open", whole, found, left)


def vanishes(expr: sp.Expr, premises: Sequence[Premise] = ()) -> bool:
    """Whether an expression is proved to be 0 for all sizes, under some premises."""
    try:
        return not _searched(equation("", expr, sp.S.Zero, premises=tuple(premises)))[1]
    except ProofError:
        return False  # it holds what cannot stand in a proof


def _searched(identity: Identity) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A statement as the checker reads it, with steps that it accepts; or without, and what is left of its claims.

    Raises
    ------
    ProofError: the statement is none that the checker reads.
    """
    data = as_data(identity)
    try:
        statement = Statement(data)
        starts = [_difference(statement, claim) for claim in data["claims"]]
    except Refused as reason:
        raise ProofError(f"{identity.name or 'a statement'} cannot stand in a proof: {reason}") from None
    search = Search(statement, [d["tensor"] for d in data["definitions"]], _letters(identity, statement))
    claims, left = [], []
    for claim, start in zip(data["claims"], starts, strict=True):
        steps = search.steps(start, statement.scope)
        if steps is None:
            rest = search.remainder(start, statement.scope)
            left.append(written(search.terms(statement.scope).of(rest)))
        else:
            claims.append({**claim, **search.why_at_least_zero(claim), "steps": steps})
    whole = {**data, "claims": claims}
    refused = "" if left else check(whole)
    if refused:
        left.append(f"the checker does not accept the proof: {refused}")
    forget()
    return (data, tuple(left)) if left else (whole, ())


def forget() -> None:
    """Forget what the checker remembers of normal forms: the next statement has others."""
    text.cache_clear()
    holds.cache_clear()


def _letters(identity: Identity, statement: Statement) -> dict[str, list[str]]:
    """The letters of axes by their sizes."""
    letters: dict[str, list[str]] = {}
    for size, letter in letters_by_size(identity):
        letters.setdefault(text(statement.normal(size, {})), []).append(letter)
    return letters


def _difference(statement: Statement, claim: Mapping[str, Any]) -> Poly:
    """What has to be 0: the left side less the right one and the witness."""
    sides = [statement.here(claim[side], statement.scope) for side in ("right", "witness") if side in claim]
    difference = statement.here(claim["left"], statement.scope)
    for side in sides:
        difference = difference - side
    return difference


def _counterexample(identity: Identity) -> Counterexample | None:
    """A point at which the sides of an equation differ, if all premises hold at random points."""
    known = identity.known
    assumed = {t for p in identity.premises if p.says == "equal" for t in p.of.atoms(Tensor)}
    if not identity.refutable or assumed - {d.target.base for d in known}:
        return None  # a random tensor is not what is assumed of it
    for claim in identity.claims:
        if claim.witness is None:
            left, right = (spelled(side, known) for side in (claim.left, claim.right))
            found = refute(left, right, known, all_visible=identity.all_visible)
            if found is not None:
                return found
    return None


@dataclass(frozen=True)
class Verdict:
    """A proof, and the evidence that a statement has beside it.

    word: ``proved``, ``refuted``, or for what the prover leaves open ``fingerprinted``, or ``open`` where nothing else
    is known; as_stated: whether that is what the catalogue says of it; None where nothing is known.
    """

    proof: Proof
    word: str
    as_stated: bool | None

    @property
    def identity(self) -> Identity:
        """The statement."""
        return self.proof.identity

    @property
    def reason(self) -> str:
        """What it rests on: rules, a counterexample, or what is left of the difference of the two sides."""
        if self.proof.status == "proved":
            return ", ".join(self.proof.rules) or "both sides have one normal form"
        if self.proof.counterexample is not None:
            return f"refuted by {self.proof.counterexample}"
        return f"open: {'; '.join(self.proof.remainders)} is left"


def settle(identity: Identity) -> Verdict:
    """Prove or refute a statement; what stays open is looked at in a finite field."""
    proof = prove(identity)
    if proof.status != "open":
        return Verdict(proof, proof.status, (proof.status == "proved") == identity.holds)
    try:
        agrees = identity.refutable and all(
            where_defined(lambda s, claim=claim: _agrees(identity, claim, s), seed)  # type: ignore[misc]
            for claim in identity.claims
            for seed in range(3)
        )
    except AlgebraError:
        agrees = False  # it has no form in a finite field
    return Verdict(proof, "fingerprinted", identity.holds) if agrees else Verdict(proof, "open", None)


def _agrees(identity: Identity, claim: Claim, seed: int) -> bool:
    """Whether both sides are one number at a random point of a finite field."""
    known = identity.known
    left, right = (spelled(side, known) for side in (claim.left, claim.right))
    program = as_program(left, right, known)
    chance, sizes = random.Random(seed), small_sizes(program, seed)
    visible = 1.0 if identity.all_visible else 0.7
    inputs, parameters = random_point(program, sizes, chance, visible=visible)
    values = interpret(program, inputs, sizes=sizes, parameters=parameters, arithmetic=FiniteField())
    one, two = (values[output.name] for output in program.outputs)
    return bool(one == two)
