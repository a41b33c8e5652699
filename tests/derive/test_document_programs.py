"""The page of programs, and the rule that counts operations in any code."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.document.hand_forms import HAND_FORMS, operations_in
from derive.document.programs import SYSTEMS
from derive.forward import names, program
from derive.pipeline import kernel
from derive.printers.module import module_source

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "programs.md"


@pytest.mark.parametrize("name", HAND_FORMS)
def test_no_program_takes_more_operations_than_its_hand_form(name: str) -> None:
    """Counted in code by one rule, which gives what the array statements count, casts to numbers aside."""
    made = kernel(program(name).plain())
    own = operations_in(module_source(made, made.operations, "numpy"))
    assert own <= operations_in(HAND_FORMS[name])
    assert f"| `{name}` | {own} | {operations_in(HAND_FORMS[name])} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("Y = X", 0),
        ("Y = X.mT[..., None]", 0),
        ("Y = xp.moveaxis(X, -1, -2)", 0),
        ("Y = 2 * D + 1 / math.sqrt(D)", 0),
        ("Y = -X", 1),
        ("Y = X @ W + b", 2),
        ("Y = (1/D) * xp.sum(X * X, axis=-1)", 3),
        ("Y = visible_only(xp, xp.exp(X - m[..., None]), M)", 3),
        ("Y = xp.arange(n)[None, :] <= xp.arange(n)[:, None]", 1),
        ("Y = all_of(M, N, xp.isfinite(X))", 3),
        ("D = X.shape[-1]", 0),
        ('outputs = {"Y": X + 1}', 0),
    ],
)
def test_operations_are_what_touches_an_array(code: str, count: int) -> None:
    assert operations_in(code) == count


def test_the_page_lists_every_program_once() -> None:
    listed = [name for _, programs in SYSTEMS for name in programs]
    assert sorted(listed) == sorted(names())
    text = PAGE.read_text(encoding="utf-8")
    assert all(text.count(f"| `{name}` |") == (2 if name in HAND_FORMS else 1) for name in listed)
