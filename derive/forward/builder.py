"""The builder: how a program is written, definition by definition, with errors that say what is wrong and where."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from pathlib import Path

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, free_axes
from derive.algebra.axes import check_axes, is_whole
from derive.algebra.ranges import outside_somewhere
from derive.algebra.tensors import Values, is_gate
from derive.errors import AlgebraError, DefinitionError
from derive.forward.naming import objection, respelled
from derive.forward.program import Definition, Dims, Input, Output, Parameter, Program, Writing
from derive.forward.texts import check_texts

_OWN_PACKAGES = ("derive", "numeric")


def _dims(dims: tuple[Axis | tuple[Axis, ...], ...]) -> tuple[Dims, tuple[Axis, ...]]:
    """Dimensions where axes share one, else nothing; and the axes in order."""
    whole = tuple(d if isinstance(d, tuple) else (d,) for d in dims)
    return (whole if any(len(d) > 1 for d in whole) else ()), tuple(a for d in whole for a in d)


class Builder:
    """Collects a program's parts in the order in which they are written.

    >>> from derive.algebra import Axis, Total
    >>> i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
    >>> p = Builder("scores", "Scores of queries against keys.")
    >>> Q, K = p.input("Q", i, c), p.input("K", j, c)
    >>> S = p.define("S", (i, j), Total(Q[i, c] * K[j, c], c))
    >>> p.output("S").build().definitions[0].value
    Total(K[j, _1]*Q[i, _1], _1)
    """

    def __init__(self, name: str, summary: str) -> None:
        self.name, self.summary = name, summary
        self._inputs: list[Input] = []
        self._parameters: list[Parameter] = []
        self._definitions: list[Definition] = []
        self._outputs: list[Output] = []
        self._axes: dict[str, tuple[Axis, ...]] = {}
        self._tensors: dict[str, Tensor] = {}
        self._sizes: dict[str, sp.Expr] = {}
        self._suffix = ""

    def part(self, suffix: str | int) -> Builder:
        """The same program under construction, with ``_suffix`` after every name that is declared through it.

        A layer that is used several times so has weights of its own each time.
        """
        part = copy(self)
        part._suffix = f"{self._suffix}_{suffix}"
        return part

    def input(
        self,
        name: str,
        *dims: Axis | tuple[Axis, ...],
        meaning: str = "",
        optional: int | None = None,
        values: Values = "real",
        constant: bool = False,
        below: Axis | None = None,
        negative: bool = False,
    ) -> Tensor:
        """Declare an input tensor, dimension by dimension; several axes that share a dimension are a tuple.

        ``optional`` is the value that leaving it out stands for; ``constant`` asks for no gradient; the entries of
        an integer input may be positions ``below`` an axis's size, with ``negative`` ones for nothing.
        """
        name += self._suffix
        shared, axes = _dims(dims)
        if shared and optional is not None:
            raise DefinitionError(f"{self.name}: the optional input {name} has axes that share a dimension")
        within = None if below is None else (-sp.oo if negative else sp.S.Zero, below.size)
        tensor = self._new(name, axes, values, within)
        self._inputs.append(Input(tensor, axes, meaning, optional, shared, constant))
        return tensor

    def parameter(
        self, name: str, default: sp.Expr | int, meaning: str = "", *, integer: bool = False, least: int | None = None
    ) -> sp.Symbol:
        """Declare a scalar parameter, a real number unless ``integer`` is asked for; it gets no gradient."""
        name += self._suffix
        self._take(name)
        default = self._expression(name, default)
        if integer and not is_whole(default):
            raise DefinitionError(f"{self.name}: the default {default} of the integer parameter {name} is no integer")
        symbol = sp.Symbol(name, integer=True) if integer else sp.Symbol(name, real=True)
        self._parameters.append(Parameter(symbol, default, meaning, least))
        return symbol

    def define(self, name: str, axes: tuple[Axis, ...], value: sp.Expr, *, values: Values = "real") -> Tensor:
        """Add the definition ``name[axes] := value``; errors name the definition and what is wrong with it."""
        name += self._suffix
        tensor = self._new(name, axes, values)
        value = self._expression(name, value)
        loose = sorted(a.name for a in free_axes(value) - set(axes))
        if loose:
            raise DefinitionError(
                f"{self.name}: {name}[{', '.join(map(str, axes))}] mentions axis {', '.join(loose)}, which is neither "
                f"an axis of {name} nor summed over; add it to {name}, or sum with Total(…, {', '.join(loose)})"
            )
        self._check_symbols(name, value)
        for entry in sorted(value.atoms(Entry), key=str):
            if entry.base == tensor or entry.base != self._tensors.get(str(entry.tensor.name)):
                raise DefinitionError(
                    f"{self.name}: {name} mentions {entry}, which no input or earlier definition gives"
                )
        self._check_values(name, value, values)
        self._check_places(name, value)
        self._definitions.append(Definition(tensor[axes], value, _written()))
        return tensor

    def output(
        self, name: str, meaning: str = "", *, statistic: bool = False, dims: tuple[Axis | tuple[Axis, ...], ...] = ()
    ) -> Builder:
        """Return a defined tensor, if asked for with several axes in one dimension."""
        if name not in {d.name for d in self._definitions}:
            raise DefinitionError(f"{self.name}: output {name} is not defined")
        if name in {o.name for o in self._outputs}:
            raise DefinitionError(f"{self.name}: output {name} is given twice")
        shared, axes = _dims(dims)
        if dims and axes != self._axes[name]:
            raise DefinitionError(f"{self.name}: output {name} has axes {self._axes[name]}, but its dims have {axes}")
        self._outputs.append(Output(self._tensors[name], self._axes[name], meaning, statistic, shared))
        return self

    def build(
        self,
        *,
        axis_meaning: Mapping[str, str] | None = None,
        writing: Mapping[str, Writing] | None = None,
        branches: Mapping[str, str] | None = None,
    ) -> Program:
        """The finished program.

        Raises
        ------
        DefinitionError: it has no output, a size that nothing determines, or a text that nothing can show.
        """
        if not self._outputs:
            raise DefinitionError(f"{self.name} has no output; end with .output(name)")
        program = Program(
            self.name,
            self.summary,
            tuple(self._inputs),
            tuple(self._parameters),
            tuple(self._definitions),
            tuple(self._outputs),
            dict(axis_meaning or {}),
            dict(writing or {}),
            dict(branches or {}),
        )
        check_texts(program)
        _check_sizes(program)
        return program

    def _take(self, name: str) -> None:
        if (reason := objection(name)) is not None:
            raise DefinitionError(f"{self.name}: {reason}")
        if name in self._tensors or name in {p.name for p in self._parameters}:
            raise DefinitionError(f"{self.name}: {name} is already there; every tensor is defined once")

    def _expression(self, name: str, value: object) -> sp.Expr:
        """A value as an expression of exact numbers: a decimal is the fraction that it spells."""
        if isinstance(value, str):
            raise DefinitionError(f"{self.name}: {name} is given as the text {value!r}; text is never evaluated")
        try:
            expression = sp.sympify(value, strict=True)
        except sp.SympifyError as error:
            raise DefinitionError(f"{self.name}: {name} is given as something that is no expression: {error}") from None
        if not isinstance(expression, sp.Expr):
            raise DefinitionError(f"{self.name}: {name} is given as {expression}, which is no number; use Indicator(…)")
        if expression.has(sp.I, sp.nan, sp.zoo):
            raise DefinitionError(f"{self.name}: {name} is given as {expression}, which is no real number")
        return expression.xreplace({number: sp.Rational(repr(float(number))) for number in expression.atoms(sp.Float)})

    def _check_values(self, name: str, value: sp.Expr, values: Values) -> None:
        """A 0/1 definition is a product of 0/1 factors, and an integer one is made of integers."""
        if values == "boolean" and value not in (0, 1) and not all(map(is_gate, sp.Mul.make_args(value))):
            raise DefinitionError(
                f"{self.name}: {name} is said to be 0 or 1, but {value} is no product of indicators, deltas and "
                "0/1 tensors; write its condition as Indicator(…)"
            )
        if values == "integer" and not is_whole(value):
            raise DefinitionError(f"{self.name}: {name} is said to hold integers, but {value} is not known to be one")

    def _check_places(self, name: str, value: sp.Expr) -> None:
        """No entry is read where its tensor has none, whatever the sizes are."""
        found = outside_somewhere(value)
        if found is not None:
            entry, index, size = found
            raise DefinitionError(
                f"{self.name}: {name} reads {entry}, but {index} leaves 0 … {size} − 1 at some position; multiply by "
                f"Indicator(…) of the positions that count, or keep the index inside with Max, Min or Mod"
            )

    def _check_symbols(self, name: str, value: sp.Expr) -> None:
        """Every scalar in a value is a declared parameter or the size of an axis."""
        known = {p.symbol for p in self._parameters}.union(*(s.free_symbols for s in self._sizes.values()))
        known = known.union(*(a.size.free_symbols for a in value.atoms(Axis)))
        known = known.union(*(i.below.free_symbols for i in self._inputs if i.below is not None))
        labels = {t.args[0] for t in value.atoms(Tensor)}
        for symbol in sorted(value.atoms(sp.Symbol) - known - labels, key=str):
            if not isinstance(symbol, Axis):
                raise DefinitionError(
                    f"{self.name}: {name} mentions {symbol}, which is no parameter; "
                    f"declare it with parameter({symbol.name!r}, …)"
                )

    def _new(
        self,
        name: str,
        axes: tuple[Axis, ...],
        values: Values,
        within: tuple[sp.Expr | int, sp.Expr | int] | None = None,
    ) -> Tensor:
        self._take(name)
        try:
            check_axes(axes, name)
        except AlgebraError as error:
            raise DefinitionError(f"{self.name}: {error}") from None
        for axis in axes:
            known = self._sizes.setdefault(axis.name, axis.size)
            if known != axis.size:
                raise DefinitionError(
                    f"{self.name}: {name} has axis {axis} of size {axis.size}, but its size is {known}"
                )
        self._axes[name] = axes
        self._tensors[name] = Tensor(name, *axes, values=values, within=within)
        return self._tensors[name]


def _check_sizes(program: Program) -> None:
    """Every size has a name and can be read off a required input, and defaults are made of sizes."""
    known: set[sp.Symbol] = set()
    for given in program.inputs:
        for axis in given.axes:
            if not (axis.size.is_Symbol or axis.size.is_Integer):
                raise DefinitionError(
                    f"{program.name}: {given.name} has axis {axis} of size {axis.size}; give an input's axis a size "
                    f"of its own, such as Axis({axis.name!r}, 'length'), and compute with that"
                )
    dims = [dim for i in program.inputs if i.neutral is None for dim in i.dims or [(a,) for a in i.axes]]
    while found := {u[0] for dim in dims if len(u := _unknown(dim, known)) == 1}:
        known |= found
    for size in program.sizes:
        if not str(size).isidentifier():
            raise DefinitionError(f"{program.name}: {str(size)!r} cannot name a size; take letters, digits and _")
        if (reason := respelled(str(size))) is not None:
            raise DefinitionError(f"{program.name}: {reason}")
        if size not in known:
            raise DefinitionError(
                f"{program.name}: the size {size} cannot be read off an input; give a required input an axis of "
                f"size {size}, in a dimension of its own or with axes of known sizes"
            )
    for given in program.inputs:
        if given.below is not None and given.below.is_Symbol and given.below not in known:
            raise DefinitionError(
                f"{program.name}: {given.name} is below the size {given.below}, which no input has; give the tensor "
                f"that {given.name} points into, or leave out below"
            )
    for parameter in program.parameters:
        strange = parameter.default.free_symbols - known
        if strange:
            raise DefinitionError(
                f"{program.name}: the default of {parameter.name} mentions {', '.join(sorted(map(str, strange)))}; "
                "a default may mention numbers and sizes alone"
            )


def _unknown(dim: tuple[Axis, ...], known: set[sp.Symbol]) -> list[sp.Symbol]:
    return [a.size for a in dim if a.size.is_Symbol and a.size not in known]


def _written() -> str:
    """Where the author of a program is: the file and line that called into this package, if a file did."""
    frame = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OWN_PACKAGES:
        frame = frame.f_back  # type: ignore[assignment]
    name = Path(frame.f_code.co_filename).name if frame is not None else ""
    return f"{name}, line {frame.f_lineno}" if name.endswith(".py") else ""
