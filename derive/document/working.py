"""Definitions with numbers put in: how a row or an entry of a worked example comes about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import sympy as sp

from derive.algebra import Axis, Entry, Total, free_axes
from derive.document import values
from derive.document.example import Example
from derive.document.values import Value, Values
from derive.forward import softmax
from derive.forward.program import Definition

TERMS_SHOWN = 6
"""How many terms of a sum are written out."""

ROW_IN_CLOSED_FORM = 4
"""The longest row that is shown with its powers of e."""

ROW_WITH_WORK = 3
"""The longest row that is worked out in full; of longer ones, given rows are called by their small letters."""


@dataclass(frozen=True)
class Combination:
    """A row as a weighted sum of rows: ``scale · Σ_k weight_k · X_k``."""

    scale: sp.Expr
    weights: tuple[Value, ...]
    tensor: str
    vectors: tuple[Sequence[Value], ...]


def combination(example: Example, definition: Definition, position: int) -> Combination | None:
    """A position's row as a combination of another matrix's rows, or None for other definitions."""
    parts = _product_of_two(definition)
    if parts is None:
        return None
    scale, factors, axis = parts
    vectors = [f for f in factors if f.indices == (axis, definition.axes[1])]
    if len(vectors) != 1:
        return None
    (vector,), (weight,) = vectors, [f for f in factors if f is not vectors[0]]
    at: dict[Axis, int] = {definition.axes[0]: position}
    size = example.run.sizes[str(axis.size)]
    rows = example.rows(str(vector.tensor.name))
    weights = tuple(example.run.at(weight, {**at, axis: k}) for k in range(size))
    return Combination(scale, weights, str(vector.tensor.name), tuple(rows[:size]))


def combined(example: Example, definition: Definition, position: int) -> str:
    """How a row comes about and what it is: ``0.7311 (1, −1) + 0.5 (0, 1) ≈ (0.7311, −0.2311)``."""
    result = example.rows(definition.name)[position]
    found = combination(example, definition, position)
    parts: list[str] = []
    if found is None or all(w.is_zero for w in found.weights):
        if found is None and len(result) <= ROW_WITH_WORK:
            parts.append(values.tuple_of([expanded(example, definition, position, k) for k in range(len(result))]))
    elif found.tensor in {i.name for i in example.forward.inputs} and len(result) > ROW_WITH_WORK:
        letters = [example.slice(found.tensor, k + 1) for k in range(len(found.weights))]
        parts.append(_scaled(found.scale, _weighted(found.weights, letters), example))
        if found.scale != 1:
            factor = _number(example, found.scale)
            parts.append(_weighted([factor * w for w in found.weights], letters))
    else:
        parts.append(_scaled(found.scale, _weighted(found.weights, list(map(values.row, found.vectors))), example))
    parts.append(values.multiple(result) or values.row(result))
    return f" {values.relation(result)} ".join(dict.fromkeys(parts))


def is_product(definition: Definition) -> bool:
    """Whether a definition is a scale times one sum of products of two tensors."""
    return _product_of_two(definition) is not None


def dot(example: Example, definition: Definition, *at: int) -> str:
    """An entry as a product of two vectors: ``(1, −1) · (0, 2) = −2``."""
    parts = _product_of_two(definition)
    assert parts is not None
    _, factors, axis = parts
    where = dict(zip(definition.axes, at, strict=True))
    ordered = sorted(factors, key=lambda f: definition.axes.index(f.indices[0]))
    size = example.run.sizes[str(axis.size)]
    vectors = [[example.run.at(f, {**where, axis: k}) for k in range(size)] for f in ordered]
    result = sum_of([a * b for a, b in zip(*vectors, strict=True)])
    return rf"{values.row(vectors[0])} \cdot {values.row(vectors[1])} {values.equated(result)}"


def expanded(example: Example, definition: Definition, *at: int) -> str:
    """A definition's value at one place, with numbers for entries and sums written out."""
    return _Expansion(example).write(definition.value, dict(zip(definition.axes, at, strict=True)))


def worked_out(example: Example, definition: Definition, *at: int) -> str:
    """An entry with its numbers put in, and what they make."""
    value = example.run.tensors[definition.name]
    for k in at:
        value = value[k]
    work, result = expanded(example, definition, *at), values.equated(value)
    return work if work == values.decimal(value) else f"{work} {result}"


def written_out(example: Example, expr: sp.Expr) -> str:
    """An expression without free axes, with numbers for entries and sums written out."""
    return _Expansion(example).write(expr, {})


def softmaxed(example: Example, definition: Definition, position: int) -> str:
    """A row of a softmax: ``softmax(1, 0) = (e, 1)/(e + 1) ≈ (0.7311, 0.2689)``."""
    form = softmax.recognise(definition)
    assert form is not None
    numbers = Values()
    rows, scores = example.rows(definition.name)[position], example.rows(str(form.score.tensor.name))[position]
    where = [dict(zip(definition.axes, (position, k), strict=True)) for k in range(len(rows))]
    visible = [form.visible == 1 or not example.run.at(form.visible, at).is_zero for at in where]
    powers = [numbers.function(sp.exp, score) for score in scores]
    weights = [power if seen else numbers.number(0) for power, seen in zip(powers, visible, strict=True)]
    parts: list[str] = []
    if all(visible):
        parts.append(example.writer.style.function("softmax", ", ".join(map(values.decimal, scores))))
    exact = [values.exactly(w) for w in weights]
    if all(exact) and 1 < len(rows) <= ROW_IN_CLOSED_FORM and (total := values.exactly(sum_of(weights))):
        parts.append(rf"\frac{{{values.tuple_of([e or '' for e in exact])}}}{{{total}}}")
    parts.append(values.row(rows))
    return " = ".join(parts[:-1]) + f" {values.relation(rows)} {parts[-1]}" if len(parts) > 1 else parts[0]


