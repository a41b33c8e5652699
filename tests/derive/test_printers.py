"""Printers: the formulas of the textbooks to the letter, well-formed documents, and code that computes what it says."""

from __future__ import annotations

import ast
import json
import math
import random
import re
import textwrap
import unicodedata
from dataclasses import asdict, replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.algebra import Axis, Delta, Indicator, Maximum, Tensor, Total, Visible
from derive.calculus import backward, tangent
from derive.errors import PrintingError
from derive.forward import Builder, Program, program
from derive.forward.softmax import softmax
from derive.generate import MARK
from derive.lower import arrays as nodes
from derive.lower.arrays import (
    All,
    Apply,
    Checked,
    Fill,
    Gather,
    Name,
    Node,
    Number,
    Positions,
    Product,
    Reduce,
    Scalar,
    Select,
    View,
    Zeros,
)
from derive.lower.dense import dense
from derive.printers.arrays import ArrayPrinter, scalar_source
from derive.printers.derivation import Page, as_json, latex, markdown, page
from derive.printers.index import IndexPrinter
from derive.printers.matrix import MatrixPrinter
from derive.printers.module import _wrapped, module_source
from derive.printers.notation import NOTATIONS, Writer
from derive.printers.style import Latex, Text
from tests.derive.test_calculus import SMALL, derived
from tests.families import ATTENTION

i, k, l = (Axis(name, "n") for name in "ikl")
j, p = Axis("j", "m"), Axis("p", "m")
c = Axis("c", "d")
X, Y, Z = Tensor("X", i, j), Tensor("Y", i, k), Tensor("Z", i)


# Formulas, to the letter.

ROW = {
    "S": "QKᵀ/√d",
    "A": "softmax(S)",
    "O": "AV",
    "∇V": "AᵀG",
    "G̃ = ∇A": "GVᵀ",
    "r": "rowsum(A ∘ G̃)",
    "∇S": "A ∘ (G̃ − r1ᵀ)",
    "∇Q": "(∇S)K/√d",
    "∇K": "(∇S)ᵀQ/√d",
}
COLUMN = {
    "S": "KᵀQ/√d",
    "A": "softmax(S)",
    "O": "VA",
    "∇V": "BAᵀ",
    "E = ∇A": "VᵀB",
    "r": "colsum(A ∘ E)",
    "R = ∇S": "A ∘ (E − 1rᵀ)",
    "∇Q": "KR/√d",
    "∇K": "QRᵀ/√d",
}
INDEX = {
    "S[i,j]": "Σ_c K[j,c] Q[i,c]/√d",
    "A[i,j]": "exp(S[i,j])/(Σ_j′ exp(S[i,j′]))",
    "O[i,v]": "Σ_j A[i,j] V[j,v]",
    "∇V[j,v]": "Σ_i A[i,j] ∇O[i,v]",
    "∇A[i,j]": "Σ_v V[j,v] ∇O[i,v]",
    "r[i]": "Σ_j A[i,j] ∇A[i,j]",
    "∇S[i,j]": "A[i,j] (∇A[i,j] − r[i])",
    "∇Q[i,c]": "Σ_j K[j,c] ∇S[i,j]/√d",
    "∇K[j,c]": "Σ_i Q[i,c] ∇S[i,j]/√d",
}


@cache
def written(name: str, notation: Any, mode: str = "backward", *, latex: bool = False, plain: bool = True) -> Page:
    """A program's derivation in a notation."""
    source = SMALL[name]() if name in SMALL else program(name)
    source = source.plain() if plain and name not in SMALL else source
    return page((backward if mode == "backward" else tangent)(source), notation, mode, latex=latex)


@pytest.mark.parametrize(("notation", "expected"), [("row", ROW), ("column", COLUMN), ("index", INDEX)])
def test_attention_reads_as_in_the_textbooks(notation: str, expected: dict[str, str]) -> None:
    document = written("attention", notation)
    assert {line.left: line.right for line in (*document.forward, *document.result)} == expected


