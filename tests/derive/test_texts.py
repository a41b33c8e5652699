"""Texts of programs: they come out as they are, wherever they stand; what nothing can show is refused."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from derive.algebra import Axis, Total
from derive.calculus import backward
from derive.document.html import to_html
from derive.document.markdown import to_markdown
from derive.document.mathml import mathml
from derive.document.model import Belief, Document, Paragraph, Points, Question, Section
from derive.errors import DefinitionError, DeriveError
from derive.forward import Builder, Program, Writing
from derive.forward.texts import check_texts
from derive.pipeline import TARGETS, derivation, module
from derive.printers import derivation as printed
from numeric.kernels import module_of
from numeric.reports import as_json, as_junit, verdicts_as_json
from numeric.terminal import show_page
from numeric.verify import Finding

i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")

HOSTILE = (
    'say "no"',
    '"',
    '""',
    '"""',
    '""""""',
    '"""; import os; """',
    "'''",
    "back\\slash\\",
    '\\"""',
    "two\nlines\n\n  and a third",
    "\\N{BULLET} \\x41 \\u \\777",
    "{braces} {0} }{ %s %(x)s",
    "<script>alert(1)</script> <!-- ]]> &lt; &",
    "[red]loud[/red] [/] [link=x]",
    "$x$ # % & ~ ^ _ *bold* `code` | a | ![b](c) ~~d~~ __e__",
    r"\end{document} \input{x} }",
    "- a list",
    "+ a list",
    "1. one",
    "1) one",
    "---",
    "===",
    "    code",
    "# heading",
    "> quote",
    "tab\there",
    "a line\u2028separator, a right-to-left \u202e mark, a hard\xa0space",
    "ᵀ −∞ 😀",
    "",
)
"""What the places where texts stand could take for something else."""

NOWHERE = ("\0", "\x1b[31m", "a\rb", "\x7f", "\x85", "\b", "\ud800", "\udc00", "\ufffe", "\uffff")


@cache
def told(text: str) -> Program:
    """A program that says a text wherever a program can; X takes two paths to Y."""
    p = Builder("told", text)
    X, W = p.input("X", i, c, meaning=text), p.input("W", j, c, meaning=text)
    bias = p.input("bias", i, j, meaning=text, optional=0)
    scale = p.parameter("scale", 1 / c.size, text)
    U = p.define("U", (i, j), scale * Total(X[i, c] * W[j, c], c) + bias[i, j])
    Z = p.define("Z", (i, j), Total(X[i, c] ** 2, c) * U[i, j])
    p.define("Y", (i,), Total(U[i, j] * Z[i, j], j))
    return p.output("Y", text).build(
        axis_meaning=dict.fromkeys("ijc", text),
        branches={"U": f"{text} 1", "Z": f"{text} 2"},
    )


def words(text: str) -> list[str]:
    """The text without what spaces it."""
    return text.split()


# Code.


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("target", TARGETS)
def test_generated_code_compiles_and_its_signature_gives_texts_back(text: str, target: str) -> None:
    source = module(told(text), target)
    compile(source, "told", "exec")
    made = module_of(source.replace("import cupy as xp", "import numpy as xp"), "told")
    signature = made.SIGNATURE
    assert signature.program == "told"
    assert [given.meaning for given in signature.inputs] == [text] * 3
    assert [parameter.meaning for parameter in signature.parameters] == [text]
    assert [output.meaning for output in signature.outputs] == [text]


@pytest.mark.parametrize("text", HOSTILE)
def test_docstrings_say_texts_as_they_are(text: str) -> None:
    """Further lines are indented with the docstring that they stand in."""
    made = module_of(module(told(text), "numpy"), "told")
    assert made.__doc__.startswith(f"{text}\n")
    assert made.forward.__doc__.startswith("\n".join(f"    {line}" if line else "" for line in text.split("\n"))[4:])
    flat = words(made.forward.__doc__)
    for said in (f"X [.., n, d]: {text}", f"bias [.., n, m]: {text}, optional", f"scale: {text} (default"):
        wanted = words(said)
        assert any(flat[k : k + len(wanted)] == wanted for k in range(len(flat)))


@pytest.mark.parametrize("text", NOWHERE)
def test_code_holds_even_what_a_program_made_by_hand_says(text: str) -> None:
    """Nobody has asked the texts of a program that no builder made; they break no code all the same."""
    made = replace(told("x"), summary=text, outputs=tuple(replace(o, meaning=text) for o in told("x").outputs))
    source = module(made, "numpy")
    source.encode()
    signature = module_of(source, "told").SIGNATURE
    assert [output.meaning for output in signature.outputs] == [text]


