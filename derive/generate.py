"""Writing generated modules, and checking that committed ones equal the derivation.

The first line of a generated file is its seal: a digest of the file's path and of everything below that line. A file
whose seal is right is as it was generated, so it may be replaced or removed; one whose seal is wrong was edited since;
one without a seal belongs to somebody else.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from derive.errors import DeriveError
from derive.files import write_whole

MARK = "Generated: do not edit"
"""What generated modules say to their readers; whose a file is, its seal decides."""

SEAL = "# Seal of generated text, broken by edits: "

Owner = Literal["generated", "edited", "other"]


@dataclass(frozen=True)
class Difference:
    """One file that is not as it should be: ``missing``, ``leftover`` or ``changed``, with a unified diff.

    ``owner`` says whose the file is that is there: ``generated`` and untouched, ``edited`` since, or of some ``other``
    origin, in which case no diff is made.
    """

    path: str
    kind: str
    diff: str = ""
    owner: Owner = "generated"

    @property
    def kept(self) -> bool:
        """Whether writing leaves the file alone: a leftover that holds somebody's work."""
        return self.kind == "leftover" and self.owner != "generated"


def sealed(path: str, text: str) -> str:
    """The contents of a generated file: the seal, and the text."""
    digest = hashlib.sha256(f"{path}\n{text}".encode()).hexdigest()
    return f"{SEAL}{digest[:32]}\n{text}"


def compare(directory: Path, expected: Mapping[str, str], *, leftovers: bool = True) -> list[Difference]:
    """How a directory differs from the expected texts: file lists first, leftovers if asked for, then contents."""
    missing, changed = [], []
    for path, text in expected.items():
        if not os.path.lexists(directory / path):
            missing.append(Difference(path, "missing"))
        elif (found := _contents(directory / path)) != (wanted := sealed(path, text)):
            diff = "" if found is None else _diff(path, found, wanted)
            changed.append(Difference(path, "changed", diff, _owner(path, found)))
    left = _left(directory, expected) if leftovers else []
    return [*missing, *(Difference(p, "leftover", owner=_owner(p, _contents(directory / p))) for p in left), *changed]


def write(directory: Path, expected: Mapping[str, str], *, leftovers: bool = True) -> list[Difference]:
    """Bring a directory up to date; files that already are stay untouched. Returns what was different.

    A leftover is removed only if it is as it was generated; one that holds somebody's work is reported as ``kept``.

    Raises
    ------
    DeriveError: a file of somebody else's is in the way, or a folder cannot be written; nothing is written then.
    """
    differences = compare(directory, expected, leftovers=leftovers)
    foreign = [d.path for d in differences if d.kind == "changed" and d.owner == "other"]
    if foreign:
        more = f", nor were {len(foreign) - 1} others" if len(foreign) > 1 else ""
        raise DeriveError(
            f"{directory / foreign[0]} is in the way: it was not written by backprove{more}; "
            "move it elsewhere, or choose another directory"
        )
    wanted = [d.path for d in differences if d.kind != "leftover"]
    for folder in dict.fromkeys((directory / path).parent for path in wanted):
        check_folder(folder)
    write_whole({directory / path: sealed(path, expected[path]) for path in wanted})
    for difference in differences:
        if difference.kind == "leftover" and not difference.kept:
            (directory / difference.path).unlink()
    return differences


def check_folder(folder: Path) -> None:
    """A directory that can be written or made; asked before the work that is to be written there.

    Raises
    ------
    DeriveError: something else has its name, or it may not be written.
    """
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        reason = f"{there} is not a directory"
    elif not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        reason = f"{there} may not be written"
    else:
        return
    raise DeriveError(f"cannot write to {folder}: {reason}; choose a directory that can be written")


def _contents(path: Path) -> str | None:
    """What a file holds; None for what backprove did not write: no file, a link, one without a seal."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            if file.read(len(SEAL)) != SEAL.encode():
                return None
            return f"{SEAL}{file.read().decode(errors='replace')}"
    except OSError:
        return None


def _owner(path: str, found: str | None) -> Owner:
    if found is None:
        return "other"
    return "generated" if found == sealed(path, found.partition("\n")[2]) else "edited"


def _left(directory: Path, expected: Mapping[str, str]) -> list[str]:
    """The modules in the folders that generation owns which are not expected, package markers aside."""
    folders = dict.fromkeys(Path(path).parent.as_posix() for path in expected)
    there = (p for folder in folders for p in (directory / folder).glob("*.py") if p.name != "__init__.py")
    return sorted({p.relative_to(directory).as_posix() for p in there} - expected.keys())


def _diff(path: str, found: str, expected: str) -> str:
    """A unified diff; where lines differ in their ends alone, it shows them."""
    old, new = found.splitlines(), expected.splitlines()
    if old == new:
        old, new = ([repr(line) for line in text.splitlines(keepends=True)] for text in (found, expected))
    return "\n".join(difflib.unified_diff(old, new, f"committed/{path}", f"derived/{path}", lineterm=""))
