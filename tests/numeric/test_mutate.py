"""The checkers, checked: every mistake in a derivation is refused, and common practice lets many through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import sympy as sp
from typer.testing import CliRunner

from derive.calculus import backward
from derive.forward import names, program
from derive.mistakes import MISTAKES, made_in
from derive.mistakes.changes import at, drop_term, replaced, times
from derive.mistakes.systematic import KINDS, systematic
from numeric.cli import app
from numeric.mutate import CHECKERS, OURS, PRACTICE, Row, arrays, as_records, counts, failures, matrices, matrix
from numeric.mutate import rows as table
from numeric.mutate.page import checkers_page, program_line
from numeric.mutate.symbolic import equal_definitions, equal_outputs, field_points, rational_points, told_apart
from numeric.properties import LIMIT, Property

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "checkers.md"

SMALL = ("unembedding", "embedding")


@pytest.mark.parametrize("name", ["causal_attention", "layer_norm"])
def test_no_wrong_derivation_survives(name: str) -> None:
    """Prover, fingerprint, properties and finite differences see every mistake that they are asked about."""
    rows = matrix(name)
    assert {row.place for row in rows} >= {"backward", "together"}
    assert failures(rows) == []
    for row in rows:
        assert all(row.verdicts[checker] != "survived" for checker in OURS), (row.mistake, row.verdicts)
    assert sum(row.verdicts["property tests"] == "–" for row in rows) <= len(rows) // 15
    if name == "causal_attention":
        found = counts(rows)
        assert all(found[checker]["survived"] > 0 for checker in PRACTICE), found
        assert found["loss = mean, 1e-2"]["survived"] > len(rows) // 3


@pytest.mark.parametrize("name", ["embedding", "cross_entropy"])
def test_the_prover_sees_mistakes_in_integers(name: str) -> None:
    """Tokens are told from their squares, and targets that are ignored from those that count."""
    rows = {row.mistake: row.verdicts["prover"] for row in matrix(name)}
    assert any("tokens" in mistake or "targets" in mistake for mistake in rows)
    assert "survived" not in rows.values(), rows


@pytest.mark.parametrize("name", sorted({m.program for m in MISTAKES}))
def test_every_listed_mistake_is_seen_by_every_checker(name: str) -> None:
    """The prover has a counterexample for each, or sizes at which it is not even defined."""
    rows = {row.mistake: row for row in matrix(name, curated=True)}
    assert {m.name for m in MISTAKES if m.program == name} <= set(rows)
    for row in rows.values():
        seen = [row.verdicts[checker] for checker in OURS]
        assert seen == ["killed"] * 3 + ["blind" if row.place == "together" else "killed"], (row.mistake, seen)


def test_passes_that_are_wrong_together_are_seen_by_all_but_finite_differences() -> None:
    rows = [row for row in matrix("softmax_rows") if row.place == "together"]
    assert len(rows) > 10
    for row in rows:
        if row.verdicts["property tests"] != "–":
            assert row.verdicts["finite differences"] == "blind", row.mistake
            assert [row.verdicts[c] for c in OURS[:3]] == ["killed"] * 3, row.mistake


def test_every_kind_of_slip_occurs_and_changes_one_definition() -> None:
    derivation = backward(program("causal_attention"))
    slips = systematic(derivation)
    assert {slip.kind for slip in slips} == set(KINDS)
    assert len({slip.name for slip in slips}) == len(slips)
    for slip in slips:
        right = derivation.derived if slip.place == "backward" else derivation.forward
        wrong = slip.change(right)
        pairs = zip(wrong.definitions, right.definitions, strict=True)
        assert [d.name for d, other in pairs if d != other] == [slip.breaks]


def test_a_slip_that_changes_nothing_is_proved_to_be_none() -> None:
    """A 0/1 factor applied twice is the factor itself: M² = M; SymPy sees it, so there is no such slip at all."""
    derivation = backward(program("causal_attention").returning("O"))
    assert not [s for s in systematic(derivation) if s.kind == "twice" and s.detail == "M"]


def test_what_no_output_needs_is_no_step_of_a_forward_pass() -> None:
    derivation = backward(program("sink_attention"))
    spoiled = {s.breaks for s in systematic(derivation) if s.place == "together"}
    assert "A_sink" in derivation.forward.tensors
    assert spoiled == {d.name for d in derivation.forward.definitions} - {"A_sink"}


def test_equivalence_is_proved_and_not_listed() -> None:
    """A row of scores may be shifted: another forward pass, the same weights; with L as an output it is another L."""
    shift = at("S", lambda value: value + sp.Symbol("scale", real=True))
    for outputs, equal in ((("O",), True), (("O", "L"), False)):
        right = backward(program("attention").returning(*outputs))
        wrong = made_in("together", shift, right)
        assert not equal_definitions(right, wrong)
        assert equal_outputs(right, wrong) is equal
        assert told_apart(rational_points(right), wrong) is not equal
    nothing = made_in("backward", at("dQ", times(1)), right)
    assert equal_definitions(right, nothing)


def test_a_bias_of_keys_is_proved_to_change_nothing() -> None:
    """It adds one number to each row of scores: no weight moves, and its own gradient is a sum over dS, which is 0."""
    right = backward(program("gpt_block"))
    lost = made_in("together", at("K", drop_term("b_K")), right)
    assert equal_outputs(right, lost)
    assert not equal_outputs(right, made_in("together", at("V", drop_term("b_V")), right))
    assert equal_outputs(right, made_in("backward", at("db_K", times(-1)), right))
    assert not equal_outputs(right, made_in("backward", at("db_V", times(-1)), right))


def test_points_tell_a_parameter_from_its_default() -> None:
    """The offset is 0 by default, where bottom-right is top-left; points and samples draw others."""
    right = backward(program("causal_attention"))
    wrong = made_in("recomputed", at("M", replaced("offset", lambda _: sp.S.Zero)), right)
    assert told_apart(rational_points(right), wrong)
    assert told_apart(field_points(right), wrong)
    same = made_in("recomputed", at("M", replaced("offset", lambda offset: offset + 0)), right)
    assert not told_apart(rational_points(right), same)


def test_a_point_is_as_it_was_after_a_mutant() -> None:
    right = backward(program("rms_norm"))
    point = next(iter(rational_points(right)))
    before = {name: dict(entries) for name, entries in point.machine.tensors.items()}
    assert point.tells(made_in("together", at("normed_Y", times(2)), right))
    assert {name: point.machine.tensors[name] for name in before} == before
    assert not point.tells(right)


def test_processes_and_one_process_give_the_same_rows() -> None:
    together = matrices(SMALL, jobs=2)
    assert together == matrices(SMALL, jobs=1) == {name: matrix(name) for name in SMALL}
    assert list(together) == list(SMALL)
    seen: list[int] = []

    def shown(results, total):  # type: ignore[no-untyped-def]
        seen.append(total)
        return results

    assert matrices(("unembedding",), curated=True, jobs=1, shown=shown) == {"unembedding": []}
    assert seen == [1]


def test_toothless_checkers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties that always hold, and a prover without points, end in exit code 1 with what they miss."""
    toothless = (Property("", "", lambda kernel, device, sample: LIMIT / 2),)
    monkeypatch.setattr(arrays, "properties_for", lambda kernel: toothless)
    missed = CliRunner().invoke(app, ["verify", "unembedding", "--mutate", "--jobs", "1"])
    assert missed.exit_code == 1
    assert "the property tests miss it" in missed.stderr
    monkeypatch.undo()
    monkeypatch.setattr(table, "told_apart", lambda points, wrong: False)
    blunt = CliRunner().invoke(app, ["verify", "rms_norm", "--mutate", "--curated", "--jobs", "1"])
    assert blunt.exit_code == 1
    assert "rms_norm, weight_twice: the prover does not refute it" in blunt.stderr
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["verify", "rms_norm", "--mutate", "--curated", "--jobs", "1"]).exit_code == 0


