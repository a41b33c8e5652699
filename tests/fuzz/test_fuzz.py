"""A bounded number of random programs and statements, the same in every run; ``python -m tests.fuzz.run`` has more."""

from __future__ import annotations

import pytest

from tests.fuzz import draw, run, statements
from tests.fuzz.evaluate import Undefined

PROGRAMS = 200
STATEMENTS = 140
CHUNK = 20
"""So many cases a test: tests are spread over processes."""

SECONDS_TO_SHRINK = 2.0


def check(group: str, first: int) -> None:
    """Judge some cases; the findings are shown small, in index notation."""
    rows = [run.judged(group, seed, seconds_to_shrink=SECONDS_TO_SHRINK) for seed in range(first, first + CHUNK)]
    findings = [row for row in rows if row.verdict.finding]
    if findings:
        pytest.fail("\n\n" + "\n\n".join(map(run.report, findings)), pytrace=False)
    refused = [row.verdict.detail for row in rows if row.verdict.kind == "refused"]
    assert len(refused) <= CHUNK // 2, "most cases are to be handled:\n" + "\n".join(refused)


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_are_right_or_refused(first: int) -> None:
    """Values and gradients are those of the evaluator, or an error says why not."""
    check("program", first)


@pytest.mark.parametrize("first", range(0, STATEMENTS, CHUNK))
def test_what_is_proved_is_true(first: int) -> None:
    """No statement is proved that is false at some small sizes, nor refuted if it is true."""
    check("statement", first)


def test_rewritings_that_change_nothing_are_true() -> None:
    """The fuzzer's own rules: what is called true by construction is true, and what is changed is mostly false."""
    false = 0
    for seed in range(300):
        statement = statements.draw(seed)
        try:
            found = statements.falsehood(statement, seed)
        except Undefined:
            continue
        assert statement.change or not found, f"{statement}\n{found}"
        false += bool(found)
    assert false > 90


def test_a_seed_is_one_case() -> None:
    for seed in (0, 1, 2):
        assert draw.draw(seed) == draw.draw(seed)
        assert draw.draw(seed).data() == draw.draw(seed).data()
        assert statements.draw(seed) == statements.draw(seed)
