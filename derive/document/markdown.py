"""Documents as Markdown with LaTeX between dollar signs: GitHub, KaTeX and MathJax render it."""

from __future__ import annotations

from collections.abc import Iterator

from derive.document.model import Belief, Block, Document, Line, Math, Paragraph, Points, Question, Section, Words, Work
from derive.printers.derivation import plain

MARKS = {"": "", "right": "✓ *right*", "wrong": "✗ *wrong*"}


def to_markdown(document: Document) -> str:
    """The whole document."""
    lines = [f"# {plain(document.title)}", ""]
    for block in (*document.opening, *document.sections):
        lines += _block(block, 2)
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block, level: int) -> Iterator[str]:
    """A block's lines, with an empty one after every paragraph."""
    if isinstance(block, Section):
        yield from (f"{'#' * level} {plain(block.title)}", "")
        number = 0
        for part in block.blocks:
            if isinstance(part, Question):
                number += 1
                yield from (f"**{number}.** {_words(part.ask)}", "")
                yield from ("<details>", "<summary>Answer</summary>", "")
                for answer in part.answer:
                    yield from _block(answer, level + 1)
                yield from ("</details>", "")
            else:
                yield from _block(part, level + 1)
    elif isinstance(block, Paragraph):
        yield from (_words(block.words), "")
    elif isinstance(block, Points):
        yield from (f"- {_words(item)}" for item in block.items)
        yield ""
    elif isinstance(block, Belief):
        yield from (f"> “{_words(block.words)}”", "")
    elif isinstance(block, Work):
        for line in block.lines:
            yield from _line(line)


def _line(line: Line) -> Iterator[str]:
    """Label, formula and reason, each a paragraph."""
    head = [part for part in (MARKS[line.mark], f"*{_words(line.label)}*" if line.label else "") if part]
    if head:
        yield from (", ".join(head), "")
    yield from ("$$", line.formula, "$$", "")
    if line.note:
        yield from (_words(line.note), "")


def _words(words: Words) -> str:
    return "".join(f"${part.latex}$" if isinstance(part, Math) else plain(part) for part in words)
