"""Writing generated modules, and checking that committed ones equal the derivation."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.files import write_whole

MARK = "Generated: do not edit"


@dataclass(frozen=True)
class Difference:
    """One file that is not as it should be: ``missing``, ``leftover`` or ``changed``, with a unified diff."""

    path: str
    kind: str
    diff: str = ""


def compare(directory: Path, expected: Mapping[str, str], *, leftovers: bool = True) -> list[Difference]:
    """How a directory differs from the expected files: file lists first, leftovers if asked for, then contents."""
    present = {p.relative_to(directory).as_posix() for p in _generated(directory, expected)}
    differences = [Difference(path, "missing") for path in expected if path not in present]
    differences += [Difference(path, "leftover") for path in sorted(present - expected.keys()) if leftovers]
    for path in expected:
        if path in present:
            found = (directory / path).read_bytes().decode("utf-8", errors="replace")
            if found != expected[path]:
                differences.append(Difference(path, "changed", _diff(path, found, expected[path])))
    return differences


def _diff(path: str, found: str, expected: str) -> str:
    """A unified diff; where lines differ in their ends alone, it shows them."""
    old, new = found.splitlines(), expected.splitlines()
    if old == new:
        old, new = ([repr(line) for line in text.splitlines(keepends=True)] for text in (found, expected))
    return "\n".join(difflib.unified_diff(old, new, f"committed/{path}", f"derived/{path}", lineterm=""))


def write(directory: Path, expected: Mapping[str, str], *, leftovers: bool = True) -> list[Difference]:
    """Bring a directory up to date; files that already are stay untouched. Returns what was changed.

    A leftover is removed only where its header says that it was generated.
    """
    changed = []
    for difference in compare(directory, expected, leftovers=leftovers):
        path = directory / difference.path
        if difference.kind != "leftover":
            write_whole({path: expected[difference.path]})
        elif MARK in path.read_text(encoding="utf-8", errors="replace"):
            path.unlink()
        else:
            continue  # somebody's own file
        changed.append(difference)
    return changed


def _generated(directory: Path, expected: Mapping[str, str]) -> list[Path]:
    """The modules in the folders that generation owns, package markers aside."""
    folders = dict.fromkeys(Path(path).parent.as_posix() for path in expected)
    return [p for folder in folders for p in sorted((directory / folder).glob("*.py")) if p.name != "__init__.py"]
