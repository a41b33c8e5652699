"""The mistakes: what each makes of the example, and what gives it away."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import sympy as sp

from derive.algebra import Entry, Tensor, Total, free_axes
from derive.document import values
from derive.document.evidence import proved
from derive.document.example import Example
from derive.document.model import Belief, Block, Line, Section, Work, line, paragraph, words
from derive.document.run import Nested, order
from derive.document.values import Value
from derive.document.working import combined, written_out
from derive.forward.program import Definition, Program
from derive.mistakes import Mistake, apply, assumed_sizes, mistake

SHOWN = ("values_untransposed", "one_softmax_for_all_queries", "scale_lost_in_queries")
"""The mistakes that a page tells, in the order of its examples."""

WORKED_IN = {"dV": 2, "dA": 2, "r": 3, "dS": 3, "dQ": 4, "dK": 4}
"""The example that works a definition out."""

WIDE = 64
"""The width at which a page says what a wrong power of d would do to a real model."""


def mistakes(example: Example) -> Section:
    """The most common mistakes."""
    found = [mistake(name) for name in SHOWN]
    opening = paragraph(
        "Each of these is the derivation with one step changed, run on the numbers above. Each comes with an "
        "equation that right gradients satisfy, whatever the numbers, and that gives the mistake away."
    )
    parts = tuple(_told(example, m, k) for k, m in enumerate(found, 1))
    return Section("Common mistakes", (opening, *parts))


def _told(example: Example, made: Mistake, number: int) -> Section:
    program = apply(made, example.run.derivation)
    right, wrong = example.definition(made.breaks), program.definition(made.breaks)
    place = f"It happens at ${example.name(made.breaks)}$, in Example {WORKED_IN[made.breaks]}."
    return Section(
        f"{number}. {made.title}",
        (
            paragraph(place),
            Work((line(example.equation(right), mark="right"), line(example.equation(wrong), mark="wrong"))),
            Belief(words(example.sentence(made.belief))),
            paragraph(example.sentence(made.why)),
            *_consequences(example, made, program),
        ),
    )


def _consequences(example: Example, made: Mistake, program: Program) -> Iterator[Block]:
    clashes = [(a, b) for a, b in assumed_sizes(program) if example.run.sizes[str(a)] != example.run.sizes[str(b)]]
    if clashes:
        yield _impossible(example, program.definition(made.breaks), clashes)
        return
    wrong = example.wrong(program)
    right_rows, wrong_rows = example.rows(made.breaks), wrong.rows(made.breaks)
    if _same(right_rows, wrong_rows):
        yield paragraph("On these inputs it changes no number: this example is too small, or too regular, to show it.")
        return
    yield Work(tuple(_numbers(example, wrong, program.definition(made.breaks))))
    yield from _ratio(example, made, program)
    if made.violates:
        yield from _violation(example, wrong, made)


def _impossible(example: Example, wrong: Definition, clashes: list[tuple[sp.Expr, sp.Expr]]) -> Block:
    """Which sizes the wrong formula takes to be equal, and which matrices do not fit."""
    sizes = example.run.sizes
    needed = " and ".join(f"${a} = {b}$" for a, b in clashes)
    here = " and ".join(f"${s} = {sizes[str(s)]}$" for pair in clashes for s in pair)
    tensors = sorted({str(e.tensor.name) for e in wrong.value.atoms(Entry)})
    shapes = " and ".join(f"${example.name(t)}$ is ${example.concrete_shape(t)}$" for t in tensors)
    return paragraph(
        f"On this example it cannot be run: it takes {needed}, and here {here}. {shapes}, so the shapes clash in "
        f"${example.value(wrong)}$. With equal sizes nothing would stop it."
    )


def _numbers(example: Example, wrong: Example, definition: Definition) -> Iterator[Line]:
    """What the wrong step makes of the first rows, beside what is right."""
    for total in _common_totals(definition.value):
        name = example.writer.value(Tensor("total")[()], total)
        sums = f"{name} = {written_out(wrong, total)} {values.equated(wrong.run.value((), total))}"
        yield line(sums, f"One number for the whole of ${example.name(definition.name)}$.")
    for k in wrong.some_rows(definition.name):
        right = example.rows(definition.name)[k]
        note = f"The right {example.row} {'is' if values.relation(right) == '=' else 'is about'} ${values.row(right)}$."
        yield line(combined(wrong, definition, k), note, label=f"{example.row} {k + 1}", mark="wrong")


def _common_totals(value: sp.Expr) -> list[sp.Expr]:
    """The sums that a value holds and that are the same at every place."""
    return sorted((t for t in value.atoms(Total) if not free_axes(t)), key=sp.default_sort_key)


def _ratio(example: Example, made: Mistake, program: Program) -> Iterator[Block]:
    """A wrong result that is a multiple of the right one."""
    ratio = program.definition(made.breaks).value / example.definition(made.breaks).value
    if ratio.atoms(Entry, Total):
        return
    number = example.run.value((), ratio)
    ratio = ratio.xreplace(example.writer.defaults)
    text = f"Every number is ${example.writer.index.print(ratio)} {values.equated(number)}$ times the right one"
    width = example.forward.input("Q").tensor.shape[1]
    if ratio.free_symbols == {width}:
        text += f"; at ${width} = {WIDE}$ it would be ${sp.latex(ratio.subs(width, WIDE))}$ times"
    yield paragraph(f"{text}.")


def _violation(example: Example, wrong: Example, made: Mistake) -> Iterator[Block]:
    """The identity that the right gradients keep, with the numbers of both its sides."""
    identity = proved(example, made.violates)
    axes = order(identity.left - identity.right, example.forward)
    target = Tensor("side", *axes)[axes]
    formulas = [example.writer.value(target, side) for side in (identity.left, identity.right)]
    left, right = (wrong.run.value(axes, side) for side in (identity.left, identity.right))
    if _same(left, right):
        return
    proof = f"proved for all sizes: {identity.name}"
    yield paragraph(f"Right gradients satisfy ${formulas[0]} = {formulas[1]}$ ({proof}). These do not:")
    yield Work((line(_sides(wrong, formulas, left, right), mark="wrong"),))


def _sides(wrong: Example, formulas: list[str], left: Nested, right: Nested) -> str:
    """Both sides in numbers; of two matrices, the first entries that differ."""
    if isinstance(left, Value):
        return rf"{formulas[0]} {values.equated(left)} \ne {values.decimal(right)}"
    if isinstance(left[0], Value):
        return rf"{formulas[0]} {values.relation(left)} {values.row(left)} \ne {values.row(right)}"
    places = product(range(len(left)), range(len(left[0])))
    i, j = next((i, j) for i, j in places if not left[i][j].agrees(right[i][j]))
    place = wrong.entry("X", i + 1, j + 1).removeprefix("X")
    first, second = (rf"\left({formula}\right){place}" for formula in formulas)
    numbers = (values.equated(left[i][j]), values.decimal(right[i][j]), values.relation([right[i][j]]))
    return rf"{first} {numbers[0]} \ne {numbers[1]} {numbers[2]} {second}"


def _same(left: Nested, right: Nested) -> bool:
    return all(a.agrees(b) for a, b in zip(_flat(left), _flat(right), strict=True))


def _flat(nested: Nested) -> Iterator[Value]:
    if isinstance(nested, Value):
        yield nested
    else:
        for one in nested:
            yield from _flat(one)
