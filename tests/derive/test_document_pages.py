"""Pages of worked examples: whole, escaped, the same bytes every time, and written whole or not at all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from derive.document import Document, parse_inputs, to_html, to_markdown, worked_example, write_documents
from derive.document.mathml import mathml
from derive.document.model import Belief, Math, Paragraph, Points, Question, Section, Work, words
from derive.errors import DocumentError, PrintingError

OWN = """{"Q": [[1, "1/2", 0.25], [0, 1, -1], [2, 0, 1e0]],
          "K": [[1, 0, 1], [0.5, 1, -2]],
          "V": [[1, 2, 0, 1], ["1/3", -1, 4, 0]]}"""


@pytest.fixture(scope="module")
def document() -> Document:
    return worked_example()


@pytest.fixture(scope="module", params=["row", "column", "own", "causal"])
def page(request: pytest.FixtureRequest) -> Document:
    if request.param == "own":
        return worked_example(parse_inputs(OWN).matrices)
    if request.param == "causal":
        return worked_example(program="causal_attention")
    return worked_example(notation=request.param)


def test_markdown_formulas_are_closed_and_survive_markdown(page: Document) -> None:
    lines = to_markdown(page).splitlines()
    assert lines.count("$$") % 2 == 0
    assert not [x for x in lines if "$$" in x and x != "$$"]
    inside = False
    for x in lines:
        inside ^= x == "$$"
        if not inside and x != "$$":
            inline = re.findall(r"\$([^$]*)\$", x)
            assert x.count("$") == 2 * len(inline)
            assert not [f for f in inline if re.search(r"\\[^A-Za-z]", f)]  # Markdown would eat the backslash


def test_markdown_says_everything(page: Document) -> None:
    written = to_markdown(page)
    for section in page.sections:
        assert f"## {section.title}" in written
        for formula in section.formulas():
            assert f"$$\n{formula}\n$$" in written
    assert written.count("<details>") == written.count("</details>") == 5


class Checker(HTMLParser):
    """Collects attributes, and fails on tags that do not match."""

    VOID = ("meta", "br", "mspace")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs) -> None:  # type: ignore[no-untyped-def]
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def checked_page(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return checker


def test_the_page_is_whole_and_needs_no_network(page: Document) -> None:
    html = to_html(page)
    checker = checked_page(html)
    assert "script" not in checker.counts
    assert {"link", "img", "iframe"} & checker.counts.keys() == set()
    assert not [a for a in checker.attributes if a[1] in ("src", "srcset", "data") or a[1].startswith("on")]
    targets = {v for _, k, v in checker.attributes if k == "id"}
    assert {v for _, k, v in checker.attributes if k == "href"} <= {f"#{t}" for t in targets}
    assert "url(" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert checker.counts["details"] == 5
    lines = sum(len(b.lines) for s in page.sections for b in s.blocks if isinstance(b, Work))
    assert checker.counts["math"] > lines


def test_a_minus_is_a_minus_sign_and_nothing_is_left_in_latex(page: Document) -> None:
    html = to_html(page)
    body = html[html.index("<main>") :]
    shown = re.sub(r"<[^>]*>", " ", body)
    assert "−" in shown
    assert not re.search(r"-\s*[0-9]", shown)
    assert "\\" not in shown
    assert "$" not in shown


def test_text_is_escaped() -> None:
    hostile = '<script>alert("x")</script> & "q" *b* _i_ `c`'
    blocks = (
        Paragraph((hostile,)),
        Belief((hostile,)),
        Points(((hostile,),)),
        Question((hostile,), (Paragraph((hostile,)),)),
    )
    page = Document(hostile, hostile, blocks, (Section(hostile, blocks),))
    assert "script" not in checked_page(to_html(page)).counts
    written = to_markdown(page)
    assert "<script>" not in written.replace(r"\<script\>", "")
    assert r"\*b\* \_i\_ \`c\`" in written


def test_every_formula_becomes_mathml(page: Document) -> None:
    for section in page.sections:
        for formula in section.formulas():
            tree = ElementTree.fromstring(mathml(formula, display=True))
            assert tree.tag == "math"
            assert all(len(e) == 2 for e in tree.iter() if e.tag in ("mfrac", "msub", "msup", "mover"))


def test_mathml_of_small_formulas() -> None:
    assert mathml(r"\frac{e}{e + 1}") == (
        "<math><mfrac><mrow><mi>e</mi></mrow><mrow><mi>e</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>"
    )
    assert mathml("-0.5") == "<math><mn>−0.5</mn></math>"
    assert mathml("2 - 1") == "<math><mn>2</mn><mo>−</mo><mn>1</mn></math>"
    assert mathml("1{,}048{,}576") == "<math><mn>1,048,576</mn></math>"
    assert mathml("a < b") == "<math><mi>a</mi><mo>&lt;</mo><mi>b</mi></math>"


@pytest.mark.parametrize(
    "latex", [r"\href{x}{y}", r"\frac{1}", "{", "}", r"\left(x", "é&", r"\begin{array}1\end{array}", "<script>$"]
)
def test_latex_that_the_printers_do_not_write_is_refused(latex: str) -> None:
    with pytest.raises(PrintingError, match=re.escape(repr(latex))):
        mathml(latex)


def test_words_with_an_open_formula_are_refused() -> None:
    assert words("row of $A$.") == ("row of ", Math("A"), ".")
    with pytest.raises(DocumentError, match="does not end"):
        words("row of $A")


def test_files_are_written_whole(document: Document, tmp_path: Path) -> None:
    target = tmp_path / "site" / "pages"
    paths = write_documents(target, document)
    assert [p.name for p in paths] == ["worked_example.md", "worked_example.html"]
    assert sorted(p.name for p in target.iterdir()) == ["worked_example.html", "worked_example.md"]
    assert paths[0].read_text(encoding="utf-8") == to_markdown(document)
    assert paths[1].read_text(encoding="utf-8") == to_html(document)
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in write_documents(target, document)] == before
    assert b"\r" not in before[0]


def test_nothing_half_written_is_left_behind(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_documents(tmp_path, document)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(self: Path, text: str, **_: object) -> int:
        with self.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DocumentError, match="No space left on device; choose"):
        write_documents(tmp_path, document)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_directory_that_is_a_file_is_refused(document: Document, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DocumentError, match="cannot write to"):
        write_documents(tmp_path / "file", document)


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from derive.document import *; given = parse_inputs(sys.argv[2]);"
        "write_documents(pathlib.Path(sys.argv[1]), worked_example(given.matrices, 'column'))"
    )
    written = []
    for seed in ("0", "1", "4242"):
        target = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(target), OWN], check=True, env=environment)
        written.append([p.read_bytes() for p in sorted(target.iterdir())])
    assert written[0] == written[1] == written[2]


def test_documents_load_no_arrays() -> None:
    code = "import sys, derive.document; print({m.split('.')[0] for m in sys.modules} & {'numpy', 'numeric', 'cupy'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
