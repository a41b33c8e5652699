"""A whole derivation as plain records, text, Markdown, LaTeX or JSON. One list of records feeds them all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from derive.calculus import Derivation, Step, compact_form
from derive.forward.program import Definition, Program
from derive.printers.notation import Notation, Writer


@dataclass(frozen=True)
class Line:
    """One formula with what led to it."""

    name: str
    left: str
    right: str
    shape: str
    rule: str
    before: str
    reason: str


@dataclass(frozen=True)
class Page:
    """A derivation, written out: forward definitions, rewriting steps, and the resulting program."""

    program: str
    title: str
    mode: str
    notation: str
    forward: tuple[Line, ...]
    steps: tuple[Line, ...]
    result: tuple[Line, ...]
    compact: tuple[Line, ...]
    notes: tuple[str, ...]


def page(
    derivation: Derivation, notation: Notation, mode: str = "backward", *, latex: bool = False, compact: bool = False
) -> Page:
    """Write a derivation in a notation; ``latex`` chooses LaTeX formulas over Unicode ones.

    ``compact`` adds the gradients written out in what arrives; a program that names its branches has them anyway.
    """
    program = derivation.forward
    writer = Writer(program, notation, latex=latex)
    return Page(
        program.name,
        program.summary,
        mode,
        notation,
        tuple(_forward(d, writer) for d in program.definitions),
        tuple(_step(s, writer) for s in derivation.steps),
        tuple(_result(d, derivation, writer) for d in derivation.derived.definitions),
        tuple(_compact(derivation, writer)) if mode == "backward" and (compact or program.branches) else (),
        tuple(_notes(program, writer, mode)),
    )


def _forward(definition: Definition, writer: Writer) -> Line:
    value = writer.value(definition.target, definition.value)
    reason = writer.per_slice(definition) or ""
    return Line(
        definition.name,
        writer.left(definition.target),
        value,
        writer.shape(definition.target),
        "definition",
        "",
        reason,
    )


def _step(step: Step, writer: Writer) -> Line:
    left = writer.left(step.target)
    before = "; ".join(writer.equation(d) for d in step.forward) or writer.value(step.target, step.before)
    after = writer.value(step.target, step.after)
    return Line(
        step.name, left, after, writer.shape(step.target), step.rule, before if before != after else "", step.reason
    )


def _result(definition: Definition, derivation: Derivation, writer: Writer) -> Line:
    steps = derivation.steps_for(definition.name)
    differentiated = [s for s in steps if s.forward] or list(steps)
    rule = " + ".join(dict.fromkeys(s.rule for s in differentiated))
    reason = "; ".join(dict.fromkeys(s.reason for s in differentiated))
    value = writer.value(definition.target, definition.value)
    return Line(
        definition.name, writer.left(definition.target), value, writer.shape(definition.target), rule, "", reason
    )


def _compact(derivation: Derivation, writer: Writer) -> Iterator[Line]:
    """The gradients written out, with a label under each branch where a program names its branches."""
    for form in compact_form(derivation, writer.style.names):
        values = [writer.value(form.target, branch.value) for branch in form.branches]
        labels = [branch.label for branch in form.branches]
        below = map(_escaped, labels) if writer.latex else labels
        terms = [writer.style.branch(label, value) for label, value in zip(below, values, strict=True)]
        yield Line(
            str(form.target.tensor.name),
            writer.left(form.target),
            " + ".join(terms),
            writer.shape(form.target),
            "" if writer.latex else " + ".join(labels),
            "",
            " + ".join(labels),
        )


def _notes(program: Program, writer: Writer, mode: str) -> list[str]:
    """What the letters stand for."""
    notes = []
    for parameter in program.parameters:
        if parameter.symbol in writer.defaults:
            default = writer.index.print(parameter.default)
            notes.append(f"{default} is the default of the parameter {parameter.name}, which {parameter.meaning}")
    for output in program.outputs:
        name = f"d{output.name}"
        if mode == "backward" and name in writer.style.names and writer.notation != "index":
            notes.append(f"{writer.name(name)} is the gradient that arrives for {output.name}")
    return notes


def markdown(document: Page) -> str:
    """A Markdown section with display formulas; the page must have been written with ``latex=True``."""
    title = f"{plain(document.program)}: {document.mode} in {document.notation} notation"
    lines = [f"# {title}", "", _opening(plain(document.title)), ""]
    lines += ["## Forward", "", *_displayed(document.forward), "## Steps", ""]
    for number, step in enumerate(document.steps, 1):
        lines += [f"{number}. **{plain(step.rule)}**: {plain(step.reason)}.", ""]
        if step.before:
            lines += [f"   From $${step.before}$$", ""]
        lines += [f"   $${step.left} = {step.right}$$", ""]
    lines += ["## Result", "", *_displayed(document.result)]
    lines += ["## Compact", "", *_displayed(document.compact)] if document.compact else []
    lines += [f"- {_dollars(note)}." for note in document.notes]
    return "\n".join(lines).rstrip() + "\n"


def _dollars(note: str) -> str:
    """Set the formula that opens a note in mathematics."""
    formula, verb, rest = note.partition(" is the ")
    return f"${formula}${verb}{plain(rest)}"


def plain(text: str) -> str:
    """Text whose characters mean nothing to Markdown, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&])", r"\\\1", re.sub(r"\s*\n\s*", " ", text))


def _opening(text: str) -> str:
    """Plain text at the beginning of a line, where spaces, a dash or a number would make something else of it."""
    return re.sub(r"^(\d*)([-+.)])", r"\1\\\2", text.lstrip())


def _displayed(lines: tuple[Line, ...]) -> list[str]:
    shown = []
    for line in lines:
        shown += [f"$${line.left} = {line.right}$$", ""]
    return shown


def latex(document: Page) -> str:
    """Forward definitions, steps and result, ready to paste; needs amsmath."""
    return (
        "\n\n".join(
            [
                f"% Forward\n{_aligned(document.forward)}",
                f"% Steps\n{_enumerated(document.steps)}",
                f"% {document.mode.replace('-', ' ').capitalize()}\n{_aligned(document.result)}",
                *([f"% Compact\n{_aligned(document.compact)}"] if document.compact else []),
            ]
        )
        + "\n"
    )


def _aligned(lines: tuple[Line, ...]) -> str:
    """Equations under one another, each with its rule."""
    rules = (rf" && \text{{{_escaped(line.rule)}}}" if line.rule else "" for line in lines)
    body = " \\\\\n".join(rf"  {line.left} &= {line.right}{rule}" for line, rule in zip(lines, rules, strict=True))
    return f"\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _enumerated(steps: tuple[Line, ...]) -> str:
    """Numbered steps: rule and reason, what it starts from, and what it gives."""
    items = []
    for step in steps:
        formula = rf"{step.left} = {step.right}"
        if step.before:
            formula = rf"{step.before} \quad\Longrightarrow\quad {formula}"
        items.append(rf"  \item \textbf{{{_escaped(step.rule)}}}: {_escaped(step.reason)}. \[ {formula} \]")
    return "\n".join(["\\begin{enumerate}", *items, "\\end{enumerate}"])


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "_#%&${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}"}
    | {"|": r"\textbar{}", "^": r"\^{}", "ᵀ": r"\textsuperscript{T}", "\n": " "}
)


def _escaped(text: str) -> str:
    """Words for LaTeX text: what it would take as commands is escaped."""
    return text.translate(_LATEX)


def as_json(document: Page) -> str:
    """The page as JSON, for other tools."""
    data: dict[str, Any] = asdict(document)
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
