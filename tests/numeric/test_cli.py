"""The command line: output that reads well, exit codes, reports for machines, nothing half-written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

import numeric.cli as cli
from derive.forward import program
from derive.pipeline import module
from numeric import kernels
from numeric.kernels import module_of
from numeric.verify import BALLS, Finding
from tests.families import ATTENTION

Backprove = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def backprove(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Backprove:
    """Run the command in this process, as the console script does."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["backprove", *arguments])
        capfd.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(code or 0), out, err)  # type: ignore[call-overload]

    return run


def _width(text: str) -> int:
    """The widest line in terminal columns; combining marks take none."""
    return max(sum(not unicodedata.combining(c) for c in line) for line in text.splitlines())


@pytest.mark.parametrize("notation", ["row", "column", "index"])
@pytest.mark.parametrize("program", ATTENTION)
@pytest.mark.parametrize("mode", ["backward", "tangent"])
def test_derive_prints_every_combination(backprove: Backprove, program: str, notation: str, mode: str) -> None:
    """Text fits 100 columns; LaTeX, Markdown and JSON are well formed."""
    asked = ("derive", program, "--notation", notation, "--mode", mode)
    for more in ((), ("--full",)):
        text = backprove(*asked, *more)
        assert text.returncode == 0
        assert _width(text.stdout) <= 100
        page = json.loads(backprove(*asked, *more, "--format", "json").stdout)
        assert page["program"] == program
        assert page["steps"]
        for style in ("latex", "markdown"):
            source = backprove(*asked, *more, "--format", style).stdout
            assert source.count("{") == source.count("}")
            assert source.count("$$") % 2 == 0
            assert all(step["rule"] in source for step in page["steps"]), "every step is in every format"


def test_row_notation_reads_like_the_short_answer(backprove: Backprove) -> None:
    """The five formulas of the matrix calculus guide, aligned."""
    text = backprove("derive", "attention").stdout
    for formula in (
        "∇V = AᵀG",
        "G̃ = ∇A = GVᵀ",
        "∇S = A ∘ (G̃ − r1ᵀ)",
        "r = rowsum(A ∘ G̃)",
        "∇Q = (∇S)K/√d",
        "∇K = (∇S)ᵀQ/√d",
    ):
        assert formula in text


def test_column_notation_reads_like_the_notes(backprove: Backprove) -> None:
    """B, E and R of the lecture notes' section 7."""
    text = backprove("derive", "attention", "--notation", "column").stdout
    for formula in ("O = VA", "E = ∇A = VᵀB", "R = ∇S = A ∘ (E − 1rᵀ)", "∇Q = KR/√d", "∇K = QRᵀ/√d", "∇V = BAᵀ"):
        assert formula in text


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("derive", "atention"), ["'atention'", "attention, causal_attention"]),
        (("verify", "atention"), ["'atention'", "attention, causal_attention"]),
        (("verify", "--backend", "jax"), ["'jax'", "numpy, cupy"]),
        (("bench", "everything"), ["'everything'", "derive, prove, run, sensitivity, stack"]),
        (("document", "--input", "nowhere.json"), ["nowhere.json"]),
    ],
    ids=lambda a: " ".join(a) if isinstance(a, tuple) else "",
)
def test_bad_usage_is_one_line_and_code_2(backprove: Backprove, arguments: tuple[str, ...], facts: list[str]) -> None:
    """The message says what was given and what there is; no traceback."""
    done = backprove(*arguments)
    assert done.returncode == cli.USAGE
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert all(fact in done.stderr for fact in facts), done.stderr


def test_unknown_options_are_bad_usage(backprove: Backprove) -> None:
    """The command-line library's own errors have the same code."""
    assert backprove("derive", "attention", "--notation", "diagonal").returncode == cli.USAGE


