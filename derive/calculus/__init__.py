"""Differentiation: programs to programs, one definition at a time, every step named."""

from derive.calculus.reverse import backward
from derive.calculus.steps import Derivation, Step, joined
from derive.calculus.tangent import tangent

__all__ = ["Derivation", "Step", "backward", "joined", "tangent"]
