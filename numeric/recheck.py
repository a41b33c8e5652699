"""Proofs read again by the checker alone, in a process of its own that loads nothing else of this project."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derive.modes import program as program_of
from derive.proof import checker
from derive.proof.identities import identities
from derive.proof.verdict import prove
from numeric.processes import results


@dataclass(frozen=True)
class Rechecked:
    """What the checker says of proofs, as it prints it, and whether it accepts all."""

    told: str
    accepted: bool


def recheck(names: Sequence[str], only: str = "", jobs: int = 0) -> Rechecked:
    """Prove the statements of programs, write the proofs to a file, and let the checker read it."""
    tasks = [(name, only) for name in names]
    proofs = dict(zip(names, results(_proofs, tasks, jobs), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proofs.json"
        path.write_text(json.dumps(proofs, ensure_ascii=False), encoding="utf-8")
        command = [sys.executable, "-I", str(checker.__file__), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
    return Rechecked((done.stdout + done.stderr).strip(), done.returncode == 0)


def _proofs(task: tuple[str, str]) -> list[dict[str, Any]]:
    """The statements of a program that hold, with the steps that the prover found."""
    name, only = task
    chosen = (x for x in identities(program_of(name)) if x.holds and (only in x.name or only in x.topic))
    return [dict(prove(identity).data) for identity in chosen]