def sum_of(terms: Sequence[Value]) -> Value:
    """The sum of values."""
    total = Values().number(0)
    for term in terms:
        total = total + term
    return total


def _number(example: Example, scale: sp.Expr) -> Value:
    """A scalar of parameters and numbers."""
    found: Value = example.run.value((), scale)
    return found


def _product_of_two(definition: Definition) -> tuple[sp.Expr, list[Entry], Axis] | None:
    """Scale, factors and summed axis of ``scale · Σ_k X·Y``, or None for other values."""
    totals = [f for f in sp.Mul.make_args(definition.value) if isinstance(f, Total)]
    if len(totals) != 1 or len(totals[0].axes) != 1:
        return None
    body, (axis,) = totals[0].open()
    factors = sorted(sp.Mul.make_args(body), key=_spelling)
    scale = definition.value / totals[0]
    if len(factors) != 2 or not all(isinstance(f, Entry) for f in factors) or free_axes(scale):
        return None
    return scale, factors, axis


def _weighted(weights: Sequence[Value], vectors: Sequence[str]) -> str:
    """``0.5898 k_1 − 0.5898 k_2``; terms of weight 0 are left out, and long sums are cut short."""
    pairs = [(w, x) for w, x in zip(weights, vectors, strict=True) if not w.is_zero]
    if not pairs:
        return "0"
    shown = pairs if len(pairs) <= TERMS_SHOWN else pairs[: TERMS_SHOWN - 1]
    text = ""
    for weight, vector in shown:
        number = values.decimal(weight)
        sign, size = ("-", number[1:]) if number.startswith("-") else ("+", number)
        term = vector if size == "1" else rf"{size}\, {vector}"
        text += (f" {sign} " if text else sign.strip("+")) + term
    return text if shown is pairs else rf"{text} + \cdots"


def _scaled(scale: sp.Expr, body: str, example: Example) -> str:
    """A body times a scale: over 2 where the scale is 1/2."""
    if scale == 1:
        return body
    number = sp.sympify(_number(example, scale).exact)
    if (1 / number**2).is_Integer and number > 0:
        return rf"\frac{{{body}}}{{{sp.latex(1 / number)}}}"
    return rf"{sp.latex(number)} \left({body}\right)"


def _spelling(expr: sp.Expr) -> str:
    """An expression without the serial numbers of its summed axes: the same in every run."""
    return "".join(c for c in str(expr) if not c.isdigit())


class _Expansion:
    """Writes an expression with numbers in place of entries."""

    def __init__(self, example: Example) -> None:
        self.example = example

    def write(self, expr: sp.Expr, at: Mapping[Axis, int]) -> str:
        if isinstance(expr, Entry):
            return values.decimal(self.example.run.at(expr, at))
        if isinstance(expr, Total):
            return self._total(expr, at)
        if isinstance(expr, sp.Add):
            return self._sum(expr, at)
        if isinstance(expr, sp.Mul):
            return self._product(expr, at)
        return values.decimal(_number(self.example, expr))

    def _total(self, expr: Total, at: Mapping[Axis, int]) -> str:
        """Every term that is not 0; a sum in which nothing is left is 0."""
        body, axes = expr.open()
        sizes = [range(self.example.run.sizes[str(a.size)]) for a in axes]
        everywhere = [{**at, **dict(zip(axes, where, strict=True))} for where in product(*sizes)]
        terms = [self.write(body, where) for where in everywhere if not self._vanishes(body, where)]
        if len(terms) > TERMS_SHOWN:
            terms = [*terms[: TERMS_SHOWN - 1], r"\cdots"]
        return " + ".join([*terms[:1], *(self._bracketed(t) for t in terms[1:])]) or "0"

    def _vanishes(self, body: sp.Expr, where: Mapping[Axis, int]) -> bool:
        return any(isinstance(f, Entry) and self.example.run.at(f, where).is_zero for f in sp.Mul.make_args(body))

    def _part(self, expr: sp.Expr, at: Mapping[Axis, int]) -> str:
        """A sum over an axis within an expression is shown by its value."""
        if not isinstance(expr, Total):
            return self.write(expr, at)
        axes = tuple(free_axes(expr))
        nested = self.example.run.value(axes, expr)
        for axis in axes:
            nested = nested[at[axis]]
        return values.decimal(nested)

    def _sum(self, expr: sp.Add, at: Mapping[Axis, int]) -> str:
        terms = sorted(expr.args, key=lambda t: (t.could_extract_minus_sign(), -len(free_axes(t)), _spelling(t)))
        text = self._part(terms[0], at)
        for term in terms[1:]:
            minus = term.could_extract_minus_sign()
            part = self._bracketed(self._part(-term if minus else term, at))
            text += f" {'-' if minus else '+'} {part}"
        return text

    def _product(self, expr: sp.Mul, at: Mapping[Axis, int]) -> str:
        factors = sorted(expr.args, key=lambda f: (isinstance(f, sp.Add), isinstance(f, Total), _spelling(f)))
        texts = [f"({self._part(f, at)})" if isinstance(f, sp.Add) else self._part(f, at) for f in factors]
        return r" \times ".join([*texts[:1], *map(self._bracketed, texts[1:])])

    @staticmethod
    def _bracketed(text: str) -> str:
        return f"({text})" if text.startswith("-") else text
