"""A worked example in one convention: what its formulas, matrices, rows and entries are called and look like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from derive.calculus import Step
from derive.document import values
from derive.document.run import Nested, Run
from derive.document.values import Value
from derive.errors import LoweringError
from derive.forward.program import Definition, Program
from derive.lower.arrays import Node, Product, walk
from derive.lower.tensorise import Layout, tensorise
from derive.printers.notation import Writer
from derive.proof.identities import identities
from derive.proof.statements import Identity

ROWS_SHOWN = 4
"""How many rows of a matrix are worked out one by one; the rest go the same way."""


@dataclass(frozen=True)
class Example:
    """A run and the convention that it is written in.

    ``row`` is the word for what belongs to one position: a row where positions are rows, else a column.
    """

    run: Run
    notation: Layout
    scaled_by_default: bool = True

    @cached_property
    def writer(self) -> Writer:
        """Writes formulas as LaTeX; a scale of the user's own is written by name."""
        return Writer(self.forward, self.notation, latex=True, defaults=self.scaled_by_default)

    @cached_property
    def identities(self) -> dict[str, Identity]:
        """What is proved of the program, by name."""
        return {identity.name: identity for identity in identities(self.forward)}

    @property
    def forward(self) -> Program:
        """The forward program."""
        return self.run.derivation.forward

    @property
    def backward(self) -> Program:
        """The derived program."""
        return self.run.derivation.derived

    @property
    def row(self) -> str:
        """The word for what belongs to one position."""
        return self.notation

    @property
    def column(self) -> str:
        """The word for the other direction."""
        return "column" if self.notation == "row" else "row"

    def wrong(self, program: Program) -> Example:
        """The same inputs through another backward program."""
        return replace(self, run=self.run.wrong(program))

    def definition(self, name: str) -> Definition:
        """A forward or backward definition."""
        everything = {d.name: d for d in (*self.forward.definitions, *self.backward.definitions)}
        return everything[name]

    def step(self, name: str) -> Step:
        """The step that differentiates into a tensor."""
        return next(s for s in self.run.derivation.steps_for(name) if s.forward)

    # Formulas

    def name(self, tensor: str) -> str:
        """A tensor's name."""
        return self.writer.name(tensor)

    def left(self, definition: Definition) -> str:
        """The name that a definition gives, with its meaning where the convention has a letter for it."""
        return self.writer.left(definition.target)

    def value(self, definition: Definition) -> str:
        """The right side of a definition."""
        return self.writer.value(definition.target, definition.value)

    def equation(self, definition: Definition) -> str:
        """A definition."""
        return self.writer.equation(definition)

    def entry(self, tensor: str, *indices: int | str) -> str:
        """One entry by its indices in declared order, counted from 1."""
        return self.writer.style.entry(tensor, [str(k) for k in self._laid(indices)])

    def slice(self, tensor: str, position: int) -> str:
        """A position's vector: the small letter of an input, counted from 1."""
        return f"{self.name(tensor).lower()}_{{{position}}}"

    def where(self, *indices: int) -> str:
        """An entry's place in the matrix as it is laid out, counted from 1."""
        return f"({', '.join(str(k) for k in self._laid(indices))})"

    def shape(self, definition: Definition) -> str:
        """The shape in letters."""
        return self.writer.shape(definition.target)

    def concrete_shape(self, tensor: str) -> str:
        """The shape in numbers."""
        values_of = self.run.tensors[tensor]
        return r" \times ".join(map(str, self._laid((len(values_of), len(values_of[0])))))

    def shapes(self, definition: Definition) -> str:
        """The shapes of a matrix product's factors side by side, or nothing where there is no such product."""
        try:
            node = tensorise(definition.value, definition.axes, layout=self.notation)
        except LoweringError:
            return ""
        products = [n for n in walk(node) if isinstance(n, Product)]
        return "".join(f"({_sizes(n)})" for n in (products[0].left, products[0].right)) if len(products) == 1 else ""

    def parameter(self, name: str) -> str:
        """A parameter, or its default in terms of sizes."""
        symbol = next(p.symbol for p in self.forward.parameters if p.name == name)
        return self.writer.index.print(self.writer.defaults.get(symbol, symbol))

    def reason(self, step: Step) -> str:
        """A step's reason as a sentence, with the tensors and parameters that it names set as formulas."""
        tensors = {d.name for d in (*self.forward.definitions, *self.backward.definitions)}
        tensors |= {i.name for i in self.forward.inputs}
        parameters = {p.name for p in self.forward.parameters}

        def formula(match: re.Match[str]) -> str:
            word = match.group()
            if word in parameters:
                return f"${self.parameter(word)}$"
            return f"${self.name(word)}$" if word in tensors else word

        text = re.sub(r"\w+", formula, step.reason)
        return f"{text[0].upper()}{text[1:]}."

    def sentence(self, text: str) -> str:
        """A mistake's sentence, with the tensors in backquotes set as formulas."""
        return re.sub(r"`(\w+)`", lambda match: f"${self.name(match[1])}$", text)

    # Numbers

    def given(self, tensor: str) -> str:
        """A given matrix, exactly."""
        return values.matrix(self._oriented(self.run.tensors[tensor]), values.exactly)

    def matrix_of(self, nested: Nested) -> str:
        """Numbers by queries or keys first, laid out by the convention; a vector as a tuple."""
        return values.row(nested) if isinstance(nested[0], Value) else values.matrix(self._oriented(nested))

    def _oriented(self, nested: Nested) -> Nested:
        return nested if self.notation == "row" else list(zip(*nested, strict=True))

    def equals(self, tensor: str) -> str:
        """``= matrix`` or ``≈ matrix``."""
        return self.equals_of(self.run.tensors[tensor])

    def equals_of(self, nested: Nested) -> str:
        """The same for numbers that have no name."""
        flat = nested if isinstance(nested[0], Value) else [x for one in nested for x in one]
        return f"{values.relation(flat)} {self.matrix_of(nested)}"

    def rows(self, tensor: str) -> Sequence[Sequence[Value]]:
        """The numbers of a tensor, one sequence a position."""
        found: Sequence[Sequence[Value]] = self.run.tensors[tensor]
        return found

    def some_rows(self, tensor: str) -> range:
        """The positions that are worked out one by one, counted from 0."""
        return range(min(len(self.run.tensors[tensor]), ROWS_SHOWN))

    def others(self, tensor: str) -> str:
        """A sentence about the rows that are not worked out, if there are any."""
        rest = len(self.run.tensors[tensor]) - ROWS_SHOWN
        return f"The other {rest} {self.row}s go the same way." if rest > 0 else ""

    def _laid(self, indices: Sequence[int | str]) -> Sequence[int | str]:
        return indices if self.notation == "row" else indices[::-1]


def _sizes(node: Node) -> str:
    return r" \times ".join(str(a.size) for a in node.axes)
