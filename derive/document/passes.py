"""Examples 1 to 4: forward, then back to V and A, through the softmax, and to Q and K, number by number."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from derive.document import values
from derive.document.evidence import checked_slope
from derive.document.example import Example
from derive.document.model import Block, Line, Paragraph, Section, Work, line, paragraph
from derive.document.run import cut
from derive.document.working import combined, dot, expanded, softmaxed
from derive.errors import ProofError
from derive.forward.program import Definition
from derive.mistakes.changes import drop_factor
from derive.proof import Symbolic, interpret


def forward_pass(example: Example) -> Section:
    """Inputs, scores, weights, outputs."""
    sizes, words = example.run.sizes, example.forward.axis_meaning
    axes = sorted({a for i in example.forward.inputs for a in i.axes}, key=lambda a: list(words).index(a.name))
    *most, last = (f"${a.size} = {(k := sizes[str(a.size)])}$ {_counted(words[a.name], k)}" for a in axes)
    given = [line(f"{i.name} = {example.matrix(i.name)}", f"The {i.meaning}.") for i in example.forward.inputs]
    return Section(
        "Example 1: the forward pass",
        (
            paragraph(f"Take {', '.join(most)} and {last}."),
            Work(tuple(given)),
            Work((*_visibility(example), *_scores(example), *_weights(example), *_product(example, "O"))),
        ),
    )


def values_and_weights(example: Example, *, given: bool) -> Section:
    """∇V and ∇A."""
    G, O = example.name("dO"), example.name("O")
    source = "The layers above send back" if given else "No gradient was given, so take a fixed pattern of small integers,"
    wanted = f"${example.name('dV')}$ and ${example.name('dA')}$"
    A = example.definition("dA")
    work = [*_product(example, "dV"), line(f"{example.equation(A)} {example.equals('dA')}", _reason(example, A))]
    where = example.where(1, A_last := example.run.sizes[str(A.axes[1].size)])
    work.append(line(dot(example, A, 0, A_last - 1), f"The entry at ${where}$.", label="one entry"))
    return Section(
        "Example 2: back to V and A",
        (
            paragraph(f"{source} ${G}$, with the shape of ${O}$. Find {wanted}."),
            Work((line(f"{G} = {example.matrix('dO')}"),)),
            Work(tuple(work)),
            _checked(example, "V", "A"),
        ),
    )


def through_softmax(example: Example) -> Section:
    """∇S, a query at a time."""
    r, S = example.definition("r"), example.definition("dS")
    work: list[Line] = []
    for k in example.some_rows("dS"):
        label, total = f"{example.row} {k + 1}", example.run.tensors["r"][k]
        formula = f"{example.name('r')}_{{{k + 1}}} = {expanded(example, r, k)} {values.equated(total)}"
        average = f"The average of {example.row} {k + 1} of ${example.name('dA')}$ under its weights."
        work.append(line(formula, average, label=label))
        work += _entries(example, S, k) if example.run.sizes[str(S.axes[1].size)] <= ENTRIES_SHOWN else []
        row = example.rows("dS")[k]
        work.append(line(f"{values.relation(row)} {values.row(row)}", _sums_to_zero(k), label=f"{label} of ${example.name('dS')}$"))
    work.append(line(f"{example.left(S)} {example.equals('dS')}", example.others("dS")))
    blocks: list[Block] = [
        paragraph(f"Find ${example.equation(S)}$ {example.writer.per_slice(example.definition('A'))}, with ${example.equation(r)}$."),
        Work(tuple(work)),
    ]
    if example.run.sizes[str(S.axes[1].size)] == 2:
        blocks.append(_two_keys(example))
    return Section("Example 3: through the softmax", (*blocks, _checked(example, "S")))


def queries_and_keys(example: Example) -> Section:
    """∇Q and ∇K."""
    Q, K = example.name("dQ"), example.name("dK")
    shapes = f"${example.concrete_shape('dQ')}$ and ${example.concrete_shape('dK')}$"
    small = f"Small letters are {example.row}s: ${example.slice('K', 1)}$ is {example.row} 1 of ${example.name('K')}$."
    blocks: list[Block] = [
        paragraph(f"Last, ${Q}$ and ${K}$, of shape {shapes}. {small}"),
        Work((*_product(example, "dQ"), *_product(example, "dK"))),
    ]
    keys = example.rows("dK")
    if len(keys) == 2 and all((a + b).negligible for a, b in zip(*keys, strict=True)):
        zero = f"the numbers of each {example.row} of ${example.name('dS')}$ sum to 0"
        blocks.append(paragraph(f"With two keys, one {example.row} of ${K}$ is the other with its sign changed, because {zero}."))
    return Section("Example 4: back to Q and K", (*blocks, _checked(example, "Q", "K")))


ENTRIES_SHOWN = 3
"""How long a row of ∇S may be for each of its entries to get a line."""


def _visibility(example: Example) -> list[Line]:
    visible = [d for d in example.forward.definitions if d.target.tensor.boolean]
    return [line(f"{example.equation(d)}", f"As numbers: ${example.matrix(d.name)}$.") for d in visible]


def _scores(example: Example) -> list[Line]:
    """The products first, then the scale."""
    S = example.definition("S")
    products = replace(S, value=drop_factor("scale")(S.value))
    numbers = example.run.value(S.axes, products.value)
    first = f"The entry at ${example.where(1, 1)}$: ${dot(example, products, 0, 0)}$."
    scale = example.run.parameters["scale"]
    factor = f"Every product times ${example.parameter('scale')} {values.equated(scale)}$."
    return [
        line(f"{example.value(products)} = {example.matrix_of(numbers)}", first),
        line(f"{example.equation(S)} {example.equals('S')}", factor),
    ]


def _weights(example: Example) -> list[Line]:
    A = example.definition("A")
    work = []
    for k in example.some_rows("A"):
        scores = {x.exact for x in example.rows("S")[k]}
        note = "Equal scores give equal weights." if len(scores) == 1 < len(example.rows("S")[k]) else ""
        work.append(line(softmaxed(example, A, k), note, label=f"{example.row} {k + 1} of ${example.name('A')}$"))
    shown = f"{example.left(A)} {example.equals('A')}"
    note = f"{example.value(A)}" if len(example.value(A)) < 60 else ""
    reason = f"${note}$, {example.writer.per_slice(A)}. " if note else ""
    return [*work, line(shown, f"{reason}{example.others('A')}".strip())]


def _product(example: Example, name: str) -> list[Line]:
    """A matrix product: the formula, its rows as combinations, an entry of the first, and the result."""
    definition = example.definition(name)
    size = example.run.sizes[str(definition.axes[1].size)]
    work = [line(example.equation(definition), _reason(example, definition))]
    for k in example.some_rows(name):
        label = f"{example.row} {k + 1} of ${example.name(name)}$"
        work.append(line(combined(example, definition, k), label=label))
    if name == "O":
        entry = f"{expanded(example, definition, 0, size - 1)} {values.equated(example.rows(name)[0][size - 1])}"
        work.append(line(entry, f"The entry at ${example.where(1, size)}$ of ${example.name(name)}$.", label="one entry"))
    return [*work, line(f"{example.name(name)} {example.equals(name)}", example.others(name))]


def _reason(example: Example, definition: Definition) -> str:
    """Why the formula holds, and how its shapes fit."""
    shapes = example.shapes(definition)
    fit = f"${shapes}$ makes ${example.shape(definition)}$." if shapes else ""
    if not definition.name.startswith("d"):
        return f"Each {example.row} mixes the values with one query's weights. {fit}"
    return f"{example.reason(example.step(definition.name))} {fit}".strip()


def _entries(example: Example, definition: Definition, position: int) -> list[Line]:
    work = []
    for k, value in enumerate(example.rows(definition.name)[position]):
        formula = f"{expanded(example, definition, position, k)} {values.equated(value)}"
        work.append(line(formula, label=f"entry ${example.where(position + 1, k + 1)}$"))
    return work


def _sums_to_zero(position: int) -> str:
    return "These sum to 0." if position == 0 else "So do these."


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


def _checked(example: Example, *tensors: str) -> Paragraph:
    rates = " and ".join(f"${values.decimal(checked_slope(example, t))}$ in ${example.name(t)}$" for t in tensors)
    return paragraph(
        f"Checked by forward mode, which never runs the backward pass: in a fixed direction of small integers the loss "
        f"changes at a rate of {rates}. The gradient gives the same to 40 digits."
    )


def _counted(meaning: str, count: int) -> str:
    """``queries``, or ``query`` if there is one."""
    if count != 1:
        return meaning
    return f"{meaning.removesuffix('ies')}y" if meaning.endswith("ies") else meaning.removesuffix("s")