LATEX_ROW = {
    "∇V": r"\nabla_{V}\mathcal L = A^\top G",
    "∇A": r"\tilde G = \nabla_{A}\mathcal L = G V^\top",
    "r": r"r = \operatorname{rowsum}\left(A \odot \tilde G\right)",
    "∇S": r"\nabla_{S}\mathcal L = A \odot \left(\tilde G - r \mathbf 1^\top\right)",
    "∇Q": r"\nabla_{Q}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right) K}{\sqrt{d}}",
}


def test_attention_in_latex() -> None:
    document = written("attention", "row", latex=True)
    shown = [f"{line.left} = {line.right}" for line in document.result]
    for formula in LATEX_ROW.values():
        assert formula in shown


def test_a_softmax_says_along_what_it_runs() -> None:
    assert {x.name: x.reason for x in written("attention", "row").forward}["A"] == "row by row"
    assert {x.name: x.reason for x in written("attention", "column").forward}["A"] == "column by column"
    assert {x.name: x.reason for x in written("attention", "index").forward}["A"] == ""


def test_shapes_follow_the_convention() -> None:
    shapes = {n: {x.name: x.shape for x in written("attention", n).result} for n in NOTATIONS}
    assert shapes["row"]["dV"] == "m × d_v"
    assert shapes["column"]["dV"] == "d_v × m"
    assert shapes["index"]["dV"] == "m × d_v"
    assert {x.name: x.shape for x in written("attention", "row", latex=True).result}["dV"] == r"m \times d_v"
    assert {x.shape for x in written("attention", "row").result if x.name == "r"} == {"n"}


def test_tangents_have_dots() -> None:
    document = written("attention", "row", "tangent")
    assert {_composed(x.left): _composed(x.right) for x in document.result} == {
        _composed("Ṡ"): _composed("(Q̇ Kᵀ + Q K̇ᵀ)/√d"),
        _composed("Ȧ"): _composed("A ∘ (Ṡ − rowsum(A ∘ Ṡ) 1ᵀ)"),
        _composed("Ȯ"): _composed("A V̇ + Ȧ V"),
    }


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def test_notes_explain_renamed_letters_and_defaults() -> None:
    notes = written("attention", "row").notes
    assert "G is the gradient that arrives for O" in notes
    assert any(note.startswith("1/√d is the default of the parameter scale") for note in notes)
    assert not any("arrives" in note for note in written("attention", "index").notes)


def test_a_tensor_whose_name_begins_with_d_is_not_a_gradient() -> None:
    """Only dX of a tensor X of the program is written ∇X."""
    b = Builder("decay", "")
    rate, x = b.input("decay", i), b.input("X", i)
    b.define("depth", (i,), rate[i] * x[i])
    source = b.output("depth").build()
    for latex_ in (False, True):
        document = page(backward(source), "index", latex=latex_)
        text = " ".join(f"{x.left} {x.right}" for x in (*document.forward, *document.result))
        assert "ecay" not in re.sub(r"decay", "", text)
        assert "epth" not in re.sub(r"depth", "", text)


# Well-formed documents.

EVERYTHING = [
    (name, notation, mode, plain)
    for name in (*ATTENTION, "gram", "nested_sums", "layer_norm", "quadratic_form", "several_outputs", "positions")
    for notation, mode, plain in product(NOTATIONS, ("backward", "tangent"), (False, True))
    if plain or name not in SMALL
]


def _formulas(document: Page) -> list[str]:
    lines = (*document.forward, *document.steps, *document.result)
    return [text for line in lines for text in (line.left, line.right, line.before) if text]


@pytest.mark.parametrize(("name", "notation", "mode", "plain"), EVERYTHING)
def test_latex_is_balanced(name: str, notation: str, mode: str, plain: bool) -> None:
    for formula in _formulas(written(name, notation, mode, latex=True, plain=plain)):
        assert _depth(formula, "{", "}") == 0, formula
        assert formula.count(r"\left") == formula.count(r"\right"), formula
        assert _depth(formula, r"\left(", r"\right)") == 0, formula
        assert not re.search(r"[∇Σ√∘ᵀ′−≤∞]", formula), formula
        assert not re.search(r"(?<!\\)\^\^|__|\^\{\}|_\{\}", formula), formula


