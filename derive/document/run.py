"""Runs of programs on a worked example's numbers: forward, backward, wrong backward, parts of either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, free_axes
from derive.calculus import Derivation
from derive.document.values import Value, Values
from derive.errors import DocumentError
from derive.forward.program import Definition, Input, Program
from derive.proof import Duals, interpret

Nested = Any
"""Values as a program's axes nest them."""

Matrix = Sequence[Sequence[Fraction]]


@dataclass(frozen=True)
class Run:
    """Every tensor of a derivation on given inputs, with the sizes and parameters that they imply."""

    derivation: Derivation
    tensors: Mapping[str, Nested]
    sizes: Mapping[str, int]
    parameters: Mapping[str, Value]

    def wrong(self, program: Program) -> Run:
        """The same inputs through another backward program."""
        given = {i.name: self.tensors[i.name] for i in program.inputs}
        tensors = interpret(program, given, sizes=self.sizes, parameters=self._given(program), arithmetic=Values())
        return replace(self, tensors={**self.tensors, **tensors})

    def value(self, axes: tuple[Axis, ...], expr: sp.Expr) -> Nested:
        """An expression in the tensors of this run, for every position along the axes."""
        used = sorted({e.tensor for e in expr.atoms(Entry)}, key=lambda t: str(t.name))
        inputs = tuple(Input(t, tuple(Axis(f"axis{k}", s) for k, s in enumerate(t.shape)), str(t.name)) for t in used)
        forward = self.derivation.forward
        target = Tensor("value", *axes)
        program = Program("expression", "", inputs, forward.parameters, (Definition(target[axes], expr),), ())
        given = {i.name: self.tensors[i.name] for i in inputs}
        tensors = interpret(program, given, sizes=self.sizes, parameters=self._given(program), arithmetic=Values())
        return tensors["value"]

    def at(self, entry: Entry, where: Mapping[Axis, int]) -> Value:
        """The value of one entry, its axes at given positions."""
        nested = self.tensors[str(entry.tensor.name)]
        for index in entry.indices:
            nested = nested[where[index]]
        found: Value = nested
        return found

    def _given(self, program: Program) -> dict[str, Any]:
        known = {p.name for p in program.parameters}
        return {name: value.exact for name, value in self.parameters.items() if name in known}


def run(derivation: Derivation, inputs: Mapping[str, Matrix], cotangent: Matrix, scale: Fraction | None) -> Run:
    """Evaluate a derivation forward and backward, exactly."""
    forward, values = derivation.forward, Values()
    sizes: dict[str, int] = {}
    for declared in forward.inputs:
        rows = inputs[declared.name]
        sizes |= {str(s): k for s, k in zip(declared.tensor.shape, (len(rows), len(rows[0])), strict=True)}
    chosen = {"scale": sp.Rational(scale.numerator, scale.denominator)} if scale is not None else {}
    concrete = {s: sizes[str(s)] for p in forward.parameters for s in p.default.free_symbols}
    parameters = {p.name: values.number(chosen.get(p.name, p.default.subs(concrete))) for p in forward.parameters}
    exact = {name: value.exact for name, value in parameters.items()}
    given = {**inputs, "dO": cotangent}
    tensors: dict[str, Nested] = {}
    for name, matrix in given.items():
        tensors[name] = [[values.number(x) for x in one] for one in matrix]
    tensors |= interpret(forward, inputs, parameters=exact, arithmetic=values)
    return Run(derivation, tensors, sizes, parameters).wrong(derivation.derived)


def cut(program: Program, given: Sequence[str], wanted: str) -> Program:
    """The part of a program that computes one tensor from others."""
    named = {d.name: d for d in program.definitions}
    needed, kept = {wanted}, []
    inputs: dict[str, Input] = {}
    known = {i.name: i for i in program.inputs} | {name: d.as_input() for name, d in named.items()}
    for definition in reversed(program.definitions):
        if definition.name in needed and definition.name not in given:
            kept.append(definition)
            needed |= {str(e.tensor.name) for e in definition.value.atoms(Entry)}
    defined = {d.name for d in kept}
    for name in sorted(needed - defined):
        if name not in known:
            raise DocumentError(f"{program.name} computes {wanted} from {name}, which it does not have")
        inputs[name] = known[name]
    outputs = tuple(o for o in program.outputs if o.name in defined)
    parameters = tuple(p for p in program.parameters if any(d.value.has(p.symbol) for d in kept))
    return replace(
        program,
        inputs=tuple(inputs.values()),
        parameters=parameters,
        definitions=tuple(reversed(kept)),
        outputs=outputs,
    )


def slope(example: Run, tensor: str, along: Matrix) -> tuple[Value, Value]:
    """How fast the loss ⟨G, O⟩ changes as a tensor moves: by forward mode, and by the gradient.

    Forward mode runs dual numbers through the forward definitions; it shares nothing with the backward pass.
    """
    values = Values()
    duals = Duals(values)
    forward = example.derivation.forward
    part = cut(forward, (tensor,), "O")
    moving = {i.name: example.tensors[i.name] for i in part.inputs}
    steps = [[values.number(x) for x in one] for one in along]
    moving[tensor] = _zipped(moving[tensor], steps, duals.dual)
    # A parameter is a constant: it does not move.
    exact = {p.name: example.parameters[p.name].exact for p in part.parameters}
    output = interpret(part, moving, sizes=example.sizes, parameters=exact, arithmetic=duals)["O"]
    moved = [[entry.tangent for entry in one] for one in output]
    pushed = _inner(moved, example.tensors["dO"])
    return pushed, _inner(steps, example.tensors[f"d{tensor}"])


def order(expr: sp.Expr, program: Program) -> tuple[Axis, ...]:
    """The free axes of an expression in the order in which the program says what its axes mean."""
    rank = {name: k for k, name in enumerate(program.axis_meaning)}
    return tuple(sorted(free_axes(expr), key=lambda a: (rank.get(a.name, len(rank)), a.name)))


def _zipped(left: Nested, right: Nested, join: Any) -> Nested:
    return [[join(a, b) for a, b in zip(p, q, strict=True)] for p, q in zip(left, right, strict=True)]


def _inner(left: Nested, right: Nested) -> Value:
    total = Values().number(0)
    for p, q in zip(left, right, strict=True):
        for a, b in zip(p, q, strict=True):
            total = total + a * b
    return total
