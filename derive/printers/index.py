"""Index notation: entries and sums over named indices."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Axis, Delta, Entry, Indicator, Maximum, Total, Visible, free_axes
from derive.errors import PrintingError
from derive.forward.program import Program
from derive.printers.style import HALF, Style, roots_joined, scalar_text

ATOM, PRODUCT, SUM = 3, 2, 1


class IndexPrinter:
    """Writes expressions entry by entry; bound axes get the letters that the program gives their sizes."""

    def __init__(self, style: Style, program: Program) -> None:
        self.style = style
        letters: dict[sp.Expr, str] = {}
        for axes in (*(i.axes for i in program.inputs), *(d.axes for d in program.definitions)):
            for axis in axes:
                letters.setdefault(axis.size, axis.name)
        self.letters = letters
        self.scope: frozenset[str] = frozenset()
        self.bound: frozenset[str] = frozenset()

    def equation(self, target: Entry, value: sp.Expr) -> str:
        """``target = value``."""
        return f"{self.print(target)} = {self.value(target, value)}"

    def value(self, target: Entry, value: sp.Expr) -> str:
        """A value; bound axes get letters that the target does not use."""
        self.scope = frozenset(a.name for a in free_axes(target) | free_axes(value))
        text = self.print(value)
        self.scope = frozenset()
        return text

    def print(self, expr: sp.Expr) -> str:
        """An expression or entry."""
        return self._print(expr)[0]

    def _print(self, expr: sp.Expr) -> tuple[str, int]:
        style = self.style
        if isinstance(expr, Entry):
            return style.entry(str(expr.tensor.name), [self._index(i) for i in expr.indices]), ATOM
        if isinstance(expr, Axis):
            return style.index(expr.name), ATOM
        if isinstance(expr, Delta):
            return f"{style.sign('delta')}[{','.join(map(self._index, expr.args))}]", ATOM
        if isinstance(expr, Indicator):
            return f"[{self.condition(expr.args[0])}]", ATOM
        if isinstance(expr, (Total, Maximum)):
            return self._bound(expr), PRODUCT
        if isinstance(expr, Visible):
            return f"{self._inside(expr.args[1], ATOM)} | {self.print(expr.args[0])}", SUM
        if isinstance(expr, sp.Add):
            return self._sum(expr), SUM
        if isinstance(expr, (sp.Mul, sp.Pow)) and not isinstance(expr, sp.exp):
            return self._product(expr), PRODUCT
        if isinstance(expr, sp.Mod):
            return f"{self._inside(expr.args[0], ATOM)} mod {self._inside(expr.args[1], ATOM)}", SUM
        if isinstance(expr, (sp.Function, sp.Max, sp.Min)):
            return style.function(expr.func.__name__, ", ".join(map(self.print, expr.args))), ATOM
        if not free_axes(expr):
            return scalar_text(expr, style), ATOM if expr.is_Atom else PRODUCT
        raise PrintingError(f"index notation has no form for {type(expr).__name__} in {expr}")

    def condition(self, condition: sp.Basic) -> str:
        """A comparison of positions, parameters and entries."""
        if isinstance(condition, sp.And):
            return " and ".join(self.condition(c) for c in condition.args)
        if isinstance(condition, sp.Or):
            return " or ".join(self.condition(c) for c in sorted(condition.args, key=sp.default_sort_key))
        if isinstance(condition, sp.Not):
            return f"not {self.condition(condition.args[0])}"
        if isinstance(condition, Relational):
            signs = {"<=": "le", ">=": "ge", "==": "=", "!=": "ne"}
            sign = self.style.sign(signs.get(condition.rel_op, condition.rel_op))
            return f"{self._plain(condition.lhs)} {sign} {self._plain(condition.rhs)}"
        raise PrintingError(f"index notation has no form for the condition {condition}")

    def _plain(self, side: sp.Expr) -> str:
        if isinstance(side, sp.Add):  # positions first, then what shifts them
            return self._terms(sorted(side.args, key=lambda t: (_is_negative(t), not free_axes(t), str(t))))
        return self.print(side)

    def _index(self, index: sp.Expr) -> str:
        return self.style.index(index.name) if isinstance(index, Axis) else self.print(index)

    def _inside(self, expr: sp.Expr, strength: int) -> str:
        text, own = self._print(expr)
        return text if own >= strength else self.style.brackets(text)

    def _bound(self, expr: Total | Maximum) -> str:
        body, axes = expr.open()
        outer = self.scope | {a.name for a in free_axes(body)}
        taken, names = set(outer), {}
        for axis in axes:
            letter = self.letters.get(axis.size, "k")
            while letter in taken:
                letter += self.style.sign("prime")
            taken.add(letter)
            names[axis] = axis.renamed(letter)
        body = body.xreplace(names)
        letters = [self.style.index(a.name) for a in names.values()]
        enclosing, self.scope = self.scope, frozenset(taken)
        text = self._inside(body, PRODUCT)
        self.scope = enclosing
        self.bound |= {a.name for a in names.values()}
        return f"max_{''.join(letters)} {text}" if isinstance(expr, Maximum) else self.style.total(letters, text)

    def _sum(self, expr: sp.Add) -> str:
        return self._terms(sorted(expr.args, key=lambda t: (_is_negative(t), -len(free_axes(t)), str(t))))

    def _terms(self, terms: Sequence[sp.Expr]) -> str:
        text = self._inside(terms[0], PRODUCT)
        for term in terms[1:]:
            minus = _is_negative(term)
            text += f" {self.style.sign('minus') if minus else '+'} {self._inside(-term if minus else term, PRODUCT)}"
        return text

    def _product(self, expr: sp.Expr) -> str:
        if expr.could_extract_minus_sign():
            return self.style.sign("minus") + self._inside(-expr, PRODUCT)
        above: list[sp.Expr] = []
        below: list[sp.Expr] = []
        for factor in roots_joined(expr):
            base, power = factor.as_base_exp() if not isinstance(factor, sp.exp) else (factor, sp.S.One)
            positive = sp.Pow(base, abs(power), evaluate=abs(power) != HALF) if power.is_number else factor
            (below if power.is_negative else above).append(positive)
        above.sort(key=self._rank)
        text = self.style.product(self._factors(above)) if above else "1"
        return self.style.quotient(text, self.style.product(self._factors(below))) if below else text

    def _factors(self, factors: list[sp.Expr]) -> list[str]:
        """Each factor; a sum reaches to the end of its product, so later sums take other letters."""
        enclosing, texts = self.scope, []
        for factor in factors:
            self.bound = frozenset()
            texts.append(self._factor(factor))
            self.scope |= self.bound
        self.scope = enclosing
        return texts

    def _factor(self, factor: sp.Expr) -> str:
        if isinstance(factor, sp.Pow) and not isinstance(factor, sp.exp):
            if factor.exp == HALF:
                return self.style.root(self._inside(factor.base, ATOM))
            return self.style.power(self._inside(factor.base, ATOM), str(factor.exp))
        return self._inside(factor, PRODUCT)

    @staticmethod
    def _rank(factor: sp.Expr) -> tuple[int, str]:
        """Scalars, then entries, then compound factors, then sums."""
        kind = 3 if factor.has(Total) else 2 if isinstance(factor, sp.Add) else 1 if free_axes(factor) else 0
        return kind, "".join(c for c in str(factor) if not c.isdigit())


def _is_negative(term: sp.Expr) -> bool:
    """Whether a term is subtracted."""
    return bool(term.could_extract_minus_sign())
