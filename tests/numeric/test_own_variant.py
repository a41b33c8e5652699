"""A user's own definition in a file: derived, generated and verified from the command line, mistakes explained."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import numeric.cli as cli
from derive.forward import from_file
from numeric.derivations import derivation_of

HEAD = """
import sympy as sp
from derive.algebra import Axis, Indicator, Total
from derive.forward import Builder
from derive.forward.softmax import softmax

i, j, c, v = Axis("i", "n"), Axis("j", "m"), Axis("c", "d"), Axis("v", "d_v")
p = Builder("{name}", "A variant.")
Q, K, V = p.input("Q", i, c), p.input("K", j, c), p.input("V", j, v)
"""

VARIANTS = {
    "softcap": """
cap = p.parameter("cap", sp.Rational(61, 2), "the largest score")
T = p.define("T", (i, j), sp.tanh(Total(Q[i, c] * K[j, c], c) / sp.sqrt(c.size) / cap))
A = p.define("A", (i, j), softmax(cap * T[i, j], over=j))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").build()
""",
    "sliding_window": """
width = p.parameter("width", 3, "how many keys a query sees", integer=True)
M = p.define("M", (i, j), Indicator(j <= i) * Indicator(j > i - width), values="boolean")
A = p.define("A", (i, j), softmax(Total(Q[i, c] * K[j, c], c) / sp.sqrt(c.size), over=j, visible=M[i, j]))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").build()
""",
    "inline_window": """
near = Indicator(j <= i - 1) * Indicator(j >= i - 3)
A = p.define("A", (i, j), softmax(Total(Q[i, c] * K[j, c], c), over=j, visible=near))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").build()
""",
    "differential": """
R = p.input("R", j, c)
weight = p.parameter("weight", 1)
first, second = softmax(Total(Q[i, c] * K[j, c], c), over=j), softmax(Total(Q[i, c] * R[j, c], c), over=j)
p.define("O", (i, v), Total((first - weight * second) * V[j, v], j))
program = p.output("O").build()
""",
    "entropy": """
A = p.define("A", (i, j), softmax(Total(Q[i, c] * K[j, c], c), over=j))
p.define("H", (i,), -Total(A[i, j] * sp.log(A[i, j]), j))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").output("H").output("A").build()
""",
    "decaying": """
t = p.input("t", i)
S = p.define("S", (i, j), Total(Q[i, c] * K[j, c], c) * sp.exp(-t[i]))
A = p.define("A", (i, j), softmax(S[i, j], over=j))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").build()
""",
    "residual": """
p.define("O", (j, v), V[j, v] + V[j, v])
U = p.define("U", (i, c), 2 * Q[i, c])
program = p.output("O").output("U").build()
""",
    "sigmoid": """
b = p.input("b", j)
W = p.define("W", (i, j), 1 / (1 + sp.exp(-Total(Q[i, c] * K[j, c], c) - b[j])))
p.define("O", (i, v), Total(W[i, j] * V[j, v], j))
program = p.output("O").build()
""",
    "normalised_queries": """
N = p.define("N", (i,), 1 / sp.sqrt(Total(Q[i, c] ** 2, c) / c.size + sp.Rational(1, 1000)))
A = p.define("A", (i, j), softmax(N[i] * Total(Q[i, c] * K[j, c], c), over=j))
p.define("O", (i, v), Total(A[i, j] * V[j, v], j))
program = p.output("O").output("A").build()
""",
}

OVERFLOWS = {
    "entropy": "a large common mean: float32",
    "decaying": "extreme values: float16",
    "sigmoid": "extreme values: float16",
}
"""Variants whose formulas overflow at some sample, as log A does where A underflows: verify says where."""


@pytest.fixture
def backprove(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: exit code, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["backprove", *arguments])
        capfd.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        return int(code or 0), *capfd.readouterr()  # type: ignore[call-overload]

    return run


@pytest.mark.parametrize("name", list(VARIANTS))
def test_a_variant_is_derived_generated_and_verified(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path, name: str
) -> None:
    """Everything that the package's own programs get, from ten lines in a file."""
    file = tmp_path / "variant.py"
    file.write_text(HEAD.format(name=name) + VARIANTS[name], encoding="utf-8")
    code, text, _ = backprove("derive", str(file))
    assert code == cli.HOLDS
    assert "∇V" in text
    out = ("--out", str(tmp_path / "kernels"))
    assert backprove("generate", str(file), *out)[0] == cli.HOLDS
    assert (tmp_path / "kernels" / "numpy" / f"{name}.py").is_file()
    assert backprove("generate", str(file), "--check", *out)[0] == cli.HOLDS
    code, report, errors = backprove("verify", str(file), "--backend", "numpy", "--format", "json")
    rows = json.loads(report)
    wrong = [r for r in rows if r["status"] == "fails"]
    assert code == (cli.WRONG if name in OVERFLOWS else cli.HOLDS), wrong or errors
    assert {r["property"] for r in wrong} <= {"outputs equal the definitions", "gradients equal the chain rule"}
    assert all(r["detail"].startswith(OVERFLOWS[name]) for r in wrong)
    assert {"outputs equal the definitions", "finite differences agree"} <= {r["property"] for r in rows}
    unmeasured = [r for r in rows if r["status"] == "not measured"]
    assert all("has no fingerprint" in r["detail"] for r in unmeasured), "an exponential of an exponential"


