"""The texts of a program: what it and its parts are called and mean, which code, pages and reports will show."""

from __future__ import annotations

import re
from collections.abc import Iterator

from derive.errors import DefinitionError
from derive.forward.program import Input, Output, Parameter, Program

_SHOWN_NOWHERE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Control characters but for tabs and ends of lines, halves of characters, and what is no character."""


def check_texts(program: Program) -> None:
    """Every text can be shown everywhere, as it is or escaped.

    Raises
    ------
    DefinitionError: names the text, the character in it, and what to do.
    """
    for what, text in _texts(program):
        if not isinstance(text, str):
            raise DefinitionError(f"{program.name!r}: {what} is {text!r}, of type {type(text).__name__}; give a text")
        found = _SHOWN_NOWHERE.search(text)
        if found is not None:
            raise DefinitionError(
                f"{program.name!r}: {what} has the character {found[0]!a}, which nothing can show; take it out"
            )


def _texts(program: Program) -> Iterator[tuple[str, object]]:
    """Every text of a program, and what it is."""
    yield "its name", program.name
    yield "its summary", program.summary
    parts: tuple[Input | Parameter | Output, ...] = (*program.inputs, *program.parameters, *program.outputs)
    for part in parts:
        yield f"the meaning of {part.name}", part.meaning
    for axis, meaning in program.axis_meaning.items():
        yield "the name of an axis that has a meaning", axis
        yield f"the meaning of axis {axis!r}", meaning
    for name, branch in program.branches.items():
        yield f"the branch through {name!r}", branch
    for convention, writing in program.writing.items():
        for name, written in (*writing.text.items(), *writing.latex.items()):
            yield f"the {convention} convention's writing of {name!r}", written