def test_only_misfits_count_as_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape that does not fit refuses a mutant; any other exception is an error of ours and shows."""

    def broken(kernel, device, sample):  # type: ignore[no-untyped-def]
        raise AttributeError("no such thing")

    monkeypatch.setattr(arrays, "properties_for", lambda kernel: (Property("", "", broken),))
    with pytest.raises(AttributeError, match="no such thing"):
        matrix("unembedding")


def test_the_matrix_is_printed_and_written_as_data() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["verify", "rms_norm", "--mutate", "--jobs", "1"])
    assert shown.exit_code == 0
    assert "rms_norm: " in shown.output
    assert all(checker in shown.output for checker in CHECKERS)
    assert max(map(len, shown.output.splitlines())) <= 100
    written = json.loads(
        runner.invoke(app, ["verify", "unembedding", "--mutate", "--jobs", "1", "--format", "json"]).output
    )
    assert written["unembedding"][0]["property tests"] == "killed"
    refused = runner.invoke(app, ["verify", "rms_norm", "--mutate", "--format", "junit"])
    assert "table or JSON" in str(refused.exception)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["attention", "--mutate", "--mode", "tangent"], "attention_tangent has no gradients in which a mistake could"),
        (["attention", "--mutate", "--only", "softmax"], "leave out --backend, --only, --rigorous"),
        (["attention", "--mutate", "--backend", "numpy"], "leave out --backend, --only, --rigorous"),
        (["attention", "--mutate", "--out", "docs"], "leave out names and --curated"),
        (["--mutate", "--mode", "tangent"], "name the programs"),
        (["attention", "--curated"], "are for --mutate"),
        (["attention", "--mutate", "--rigorous"], "leave out --backend, --only, --rigorous"),
    ],
)
def test_what_the_matrix_cannot_do_is_refused(asked: list[str], said: str) -> None:
    refused = CliRunner().invoke(app, ["verify", *asked])
    assert said in str(refused.exception)


def test_the_matrix_takes_a_mode_and_a_file_of_ones_own(tmp_path: Path) -> None:
    """Neither has committed code; it is generated in memory, which one process has."""
    file = tmp_path / "products.py"
    file.write_text(
        """from derive.algebra import Axis, Total