# Pages.


def page(text: str, *, latex: bool) -> printed.Page:
    return printed.page(derivation(told(text)), "row", latex=latex)


@pytest.mark.parametrize("text", HOSTILE)
def test_json_gives_texts_back(text: str) -> None:
    read = json.loads(printed.as_json(page(text, latex=False)))
    assert read["title"] == text
    assert any(text in step["reason"] for step in read["steps"])
    assert any(text in note for note in read["notes"])


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_texts_and_takes_them_for_nothing_else(text: str) -> None:
    """Rendered: the title is one paragraph of plain text, and nothing but rules and formulas is set apart."""
    markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py comes with rich")
    written = page(text, latex=True)
    without = re.sub(r"(?<!\\)\$\$.+?(?<!\\)\$\$", "FORMULA", printed.markdown(written))
    tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(without)
    kinds = {t.type.removesuffix("_open").removesuffix("_close") for t in tokens}
    assert kinds <= {"heading", "paragraph", "inline", "ordered_list", "bullet_list", "list_item"}
    assert [t.markup for t in tokens if t.type == "heading_open"] == ["#", *["##"] * 4]
    lines = [[t for t in token.children or () if t.content or t.nesting] for token in tokens if token.type == "inline"]
    shown = [words("".join(t.content for t in line)) for line in lines]
    assert {t.type for line in lines for t in line} <= {"text", "strong_open", "strong_close"}
    if text:
        assert shown[1] == words(text)
    for step in written.steps:
        assert words(f"{step.rule}: {step.reason}.") in shown
    assert any(words(f"is the default of the parameter scale, which {text}.") == line[1:] for line in shown)


COMMANDS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\textsuperscript{T}": "ᵀ",
    r"\^{}": "^",
    **{f"\\{c}": c for c in "_#%&${}"},
}


def as_typeset(source: str) -> str:
    """What LaTeX makes of a text, if it is no more than plain text."""
    parts = re.split("(" + "|".join(map(re.escape, COMMANDS)) + ")", source)
    assert not any(set(part) & set("\\{}$&#^_~%") for part in parts[::2]), parts
    return "".join(COMMANDS.get(part, part) for part in parts)


@pytest.mark.parametrize("text", HOSTILE)
def test_latex_shows_texts_and_takes_them_for_nothing_else(text: str) -> None:
    """Reasons and the labels under braces, read back as LaTeX reads plain text."""
    written = page(text, latex=True)
    source = printed.latex(written)
    items = re.findall(r"\\item \\textbf\{.*?\}: (.*) \\\[", source)
    assert [words(as_typeset(item)) for item in items] == [words(f"{step.reason}.") for step in written.steps]
    labels = re.findall(r"\\underbrace\{.*?\}_\{\\text\{(.*? [12])\}\}", source)
    assert [words(as_typeset(label)) for label in labels] == [words(f"{text} {k}") for k in (1, 2)]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_shows_texts_as_they_are(text: str) -> None:
    out = io.StringIO()
    show_page(Console(file=out, width=100, highlight=False), page(text, latex=False))
    shown = "".join(words(out.getvalue()))
    assert "".join(words(f"row notation {text} Forward")) in shown
    assert "".join(words(f"which {text}.")) in shown


# Reports.


def findings(text: str) -> list[Finding]:
    return [
        Finding(text, text, "numpy", "checked", "fails", 3.0, text),
        Finding(text, text, "cupy", "", "not measured", None, text),
        Finding(text, text, "numpy", "checked", "fails", float("inf"), text),
        Finding(text, text, "numpy", "checked", "fails", float("nan"), text),
    ]


@pytest.mark.parametrize("text", [*HOSTILE, *NOWHERE])
def test_reports_for_machines_are_well_formed_whatever_they_say(text: str) -> None:
    report = as_json(findings(text))
    report.encode()
    read = json.loads(report, parse_constant=pytest.fail)
    assert [row["detail"] for row in read] == [text] * 4
    assert [row["error"] for row in read] == [3.0, None, "inf", "nan"]
    assert list(json.loads(verdicts_as_json({text: []}))) == [text]
    junit = as_junit(findings(text))
    junit.encode()
    suites = ElementTree.fromstring(junit)
    shown = text if text in HOSTILE else text.encode("unicode_escape").decode()
    assert [suite.get("name") for suite in suites] == [shown]
    assert [case.get("name") for case in suites[0]] == [f"{shown} ({e})" for e in ("checked", "", "checked", "checked")]
    assert [(failure.text or "") for failure in suites.iter("failure")] == [shown] * 3
    assert [skipped.get("message") for skipped in suites.iter("skipped")] == [shown]


