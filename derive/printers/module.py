"""Whole generated modules: header, signature, a forward and a backward function."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sympy as sp

from derive.algebra import Axis
from derive.algebra.axes import is_size, size_symbol
from derive.calculus import Derivation
from derive.errors import LoweringError
from derive.forward.naming import HELPERS, RESERVED, unused
from derive.forward.program import Input, Output, Parameter, Program
from derive.lower.arrays import Checked, Fill, Positions, Scalar, mentioned, walk
from derive.lower.dense import Kernel, Statement
from derive.printers.arrays import ArrayPrinter, never_zero, scalar_source
from derive.printers.index import IndexPrinter
from derive.printers.style import Text

WIDTH = 110

NO_ARRAY = "xp.zeros(())"
"""What gives numbers their dtype in a program without real inputs."""

TITLES = {"numpy": "NumPy", "cupy": "CuPy", "array_api_strict": "the strict Array API"}


def module_source(kernel: Kernel, plain_operations: int, namespace: str, *, formulas: bool = True) -> str:
    """A module with ``forward`` and ``backward`` for one program over one array namespace.

    ``plain_operations`` is the operation count of the program's plain form, for the header; without ``formulas``,
    docstrings leave out the definitions and steps, which nobody reads in code that is only run.
    """
    return "".join(f"{line}\n" for line in _Module(kernel, plain_operations, namespace, formulas).lines())


class _Module:
    def __init__(self, kernel: Kernel, plain_operations: int, namespace: str, formulas: bool) -> None:
        self.kernel, self.plain_operations, self.namespace = kernel, plain_operations, namespace
        self.formulas = formulas
        self.program: Program = kernel.derivation.forward
        self.derived: Program = kernel.derivation.derived
        self.index = IndexPrinter(Text({}, self.program.tensors), self.program)
        self.absent = kernel.may_be_none
        self.cotangent: Mapping[str, str] = kernel.derivation.names
        self.sizes = self._apart()
        for name in self.program.optional.keys() - self.absent:
            raise LoweringError(
                f"{self.program.name}: the optional input {name} is used where it cannot be left out; "
                "add it as a term of its own definition, or make it required"
            )

    def _apart(self) -> dict[sp.Basic, sp.Basic]:
        """Other names for sizes that are called like something else in the code; they are read off shapes in it."""
        named = {s.name for s in (*self.kernel.forward, *self.kernel.backward)}
        named |= {n for p in (self.program, self.derived) for n in (*p.tensors, *(x.name for x in p.parameters))}
        free = {str(size) for size in self.program.sizes}
        clashing = [size for size in self.program.sizes if str(size) in named or str(size) in RESERVED]
        return {size: size_symbol(unused(f"size_{size}", named | free)) for size in clashing}

    def lines(self) -> Iterator[str]:
        body = [*self._forward(), *(["", "", *self._backward()] if self._gradient_names() else [])]
        text = "\n".join(body)
        yield from self._header()
        if "math." in text:
            yield from ("import math", "")
        yield from (f"import {self.namespace} as xp", "")
        yield "from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec"
        helpers = [h for h in HELPERS if re.search(rf"(?<!\.)\b{h}\(", text)]
        if helpers:
            yield f"from numeric.support import {', '.join(helpers)}"
        yield from ("", *self._signature(), "", "", *body)

    def _header(self) -> Iterator[str]:
        gradients = ", ".join(self.cotangent[name] for name in self._gradient_names())
        yield f'"""{_prose(self.program.summary)}'
        yield ""
        passes = f"Forward ({', '.join(o.name for o in self.program.outputs)})"
        passes += f" and backward ({gradients})" if gradients else ""
        yield from _filled(
            f"{passes} for {TITLES[self.namespace]}, derived from the definitions of `{_prose(self.program.name)}`.", ""
        )
        yield ""
        yield "Generated: do not edit, run `backprove generate`."
        yield ""
        plain = self.program.plain()
        shown = {o.name for o in plain.outputs}
        optional = [*self.program.optional, *(o.name for o in self.program.outputs if o.name not in shown)]
        fully = f", {self.kernel.operations} with {_listed(optional)}" if optional else ""
        made = _listed([o.name for o in plain.outputs])
        which, results = ("both passes", "and gradients") if gradients else ("the pass", "alone")
        yield from _filled(
            f"Array operations of {which}, transposes being views: {self.plain_operations} for the plain program "
            f"({', '.join(i.name for i in plain.inputs)} to {made} {results}){fully}.",
            "",
        )
        if self.kernel.relies_on:
            yield f"Relies on: {', '.join(self.kernel.relies_on)}."
        yield '"""'
        yield ""

    def _signature(self) -> Iterator[str]:
        yield "SIGNATURE = Signature("
        yield f"    program={_literal(self.program.name)},"
        yield "    inputs=("
        for given in self.program.inputs:
            yield f"        {self._tensor_spec(given)},"
        yield "    ),"
        yield "    parameters=("
        for parameter in self.program.parameters:
            yield f"        {_parameter_spec(parameter)},"
        yield "    ),"
        yield "    outputs=("
        for output in self.program.outputs:
            yield f"        {_output_spec(output)},"
        yield "    ),"
        yield f"    gradients={_tuple(self._gradient_names())},"
        yield f"    cotangents={_tuple(self._needed_cotangents())},"
        if self._mark() != "d":
            yield f'    mark="{self._mark()}",'
        yield ")"

    def _tensor_spec(self, given: Input) -> str:
        kind = "boolean" if given.tensor.boolean else "integer" if given.tensor.discrete else "real"
        more = "" if given.neutral is None else f", neutral={given.neutral}"
        more += "" if given.below is None else f', below="{given.below}"'
        more += ", negative=True" if given.negative else ""
        return f'TensorSpec("{given.name}", {_shape(given)}, "{kind}", {_literal(given.meaning)}{more})'

    def _forward(self) -> Iterator[str]:
        ordered = sorted(self.program.inputs, key=lambda i: i.neutral is not None)
        signature = [f"{i.name}: Array" if i.neutral is None else f"{i.name}: Array | None = None" for i in ordered]
        parameters = [_parameter_argument(p) for p in self.program.parameters]
        starred = ["*", *parameters] if parameters else []
        yield from _definition("forward", [*signature, *starred], "tuple[dict[str, Array], Saved]")
        yield f'    """{_prose(self.program.summary, "    ")}'
        yield ""
        yield from self._shapes(self.program.inputs, "    ")
        for parameter in self.program.parameters:
            default = "" if parameter.default.is_number else f" (default {self.index.print(parameter.default)})"
            yield f"    {parameter.name}: {_prose(parameter.meaning, '        ')}{default}"
        yield ""
        outputs = _listed([o.name for o in self.program.outputs])
        more = ", and what the backward pass needs" if self._gradient_names() else ""
        yield from _filled(f"Returns the outputs {outputs}{more}:", "    ")
        yield ""
        for definition in self.program.definitions if self.formulas else ():
            yield from _filled(self.index.equation(definition.target, definition.value), "        ")
        yield '    """'
        yield from self._prologue()
        yield from self._statements(self.kernel.forward, self._always(self.program.inputs))
        yield from self._repeated()
        yield f"    outputs = {_dict((o.name, o.name) for o in self.program.outputs)}"
        kept = (*self.kernel.saved, *self._saved_scalars(), *self._saved_size_names())
        yield f"    return outputs, {_dict((n, n) for n in kept)}"

    def _repeated(self) -> Iterator[str]:
        """Outputs that depend on no input, repeated along the leading axes that the inputs have."""
        varies = {i.name for i in self.program.inputs}
        for statement in self.kernel.forward:
            if varies.intersection(mentioned(statement.node)):
                varies.add(statement.name)
        given = next((i for i in self.program.inputs if i.name not in self.absent), None)
        for output in self.program.outputs if given is not None else ():
            if output.name not in varies:
                ranks = f"{len(given.axes)}, {len(output.axes)}"  # type: ignore[union-attr]
                yield f"    {output.name} = repeated(xp, {output.name}, {given.name}, {ranks})"  # type: ignore[union-attr]

    def _backward(self) -> Iterator[str]:
        cotangents = [i for i in self.derived.inputs if i.neutral == 0 and i.name not in self.kernel.saved]
        cotangents.sort(key=lambda i: i.name in self.absent)
        arguments = [
            f"{i.name}: Array | None = None" if i.name in self.absent else f"{i.name}: Array" for i in cotangents
        ]
        kept = [f"{n}: Array | None" if n in self.absent else f"{n}: Array" for n in self.kernel.saved]
        scalars = [f"{n}: float" for n in self._saved_scalars()] + [f"{n}: int" for n in self._saved_size_names()]
        keywords = ["*", *kept, *scalars] if kept or scalars else []
        yield from _definition("backward", [*arguments, *keywords], "dict[str, Array]")
        yield f'    """{_prose(self.derived.summary, "    ")}'
        yield ""
        yield from self._shapes(tuple(cotangents), "    ")
        yield ""
        yield from _filled(f"Returns the gradients with respect to {_listed(self._gradient_names())}. Steps:", "    ")
        yield ""
        if self.formulas:
            yield from derivation_lines(self.kernel.derivation, self.index)
        yield '    """'
        sources = self._saved_sources()
        yield from _sizes(_sizes_in(self.kernel.backward) - self._saved_sizes(), sources, self.sizes)
        discrete = {d.name for d in self.program.definitions if d.target.tensor.discrete}
        discrete |= {i.name for i in (*self.derived.inputs, *self.program.inputs) if i.tensor.discrete}
        yield from self._statements(self.kernel.backward, next((n for n in sources if n not in discrete), NO_ARRAY))
        yield f"    return {_dict((n, self.cotangent[n]) for n in self._gradient_names())}"

    def _shapes(self, tensors: Sequence[Input], indent: str) -> Iterator[str]:
        for given in tensors:
            shape = ", ".join(("..", *map(str, given.tensor.shape)))
            optional = ", optional" if given.name in self.absent else ""
            yield f"{indent}{given.name} [{shape}]: {_prose(given.meaning, f'{indent}    ')}{optional}"

    def _prologue(self) -> Iterator[str]:
        """Read the sizes that statements and defaults mention off the inputs, and fill in parameters."""
        sizes = {s for p in self.program.parameters for s in p.default.free_symbols}
        sources = {i.name: i.axes for i in self.program.inputs if i.neutral is None}
        yield from _sizes(_sizes_in(self.kernel.forward) | sizes | self._saved_sizes(), sources, self.sizes)
        for parameter in self.program.parameters:
            if not parameter.default.is_number:
                yield f"    if {parameter.name} is None:"
                yield f"        {parameter.name} = {scalar_source(never_zero(parameter.default.xreplace(self.sizes)))}"

    def _saved_sizes(self) -> set[sp.Expr]:
        """The sizes that the backward function mentions and cannot read off what it is given."""
        readable = {axis.size for axes in self._saved_sources().values() for axis in axes}
        return _sizes_in(self.kernel.backward) - readable

    def _saved_size_names(self) -> list[str]:
        return sorted(str(size.xreplace(self.sizes)) for size in self._saved_sizes())

    def _always(self, inputs: Sequence[Input]) -> str:
        """A real input that is always given."""
        names = (i.name for i in inputs if i.name not in self.absent and not i.tensor.discrete)
        return next(names, NO_ARRAY)

    def _saved_sources(self) -> dict[str, tuple[Axis, ...]]:
        """The axes of what the backward function is given."""
        given = {i.name: i.axes for i in (*self.derived.inputs, *self.program.inputs)}
        given |= {d.name: d.axes for d in self.program.definitions}
        names = (*(self.cotangent[n] for n in self._needed_cotangents()), *self.kernel.saved)
        return {n: given[n] for n in names if n in given and n not in self.absent}

    def _statements(self, statements: Iterable[Statement], like: str) -> Iterator[str]:
        whole = {d.name for p in (self.program, self.derived) for d in p.definitions if d.target.tensor.discrete}
        for statement in statements:
            given = frozenset({statement.guard} if statement.guard else ())
            printer = ArrayPrinter(self.absent - given, like, self.sizes)
            indent = "    "
            if statement.guard:
                yield f"    if {statement.guard} is not None:"
                indent = "        "
            text = printer.array(statement.node, whole=statement.name in whole)
            yield from _wrapped(f"{indent}{statement.name} = {text}")

    def _gradient_names(self) -> tuple[str, ...]:
        made = {o.name for o in self.derived.outputs}
        return tuple(i.name for i in self.program.inputs if self.cotangent[i.name] in made)

    def _mark(self) -> str:
        """What stands before a tensor's name in the name of its cotangent."""
        name, cotangent = next(iter(self.cotangent.items()))
        return cotangent.removesuffix(name)

    def _needed_cotangents(self) -> tuple[str, ...]:
        """The outputs whose cotangent the backward function cannot do without."""
        names = {i.name for i in self.derived.inputs}
        return tuple(o.name for o in self.program.outputs if self.cotangent[o.name] in names - self.absent)

    def _saved_scalars(self) -> tuple[str, ...]:
        """The parameters that the backward pass mentions, in its formulas or in what hides something."""
        nodes = (node for statement in self.kernel.backward for node in walk(statement.node))
        used = {str(s) for node in nodes if isinstance(node, Scalar) for s in node.value.free_symbols}
        return tuple(p.name for p in self.program.parameters if p.name in used)


