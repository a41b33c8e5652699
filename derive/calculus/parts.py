"""Naming parts: what the compact form needs a name for gets a definition of its own. Values do not change.

softmax(Σ_c Q K) becomes softmax(U) with U := Σ_c Q K, so that its gradient is one compact product after
another; x·tanh(x) becomes x·T with T := tanh(x), whose gradient 1 − T² needs no second tanh; a softmax that
is only part of a definition gets a name, because its row sums are shift invariant together with it, and not
by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import sympy as sp
from sympy.core.relational import Relational

from derive.algebra import Axis, Entry, Indicator, Tensor, Total, fold, free_axes, fresh
from derive.algebra.binders import rewrite
from derive.algebra.functions import Sigmoid
from derive.algebra.ranges import looks_up
from derive.algebra.templates import in_order, lettered, template
from derive.forward import softmax
from derive.forward.naming import unused
from derive.forward.program import Definition, Program

REUSED = (sp.tanh, sp.sin, sp.cos, sp.tan, sp.sinh, sp.cosh, sp.erf, Sigmoid)
"""Functions whose derivatives, or whose products' derivatives, hold them again."""


def name_parts(program: Program) -> Program:
    """The program with definitions for function arguments that hold sums, for functions' values, and for softmaxes
    inside definitions.

    Sums of exponentials stay where they are: they are what softmax and logsumexp are made of.
    """
    return _Parts(program.names).named(program)


