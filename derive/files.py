"""Writing files: all of them whole, or none touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def write_whole(texts: Mapping[Path, str]) -> None:
    """Write every text to a draft beside its file, then rename the drafts; folders are made as needed.

    A failure before the last draft is complete leaves all files as they were, and no draft behind.
    """
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            drafts[path].write_text(text, encoding="utf-8", newline="\n")
        for path, draft in drafts.items():
            draft.replace(path)
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)
