"""Array code as text: Python expressions over the Array API, for NumPy, CuPy or any namespace called ``xp``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

import sympy as sp
from sympy.core.relational import Relational
from sympy.printing.pycode import PythonCodePrinter

from derive.algebra import Axis, Delta, Indicator
from derive.algebra.axes import is_size
from derive.errors import PrintingError
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
    mentioned,
)
from derive.printers.style import HALF, roots_joined

ATOM, POSTFIX, POWER, PRODUCT, SUM, COMPARE, LOOSEST = 9, 8, 7, 6, 5, 4, 0

_INFIX = {
    "add": ("+", SUM),
    "subtract": ("-", SUM),
    "multiply": ("*", PRODUCT),
    "divide": ("/", PRODUCT),
    "power": ("**", POWER),
    "less_equal": ("<=", COMPARE),
    "less": ("<", COMPARE),
    "greater_equal": (">=", COMPARE),
    "greater": (">", COMPARE),
    "equal": ("==", COMPARE),
    "not_equal": ("!=", COMPARE),
}


SUPPORTED = ("as_real", "erf", "sigmoid", "maximum", "minimum")
"""The functions that :mod:`numeric.support` has because the Array API lacks them, or takes no numbers in them."""


class ArrayPrinter:
    """Prints one array expression.

    optional: the tensors that may be None; like: a tensor that is always there, whose dtype numbers take; sizes: other
    symbols for sizes that are called like something else in the code.
    """

    def __init__(
        self,
        optional: frozenset[str] = frozenset(),
        like: str = "",
        sizes: Mapping[sp.Basic, sp.Basic] = MappingProxyType({}),
    ) -> None:
        self.optional, self.like, self.sizes = optional, like, sizes

    def print(self, node: Node) -> str:
        """The expression as Python source."""
        return self._print(node)[0]

    def _print(self, node: Node) -> tuple[str, int]:
        """The source and how tightly it binds."""
        method = getattr(self, f"_print_{type(node).__name__.lower()}", None)
        if method is None:
            raise PrintingError(
                f"array code has no form for {type(node).__name__}; an earlier pass should have removed it"
            )
        text, strength = method(node)
        return text, strength

    def array(self, node: Node, *, whole: bool = False) -> str:
        """The source of something that is an array in any case: numbers and conditions on them become one.

        ``whole`` keeps integers, such as positions; else numbers take the dtype of what is real.
        """
        if isinstance(node, View):
            return self._print_view(node, whole=whole)[0]
        if isinstance(node, Fill):
            return self._print_fill(node, whole=whole)[0]
        text = self.print(node)
        if not _is_number(node):
            return text
        keeps = whole or _is_condition(node)
        return f"xp.asarray({text})" if keeps else f"xp.asarray({text}, dtype={self.like}.dtype)"

    def _inside(self, node: Node, strength: int) -> str:
        """The source, in brackets where it binds less tightly than asked for."""
        text, own = self._print(node)
        return text if own >= strength else f"({text})"

    def _print_name(self, node: Name) -> tuple[str, int]:
        return node.name, ATOM

    def _print_scalar(self, node: Scalar) -> tuple[str, int]:
        called = isinstance(node.value, (sp.Symbol, Indicator, Delta))
        plain = called or (node.value.is_Integer and not node.value.is_negative)
        return scalar_source(never_zero(node.value.xreplace(self.sizes))), ATOM if plain else SUM

    def _print_positions(self, node: Positions) -> tuple[str, int]:
        return f"xp.arange({self._length(node.axis)})", ATOM

    def _print_view(self, node: View, *, whole: bool = False) -> tuple[str, int]:
        inner = node.operand
        if isinstance(inner, Name) and inner.name in self.optional:
            given = self._where_given({inner.name})
            return f"None if {inner.name} is None else {given.print(node)}", LOOSEST
        text = self.array(inner, whole=whole) if _is_number(inner) else self._inside(inner, POSTFIX)
        kept = tuple(a for a in node.axes if a in inner.axes)
        text = _permuted(text, inner.axes, kept)
        if kept != node.axes:
            lead = "" if isinstance(inner, Positions) else "..., "
            text += (
                f"[{lead}{', '.join(':' if a in kept else 'None' for a in _significant(node.axes, kept, bool(lead)))}]"
            )
        return text, POSTFIX

    def _print_apply(self, node: Apply) -> tuple[str, int]:
        if node.function in _INFIX:
            sign, strength = _INFIX[node.function]
            left, right = node.arguments
            # Powers bind to the right and comparisons chain, so both take brackets on the left too.
            first = strength + 1 if strength in (POWER, COMPARE) else strength
            return f"{self._inside(left, first)} {sign} {self._inside(right, strength + 1)}", strength
        if node.function == "negative":
            return f"-{self._inside(node.arguments[0], POWER)}", PRODUCT
        supported = node.function in SUPPORTED
        whole = all(isinstance(n, Scalar) and n.value.is_integer for n in node.arguments)
        chosen = next((n for n in node.arguments if not _is_number(n)), node.arguments[0])  # one array is enough
        printed = (self.array(n, whole=whole) if n is chosen else self.print(n) for n in node.arguments)
        arguments = ", ".join(printed)
        return f"{node.function}(xp, {arguments})" if supported else f"xp.{node.function}({arguments})", ATOM

    def _print_gather(self, node: Gather) -> tuple[str, int]:
        place = node.operand.axes.index(node.along)
        new, rest = len(node.index.axes) - place, len(node.operand.axes) - 1 - place
        return f"gathered(xp, {self.array(node.operand)}, {self.array(node.index, whole=True)}, {new}, {rest})", ATOM

    def _print_checked(self, node: Checked) -> tuple[str, int]:
        length = scalar_source(node.length.xreplace(self.sizes))
        arguments = [self.array(node.index, whole=True), length, json.dumps(node.text, ensure_ascii=False)]
        if node.visible is not None:
            arguments += [self.array(node.visible), str(len(node.visible.axes) - len(node.axes))]
        return f"checked(xp, {', '.join(arguments)})", ATOM

    def _print_product(self, node: Product) -> tuple[str, int]:
        counts = len(node.rows), len(node.over), len(node.columns)
        if node.visible is not None or counts != (1, 1, 1):
            operands = [self.array(n) for n in (node.left, node.right, node.visible) if n is not None]
            name = "matmul" if node.visible is None else "visible_matmul"
            joined = "" if counts == (1, 1, 1) else f", axes={counts}"
            return f"{name}(xp, {', '.join(operands)}{joined})", ATOM
        return f"{self._inside(node.left, PRODUCT)} @ {self._inside(node.right, POWER)}", PRODUCT

    def _print_reduce(self, node: Reduce) -> tuple[str, int]:
        if node.function in ("max", "supremum"):
            visible = "None" if node.visible is None else self.array(node.visible)
            empty = ", empty=-xp.inf" if node.function == "supremum" else ""
            return f"visible_max(xp, {self.array(node.operand)}, {visible}{empty})", ATOM
        axis = node.operand.axes.index(node.over) - len(node.operand.axes)
        return f"xp.{node.function}({self.array(node.operand)}, axis={axis})", ATOM

    def _print_select(self, node: Select) -> tuple[str, int]:
        return f"visible_only(xp, {self.array(node.operand)}, {self.array(node.visible)})", ATOM

    def _print_number(self, node: Number) -> tuple[str, int]:
        return f"as_numbers(xp, {self.array(node.condition)}, {self.like})", ATOM

    def _print_fill(self, node: Fill, *, whole: bool = False) -> tuple[str, int]:
        sizes = ", ".join(map(self._length, node.axes))
        shape = f"({sizes}{',' if len(node.axes) == 1 else ''})"
        return f"filled(xp, {self.array(node.operand, whole=whole)}, {shape})", ATOM

    def _length(self, axis: Axis) -> str:
        return str(axis.size.xreplace(self.sizes))

    def _where_given(self, names: set[str]) -> ArrayPrinter:
        """The printer where some optional tensors are known to be there."""
        return ArrayPrinter(self.optional - names, self.like, self.sizes)

    def _print_zeros(self, node: Zeros) -> tuple[str, int]:
        return f"xp.zeros_like({node.like})", ATOM

    def _print_all(self, node: All) -> tuple[str, int]:
        if not self.optional.intersection(n for c in node.conditions for n in mentioned(c)):
            return " & ".join(self._inside(c, PRODUCT) for c in node.conditions), COMPARE
        return f"all_of({', '.join(self._condition(c) for c in node.conditions)})", ATOM

    def _condition(self, node: Node) -> str:
        missing = [n for n in mentioned(node) if n in self.optional]
        if isinstance(node, Name) or not missing:
            return self.print(node)
        given = self._where_given(set(missing))
        return f"None if {' or '.join(f'{n} is None' for n in missing)} else {given.print(node)}"


def _is_number(node: Node) -> bool:
    """Whether the source of a node is a number or truth value of Python, and no array."""
    if isinstance(node, (Scalar, All)) or (isinstance(node, Apply) and node.function in (*_INFIX, "negative")):
        return all(map(_is_number, node.operands))
    return False


def _is_condition(node: Node) -> bool:
    """Whether a node is a truth value."""
    return isinstance(node, All) or (isinstance(node, Apply) and _INFIX.get(node.function, ("", 0))[1] == COMPARE)


def never_zero(value: sp.Expr) -> sp.Expr:
    """A scalar with 1 for a size of 0 wherever it divides: what is divided is then a sum over nothing, which is 0."""

    def bounded(power: sp.Pow) -> sp.Expr:
        sizes = {s: sp.Symbol(f"max({s}, 1)", positive=True) for s in power.base.free_symbols if is_size(s)}
        return sp.Pow(power.base.xreplace(sizes), power.exp)

    return value.replace(lambda e: isinstance(e, sp.Pow) and e.exp.is_negative, bounded)


def scalar_source(value: sp.Expr) -> str:
    """A scalar of numbers, parameters and sizes as Python source."""
    if value == sp.oo:
        return "xp.inf"
    if value == -sp.oo:
        return "-xp.inf"
    if value.is_Integer or isinstance(value, sp.Symbol):
        return str(value)
    value = sp.Mul(*roots_joined(value), evaluate=False)
    if isinstance(value, sp.Pow) and value.exp == -HALF:
        return f"1 / math.sqrt({scalar_source(value.base)})"
    if isinstance(value, sp.Pow) and value.exp == HALF:
        return f"math.sqrt({scalar_source(value.base)})"
    return str(_ScalarPrinter({"fully_qualified_modules": True}).doprint(value))


class _ScalarPrinter(PythonCodePrinter):  # type: ignore[misc]
    """Python source where a condition on sizes and parameters is the number 0 or 1."""

    def _print_Indicator(self, indicator: Indicator) -> str:
        condition = self._print(indicator.args[0])
        return f"int{condition if isinstance(indicator.args[0], Relational) else f'({condition})'}"

    def _print_Delta(self, delta: Delta) -> str:
        left, right = map(self._print, delta.args)
        return f"int({left} == {right})"


def _permuted(text: str, axes: tuple[Axis, ...], wanted: tuple[Axis, ...]) -> str:
    """The source with its last dimensions moved into the wanted order."""
    if axes == wanted:
        return text
    rank = len(axes)
    if axes[:-2] == wanted[:-2]:
        return f"{text}.mT"
    moved = [k for k in range(rank) if axes[k] != wanted[k]]
    for axis in axes:  # one axis that moves past others
        others, kept = [a for a in axes if a != axis], [a for a in wanted if a != axis]
        if others == kept:
            return f"xp.moveaxis({text}, {axes.index(axis) - rank}, {wanted.index(axis) - rank})"
    sources, places = (tuple(k - rank for k in ks) for ks in ([axes.index(wanted[k]) for k in moved], moved))
    return f"xp.moveaxis({text}, {sources}, {places})"


def _significant(axes: tuple[Axis, ...], kept: tuple[Axis, ...], ellipsis: bool) -> tuple[Axis, ...]:
    """The axes that an index must spell: after an ellipsis, those before the first new axis go without saying."""
    if not ellipsis:
        return axes
    first = next(k for k, a in enumerate(axes) if a not in kept)
    return axes[first:]
