"""From an index expression to an array expression: sums of products become matrix products.

Layout is a matter of writing: in row layout a tensor's axes stand in declared order (positions are
rows), in column layout in reverse. Array code uses row layout; the notations use both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Axis, Delta, Entry, Indicator, Maximum, Supremum, Tensor, Total, Visible, free_axes
from derive.algebra.axes import is_whole
from derive.algebra.functions import definition_of
from derive.algebra.ranges import is_inside
from derive.algebra.templates import in_order, lettered
from derive.algebra.tensors import is_gate
from derive.errors import LoweringError
from derive.lower.arrays import (
    All,
    Apply,
    Axes,
    Checked,
    Gather,
    Name,
    Node,
    Number,
    Positions,
    Product,
    Reduce,
    Scalar,
    Select,
    arranged,
)

Layout = Literal["row", "column"]
Factor = tuple[sp.Expr, sp.Rational]
"""A base and its positive power."""

Support = Mapping[Tensor, Callable[[Axes], sp.Expr]]
"""For each tensor that is 0 where something is hidden: the visibility at its indices."""


def tensorise(
    value: sp.Expr,
    axes: Axes,
    *,
    layout: Layout = "row",
    support: Support | None = None,
    boolean: bool = False,
    checked: bool = False,
    real: bool = False,
) -> Node:
    """The array expression of a value whose result has the given axes (in declared order).

    ``support`` says which tensors vanish where a visibility is 0; their products then select by it
    instead of multiplying by zero, so that what a hidden entry holds never matters. ``boolean`` asks for a
    condition, not for the numbers 0 and 1; ``checked`` for a check of every computed index that is not proved to lie
    inside of its tensor wherever it is visible; ``real`` for real numbers in place of integers that are neither
    positions nor compared with any: products of integers wrap around.

    Raises
    ------
    LoweringError: an expression that has no array form yet, by name.
    """
    order = axes if layout == "row" else axes[::-1]
    tensoriser = _Tensoriser(layout, support or {}, checked, real)
    return arranged(tensoriser.condition(value, order) if boolean else tensoriser.build(value, order), order)


class _Tensoriser:
    def __init__(self, layout: Layout, support: Support, checked: bool = False, real: bool = False) -> None:
        self.layout, self.support, self.checked, self.real = layout, support, checked, real
        self.shown: tuple[sp.Expr, ...] = ()  # the 0/1 factors beside what is built, outside which it does not count

    def build(self, expr: sp.Expr, order: Axes) -> Node:
        """A node for an expression; its axes are those of ``order`` that the expression has, in that order."""
        axes = tuple(a for a in order if a in free_axes(expr))
        if is_gate(expr):
            condition = self._all([expr], order)
            return Number(condition.axes, condition)
        if isinstance(expr, Entry):
            return self._as_real(expr, arranged(self._name(expr, order), axes))
        if isinstance(expr, Axis):
            return Positions((expr,), expr)
        if not axes and not expr.atoms(Entry, Total, Maximum):
            return Scalar((), expr)
        if isinstance(expr, Total):
            return arranged(self._total(expr, order), axes)
        if isinstance(expr, Maximum):
            return self._maximum(expr, order)
        if isinstance(expr, sp.Add):
            return self._sum(expr, axes)
        if isinstance(expr, sp.Pow) and not expr.exp.is_number:
            parts = (arranged(self.build(part, axes), axes) for part in (expr.base, expr.exp))
            return Apply(axes, "power", tuple(parts))
        if isinstance(expr, (sp.Mul, sp.Pow)):
            return self._product(expr, axes)
        if isinstance(expr, sp.floor) and expr.args[0].as_numer_denom()[1] != 1:
            parts = (self.build(part, order) for part in expr.args[0].as_numer_denom())
            return Apply(axes, "floor_divide", tuple(parts))
        if isinstance(expr, sp.Function) and expr.func.__name__ in FUNCTIONS:
            return Apply(axes, FUNCTIONS[expr.func.__name__], (self.build(expr.args[0], order),))
        if (spelled_out := definition_of(expr)) is not None:
            return self.build(spelled_out, order)
        if isinstance(expr, (sp.Max, sp.Min, sp.Mod)):
            return self._folded(_OF_TWO[expr.func.__name__], [arranged(self.build(a, axes), axes) for a in expr.args])
        raise LoweringError(f"{type(expr).__name__} in {expr} has no array form")

    def condition(self, expr: sp.Expr, order: Axes) -> Node:
        """A product of 0/1 factors as a condition."""
        gates = list(sp.Mul.make_args(expr))
        if not all(is_gate(g) or g in (0, 1) for g in gates):
            raise LoweringError(f"{expr} is no condition: a boolean definition is a product of 0/1 factors")
        return self._all(gates, order)

    def _name(self, expr: Entry, order: Axes) -> Node:
        """A tensor at its axes; an index that is computed, or an axis that stands in two places, is gathered at."""
        indices = expr.indices if self.layout == "row" else expr.indices[::-1]
        sizes = expr.tensor.shape if self.layout == "row" else expr.tensor.shape[::-1]
        places = tuple(
            x if isinstance(x, Axis) and x not in indices[:k] else Axis.of(f"@{k}", sizes[k])
            for k, x in enumerate(indices)
        )
        node: Node = Name(places, str(expr.tensor.name))
        for place, index in zip(places, indices, strict=True):
            if place != index:
                node = self._gathered(node, place, index, order, expr)
        return node

    def _gathered(self, node: Node, along: Axis, index: sp.Expr, order: Axes, entry: Entry) -> Node:
        with self._in_integers():
            where = self.build(index, order)
        if self.checked and not is_inside(index, along.size, self.shown):
            text = str(entry.xreplace(lettered(in_order(entry), order)))
            where = Checked(where.axes, where, along.size, text, self._seen(where.axes, order))
        shared = tuple(a for a in where.axes if a in node.axes)
        new = tuple(a for a in where.axes if a not in node.axes)
        rest = tuple(a for a in node.axes if a not in (*shared, along))
        values, positions = arranged(node, (*shared, along, *rest)), arranged(where, (*shared, *new))
        return Gather((*shared, *new, *rest), values, positions, along)

    def _seen(self, axes: Axes, order: Axes) -> Node | None:
        """Where what is looked up at positions of some axes counts: over these axes, and those of what hides it."""
        if not self.shown:
            return None
        around = (a for gate in self.shown for a in in_order(gate))  # of sums in which this one stands, too
        seen = self._all(self.shown, tuple(dict.fromkeys((*axes, *order, *around))))
        return arranged(seen, (*axes, *(a for a in seen.axes if a not in axes)))

    @contextmanager
    def _beside(self, gates: Iterable[sp.Expr]) -> Iterator[None]:
        """While factors are built that stand beside 0/1 factors, in this product or around it.

        What a definition hides by itself is none of them: it does not excuse an index outside of the definition.
        """
        before = self.shown
        self.shown = tuple(dict.fromkeys((*before, *gates)))
        try:
            yield
        finally:
            self.shown = before

    @contextmanager
    def _without(self, gate: sp.Expr) -> Iterator[None]:
        """While a 0/1 factor is built itself: it does not hide what it is made of."""
        before = self.shown
        self.shown = tuple(g for g in before if g != gate)
        try:
            yield
        finally:
            self.shown = before

    @contextmanager
    def _in_integers(self) -> Iterator[None]:
        """While positions are built, and what is compared with them."""
        before, self.real = self.real, False
        try:
            yield
        finally:
            self.real = before

    def _as_real(self, expr: sp.Expr, node: Node) -> Node:
        whole = self.real and is_whole(expr) and not is_gate(expr)
        return Apply(node.axes, "as_real", (node,)) if whole else node

    def _sum(self, expr: sp.Add, axes: Axes) -> Node:
        """Terms of most axes first, subtracted ones last."""
        terms = sorted(expr.args, key=lambda t: (t.could_extract_minus_sign(), -len(free_axes(t)), _spelling(t)))
        first, *rest = terms
        result = arranged(self.build(first, axes), axes)
        for term in rest:
            minus = term.could_extract_minus_sign()
            operand = arranged(self.build(-term if minus else term, axes), axes)
            result = Apply(axes, "subtract" if minus else "add", (result, operand))
        return result

    def _product(self, expr: sp.Expr, axes: Axes) -> Node:
        """Scalars times factors over divisors, selected by what hides entries of any factor."""
        scalars, gates = sp.S.One, []
        above: list[Factor] = []
        below: list[Factor] = []
        for factor in sp.Mul.make_args(expr):
            base, power = factor.as_base_exp() if not isinstance(factor, sp.exp) else (factor, sp.S.One)
            if not free_axes(factor) and not factor.atoms(Entry, Total, Maximum):
                scalars *= factor
            elif is_gate(factor):
                gates.append(factor)
            elif power.is_Rational:
                (above if power > 0 else below).append((base, abs(power)))
            else:
                above.append((factor, sp.S.One))
        hidden = list(gates)
        if len(above) + len(below) > 1:
            hidden = list(dict.fromkeys((*gates, *(g for factor, _ in above for g in gates_of(factor, self.support)))))
        if gates and not above and not below:
            condition = self._all(gates, axes)
            number = Number(condition.axes, condition)
            return number if scalars == 1 else Apply(number.axes, "multiply", (Scalar((), scalars), number))
        with self._beside(gates):
            result = self._quotient(scalars, above, below, axes)
        return Select(axes, arranged(self._all(hidden, axes), axes), arranged(result, axes)) if hidden else result

    def _quotient(self, scalars: sp.Expr, above: list[Factor], below: list[Factor], axes: Axes) -> Node:
        nodes = [self._power(f, axes) for f in sorted(above, key=lambda f: _spelling(f[0]))]
        small = min(nodes, key=lambda n: len(n.axes), default=None)
        if small is not None and scalars not in (1, -1) and len(small.axes) < len(axes):
            nodes[nodes.index(small)] = Apply(small.axes, "multiply", (Scalar((), scalars), small))
            scalars = sp.S.One
        result = self._multiplied(nodes, axes) if nodes else Scalar((), sp.S.One)
        if scalars == -1 and nodes:
            result = Apply(result.axes, "negative", (result,))
        elif scalars != 1:
            result = Apply(result.axes, "multiply", (Scalar((), scalars), result)) if nodes else Scalar((), scalars)
        for divisor in below:
            result = Apply(axes, "divide", (arranged(result, axes), arranged(self._power(divisor, axes), axes)))
        return result

    @staticmethod
    def _folded(function: str, nodes: list[Node]) -> Node:
        """A function of two arguments, applied from the left to several."""
        result = nodes[0]
        for node in nodes[1:]:
            result = Apply(result.axes or node.axes, function, (result, node))
        return result

    def _power(self, factor: Factor, axes: Axes) -> Node:
        node, power = self.build(factor[0], axes), factor[1]
        if power > 1 and free_axes(factor[0]) and not factor[0].atoms(Entry):
            node = self._as_real(factor[0], node)
        if power.q == 2:
            node, power = Apply(node.axes, "sqrt", (node,)), sp.Integer(power.p)
        return node if power == 1 else Apply(node.axes, "power", (node, Scalar((), power)))

    @staticmethod
    def _multiplied(nodes: list[Node], order: Axes) -> Node:
        result = nodes[0]
        for node in nodes[1:]:
            axes = tuple(a for a in order if a in result.axes or a in node.axes)
            result = Apply(axes, "multiply", (arranged(result, axes), arranged(node, axes)))
        return result

    def _total(self, expr: Total, order: Axes) -> Node:
        """A sum of a product: merge factors, sum out what one factor has alone, multiply matrices for the rest."""
        body, bound = expr.open()
        wide = self._natural(body) or ((*order, *bound) if self.layout == "row" else (*bound, *order))
        parts = self._parts(body, wide)
        pending = list(bound)
        while True:
            parts = self._merge_contained(parts, wide, pending)
            alone = next((a for a in pending if sum(a in p.node.axes for p in parts) == 1), None)
            if alone is not None:
                holder = next(p for p in parts if alone in p.node.axes)
                parts[parts.index(holder)] = self._summed(holder, alone)
                pending.remove(alone)
                continue
            if len(parts) == 1:
                return parts[0].node
            pair = self._pair(parts, pending)
            if pair is None:
                parts = self._crossed(parts, pending, wide)
                continue
            left, right, over = pair
            pending = [a for a in pending if a not in over]
            rest = [p for p in parts if p is not left and p is not right]
            parts = [_Part(self._matmul(left, right, over, order)), *rest]

    def _parts(self, body: sp.Expr, wide: Axes) -> list[_Part]:
        """The factors of a product; a 0/1 factor selects from the first factor that has all its axes."""
        factors = sorted(sp.Mul.make_args(body), key=_spelling)
        hides = {f: gates_of(f, self.support) for f in factors if not is_gate(f)}
        with self._beside(filter(is_gate, factors)):
            parts = [_Part(self.build(f, wide), gates) for f, gates in hides.items()]
        for gate in filter(is_gate, factors):
            own = free_axes(gate)
            part = next((p for p in parts if own <= set(p.node.axes)), None)
            if part is None:
                parts.append(_Part(self.build(gate, wide)))
            else:
                axes = part.node.axes
                visible = arranged(self._all([gate], axes), axes)
                parts[parts.index(part)] = _Part(Select(axes, visible, part.node), (*part.hides, gate))
        return parts

    def _natural(self, body: sp.Expr) -> Axes | None:
        """The layout of the factor that has all the axes of a product, if one does: no transpose is needed then."""
        axes = free_axes(body)
        for factor in sorted(sp.Mul.make_args(body), key=_spelling):
            if isinstance(factor, Entry) and set(factor.indices) == axes and len(factor.indices) == len(axes):
                return factor.indices if self.layout == "row" else factor.indices[::-1]  # type: ignore[no-any-return]
        return None

    def _merge_contained(self, parts: list[_Part], order: Axes, pending: list[Axis]) -> list[_Part]:
        """Multiply every factor whose axes another one has, entry by entry; a vector that is summed over stays one."""
        for small in parts:
            for large in parts:
                own, wider = set(small.node.axes), set(large.node.axes)
                alone = all(a in pending and sum(a in p.node.axes for p in parts) == 2 for a in own)
                if small is not large and own <= wider and not (own and own < wider and alone):
                    ordered = sorted((small, large), key=lambda p: (not p.node.axes, parts.index(p)))
                    rest = [p for p in parts if p is not small and p is not large]
                    axes = tuple(a for a in order if a in large.node.axes)
                    product = self._multiplied([p.node for p in ordered], axes)
                    hides = tuple(dict.fromkeys((*large.hides, *small.hides)))
                    if hides:
                        visible = arranged(self._all(hides, axes), axes)
                        product = Select(axes, visible, product)
                    return self._merge_contained([*rest, _Part(product, hides)], order, pending)
        return parts

    @staticmethod
    def _summed(part: _Part, axis: Axis) -> _Part:
        rest = tuple(a for a in part.node.axes if a != axis)
        return _Part(Reduce(rest, "sum", part.node, axis))

    @staticmethod
    def _pair(parts: list[_Part], pending: list[Axis]) -> tuple[_Part, _Part, Axes] | None:
        """Two factors, and every axis to sum over that these two have and no other."""
        holders = {axis: [p for p in parts if axis in p.node.axes] for axis in pending}
        for pair in holders.values():
            if len(pair) == 2:
                return pair[0], pair[1], tuple(a for a in pending if holders[a] == pair)
        return None

    def _crossed(self, parts: list[_Part], pending: list[Axis], order: Axes) -> list[_Part]:
        """No matrix product is left, as three factors or more have every axis: two of them as an array of all axes."""
        holders = [p for p in parts if pending[0] in p.node.axes]
        pairs = [(one, two) for k, one in enumerate(holders) for two in holders[:k]]
        one, two = min(pairs, key=lambda pair: len({*pair[0].node.axes, *pair[1].node.axes}))
        product = self._multiplied([p.node for p in parts if p is one or p is two], order)
        hides = tuple(dict.fromkeys((*one.hides, *two.hides)))
        if hides:
            product = Select(product.axes, arranged(self._all(hides, product.axes), product.axes), product)
        return [_Part(product, hides), *(p for p in parts if p is not one and p is not two)]

    def _matmul(self, one: _Part, two: _Part, over: Axes, order: Axes) -> Node:
        """The product over some axes; the factor whose own axis comes first in the result stands left."""
        own = [tuple(a for a in p.node.axes if a not in q.node.axes) for p, q in ((one, two), (two, one))]
        rank = {a: k for k, a in enumerate(order)}
        last = [max((rank.get(a, len(rank)) for a in axes), default=-1) for axes in own]
        left, right = (one, two) if last[0] <= last[1] else (two, one)
        if right.hides and not left.hides:
            left, right = right, left
        rows = tuple(a for a in left.node.axes if a not in right.node.axes)
        columns = tuple(a for a in right.node.axes if a not in left.node.axes)
        batch = tuple(a for a in left.node.axes if a in right.node.axes and a not in over)
        inner = tuple(a for a in (right if len(columns) > len(rows) else left).node.axes if a in over)
        left_axes, right_axes = (*batch, *rows, *inner), (*batch, *inner, *columns)
        visible = None
        if left.hides:
            visible = arranged(self._all(left.hides, left_axes), left_axes)
        result = (*batch, *rows, *columns)
        return Product(result, arranged(left.node, left_axes), arranged(right.node, right_axes), inner, visible)

    def _maximum(self, expr: Maximum, order: Axes) -> Node:
        body, bound = expr.open()
        visibility, score = body.args if isinstance(body, Visible) else (None, body)
        if len(bound) != 1:
            raise LoweringError(f"{expr} is a maximum over several axes, which has no array form")
        axes = (*(a for a in order if a in free_axes(expr)), *bound)
        visible = None if visibility is None else arranged(self.condition(visibility, axes), axes)
        function = "supremum" if isinstance(expr, Supremum) else "max"
        return Reduce(axes[:-1], function, arranged(self.build(score, axes), axes), bound[0], visible)

    def _condition(self, condition: sp.Basic, order: Axes) -> Node:
        if isinstance(condition, sp.And):
            return self._all([Indicator(c) for c in condition.args], order)
        if isinstance(condition, (sp.Or, sp.Not)):
            axes = tuple(a for a in order if a in free_axes(condition))
            parts = sorted(condition.args, key=sp.default_sort_key)
            nodes = [arranged(self._condition(c, order), axes) for c in parts]
            if isinstance(condition, sp.Not):
                return Apply(axes, "logical_not", tuple(nodes))
            return self._folded("logical_or", nodes)
        if not isinstance(condition, Relational):
            raise LoweringError(f"the condition {condition} has no array form: use comparisons of positions and inputs")
        axes = tuple(a for a in order if a in free_axes(condition))
        with self._in_integers() if all(map(is_whole, condition.args)) else nullcontext():
            sides = tuple(arranged(self.build(side, axes), axes) for side in (condition.lhs, condition.rhs))
        return Apply(axes, _COMPARISONS[condition.rel_op], sides)

    def _all(self, gates: Sequence[sp.Expr], axes: Axes) -> Node:
        """One visibility by itself; several as a conjunction over all their axes, positions first."""
        gates = [g for g in gates if g != 1] or list(gates[:1])
        gates.sort(key=lambda g: (bool(g.atoms(Entry)), isinstance(g, Indicator), _spelling(g)))
        gates = list(dict.fromkeys(gates))
        union = tuple(a for a in axes if any(a in free_axes(g) for g in gates))
        nodes = tuple(self._gate(gate, axes) for gate in gates)
        return nodes[0] if len(nodes) == 1 else All(union, tuple(arranged(n, union) for n in nodes))

    def _gate(self, gate: sp.Expr, order: Axes) -> Node:
        """A condition; what it looks up counts where the other conditions hold."""
        with self._without(gate):
            return self._asked(gate, order)

    def _asked(self, gate: sp.Expr, order: Axes) -> Node:
        if gate.is_Integer:  # decided by what was put in for its axes: [0 < i + 1] is 1
            return Apply((), "less", (Scalar((), sp.S.Zero), Scalar((), gate)))
        if isinstance(gate, Indicator):
            return self._condition(gate.args[0], order)
        if isinstance(gate, Delta):
            return self._condition(sp.Eq(*gate.args, evaluate=False), order)
        return arranged(self._name(gate, order), tuple(a for a in order if a in free_axes(gate)))


def gates_of(value: sp.Expr, support: Support) -> tuple[sp.Expr, ...]:
    """The 0/1 factors outside which a value is 0: those of any factor of a product, those of all terms of a sum."""
    if is_gate(value):
        return (value,)
    if isinstance(value, Entry):
        return sp.Mul.make_args(support[value.base](value.indices)) if value.base in support else ()
    parts = [gates_of(part, support) for part in value.args] if isinstance(value, (sp.Add, sp.Mul)) else []
    if isinstance(value, sp.Mul):
        return tuple(dict.fromkeys(gate for gates in parts for gate in gates))
    return tuple(gate for gate in parts[0] if all(gate in gates for gates in parts)) if parts else ()


@dataclass(frozen=True)
class _Part:
    """A factor on its way into a product: its node, and the visibility outside which it is 0."""

    node: Node
    hides: tuple[sp.Expr, ...] = ()


FUNCTIONS = {n: n for n in ("exp", "log", "tanh", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "sign")}
FUNCTIONS |= {"Abs": "abs", "floor": "floor", "ceiling": "ceil", "Sigmoid": "sigmoid", "erf": "erf"}
"""The scalar functions that the Array API or :mod:`numeric.support` has, by SymPy's name."""

_OF_TWO = {"Max": "maximum", "Min": "minimum", "Mod": "remainder"}

_COMPARISONS = {
    "<=": "less_equal",
    "<": "less",
    ">=": "greater_equal",
    ">": "greater",
    "==": "equal",
    "!=": "not_equal",
}


def _spelling(expr: sp.Expr) -> tuple[bool, str]:
    """Compound factors after names, and names in alphabetical order: the same on every machine."""
    return isinstance(expr, sp.Add), "".join(c for c in str(expr) if not c.isdigit())
