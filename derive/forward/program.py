"""Programs: ordered definitions with named inputs, parameters and outputs.

A program is data. Differentiation, proof, lowering, printing and documents read it; nothing else
about an operation is written down anywhere.
"""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, free_axes
from derive.algebra.axes import check_axes
from derive.algebra.binders import rewrite
from derive.algebra.tensors import Values
from derive.errors import AlgebraError, DefinitionError

Dims = tuple[tuple[Axis, ...], ...]
"""The dimensions of an array, each one axis or several that share it, the last running fastest."""


@dataclass(frozen=True)
class Input:
    """A tensor that the caller gives.

    ``neutral`` makes it optional: leaving the input out is the same as this value everywhere
    (0 for what is added, 1 for what multiplies). An optional input broadcasts to its axes.
    ``dims`` are the dimensions of the caller's array where they differ from the axes: neighbouring axes may share
    one (heads and members of a group, halves and pairs). ``constant`` asks for no gradient. An integer input whose
    entries count positions of an axis is ``below`` that axis's size; ``negative`` ones are allowed where the program
    hides what they point at.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    meaning: str
    neutral: int | None = None
    dims: Dims = ()
    constant: bool = False
    below: sp.Expr | None = None
    negative: bool = False

    @property
    def name(self) -> str:
        """The tensor's name."""
        return str(self.tensor.name)

    @property
    def entry(self) -> Entry:
        """The tensor at its own axes."""
        return self.tensor[self.axes]

    @property
    def differentiable(self) -> bool:
        """Whether a gradient is asked for: all but constants, 0/1 and integer tensors."""
        return not self.constant and not self.tensor.discrete


@dataclass(frozen=True)
class Parameter:
    """A scalar that the caller may set, no smaller than ``least``; no gradient. ``default`` may mention sizes."""

    symbol: sp.Symbol
    default: sp.Expr
    meaning: str
    least: int | None = None

    @property
    def name(self) -> str:
        """The symbol's name."""
        return str(self.symbol.name)


@dataclass(frozen=True)
class Definition:
    """An equation ``target := value``; the only binder in the value is a sum over named axes."""

    target: Entry
    value: sp.Expr

    @property
    def name(self) -> str:
        """The name of the defined tensor."""
        return str(self.target.tensor.name)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The target's axes."""
        return self.target.indices  # type: ignore[no-any-return]

    def mentions(self, tensor: Tensor) -> bool:
        """Whether the value uses a tensor."""
        return any(entry.base == tensor for entry in self.value.atoms(Entry))

    def at(self, *axes: sp.Expr) -> sp.Expr:
        """The value at other indices."""
        return self.value.xreplace(dict(zip(self.axes, axes, strict=True)))

    def as_input(self) -> Input:
        """The defined tensor as an input of a program that is run later."""
        return Input(self.target.tensor, self.axes, f"{self.name} of the forward pass")


@dataclass(frozen=True)
class Output:
    """A tensor that the program returns; ``statistic`` marks one kept in the accumulation dtype.

    ``dims`` are the dimensions of the array that the caller gets, as for an input.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    meaning: str
    statistic: bool = False
    dims: Dims = ()

    @property
    def name(self) -> str:
        """The tensor's name."""
        return str(self.tensor.name)

    @property
    def entry(self) -> Entry:
        """The tensor at its own axes."""
        return self.tensor[self.axes]