def test_verify_reports_every_word_it_earned(backprove: Backprove) -> None:
    """JSON and JUnit hold the same findings as the table."""
    asked = ("verify", "attention", "--backend", "numpy", "--only", "row")
    rows = json.loads(backprove(*asked, "--format", "json").stdout)
    assert {row["evidence"] for row in rows} == {"proved", "checked"}
    for only, evidence in (
        ("compacting", "fingerprinted"),
        ("generated order", "fingerprinted"),
        ("forward mode", "exact"),
    ):
        some = json.loads(backprove("verify", "attention", "--only", only, "--format", "json").stdout)
        assert evidence in {row["evidence"] for row in some}
        missed = [row["detail"] for row in some if row["evidence"] == "fingerprinted"]
        bounds = [re.search(r"missed with probability below 2⁻(\S+) .*degree [1-9]", detail) for detail in missed]
        assert all(bound and int(unicodedata.normalize("NFKC", bound[1])) >= 40 for bound in bounds), missed
        assert all("seed " in row["detail"] for row in some)
    assert all(row["status"] == "holds" for row in rows)
    assert all((row["error"] is None) == (row["backend"] == "symbolic") for row in rows)
    suites = ElementTree.fromstring(backprove(*asked, "--format", "junit").stdout.encode())
    assert len(suites.findall(".//testcase")) == len(rows)
    table = backprove(*asked).stdout
    assert all(row["property"] in table for row in rows)
    assert _width(table) <= 100


RIGOROUS = ("verify", "--rigorous", "--backend", "numpy", "--only", "rigorous")


@pytest.mark.parametrize("asked", [("attention",), ("embedding", "layer_norm"), ("attention", "--mode", "tangent")])
def test_rigorous_says_how_close_each_kernel_is(backprove: Backprove, asked: tuple[str, ...]) -> None:
    """One row and one line a program, in every format; without the option there is no row."""
    pytest.importorskip("flint", reason="balls come from python-flint")
    done = backprove(*RIGOROUS, *asked, "--format", "json")
    rows, programs = json.loads(done.stdout), 1 if "--mode" in asked else len(asked)
    assert done.returncode == cli.HOLDS
    assert [row["evidence"] for row in rows] == ["bounded"] * programs
    for row in rows:
        wording = r"d?\w+ up to \d\.\de-1[4-6] from a ball of radius (0|\de-4\d) \(float64\)"
        assert re.fullmatch(wording, row["detail"]), row["detail"]
        assert 0 < row["error"] <= 2
    table = backprove(*RIGOROUS, *asked).stdout
    assert [f"{row['program']} (numpy): {row['detail']}" in table.splitlines() for row in rows] == [True] * programs
    assert _width(table) <= 100
    suites = ElementTree.fromstring(backprove(*RIGOROUS, *asked, "--format", "junit").stdout.encode())
    assert [case.get("name") for case in suites.findall(".//testcase")] == [f"{BALLS} (bounded)"] * programs
    plain = backprove("verify", *RIGOROUS[2:], *asked)
    assert plain.returncode == cli.NOTHING_CHECKED


