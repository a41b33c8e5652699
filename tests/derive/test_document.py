"""The worked example: its literals in their places, its numbers, other inputs, both conventions, and evidence."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest
import sympy as sp

from derive.calculus import backward
from derive.document import Document, parse_inputs, to_html, worked_example
from derive.document.evidence import checked_slope, proved
from derive.document.example import Example
from derive.document.inputs import checked, default_cotangent
from derive.document.model import Belief, Math, Paragraph, Points, Question, Section, Work
from derive.document.run import cut, run
from derive.document.values import Values, closed, decimal, multiple
from derive.errors import DerivationError, DocumentError, ProofError
from derive.forward import program
from derive.mistakes import apply, mistake
from derive.printers.notation import Writer
from derive.proof import Symbolic, interpret

OWN = """{"Q": [[1, "1/2", 0.25], [0, 1, -1], [2, 0, 1e0]],
          "K": [[1, 0, 1], [0.5, 1, -2]],
          "V": [[1, 2, 0, 1], ["1/3", -1, 4, 0]]}"""


@pytest.fixture(scope="module")
def document() -> Document:
    return worked_example()


@pytest.fixture(scope="module")
def columns() -> Document:
    return worked_example(notation="column")


def own(text: str, **options) -> Document:  # type: ignore[no-untyped-def]
    given = parse_inputs(text)
    return worked_example(given.matrices, scale=given.scale, **options)


def text(block) -> str:  # type: ignore[no-untyped-def]
    """Everything that a block says, formulas as LaTeX between dollar signs."""
    match block:
        case tuple():
            return "".join(f"${part.latex}$" if isinstance(part, Math) else part for part in block)
        case Section():
            return "\n".join([block.title, *map(text, block.blocks)])
        case Document():
            return "\n".join(map(text, (*block.opening, *block.sections)))
        case Paragraph() | Belief():
            return text(block.words)
        case Points():
            return "\n".join(map(text, block.items))
        case Question():
            return "\n".join([text(block.ask), *map(text, block.answer)])
        case Work():
            return "\n".join(f"{text(x.label)} ${x.formula}$ {text(x.note)}" for x in block.lines)


def questions(document: Document) -> list[tuple[str, str]]:
    blocks = [b for b in document.section("Practice").blocks if isinstance(b, Question)]
    return [(text(b.ask), "\n".join(map(text, b.answer))) for b in blocks]


# The default example: literals, in their places


def test_the_short_answer(document: Document) -> None:
    assert document.section("In short").formulas() == (
        r"S = \frac{Q K^\top}{\sqrt{d}}",
        r"A = \operatorname{softmax}\left(S\right)",
        "O = A V",
        r"\nabla_{V}\mathcal L = A^\top G",
        r"\tilde G = \nabla_{A}\mathcal L = G V^\top",
        r"r = \operatorname{rowsum}\left(A \odot \tilde G\right)",
        r"\nabla_{S}\mathcal L = A \odot \left(\tilde G - r \mathbf 1^\top\right)",
        r"\nabla_{Q}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right) K}{\sqrt{d}}",
        r"\nabla_{K}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right)^\top Q}{\sqrt{d}}",
    )
    said = text(document.section("In short"))
    assert r"Every row of $\nabla_{S}\mathcal L$ sums to 0." in said
    assert "A score that a mask hides has weight 0, and its gradient is exactly 0." in said
    assert (
        r"The factor $\frac{1}{\sqrt{d}}$ stands in $\nabla_{Q}\mathcal L$ and $\nabla_{K}\mathcal L$, and in no other"
        in said
    )


def test_formulas_and_reasons_are_the_derivations(document: Document, columns: Document) -> None:
    derivation = backward(program("attention").plain())
    for notation, page in (("row", document), ("column", columns)):
        writer = Writer(derivation.forward, notation, latex=True)
        everything = (*derivation.forward.definitions, *derivation.derived.definitions)
        assert page.section("In short").formulas() == tuple(writer.equation(d) for d in everything)
        said = re.sub(r"[^a-z]", "", text(page.section("Why")).lower())
        for step in derivation.steps:
            plain = [re.sub(r"[^a-z]", "", w.lower()) for w in re.split(r"\b[A-Z]\b|\bscale\b", step.reason)]
            assert all(part in said for part in plain)
        assert len(page.section("Why").formulas()) == len(derivation.steps) + 1


def test_example_1(document: Document) -> None:
    assert document.section("Example 1").formulas() == (
        r"Q = \begin{pmatrix} 1 & 1 & 1 & 1 \\ 1 & -1 & 0 & 0 \end{pmatrix}",
        r"K = \begin{pmatrix} 1 & 1 & 0 & 0 \\ 0 & 0 & 1 & -1 \end{pmatrix}",
        r"V = \begin{pmatrix} 1 & 0 \\ 0 & 2 \end{pmatrix}",
        r"Q K^\top = \begin{pmatrix} 2 & 0 \\ 0 & 0 \end{pmatrix}",
        r"(1, 1, 1, 1) \cdot (1, 1, 0, 0) = 2",
        r"S = \frac{Q K^\top}{\sqrt{d}} = \begin{pmatrix} 1 & 0 \\ 0 & 0 \end{pmatrix}",
        r"A = \operatorname{softmax}\left(S\right)",
        r"\operatorname{softmax}\left(1, 0\right) = \frac{(e, 1)}{e + 1} \approx (0.7311, 0.2689)",
        r"\operatorname{softmax}\left(0, 0\right) = \frac{(1, 1)}{2} = (0.5, 0.5)",
        r"A \approx \begin{pmatrix} 0.7311 & 0.2689 \\ 0.5 & 0.5 \end{pmatrix}",
        "O = A V",
        r"0.7311\, (1, 0) + 0.2689\, (0, 2) \approx (0.7311, 0.5379)",
        r"0.5\, (1, 0) + 0.5\, (0, 2) = (0.5, 1)",
        r"0.2689 \times 2 = \frac{2}{e + 1} \approx 0.5379",
        r"O \approx \begin{pmatrix} 0.7311 & 0.5379 \\ 0.5 & 1 \end{pmatrix}",
    )


def test_example_2(document: Document) -> None:
    assert document.section("Example 2").formulas() == (
        r"G = \begin{pmatrix} 1 & -1 \\ 0 & 1 \end{pmatrix}",
        r"\nabla_{V}\mathcal L = A^\top G",
        r"0.7311\, (1, -1) + 0.5\, (0, 1) \approx (0.7311, -0.2311)",
        r"0.2689\, (1, -1) + 0.5\, (0, 1) \approx (0.2689, 0.2311)",
        r"\nabla_{V}\mathcal L \approx \begin{pmatrix} 0.7311 & -0.2311 \\ 0.2689 & 0.2311 \end{pmatrix}",
        r"\tilde G = \nabla_{A}\mathcal L = G V^\top = \begin{pmatrix} 1 & -2 \\ 0 & 2 \end{pmatrix}",
        r"(1, -1) \cdot (0, 2) = -2",
    )
    assert r"$(m \times n)(n \times d_v)$ makes $m \times d_v$" in text(document.section("Example 2"))


def test_example_3(document: Document) -> None:
    assert document.section("Example 3").formulas() == (
        r"r_{1} = 0.7311 \times 1 + 0.2689 \times (-2) = \frac{e - 2}{e + 1} \approx 0.1932",
        r"0.7311 \times (1 - 0.1932) = \frac{3 e}{\left(e + 1\right)^{2}} \approx 0.5898",
        r"0.2689 \times (-2 - 0.1932) = - \frac{3 e}{\left(e + 1\right)^{2}} \approx -0.5898",
        r"\approx (0.5898, -0.5898)",
        r"r_{2} = 0.5 \times 2 = 1",
        r"0.5 \times (0 - 1) = -0.5",
        r"0.5 \times (2 - 1) = 0.5",
        "= (-0.5, 0.5)",
        r"\nabla_{S}\mathcal L \approx \begin{pmatrix} 0.5898 & -0.5898 \\ -0.5 & 0.5 \end{pmatrix}",
    )
    said = text(document.section("Example 3"))
    assert "row by row" in said
    assert r"always $A_{i 1} A_{i 2} (\tilde G_{i 1} - \tilde G_{i 2})$" in said


def test_example_4(document: Document) -> None:
    assert document.section("Example 4").formulas() == (
        r"\nabla_{Q}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right) K}{\sqrt{d}}",
        r"\frac{0.5898\, k_{1} - 0.5898\, k_{2}}{2} \approx 0.2949\, k_{1} - 0.2949\, k_{2}"
        r" \approx 0.2949\, (1, 1, -1, 1)",
        r"\frac{-0.5\, k_{1} + 0.5\, k_{2}}{2} = -0.25\, k_{1} + 0.25\, k_{2} = -0.25\, (1, 1, -1, 1)",
        r"\nabla_{Q}\mathcal L \approx \begin{pmatrix} 0.2949 & 0.2949 & -0.2949 & 0.2949"
        r" \\ -0.25 & -0.25 & 0.25 & -0.25 \end{pmatrix}",
        r"\nabla_{K}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right)^\top Q}{\sqrt{d}}",
        r"\frac{0.5898\, q_{1} - 0.5\, q_{2}}{2} \approx 0.2949\, q_{1} - 0.25\, q_{2}"
        r" \approx (0.0449, 0.5449, 0.2949, 0.2949)",
        r"\frac{-0.5898\, q_{1} + 0.5\, q_{2}}{2} \approx -0.2949\, q_{1} + 0.25\, q_{2}"
        r" \approx (-0.0449, -0.5449, -0.2949, -0.2949)",
        r"\nabla_{K}\mathcal L \approx \begin{pmatrix} 0.0449 & 0.5449 & 0.2949 & 0.2949"
        r" \\ -0.0449 & -0.5449 & -0.2949 & -0.2949 \end{pmatrix}",
    )
    assert "is the other with its sign changed" in text(document.section("Example 4"))


def test_the_first_mistake(document: Document) -> None:
    told = document.section("Common mistakes").section("1.")
    assert told.formulas() == (
        r"\nabla_{V}\mathcal L = A^\top G",
        r"\nabla_{V}\mathcal L = A G",
        r"0.7311\, (1, -1) + 0.2689\, (0, 1) \approx (0.7311, -0.4621)",
        r"0.5\, (1, -1) + 0.5\, (0, 1) = (0.5, 0)",
        r"\operatorname{colsum}\left(\nabla_{V}\mathcal L\right) \approx (1.2311, -0.4621) \ne (1, 0)",
    )
    assert "in Example 2" in text(told)


def test_the_second_mistake(document: Document) -> None:
    told = document.section("Common mistakes").section("2.")
    assert told.formulas() == (
        r"\nabla_{S}\mathcal L = A \odot \left(\tilde G - r \mathbf 1^\top\right)",
        r"\nabla_{S}\mathcal L = A \odot \left(\tilde G - \operatorname{sum}\left(r\right)\right)",
        r"\operatorname{sum}\left(r\right) = 0.1932 + 1 = \frac{2 e - 1}{e + 1} \approx 1.1932",
        r"(0.7311 \times (1 - 1.1932), 0.2689 \times (-2 - 1.1932)) \approx (-0.1412, -0.8588)",
        r"(0.5 \times (0 - 1.1932), 0.5 \times (2 - 1.1932)) \approx (-0.5966, 0.4034)",
        r"\operatorname{rowsum}\left(\nabla_{S}\mathcal L\right) \approx (-1, -0.1932) \ne (0, 0)",
    )
    assert "in Example 3" in text(told)


def test_the_third_mistake(document: Document) -> None:
    told = document.section("Common mistakes").section("3.")
    assert told.formulas()[:4] == (
        r"\nabla_{Q}\mathcal L = \frac{\left(\nabla_{S}\mathcal L\right) K}{\sqrt{d}}",
        r"\nabla_{Q}\mathcal L = \left(\nabla_{S}\mathcal L\right) K",
        r"0.5898\, k_{1} - 0.5898\, k_{2} \approx 0.5898\, (1, 1, -1, 1)",
        r"-0.5\, k_{1} + 0.5\, k_{2} = -0.5\, (1, 1, -1, 1)",
    )
    assert r"is $\sqrt{d} = 2$ times the right one; at $d = 64$ it would be $8$ times" in text(told)
    assert "cosine similarity" in text(told)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_mistake_says_the_belief_and_why_it_is_wrong(document: Document, number: int) -> None:
    told = document.section("Common mistakes").section(f"{number}.")
    assert sum(isinstance(b, Belief) for b in told.blocks) == 1
    assert "proved for all sizes" in text(told)
    marks = [line.mark for b in told.blocks if isinstance(b, Work) for line in b.lines]
    assert marks[:2] == ["right", "wrong"]


def test_practice(document: Document) -> None:
    (cost, values, one_row, causal, spread) = questions(document)
    assert "$n = m = 1024$" in cost[0]
    assert cost[1] == "$n m = 1{,}048{,}576$ scores, and $n m d = 67{,}108{,}864$ multiply-adds."
    assert "$(0.5, 0.5)$ and $(0.25, 0.75)$" in values[0]
    assert "$(2, 0)$ and $(0, 4)$" in values[0]
    assert values[1] == r"$A^\top G$ has the rows $(1, 1)$ and $(1, 3)$."
    assert "$(0.5, 0.25, 0.25)$" in one_row[0]
    assert "$(2, 0, 4)$" in one_row[0]
    assert one_row[1] == "Its entry of $r$ is $2$, and the row is $(0, -0.5, 0.5)$."
    assert "causal mask" in causal[0]
    assert causal[1].startswith("With three keys, $(1, 0, 0)$ and $(0, 0, 0)$")
    assert r"$\sqrt{d} = 8$" in spread[1]
    assert "it is $1$, whatever the width" in spread[1]


# Numbers against the interpreter


def rounded(exact: sp.Expr) -> str:
    """Four places, by SymPy's own evaluation and decimal's rounding: shares nothing with the document."""
    if exact.is_Rational and 10**4 % exact.q == 0:
        return format((Decimal(int(exact.p)) / Decimal(int(exact.q))).normalize(), "f")
    quantized = Decimal(str(sp.N(exact, 40))).quantize(Decimal("0.0001"), rounding=ROUND_HALF_EVEN)
    return str(quantized).replace("-0.0000", "0.0000")


@pytest.mark.parametrize("notation", ["row", "column"])
@pytest.mark.parametrize("name", ["attention", "causal_attention"])
@pytest.mark.parametrize("given", ["default", "own"])
def test_every_matrix_is_the_exact_interpreters(notation: str, name: str, given: str) -> None:
    page = worked_example(None, notation, name) if given == "default" else own(OWN, notation=notation, program=name)
    matrices = parse_inputs(OWN).matrices if given == "own" else None
    derivation = backward(program(name).plain())
    inputs = matrices or {
        "Q": [[1, 1, 1, 1], [1, -1, 0, 0]],
        "K": [[1, 1, 0, 0], [0, 0, 1, -1]],
        "V": [[1, 0], [0, 2]],
    }
    G = default_cotangent(3, 4) if given == "own" else [[1, -1], [0, 1]]
    forward = interpret(derivation.forward, {n: inputs[n] for n in "QKV"}, arithmetic=Symbolic())
    known = {**inputs, **forward, "dO": G}
    gradients = interpret(
        derivation.derived, {i.name: known[i.name] for i in derivation.derived.inputs}, arithmetic=Symbolic()
    )
    formulas = [f for s in page.sections[2:6] for f in s.formulas()]
    for tensor, nested in ((n, v) for n, v in (forward | gradients).items() if n not in ("M", "r")):
        rows = nested if notation == "row" else list(zip(*nested, strict=True))
        body = r" \\ ".join(
            " & ".join(rounded(sp.sympify(sp.nsimplify(x) if x.is_Rational else x)) for x in row) for row in rows
        )
        assert any(f.endswith(rf"\begin{{pmatrix}} {body} \end{{pmatrix}}") for f in formulas), tensor


def test_numbers_are_shown_exactly_where_they_are_short() -> None:
    numbers = Values()

    def value(exact: sp.Expr):  # type: ignore[no-untyped-def]
        return numbers.function(sp.exp, numbers.number(exact))

    e = value(1)
    weight = e * numbers.power(e + numbers.number(1), sp.Integer(-1))
    assert closed(weight) == r"\frac{e}{e + 1}"
    assert decimal(weight) == "0.7311"
    assert decimal(numbers.number(Fraction(-5, 2))) == "-2.5"
    assert decimal(numbers.number(-3)) == "-3"
    assert decimal(numbers.number(0)) == "0"
    assert closed(numbers.number(Fraction(1, 3))) == r"\frac{1}{3}"
    assert decimal(numbers.number(Fraction(-1, 10**6))) == "0.0000"
    assert decimal(numbers.number(Fraction(1, 8))) == "0.125"
    assert decimal(numbers.number(Fraction(19999, 20000))) == "1.0000"
    assert closed(value(10**9)) is not None
    assert multiple([weight, -weight, weight]) == r"0.7311\, (1, -1, 1)"
    assert multiple([weight, weight + weight + e, weight]) is None


# Other inputs


def test_own_matrices_of_other_sizes() -> None:
    page = own(OWN)
    first = text(page.section("Example 1"))
    assert "$n = 3$ queries, $m = 2$ keys, $d = 3$ coordinates and $d_v = 4$ value coordinates" in first
    assert r"V = \begin{pmatrix} 1 & 2 & 0 & 1 \\ \frac{1}{3} & -1 & 4 & 0 \end{pmatrix}" in first
    assert r"\frac{1}{\sqrt{d}} = \frac{\sqrt{3}}{3} \approx 0.5774" in first
    assert "None was given, so take a pattern of small integers" in text(page.section("Example 2"))
    told = text(page.section("Common mistakes").section("1."))
    assert "cannot be run: it takes $n = m$, and here $n = 3$ and $m = 2$" in told
    assert r"$A$ is $3 \times 2$ and $G$ is $3 \times 4$, so the shapes clash in $A G$" in told
    for number in "23":
        assert "These do not:" in text(page.section("Common mistakes").section(f"{number}."))
    ratio = text(page.section("Common mistakes").section("3."))
    assert r"$\sqrt{d} = \sqrt{3} \approx 1.7321$ times the right one; at $d = 64$ it would be $8$ times" in ratio


def test_one_query_does_not_show_a_softmax_over_all() -> None:
    page = own('{"Q": [[1, 2]], "K": [[2, 1], [0, 1], [1, 1]], "V": [[3, 1], [0, 1], [1, 2]], "G": [[1, -1]]}')
    assert "changes no number" in text(page.section("Common mistakes").section("2."))
    assert "cannot be run" in text(page.section("Common mistakes").section("1."))
    assert "$n = 1$ query, $m = 3$ keys" in text(page.section("Example 1"))
    assert "Let the rest of the network return" in text(page.section("Example 2"))


def test_one_key_carries_no_gradient_to_queries() -> None:
    page = own('{"Q": [[1, 2], [0, 1], [3, 1]], "K": [[2, 1]], "V": [[3, 1]]}')
    zeros = r"\nabla_{Q}\mathcal L = \begin{pmatrix} 0 & 0 \\ 0 & 0 \\ 0 & 0 \end{pmatrix}"
    assert zeros in page.section("Example 4").formulas()
    assert "changes no number" in text(page.section("Common mistakes").section("3."))


def test_a_single_number_each() -> None:
    page = own('{"Q": [[1]], "K": [[2]], "V": [[3]], "scale": "-1/3"}')
    assert (
        r"S = \mathrm{scale} Q K^\top \approx \begin{pmatrix} -0.6667 \end{pmatrix}"
        in page.section("Example 1").formulas()
    )
    assert r"$\mathrm{scale} = - \frac{1}{3} \approx -0.3333$" in text(page.section("Example 1"))
    to_html(page)


def test_the_largest_page_is_made_in_seconds_and_cuts_long_work_short() -> None:
    rows = [[(i * 7 + c * 5) % 11 - 5 for c in range(16)] for i in range(8)]
    start = time.perf_counter()
    page = worked_example({"Q": rows, "K": rows[::-1], "V": rows, "G": rows})
    to_html(page)
    assert time.perf_counter() - start < 60
    assert "The other 4 rows go the same way." in text(page.section("Example 2"))
    assert r"+ \cdots" in text(page.section("Example 4"))


def test_columns(columns: Document) -> None:
    assert columns.section("Example 1").formulas()[0] == (
        r"Q = \begin{pmatrix} 1 & 1 \\ 1 & -1 \\ 1 & 0 \\ 1 & 0 \end{pmatrix}"
    )
    assert (
        r"A \approx \begin{pmatrix} 0.7311 & 0.5 \\ 0.2689 & 0.5 \end{pmatrix}"
        in columns.section("Example 1").formulas()
    )
    second = columns.section("Example 2").formulas()
    assert r"B = \begin{pmatrix} 1 & 0 \\ -1 & 1 \end{pmatrix}" in second
    assert r"E = \nabla_{A}\mathcal L = V^\top B = \begin{pmatrix} 1 & 0 \\ -2 & 2 \end{pmatrix}" in second
    third = columns.section("Example 3")
    assert "column by column" in text(third)
    assert (
        r"R = \nabla_{S}\mathcal L \approx \begin{pmatrix} 0.5898 & -0.5 \\ -0.5898 & 0.5 \end{pmatrix}"
        in third.formulas()
    )
    assert r"\frac{K R}{\sqrt{d}}" in columns.section("Example 4").formulas()[0]
    assert r"\nabla_{V}\mathcal L = B A" in columns.section("Common mistakes").section("1.").formulas()
    assert not re.search(r"\brows?\b", text(columns))


def test_causal_attention_hides_later_keys() -> None:
    page = own(
        '{"Q": [[1,2],[0,1],[1,0]], "K": [[2,1],[0,1],[1,1]], "V": [[3],[0],[1]], "G": [[2],[1],[1]]}',
        program="causal_attention",
    )
    first = page.section("Example 1").formulas()
    assert r"M = \begin{pmatrix} 1 & 0 & 0 \\ 1 & 1 & 0 \\ 1 & 1 & 1 \end{pmatrix}" in first
    assert "(1, 0, 0)" in first
    assert "= (0, 0, 0)" in page.section("Example 3").formulas()
    assert any(f.startswith(r"\nabla_{S}\mathcal L") and " & 0 \\\\" in f for f in page.section("Example 3").formulas())


def test_programs_and_notations_that_are_not_offered() -> None:
    with pytest.raises(DocumentError, match=r"no worked example of 'convolution'.*attention, causal_attention"):
        worked_example(program="convolution")
    with pytest.raises(DocumentError, match=r"no notation 'index'.*row, column"):
        worked_example(notation="index")  # type: ignore[arg-type]


# What a page may not say


def wrong_example() -> Example:
    derivation = backward(program("attention").plain())
    matrices = checked({"Q": [[1, 2], [0, 1]], "K": [[2, 1], [0, 1]], "V": [[3, 1], [0, 2]]}).matrices
    example = Example(run(derivation, matrices, default_cotangent(2, 2), None), "row")
    return example.wrong(apply(mistake("scale_lost_in_queries"), derivation))


def test_a_wrong_gradient_does_not_reach_a_page() -> None:
    assert checked_slope(wrong_example(), "K")
    with pytest.raises(DerivationError, match="the gradient of Q"):
        checked_slope(wrong_example(), "Q")


def test_what_is_not_proved_is_not_stated() -> None:
    with pytest.raises(ProofError, match="no identity 'columns sum to one'"):
        proved(wrong_example(), "columns sum to one")
    identity = wrong_example().identities["score gradients sum to zero"]
    false = Example(wrong_example().run, "row")
    claims = (replace(identity.claims[0], right=sp.S.One),)
    false.identities["score gradients sum to zero"] = replace(identity, claims=claims)
    with pytest.raises(ProofError, match="is not proved"):
        proved(false, "score gradients sum to zero")


def test_a_part_of_a_program_names_what_is_missing() -> None:
    derived = backward(program("attention").plain()).derived
    assert [d.name for d in cut(derived, ("A", "dA"), "dS").definitions] == ["r", "dS"]
    assert {i.name for i in cut(derived, ("A", "dA"), "dS").inputs} == {"A", "dA"}
    with pytest.raises(DocumentError, match="computes dZ"):
        cut(derived, (), "dZ")