def _sizes_in(statements: Sequence[Statement]) -> set[sp.Expr]:
    """The sizes that statements mention as numbers."""
    used: set[sp.Expr] = set()
    for node in (n for statement in statements for n in walk(statement.node)):
        if isinstance(node, Positions):
            used |= node.axis.size.free_symbols
        elif isinstance(node, Fill):
            used |= {size for axis in node.axes for size in axis.size.free_symbols}
        elif isinstance(node, Checked):
            used |= node.length.free_symbols
        elif isinstance(node, Scalar):
            used |= set(filter(is_size, node.value.free_symbols))
    return used


def _sizes(
    used: set[sp.Expr], sources: Mapping[str, tuple[Axis, ...]], names: Mapping[sp.Basic, sp.Basic]
) -> Iterator[str]:
    """Statements that read sizes off shapes, under the names that they have in code."""
    for size in sorted(used, key=str):
        name, axes = next((n, a) for n, a in sources.items() if size in [x.size for x in a])
        place = [a.size for a in axes].index(size) - len(axes)
        yield f"    {size.xreplace(names)} = {name}.shape[{place}]"


def derivation_lines(derivation: Derivation, index: IndexPrinter) -> Iterator[str]:
    """The derived definitions with the rules that led to each, for a docstring."""
    for definition in derivation.derived.definitions:
        rules = dict.fromkeys(step.rule for step in derivation.steps_for(definition.name))
        yield from _filled(f"{index.equation(definition.target, definition.value)}    ({', '.join(rules)})", "        ")


