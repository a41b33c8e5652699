"""The programs by name, as the command line knows them."""

from __future__ import annotations

from collections.abc import Callable

from derive.errors import DefinitionError
from derive.forward.attention import attention, causal_attention
from derive.forward.program import Program

_PROGRAMS: dict[str, Callable[[], Program]] = {
    "attention": attention,
    "causal_attention": causal_attention,
}


def names() -> tuple[str, ...]:
    """The names of all programs, in order."""
    return tuple(_PROGRAMS)


def program(name: str) -> Program:
    """The program of that name; an unknown name is an error that lists the known ones."""
    if name not in _PROGRAMS:
        raise DefinitionError(f"there is no program {name!r}; there are {', '.join(_PROGRAMS)}")
    return _PROGRAMS[name]()