MISTAKES = {
    "axis twice": ('p.define("S", (i, i), Q[i, c])', ["line 10", "axis i is used twice"]),
    "loose axis": ('p.define("S", (i,), Q[i, c])', ["line 10", "axis c", "Total("]),
    "unknown tensor": (
        'from derive.algebra import Tensor\np.define("S", (i,), Tensor("X", i)[i])',
        ["line 11", "X[i]"],
    ),
    "wrong rank": ('p.define("S", (i,), Q[i])', ["line 10", "Q has 2 axes of sizes (n, d)"]),
    "wrong size": ('p.define("S", (i, j), Q[j, c])', ["line 10", "axis j has size m", "size n"]),
    "a typing error": ("p.defin()", ["line 10", "AttributeError", "defin"]),
    "no program": ("", ["0 programs", "build()"]),
    "a taken name": (
        'q = Builder("attention", "")\nx = q.input("x", i)\nq.define("y", (i,), x[i])\nr = q.output("y").build()',
        ["'attention' is taken"],
    ),
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_points_at_the_line(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path, name: str
) -> None:
    """One line of error with the file, the line, what is wrong and what to do."""
    body, facts = MISTAKES[name]
    file = tmp_path / "wrong.py"
    file.write_text(HEAD.format(name="wrong") + body + "\n", encoding="utf-8")
    code, out, errors = backprove("derive", str(file))
    assert (code, out) == (cli.USAGE, "")
    assert len(errors.strip().splitlines()) == 1
    for fact in [str(file), *facts]:
        assert fact in errors, errors


def test_what_has_no_derivative_is_refused_by_name(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """Rounding a score is no differentiable thing to do; the error names the function and the definition."""
    file = tmp_path / "rounded.py"
    body = 'S = p.define("S", (i, j), sp.floor(Total(Q[i, c] * K[j, c], c)))\nprogram = p.output("S").build()\n'
    file.write_text(HEAD.format(name="rounded") + body, encoding="utf-8")
    code, _, errors = backprove("derive", str(file))
    assert code == cli.USAGE
    assert "rounded" in errors
    assert "floor" in errors
    assert "S[i, j]" in errors


def test_own_kernels_need_a_directory_of_their_own(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """They are never written among the package's."""
    file = tmp_path / "variant.py"
    file.write_text(HEAD.format(name="sigmoid") + VARIANTS["sigmoid"], encoding="utf-8")
    code, _, errors = backprove("generate", str(file))
    assert code == cli.USAGE
    assert "--out" in errors
    assert backprove("derive", str(tmp_path / "nowhere.py"))[0] == cli.USAGE


def test_a_changed_file_is_derived_anew(tmp_path: Path) -> None:
    """The oracle goes by the definitions, not by the name that they bear."""
    file, values = tmp_path / "twice.py", []
    for factor in (2, 3):
        body = f'p.define("O", (i, c), {factor} * Q[i, c] ** 2)\nprogram = p.output("O").build()\n'
        file.write_text(HEAD.format(name="twice") + body, encoding="utf-8")
        values.append(str(derivation_of(from_file(file).name).derived.definition("dQ").value))
    assert values == ["4*Q[i, c]*dO[i, c]", "6*Q[i, c]*dO[i, c]"]


def test_a_name_that_ends_like_a_mode_is_refused(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    body = 'S = p.define("S", (i, j), Total(Q[i, c] * K[j, c], c))\nprogram = p.output("S").build()\n'
    file.write_text(HEAD.format(name="attention_tangent") + body, encoding="utf-8")
    code, _, errors = backprove("derive", str(file))
    assert code == cli.USAGE
    assert "'attention_tangent' ends like a mode" in errors


def test_a_mode_of_a_file_is_generated_and_verified_and_other_kernels_stay(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    body = 'S = p.define("S", (i, j), Total(Q[i, c] * K[j, c], c))\nprogram = p.output("S").build()\n'
    file.write_text(HEAD.format(name="products") + body, encoding="utf-8")
    out = ("--out", str(tmp_path / "kernels"))
    assert backprove("generate", str(file), *out)[0] == cli.HOLDS
    assert backprove("generate", str(file), "--mode", "tangent", *out)[0] == cli.HOLDS
    names = sorted(p.name for p in (tmp_path / "kernels" / "numpy").iterdir())
    assert names == ["products.py", "products_tangent.py"]
    code, report, _ = backprove("verify", str(file), "--mode", "tangent", "--backend", "numpy", "--format", "json")
    assert code == cli.HOLDS
    assert "tangents and gradients are adjoint" in {row["property"] for row in json.loads(report)}


DECLARED = """import sympy as sp
from derive.forward.attention import variant

class Bump(sp.Function):
    nargs = 1
    definition = property(lambda self: self.args[0] / (1 + self.args[0] ** 2))

    def fdiff(self, argindex=1):
        return {derivative}

program = variant("bump", "Attention with squashed scores.", score=lambda p, s: Bump(s))
"""


def test_a_function_of_ones_own_declares_its_derivative_and_a_wrong_one_is_found(
    backprove: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """Its definition is what runs, its ``fdiff`` what is derived; finite differences hold one against the other."""
    for derivative, right in (("(1 - self.args[0] ** 2) / (1 + self.args[0] ** 2) ** 2", True), ("1 - self**2", False)):
        file = tmp_path / f"bump_{right}.py"
        file.write_text(DECLARED.format(derivative=derivative), encoding="utf-8")
        code, report, _ = backprove("verify", str(file), "--backend", "numpy", "--format", "json")
        failing = {row["property"] for row in json.loads(report) if row["status"] == "fails"}
        assert code == (cli.HOLDS if right else cli.WRONG)
        assert ("finite differences agree" in failing) == (not right)
