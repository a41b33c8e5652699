"""Mutants: derivations with one mistake each, curated or systematic, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from derive.calculus import Derivation
from derive.errors import AlgebraError, DerivationError
from derive.mistakes import Place, made, made_in, mistakes_for
from derive.mistakes.systematic import Slip, systematic


@dataclass(frozen=True)
class Mutant:
    """A wrong derivation: its name, curated or of a systematic kind, the definition that it spoils, and where."""

    name: str
    kind: str
    breaks: str
    place: Place
    make: Callable[[], Derivation | None]
    """Both passes with the mistake; None where the wrong forward pass has no derivative."""


def mutants(derivation: Derivation) -> Iterator[Mutant]:
    """All mistakes that can be made in a derivation: the curated ones, then the systematic ones."""
    for mistake in mistakes_for(derivation):
        yield Mutant(mistake.name, "curated", mistake.breaks, mistake.place, partial(made, mistake, derivation))
    for slip in systematic(derivation):
        yield Mutant(slip.name, slip.kind, slip.breaks, slip.place, partial(_slipped, slip, derivation))


def _slipped(slip: Slip, derivation: Derivation) -> Derivation | None:
    try:
        return made_in(slip.place, slip.change, derivation)
    except (AlgebraError, DerivationError):
        return None
