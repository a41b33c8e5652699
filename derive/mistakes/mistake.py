"""Mistakes: wrong derivations as data, each with the step that it breaks and the belief behind it."""

from __future__ import annotations

from dataclasses import dataclass

from derive.calculus import Derivation
from derive.errors import DefinitionError, DerivationError
from derive.forward.program import Program
from derive.mistakes.places import Place, Transformation, changed, changed_in, made_in


@dataclass(frozen=True)
class Mistake:
    """One way to get a gradient wrong.

    name: how commands and tests refer to it; title: how a page heads it; breaks: the definition that is the first to
    be wrong; belief: what people say when they make it; why: what is wrong with that;
    change: the wrong program from the right one; violates: the name of a proved identity that the wrong
    gradient breaks (:func:`derive.proof.identities.identities`), or nothing where no identity notices; program: one in
    which it is made, for tests and reports; place: whether the change is made in the backward pass, in what the
    backward pass computes again, or in the forward pass, so that both are wrong together.

    Sentences speak of queries, keys and tensors, never of rows and columns, so that they hold in every
    convention; tensors stand in backquotes, as in `A`, for pages to set as formulas.
    """

    name: str
    title: str
    breaks: str
    belief: str
    why: str
    change: Transformation
    violates: str = ""
    program: str = "attention"
    place: Place = "backward"


def made(mistake: Mistake, derivation: Derivation) -> Derivation:
    """The derivation of somebody who makes the mistake.

    Raises
    ------
    DefinitionError: the program has no definition of the name that the mistake changes.
    DerivationError: the mistake changes nothing, or not the step that it says it breaks.
    """
    right = changed_in(mistake.place, derivation)
    if mistake.breaks not in changed(right, mistake.change(right)):
        raise DerivationError(
            f"the mistake {mistake.name} leaves {mistake.breaks} of {right.name} as it is: "
            f"{mistake.breaks} = {right.definition(mistake.breaks).value} holds nothing that it changes"
        )
    try:
        return made_in(mistake.place, mistake.change, derivation)
    except DerivationError as error:
        raise DerivationError(f"mistake {mistake.name}: {error}") from None


def apply(mistake: Mistake, derivation: Derivation) -> Program:
    """The backward program of somebody who makes the mistake; errors are those of :func:`made`."""
    return made(mistake, derivation).derived


def applies(mistake: Mistake, derivation: Derivation) -> bool:
    """Whether a program has the steps that the mistake breaks, something there to get wrong, and what it reads."""
    try:
        made(mistake, derivation)
    except (DefinitionError, DerivationError):
        return False
    return True
