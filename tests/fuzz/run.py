"""Fuzz the package: ``python -m tests.fuzz.run --programs 1000 --statements 1000 --seed 0 --jobs 2``.

Every finding is one line with its case, then the case itself, made small and written in index notation; at the end
stands a table. ``--case program:123`` shows one case in detail. The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import monotonic

from tests.fuzz import draw, judge, product, shrink, statements
from tests.fuzz.draw import Case
from tests.fuzz.judge import Claim, Verdict

GROUPS = ("program", "statement")

CASES_PER_PROCESS = 60
"""A process is replaced after so many cases: what SymPy remembers does not pile up."""

SECONDS_TO_SHRINK = 20.0


@dataclass(frozen=True)
class Row:
    """One case's outcome, and the small case behind a finding."""

    group: str
    seed: int
    verdict: Verdict
    shown: str = ""
    small: Verdict | None = None

    @property
    def name(self) -> str:
        """How ``--case`` calls it."""
        return f"{self.group}:{self.seed}"


def judged(group: str, seed: int, *, seconds_to_shrink: float = SECONDS_TO_SHRINK) -> Row:
    """The outcome of a case; a finding is made small."""
    if group == "program":
        case = draw.draw(seed)
        verdict = judge.in_time(judge.judge_program, case)
        if not verdict.finding:
            return Row(group, seed, verdict)
        small = _small_program(case, verdict, seconds_to_shrink)
        found = judge.in_time(judge.judge_program, small)
        runs = f"\n  run {small.runs} times at once, along a leading axis" if small.runs > 1 else ""
        return Row(group, seed, verdict, f"{small.program}{runs}", found)
    claim = Claim(statements.draw(seed), seed)
    verdict = judge.in_time(judge.judge_statement, claim)
    if not verdict.finding:
        return Row(group, seed, verdict)
    less = _small_statement(claim, verdict, seconds_to_shrink)
    return Row(group, seed, verdict, str(less), judge.in_time(judge.judge_statement, less))


def _same(found: Verdict, wanted: Verdict) -> bool:
    """Whether a smaller case shows the same finding: labels of wrong numbers may differ, those of errors may not."""
    if wanted.defined and not found.defined:
        return False
    if wanted.kind in ("traceback", "message"):
        return (found.kind, found.label) == (wanted.kind, wanted.label)
    return found.kind == wanted.kind and found.label.partition(":")[0] == wanted.label.partition(":")[0]


def _small_program(case: Case, verdict: Verdict, seconds: float) -> Case:
    if verdict.kind in ("slow", "own fault"):
        return case

    def stays(candidate: Case) -> bool:
        return _same(judge.in_time(judge.judge_program, candidate, 5), verdict)

    return shrink.shrink(case, shrink.smaller_programs, stays, shrink.weight_of_program, seconds)


def _small_statement(claim: Claim, verdict: Verdict, seconds: float) -> Claim:
    if verdict.kind in ("slow", "own fault"):
        return claim

    def stays(candidate: Claim) -> bool:
        return _same(judge.in_time(judge.judge_statement, candidate, 5), verdict)

    def smaller(candidate: Claim) -> Iterator[Claim]:
        for statement in statements.smaller_statements(candidate.statement):
            if statements.well_formed(statement):
                yield replace(candidate, statement=statement)

    return shrink.shrink(claim, smaller, stays, lambda c: statements.weight_of_statement(c.statement), seconds)


# The command.


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=200, help="how many programs")
    parser.add_argument("--statements", type=int, default=200, help="how many statements")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--stop-after", type=int, default=0, help="stop after so many findings")
    parser.add_argument("--shrink-seconds", type=float, default=SECONDS_TO_SHRINK, help="time to make a finding small")
    parser.add_argument("--case", help="show one case, as in program:123")
    options = parser.parse_args(arguments)
    if options.case:
        return show(options.case)
    seeds = range(options.seed, options.seed + max(options.programs, options.statements))
    counts = {"program": options.programs, "statement": options.statements}
    groups = [[(g, s, options.shrink_seconds) for s in seeds[: counts[g]]] for g in GROUPS]
    tasks = [task for pair in zip_longest(*groups) for task in pair if task is not None]
    start = monotonic()
    rows = list(_reported(_rows(tasks, options.jobs), options.stop_after))
    print(table(rows, monotonic() - start))
    return int(any(row.verdict.finding for row in rows))


def _rows(tasks: list[tuple[str, int, float]], jobs: int) -> Iterator[Row]:
    if jobs == 1:
        yield from map(_row, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=CASES_PER_PROCESS) as pool:
        yield from pool.imap_unordered(_row, tasks)


