"""What a page says is true, and why it may say so: identities that were proved, and gradients that were checked."""

from __future__ import annotations

from fractions import Fraction

from derive.document.example import Example
from derive.document.inputs import default_cotangent
from derive.document.run import slope
from derive.document.values import Value
from derive.errors import DerivationError, ProofError
from derive.forward import program
from derive.forward.program import Program
from derive.proof.identities import identities
from derive.proof.prover import Identity, prove


def proved(forward: Program, name: str) -> Identity:
    """An identity of a program, after its proof for all sizes has gone through."""
    for identity in identities(forward):
        if identity.name == name:
            if prove(identity).status != "proved":
                raise ProofError(f"{identity.name} is not proved for {forward.name}: a document may not state it")
            return identity
    raise ProofError(f"{forward.name} has no identity {name!r}: a document may not state it")


def proved_with_masks(forward: Program, name: str) -> Identity:
    """The same for the catalogue's program of that name, which has its optional masks."""
    return proved(program(forward.name), name)


def checked_slope(example: Example, tensor: str) -> Value:
    """The loss's rate of change as a tensor moves, the same by forward mode as by its gradient.

    Raises
    ------
    DerivationError: the two differ, so the gradient is wrong.
    """
    rows = example.run.tensors[tensor]
    along = [[x if x else Fraction(1) for x in one] for one in default_cotangent(len(rows), len(rows[0]))]
    forward_mode, gradient = slope(example.run, tensor, along)
    if not forward_mode.agrees(gradient):
        raise DerivationError(
            f"the gradient of {tensor} gives a slope of {gradient.digits}, forward mode {forward_mode.digits}: "
            "the derivation is wrong; please report it with these inputs"
        )
    return gradient
