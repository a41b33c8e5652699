"""A derivation in row, column or index notation: formulas for definitions, steps and reasons.

Row convention: positions are rows, O = A V. Column convention: positions are columns, O = V A.
Index notation: entries, without a convention.
"""

from __future__ import annotations

from typing import Literal

import sympy as sp

from derive.algebra import Axis, Entry, free_axes
from derive.errors import LoweringError, PrintingError
from derive.forward import softmax
from derive.forward.program import Definition, Program, Writing
from derive.lower.tensorise import tensorise
from derive.printers.index import IndexPrinter
from derive.printers.matrix import MatrixPrinter
from derive.printers.style import Latex, Style, Text

Notation = Literal["row", "column", "index"]
NOTATIONS: tuple[Notation, ...] = ("row", "column", "index")


class Writer:
    """Writes a program's formulas in one notation and style.

    Parameters
    ----------
    program: the forward program, whose letters are used.
    notation: ``"row"``, ``"column"`` or ``"index"``.
    latex: LaTeX instead of Unicode text.
    defaults: whether parameters with a default in terms of sizes are written as that: 1/√d for scale.
    """

    def __init__(self, program: Program, notation: Notation, *, latex: bool = False, defaults: bool = True) -> None:
        writing = program.writing.get(notation, Writing())
        self.program, self.notation, self.latex = program, notation, latex
        tensors = program.tensors
        self.style: Style = Latex(writing.latex, tensors) if latex else Text(writing.text, tensors)
        self.index = IndexPrinter(self.style, program)
        self.matrix = MatrixPrinter(self.style)
        self.defaults = {p.symbol: p.default for p in program.parameters if defaults and not p.default.is_number}

    def name(self, tensor: str) -> str:
        """A tensor's name: the convention's own letter if it has one."""
        return self.style.name(tensor)

    def plain_name(self, tensor: str) -> str:
        """A tensor's name without the convention's letters: ∇A, where the convention says G̃."""
        plain = Latex({}, self.program.tensors) if isinstance(self.style, Latex) else Text({}, self.program.tensors)
        return plain.name(tensor)

    def left(self, target: Entry) -> str:
        """The left side of a definition: the name, with its meaning where the convention renames a gradient."""
        if self.notation == "index" or len(target.indices) > 2:
            return self.index.print(target)
        own, name = self.style.names, str(target.tensor.name)
        if name in own and name.startswith("d"):
            return f"{self.style.name(name)} = {self.plain_name(name)}"
        return self.style.name(name)

    def value(self, target: Entry, value: sp.Expr) -> str:
        """The right side of a definition. What a convention cannot write as matrices is written by entries."""
        value = value.xreplace(self.defaults)
        if self.notation == "index" or target.tensor.boolean:
            return self.index.value(target, value)
        form = softmax.recognise(Definition(target, value))
        if form is not None and form.visible in (1, sp.S.One) and form.beside == 0:
            return self.style.function("softmax", self.value(target, form.score))
        try:
            axes: tuple[Axis, ...] = target.indices
            return self.matrix.print(tensorise(value, axes, layout=self.notation))
        except (LoweringError, PrintingError):
            return self.index.value(target, value)

    def equation(self, definition: Definition) -> str:
        """``left = value``."""
        return f"{self.left(definition.target)} = {self.value(definition.target, definition.value)}"

    def shape(self, target: Entry) -> str:
        """The shape of a tensor as the notation lays it out, ``n × d``."""
        sizes = [str(a.size) for a in target.indices]
        if self.notation == "column":
            sizes.reverse()
        return (r" \times " if isinstance(self.style, Latex) else " × ").join(sizes or ["1"])

    def per_slice(self, definition: Definition) -> str | None:
        """``row by row`` for a softmax over rows, in this notation's words."""
        form = softmax.recognise(definition)
        if form is None or self.notation == "index" or len(free_axes(definition.target)) != 2:
            return None
        last = definition.axes[-1] == form.over
        return "row by row" if last == (self.notation == "row") else "column by column"