@pytest.mark.parametrize(("name", "notation", "mode", "plain"), EVERYTHING)
def test_text_is_balanced_and_shows_no_bound_names(name: str, notation: str, mode: str, plain: bool) -> None:
    for formula in _formulas(written(name, notation, mode, plain=plain)):
        assert _depth(formula, "(", ")") == 0, formula
        assert _depth(formula, "[", "]") == 0, formula
        assert not re.search(r"~\d|\b_\d|\\|\*|Total|Entry", formula), formula


def _depth(text: str, opening: str, closing: str) -> int:
    depth = 0
    for match in re.finditer(f"(?<!\\\\)(?:{re.escape(opening)}|{re.escape(closing)})", text):
        depth += 1 if match.group() == opening else -1
        assert depth >= 0, text
    return depth


@pytest.mark.parametrize(("name", "notation", "mode", "plain"), EVERYTHING)
def test_json_holds_the_whole_page(name: str, notation: str, mode: str, plain: bool) -> None:
    document = written(name, notation, mode, plain=plain)
    read = json.loads(as_json(document))
    assert read == json.loads(json.dumps(asdict(document)))
    assert (read["program"], read["mode"], read["notation"]) == (document.program, mode, notation)


@pytest.mark.parametrize(("name", "notation", "mode", "plain"), EVERYTHING)
def test_markdown_displays_every_formula(name: str, notation: str, mode: str, plain: bool) -> None:
    document = written(name, notation, mode, latex=True, plain=plain)
    text = markdown(document)
    assert text.count("$$") % 2 == 0
    shown = re.findall(r"\$\$(.+?)\$\$", text)
    assert len(shown) == text.count("$$") // 2
    assert all(formula.strip() and "$" not in formula for formula in shown)
    assert {f"{x.left} = {x.right}" for x in (*document.forward, *document.result)} <= set(shown)
    without = re.sub(r"\$\$.+?\$\$", "", text)
    assert without.count("$") % 2 == 0
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("name", ATTENTION)
def test_latex_environments_are_closed_and_aligned(name: str) -> None:
    text = latex(written(name, "row", latex=True))
    assert text.count(r"\begin{align*}") == text.count(r"\end{align*}") == 2
    for line in text.splitlines():
        if " &= " in line:
            assert line.replace(r"\&", "").count("&") == 3


@pytest.mark.parametrize("mode", ["backward", "tangent"])
@pytest.mark.parametrize("name", ATTENTION)
def test_every_step_of_a_page_has_a_rule_and_a_reason(name: str, mode: str) -> None:
    document = written(name, "row", mode)
    assert all(line.rule and line.reason for line in document.steps)
    assert all(line.rule for line in document.result)


# Index notation.


def printed(value: sp.Expr, target: Any, source: Program) -> str:
    return IndexPrinter(Text(), source).value(target, value)


def letters() -> Program:
    b = Builder("letters", "")
    b.input("X", i, j)
    b.input("Y", i, k)
    b.input("U", j, c)
    z = b.input("Z", i)
    b.define("T", (i,), z[i])
    return b.output("T").build()


T = Tensor("T", i)[i]
U = Tensor("U", j, c)

SHADOWED = {
    "sum over the target's own size": (Total(Y[i, k], k), "Σ_i′ Y[i,i′]"),
    "two sums of one size": (Total(Y[i, k] * Y[k, l], k, l), "Σ_i′i′′ "),
    "a sum inside a function inside a sum": (
        Total(Z[k] * sp.exp(Total(Y[k, l], l)), k),
        "Σ_i′ Z[i′] exp(Σ_i′′ Y[i′,i′′])",
    ),
    "a sum under a sum of another size": (
        Total(X[i, j] * sp.exp(Total(X[k, j], k)), j),
        "Σ_j X[i,j] exp(Σ_i′ X[i′,j])",
    ),
}


def test_a_sum_beside_a_sum_does_not_take_its_letter() -> None:
    """Σ_j X[i,j] exp(Σ_j X[i,j]) would bind j twice in one reading."""
    for value in (Total(X[i, j], j) * sp.exp(Total(X[i, j], j)), Total(X[i, j], j) * Total(X[i, j] ** 2, j)):
        _check_scopes(printed(value, T, letters()), {"i"})