def _row(task: tuple[str, int, float]) -> Row:
    group, seed, seconds = task
    return judged(group, seed, seconds_to_shrink=seconds)


def _reported(rows: Iterable[Row], stop_after: int) -> Iterator[Row]:
    """The rows, each finding printed as it comes."""
    findings = 0
    for row in rows:
        yield row
        if row.verdict.finding:
            print(report(row), flush=True)
            findings += 1
            if findings == stop_after:
                return


def report(row: Row) -> str:
    """A finding: one line, then the small case."""
    small = row.small or row.verdict
    headline = f"{row.name}  {small.kind}  {small.label}  —  {_line(small.detail, 300)}"
    return "\n".join([headline, *(f"    {line}" for line in row.shown.splitlines())])


def table(rows: list[Row], seconds: float) -> str:
    """How many cases came out how."""
    lines = ["", f"{len(rows)} cases in {seconds:.0f} s, {len(rows) / max(seconds, 1e-9):.1f} a second"]
    for group in GROUPS:
        mine = [row for row in rows if row.group == group]
        if not mine:
            continue
        kinds = Counter(row.verdict.kind for row in mine)
        lines += ["", f"{group}s: {len(mine)}"]
        lines += [f"  {count:6d}  {kind}" for kind, count in sorted(kinds.items(), key=_by_finding)]
        lines += _listed("refused, by message", (_without_names(r.verdict.label) for r in mine if _is(r, "refused")))
        labels = (f"{r.verdict.kind}: {(r.small or r.verdict).label}" for r in mine if r.verdict.finding)
        lines += _listed("findings", labels, 40)
    return "\n".join(lines)


def _by_finding(item: tuple[str, int]) -> tuple[bool, int]:
    return item[0] in judge.FINDINGS, -item[1]


def _is(row: Row, kind: str) -> bool:
    return row.verdict.kind == kind


def _listed(title: str, labels: Iterable[str], most: int = 10) -> list[str]:
    counted = Counter(labels).most_common(most)
    return [f"  {title}:"] * bool(counted) + [f"    {count:4d}  {label}" for label, count in counted]


def _without_names(message: str) -> str:
    """A message's last and longest part of plain words, by which refusals of one kind are put together."""
    words = [w for w in message.split() if w.isalpha() and w.islower() and w.isascii() and len(w) > 1]
    return " ".join(words)[:90]


def _line(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def show(case: str) -> int:
    """One case in detail."""
    group, _, seed = case.partition(":")
    if group not in GROUPS or not seed.lstrip("-").isdigit():
        print(f"{case!r} is no case; give one as in program:123 or statement:45", file=sys.stderr)
        return 2
    return _show_program(int(seed)) if group == "program" else _show_statement(int(seed))


def _show_program(seed: int) -> int:
    case = draw.draw(seed)
    print(case.program)
    runs = range(case.runs)
    data, cotangents = [case.data(r) for r in runs], [case.cotangents(r) for r in runs]
    ran = product.run(case.program, data, cotangents)
    print(f"\nthe package: {ran.kind} at {ran.stage} {ran.message} {ran.place}")
    if ran.source:
        print(f"\n{ran.source}")
    for r in runs:
        print(f"\nrun {r}: inputs {data[r]}\n  cotangents {cotangents[r]}")
        expected = judge.expectation(case, r)
        if expected.result is None:
            print(f"  the evaluator: {expected.trouble}")
            continue
        for title, ours, theirs in (
            ("value", expected.result.values, ran.values[r] if ran.values else {}),
            ("gradient", expected.result.gradients, ran.gradients[r] if ran.gradients else {}),
        ):
            for name, entries in ours.items():
                for at, wanted in entries.items():
                    found = theirs.get(name, {}).get(at, "—")
                    print(f"  {title} of {name}{list(at)}: {float(wanted)!r}, the package {found!r}")
    verdict = judge.in_time(judge.judge_program, case)
    print(f"\n{verdict.kind}: {verdict.label}\n{verdict.detail}")
    return int(verdict.finding)


def _show_statement(seed: int) -> int:
    claim = Claim(statements.draw(seed), seed)
    print(claim)
    asked = product.prove(claim.statement)
    print(f"\nthe package: {asked.word} {asked.place}\n  {asked.reason}")
    verdict = judge.in_time(judge.judge_statement, claim)
    print(f"\n{verdict.kind}: {verdict.label}\n{verdict.detail}")
    return int(verdict.finding)


if __name__ == "__main__":
    sys.exit(main())
