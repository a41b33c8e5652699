"""Benchmarks measure what they say and print it in 100 columns; how long things take is never tested."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from derive.forward import program
from derive.proof.identities import identities
from numeric import bench
from numeric.cli import app


def test_what_comes_before_is_not_measured() -> None:
    """Bodies take turns; one warm-up each; a clock that only the bodies move gives their time exactly."""
    ticks, calls = [0.0], []

    def body(name: str, spent: float) -> None:
        ticks[0] += spent
        calls.append(name)

    def before() -> None:
        ticks[0] += 100
        calls.append("before")

    bodies = {name: lambda name=name, spent=spent: body(name, spent) for name, spent in (("a", 1.0), ("b", 2.0))}
    assert bench.interleaved(bodies, 3, before, lambda: ticks[0]) == {"a": 1.0, "b": 2.0}
    assert calls == ["a", "b", *["before", "a", "before", "b"] * 3]


def test_every_identity_is_proved_and_the_slowest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted, a row each, and one line about all."""
    chosen = ("rms_norm", "cross_entropy", "unembedding")
    known = [x.name for name in chosen for x in identities(program(name))]
    monkeypatch.setattr("derive.forward.names", lambda: chosen)
    done = CliRunner().invoke(app, ["bench", "prove", "--repeats", "1"])
    assert done.exit_code == 0, done.exception
    assert max(map(len, done.output.splitlines())) <= 100
    assert f"{len(known)} identities, slowest " in done.output
    spent = [float(line.split()[-1]) for line in done.output.splitlines() if line.lstrip().startswith(chosen)]
    assert len(spent) == len(known)
    assert spent == sorted(spent, reverse=True)


def test_the_last_line_names_what_takes_too_long() -> None:
    medians = {("p", "one"): 0.0123, ("q", "two"): 0.0999}
    assert bench._summary(medians) == "2 identities, slowest 99.9 ms, all below 100 ms"
    medians["r", "three"] = 0.25
    assert bench._summary(medians) == "3 identities, slowest 250.0 ms; 1 not below 100 ms: three (r)"


def test_help_names_every_benchmark() -> None:
    shown = " ".join(CliRunner().invoke(app, ["bench", "--help"]).output.split())
    assert all(name in shown for name in bench.BENCHMARKS)