@pytest.mark.parametrize("name", SHADOWED)
def test_bound_letters_never_shadow(name: str) -> None:
    value, expected = SHADOWED[name]
    assert expected in printed(value, T, letters())


@pytest.mark.parametrize("name", [*SMALL, *ATTENTION])
@pytest.mark.parametrize("mode", ["backward", "tangent"])
def test_no_printed_sum_binds_a_letter_twice(name: str, mode: str) -> None:
    """No letter of a sum is free on the left, or bound by a sum around it."""
    document = written(name, "index", mode, plain=False)
    for line in (*document.forward, *document.result):
        taken = set(re.findall(r"[a-z]′*", "".join(re.findall(r"\[(.*?)\]", line.left))))
        _check_scopes(line.right, taken)


def _check_scopes(text: str, taken: set[str]) -> None:
    for match in re.finditer(r"(?:Σ|max)_((?:[a-z]′*)+)", text):
        bound = re.findall(r"[a-z]′*", match.group(1))
        assert len(bound) == len(set(bound)), text
        enclosing = _enclosing(text, match.start())
        assert not set(bound) & (taken | enclosing), text


def _enclosing(text: str, at: int) -> set[str]:
    """The letters of the sums whose body reaches to a position: up to a plus, a quotient or a closing bracket."""
    found: set[str] = set()
    for match in re.finditer(r"(?:Σ|max)_((?:[a-z]′*)+)", text[:at]):
        depth, start = 0, match.end()
        for here in range(start, at):
            depth += (text[here] in "([") - (text[here] in ")]")
            if depth < 0 or (depth == 0 and (text[here] == "/" or text[here : here + 3] in (" + ", " − "))):
                break
        else:
            found |= set(re.findall(r"[a-z]′*", match.group(1)))
    return found


PLAIN_TEXT = [
    (X[i, j] - Z[i], "X[i,j] − Z[i]"),
    (-(X[i, j] - Z[i]) * Z[i], "Z[i] (Z[i] − X[i,j])"),
    (X[i, j] / Z[i], "X[i,j]/Z[i]"),
    (X[i, j] / (Z[i] + 1), "X[i,j]/(Z[i] + 1)"),
    (X[i, j] / (Z[i] * Z[k]), "X[i,j]/(Z[i] Z[k])"),
    (1 / Z[i], "1/Z[i]"),
    (Z[i] ** 2, "Z[i]²"),
    ((Z[i] + 1) ** 2, "(Z[i] + 1)²"),
    (sp.sqrt(Z[i]), "√Z[i]"),
    (1 / sp.sqrt(Z[i]), "1/√Z[i]"),
    (Delta(i, k) * Z[i], "Z[i] δ[i,k]"),
    (Indicator(k <= i) * Z[i], "[k ≤ i] Z[i]"),
    (Maximum(X[i, j], j), "max_j X[i,j]"),
    (-Z[i], "−Z[i]"),
    (-2 * Z[i] / 3, "−2/3 Z[i]"),
    (Total(X[i, j], j) ** 2, "(Σ_j X[i,j])²"),
    (Total(X[i, j] + Z[i], j), "Σ_j (X[i,j] + Z[i])"),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN_TEXT, ids=[e for _, e in PLAIN_TEXT])
def test_index_notation_brackets_what_it_must(value: sp.Expr, expected: str) -> None:
    matrix = value.has(X) and not value.has(Total, Maximum)
    found = printed(value, Tensor("T", i, j)[i, j] if matrix else T, letters())
    assert sorted(found.split()) == sorted(expected.split()) if value.has(Delta) else found == expected


def test_index_notation_refuses_what_it_cannot_write() -> None:
    value = sp.Piecewise((Z[i], Z[i] > 0), (0, True))
    with pytest.raises(PrintingError, match=r"index notation has no form for \w+"):
        printed(value, T, letters())


# Every node.

