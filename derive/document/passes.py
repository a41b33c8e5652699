"""Examples 1 to 4: forward, then back to V and A, through the softmax, and to Q and K, number by number."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from derive.document import values
from derive.document.evidence import checked_slope
from derive.document.example import Example
from derive.document.model import Block, Line, Paragraph, Section, Work, line, paragraph
from derive.document.run import cut
from derive.document.working import combined, dot, softmaxed, worked_out
from derive.errors import ProofError
from derive.forward.program import Definition
from derive.mistakes.changes import drop_factor
from derive.proof import Symbolic, interpret

ENTRIES_SHOWN = 3
"""How long a row of ∇S may be for each of its entries to get a line."""


def forward_pass(example: Example) -> Section:
    """Inputs, scores, weights, outputs."""
    sizes, words = example.run.sizes, example.forward.axis_meaning
    axes = sorted({a for i in example.forward.inputs for a in i.axes}, key=lambda a: list(words).index(a.name))
    *most, last = (f"${a.size} = {(k := sizes[str(a.size)])}$ {_counted(words[a.name], k)}" for a in axes)
    given = [line(f"{i.name} = {example.given(i.name)}", f"The {i.meaning}.") for i in example.forward.inputs]
    return Section(
        "Example 1: going forward",
        (
            paragraph(f"Take {', '.join(most)} and {last}. {_small_letters(example)}"),
            Work(tuple(given)),
            Work((*_visibility(example), *_scores(example), *_weights(example), *_product(example, "O"))),
        ),
    )


def values_and_weights(example: Example, *, given: bool) -> Section:
    """∇V and ∇A."""
    G, O, dV, dA = (example.name(t) for t in ("dO", "O", "dV", "dA"))
    source = (
        "Let the rest of the network return" if given else "None was given, so take a pattern of small integers for"
    )
    return Section(
        "Example 2: back to V and A",
        (
            paragraph(f"{source} ${G}$, which has the shape of ${O}$. Find ${dV}$ and ${dA}$."),
            Work((line(f"{G} = {example.given('dO')}"),)),
            Work((*_product(example, "dV"), *_dot_products(example, "dA"))),
            _checked(example, "V", "A"),
        ),
    )


def through_softmax(example: Example) -> Section:
    """∇S, a query at a time."""
    r, S = example.definition("r"), example.definition("dS")
    slices = example.writer.per_slice(example.definition("A"))
    work = [each for k in example.some_rows("dS") for each in _row_of_scores(example, r, S, k)]
    work.append(line(f"{example.left(S)} {example.equals('dS')}", example.others("dS")))
    blocks: list[Block] = [
        paragraph(f"Find ${example.equation(S)}$ {slices}, with ${example.equation(r)}$."),
        Work(tuple(work)),
    ]
    if example.run.sizes[str(S.axes[1].size)] == 2:
        blocks.append(_two_keys(example))
    return Section("Example 3: through the softmax", (*blocks, _checked(example, "S")))


def queries_and_keys(example: Example) -> Section:
    """∇Q and ∇K."""
    dQ, dK, dS = (example.name(t) for t in ("dQ", "dK", "dS"))
    shapes = f"${example.concrete_shape('dQ')}$ and ${example.concrete_shape('dK')}$"
    blocks: list[Block] = [
        paragraph(f"Last, ${dQ}$ and ${dK}$, of shape {shapes}."),
        Work((*_product(example, "dQ"), *_product(example, "dK"))),
    ]
    keys = example.rows("dK")
    if len(keys) == 2 and all((a + b).negligible for a, b in zip(*keys, strict=True)):
        why = f"because the numbers of each {example.row} of ${dS}$ sum to 0"
        blocks.append(paragraph(f"One {example.row} of ${dK}$ is the other with its sign changed, {why}."))
    return Section("Example 4: back to Q and K", (*blocks, _checked(example, "Q", "K")))


def _visibility(example: Example) -> list[Line]:
    visible = [d for d in example.forward.definitions if d.target.tensor.boolean]
    work = []
    for definition in visible:
        used = [p.name for p in example.forward.parameters if definition.value.has(p.symbol)]
        given = ", ".join(f"${example.parameter(p)} {values.equated(example.run.parameters[p])}$" for p in used)
        work.append(line(example.equation(definition), f"With {given}; positions count from 0." if given else ""))
        numbers = f"{example.name(definition.name)} {example.equals(definition.name)}"
        work.append(line(numbers, "1 is visible, 0 is hidden."))
    return work


def _scores(example: Example) -> list[Line]:
    """The products first, then the scale."""
    S = example.definition("S")
    products = replace(S, value=drop_factor("scale")(S.value))
    numbers = example.run.value(S.axes, products.value)
    place = f"entry ${example.where(1, 1)}$ of ${example.value(products)}$"
    scale = f"{example.parameter('scale')} {values.equated(example.run.parameters['scale'])}"
    return [
        line(f"{example.value(products)} {example.equals_of(numbers)}"),
        line(dot(example, products, 0, 0), label=place),
        line(f"{example.equation(S)} {example.equals('S')}", f"Every product times ${scale}$."),
    ]


def _weights(example: Example) -> list[Line]:
    A = example.definition("A")
    work = [line(example.equation(A), f"A softmax {example.writer.per_slice(A)}.")]
    for k in example.some_rows("A"):
        row, scores = example.rows("A")[k], example.rows("S")[k]
        equal = len(row) > 1 and all(x.agrees(y[0]) for y in (row, scores) for x in y)
        note = "Scores that are alike share the weight." if equal else ""
        work.append(line(softmaxed(example, A, k), note, label=_row(example, "A", k)))
    return [*work, line(f"{example.left(A)} {example.equals('A')}", example.others("A"))]


def _product(example: Example, name: str) -> list[Line]:
    """A matrix product: the formula, its rows as combinations, an entry of O, and the result."""
    definition = example.definition(name)
    work = [line(example.equation(definition), _reason(example, definition))]
    for k in example.some_rows(name):
        work.append(line(combined(example, definition, k), label=_row(example, name, k)))
    if name == "O":
        last = len(example.rows(name)[0])
        entry = worked_out(example, definition, 0, last - 1)
        work.append(line(entry, label=f"entry ${example.where(1, last)}$ of ${example.name(name)}$"))
    return [*work, line(f"{example.name(name)} {example.equals(name)}", example.others(name))]


def _dot_products(example: Example, name: str) -> list[Line]:
    """A product whose entries are worked out one by one: the result, and the last entry of its first row."""
    definition = example.definition(name)
    last = len(example.rows(name)[0])
    place = f"entry ${example.where(1, last)}$ of ${example.name(name)}$"
    return [
        line(f"{example.equation(definition)} {example.equals(name)}", _reason(example, definition)),
        line(dot(example, definition, 0, last - 1), label=place),
    ]


def _row_of_scores(example: Example, r: Definition, S: Definition, position: int) -> list[Line]:
    """One query: its average, its entries, and that they sum to 0."""
    row = example.rows("dS")[position]
    formula = f"{example.name('r')}_{{{position + 1}}} = {worked_out(example, r, position)}"
    dA, A = example.name("dA"), example.name("A")
    note = f"The average of {example.row} {position + 1} of ${dA}$, weighted by that {example.row} of ${A}$."
    work = [line(formula, note)]
    if len(row) <= ENTRIES_SHOWN:
        for k in range(len(row)):
            place = f"entry ${example.where(position + 1, k + 1)}$ of ${example.name('dS')}$"
            work.append(line(worked_out(example, S, position, k), label=place))
    sums = "These sum to 0." if position == 0 else "So do these."
    return [*work, line(f"{values.relation(row)} {values.row(row)}", sums, label=_row(example, "dS", position))]


def _two_keys(example: Example) -> Paragraph:
    """What a row is when there are two keys: the definition, run on letters, has to say the same."""
    names = [example.entry(tensor, "i", k) for tensor in ("A", "dA") for k in (1, 2)]
    a, x, y = sp.symbols("a x y")
    part = cut(example.backward, ("A", "dA"), "dS")
    row = interpret(part, {"A": [[a, 1 - a]], "dA": [[x, y]]}, arithmetic=Symbolic())["dS"][0]
    if any(sp.expand(found - sign * a * (1 - a) * (x - y)) != 0 for found, sign in zip(row, (1, -1), strict=True)):
        raise ProofError(f"two keys: {row} is not a₁a₂(x₁ − x₂) and its negative; a document may not say so")
    formula = f"{names[0]} {names[1]} ({names[2]} - {names[3]})"
    return paragraph(f"With two keys a {example.row} is always ${formula}$ and the same with the other sign.")


def _reason(example: Example, definition: Definition) -> str:
    """Why the formula holds, and how its shapes fit."""
    shapes = example.shapes(definition)
    fit = f"${shapes}$ makes ${example.shape(definition)}$." if shapes else ""
    if not definition.name.startswith("d"):
        return f"Each {example.row} mixes the values with one query's weights. {fit}".strip()
    return f"{example.reason(example.step(definition.name))} {fit}".strip()


def _checked(example: Example, *tensors: str) -> Paragraph:
    rates = " and ".join(f"${values.decimal(checked_slope(example, t))}$ in ${example.name(t)}$" for t in tensors)
    return paragraph(
        "Checked by forward mode, which never runs the backward pass: in a fixed direction of small integers the loss "
        f"changes at a rate of {rates}. The gradient gives the same to 40 digits."
    )


def _small_letters(example: Example) -> str:
    name = example.forward.inputs[0].name
    return (
        f"A small letter is a {example.row}: ${example.slice(name, 1)}$ is {example.row} 1 of ${example.name(name)}$."
    )


def _row(example: Example, tensor: str, position: int) -> str:
    return f"{example.row} {position + 1} of ${example.name(tensor)}$"


def _counted(meaning: str, count: int) -> str:
    """``queries``, or ``query`` if there is one."""
    if count != 1:
        return meaning
    return f"{meaning.removesuffix('ies')}y" if meaning.endswith("ies") else meaning.removesuffix("s")
