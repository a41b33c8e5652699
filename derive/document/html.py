"""Documents as one HTML page: no network, no scripts, formulas in MathML, light and dark, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from derive.document.mathml import mathml
from derive.document.model import Belief, Block, Document, Line, Math, Paragraph, Points, Question, Section, Words, Work
from derive.document.theme import STYLE

WIDE = 34
"""Signs beyond which a formula within a sentence gets a box that scrolls: what a narrow screen holds."""


def to_html(document: Document) -> str:
    """The whole page."""
    contents = "".join(f'<li><a href="#{_anchor(s.title)}">{_text(s.title)}</a></li>' for s in document.sections)
    opening = "".join(_block(b, 2) for b in document.opening)
    sections = "".join(_section(s, 2) for s in document.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="description" content="{escape(document.summary)}">\n'
        f"<title>{_text(document.title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{_text(document.title)}</h1>\n"
        f'{opening}<nav aria-label="Contents"><ol>{contents}</ol></nav>\n{sections}'
        "</main>\n</body>\n</html>\n"
    )


def _block(block: Block, level: int) -> str:
    match block:
        case Section():
            return _section(block, level)
        case Paragraph():
            return f"<p>{_words(block.words)}</p>\n"
        case Points():
            return f"<ul>\n{''.join(f'<li>{_words(item)}</li>' for item in block.items)}\n</ul>\n"
        case Belief():
            return f"<blockquote><p>“{_words(block.words)}”</p></blockquote>\n"
        case Work():
            return f'<div class="work">\n{"".join(map(_line, block.lines))}</div>\n'
        case Question():
            answer = "".join(_block(b, level) for b in block.answer)
            return f"<p>{_words(block.ask)}</p>\n<details><summary>Answer</summary>\n{answer}</details>\n"


def _section(section: Section, level: int) -> str:
    heading = f"<h{level}>{_text(section.title)}</h{level}>\n"
    return f'<section id="{_anchor(section.title)}">\n{heading}{"".join(_parts(section, level + 1))}</section>\n'


def _parts(section: Section, level: int) -> Iterator[str]:
    """The blocks, with the questions as a numbered list."""
    questions = [b for b in section.blocks if isinstance(b, Question)]
    yield from (_block(b, level) for b in section.blocks if not isinstance(b, Question))
    if questions:
        yield f'<ol class="questions">\n{"".join(f"<li>{_block(q, level)}</li>" for q in questions)}\n</ol>\n'


def _line(line: Line) -> str:
    """A label, a formula that scrolls in its own box where it is too wide, and a reason."""
    mark = f'<span class="mark">{line.mark}</span> ' if line.mark else ""
    label = f'<div class="label">{mark}{_words(line.label)}</div>' if line.mark or line.label else ""
    note = f'<div class="note">{_words(line.note)}</div>' if line.note else ""
    formula = f'<div class="formula">{mathml(line.formula, display=True)}</div>'
    return f'<div class="line {line.mark}">{label}{formula}{note}</div>\n'


def _words(words: Words) -> str:
    return "".join(_math(part) if isinstance(part, Math) else _text(part) for part in words)


def _math(part: Math) -> str:
    formula = mathml(part.latex)
    signs = len(re.sub(r"\\[A-Za-z]+|[\\{}\s]", "", part.latex))
    return f'<span class="wide">{formula}</span>' if signs > WIDE else formula


def _text(text: str) -> str:
    return escape(text, quote=False)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