NODES: dict[str, Node] = {
    "Name": Name((i, j), "X"),
    "Scalar": Scalar((), sp.Integer(2)),
    "Positions": Positions((i,), i),
    "View": View((j, i), Name((i, j), "X")),
    "Apply": Apply((i, j), "exp", (Name((i, j), "X"),)),
    "Product": Product((i, k), Name((i, j), "X"), View((j, k), Name((k, j), "X")), (j,)),
    "Checked": Checked((i,), Name((i,), "T"), sp.Symbol("n"), "X[T[i]]"),
    "Gather": Gather((j,), Name((i, j), "X"), Scalar((), sp.Integer(0)), i),
    "Reduce": Reduce((i,), "sum", Name((i, j), "X"), j),
    "Select": Select((i, j), Name((i, j), "M"), Name((i, j), "X")),
    "All": All((i, j), (Name((i, j), "M"), Name((i, j), "N"))),
    "Number": Number((i, j), Name((i, j), "M")),
    "Fill": Fill((i, j), View((i, j), Name((i,), "Z"))),
    "Zeros": Zeros((i, j), "X"),
}


def test_the_examples_hold_every_node_class() -> None:
    classes = {n for n, x in vars(nodes).items() if isinstance(x, type) and issubclass(x, Node) and x is not Node}
    assert set(NODES) == classes


@pytest.mark.parametrize("name", NODES)
def test_array_code_has_a_form_for_every_node(name: str) -> None:
    ast.parse(ArrayPrinter(like="X").print(NODES[name]), mode="eval")


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("style", [Text(), Latex()], ids=["text", "latex"])
def test_matrix_notation_has_a_form_for_every_node_or_says_that_it_has_not(name: str, style: Any) -> None:
    if hasattr(MatrixPrinter, f"_print_{name.lower()}"):
        assert MatrixPrinter(style).print(NODES[name])
    else:
        with pytest.raises(PrintingError, match=rf"matrix notation has no form for {name}; use index notation"):
            MatrixPrinter(style).print(NODES[name])


class Unknown(Node):
    """A node that no printer knows."""


def test_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(PrintingError, match=r"array code has no form for Unknown; an earlier pass should have removed"):
        ArrayPrinter().print(Unknown((i,)))
    with pytest.raises(PrintingError, match=r"matrix notation has no form for Unknown; use index notation"):
        MatrixPrinter(Text()).print(Unknown((i,)))


def test_three_axes_are_refused_by_matrix_notation() -> None:
    with pytest.raises(PrintingError, match="more than two axes; use index notation"):
        MatrixPrinter(Text()).print(Name((i, j, c), "X"))


def test_a_formula_that_matrices_cannot_write_falls_back_to_entries() -> None:
    b = Builder("three", "")
    source = b.input("X", i, j, c)
    b.define("Y", (i, j, c), source[i, j, c] ** 2)
    built = b.output("Y").build()
    definition = built.definitions[0]
    assert Writer(built, "row").value(definition.target, definition.value) == "X[i,j,c]²"


# Precedence.


def _literal(source: str, **arrays: Any) -> Any:
    return eval(source, {"xp": np, **arrays})


a, b, e = (Name((i,), name) for name in "abe")


def _apply(function: str, *arguments: Node) -> Node:
    return Apply((i,), function, arguments)


LITERALS = {
    "a - (b - e)": _apply("subtract", a, _apply("subtract", b, e)),
    "a - b - e": _apply("subtract", _apply("subtract", a, b), e),
    "a / (b * e)": _apply("divide", a, _apply("multiply", b, e)),
    "a / b * e": _apply("multiply", _apply("divide", a, b), e),
    "-(a + b)": _apply("negative", _apply("add", a, b)),
    "a - -b": _apply("subtract", a, _apply("negative", b)),
    "(-a) ** 2": _apply("power", _apply("negative", a), Scalar((), sp.Integer(2))),
    "-a ** 2": _apply("negative", _apply("power", a, Scalar((), sp.Integer(2)))),
    "(a ** 2) ** 3": _apply("power", _apply("power", a, Scalar((), sp.Integer(2))), Scalar((), sp.Integer(3))),
    "(a + b) ** 2": _apply("power", _apply("add", a, b), Scalar((), sp.Integer(2))),
    "a / (1 / 2)": _apply("divide", a, Scalar((), sp.Rational(1, 2))),
    "a ** (1 / 2)": _apply("power", a, Scalar((), sp.Rational(1, 2))),
    "-2 * a": _apply("multiply", Scalar((), sp.Integer(-2)), a),
    "a * (b + e)": _apply("multiply", a, _apply("add", b, e)),
    "(a < b) == (b < e)": _apply("equal", _apply("less", a, b), _apply("less", b, e)),
}