# Documents.


class Reader(HTMLParser):
    """The elements and the text of a page, style sheet aside."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.attributes: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append(tag)
        self.attributes += [value for name, value in attrs if name == "content"]

    def handle_data(self, data: str) -> None:
        self.text += data


def document(text: str) -> Document:
    said = (text,)
    blocks = (Paragraph(said), Points((said,)), Belief(said), Question(said, (Paragraph(said),)))
    return Document(text, text, (Paragraph(said),), (Section(text, blocks),))


@pytest.mark.parametrize("text", HOSTILE)
def test_html_shows_texts_and_takes_them_for_nothing_else(text: str) -> None:
    reader, plain = Reader(), Reader()
    reader.feed(to_html(document(text)))
    plain.feed(to_html(document("PLAIN")))
    assert reader.elements == plain.elements
    assert text in reader.attributes
    assert reader.text == plain.text.replace("PLAIN", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_documents_in_markdown_set_nothing_of_a_text_apart(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py comes with rich")
    tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(to_markdown(document(text)))
    inline = {t.type for token in tokens for t in token.children or ()}
    assert inline <= {"text", "strong_open", "strong_close", "html_inline"}
    assert {token.content.strip() for token in tokens if token.type == "html_block"} <= {
        "<details>\n<summary>Answer</summary>",
        "</details>",
    }


@pytest.mark.parametrize("formula", [r"\left<x\right>", r"\mathrm{<script>}", r"\operatorname{a&b}", "a<b"])
def test_formulas_in_html_open_no_elements(formula: str) -> None:
    found = ElementTree.fromstring(mathml(formula))
    assert {element.tag for element in found.iter()} <= {"math", "mrow", "mo", "mi"}


# What is refused.

X = Axis("i", "n")


def saying(place: str, text: Any) -> Program:
    """A program that says a text in one place."""
    p = Builder(text if place == "name" else "p", text if place == "summary" else "")
    A = p.input("A", X, meaning=text if place == "input" else "")
    scale = p.parameter("scale", 2, text if place == "parameter" else "")
    p.define("B", (X,), scale * A[X])
    writing = Writing(
        text={"A": text} if place == "text" else {}, latex={"A": text} if place == "latex" else {"B": "B"}
    )
    axis = {text: "rows"} if place == "axis" else {"i": text if place == "axis meaning" else "rows"}
    branches = {"B": text} if place == "branch" else {}
    return p.output("B", text if place == "output" else "").build(
        axis_meaning=axis, writing={"row": writing}, branches=branches
    )


PLACES = {
    "name": "its name",
    "summary": "its summary",
    "input": "the meaning of A",
    "parameter": "the meaning of scale",
    "output": "the meaning of B",
    "axis": "the name of an axis that has a meaning",
    "axis meaning": "the meaning of axis 'i'",
    "branch": "the branch through 'B'",
    "text": "the row convention's writing of 'A'",
    "latex": "the row convention's writing of 'A'",
}


@pytest.mark.parametrize("text", NOWHERE)
@pytest.mark.parametrize("place", PLACES)
def test_what_nothing_can_show_is_refused_by_name(place: str, text: str) -> None:
    with pytest.raises(DefinitionError, match=r"has the character '.*', which nothing") as caught:
        check_texts(saying(place, text))
    assert PLACES[place] in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", [None, 5, b"bytes"])
@pytest.mark.parametrize("place", [place for place in PLACES if place != "name"])
def test_what_is_no_text_is_refused(place: str, text: object) -> None:
    with pytest.raises(DefinitionError, match=f"is .*, of type {type(text).__name__}; give a text"):
        check_texts(saying(place, text))


@pytest.mark.parametrize("text", HOSTILE)
def test_all_other_texts_are_taken(text: str) -> None:
    check_texts(told(text))


@pytest.mark.parametrize("name", ["i j", 'i"""', "i\n", "{i}", "1", "", "i'"])
def test_an_axis_has_a_name_that_formulas_can_show(name: str) -> None:
    def build() -> Program:
        axis = Axis(name, "n")
        p = Builder("p", "")
        A = p.input("A", axis)
        p.define("B", (axis,), A[axis] ** 2)
        return p.output("B").build()

    with pytest.raises(DeriveError, match="cannot name an axis"):
        build()


def test_every_program_of_the_catalogue_may_say_what_it_says() -> None:
    from derive.forward import names, program

    for name in names():
        check_texts(program(name))
        check_texts(backward(program(name).plain()).derived)
