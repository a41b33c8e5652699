"""Names in generated code: which ones a program may use, and new ones that meet no other."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Collection
from itertools import count

HELPERS = (
    *("all_of", "as_numbers", "as_real", "checked", "erf", "filled", "gathered", "matmul", "maximum", "minimum"),
    *("repeated", "sigmoid", "visible_matmul", "visible_max", "visible_only"),
)
"""The functions of :mod:`numeric.support` that generated code may call."""

_MODULE = (
    *("xp", "math", "Array", "Saved", "SIGNATURE", "Signature", "TensorSpec", "ParameterSpec", "OutputSpec"),
    *("dict", "str", "float", "int", "tuple", "max", "forward", "backward", "outputs"),
)
RESERVED = frozenset((*HELPERS, *_MODULE))
"""Names that generated code needs for itself."""


def objection(name: str) -> str | None:
    """Why a name cannot be that of a tensor or a parameter in generated code; None where it can."""
    if name in RESERVED:
        return f"{name!r} cannot name a variable in generated code, which uses that name itself; choose another"
    if not name.isidentifier() or keyword.iskeyword(name):
        return f"{name!r} cannot name a variable in generated code; take letters, digits and _"
    return respelled(name)


def respelled(name: str) -> str | None:
    """Why a name cannot stand in a source file, as far as Python spells it in another way there; else None."""
    spelling = unicodedata.normalize("NFKC", name)
    return None if spelling == name else f"{name!r} cannot be a name: Python reads it as {spelling!r}; write that"


def unused(stem: str, taken: Collection[str], *, numbered: bool = False) -> str:
    """The first of ``stem, stem2, stem3 …`` that is free; if numbered, of ``stem_1, stem_2 …``."""
    names = (f"{stem}_{k}" for k in count(1)) if numbered else (stem if k == 1 else f"{stem}{k}" for k in count(1))
    return next(name for name in names if name not in taken and name not in RESERVED)