@pytest.mark.parametrize("meaning", LITERALS)
def test_printed_code_means_what_the_node_means(meaning: str) -> None:
    values = {"a": np.array([1.5, 2.0, 4.0]), "b": np.array([3.0, 0.25, 5.0]), "e": np.array([2.0, 7.0, 0.5])}
    found = _literal(ArrayPrinter().print(LITERALS[meaning]), **values)
    np.testing.assert_array_equal(found, _literal(meaning, **values))


class Trees:
    """Random expression trees of nodes over vectors and matrices, with their values computed node by node."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        rng = np.random.default_rng(seed)
        self.arrays = {n: rng.uniform(0.5, 2, size=(3, 3)) for n in ("X", "Y", "Z")}

    def draw(self, depth: int) -> tuple[Node, np.ndarray]:
        """A node over the axes i and k, and its value."""
        kinds = [self._binary] * 4 + [self._unary, self._power, self._transposed, self._product, self._reduced]
        kinds += [self._scaled] * 2
        return self._name() if depth == 0 else self.chance.choice(kinds)(depth - 1)

    def _name(self) -> tuple[Node, np.ndarray]:
        name = self.chance.choice(list(self.arrays))
        return Name((i, k), name), self.arrays[name]

    def _binary(self, depth: int) -> tuple[Node, np.ndarray]:
        (one, x), (two, y) = self.draw(depth), self.draw(depth)
        function = self.chance.choice(("add", "subtract", "multiply", "divide"))
        return Apply((i, k), function, (one, two)), getattr(np, function)(x, y)

    def _unary(self, depth: int) -> tuple[Node, np.ndarray]:
        node, x = self.draw(depth)
        function = self.chance.choice(("negative", "tanh"))
        return Apply((i, k), function, (node,)), getattr(np, function)(x)

    def _power(self, depth: int) -> tuple[Node, np.ndarray]:
        node, x = self.draw(depth)
        exponent = self.chance.choice((2, 3))
        return Apply((i, k), "power", (node, Scalar((), sp.Integer(exponent)))), x**exponent

    def _scaled(self, depth: int) -> tuple[Node, np.ndarray]:
        node, x = self.draw(depth)
        number = self.chance.choice((sp.Integer(-2), sp.Rational(1, 2), sp.Rational(-3, 4), sp.sqrt(2), 1 / sp.sqrt(3)))
        function = self.chance.choice(("multiply", "divide", "add", "subtract"))
        pair = [(Scalar((), number), float(number)), (node, x)]
        if self.chance.random() < 0.5:
            pair.reverse()
        return Apply((i, k), function, tuple(n for n, _ in pair)), getattr(np, function)(*(y for _, y in pair))

    def _transposed(self, depth: int) -> tuple[Node, np.ndarray]:
        node, x = self.draw(depth)
        inner = Apply((k, i), "exp", (Name((k, i), "X"),))
        turned = View((i, k), inner)
        return Apply((i, k), "multiply", (turned, node)), np.exp(self.arrays["X"]).T * x

    def _product(self, depth: int) -> tuple[Node, np.ndarray]:
        (one, x), (two, y) = self.draw(depth), self.draw(depth)
        return Product((i, k), replace(one, axes=(i, l)), replace(two, axes=(l, k)), (l,)), x @ y

    def _reduced(self, depth: int) -> tuple[Node, np.ndarray]:
        """A sum over columns, beside a matrix that it is broadcast against."""
        (node, x), (other, y) = self.draw(depth), self._name()
        column = View((i, k), Reduce((i,), "sum", node, k))
        return Apply((i, k), "subtract", (other, column)), y - x.sum(axis=-1)[:, None]


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1))
def test_printed_trees_compute_what_their_nodes_do(seed: int) -> None:
    """Brackets are right for every nesting of operators, products, powers, views and numbers."""
    trees = Trees(seed)
    with np.errstate(all="ignore"):
        node, expected = trees.draw(3)
        found = _literal(ArrayPrinter().print(node), math=math, **trees.arrays)
    np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, rtol=1e-9)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1))
def test_wrapping_a_long_statement_keeps_its_meaning(seed: int) -> None:
    """Lines are broken between the arguments of one call, and only where that call is the whole statement."""
    with np.errstate(all="ignore"):  # only the text matters here
        node, _ = Trees(seed).draw(4)
    for text in (ArrayPrinter().print(node), f"visible_only(xp, {ArrayPrinter().print(node)}, X) + Y * (X + Z)"):
        line = f"    dX = {text}"
        wrapped = textwrap.dedent("\n".join(_wrapped(line)))
        assert ast.dump(ast.parse(wrapped)) == ast.dump(ast.parse(line.strip()))


SCALARS = [
    sp.Integer(3),
    sp.Integer(-3),
    sp.Rational(2, 3),
    sp.sqrt(2),
    1 / sp.sqrt(sp.Symbol("d")),
    sp.sqrt(sp.Symbol("d")) / 2,
    sp.Symbol("scale") ** 2,
    1 / (sp.Symbol("d") + 1),
    sp.pi,
    sp.exp(-sp.Symbol("d")),
]


@pytest.mark.parametrize("value", SCALARS, ids=str)
def test_scalars_are_printed_as_what_they_are(value: sp.Expr) -> None:
    found = eval(scalar_source(value), {"math": math, "d": 5.0, "scale": 0.3})
    expected = float(value.subs({sp.Symbol("d"): 5, sp.Symbol("scale"): sp.Rational(3, 10)}))
    assert found == pytest.approx(expected, rel=1e-14)


def test_an_optional_tensor_is_transposed_through_none() -> None:
    printer = ArrayPrinter(frozenset({"M"}))
    assert printer.print(View((j, i), Name((i, j), "M"))) == "None if M is None else M.mT"
    assert printer.print(View((i, j, c), Name((i, j), "M"))) == "None if M is None else M[..., None]"


# Modules.


@pytest.mark.parametrize("name", ["gram", "powers", "layer_norm", "several_outputs", "softmax_twice"])
def test_modules_of_small_programs_compile_and_name_their_program(name: str) -> None:
    scheduled = dense(derived(name))
    text = module_source(scheduled, scheduled.operations, "numpy")
    ast.parse(text)
    assert f'program="{name}"' in text


@pytest.mark.parametrize("length", range(1, 45))
def test_the_mark_of_generated_files_is_never_broken_over_lines(length: int) -> None:
    """Leftovers are recognised by it, whatever the program is called."""
    scheduled = _scheduled()
    derivation = replace(scheduled.derivation, forward=replace(scheduled.derivation.forward, name="x" * length))
    assert MARK in module_source(replace(scheduled, derivation=derivation), 0, "numpy")


@cache
def _scheduled() -> Any:
    return dense(backward(program("attention")))


def test_visible_scores_are_written_under_the_maximum() -> None:
    mask = Tensor("mask", i, j, values="boolean")
    value = Maximum(Visible(mask[i, j], X[i, j]), j)
    assert printed(value, T, letters()) == "max_j (X[i,j] | mask[i,j])"


def test_programs_with_the_same_formulas_print_the_same() -> None:
    pages = [page(backward(program("attention")), "row") for _ in range(2)]
    assert pages[0] == pages[1]
    for one, two in combinations([as_json(x) for x in pages], 2):
        assert one == two


def test_softmax_over_the_first_axis_says_so() -> None:
    b_ = Builder("columns", "")
    S = b_.input("S", i, j)
    b_.define("A", (i, j), softmax(S[i, j], over=i))
    source = b_.output("A").build()
    assert Writer(source, "row").per_slice(source.definitions[0]) == "column by column"
    assert Writer(source, "column").per_slice(source.definitions[0]) == "row by row"
