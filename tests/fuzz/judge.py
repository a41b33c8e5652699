"""What the package made of a case, held against the evaluator: right, refused, or a finding of some kind."""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Any, TypeVar

from tests.fuzz import product, statements
from tests.fuzz.draw import Case
from tests.fuzz.evaluate import MP, Array, Result, Singular, Tie, Undefined, evaluate
from tests.fuzz.product import Asked, Ran
from tests.fuzz.statements import Statement

FINDINGS = ("wrong", "nan", "accepted", "traceback", "message", "slow", "false proof", "false refutation", "own fault")
"""The kinds of outcomes that are mistakes of the package; the last is one of this fuzzer."""

STEP = 1e-9
"""How far inputs are moved, relatively, to see how well a case is conditioned."""

LARGE = 1e9
"""Values beyond this say little in double precision; the case is skipped."""

SECONDS = 20
"""The time that a case may take."""


@dataclass(frozen=True)
class Verdict:
    """An outcome: its kind, what tells findings of one kind apart, and all that there is to say.

    defined: whether the evaluator says that the case has a meaning.
    """

    kind: str
    label: str = ""
    detail: str = ""
    defined: bool = True

    @property
    def finding(self) -> bool:
        """Whether the package is at fault."""
        return self.kind in FINDINGS


class OutOfTime(BaseException):
    """The time of a case is up; no handler of exceptions may keep it."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise :class:`OutOfTime` in the body once the time is up."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


Judged = TypeVar("Judged")


def in_time(judge: Callable[[Judged], Verdict], case: Judged, seconds: int = SECONDS) -> Verdict:
    """The verdict on a case, or that it takes too long."""
    try:
        with limited(seconds):
            return judge(case)
    except OutOfTime:
        return Verdict("slow", f"more than {seconds} s")
    except Exception as error:
        return Verdict("own fault", f"{type(error).__name__} in the fuzzer", traceback.format_exc(limit=-3))


# Programs.


@dataclass(frozen=True)
class Expected:
    """What the evaluator says of one run: a result and one at moved inputs, or why there is none."""

    result: Result | None
    moved: Result | None
    trouble: str = ""


def judge_program(case: Case) -> Verdict:
    """Run a case and judge it."""
    expected = [expectation(case, run) for run in range(case.runs)]
    runs = range(case.runs)
    ran = product.run(case.program, [case.data(r) for r in runs], [case.cotangents(r) for r in runs])
    return _judged(ran, expected)


def expectation(case: Case, run: int) -> Expected:
    """The evaluator's result for one run."""
    data, cotangents = case.data(run), case.cotangents(run)
    try:
        result = evaluate(case.program, data, cotangents)
        moved = evaluate(case.program, _moved(data, case.seed), cotangents)
    except Undefined as error:
        return Expected(None, None, f"undefined: {error}")
    except (Singular, Tie) as error:
        return Expected(None, None, f"{type(error).__name__.lower()}: {error}")
    arrays = (*result.values.values(), *result.gradients.values())
    large = next((v for array in arrays for v in array.values() if not abs(v) <= LARGE), None)
    if large is not None:
        return Expected(None, None, f"singular: a value of {MP.nstr(large, 3)}")
    return Expected(result, moved)


