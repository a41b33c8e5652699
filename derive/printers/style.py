"""How symbols, sums and fractions are written, as text and as LaTeX: the vocabulary of all notations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import sympy as sp

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "theta": "θ",
    "sigma": "σ",
    "tau": "τ",
    "mu": "μ",
    "pi": "π",
    "eps": "ε",
}


HALF = sp.Rational(1, 2)


def roots_joined(product: sp.Expr) -> tuple[sp.Expr, ...]:
    """The factors of a product, with roots of numbers and scalars under one root: ½·√2/√n becomes 1/√(2n)."""
    factors: tuple[sp.Expr, ...] = sp.Mul.make_args(product)
    roots = [f for f in factors if isinstance(f, sp.Pow) and abs(f.exp) == HALF and not f.atoms(sp.Indexed)]
    number, _ = product.as_coeff_Mul()
    square = number**2 * sp.Mul(*(f**2 for f in roots if f.base.is_Rational))
    below = [f.base for f in roots if f.exp == -HALF and not f.base.is_Rational]
    if number < 0 or not below or square.p != 1 or square == number**2:
        return factors
    rest = [f for f in factors if f not in roots and f != number]
    above = [f for f in roots if f.exp == HALF and not f.base.is_Rational]
    return (*rest, *above, sp.Pow(sp.Mul(square.q, *below, evaluate=False), -HALF, evaluate=False))


def superscript(number: int) -> str:
    """A whole number as an exponent is written: ``⁻⁴⁰``."""
    return str(number).translate(_SUPERSCRIPT)


class Style(Protocol):
    """What a notation needs to write a formula."""

    @property
    def names(self) -> Mapping[str, str]:
        """Names that differ from the tensors' own."""

    def name(self, tensor: str) -> str:
        """A tensor's name; cotangents dX and tangents tX have their own signs."""

    def entry(self, tensor: str, indices: Sequence[str]) -> str:
        """One entry of a tensor."""

    def index(self, axis: str) -> str:
        """The letter of an axis."""

    def total(self, axes: Sequence[str], body: str) -> str:
        """A sum over axes."""

    def product(self, factors: Sequence[str]) -> str:
        """A product of scalars, or of matrices."""

    def entrywise(self, factors: Sequence[str]) -> str:
        """An entrywise product."""

    def quotient(self, above: str, below: str) -> str:
        """A quotient."""

    def root(self, body: str) -> str:
        """A square root."""

    def function(self, name: str, body: str) -> str:
        """A function applied to something."""

    def power(self, base: str, exponent: str) -> str:
        """A power."""

    def transposed(self, body: str) -> str:
        """A transpose."""

    def brackets(self, body: str) -> str:
        """Round brackets."""

    def branch(self, label: str, body: str) -> str:
        """One term of a sum of branches, with its label where the style has room for it."""

    def sign(self, name: str) -> str:
        """A sign by name: minus, times, le, ones, sum, infinity."""


def marked_tensor(name: str, tensors: Collection[str]) -> tuple[str, str]:
    """The mark of a cotangent (``d``) or tangent (``t``) and the tensor it belongs to, or no mark.

    Only a name that is a known tensor's with a mark in front counts: ``depth`` is no gradient of ``epth``.
    """
    return (name[0], name[1:]) if name[:1] in ("d", "t") and name not in tensors and name[1:] in tensors else ("", name)


class Text:
    """Unicode text for terminals and docstrings."""

    def __init__(self, names: Mapping[str, str] | None = None, tensors: Collection[str] = ()) -> None:
        self.names: Mapping[str, str] = dict(names or {})
        self.tensors = frozenset(tensors)

    def name(self, tensor: str) -> str:
        if tensor in self.names:
            return self.names[tensor]
        mark, of = marked_tensor(tensor, self.tensors)
        if mark == "d":
            return f"∇{self.name(of)}"
        if mark == "t":
            name = self.name(of)
            return f"{name}\u0307" if len(name) == 1 else f"∂{name}"
        return _GREEK.get(tensor, tensor)

    def entry(self, tensor: str, indices: Sequence[str]) -> str:
        return f"{self.name(tensor)}[{','.join(indices)}]" if indices else self.name(tensor)

    def index(self, axis: str) -> str:
        return axis

    def total(self, axes: Sequence[str], body: str) -> str:
        return f"Σ_{''.join(axes)} {body}"

    def product(self, factors: Sequence[str]) -> str:
        tight = all(len(f.rstrip("ᵀ\u0303")) == 1 or f[0] == "(" for f in factors)
        return ("" if tight else " ").join(factors)

    def entrywise(self, factors: Sequence[str]) -> str:
        return " ∘ ".join(factors)

    def quotient(self, above: str, below: str) -> str:
        return f"{above}/{f'({below})' if _is_open(below) else below}"

    def root(self, body: str) -> str:
        return f"√{body}"

    def function(self, name: str, body: str) -> str:
        return f"{name}({body})"

    def power(self, base: str, exponent: str) -> str:
        if not exponent.lstrip("-").isdigit():
            return f"{base}^({exponent})"
        return f"{base}{superscript(int(exponent))}"

    def transposed(self, body: str) -> str:
        return f"{body}ᵀ"

    def brackets(self, body: str) -> str:
        return f"({body})"

    def branch(self, label: str, body: str) -> str:
        return body

    def sign(self, name: str) -> str:
        return {
            "minus": "−",
            "le": "≤",
            "ge": "≥",
            "ne": "≠",
            "ones": "1",
            "infinity": "∞",
            "delta": "δ",
            "prime": "′",
        }.get(name, name)


