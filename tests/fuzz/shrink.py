"""Making a finding small: parts of a case are taken away as long as the same finding stays.

A candidate may be any nonsense; it counts only if it is well formed and the verdict on it is of the same kind. Numbers
depend on names and indices alone, so that what is left keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from tests.fuzz import trees as t
from tests.fuzz.draw import Case
from tests.fuzz.names import PLAIN_AXES, PLAIN_PARAMETERS, PLAIN_SIZES, PLAIN_TENSORS
from tests.fuzz.trees import ONE, ZERO, Axis, Definition, Input, Parameter, Program, Tree

Shrunk = TypeVar("Shrunk")

CONDITIONS = (t.Cmp, t.And, t.Or, t.Not)


def shrink(
    case: Shrunk,
    candidates: Callable[[Shrunk], Iterator[Shrunk]],
    stays: Callable[[Shrunk], bool],
    weight: Callable[[Shrunk], int],
    seconds: float = 25.0,
) -> Shrunk:
    """The smallest case found within the time, by taking the first candidate that is lighter, again and again."""
    end, seen = monotonic() + seconds, {str(case)}
    searching = True
    while searching and monotonic() < end:
        searching = False
        for candidate in candidates(case):
            if monotonic() > end:
                break
            if str(candidate) in seen or weight(candidate) >= weight(case):
                continue
            seen.add(str(candidate))
            if stays(candidate):
                case, searching = candidate, True
                break
    return case


# Trees.


def smaller(node: Tree) -> Iterator[Tree]:
    """The tree with one of its nodes replaced by less, large cuts first."""
    if not isinstance(node, (t.Num, *CONDITIONS)):
        yield ONE
        yield ZERO
    for part in t.parts(node):
        if isinstance(part, CONDITIONS) == isinstance(node, CONDITIONS):
            yield part
    if isinstance(node, (t.Add, t.Mul, t.And, t.Or)):
        yield from _with_fewer(node)
    if isinstance(node, t.Sum) and len(node.axes) > 1:
        for axis in node.axes:
            yield t.Sum(tuple(a for a in node.axes if a != axis), node.body)
    inside = t.parts(node)
    for k, part in enumerate(inside):
        for less in smaller(part):
            yield t.with_parts(node, (*inside[:k], less, *inside[k + 1 :]))


def _with_fewer(node: Tree) -> Iterator[Tree]:
    inside = t.parts(node)
    for k in range(len(inside)):
        rest = (*inside[:k], *inside[k + 1 :])
        yield rest[0] if len(rest) == 1 else type(node)(rest)  # type: ignore[call-arg]


def weight_of(node: Tree) -> int:
    """How much a tree holds; 1 and 0 weigh least, and an axis less than other positions."""
    if node in (ONE, ZERO):
        return 2
    return 3 + sum(map(weight_of, t.parts(node))) + (len(node.axes) if isinstance(node, t.Sum) else 0)


# Programs.


def weight_of_program(case: Case) -> int:
    """How much a case holds: its trees, declarations, sizes, and names that are not plain."""
    program = case.program
    trees = sum(weight_of(d.value) + 5 + 2 * len(d.axes) for d in program.definitions)
    flags = sum(i.constant + i.positive + i.negative + bool(i.meaning) + len(i.axes) for i in program.inputs)
    declared = 5 * (len(program.inputs) + len(program.parameters) + len(program.outputs))
    texts = sum(len(text) > 0 for text in (program.summary, *(p.meaning for p in program.parameters)))
    odd = sum(name not in _PLAIN for name in _names(program))
    return trees + flags + declared + texts + 3 * odd + sum(program.sizes.values()) + 10 * case.runs


def smaller_programs(case: Case) -> Iterator[Case]:
    """Cases with something left out; all of them are well formed."""
    for program in _smaller_programs(case.program):
        cleaned = without_unused(program)
        if well_formed(cleaned):
            yield replace(case, program=cleaned)
    if case.runs > 1:
        yield replace(case, runs=1)


def _smaller_programs(program: Program) -> Iterator[Program]:
    for d in program.definitions:
        if d.kind == "real" and program.outputs != (d.name,):
            yield replace(program, outputs=(d.name,))
    for name in program.outputs:
        yield replace(program, outputs=tuple(n for n in program.outputs if n != name))
    yield from _plainer(program)
    for k, d in enumerate(program.definitions):
        for less in smaller(d.value):
            yield _with_definition(program, k, replace(d, value=less))
    yield from _without_axes(program)
    for size, length in program.sizes.items():
        for less_long in range(1, length):
            yield replace(program, sizes={**program.sizes, size: less_long})
    for k, given in enumerate(program.inputs):
        for plain in ({"constant": False}, {"positive": False}, {"negative": False}, {"meaning": ""}):
            inputs = list(program.inputs)
            inputs[k] = replace(given, **plain)
            yield replace(program, inputs=tuple(inputs))


def _with_definition(program: Program, k: int, definition: Definition) -> Program:
    definitions = list(program.definitions)
    definitions[k] = definition
    return replace(program, definitions=tuple(definitions))


def _without_axes(program: Program) -> Iterator[Program]:
    """The program with a tensor that has one axis less, everywhere."""
    for tensor in t.tensors_of(program):
        for k in range(len(tensor.axes)):
            axes = (*tensor.axes[:k], *tensor.axes[k + 1 :])
            yield _everywhere(program, lambda node, x=tensor, k=k: _with_less(node, x.name, k), {tensor.name: axes})


def _with_less(node: Tree, name: str, k: int) -> Tree:
    if isinstance(node, t.Entry) and node.tensor == name:
        return t.Entry(name, (*node.indices[:k], *node.indices[k + 1 :]))
    return node


def _everywhere(
    program: Program, rule: Callable[[Tree], Tree], axes: dict[str, tuple[Axis, ...]] | None = None
) -> Program:
    """The program with a rule applied to all values, and other axes for some tensors."""
    axes = axes or {}
    return replace(
        program,
        inputs=tuple(replace(i, axes=axes.get(i.name, i.axes)) for i in program.inputs),
        definitions=tuple(
            replace(d, axes=axes.get(d.name, d.axes), value=t.rewritten(d.value, rule)) for d in program.definitions
        ),
    )


def without_unused(program: Program) -> Program:
    """The program without what no output needs, where every size can still be read off an input."""
    wanted = set(program.outputs)
    definitions: list[Definition] = []
    for d in reversed(program.definitions):
        if d.name in wanted:
            wanted |= t.tensors_in(d.value)
            definitions.insert(0, d)
    kept = [i for i in program.inputs if i.name in wanted]
    used = {s for d in definitions for s in (*t.sizes_in(d.value), *(a.size for a in d.axes))}
    used |= {i.below.size for i in kept if i.below is not None}
    for given in program.inputs:
        known = {a.size for i in kept for a in i.axes}
        if given not in kept and (not kept or {a.size for a in given.axes} & (used - known)):
            kept.append(given)
    named = {n.name for d in definitions for n in t.walk(d.value) if isinstance(n, t.Param)}
    used |= {a.size for i in kept for a in i.axes} | {i.below.size for i in kept if i.below is not None}
    return replace(
        program,
        inputs=tuple(i for i in program.inputs if i in kept),
        parameters=tuple(p for p in program.parameters if p.name in named),
        definitions=tuple(definitions),
        sizes={s: v for s, v in program.sizes.items() if s in used},
    )


def well_formed(program: Program) -> bool:
    """Whether every definition mentions only its own axes, earlier tensors in full, and returns something."""
    ranks = {i.name: len(i.axes) for i in program.inputs}
    for d in program.definitions:
        entries = [n for n in t.walk(d.value) if isinstance(n, t.Entry)]
        if not t.free_axes(d.value) <= set(d.axes) or any(ranks.get(e.tensor) != len(e.indices) for e in entries):
            return False
        ranks[d.name] = len(d.axes)
    return bool(program.outputs)


# Names.

_PLAIN = {*PLAIN_TENSORS, *PLAIN_AXES, *PLAIN_SIZES, *PLAIN_PARAMETERS, "fuzzed"}


def _names(program: Program) -> list[str]:
    tensors = [x.name for x in t.tensors_of(program)]
    axes = {a.name for x in t.tensors_of(program) for a in x.axes}
    return [program.name, *tensors, *axes, *program.sizes, *(p.name for p in program.parameters)]


def _plainer(program: Program) -> Iterator[Program]:
    """The program with plain names and texts: all at once, then one by one."""
    plain = replace(
        program,
        name="fuzzed",
        summary="",
        inputs=tuple(replace(i, meaning="") for i in program.inputs),
        parameters=tuple(replace(p, meaning="") for p in program.parameters),
    )
    if plain != program:
        yield plain
    tensors = [x.name for x in t.tensors_of(program)]
    sizes, parameters = list(program.sizes), [p.name for p in program.parameters]
    axes = list(dict.fromkeys(a.name for a in _axes_in(program)))
    groups = ((tensors, PLAIN_TENSORS), (axes, PLAIN_AXES), (sizes, PLAIN_SIZES), (parameters, PLAIN_PARAMETERS))
    changes: list[list[dict[str, str]]] = []
    for names, better in groups:
        free = iter([b for b in better if b not in names])
        changes.append([{name: new} for name in names if name not in better and (new := next(free, None))])
    whole = [{old: new for change in group for old, new in change.items()} for group in changes]
    if any(whole):
        yield renamed(program, *whole)
    for k, group in enumerate(changes):
        for change in group:
            yield renamed(program, *(change if k == g else {} for g in range(4)))


def _axes_in(program: Program) -> Iterator[Axis]:
    for x in t.tensors_of(program):
        yield from x.axes
    for d in program.definitions:
        for node in t.walk(d.value):
            if isinstance(node, t.Sum):
                yield from node.axes


def renamed(
    program: Program, tensors: dict[str, str], axes: dict[str, str], sizes: dict[str, str], parameters: dict[str, str]
) -> Program:
    """The program under other names of tensors, axes, sizes and parameters."""

    def axis(a: Axis) -> Axis:
        return Axis(axes.get(a.name, a.name), sizes.get(a.size, a.size))

    def rule(node: Tree) -> Tree:
        if isinstance(node, t.Entry):
            return t.Entry(tensors.get(node.tensor, node.tensor), node.indices)
        if isinstance(node, t.Pos):
            return t.Pos(axis(node.axis))
        if isinstance(node, t.Sum):
            return t.Sum(tuple(map(axis, node.axes)), node.body)
        if isinstance(node, t.Size):
            return t.Size(sizes.get(node.name, node.name))
        return t.Param(parameters.get(node.name, node.name)) if isinstance(node, t.Param) else node

    def given(i: Input) -> Input:
        below = None if i.below is None else axis(i.below)
        return replace(i, name=tensors.get(i.name, i.name), axes=tuple(map(axis, i.axes)), below=below)

    def defined(d: Definition) -> Definition:
        value = t.rewritten(d.value, rule)
        return replace(d, name=tensors.get(d.name, d.name), axes=tuple(map(axis, d.axes)), value=value)

    def parameter(p: Parameter) -> Parameter:
        return replace(p, name=parameters.get(p.name, p.name))

    return replace(
        program,
        inputs=tuple(map(given, program.inputs)),
        parameters=tuple(map(parameter, program.parameters)),
        definitions=tuple(map(defined, program.definitions)),
        outputs=tuple(tensors.get(n, n) for n in program.outputs),
        sizes={sizes.get(s, s): v for s, v in program.sizes.items()},
    )