def _moved(data: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Real inputs times 1 ± 1e-9."""

    def move(value: Any, label: str) -> Any:
        if not isinstance(value, float):
            return value
        return MP.mpf(value) * (1 + Random(f"{seed} {label}").choice((-1, 1)) * MP.mpf(STEP))

    return {n: {at: move(v, f"{n} {at}") for at, v in array.items()} for n, array in data.items()}


def _judged(ran: Ran, expected: list[Expected]) -> Verdict:
    troubles = [e.trouble for e in expected if e.trouble]
    if ran.kind == "traceback":
        error = ran.message.partition(":")[0]
        return Verdict("traceback", f"{error} at {ran.stage} in {ran.place}", ran.message, not troubles)
    if ran.kind == "misshapen":
        return Verdict("wrong", f"shape at {ran.stage}", ran.message)
    if ran.kind == "refused":
        if not product.acceptable(ran.message):
            return Verdict("message", f"{ran.stage}: unreadable message", ran.message)
        return Verdict("refused", ran.message, f"{ran.stage}: {ran.message}")
    undefined = [trouble for trouble in troubles if trouble.startswith("undefined")]
    if undefined:
        return Verdict("accepted", "an index outside of its tensor", undefined[0])
    if troubles:
        return Verdict("skipped", troubles[0].partition(":")[0], troubles[0])
    for k, e in enumerate(expected):
        assert e.result is not None
        assert e.moved is not None
        verdict = _compared(e.result, e.moved, ran.values[k], ran.gradients[k])
        if verdict is not None:
            return verdict
    return Verdict("right")


def _compared(
    result: Result, moved: Result, values: Mapping[str, Array], gradients: Mapping[str, Array]
) -> Verdict | None:
    """The first thing that differs, values before gradients."""
    steepest = float(result.steepest)
    for what, ours, near, theirs in (
        ("value", result.values, moved.values, values),
        ("gradient", result.gradients, moved.gradients, gradients),
    ):
        if ours.keys() != theirs.keys():
            return Verdict("wrong", f"{what}s are missing", f"{sorted(ours)} are wanted, {sorted(theirs)} came back")
        for name in ours:
            scale = max((abs(float(v)) for v in ours[name].values()), default=0.0)
            floor = 1e-9 * max(1.0, scale) + (1e-12 * steepest if what == "gradient" else 0.0)
            for at, wanted in ours[name].items():
                found = theirs[name][at]
                tolerance = floor + 50 * abs(float(wanted - near[name][at]))
                where = f"{what} of {name}[{', '.join(map(str, at))}] is {float(wanted)!r}, but {found!r} came back"
                if not math.isfinite(found):
                    return (
                        Verdict("skipped", "partial") if result.partial else Verdict("nan", f"{what} not finite", where)
                    )
                if abs(float(wanted) - found) > tolerance:
                    return Verdict("wrong", what, where)
    return None


# Statements.


@dataclass(frozen=True)
class Claim:
    """A statement and the seed of the numbers at which it is looked at."""

    statement: Statement
    seed: int

    def __str__(self) -> str:
        return str(self.statement)


def judge_statement(claim: Claim) -> Verdict:
    """Ask the prover about a statement, and hold the answer against the evaluator."""
    asked = product.prove(claim.statement)
    change = claim.statement.change or "nothing changed"
    if asked.word == "traceback":
        return Verdict("traceback", f"{asked.reason.partition(':')[0]} in {asked.place}", asked.reason)
    try:
        false = statements.falsehood(claim.statement, claim.seed)
    except Undefined as error:
        return Verdict("skipped", "undefined", str(error))
    if false and not claim.statement.change:
        return Verdict("own fault", "a statement that should be true is false", false)
    if asked.word == "proved" and false:
        kind = "false where defined" if false.startswith("left") else "one side undefined"
        return Verdict("false proof", f"{kind}: {change}", f"{false}; proved by {asked.reason}")
    if asked.word == "refuted":
        false = _refutation(claim.statement, asked, false)
        if not false:
            return Verdict("false refutation", change, asked.reason)
    if asked.word == "refused":
        return Verdict("refused", asked.reason, asked.reason)
    truth = "false" if false else "true"
    return Verdict(f"{asked.word} and {truth}", change, asked.reason)


def _refutation(statement: Statement, asked: Asked, false: str | None) -> str | None:
    """Why a refuted statement is false: its sides differ at the counterexample, if that can be looked at."""
    if asked.point is not None and not statement.assumed:
        try:
            return "they differ at the counterexample" if statements.differs_at(statement, asked.point) else None
        except Singular:
            pass  # infinite inside of a side, which is finite
    return false or statements.falsehood(statement, -1, trials=100)
