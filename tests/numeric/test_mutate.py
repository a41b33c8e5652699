"""The checkers, checked: every systematic mistake in a gradient is refused, and common practice lets many through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from derive.algebra import Entry
from derive.calculus import backward
from derive.forward import program
from derive.mistakes import MISTAKES
from derive.mistakes.systematic import KINDS, systematic
from numeric.cli import app
from numeric.mutate import CHECKERS, Row, _spelled_out, as_records, counts, matrix

OURS, PRACTICE = CHECKERS[:4], CHECKERS[4:]


@pytest.mark.parametrize("name", ["attention", "causal_attention", "layer_norm", "swiglu"])
def test_no_wrong_gradient_survives(name: str) -> None:
    """Prover, fingerprint, properties and finite differences see every mistake that they can be asked about."""
    rows = matrix(name)
    assert len(rows) > 30
    for row in rows:
        assert all(row.verdicts[checker] != "survived" for checker in OURS), (row.mutant.name, row.verdicts)
    assert sum(row.verdicts["property tests"] == "–" for row in rows) <= len(rows) // 20
    if name == "attention":
        found = counts(rows)
        assert all(found[checker]["survived"] > 0 for checker in PRACTICE), found
        assert found["loss = mean, 1e-2"]["survived"] > len(rows) // 3


@pytest.mark.parametrize("name", ["embedding", "cross_entropy"])
def test_the_prover_sees_mistakes_in_integers(name: str) -> None:
    """Tokens are told from their squares, and targets that are ignored from those that count."""
    rows = {row.mutant.name: row.verdicts["prover"] for row in matrix(name)}
    assert any("tokens" in mistake or "targets" in mistake for mistake in rows)
    assert "survived" not in rows.values(), rows


def test_what_is_nobodys_cotangent_is_written_out_whatever_its_name() -> None:
    """In dS = A ∘ (dA − r) the row sum is, and the gradient of A is not, also if they are called otherwise."""
    derivation = backward(program("attention").plain())
    names = {"r": "total", "dA": "raw"}
    renamed = derivation.derived.renamed(names)
    called = {tensor: names.get(name, name) for tensor, name in derivation.names.items()}
    spelled = _spelled_out(replace(derivation, names=called), renamed, "dS")
    assert {str(entry.base.name) for entry in spelled.atoms(Entry)} == {"A", "raw"}


@pytest.mark.parametrize("name", sorted({m.program for m in MISTAKES}))
def test_every_listed_mistake_is_seen_by_every_checker(name: str) -> None:
    """The prover has a counterexample for each, or sizes at which it is not even defined."""
    rows = {row.mutant.name: row.verdicts for row in matrix(name, curated=True)}
    assert {m.name for m in MISTAKES if m.program == name} <= set(rows)
    for mistake, verdicts in rows.items():
        assert all(verdicts[checker] == "killed" for checker in OURS), (mistake, verdicts)


def test_every_kind_of_slip_occurs_and_changes_one_definition() -> None:
    derivation = backward(program("attention"))
    slips = systematic(derivation)
    assert {slip.kind for slip in slips} == set(KINDS)
    assert len({slip.name for slip in slips}) == len(slips)
    for slip in slips:
        wrong = slip.change(derivation.derived)
        changed = [
            d.name for d, right in zip(wrong.definitions, derivation.derived.definitions, strict=True) if d != right
        ]
        assert changed == [slip.breaks]


def test_a_slip_that_changes_nothing_is_proved_to_be_none() -> None:
    """A 0/1 factor applied twice is the factor itself: M² = M; SymPy sees it, so there is no such slip at all."""
    derivation = backward(program("causal_attention").returning("O"))
    assert not [s for s in systematic(derivation) if s.kind == "twice" and s.detail == "M"]


def test_the_matrix_is_printed_and_written_as_data() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["verify", "rms_norm", "--mutate"])
    assert shown.exit_code == 0
    assert "rms_norm: " in shown.output
    assert all(checker in shown.output for checker in CHECKERS)
    assert max(map(len, shown.output.splitlines())) <= 100
    written = json.loads(runner.invoke(app, ["verify", "unembedding", "--mutate", "--format", "json"]).output)
    assert written["unembedding"][0]["property tests"] == "killed"
    refused = runner.invoke(app, ["verify", "rms_norm", "--mutate", "--format", "junit"])
    assert "table or JSON" in str(refused.exception)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["attention", "--mode", "tangent"], "attention_tangent has no gradients in which a mistake could be made"),
        (["attention", "--only", "softmax"], "leave out --backend, --only and --rigorous"),
        (["attention", "--backend", "numpy"], "leave out --backend, --only and --rigorous"),
        (["attention", "--rigorous"], "leave out --backend, --only and --rigorous"),
    ],
)
def test_what_the_matrix_cannot_do_is_refused(asked: list[str], said: str) -> None:
    refused = CliRunner().invoke(app, ["verify", "--mutate", *asked])
    assert said in str(refused.exception)


def test_the_matrix_takes_a_mode_and_a_file_of_ones_own(tmp_path: Path) -> None:
    """Neither has committed code; it is generated in memory."""
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
    assert all({"mistake", "kind", "breaks", *CHECKERS} == set(record) for record in as_records(rows))
