"""The matrix in a terminal, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from numeric.mutate.rows import BLIND, CHECKERS, OURS, PRACTICE, Row, Verdict, kinds_of, missing, survivors

SIGNS: dict[Verdict, str] = {"killed": "✓", "survived": "missed", "equivalent": "=", "blind": "blind", "–": "–"}

NO_FORM = "–: what has no array form, or no value in a finite field, is asked of the other checkers alone"


def show_matrix(out: Console, title: str, rows: Sequence[Row]) -> None:
    """Mistakes by kind against checkers: how many of the wrong derivations each misses."""
    wrong, kinds = [row for row in rows if not row.equivalent], kinds_of(rows)
    table = _table(f"{title}: {len(wrong)} wrong derivations, and how many of them each checker misses")
    for kind in kinds:
        table.add_column(kind.replace(" ", "\n", kind.count(" ")).replace("transpose", "trans-\npose"), justify="right")
    for column in ("misses", "blind", "–"):
        table.add_column(column, justify="right", style="bold" if column == "misses" else None)
    table.add_row("mistakes", *(str(sum(r.kind == kind for r in wrong)) for kind in kinds), str(len(wrong)))
    for checker in CHECKERS:
        if checker in (OURS[0], PRACTICE[0]):
            table.add_section()
        cells = [_count(missing(rows, checker, kind)) for kind in kinds]
        verdicts = [row.verdicts[checker] for row in wrong]
        blind, unasked = verdicts.count("blind"), verdicts.count("–")
        table.add_row(checker, *cells, str(missing(rows, checker)), _count(blind), _count(unasked))
    out.print(table)
    for row in survivors(rows):
        seen = ", ".join(f"{checker}: {SIGNS[row.verdicts[checker]]}" for checker in OURS)
        out.print(Text(f"{row.mistake}: {seen}", style="yellow"))
    equivalent = [row.mistake for row in rows if row.equivalent]
    if equivalent:
        out.print(Text(f"proved to be no mistake: {'; '.join(equivalent)}", style="dim"))
    _notes(out, rows)


def show_matrices(out: Console, matrices: Mapping[str, Sequence[Row]]) -> None:
    """The matrix summed over programs, what each of our checkers sees in each, and every survivor by name."""
    rows = [row.of(name) for name, found in matrices.items() for row in found]
    show_matrix(out, f"{len(matrices)} programs", rows)
    table = _table("seen of what can be asked, by program")
    for column in ("wrong", "equivalent", *OURS):
        table.add_column(column, justify="right")
    for name, found in matrices.items():
        wrong = [row for row in found if not row.equivalent]
        table.add_row(name, str(len(wrong)), _count(len(found) - len(wrong)), *(_seen(wrong, c) for c in OURS))
    out.print(table)


def _table(title: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0), title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    return table


def _notes(out: Console, rows: Sequence[Row]) -> None:
    for (checker, place), why in BLIND.items():
        if any(row.place == place and row.verdicts[checker] == "blind" for row in rows):
            out.print(Text(f"blind: {why}", style="dim"))
    if any("–" in row.verdicts.values() for row in rows):
        out.print(Text(NO_FORM, style="dim"))


def _count(number: int) -> str:
    return str(number) if number else "·"


def _seen(wrong: Sequence[Row], checker: str) -> str:
    """How many of the mistakes that a checker can be asked about it sees."""
    verdicts = [row.verdicts[checker] for row in wrong if row.verdicts[checker] in ("killed", "survived")]
    return f"{verdicts.count('killed')}/{len(verdicts)}"
