"""The page ``checkers.md``: what each checker sees of all mistakes in all programs, measured when the page is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from derive.files import write_whole
from derive.mistakes import MISTAKES, Mistake
from numeric.errors import NumericError
from numeric.mutate.rows import BLIND, CHECKERS, OURS, PRACTICE, Row, counts, kinds_of, missing, survivors
from numeric.mutate.shown import SIGNS

NAME = "checkers.md"

Matrices = Mapping[str, Sequence[Row]]

PLACES = {
    "backward": "made in the backward pass",
    "recomputed": "made where the backward pass computes forward tensors again",
    "together": "made in the forward pass, with the backward pass derived from it: wrong together",
}

WHY = {
    "allclose 1e-2": "all sizes alike, and both tolerances 1e-2: what is small may be anything",
    "loss = mean, 1e-2": "the same, with the cotangent of a mean, one over the number of entries: everything is small",
    "cosine only": "the direction of each gradient within 0.99: lengths are not looked at",
    "symmetric inputs": "one array for all inputs of one shape, cotangents of ones: what is exchanged stays the same",
    "one key": "one position to attend to: a softmax of one score is 1, whatever the score",
    "d = 1": "width 1: no coordinate can be confused with another, and the scale is 1",
}
"""What common practice does, and what it cannot tell apart."""


def write_page(directory: Path, matrices: Matrices) -> Path:
    """Write the page into a directory, whole or not at all, and return its path.

    Raises
    ------
    NumericError: the directory cannot be written.
    """
    path = directory / NAME
    try:
        write_whole({path: checkers_page(matrices)})
    except OSError as error:
        reason = error.strerror or error
        raise NumericError(f"cannot write to {directory}: {reason}; choose a directory that can be written") from error
    return path


def checkers_page(matrices: Matrices) -> str:
    """The page as Markdown."""
    rows = [row.of(name) for name, found in matrices.items() for row in found]
    parts = (
        _head(matrices, rows),
        _matrix(rows),
        _practice(rows),
        _curated(matrices),
        _limits(rows),
        _programs(matrices),
    )
    return "\n".join(line for part in parts for line in part)


def _head(matrices: Matrices, rows: Sequence[Row]) -> Iterator[str]:
    wrong = [row for row in rows if not row.equivalent]
    yield "# Checkers, checked"
    yield ""
    yield "Made by `backprove verify --mutate --out docs/generated`; do not edit."
    yield ""
    listed = _number(wrong, "curated")
    yield f"In {len(matrices)} programs, {len(rows):,} mistakes were made, one at a time: {listed} of a list of beliefs"
    yield "that people hold, and every small change to every definition of both passes. The prover shows that"
    yield f"{len(rows) - len(wrong):,} of them change nothing; {len(wrong):,} are wrong:"
    yield ""
    for place, words in PLACES.items():
        yield f"- {sum(row.place == place for row in wrong):,} {words}."
    yield ""
    yield "Each was put to each checker, which *sees* the mistake if it would have refused the code or the formula."
    yield ""


def _number(rows: Sequence[Row], kind: str) -> str:
    return f"{sum(row.kind == kind for row in rows):,}"


def _matrix(rows: Sequence[Row]) -> Iterator[str]:
    wrong, kinds = [row for row in rows if not row.equivalent], kinds_of(rows)
    yield "## What each checker misses"
    yield ""
    yield f"| checker | {' | '.join(kinds)} | misses | blind | not asked |"
    yield f"|---{'|---:' * (len(kinds) + 3)}|"
    yield f"| *mistakes* | {' | '.join(_number(wrong, kind) for kind in kinds)} | *{len(wrong):,}* | | |"
    for checker in OURS:
        found = counts(rows)[checker]
        cells = [f"{missing(rows, checker, kind):,}" for kind in kinds]
        ends = [f"**{found['survived']:,}**", f"{found['blind']:,}", f"{found['–']:,}"]
        yield f"| {checker} | {' | '.join((*cells, *ends))} |"
    yield ""
    yield "- *prover*: no proof for all sizes, and a rational point at which an output or a gradient differs."
    yield "- *fingerprint*: a random point of a finite field at which they differ."
    yield "- *property tests*: what `backprove verify` checks of code that runs, on a handful of small samples."
    yield "- *finite differences*: of the code's own forward pass."
    yield "- *blind*: it noticed nothing, and in principle cannot; *not asked*: there is nothing to ask it about."
    yield ""


def _practice(rows: Sequence[Row]) -> Iterator[str]:
    yield "## What common practice lets through"
    yield ""
    yield "Gradients compared with right ones, of the same code on the same mistakes:"
    yield ""
    yield "| practice | wrong gradients | let through | share | why |"
    yield "|---|---:|---:|---:|---|"
    for checker in PRACTICE:
        found = counts(rows)[checker]
        asked = found["killed"] + found["survived"]
        share = f"{100 * found['survived'] / asked:.0f} %" if asked else "–"
        yield f"| {checker} | {asked:,} | {found['survived']:,} | {share} | {WHY[checker]} |"
    yield ""
    yield "Where a program has no keys, or no width called d, that practice has nothing to do and is left out."
    yield ""


def _curated(matrices: Matrices) -> Iterator[str]:
    yield "## The mistakes that people make"
    yield ""
    yield "Each in the program that shows it; most can be made in others too, and are."
    yield ""
    yield f"| mistake | program | where | belief | {' | '.join(OURS)} | practice that misses it |"
    yield f"|---|---|---|---|{'---|' * len(OURS)}---|"
    for mistake in MISTAKES:
        for row in matrices.get(mistake.program, ()):
            if row.mistake == mistake.name:
                yield _told(mistake, row)
    yield ""


def _told(mistake: Mistake, row: Row) -> str:
    missed = ", ".join(checker for checker in PRACTICE if row.verdicts[checker] == "survived") or "none"
    seen = " | ".join(SIGNS[row.verdicts[checker]] for checker in OURS)
    return f"| `{mistake.name}` | `{mistake.program}` | {mistake.place} | {mistake.belief} | {seen} | {missed} |"


def _limits(rows: Sequence[Row]) -> Iterator[str]:
    yield "## What a checker cannot see"
    yield ""
    for (checker, place), why in BLIND.items():
        blind = [row for row in rows if row.place == place and row.verdicts[checker] == "blind"]
        others = [c for c in OURS if c != checker and all(row.verdicts[c] == "killed" for row in blind)]
        yield f"- {why[0].upper()}{why[1:]}. That holds for {len(blind):,} mistakes here; all of them are seen by"
        yield f"  {_listed(others)}."
    yield "- The prover refutes at rational points, and the fingerprint where a finite field has the functions that a"
    yield "  program uses: a maximum of real numbers has none there."
    yield "- Code is run where there is code: what has no array form is left to the prover and the fingerprint."
    yield "- A comparison with gradients that are known to be right sees nothing that the inputs do not show: above."
    yield ""
    missed = survivors(rows)
    if missed:
        yield "What one of our checkers misses, and need not:"
        yield ""
        for row in missed:
            yield f"- {row.mistake}: {', '.join(f'{c} {SIGNS[row.verdicts[c]]}' for c in OURS)}"
    else:
        yield "No wrong derivation is missed by a checker of ours that could be asked and is not blind to it."
    yield ""


def _listed(names: Sequence[str]) -> str:
    words = [f"the {name}" for name in names]
    return " and ".join((", ".join(words[:-1]), words[-1]) if len(words) > 1 else words) or "no single other checker"


def _programs(matrices: Matrices) -> Iterator[str]:
    yield "## By program"
    yield ""
    yield f"| program | wrong | no mistake | {' | '.join(CHECKERS)} |"
    yield f"|---{'|---:' * (len(CHECKERS) + 2)}|"
    for name, found in matrices.items():
        yield program_line(name, found)
    yield ""
    yield "Seen of what could be asked."


def program_line(name: str, rows: Sequence[Row]) -> str:
    """A program's line in the last table."""
    wrong, found = [row for row in rows if not row.equivalent], counts(rows)
    cells = []
    for checker in CHECKERS:
        asked = found[checker]["killed"] + found[checker]["survived"]
        cells.append(f"{found[checker]['killed']}/{asked}" if asked else "–")
    return f"| `{name}` | {len(wrong)} | {len(rows) - len(wrong)} | {' | '.join(cells)} |"