from derive.forward import Builder

i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
p = Builder("mutated_products", "Scores alone.")
X, Y = p.input("X", i, c), p.input("Y", j, c)
p.define("S", (i, j), Total(X[i, c] * Y[j, c], c))
program = p.output("S").build()
""",
        encoding="utf-8",
    )
    for mode, name in (("backward", "mutated_products"), ("double-backward", "mutated_products_double_backward")):
        shown = CliRunner().invoke(app, ["verify", "--mutate", str(file), "--mode", mode, "--format", "json"])
        assert shown.exit_code == 0, shown.exception
        assert {row["property tests"] for row in json.loads(shown.output)[name]} == {"killed"}


def test_records_hold_every_verdict() -> None:
    rows: list[Row] = matrix("unembedding")
    assert all({"mistake", "kind", "place", "breaks", *CHECKERS} == set(record) for record in as_records(rows))


def test_all_programs_are_summed_in_one_matrix_and_one_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("derive.forward.names", lambda: SMALL)
    shown = CliRunner().invoke(app, ["verify", "--mutate", "--jobs", "1", "--out", str(tmp_path / "pages")])
    assert shown.exit_code == 0, shown.output
    assert "2 programs: " in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100
    for name in SMALL:
        assert sum(line.strip().startswith(name) for line in shown.output.splitlines()) == 1
    written = (tmp_path / "pages" / "checkers.md").read_text(encoding="utf-8")
    assert written == checkers_page(matrices(SMALL, jobs=1))
    (tmp_path / "file").write_text("")
    refused = CliRunner().invoke(app, ["verify", "--mutate", "--jobs", "1", "--out", str(tmp_path / "file")])
    assert "choose a directory" in str(refused.exception)


def test_the_page_names_survivors() -> None:
    rows = matrix("unembedding")
    spoiled = [replace(rows[0], verdicts={**rows[0].verdicts, "fingerprint": "survived"}), *rows[1:]]
    assert f"- unembedding, {rows[0].mistake}: prover ✓, fingerprint missed" in checkers_page({"unembedding": spoiled})
    assert "fingerprint missed" not in checkers_page({"unembedding": rows})


def test_the_committed_page_is_what_the_mistakes_give() -> None:
    """Two small programs again; `backprove verify --mutate --out docs/generated` writes the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name in SMALL:
        assert program_line(name, matrix(name)) in text, f"{name} is stale; run: backprove verify --mutate --out …"
    assert all(f"| `{name}` |" in text for name in names())
    assert all(f"| `{m.name}` | `{m.program}` | {m.place} |" in text for m in MISTAKES)
