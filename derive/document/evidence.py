"""What a page says is true, and why it may say so: identities that were proved, and gradients that were checked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from derive.document.example import Example
from derive.document.inputs import default_cotangent
from derive.document.run import slope
from derive.document.values import Value
from derive.errors import DerivationError, ProofError
from derive.forward import program
from derive.proof.identities import identities
from derive.proof.statements import Identity
from derive.proof.verdict import Verdict, prove, settle


@cache
def settled(name: str) -> tuple[Verdict, ...]:
    """Everything that the catalogue says of one of its programs, settled once for all pages."""
    return tuple(settle(identity) for identity in identities(program(name)))


def proved(example: Example, name: str) -> Identity:
    """An identity of the example's program, after its proof for all sizes has gone through."""
    return _proved(example.identities, name)


def proved_with_masks(example: Example, name: str) -> Identity:
    """The same for the catalogue's program of that name, which has its optional masks."""
    return _proved({i.name: i for i in identities(program(example.forward.name))}, name)


def _proved(known: Mapping[str, Identity], name: str) -> Identity:
    if name not in known:
        raise ProofError(f"there is no identity {name!r}, so a document may not state it; there are {', '.join(known)}")
    if prove(known[name]).status != "proved":
        raise ProofError(f"the identity {name!r} is not proved, so a document may not state it")
    return known[name]


def checked_slope(example: Example, tensor: str) -> Value:
    """The loss's rate of change as a tensor moves, the same by forward mode as by its gradient.

    Raises
    ------
    DerivationError: the two differ, so the gradient is wrong.
    """
    rows = example.run.tensors[tensor]
    along = [[x or Fraction(1) for x in one] for one in default_cotangent(len(rows), len(rows[0]))]
    forward_mode, gradient = slope(example.run, tensor, along)
    if not forward_mode.agrees(gradient):
        raise DerivationError(
            f"the gradient of {tensor} gives a slope of {gradient.digits}, forward mode {forward_mode.digits}: "
            "the derivation is wrong; please report it with these inputs"
        )
    return gradient
