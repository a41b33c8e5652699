"""The dense schedule: whole arrays, one statement a definition.

Passes, in order: stabilise the exponentials; multiply a scale into one operand that several products
share; turn definitions into array expressions; keep what the backward pass uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total, free_axes
from derive.calculus import Derivation
from derive.errors import LoweringError
from derive.forward.program import Definition, Program
from derive.lower.arrays import All, Name, Node, Scalar, Zeros, filled, mentioned, operations
from derive.lower.stabilise import RELIES_ON, stabilise_together
from derive.lower.tensorise import Support, gates_of, tensorise


@dataclass(frozen=True)
class Statement:
    """``name = node``; with a guard, only where that optional input is given, updating ``name``."""

    name: str
    axes: tuple[Axis, ...]
    node: Node
    guard: str | None = None


@dataclass(frozen=True)
class Kernel:
    """A forward and a backward pass as array statements, and the tensors that pass from one to the other.

    ``shifts`` names the statements whose values stabilise and do not matter otherwise: shift invariance.
    """

    derivation: Derivation
    forward: tuple[Statement, ...]
    backward: tuple[Statement, ...]
    saved: tuple[str, ...]
    relies_on: tuple[str, ...]
    shifts: tuple[str, ...] = ()

    @property
    def operations(self) -> int:
        """Array operations of both passes; transposes and broadcasts are views."""
        return sum(operations(s.node) for s in (*self.forward, *self.backward))

    @property
    def may_be_none(self) -> frozenset[str]:
        """The optional inputs that statements can do without, and the visibilities made of such inputs alone."""
        program, derived = self.derivation.forward, self.derivation.derived
        optional = {i.name for i in (*program.inputs, *derived.inputs) if i.neutral is not None}
        optional -= {d.name for d in program.definitions}
        booleans = {i.name for i in program.inputs if i.tensor.boolean}
        statements = (*self.forward, *self.backward)
        for statement in statements:
            if statement.guard is None and not isinstance(statement.node, All):
                alias = isinstance(statement.node, Name) and statement.node.name in booleans
                optional -= set() if alias else set(mentioned(statement.node))
        absent = set(optional)
        for statement in statements:
            node = statement.node
            conditions = node.conditions if isinstance(node, All) else (node,) if isinstance(node, Name) else ()
            if conditions and all(absent & set(mentioned(condition)) for condition in conditions):
                absent.add(statement.name)
        return frozenset(absent)


def dense(derivation: Derivation) -> Kernel:
    """Schedule a program and its backward pass as dense array code."""
    stable = stabilise_together(derivation.forward, derivation.derived)
    relies_on = (RELIES_ON,) if stable.programs != (derivation.forward, derivation.derived) else ()
    forward, backward = _share_scaled(*stable.programs)
    support: dict[Tensor, tuple[Definition, sp.Expr]] = {}
    sources = {gradient: name for name, gradient in derivation.names.items()}
    first = tuple(_statements(forward, support, sources, checked=True))
    second = tuple(_statements(backward, support, sources))
    outside = [n for s in second for n in (*mentioned(s.node), *([s.guard] if s.guard else []))]
    ready = {d.name for d in forward.definitions} | {i.name for i in forward.inputs}
    saved = tuple(n for n in dict.fromkeys(outside) if n in ready)
    return Kernel(derivation, _alive(first, forward, saved), second, saved, relies_on, stable.shifts)


def _alive(statements: tuple[Statement, ...], program: Program, saved: tuple[str, ...]) -> tuple[Statement, ...]:
    """The statements that an output or the backward pass needs."""
    needed = {o.name for o in program.outputs} | set(saved)
    kept: list[Statement] = []
    for statement in reversed(statements):
        if statement.name in needed:
            needed |= set(mentioned(statement.node))
            kept.insert(0, statement)
    return tuple(kept)


def _statements(
    program: Program,
    support: dict[Tensor, tuple[Definition, sp.Expr]],
    sources: Mapping[str, str],
    *,
    checked: bool = False,
) -> Iterator[Statement]:
    """Statements in order; ``sources`` gives the input whose gradient a derived name is, for gradients that are 0.

    ``checked`` for the pass that looks things up first: what it checked need not be checked again.
    """
    optional = {i.tensor for i in program.inputs if i.neutral == 0}
    for definition in program.definitions:
        terms = sp.Add.make_args(definition.value)
        added = [(t, entry) for t in terms if (entry := _optional_entry(t, optional)) is not None]
        if len(added) == len(terms):
            added = added[1:]  # something has to be there: the first of them is then required
        base = definition.value - sp.Add(*(t for t, _ in added))
        if base == 0 and not definition.target.tensor.discrete:
            yield Statement(definition.name, definition.axes, _zeros(definition, program, sources))
            continue
        gate = _hiding(definition, support)
        node = _arrays(program, definition, base, _support(support), checked)
        yield Statement(definition.name, definition.axes, filled(node, definition.axes))
        for term, entry in added:
            updated = _arrays(program, definition, definition.target + term, {}, checked)
            yield Statement(definition.name, definition.axes, updated, str(entry.tensor.name))
        if gate is not None:
            support[definition.target.base] = (definition, gate)


def _arrays(program: Program, definition: Definition, value: sp.Expr, support: Support, checked: bool) -> Node:
    """The array form of a definition's value, or an error that says of which definition, and where it stands."""
    tensor, axes = definition.target.tensor, definition.axes
    try:
        return tensorise(
            value, axes, support=support, boolean=tensor.boolean, checked=checked, real=not tensor.discrete
        )
    except LoweringError as error:
        raise LoweringError(f"{program.name}: {definition}: {error}") from None


