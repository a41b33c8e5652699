"""Derivations: programs together with the named steps that led to them."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.forward.program import Definition, Program


@dataclass(frozen=True)
class Step:
    """One rewriting in a derivation.

    name: the tensor whose value it gives; rule: what was applied; before, after: the statements;
    reason: why, in one sentence; forward: the definitions it differentiates.
    """

    name: str
    rule: str
    target: sp.Expr
    before: sp.Expr
    after: sp.Expr
    reason: str
    forward: tuple[Definition, ...] = ()


@dataclass(frozen=True)
class Derivation:
    """A forward program, the program derived from it, and every step between the two."""

    forward: Program
    derived: Program
    steps: tuple[Step, ...]

    def steps_for(self, name: str) -> tuple[Step, ...]:
        """The steps that led to one tensor's definition."""
        return tuple(step for step in self.steps if step.name == name)