def _definition(name: str, arguments: list[str], returns: str) -> Iterator[str]:
    line = f"def {name}({', '.join(arguments)}) -> {returns}:"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"def {name}("
    yield from (f"    {argument}," for argument in arguments)
    yield f") -> {returns}:"


def _wrapped(line: str) -> Iterator[str]:
    """A statement on one line, or one long call with an argument a line."""
    call = re.fullmatch(r"(\s*)(\w+ = [\w.]+\()(.*)\)", line)
    arguments = _arguments(call[3]) if call and len(line) > WIDTH else None
    if call is None or arguments is None:
        yield line
        return
    yield call[1] + call[2]
    yield from (f"{call[1]}    {argument}," for argument in arguments)
    yield f"{call[1]})"


def _arguments(text: str) -> list[str] | None:
    """The arguments of a call, or None where the text is not the inside of one pair of brackets."""
    depth, start, arguments = 0, 0, []
    for at, character in enumerate(f"{text},"):
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            return None
        if character == "," and depth == 0:
            arguments.append(text[start:at].strip())
            start = at + 1
    return arguments


def _filled(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    " if indent else "")


def _literal(text: str) -> str:
    """A text as a Python string, which has the same value whatever the text holds."""
    return '"' + "".join(_escaped(c) if c != '"' else r"\"" for c in text) + '"'


def _prose(text: str, indent: str = "") -> str:
    """A text within a docstring, its further lines indented."""
    lines = ("".join(map(_escaped, line)).replace('"""', r"\"\"\"") for line in text.split("\n"))
    return "\n".join(f"{indent}{line}" if line and number else line for number, line in enumerate(lines))


def _escaped(character: str) -> str:
    plain = character.isprintable() and character != "\\"
    return character if plain else character.encode("unicode_escape").decode()


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _dict(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}"


def _tuple(items: Iterable[str]) -> str:
    texts = [f'"{item}"' for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _parameter_spec(parameter: Parameter) -> str:
    kind = "integer" if parameter.symbol.is_integer else "real"
    least = "" if parameter.least is None else f", least={parameter.least}"
    return f'ParameterSpec("{parameter.name}", "{kind}", {_literal(parameter.meaning)}{least})'


def _output_spec(output: Output) -> str:
    statistic = ", statistic=True" if output.statistic else ""
    return f'OutputSpec("{output.name}", {_shape(output)}, {_literal(output.meaning)}{statistic})'


def _shape(tensor: Input | Output) -> str:
    """The sizes of a caller's array; axes that share a dimension are multiplied."""
    dims = tensor.dims or tuple((axis,) for axis in tensor.axes)
    return _tuple("*".join(str(axis.size) for axis in dim) for dim in dims)


def _parameter_argument(parameter: Parameter) -> str:
    kind = "int" if parameter.symbol.is_integer else "float"
    if parameter.default.is_number:
        return f"{parameter.name}: {kind} = {parameter.default}"
    return f"{parameter.name}: {kind} | None = None"
