"""Programs: ordered definitions with named inputs, parameters and outputs.

A program is data. Differentiation, proof, lowering, printing and documents read it; nothing else
about an operation is written down anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import sympy as sp

from derive.algebra import Axis, Entry, Tensor
from derive.algebra.binders import rewrite
from derive.algebra.tensors import Label
from derive.errors import DefinitionError

Dims = tuple[tuple[Axis, ...], ...]
"""The dimensions of an array, each one axis or several that share it, the last running fastest."""


@dataclass(frozen=True)
class Input:
    """A tensor that the caller gives.

    ``neutral`` makes it optional: leaving the input out is the same as this value everywhere
    (0 for what is added, 1 for what multiplies). An optional input broadcasts to its axes.
    ``dims`` are the dimensions of the caller's array where they differ from the axes: neighbouring axes may share
    one (heads and members of a group, halves and pairs). ``constant`` asks for no gradient.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    meaning: str
    neutral: int | None = None
    dims: Dims = ()
    constant: bool = False

    @property
    def name(self) -> str:
        """The tensor's name."""
        return str(self.tensor.name)

    @property
    def entry(self) -> Entry:
        """The tensor at its own axes."""
        return self.tensor[self.axes]

    @property
    def below(self) -> sp.Expr | None:
        """The size that an integer input's values stay below, if they count positions of an axis."""
        return None if self.tensor.boolean or self.tensor.bounds is None else self.tensor.bounds[1]

    @property
    def negative(self) -> bool:
        """Whether an integer input may hold negative values, where the program hides what they point at."""
        return self.below is not None and bool(self.tensor.bounds[0] < 0)  # type: ignore[index]

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
    """An equation ``target := value``; the only binder in the value is a sum over named axes.

    ``written`` says where its author wrote it, for errors: "variant.py, line 12".
    """

    target: Entry
    value: sp.Expr
    written: str = field(default="", compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name of the defined tensor."""
        return str(self.target.tensor.name)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The target's axes."""
        return self.target.indices  # type: ignore[no-any-return]

    def __str__(self) -> str:
        """The target, and where it was written: what errors say of a definition."""
        return f"{self.target} ({self.written})" if self.written else str(self.target)

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
    def sizes(self) -> tuple[sp.Symbol, ...]:
        """The symbols of all sizes, in order: of inputs, and of axes that only definitions have."""
        axes = [*(a for i in self.inputs for a in i.axes), *(a for d in self.definitions for a in d.axes)]
        axes += sorted({a for d in self.definitions for a in d.value.atoms(Axis)}, key=str)
        symbols = (s for a in axes for s in sorted(a.size.free_symbols, key=str))
        return tuple(dict.fromkeys(symbols))

    @property
    def names(self) -> set[str]:
        """The names of all tensors, parameters and sizes: what a new name must differ from."""
        return {*self.tensors, *(p.name for p in self.parameters), *map(str, self.sizes)}

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
            t.args[0]: Label(names[str(t.name)], **t.args[0].assumptions0) for t in tensors if str(t.name) in names
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
