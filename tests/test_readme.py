"""The README is true: its examples run, and the output that it shows is the output."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from derive.document import to_html, to_markdown, worked_example
from numeric.cli import app

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def _normalised(text: str) -> list[str]:
    """Lines without layout, and without bounds on rounding in float64, which depend on the machine's BLAS."""
    unmeasured = re.sub(r"\d(\.\d)?e-\d+", "#", text)
    return [" ".join(line.split()) for line in unmeasured.splitlines() if line.strip()]


def test_python_examples_run() -> None:
    """Every Python example that stands on its own runs; the oracle example runs on a kernel's own gradient."""
    first = next(b for b in _blocks("python") if "numeric.load" in b)
    scope: dict[str, object] = {}
    exec(first, scope)
    assert set(scope["grads"]) == {"Q", "K", "V"}  # type: ignore[call-overload]
    oracle = next(b for b in _blocks("python") if "exact_run" in b)
    second = next(b for b in _blocks("python") if "double_backward" in b)
    exec(second, scope)
    assert set(scope["second"]) == {"Q", "K", "V", "grad_O"}  # type: ignore[call-overload]
    scope |= {"dO": np.ones((8, 5, 3)), "my_dQ": scope["grads"]["Q"]}  # type: ignore[index]
    exec(oracle.replace("scaled_error(my", "error = scaled_error(my"), scope)
    assert float(scope["error"]) < 1  # type: ignore[arg-type]
    sizes = next(b for b in _blocks("python") if "sizes={" in b)
    exec(sizes.replace("\nforward_mode_agrees(", "\nagrees = forward_mode_agrees("), scope)
    assert scope["agrees"] is True


def test_the_variant_is_derived_generated_and_verified(tmp_path: Path) -> None:
    """The README's own variant in a file: its shown lines are printed, and everything about it holds."""
    variant = next(b for b in _blocks("python") if "tempered" in b)
    file = tmp_path / "tempered.py"
    file.write_text(variant, encoding="utf-8")
    runner = CliRunner()
    derived = runner.invoke(app, ["derive", str(file)])
    printed = _normalised(derived.output)
    shown = next(b for b in _blocks("console") if "derive tempered.py" in b)
    for line in _normalised(shown):
        if not line.startswith("$") and line != "…":
            assert line in printed, line
    assert runner.invoke(app, ["generate", str(file), "--out", str(tmp_path / "kernels")]).exit_code == 0
    assert runner.invoke(app, ["verify", str(file), "--backend", "numpy"]).exit_code == 0


def test_shown_output_is_the_output() -> None:
    """Each line that the README shows under a command is a line that the command prints."""
    runner = CliRunner()
    for command, arguments in (
        ("derive attention", ["derive", "attention"]),
        ("verify attention", ["verify", "attention", "--only", "sum"]),
        ("derive attention_head", ["derive", "attention_head", "--notation", "column"]),
        ("derive attention --fix", ["derive", "attention", "--fix", "i"]),
        ("derive attention --mode", ["derive", "attention", "--mode", "double-backward"]),
        ("prove attention", ["prove", "attention", "--only", "score gradients sum to zero"]),
        ("count gpt3", ["count", "gpt3"]),
        ("verify attention --mutate", ["verify", "attention", "--mutate"]),
        ("verify attention --only rigorous", ["verify", "attention", "--only", "rigorous", "--rigorous"]),
        ("cost decode_step", ["cost", "decode_step", "--sizes", "m=4096,d=128,d_v=128"]),
    ):
        shown = next(b for b in _blocks("console") if f"$ backprove {command}" in b)
        printed = _normalised(runner.invoke(app, arguments).output)
        for line in _normalised(shown):
            if not line.startswith("$") and line != "…":
                assert line in printed, f"{line!r} is not printed by backprove {command}"


def test_names_in_the_readme_exist() -> None:
    """Every path that is linked or listed exists."""
    root = Path(__file__).parents[1]
    for path in re.findall(r"\]\(([\w./]+)\)", README) + re.findall(r"`((?:derive|numeric)/[\w./]+)`", README):
        assert (root / path).exists(), path


def test_the_committed_pages_are_what_the_derivation_gives() -> None:
    """The worked example under docs/generated is fresh; `backprove document` writes it."""
    example = worked_example()
    generated = Path(__file__).parents[1] / "docs" / "generated"
    for name, text in (("worked_example.md", to_markdown(example)), ("worked_example.html", to_html(example))):
        assert (generated / name).read_text(encoding="utf-8") == text, f"{name} is stale; run: backprove document"
