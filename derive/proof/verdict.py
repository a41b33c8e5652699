"""What is known of a statement: a proof that the checker accepts, a counterexample, or other evidence."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy as sp

from derive.algebra import Tensor
from derive.errors import AlgebraError, ProofError
from derive.forward.program import Definition, Program
from derive.proof.checker import Poly, Refused, Statement, check, holds, text
from derive.proof.degrees import Degrees, FailureBound, looked_at
from derive.proof.fields import fresh_seed
from derive.proof.fingerprint import FiniteField, differing, paired
from derive.proof.interpreter import interpret
from derive.proof.points import ATTEMPTS, EDGE_ATTEMPTS, is_edge, random_point, sizes_at, where_defined
from derive.proof.prover import Search
from derive.proof.refuter import Counterexample, as_program, refute
from derive.proof.statements import Identity, Premise, as_data, equation, letters_by_size, spelled
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
    is known; as_stated: whether that is what the catalogue says of it; None where nothing is known; beside: of what is
    open, what points of a finite field say.
    """

    proof: Proof
    word: str
    as_stated: bool | None
    beside: str = ""

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
        beside = f"; {self.beside}" if self.beside else ""
        return f"open: {'; '.join(self.proof.remainders)} is left{beside}"


def settle(identity: Identity, seed: int | None = None) -> Verdict:
    """Prove or refute a statement; what stays open is looked at in finite fields, drawn with a seed or without one."""
    proof = prove(identity)
    if proof.status != "open":
        return Verdict(proof, proof.status, (proof.status == "proved") == identity.holds)
    if not identity.refutable:
        return Verdict(proof, "open", None)  # its premises do not hold at random points
    seed, bounds = fresh_seed() if seed is None else seed, list[FailureBound]()
    try:
        for claim in identity.claims:
            differ, bound = fingerprint(claim.left, claim.right, identity.known, identity.all_visible, seed)
            if differ or bound.refused or bound.one_sided:
                return Verdict(proof, "open", None, "" if differ else f"no fingerprint: {bound.refused or bound}")
            bounds.append(bound)
    except AlgebraError:
        return Verdict(proof, "open", None)  # it has no form in a finite field
    return Verdict(proof, "fingerprinted", identity.holds, str(min(bounds, key=lambda b: b.bits)))


def fingerprint(
    left: sp.Expr, right: sp.Expr, definitions: tuple[Definition, ...], all_visible: bool, seed: int
) -> tuple[bool, FailureBound]:
    """Whether two sides differ at a point of a finite field, and what it is worth that they do not.

    Raises
    ------
    AlgebraError: they have no form in a finite field.
    """
    program, bound = as_program(spelled(left, definitions), spelled(right, definitions), definitions), FailureBound()

    def differ(seed: int, number: int, bound: FailureBound) -> list[str]:
        attempts = EDGE_ATTEMPTS if is_edge(number) else ATTEMPTS
        return where_defined(lambda s: _apart(program, all_visible, s, number, bound), seed, attempts)

    return bool(looked_at(differ, seed, bound)), bound


def _apart(program: Program, all_visible: bool, seed: int, number: int, bound: FailureBound) -> list[str]:
    """Whether the two outputs of a statement as a program differ at a point, as a list of names."""
    chance, sizes, field = random.Random(seed), sizes_at(program, seed, number, rational=False), FiniteField(seed)
    inputs, parameters = random_point(
        program, sizes, chance, field, field.draw, visible=1.0 if all_visible else 0.7, number=number, seen=bound.seen
    )
    degrees = Degrees(field)
    values = interpret(program, inputs, sizes=sizes, parameters=parameters, arithmetic=degrees)
    left, right = program.outputs
    sides = {"the sides": paired(values[left.name], values[right.name], len(left.axes))}
    if not is_edge(number):
        bound.note(sides, degrees)
    return differing(sides)
