"""How cotangents flow through a program, before anything is differentiated.

A *statistic* (a mean, a variance, a logarithm of a sum) holds one number for what it reduces. Its cotangent,
and that of a tensor shifted by it, is written out where it lands instead of getting a name: only there does
it meet the factors with which it spells something shorter. So does that of f(u) where u·f(u) is computed.
"""

from __future__ import annotations

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total, is_bound
from derive.forward.program import Definition, Program


class Flow:
    """What each definition passes cotangents to, and which cotangents stay without a name."""

    def __init__(self, program: Program) -> None:
        self.active = {i.name for i in program.inputs if i.differentiable}
        self.mentioned: dict[str, tuple[Tensor, ...]] = {}
        self.statistics: set[str] = set()
        self.unnamed: set[str] = set()
        self._lands: dict[str, frozenset[str]] = {}
        self._first: dict[str, list[str]] = {}
        outputs = {o.name for o in program.outputs}
        for definition in program.definitions:
            self._follow(definition, outputs)
        self._write_out_functions(program, outputs)
        seen: set[str] = set()
        for definition in program.definitions:
            new = {str(t.name) for t in self.mentioned[definition.name]} - seen
            self._first[definition.name] = [i.name for i in program.inputs if i.name in new]
            seen |= new

    def first_used_in(self, name: str) -> list[str]:
        """The inputs whose cotangents are complete once a definition has passed on its own."""
        return self._first[name]

    def _follow(self, definition: Definition, outputs: set[str]) -> None:
        name = definition.name
        entries = [] if definition.target.tensor.discrete else sorted(definition.value.atoms(Entry), key=str)
        entries = [e for e in entries if str(e.tensor.name) in self.active]
        tensors = {str(e.tensor.name): e.tensor for e in entries}
        self.mentioned[name] = tuple(tensors[n] for n in sorted(tensors))
        if not entries:
            return
        self.active.add(name)
        landed = [self._lands[n] if n in self.unnamed else frozenset({n}) for n in tensors]
        self._lands[name] = frozenset().union(*landed)
        if self._reduces(definition, entries):
            self.statistics.add(name)
        shifted = name not in self.statistics and self._is_shift(definition.value, tensors)
        if (name in self.statistics or shifted) and len(self._lands[name]) == 1 and name not in outputs:
            self.unnamed.add(name)

    def _write_out_functions(self, program: Program, outputs: set[str]) -> None:
        """Leave f(u) without a cotangent of its own where it is used beside u alone, as in u·f(u)."""
        users: dict[str, list[str]] = {}
        for definition in program.definitions:
            for tensor in self.mentioned[definition.name]:
                users.setdefault(str(tensor.name), []).append(definition.name)
        for definition in program.definitions:
            entries = definition.value.atoms(Entry)
            if definition.name in outputs or not isinstance(definition.value, sp.Function) or len(entries) != 1:
                continue
            (argument,), using = entries, users.get(definition.name, [])
            elementwise = argument.indices == definition.target.indices
            if elementwise and len(using) == 1 and argument.tensor in self.mentioned[using[0]]:
                self.unnamed.add(definition.name)

    def _reduces(self, definition: Definition, entries: list[Entry]) -> bool:
        """Whether every tensor that a definition mentions is summed (or picked from), or is a statistic itself."""
        own = set(definition.axes)

        def reduced(entry: Entry) -> bool:
            picked = any(not isinstance(i, Axis) or is_bound(i) for i in entry.indices)
            return own <= set(entry.indices) and (picked or str(entry.tensor.name) in self.statistics)

        return all(map(reduced, entries))

    def _is_shift(self, value: sp.Expr, tensors: dict[str, Tensor]) -> bool:
        """Whether a value is a tensor plus a multiple of a statistic: x − mean."""
        terms = sp.Add.make_args(value)
        plain = all(len(t.atoms(Entry)) == 1 and not t.has(Total) and not t.has(sp.Function) for t in terms)
        return len(terms) > 1 and plain and bool(tensors.keys() & self.statistics)
