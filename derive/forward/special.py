"""Special cases of programs: one position alone, or a map that is the identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, free_axes, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.errors import DefinitionError
from derive.forward.program import Definition, Dims, Input, Output, Parameter, Program


def one_of(program: Program, axis: str) -> Program:
    """The program for one position of an axis: every tensor loses it, so that what one query gets stands alone.

    Where a definition uses the position as a number (j ≤ i), it becomes a parameter.

    Raises
    ------
    DefinitionError: there is no such axis, or other positions of it take part.
    """
    used = (*(a for i in program.inputs for a in i.axes), *(a for d in program.definitions for a in d.axes))
    known = {a.name: a for a in used}
    if axis not in known:
        raise DefinitionError(f"{program.name} has no axis {axis!r}; it has {', '.join(known)}")
    gone = known[axis]
    if any(gone in free_axes(d.value) and gone not in d.axes for d in program.definitions):
        raise DefinitionError(f"{program.name}: a sum runs over {axis}, so one position does not stand alone")
    axes = {i.tensor: i.axes for i in program.inputs} | {d.target.tensor: d.axes for d in program.definitions}
    fewer = {t: t.over(*(a for a in own if a != gone)) for t, own in axes.items()}

    def entry(node: sp.Expr) -> sp.Expr:
        if not isinstance(node, Entry):
            return node
        kept = [k for k, a in enumerate(axes[node.tensor]) if a != gone]
        if any(node.indices[k] != gone for k in range(len(node.indices)) if k not in kept):
            raise DefinitionError(
                f"{program.name}: {node.tensor.name} takes part at other positions of {axis} too; fix another axis"
            )
        indices = (node.indices[k] for k in kept)  # an index may hold entries itself, as in W[tokens[i], x]
        return fewer[node.tensor][tuple(x if isinstance(x, Axis) else rewrite(x, entry) for x in indices)]

    made = _changed(
        program, lambda value: rewrite(value, entry), lambda t: fewer[t], lambda own: tuple(a for a in own if a != gone)
    )
    if not any(gone in free_axes(d.value) for d in made.definitions):
        return made
    place = sp.Symbol(gone.name, integer=True, nonnegative=True)
    return replace(
        _changed(made, lambda value: value.xreplace({gone: place}), lambda t: t, lambda own: own),
        parameters=(*made.parameters, Parameter(place, sp.S.Zero, "the position that is taken alone")),
    )


def with_identity(program: Program, name: str) -> Program:
    """The program with a map of two axes set to the identity, so that both have one size.

    Raises
    ------
    DefinitionError: there is no such input, or it is no map between two axes.
    """
    given = program.input(name)
    if len(given.axes) != 2 or not given.differentiable or given.neutral is not None:
        raise DefinitionError(f"{program.name}: {name} is no map between two axes")
    entries = {e for d in program.definitions for e in d.value.atoms(Entry) if e.base == given.tensor}
    if not all(isinstance(index, Axis) for e in entries for index in e.indices):
        raise DefinitionError(f"{program.name}: {name} is a table that is looked up in, not a map between two axes")
    first, second = given.axes
    unified = with_equal_sizes(program, first.size, second.size)
    gone = unified.input(name)

    def identity(node: sp.Expr) -> sp.Expr:
        return Delta(*node.indices) if isinstance(node, Entry) and node.base == gone.tensor else node

    definitions = (
        replace(d, value=from_terms(terms_of(rewrite(d.value, identity)))) if d.mentions(gone.tensor) else d
        for d in unified.definitions
    )
    return replace(unified, inputs=tuple(i for i in unified.inputs if i.name != name), definitions=tuple(definitions))


def with_equal_sizes(program: Program, first: sp.Expr, second: sp.Expr) -> Program:
    """The program with one size for the axes of two."""

    def resized(expr: sp.Basic) -> sp.Basic:
        """The expression with both sizes the same, in its axes too."""
        own = {a: Axis.of(a.name, second) for a in expr.atoms(Axis) if a.size == first}
        return expr.xreplace({**own, first: second})

    parameters = tuple(replace(p, default=resized(p.default)) for p in program.parameters)
    changed = _changed(program, resized, resized, lambda own: tuple(map(resized, own)))
    return replace(changed, parameters=parameters)


def _changed(
    program: Program,
    value: Callable[[sp.Expr], sp.Expr],
    tensor: Callable[[Tensor], Tensor],
    axes: Callable[[tuple[Axis, ...]], tuple[Axis, ...]],
) -> Program:
    """The program with every value, tensor and tuple of axes changed."""

    def dims(item: Input | Output) -> Dims:
        return tuple(own for dim in item.dims if (own := axes(dim)))

    return replace(
        program,
        inputs=tuple(replace(i, tensor=tensor(i.tensor), axes=axes(i.axes), dims=dims(i)) for i in program.inputs),
        definitions=tuple(
            Definition(tensor(d.target.tensor)[axes(d.axes)], value(d.value)) for d in program.definitions
        ),
        outputs=tuple(replace(o, tensor=tensor(o.tensor), axes=axes(o.axes), dims=dims(o)) for o in program.outputs),
    )
