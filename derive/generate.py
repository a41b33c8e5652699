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


def compare(directory: Path, expected: Mapping[str, str]) -> list[Difference]:
    """How a directory differs from the expected files: file lists first, then contents."""
    present = {p.relative_to(directory).as_posix() for p in _generated(directory, expected)}
    differences = [Difference(path, "missing") for path in expected if path not in present]
    differences += [Difference(path, "leftover") for path in sorted(present - expected.keys())]
    for path in expected:
        if path in present:
            found = (directory / path).read_text(encoding="utf-8")
            if found != expected[path]:
                lines = difflib.unified_diff(
                    found.splitlines(), expected[path].splitlines(), f"committed/{path}", f"derived/{path}", lineterm=""
                )
                differences.append(Difference(path, "changed", "\n".join(lines)))
    return differences


def write(directory: Path, expected: Mapping[str, str]) -> list[Difference]:
    """Bring a directory up to date; files that already are stay untouched. Returns what was changed.

    A leftover is removed only where its header says that it was generated.
    """
    differences = compare(directory, expected)
    for difference in differences:
        path = directory / difference.path
        if difference.kind == "leftover":
            if MARK in path.read_text(encoding="utf-8"):
                path.unlink()
        else:
            write_whole({path: expected[difference.path]})
    return differences


def _generated(directory: Path, expected: Mapping[str, str]) -> list[Path]:
    """The modules in the folders that generation owns, package markers aside."""
    folders = dict.fromkeys(Path(path).parent.as_posix() for path in expected)
    return [p for folder in folders for p in sorted((directory / folder).glob("*.py")) if p.name != "__init__.py"]
