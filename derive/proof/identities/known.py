"""A program's definitions and gradients under the names that statements use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import sympy as sp

from derive.algebra import Entry, Tensor
from derive.algebra.binders import rewrite
from derive.calculus import Derivation, backward
from derive.forward.program import Definition, Program, unfolded
from derive.proof.statements import Identity


class Known:
    """What a program defines, and what its derivation does."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.derivation: Derivation = backward(program)
        self.forward = {d.name: d for d in self.derivation.forward.definitions}
        self.backward = {d.name: d for d in self.derivation.derived.definitions}
        self.by_name = {**self.forward, **self.backward}

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """Everything that is defined, in order."""
        return tuple(self.by_name.values())

    def at(self, name: str) -> sp.Expr:
        """An entry at its own axes: of a definition, an input, or what arrives for an output."""
        if name in self.by_name:
            return self.by_name[name].target
        given = {i.name: i for i in (*self.derivation.derived.inputs, *self.program.inputs)}
        return given[name].entry

    def chosen(self, *names: str) -> tuple[Definition, ...]:
        """Definitions to unfold, in order, those of names that the program does not have aside."""
        return tuple(d for d in self.definitions if d.name in names)

    @property
    def gradients(self) -> tuple[Definition, ...]:
        """All definitions of the backward pass."""
        return tuple(self.backward.values())

    def stated(self, identity: Identity) -> Identity:
        """The identity with what every tensor in it stands for."""
        own = {d.name: d for d in identity.unfold}
        whole = tuple({**self.by_name, **own}.values())
        return replace(identity, definitions=whole, of_program=tuple(self.by_name))


def spelled_out(expr: sp.Expr, definitions: Sequence[Definition]) -> sp.Expr:
    """The expression without the names of definitions, which are given in the order in which they are made."""
    for definition in reversed(definitions):
        expr = unfolded(expr, [definition])
    return expr


def entries_replaced(expr: sp.Expr, tensor: Tensor, by: Callable[[Entry], sp.Expr]) -> sp.Expr:
    """The expression with something else wherever an entry of a tensor stands."""
    return rewrite(expr, lambda e: by(e) if isinstance(e, Entry) and e.base == tensor else e)


def with_entries_replaced(
    definitions: Iterable[Definition], tensor: Tensor, by: Callable[[Entry], sp.Expr]
) -> tuple[Definition, ...]:
    """The definitions with something else wherever an entry of a tensor stands."""
    return tuple(replace(d, value=entries_replaced(d.value, tensor, by)) for d in definitions)


def renamed(definitions: Sequence[Definition], suffix: str) -> tuple[Definition, ...]:
    """The definitions with a suffix after the names of what they define, wherever it stands in them."""
    new = {d.target.tensor: d.target.tensor.over(*d.axes, name=f"{d.name}_{suffix}") for d in definitions}

    def entry(node: sp.Expr) -> sp.Expr:
        return new[node.base][node.indices] if isinstance(node, Entry) and node.base in new else node

    return tuple(replace(d, target=new[d.target.tensor][d.axes], value=rewrite(d.value, entry)) for d in definitions)