@dataclass(frozen=True)
class Writing:
    """How a convention writes a program: names that differ from the tensors' own, as text and LaTeX."""

    text: Mapping[str, str] = field(default_factory=dict)
    latex: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """Named inputs, parameters, ordered definitions and outputs; immutable.

    ``axis_meaning`` says what each axis runs over ("queries"), for reasons in steps;
    ``writing`` holds the names that the row and column conventions use; ``branches`` what the paths of a cotangent
    are called that lead through a definition ("query"), for a compact form; ``principal`` are the outputs of its plain
    form, where they are more than the first.
    """

    name: str
    summary: str
    inputs: tuple[Input, ...]
    parameters: tuple[Parameter, ...]
    definitions: tuple[Definition, ...]
    outputs: tuple[Output, ...]
    axis_meaning: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, Writing] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)
    principal: tuple[str, ...] = ()

    def input(self, name: str) -> Input:
        """The input of that name."""
        return _named(self.name, "input", self.inputs, name)

    def output(self, name: str) -> Output:
        """The output of that name."""
        return _named(self.name, "output", self.outputs, name)

    def definition(self, name: str) -> Definition:
        """The definition of that name."""
        return _named(self.name, "definition", self.definitions, name)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of all inputs and definitions, in order."""
        return (*(i.name for i in self.inputs), *(d.name for d in self.definitions))

    @property
    def names(self) -> set[str]:
        """The names of all tensors and parameters: what a new name must differ from."""
        return {*self.tensors, *(p.name for p in self.parameters)}

    @property
    def optional(self) -> dict[str, int]:
        """The optional inputs and the values that leaving them out stands for."""
        return {i.name: i.neutral for i in self.inputs if i.neutral is not None}

    @property
    def principal_outputs(self) -> tuple[str, ...]:
        """The names of the outputs of the plain form: the principal ones, the first if none is said to be."""
        return self.principal or (self.outputs[0].name,)

    def plain(self) -> Program:
        """The program with its required inputs and its principal outputs alone."""
        return self.without(*self.optional).returning(*self.principal_outputs)

    def without(self, *names: str) -> Program:
        """The program with optional inputs left out: each is replaced by its neutral value."""
        dropped = {self.input(name).tensor: self.input(name) for name in names}
        for given in dropped.values():
            if given.neutral is None:
                raise DefinitionError(f"{self.name}: input {given.name} is not optional")

        def neutral(expr: sp.Expr) -> sp.Expr:
            gone = dropped.get(expr.base) if isinstance(expr, Entry) else None
            return expr if gone is None else sp.Integer(gone.neutral)

        definitions = []
        outputs = {o.tensor for o in self.outputs}
        constants: dict[Tensor, sp.Expr] = {}
        for definition in self.definitions:
            value = rewrite(definition.value, lambda e: constants.get(e.base, e) if isinstance(e, Entry) else e)
            value = rewrite(value, neutral)
            if value.is_number:
                constants[definition.target.base] = value
            if not value.is_number or definition.target.base in outputs:
                definitions.append(replace(definition, value=value))
        kept = tuple(i for i in self.inputs if i.tensor not in dropped)
        return replace(self, inputs=kept, definitions=tuple(definitions))

    def renamed(self, names: Mapping[str, str]) -> Program:
        """The program with other names for some of its tensors."""
        tensors = [*(i.tensor for i in self.inputs), *(d.target.tensor for d in self.definitions)]
        labels = {
            t.args[0]: sp.Symbol(names[str(t.name)], **t.args[0].assumptions0) for t in tensors if str(t.name) in names
        }
        return replace(
            self,
            inputs=tuple(replace(i, tensor=i.tensor.xreplace(labels)) for i in self.inputs),
            definitions=tuple(
                Definition(d.target.xreplace(labels), d.value.xreplace(labels)) for d in self.definitions
            ),
            outputs=tuple(replace(o, tensor=o.tensor.xreplace(labels)) for o in self.outputs),
            principal=tuple(names.get(name, name) for name in self.principal),
        )

    def returning(self, *names: str) -> Program:
        """The program with only the named outputs, and only the definitions that they need."""
        outputs = tuple(self.output(name) for name in names)
        needed = {o.tensor for o in outputs}
        definitions: list[Definition] = []
        for definition in reversed(self.definitions):
            if definition.target.base in needed:
                needed |= {e.base for e in definition.value.atoms(Entry)}
                definitions.insert(0, definition)
        return replace(self, definitions=tuple(definitions), outputs=outputs)


def unused(stem: str, taken: Collection[str], *, numbered: bool = False) -> str:
    """The first of ``stem, stem2, stem3 …`` that is not taken; if numbered, of ``stem_1, stem_2 …``."""
    names = (f"{stem}_{k}" for k in count(1)) if numbered else (stem if k == 1 else f"{stem}{k}" for k in count(1))
    return next(name for name in names if name not in taken)


def unfolded(expr: sp.Expr, definitions: Iterable[Definition]) -> sp.Expr:
    """The expression with the values of the given definitions in place of the tensors that they define, once."""
    known = {d.target.base: d for d in definitions}

    def value(node: sp.Expr) -> sp.Expr:
        source = known.get(node.base) if isinstance(node, Entry) else None
        return node if source is None else source.at(*node.indices)

    return rewrite(expr, value)


Item = TypeVar("Item", Input, Output, Definition)


def _named(program: str, kind: str, items: Sequence[Item], name: str) -> Item:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise DefinitionError(f"{program} has no {kind} {name!r}; it has {known}")


def _dims(dims: tuple[Axis | tuple[Axis, ...], ...]) -> tuple[Dims, tuple[Axis, ...]]:
    """Dimensions where axes share one, else nothing; and the axes in order."""
    whole = tuple(d if isinstance(d, tuple) else (d,) for d in dims)
    return (whole if any(len(d) > 1 for d in whole) else ()), tuple(a for d in whole for a in d)


HELPERS = (
    *("all_of", "as_numbers", "erf", "filled", "gathered", "matmul", "maximum", "minimum", "sigmoid"),
    *("visible_matmul", "visible_max", "visible_only"),
)
"""The functions of :mod:`numeric.support` that generated code may call."""

_BUILTINS = ("xp", "math", "Array", "Saved", "SIGNATURE", "dict", "str", "float", "int", "tuple")
RESERVED = frozenset((*HELPERS, *_BUILTINS, "forward", "backward", "outputs"))
"""Names that generated code needs for itself."""


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
        tensor = self._new(name, axes, values)
        size = None if below is None else below.size
        self._inputs.append(Input(tensor, axes, meaning, optional, shared, constant, size, negative))
        return tensor

    def parameter(
        self, name: str, default: sp.Expr | int, meaning: str = "", *, integer: bool = False, least: int | None = None
    ) -> sp.Symbol:
        """Declare a scalar parameter, a real number unless ``integer`` is asked for; it gets no gradient."""
        name += self._suffix
        default = sp.sympify(default)
        self._take(name)
        symbol = sp.Symbol(name, integer=True) if integer else sp.Symbol(name, real=True)
        self._parameters.append(Parameter(symbol, default, meaning, least))
        return symbol

    def define(self, name: str, axes: tuple[Axis, ...], value: sp.Expr, *, values: Values = "real") -> Tensor:
        """Add the definition ``name[axes] := value``; errors name the definition and what is wrong with it."""
        name += self._suffix
        tensor = self._new(name, axes, values)
        if isinstance(value, str):
            raise DefinitionError(f"{self.name}: {name} is defined by the text {value!r}; text is never evaluated")
        try:
            value = sp.sympify(value)
        except sp.SympifyError as error:
            raise DefinitionError(
                f"{self.name}: {name} is defined by something that is no expression: {error}"
            ) from None
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
        self._definitions.append(Definition(tensor[axes], value))
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
        """The finished program."""
        if not self._outputs:
            raise DefinitionError(f"{self.name} has no output; end with .output(name)")
        return Program(
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

    def _take(self, name: str) -> None:
        if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            raise DefinitionError(
                f"{self.name}: {name!r} cannot name a variable in generated code; choose another name"
            )
        if name in self._tensors or name in {p.name for p in self._parameters}:
            raise DefinitionError(f"{self.name}: {name} is already there; every tensor is defined once")

    def _check_symbols(self, name: str, value: sp.Expr) -> None:
        """Every scalar in a value is a declared parameter or the size of an axis."""
        known = {p.symbol for p in self._parameters}.union(*(s.free_symbols for s in self._sizes.values()))
        known = known.union(*(a.size.free_symbols for a in value.atoms(Axis)))
        labels = {t.args[0] for t in value.atoms(Tensor)}
        for symbol in sorted(value.atoms(sp.Symbol) - known - labels, key=str):
            if not isinstance(symbol, Axis):
                raise DefinitionError(
                    f"{self.name}: {name} mentions {symbol}, which is no parameter; "
                    f"declare it with parameter({symbol.name!r}, …)"
                )

    def _new(self, name: str, axes: tuple[Axis, ...], values: Values) -> Tensor:
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
        self._tensors[name] = Tensor(name, *axes, values=values)
        return self._tensors[name]
