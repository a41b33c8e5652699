"""Derivations: programs together with the named steps that led to them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count

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


def marked(program: Program, mark: str, avoiding: Set[str] = frozenset()) -> dict[str, str]:
    """A name for the cotangent or tangent of every tensor: ``dQ``, or ``d2Q`` where a ``dQ`` is there already.

    ``avoiding`` are names that are taken besides those of the program.
    """
    taken = program.names | avoiding
    names = [i.name for i in program.inputs] + [d.name for d in program.definitions]
    prefixes = chain([mark], (f"{mark}{level}" for level in count(2)))
    prefix = next(p for p in prefixes if not taken & {f"{p}{n}" for n in names})
    return {name: f"{prefix}{name}" for name in names}


@dataclass(frozen=True)
class Derivation:
    """A forward program, the program derived from it, and every step between the two.

    ``names`` gives, for each tensor of the forward program, the name of its cotangent (or tangent).
    """

    forward: Program
    derived: Program
    steps: tuple[Step, ...]
    names: Mapping[str, str]

    def steps_for(self, name: str) -> tuple[Step, ...]:
        """The steps that led to one tensor's definition, those of cotangents written out in it among them."""
        return self._led_to.get(name, ())

    @cached_property
    def _led_to(self) -> dict[str, tuple[Step, ...]]:
        defined = {d.name for d in self.derived.definitions}
        led: dict[str, tuple[Step, ...]] = {}
        waiting: tuple[Step, ...] = ()
        for step in self.steps:
            waiting = (*waiting, step)
            if step.name in defined:
                led[step.name] = (*led.get(step.name, ()), *waiting)
                waiting = ()
        return led


def joined(program: Program, derived: Program) -> Program:
    """A program and one derived from it as one, of the inputs of both; the derived one's outputs are returned."""
    known = set(program.tensors)
    more = tuple(i for i in derived.inputs if i.name not in known)
    definitions = (*program.definitions, *derived.definitions)
    return replace(derived, inputs=(*program.inputs, *more), definitions=definitions)
