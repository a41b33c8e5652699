"""Differentiation: programs to programs, one definition at a time, every step named."""

from derive.calculus.compact import CompactForm, compact_form
from derive.calculus.reverse import backward
from derive.calculus.steps import Derivation, Step, joined
from derive.calculus.tangent import tangent

__all__ = ["CompactForm", "Derivation", "Step", "backward", "compact_form", "joined", "tangent"]