def test_rigorous_finds_what_is_wrong_by_a_billionth(backprove: Backprove, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flint", reason="balls come from python-flint")
    generated = module(program("attention"), "numpy")
    source = generated.replace("dV = visible_matmul(", "dV = (1 + 1e-9) * visible_matmul(")
    assert source != generated
    monkeypatch.setitem(kernels._PROVIDED, ("attention", "numpy"), module_of(source, "a wrong attention"))
    done = backprove(*RIGOROUS, "attention")
    assert done.returncode == cli.WRONG
    told = " ".join(done.stdout.split())
    assert re.search(r"attention: results lie in rigorous balls \(numpy\): dV .* float64, sizes", told)


def test_without_python_flint_rigorous_is_refused(backprove: Backprove, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install; everything else runs."""
    monkeypatch.setitem(sys.modules, "flint", None)
    done = backprove("verify", "attention", "--rigorous")
    assert (done.returncode, done.stdout) == (cli.USAGE, "")
    assert re.fullmatch(r"backprove: rigorous balls need python-flint .*pip install python-flint\n", done.stderr)
    assert backprove("verify", "unembedding", "--backend", "numpy").returncode == cli.HOLDS


def test_a_function_that_has_no_balls_is_not_measured(backprove: Backprove, tmp_path: Path) -> None:
    pytest.importorskip("flint", reason="balls come from python-flint")
    file = tmp_path / "signs.py"
    file.write_text(
        """import sympy as sp
from derive.algebra import Axis
from derive.forward import Builder

i = Axis("i", "n")
p = Builder("signs", "Products with signs.")
X, Y = p.input("X", i), p.input("Y", i, constant=True)
p.define("Z", (i,), X[i] * sp.sign(Y[i]))
program = p.output("Z").build()
""",
        encoding="utf-8",
    )
    done = backprove(*RIGOROUS, str(file))
    assert done.returncode == cli.NOTHING_CHECKED
    assert "not measured on numpy: Arb has no function sign" in done.stdout


@pytest.mark.parametrize("installed", [True, False])
def test_run_has_balls_where_python_flint_is(
    backprove: Backprove, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """And says that they are missing where it is not; what takes long is left out here."""
    if installed:
        pytest.importorskip("flint", reason="balls come from python-flint")
    else:
        monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.setattr("derive.pipeline.made", lambda *_: None)
    monkeypatch.setattr(cli, "_written", lambda *_, **__: [])
    monkeypatch.setattr(cli, "_document", lambda *_: ())
    real = cli._findings
    monkeypatch.setattr(cli, "_findings", lambda *_, **more: real(["unembedding"], ["numpy"], **more))
    done = backprove("run")
    assert done.returncode == cli.HOLDS
    assert ("1 bounded" in done.stdout) == installed
    assert ("not measured on numpy: rigorous balls need python-flint" in done.stdout) != installed


def test_nothing_checked_is_not_success(backprove: Backprove) -> None:
    """A filter that matches nothing must not pass in CI."""
    done = backprove("verify", "--only", "no such property")
    assert done.returncode == cli.NOTHING_CHECKED
    assert "nothing was checked" in done.stdout


def test_what_is_not_measured_does_not_count_as_checked() -> None:
    """Skips alone are nothing; one failure among successes is a failure."""
    skipped = Finding("p", "x", "cupy", "", "not measured", None, "no device")
    holds = Finding("p", "y", "numpy", "checked", "holds", 0.1)
    fails = Finding("p", "z", "numpy", "checked", "fails", 7.0)
    assert cli._exit_code([skipped]) == cli.NOTHING_CHECKED
    assert cli._exit_code([skipped, holds]) == cli.HOLDS
    assert cli._exit_code([holds, fails]) == cli.WRONG


def test_generate_check_and_generate(backprove: Backprove, tmp_path: Path) -> None:
    """Committed files are fresh; a tampered copy is shown as a diff and mended; a second run changes nothing."""
    assert backprove("generate", "--check").returncode == cli.HOLDS
    out = ("--out", str(tmp_path))
    missing = backprove("generate", "--check", *out)
    assert missing.returncode == cli.WRONG
    assert "missing: numpy/attention.py" in missing.stdout
    assert list(tmp_path.iterdir()) == []
    assert backprove("generate", *out).returncode == cli.HOLDS
    target = tmp_path / "numpy" / "attention.py"
    target.write_text(target.read_text(encoding="utf-8").replace("dO @ V.mT", "dO @ V"), encoding="utf-8")
    (tmp_path / "cupy" / "old.py").write_text("# by hand\n", encoding="utf-8")
    wrong = backprove("generate", "--check", *out)
    assert wrong.returncode == cli.WRONG
    assert "leftover: cupy/old.py, which backprove did not write\n" in wrong.stdout
    assert "changed: numpy/attention.py, which was edited since\n" in wrong.stdout
    assert "-    dA = dO @ V\n+    dA = dO @ V.mT" in wrong.stdout
    mended = backprove("generate", *out)
    assert mended.returncode == cli.HOLDS
    assert "rewrote: numpy/attention.py, which was edited since\n" in mended.stdout
    assert "kept: cupy/old.py, which backprove did not write\n" in mended.stdout
    assert (tmp_path / "cupy" / "old.py").exists(), "what backprove did not write is not its own to delete"
    (tmp_path / "cupy" / "old.py").unlink()
    assert backprove("generate", "--check", *out).returncode == cli.HOLDS


def test_help_names_every_command() -> None:
    """``--help`` in a process of its own, without SymPy or NumPy being imported."""
    done = subprocess.run([sys.executable, "-m", "numeric", "--help"], capture_output=True, text=True, check=True)
    assert all(command in done.stdout for command in ("derive", "generate", "verify", "document", "bench", "run"))
