"""Mistakes as data: wrong backward programs, made from the right one, with the belief behind each."""

from derive.mistakes.catalogue import MISTAKES, mistake, mistakes_for, names
from derive.mistakes.mistake import Mistake, Transformation, applies, apply, assumed_sizes, changed

__all__ = [
    "MISTAKES",
    "Mistake",
    "Transformation",
    "applies",
    "apply",
    "assumed_sizes",
    "changed",
    "mistake",
    "mistakes_for",
    "names",
]
