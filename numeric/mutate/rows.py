"""The matrix: every mutant of a program against every checker, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from derive.calculus import Derivation
from derive.errors import DeriveError
from derive.mistakes import Place, identified_sizes
from derive.mistakes.systematic import KINDS
from derive.modes import names as committed
from derive.modes import program as program_of
from numeric.derivations import derivation_of
from numeric.errors import NumericError
from numeric.mutate.arrays import COMMON_PRACTICE, NUMERIC, MutantKernel
from numeric.mutate.mutants import Mutant, mutants
from numeric.mutate.symbolic import (
    Points,
    equal_definitions,
    equal_outputs,
    field_points,
    rational_points,
    told_apart,
)
from numeric.processes import results

Verdict = Literal["killed", "survived", "equivalent", "blind", "–"]
"""What a checker says of a mutant.

*blind*: it noticed nothing, and in principle cannot. –: it cannot be asked, because it takes no such mutant.
"""

PRACTICE = tuple(COMMON_PRACTICE)
"""What common practice does."""

OURS = ("prover", "fingerprint", *NUMERIC)
"""This project's checkers."""

CHECKERS = (*OURS, *PRACTICE)

BLIND: dict[tuple[str, Place], str] = {
    ("finite differences", "together"): (
        "finite differences compare a backward pass with its own forward pass: where the two are wrong together, "
        "they agree"
    ),
}
"""What a checker cannot see in principle, by the place of a mistake, and why."""


@dataclass(frozen=True)
class Row:
    """A mistake and every checker's verdict on it."""

    mistake: str
    kind: str
    place: Place
    breaks: str
    verdicts: dict[str, Verdict]

    @property
    def equivalent(self) -> bool:
        """Whether it was proved to be no mistake."""
        return "equivalent" in self.verdicts.values()

    def of(self, program: str) -> Row:
        """The row with the program's name before the mistake's, for reports on several programs."""
        return replace(self, mistake=f"{program}, {self.mistake}")


@dataclass(frozen=True)
class Bench:
    """A program with everything that its mutants are held against."""

    name: str
    right: Derivation
    rational: Points
    field: Points
    mutants: tuple[Mutant, ...]


_LAST: list[Bench] = []
"""The last program's: its parts are done one after another."""


def _bench(name: str, right: Derivation) -> Bench:
    if not any(known.right is right for known in _LAST):
        _LAST[:] = [Bench(name, right, rational_points(right), field_points(right), tuple(mutants(right)))]
    return _LAST[0]


def matrix(name: str, *, curated: bool = False, part: int = 0, parts: int = 1) -> list[Row]:
    """Every mutant of a program against every checker, the curated ones alone, or every so-manieth of them.

    Raises
    ------
    NumericError: the program has no gradients in which a mistake could be made.
    """
    right = derivation_of(name)
    if not right.derived.definitions:
        raise NumericError(f"{name} has no gradients in which a mistake could be made; name a program that has some")
    bench = _bench(name, right)
    chosen = [m for m in bench.mutants if m.kind == "curated" or not curated]
    return [_row(bench, mutant) for mutant in chosen[part::parts]]


def _row(bench: Bench, mutant: Mutant) -> Row:
    return Row(mutant.name, mutant.kind, mutant.place, mutant.breaks, _verdicts(bench, mutant))


def _verdicts(bench: Bench, mutant: Mutant) -> dict[str, Verdict]:
    wrong = mutant.make()
    if wrong is None:
        return dict.fromkeys(CHECKERS, "–")
    prover = _prover(bench, wrong)
    if prover == "equivalent":
        return dict.fromkeys(CHECKERS, prover)
    verdicts: dict[str, Verdict] = {"prover": prover, "fingerprint": _said(told_apart(bench.field, wrong))}
    try:
        kernel = MutantKernel(bench.name, wrong)
    except DeriveError:
        return verdicts | dict.fromkeys((*NUMERIC, *PRACTICE), "–")
    for checker, asked in (*NUMERIC.items(), *COMMON_PRACTICE.items()):
        said = _said(asked(kernel))
        verdicts[checker] = "blind" if said == "survived" and (checker, mutant.place) in BLIND else said
    return verdicts


