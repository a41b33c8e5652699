"""Checkers that are checked: every mistake in a derivation against every checker, killed or survived.

A *mutant* is a program's derivation with one mistake in it. It is *equivalent* where the prover shows that it gives the
same outputs and gradients; all others are wrong, and the property tests have to refuse each. What common practice does
stands beside that, to show what it lets through.
"""

from numeric.mutate.mutants import Mutant, mutants
from numeric.mutate.rows import (
    CHECKERS,
    OURS,
    PRACTICE,
    Row,
    Verdict,
    as_records,
    counts,
    failures,
    matrices,
    matrix,
)

__all__ = [
    "CHECKERS",
    "OURS",
    "PRACTICE",
    "Mutant",
    "Row",
    "Verdict",
    "as_records",
    "counts",
    "failures",
    "matrices",
    "matrix",
    "mutants",
]
