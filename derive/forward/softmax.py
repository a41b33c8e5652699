"""Softmax from its primitive form: exponentials over their sum. Its gradient is derived, never typed in."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Total, free_axes, powers_of
from derive.errors import DefinitionError
from derive.forward.program import Definition


def softmax(score: sp.Expr, over: Axis, visible: sp.Expr | int = 1) -> sp.Expr:
    """``visible · exp(score) / Σ_over visible · exp(score)``; ``visible`` is 0 or 1.

    Raises
    ------
    DefinitionError: the score does not vary over the axis.
    """
    if over not in free_axes(sp.sympify(score)):
        raise DefinitionError(f"softmax over {over}: the score {score} does not have that axis")
    weight = visible * sp.exp(score)
    return weight / Total(weight, over)


def logsumexp(score: sp.Expr, over: Axis, visible: sp.Expr | int = 1) -> sp.Expr:
    """``log Σ_over visible · exp(score)``, the natural logarithm of softmax's denominator."""
    return sp.log(Total(visible * sp.exp(score), over))


def is_logsumexp(value: sp.Expr) -> bool:
    """Whether a value is the logarithm of a sum of exponentials, each shown or hidden."""
    if not isinstance(value, sp.log) or not isinstance(value.args[0], Total):
        return False
    factors = sp.Mul.make_args(value.args[0].body)
    return sum(isinstance(f, sp.exp) for f in factors) == 1 and all(isinstance(f, sp.exp) or f**2 == f for f in factors)


@dataclass(frozen=True)
class SoftmaxForm:
    """What a definition that spells a softmax is a softmax of."""

    score: sp.Expr
    over: Axis
    visible: sp.Expr


def recognise(definition: Definition) -> SoftmaxForm | None:
    """The score, axis and visibility if a definition is ``softmax(score, over, visible)``, else None.

    Used to name the rule and to write ``softmax(S)``; nothing is differentiated by it.
    """
    numerator = [base for base, power in powers_of(definition.value).items() if power == 1]
    scores = [base.args[0] for base in numerator if isinstance(base, sp.exp)]
    if len(scores) != 1:
        return None
    gates = [base for base in numerator if not isinstance(base, sp.exp)]
    if any(gate**2 != gate for gate in gates):
        return None  # weighted by more than 0 and 1
    visible = sp.Mul(*gates)
    for axis in sorted(free_axes(scores[0]) & set(definition.axes), key=lambda a: a.name):
        if softmax(scores[0], axis, visible) == definition.value:
            return SoftmaxForm(scores[0], axis, visible)
    return None