def _zeros(definition: Definition, program: Program, sources: Mapping[str, str]) -> Node:
    """What is 0 in the shape of the input whose gradient it is, or of any tensor of its axes that is there by then."""
    if definition.name in sources:
        return Zeros(definition.axes, sources[definition.name])
    earlier = takewhile(lambda d: d is not definition, program.definitions)
    given = ((i.tensor, i.axes) for i in program.inputs if i.neutral is None)
    there = (*((d.target.tensor, d.axes) for d in earlier), *given)
    same = (str(t.name) for t, axes in there if axes == definition.axes and not t.discrete)
    name = next(same, None)
    return filled(Scalar((), sp.S.Zero), definition.axes) if name is None else Zeros(definition.axes, name)


def _optional_entry(term: sp.Expr, optional: set[Tensor]) -> Entry | None:
    """The optional input that a summand is, up to sign, else None."""
    bare = -term if term.could_extract_minus_sign() else term
    return bare if isinstance(bare, Entry) and bare.base in optional else None


def _hiding(definition: Definition, support: dict[Tensor, tuple[Definition, sp.Expr]]) -> sp.Expr | None:
    """The visibility that a definition's value is a multiple of, at the definition's axes, else None."""
    if definition.target.tensor.boolean:
        return None
    gates = gates_of(definition.value, _support(support))
    return sp.Mul(*gates) if gates else None


def _support(support: dict[Tensor, tuple[Definition, sp.Expr]]) -> Support:
    def at(source: Definition, gate: sp.Expr):  # type: ignore[no-untyped-def]
        return lambda indices: gate.xreplace(dict(zip(source.axes, indices, strict=True)))

    return {tensor: at(source, gate) for tensor, (source, gate) in support.items()}


def _share_scaled(forward: Program, backward: Program) -> tuple[Program, Program]:
    """Multiply a scale into one operand of the products that it scales, where at least two products share it.

    scale·ΣQK and scale·ΣdS·Q become ΣQ'K and ΣdS·Q' with Q' = scale·Q: one operation fewer, and on the
    smallest array. Among equals the operand that is declared first is taken.
    """
    definitions = (*forward.definitions, *backward.definitions)
    uses: dict[tuple[sp.Expr, Tensor], int] = {}
    for definition in definitions:
        for scale, total in _scaled_products(definition.value):
            for entry in {f.base for f in total.body.args if isinstance(f, Entry)}:
                uses[scale, entry] = uses.get((scale, entry), 0) + 1
    inputs = {i.tensor: i for i in forward.inputs}
    candidates = [(n, scale, t) for (scale, t), n in uses.items() if n > 1 and t in inputs]
    if not candidates:
        return forward, backward
    order = [i.tensor for i in forward.inputs]
    _, scale, tensor = min(candidates, key=lambda c: (-c[0], order.index(c[2]), str(c[1])))
    given = inputs[tensor]
    scaled = Tensor(f"{given.name}_scaled", *given.axes)

    def move(expr: sp.Expr) -> sp.Expr:
        """The value with the scale in one factor of each product: in ΣX X one of the two is scaled, not both."""
        for factor, total in _scaled_products(expr):
            body, axes = total.open()
            entry = next((f for f in body.args if isinstance(f, Entry) and f.base == tensor), None)
            if factor == scale and entry is not None:
                expr = expr.xreplace({scale * total: Total(body / entry * scaled[entry.indices], *axes)})
        return expr

    def moved(program: Program) -> tuple[Definition, ...]:
        return tuple(replace(d, value=move(d.value)) for d in program.definitions)

    first = Definition(scaled[given.axes], scale * given.entry)
    return replace(forward, definitions=(first, *moved(forward))), replace(backward, definitions=moved(backward))


def _scaled_products(value: sp.Expr) -> Iterator[tuple[sp.Expr, Total]]:
    """The terms ``scalar · Σ product`` of a value."""
    for term in sp.Add.make_args(value):
        factors = sp.Mul.make_args(term)
        totals = [f for f in factors if isinstance(f, Total)]
        scalars = sp.Mul(*(f for f in factors if not free_axes(f) and not f.has(Entry)))
        if (
            len(totals) == 1
            and scalars * totals[0] == term
            and scalars.free_symbols
            and isinstance(totals[0].body, sp.Mul)
        ):
            yield scalars, totals[0]
