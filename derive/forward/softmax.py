"""Softmax from its primitive form: exponentials over their sum. Its gradient is derived, never typed in."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Total, free_axes, powers_of
from derive.errors import DefinitionError
from derive.forward.program import Definition


def softmax(score: sp.Expr, over: Axis, visible: sp.Expr | int = 1, beside: sp.Expr | int = 0) -> sp.Expr:
    """``visible · exp(score) / (Σ_over visible · exp(score) + beside)``; ``visible`` is 0 or 1.

    ``beside`` are further sums of exponentials in the denominator: a sink, or the keys of a cache.

    Raises
    ------
    DefinitionError: the score does not vary over the axis.
    """
    if over not in free_axes(sp.sympify(score)):
        raise DefinitionError(f"softmax over {over}: the score {score} does not have that axis")
    return visible * sp.exp(score) / (exponentials(score, over, visible) + beside)


def exponentials(score: sp.Expr, over: Axis, visible: sp.Expr | int = 1) -> sp.Expr:
    """``Σ_over visible · exp(score)``: softmax's denominator, or a part of one."""
    return Total(visible * sp.exp(score), over)


def logsumexp(score: sp.Expr, over: Axis, visible: sp.Expr | int = 1, beside: sp.Expr | int = 0) -> sp.Expr:
    """``log (Σ_over visible · exp(score) + beside)``, the natural logarithm of softmax's denominator."""
    return sp.log(exponentials(score, over, visible) + beside)


def is_logsumexp(value: sp.Expr) -> bool:
    """Whether a value is the logarithm of a sum of exponentials, each shown or hidden."""
    return isinstance(value, sp.log) and value.has(Total) and all(map(_is_weights, sp.Add.make_args(value.args[0])))


def _is_weights(term: sp.Expr) -> bool:
    """Whether a term is an exponential, or a sum of exponentials that are shown or hidden."""
    factors = sp.Mul.make_args(term.body if isinstance(term, Total) else term)
    return sum(isinstance(f, sp.exp) for f in factors) == 1 and all(isinstance(f, sp.exp) or f**2 == f for f in factors)


@dataclass(frozen=True)
class SoftmaxForm:
    """What a definition that spells a softmax is a softmax of, and what its denominator holds beside that."""

    score: sp.Expr
    over: Axis
    visible: sp.Expr
    beside: sp.Expr


def recognise(definition: Definition) -> SoftmaxForm | None:
    """The score, axis and visibility if a definition is ``softmax(score, over, visible, beside)``, else None.

    Used to name the rule and to write ``softmax(S)``; nothing is differentiated by it.
    """
    powers = powers_of(definition.value)
    numerator = [base for base, power in powers.items() if power == 1]
    denominators = [base for base, power in powers.items() if power == -1]
    scores = [base.args[0] for base in numerator if isinstance(base, sp.exp)]
    if len(scores) != 1 or len(denominators) != 1:
        return None
    gates = [base for base in numerator if not isinstance(base, sp.exp)]
    if any(gate**2 != gate for gate in gates):
        return None  # weighted by more than 0 and 1
    visible = sp.Mul(*gates)
    for axis in sorted(free_axes(scores[0]) & set(definition.axes), key=lambda a: a.name):
        beside = denominators[0] - exponentials(scores[0], axis, visible)
        fits = beside == 0 or all(map(_is_weights, sp.Add.make_args(beside)))
        if fits and softmax(scores[0], axis, visible, beside) == definition.value:
            return SoftmaxForm(scores[0], axis, visible, beside)
    return None
