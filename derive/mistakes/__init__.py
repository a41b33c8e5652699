"""Mistakes as data: wrong derivations, made from the right one, with the belief behind each."""

from derive.mistakes.catalogue import MISTAKES, mistake, mistakes_for, names
from derive.mistakes.mistake import Mistake, applies, apply, made
from derive.mistakes.places import (
    PLACES,
    Place,
    Transformation,
    assumed_sizes,
    changed,
    identified_sizes,
    made_in,
)

__all__ = [
    "MISTAKES",
    "PLACES",
    "Mistake",
    "Place",
    "Transformation",
    "applies",
    "apply",
    "assumed_sizes",
    "changed",
    "identified_sizes",
    "made",
    "made_in",
    "mistake",
    "mistakes_for",
    "names",
]
