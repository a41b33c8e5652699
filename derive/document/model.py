"""A document without a format: sections of words, formulas and worked lines.

Formulas are LaTeX, as :class:`derive.printers.style.Latex` writes it; every printer of documents starts
from the same tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from derive.errors import DocumentError


@dataclass(frozen=True)
class Math:
    """A formula within a sentence."""

    latex: str


Words = tuple[str | Math, ...]
"""A sentence: plain text and formulas."""

Mark = Literal["", "right", "wrong"]


def words(text: str) -> Words:
    """Plain text with formulas between dollar signs: ``words("every row of $A$")``."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        raise DocumentError(f"a formula does not end in {text!r}")
    return tuple(Math(part) if k % 2 else part for k, part in enumerate(parts) if part)


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    words: Words


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: tuple[Words, ...]


@dataclass(frozen=True)
class Line:
    """One line of work: what it is about, a formula, and the reason for it."""

    formula: str
    note: Words = ()
    label: Words = ()
    mark: Mark = ""


@dataclass(frozen=True)
class Work:
    """Lines that follow from one another."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Belief:
    """A sentence that people say, and that is wrong."""

    words: Words


@dataclass(frozen=True)
class Question:
    """A question, with an answer that the reader opens."""

    ask: Words
    answer: tuple[Block, ...]


@dataclass(frozen=True)
class Section:
    """A headed part."""

    title: str
    blocks: tuple[Block, ...]

    def section(self, title: str) -> Section:
        """The part whose title starts with the given words."""
        return _titled(self.blocks, title)

    def formulas(self) -> tuple[str, ...]:
        """The formulas of all worked lines, those of parts within included, in order."""
        return tuple(line.formula for block in _walk(self.blocks) if isinstance(block, Work) for line in block.lines)


Block = Paragraph | Points | Work | Belief | Question | Section


@dataclass(frozen=True)
class Document:
    """A titled page. ``summary`` is plain text for previews."""

    title: str
    summary: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]

    def section(self, title: str) -> Section:
        """The section whose title starts with the given words."""
        return _titled(self.sections, title)


def paragraph(text: str) -> Paragraph:
    """A paragraph from text with formulas between dollar signs."""
    return Paragraph(words(text))


def points(*texts: str) -> Points:
    """A list from texts with formulas between dollar signs."""
    return Points(tuple(map(words, texts)))


def line(formula: str, note: str = "", *, label: str = "", mark: Mark = "") -> Line:
    """A worked line whose note and label are texts with formulas between dollar signs."""
    return Line(formula, words(note), words(label), mark)


def _titled(blocks: tuple[Block, ...], title: str) -> Section:
    titles = [block.title for block in blocks if isinstance(block, Section)]
    for block in blocks:
        if isinstance(block, Section) and block.title.startswith(title):
            return block
    raise DocumentError(f"no section starts with {title!r}; there are {', '.join(titles) or 'none'}")


def _walk(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Section):
            yield from _walk(block.blocks)
        elif isinstance(block, Question):
            yield from _walk(block.answer)
