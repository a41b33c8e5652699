r"""Formulas as MathML, from the LaTeX that our own printers write; browsers show it without any library.

The grammar is small on purpose: a command that is not listed is an error that names it, so a formula is
either shown right or not at all.
"""

from __future__ import annotations

import re
from html import escape

from derive.errors import PrintingError

OPERATORS = {
    "cdot": "⋅", "times": "×", "approx": "≈", "ne": "≠", "le": "≤", "ge": "≥", "odot": "⊙", "nabla": "∇",
    "cdots": "⋯", "Longrightarrow": "⟹", "sum": "∑",
}  # fmt: skip
IDENTIFIERS = {
    "infty": "∞", "top": "⊤", "delta": "δ", "sigma": "σ", "alpha": "α", "beta": "β", "gamma": "γ", "theta": "θ",
}  # fmt: skip
SPACES = {",": "0.17em", " ": "0.3em", "quad": "1em", "qquad": "2em"}
FUNCTIONS = ("exp", "log", "tanh")
LETTERS: dict[str, dict[str, str]] = {"mathcal": {"L": "ℒ"}, "mathbf": {"1": "𝟏"}}
ACCENTS = {"tilde": "˜", "dot": "˙"}

BEFORE_A_SIGN = ("", "(", "[", ",", "=", "+", r"\approx", r"\ne", r"\times", r"\cdot")

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\{,\}[0-9]+)*(?:\.[0-9]+)?|\s+|.", re.DOTALL)


def mathml(latex: str, *, display: bool = False) -> str:
    """A formula as one ``<math>`` element.

    Raises
    ------
    PrintingError: the formula uses LaTeX that the printers do not write.
    """
    parser = _Parser(latex)
    body = parser.row()
    parser.end()
    attribute = ' display="block"' if display else ""
    return f"<math{attribute}>{body}</math>"


class _Parser:
    """Recursive descent over tokens; every method returns MathML for what it read."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens = [t for t in _TOKEN.findall(latex) if not t.isspace()]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise PrintingError(f"{self.latex!r} has {token or 'its end'!r} where {expected or 'more'!r} is expected")
        self.at += 1
        return token

    def end(self) -> None:
        if self.peek():
            raise PrintingError(f"{self.latex!r} has {self.peek()!r} too many")

    def row(self, *stops: str) -> str:
        """Everything up to one of the stops, or to the end."""
        parts = []
        before = ""
        while self.peek() and self.peek() not in (*stops, "}", r"\right", r"\end"):
            here = self.peek()
            parts.append(self.sign() if here == "-" and before in BEFORE_A_SIGN else self.scripted())
            before = here
        return "".join(parts)

    def sign(self) -> str:
        """A minus that belongs to what follows it, not between two terms."""
        self.take("-")
        if self.peek()[:1].isdigit():
            return f"<mn>−{self.take()}</mn>"
        return '<mo form="prefix" lspace="0" rspace="0">−</mo>'

    def scripted(self) -> str:
        """An atom with what is written below and above it."""
        atom, below, above = self.atom(), "", ""
        while self.peek() in ("_", "^", "'"):
            if self.peek() == "'":
                self.take()
                above += "<mo>′</mo>"
            elif self.take() == "_":
                below = self.argument()
            else:
                above += self.argument()
        if below and above:
            return f"<msubsup>{atom}{below}{_grouped(above)}</msubsup>"
        if below:
            return f"<munder>{atom}{below}</munder>" if "∑" in atom else f"<msub>{atom}{below}</msub>"
        return f"<msup>{atom}{_grouped(above)}</msup>" if above else atom

    def argument(self) -> str:
        """A braced group, or one atom."""
        if self.peek() != "{":
            return self.atom()
        self.take("{")
        body = self.row()
        self.take("}")
        return f"<mrow>{body}</mrow>"

    def text(self) -> str:
        """A braced name."""
        self.take("{")
        name = ""
        while self.peek() != "}":
            name += self.take()
        self.take("}")
        return escape(name)

    def atom(self) -> str:
        token = self.take()
        if token.startswith("\\"):
            return self.command(token[1:])
        if token == "{":
            self.at -= 1
            return self.argument()
        if token[0].isdigit():
            return f"<mn>{token.replace('{,}', ',')}</mn>"
        if token.isalpha():
            return f"<mi>{escape(token)}</mi>"
        if token in "()[]":
            return f'<mo stretchy="false">{token}</mo>'
        if token in "+-=,.:;|<>/":
            return f"<mo>{escape(token.replace('-', '−'))}</mo>"
        raise PrintingError(f"{self.latex!r} has the character {token!r}, for which there is no MathML yet")

    def command(self, name: str) -> str:
        if name in OPERATORS:
            return f"<mo>{OPERATORS[name]}</mo>"
        if name in IDENTIFIERS:
            return f"<mi>{IDENTIFIERS[name]}</mi>"
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}"/>'
        if name in FUNCTIONS:
            return f"<mi>{name}</mi>"
        if name in LETTERS:
            return f"<mi>{LETTERS[name][self.text() if self.peek() == '{' else self.take()]}</mi>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.argument()}<mo stretchy="false">{ACCENTS[name]}</mo></mover>'
        special = getattr(self, f"command_{name}", None)
        if special is None:
            raise PrintingError(f"{self.latex!r} has the command \\{name}, for which there is no MathML yet")
        return str(special())

    def command_frac(self) -> str:
        return f"<mfrac>{self.argument()}{self.argument()}</mfrac>"

    def command_sqrt(self) -> str:
        return f"<msqrt>{self.argument()}</msqrt>"

    def command_mathrm(self) -> str:
        return f"<mi>{self.text()}</mi>"

    def command_operatorname(self) -> str:
        return f"<mi>{self.text()}</mi>"

    def command_left(self) -> str:
        """Brackets that grow with what they hold."""
        opening = self.take()
        body = self.row()
        self.take(r"\right")
        return f"<mrow><mo>{escape(opening)}</mo>{body}<mo>{escape(self.take())}</mo></mrow>"

    def command_begin(self) -> str:
        """A matrix; its brackets are drawn by the style sheet, so that they need no mathematical font."""
        if self.text() != "pmatrix":
            raise PrintingError(f"{self.latex!r} has an environment for which there is no MathML yet")
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(self.row("&", "\\\\"))
            if self.peek() == "&":
                self.take()
            elif self.peek() == "\\\\":
                self.take()
                rows.append([])
            else:
                break
        self.take(r"\end")
        self.text()
        body = "".join(f"<mtr>{''.join(f'<mtd>{cell}</mtd>' for cell in row)}</mtr>" for row in rows)
        return f'<mtable class="matrix">{body}</mtable>'


def _grouped(above: str) -> str:
    return above if above.startswith("<mrow>") and above.count("<mrow>") == 1 else f"<mrow>{above}</mrow>"