@dataclass
class _Parts:
    taken: set[str]
    known: dict[sp.Expr, Definition] = field(default_factory=dict)
    definitions: list[Definition] = field(default_factory=list)

    def named(self, program: Program) -> Program:
        for definition in program.definitions:
            value = rewrite(definition.value, partial(self._argument, definition))
            value = rewrite(value, partial(self._reused, definition, value))
            value = rewrite(value, partial(self._differences, definition))
            definition = replace(definition, value=self._along_gates(definition, value))
            form = softmax.recognise(definition)
            if form is None or len(free_axes(definition.value)) < len(definition.axes):
                definition = self._softmaxes(definition)
            self.definitions.append(definition)
        return replace(program, definitions=tuple(self.definitions))

    def _argument(self, definition: Definition, node: sp.Expr) -> sp.Expr:
        if isinstance(node, Indicator):
            sides = {side for r in node.atoms(Relational) for side in r.args if side.has(Total) and side.atoms(Entry)}
            ordered = sorted(sides, key=sp.default_sort_key)
            return node.xreplace({side: self._named_argument(definition, side) for side in ordered})
        if not isinstance(node, sp.Function) or len(node.args) != 1:
            return node
        gathered = isinstance(node, sp.exp) and _is_gathered(node.args[0])
        if not gathered and not _is_worth_a_name(node.args[0]):
            return node
        return node.func(self._named_argument(definition, node.args[0]))

    def _named_argument(self, definition: Definition, argument: sp.Expr) -> sp.Expr:
        sizes = [a.size for a in definition.axes]
        axes = tuple(sorted(in_order(argument), key=lambda a: sizes.index(a.size) if a.size in sizes else -1))
        return self._part(argument, axes, definition).target.tensor[axes]

    def _reused(self, definition: Definition, whole: sp.Expr, node: sp.Expr) -> sp.Expr:
        """A function's value, or a root of a sum, that is part of a definition: its derivative spells it again."""
        function = isinstance(node, REUSED)
        root = isinstance(node, sp.Pow) and node.exp.is_Rational and node.exp.q > 1 and node.base.has(Total)
        if node == whole or not (function or root) or not node.atoms(Entry) or looks_up(node):
            return node
        axes = in_order(node)
        return self._part(node, axes, definition).target.tensor[axes]

    def _differences(self, definition: Definition, node: sp.Expr) -> sp.Expr:
        """Name a sum of tensors that is raised to a power or multiplied: x − μ keeps its digits while it is one."""
        raised = isinstance(node, sp.Pow) and not isinstance(node, sp.exp)
        if not raised and not (isinstance(node, sp.Mul) and sum(bool(part.atoms(Entry)) for part in node.args) > 1):
            return node
        high = raised and node.exp.is_Integer and node.exp > 2  # multiplied out, a sum over as many axes
        named = (p for p in node.args if _is_sum_of_tensors(p) or (high and p.has(Total) and not looks_up(p)))
        whole = {part: self._named_sum(definition, part) for part in named}
        return node.func(*(whole.get(part, part) for part in node.args)) if whole else node

    def _named_sum(self, definition: Definition, value: sp.Expr) -> sp.Expr:
        found = in_order(value)
        axes = (*(a for a in definition.axes if a in found), *(a for a in found if a not in definition.axes))
        return self._part(value, axes, definition).target.tensor[axes]

    def _along_gates(self, definition: Definition, value: sp.Expr) -> sp.Expr:
        """Scores with all the axes that what hides them has: every row then has scores, and a cotangent, of its own."""
        for total in sorted(value.atoms(Total), key=sp.default_sort_key):
            factors = sp.Mul.make_args(total.open()[0])
            scores = [f.args[0] for f in factors if isinstance(f, sp.exp) and f.args[0].has(Entry)]
            if len(scores) != 1:
                continue
            own = in_order(scores[0])
            hiding = free_axes(sp.Mul(*(f for f in factors if f**2 == f)))
            extra = tuple(a for a in definition.axes if a in hiding and a not in own)
            if extra:
                part, pattern = self._part(scores[0], (*own, *extra), definition), template(scores[0], own)
                value = rewrite(value, partial(_spread, pattern, part.target.tensor, extra))
        return value

    def _softmaxes(self, definition: Definition) -> Definition:
        for total in sorted(definition.value.atoms(Total), key=sp.default_sort_key):
            if len(total.axes) != 1 or not any(isinstance(f, sp.exp) for f in sp.Mul.make_args(total.body)):
                continue
            *kept, over = lettered((*in_order(total), fresh(total.axes[0])), definition.axes).values()
            total = total.xreplace(dict(zip(in_order(total), kept, strict=True)))
            entry, axes = total.body.xreplace({total.axes[0]: over}) / total, (*kept, over)
            probe = Tensor("probe", *axes)
            folded = fold(definition.value, [(probe[axes], entry)])
            if not folded.has(probe) or (isinstance(folded, Entry) and len(axes) == len(definition.axes)):
                continue  # it is not there, or it is all there is: it has a name already
            part = self._part(entry, axes, definition)
            definition = replace(definition, value=fold(definition.value, [(part.target, part.value)]))
        return definition

    def _part(self, value: sp.Expr, axes: tuple[Axis, ...], definition: Definition) -> Definition:
        """The definition of a part; the same part at other axes is the same definition."""
        key = template(value, axes)
        if key not in self.known:
            names = lettered(axes, definition.axes)
            name = unused(definition.name, self.taken, numbered=True)
            self.taken.add(name)
            own = tuple(names[a] for a in axes)
            self.known[key] = Definition(Tensor(name, *own)[own], value.xreplace(names))
            self.definitions.append(self.known[key])
        return self.known[key]


def _spread(pattern: sp.Expr, scores: Tensor, extra: tuple[Axis, ...], node: sp.Expr) -> sp.Expr:
    """An exponential of what the pattern is, as one of the scores with further axes."""
    if not isinstance(node, sp.exp):
        return node
    own = in_order(node.args[0])
    return sp.exp(scores[(*own, *extra)]) if template(node.args[0], own) == pattern else node


def _is_sum_of_tensors(part: sp.Expr) -> bool:
    """Whether two tensors or more are added; sums of exponentials are what softmaxes are made of, and stay."""
    several = isinstance(part, sp.Add) and sum(bool(t.atoms(Entry)) for t in part.args) > 1
    return several and not part.has(sp.exp) and not looks_up(part)


def _is_gathered(score: sp.Expr) -> bool:
    """Whether a score reads entries at computed indices: it is scores first, whose cotangent deltas spread then."""
    indices = [entry.indices for entry in score.atoms(Entry)]
    plain = (all(isinstance(x, Axis) for x in found) and len(set(found)) == len(found) for found in indices)
    return not all(plain) and not looks_up(score)


def _is_worth_a_name(argument: sp.Expr) -> bool:
    totals = argument.atoms(Total)
    return bool(totals) and bool(argument.atoms(Entry)) and not any(t.body.has(sp.exp) for t in totals)