def _prover(bench: Bench, wrong: Derivation) -> Verdict:
    """Equivalent where both have one canonical form for all sizes, killed by a counterexample."""
    if identified_sizes(bench.right, wrong):
        return "killed"  # it indexes an axis of one size by another: for sizes that differ it is not even defined
    if equal_definitions(bench.right, wrong):
        return "equivalent"
    refuted = told_apart(bench.rational, wrong)
    return "equivalent" if not refuted and equal_outputs(bench.right, wrong) else _said(refuted)


def _said(refused: bool | None) -> Verdict:
    return "–" if refused is None else "killed" if refused else "survived"


def matrices(
    names: Sequence[str],
    *,
    curated: bool = False,
    jobs: int = 0,
    shown: Callable[[Iterable[list[Row]], int], Iterable[list[Row]]] = lambda results, _: results,
) -> dict[str, list[Row]]:
    """The matrix of every program, by as many processes as the machine has cores, or as many as asked for.

    The rows do not depend on how many there are. ``shown`` is handed the results as they come and how many there will
    be, so that progress can be seen.
    """
    wide = {name: 1 if curated else 1 + len(program_of(name).definitions) // 6 for name in names}
    if not set(names) <= set(committed()):
        jobs = 1  # what was made in memory is known to this process alone
    tasks = [(name, curated, part, wide[name]) for name in names for part in range(wide[name])]
    found = dict(zip(tasks, shown(results(_done, tasks, jobs), len(tasks)), strict=True))
    return {name: _in_order([found[name, curated, part, wide[name]] for part in range(wide[name])]) for name in names}


Task = tuple[str, bool, int, int]


def _done(task: Task) -> list[Row]:
    name, curated, part, parts = task
    return matrix(name, curated=curated, part=part, parts=parts)


def _in_order(parts: Sequence[list[Row]]) -> list[Row]:
    """Rows that were dealt out one by one, in their order again."""
    total = sum(map(len, parts))
    return [parts[k % len(parts)][k // len(parts)] for k in range(total)]


def as_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as plain data."""
    return [{k: v for k, v in asdict(row).items() if k != "verdicts"} | row.verdicts for row in rows]


def kinds_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """The kinds of mistakes that occur: the curated ones, then the systematic ones in their order."""
    there = {row.kind for row in rows}
    return tuple(kind for kind in ("curated", *KINDS) if kind in there)


def missing(rows: Iterable[Row], checker: str, kind: str = "") -> int:
    """How many wrong derivations a checker lets through, of one kind or of all."""
    return sum(row.verdicts[checker] == "survived" for row in rows if not kind or row.kind == kind)


def survivors(rows: Iterable[Row]) -> list[Row]:
    """The wrong derivations that one of our checkers misses and need not."""
    return [row for row in rows if any(row.verdicts[checker] == "survived" for checker in OURS)]


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By checker, how many wrong derivations are killed, survive, or cannot be asked or seen."""
    wrong = [row for row in rows if not row.equivalent]
    words: tuple[Verdict, ...] = ("killed", "survived", "blind", "–")
    return {checker: {word: sum(r.verdicts[checker] == word for r in wrong) for word in words} for checker in CHECKERS}


def failures(rows: Sequence[Row]) -> list[str]:
    """What must not be: a wrong derivation that the property tests miss, or a curated one that is not refuted."""
    wrong = [row for row in rows if not row.equivalent]
    missed = [f"{r.mistake}: the property tests miss it" for r in wrong if r.verdicts["property tests"] == "survived"]
    missed += [f"{r.mistake}: no checker sees it" for r in wrong if "killed" not in [r.verdicts[c] for c in OURS]]
    return missed + [
        f"{r.mistake}: the prover does not refute it"
        for r in rows
        if r.kind == "curated" and r.verdicts["prover"] != "killed"
    ]
