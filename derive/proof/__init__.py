"""Evidence: proofs for all sizes, fingerprints, and the exact interpreter."""

from derive.proof.arithmetic import Decimals, Duals, RunningErrors, Symbolic, Weights
from derive.proof.interpreter import interpret

__all__ = ["Decimals", "Duals", "RunningErrors", "Symbolic", "Weights", "interpret"]
