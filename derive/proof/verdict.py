"""What is known of a statement: the word that it earned, and what it rests on; nothing that is open is hidden."""

from __future__ import annotations

import random
from dataclasses import dataclass

from derive.errors import AlgebraError
from derive.proof.fingerprint import FiniteField, random_point, small_sizes, where_defined
from derive.proof.interpreter import interpret
from derive.proof.prover import Identity, Proof, prove
from derive.proof.refuter import as_program


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
        """What it rests on: rewrites, a counterexample, or both sides as far as they can be brought."""
        if self.proof.status == "proved":
            return "; ".join(self.proof.rewrites) or "both sides have one canonical form"
        if self.proof.counterexample is not None:
            return f"refuted by {self.proof.counterexample}"
        return f"open: the left side is {self.proof.left}, the right side {self.proof.right}"


def settle(identity: Identity) -> Verdict:
    """Prove or refute a statement; what stays open is looked at in a finite field."""
    proof = prove(identity)
    if proof.status != "open":
        return Verdict(proof, proof.status, (proof.status == "proved") == identity.holds)
    try:
        agrees = identity.refutable and all(where_defined(lambda s: _agrees(identity, s), seed) for seed in range(3))
    except AlgebraError:
        agrees = False  # it has no form in a finite field
    return Verdict(proof, "fingerprinted", identity.holds) if agrees else Verdict(proof, "open", None)


def _agrees(identity: Identity, seed: int) -> bool:
    """Whether both sides are one number at a random point of a finite field."""
    program = as_program(identity.left, identity.right, identity.definitions or identity.unfold)
    chance, sizes = random.Random(seed), small_sizes(program, seed)
    visible = 1.0 if identity.all_visible else 0.7
    inputs, parameters = random_point(program, sizes, chance, visible=visible)
    values = interpret(program, inputs, sizes=sizes, parameters=parameters, arithmetic=FiniteField())
    left, right = (values[output.name] for output in program.outputs)
    return bool(left == right)
