"""Writing documents to files: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from derive.document.html import to_html
from derive.document.identities import identities_page
from derive.document.markdown import to_markdown
from derive.document.model import Document
from derive.document.programs import programs_page
from derive.errors import DocumentError
from derive.files import write_whole

STEM = "worked_example"


def write_documents(directory: Path, document: Document) -> tuple[Path, ...]:
    """Write ``worked_example.md`` and ``worked_example.html`` into a directory, and return their paths.

    Both texts are complete before either file is touched, and each file is replaced in one step. The same
    document gives the same bytes.

    Raises
    ------
    DocumentError: the directory cannot be written; files that were there are as they were.
    """
    return _written(
        directory, {directory / f"{STEM}.md": to_markdown(document), directory / f"{STEM}.html": to_html(document)}
    )


def write_programs(directory: Path) -> tuple[Path, ...]:
    """Write the pages of all programs, ``programs.md`` and ``identities.md``; errors are those of a document."""
    return _written(
        directory, {directory / "programs.md": programs_page(), directory / "identities.md": identities_page()}
    )


def _written(directory: Path, texts: dict[Path, str]) -> tuple[Path, ...]:
    try:
        write_whole(texts)
    except OSError as error:
        reason = error.strerror or error
        raise DocumentError(f"cannot write to {directory}: {reason}; choose a directory that can be written") from error
    return tuple(texts)
