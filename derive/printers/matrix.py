"""Matrix notation, in row convention (positions are rows) or column convention (positions are columns).

Both are printed from array expressions; the convention is the layout that the expression was built in.
"""

from __future__ import annotations

import sympy as sp

from derive.errors import PrintingError
from derive.lower.arrays import All, Apply, Fill, Name, Node, Number, Product, Reduce, Scalar, Select, View
from derive.printers.style import Style, scalar_text

ATOM, PRODUCT, ENTRYWISE, SUM = 4, 3, 2, 1


class MatrixPrinter:
    """Writes array expressions of at most two axes as matrices and vectors."""

    def __init__(self, style: Style) -> None:
        self.style = style

    def print(self, node: Node) -> str:
        """The expression as a formula."""
        return self._print(node)[0]

    def _print(self, node: Node) -> tuple[str, int]:
        if len(node.axes) > 2:
            raise PrintingError("matrix notation has no form for a tensor of more than two axes; use index notation")
        method = getattr(self, f"_print_{type(node).__name__.lower()}", None)
        if method is None:
            raise PrintingError(f"matrix notation has no form for {type(node).__name__}; use index notation")
        text, strength = method(node)
        return text, strength

    def _inside(self, node: Node, strength: int) -> str:
        text, own = self._print(node)
        return text if own >= strength else self.style.brackets(text)

    def _factor(self, node: Node) -> str:
        """A factor of a matrix product; gradients are bracketed so that ∇S K does not read as ∇(SK)."""
        if isinstance(node, View) and isinstance(node.operand, Name) and set(node.axes) == set(node.operand.axes):
            return self.style.transposed(self._factor(node.operand))
        text = self._inside(node, PRODUCT)
        return self.style.brackets(text) if text.startswith(("∇", r"\nabla")) else text

    def _print_name(self, node: Name) -> tuple[str, int]:
        return self.style.name(node.name), ATOM

    def _print_scalar(self, node: Scalar) -> tuple[str, int]:
        return scalar_text(node.value, self.style), ATOM

    def _print_view(self, node: View) -> tuple[str, int]:
        inner = node.operand
        if set(inner.axes) == set(node.axes):
            if _is_plain_product(inner):
                return self.style.product(self._factors(node)), PRODUCT
            return self.style.transposed(self._bracketed(inner)), ATOM
        if len(inner.axes) == 1:
            vector, ones = self._bracketed(inner), self.style.sign("ones")
            first = node.axes[0] == inner.axes[0]
            factors = [vector, self.style.transposed(ones)] if first else [ones, self.style.transposed(vector)]
            return self.style.product(factors), PRODUCT
        if not inner.axes:
            return self._print(inner)
        raise PrintingError("matrix notation has no form for this broadcast; use index notation")

    def _bracketed(self, node: Node) -> str:
        text = self._inside(node, ATOM)
        return self.style.brackets(text) if text.startswith(("∇", r"\nabla")) else text

    def _print_apply(self, node: Apply) -> tuple[str, int]:
        style, args = self.style, node.arguments
        if node.function == "multiply":
            if isinstance(args[0], Scalar):
                return self._scaled(args[0].value, args[1])
            return style.entrywise([self._inside(args[0], ENTRYWISE), self._inside(args[1], ENTRYWISE + 1)]), ENTRYWISE
        if node.function == "divide":
            return style.quotient(self._inside(args[0], ENTRYWISE), self.print(args[1])), ENTRYWISE
        if node.function in ("add", "subtract"):
            sign = "+" if node.function == "add" else style.sign("minus")
            return f"{self._inside(args[0], SUM)} {sign} {self._inside(args[1], SUM + 1)}", SUM
        if node.function == "power":
            return style.power(self._inside(args[0], ATOM), self.print(args[1])), ATOM
        if node.function == "negative":
            return style.sign("minus") + self._inside(args[0], PRODUCT), SUM
        if len(args) == 1:
            return style.function(node.function, self.print(args[0])), ATOM
        raise PrintingError(f"matrix notation has no form for {node.function}; use index notation")

    def _scaled(self, scalar: sp.Expr, node: Node) -> tuple[str, int]:
        above, below = scalar.as_numer_denom()
        body = self._inside(node, PRODUCT)
        if above != 1:
            body = self.style.product([scalar_text(above, self.style), body])
        return (self.style.quotient(body, scalar_text(below, self.style)) if below != 1 else body), PRODUCT

    def _print_product(self, node: Product) -> tuple[str, int]:
        plain = self._factors(node) if _is_plain_product(node) else [self._factor(node.left), self._factor(node.right)]
        return self.style.product(plain), PRODUCT

    def _factors(self, node: Node) -> list[str]:
        """The factors of a chain of products, from left to right: (KR)ᵀ is Rᵀ Kᵀ."""
        if _is_plain_product(node):
            return [*self._factors(node.left), *self._factors(node.right)]  # type: ignore[attr-defined]
        if isinstance(node, View) and _is_plain_product(node.operand) and len(node.axes) == len(node.operand.axes):
            operand = node.operand
            return [*self._factors(_transpose(operand.right)), *self._factors(_transpose(operand.left))]  # type: ignore[attr-defined]
        return [self._factor(node)]

    def _print_reduce(self, node: Reduce) -> tuple[str, int]:
        along = "" if len(node.operand.axes) == 1 else "row" if node.over == node.operand.axes[-1] else "col"
        return self.style.function(along + node.function, self.print(node.operand)), ATOM

    def _print_select(self, node: Select) -> tuple[str, int]:
        return self.style.entrywise(
            [self._inside(node.visible, ENTRYWISE), self._inside(node.operand, ENTRYWISE)]
        ), ENTRYWISE

    def _print_number(self, node: Number) -> tuple[str, int]:
        return self._print(node.condition)

    def _print_fill(self, node: Fill) -> tuple[str, int]:
        return self._print(node.operand)

    def _print_all(self, node: All) -> tuple[str, int]:
        return self.style.entrywise([self._inside(c, ENTRYWISE) for c in node.conditions]), ENTRYWISE


def _is_plain_product(node: Node) -> bool:
    """Whether a node is a product of two matrices; one with a vector is its own transpose."""
    return isinstance(node, Product) and len(node.left.axes) == len(node.right.axes) == len(node.axes) == 2


def _transpose(matrix: Node) -> Node:
    """The transpose; of a transpose, what it is the transpose of."""
    axes = matrix.axes[::-1]
    return matrix.operand if isinstance(matrix, View) and matrix.operand.axes == axes else View(axes, matrix)