class Latex:
    """LaTeX for documents; it renders with KaTeX and MathJax."""

    def __init__(self, names: Mapping[str, str] | None = None, tensors: Collection[str] = ()) -> None:
        self.names: Mapping[str, str] = dict(names or {})
        self.tensors = frozenset(tensors)

    def name(self, tensor: str) -> str:
        if tensor in self.names:
            return self.names[tensor]
        mark, of = marked_tensor(tensor, self.tensors)
        if mark == "d":
            return rf"\nabla_{{{self.name(of)}}}\mathcal L"
        if mark == "t":
            return rf"\dot{{{self.name(of)}}}"
        if tensor in _GREEK:
            return "\\" + tensor
        stem, _, index = tensor.partition("_")
        if stem and index:
            index = index if len(index) == 1 else rf"\mathrm{{{index.replace('_', ' ')}}}"
            return f"{self.name(stem)}_{{{index}}}"
        return tensor if len(tensor) == 1 else rf"\mathrm{{{tensor.replace('_', ' ')}}}"

    def entry(self, tensor: str, indices: Sequence[str]) -> str:
        name = self.name(tensor)
        name = self.brackets(name) if name.startswith(r"\nabla") else f"{{{name}}}" if "_" in name else name
        return f"{name}_{{{' '.join(indices)}}}" if indices else name

    def index(self, axis: str) -> str:
        return axis

    def total(self, axes: Sequence[str], body: str) -> str:
        return rf"\sum_{{{','.join(axes)}}} {body}"

    def product(self, factors: Sequence[str]) -> str:
        return r"\, ".join(factors) if any(f.startswith((r"\nabla", r"\sum")) for f in factors) else " ".join(factors)

    def entrywise(self, factors: Sequence[str]) -> str:
        return r" \odot ".join(factors)

    def quotient(self, above: str, below: str) -> str:
        return rf"\frac{{{above}}}{{{below}}}"

    def root(self, body: str) -> str:
        return rf"\sqrt{{{body}}}"

    def function(self, name: str, body: str) -> str:
        operator = rf"\{name}" if name in ("exp", "log", "tanh") else rf"\operatorname{{{name}}}"
        return rf"{operator}\left({body}\right)"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent}}}"

    def transposed(self, body: str) -> str:
        return rf"{body}^\top"

    def brackets(self, body: str) -> str:
        return rf"\left({body}\right)"

    def branch(self, label: str, body: str) -> str:
        return rf"\underbrace{{{body}}}_{{\text{{{label}}}}}" if label else body

    def sign(self, name: str) -> str:
        return {
            "minus": "-",
            "le": r"\le",
            "ge": r"\ge",
            "ne": r"\ne",
            "ones": r"\mathbf 1",
            "infinity": r"\infty",
            "delta": r"\delta",
            "prime": "'",
        }.get(name, name)


def _is_open(text: str) -> bool:
    """Whether a text has a space outside all brackets, so that it needs brackets as a divisor."""
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == " " and depth == 0:
            return True
    return False


def scalar_text(value: sp.Expr, style: Style) -> str:
    """A scalar of numbers, parameters and sizes."""
    if value.is_Integer:
        return str(value) if value >= 0 else f"{style.sign('minus')}{-value}"
    if value == sp.oo:
        return style.sign("infinity")
    if value == -sp.oo:
        return style.sign("minus") + style.sign("infinity")
    if isinstance(value, sp.Symbol) or value == sp.pi:
        return style.name(str(value))
    above, below = value.as_numer_denom()
    if below != 1:
        return style.quotient(scalar_text(above, style), scalar_text(below, style))
    if isinstance(value, sp.Pow) and value.exp == HALF:
        return style.root(scalar_text(value.base, style))
    if isinstance(value, sp.Pow):
        return style.power(scalar_text(value.base, style), str(value.exp))
    if isinstance(value, sp.Mul):
        return style.product([scalar_text(f, style) for f in value.args])
    if isinstance(value, sp.Add):
        return " + ".join(scalar_text(f, style) for f in value.args)
    return str(value)
