"""The names and reasons of differentiation steps: which lemma a definition's form makes of the chain rule.

Nothing is differentiated here. The derivative of every definition is computed from its primitive form;
these rules only say, in one sentence each, what that computation amounts to.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total, free_axes
from derive.algebra.functions import has_kink
from derive.forward import softmax
from derive.forward.program import Definition, Program


@dataclass(frozen=True)
class Rule:
    """A rule's name and the reason it gives for a step."""

    name: str
    reason: str


def rule_for(definition: Definition, tensor: Tensor, program: Program) -> Rule:
    """The rule by which a definition passes its cotangent to a tensor that it mentions."""
    name, target = str(tensor.name), definition.name
    form = softmax.recognise(definition)
    if form is not None and form.score.has(tensor):
        rows = plural(tuple(a for a in definition.axes if a != form.over), program)
        return Rule(
            "softmax",
            f"{target} is a softmax of {name} over the {meaning(form.over, program)}, one for each of the {rows}",
        )
    if softmax.is_logsumexp(definition.value):
        return Rule(
            "logsumexp", f"{target} is the logarithm of a softmax's denominator, so its derivative is that softmax"
        )
    for term in sp.Add.make_args(definition.value):
        entries = [e for e in term.atoms(Entry) if e.base == tensor]
        if not entries:
            continue
        if isinstance(term, Entry):
            return Rule("added term", f"{name} is added, so the cotangent passes through unchanged")
        totals = [f for f in sp.Mul.make_args(term) if isinstance(f, Total)]
        if len(entries) == 1 and len(totals) == 1 and totals[0].has(entries[0]):
            rule = _sum_rule(definition, entries[0], term, totals[0], program)
            if rule is not None:
                return rule
    reason = f"{target} depends on {name} through its definition, entry by entry"
    if has_kink(definition.value):
        reason += (
            "; at a kink the subgradient is used: abs has slope 0, max and min 0, or half each at a tie of tensors"
        )
    return Rule("chain rule", reason)


def _sum_rule(definition: Definition, entry: Entry, term: sp.Expr, total: Total, program: Program) -> Rule | None:
    """The rule for a plain sum, or a sum of a product of two tensors, times scalars."""
    name = str(entry.tensor.name)
    factors = sp.Mul.make_args(total.body)
    if not all(isinstance(f, Entry) for f in factors) or len(factors) > 2:
        return None
    scalars = [f for f in sp.Mul.make_args(term) if f != total]
    along = f", and the factor {' '.join(map(str, scalars))} comes along" if scalars else ""
    if len(factors) == 1:
        return Rule("sum", f"{name} is summed, so every entry gets the cotangent of its sum{along}")
    other = next(f for f in factors if f != entry)
    axes = tuple(a for a in definition.axes if a not in free_axes(entry))
    if not axes:
        return Rule("product", f"{name} is multiplied by {other.tensor.name}, entry by entry{along}")
    return Rule(
        "product",
        f"{name} is multiplied by {other.tensor.name}; the sum runs over the {plural(axes, program)}, "
        f"which {name} does not have{along}",
    )


def reason_for_reduction(axes: tuple[Axis, ...], program: Program) -> str:
    """Why a sum gets a name: it holds one number per entry of fewer axes."""
    return f"one number for each of the {plural(axes, program)}" if axes else "one number"


def meaning(axis: Axis, program: Program) -> str:
    """What an axis runs over, in words."""
    return program.axis_meaning.get(axis.name, f"values of {axis.name}")


def plural(axes: tuple[Axis, ...], program: Program) -> str:
    """What several axes run over, in words."""
    return " and ".join(meaning(a, program) for a in axes)
