"""Values under evaluation: arrays, where they are hidden, and where they lie outside of a tensor.

A product with a 0/1 factor that is 0 is *hidden*: its other factors do not count, infinity and what is no number
included, in the forward evaluation and in the chain rule. It is 0 in a sum, and what it is multiplied with is hidden
with it; a function of it is that of 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from derive.algebra.axes import Axis
from numeric.oracle.discrete import Outside, shown, summed
from numeric.oracle.labelled import Label, Mask, Sizes, both, either, throughout


@dataclass(frozen=True)
class Term:
    """An array of a kind of numbers, 0 where it is hidden.

    given: it is a cotangent as the caller gave it, or an input: stored as it is, and not an intermediate result.
    """

    array: Any
    hidden: Mask | None = None
    outside: tuple[Outside, ...] = ()
    given: bool = False

    def seen(self) -> Term:
        """The same as a plain number: what is hidden is 0."""
        return replace(self, hidden=None)


@dataclass(frozen=True)
class Gated:
    """Where 0/1 factors hide what they multiply, and what of them is outside."""

    hidden: tuple[Mask, ...] = ()
    outside: tuple[Outside, ...] = ()


def product(
    kind: Any, terms: Sequence[Term], gates: Gated, over: Collection[Axis], sizes: Sizes, *, operands: bool = False
) -> Term:
    """The product of terms and 0/1 factors, summed over axes.

    Without a sum it is hidden where a factor is. A sum leaves hidden terms out, and is a number itself. ``operands``
    says that this is a product of matrices, into which intermediate results go as they are stored.
    """
    masks = [*gates.hidden, *(term.hidden for term in terms)]
    outside = shown([*gates.outside, *(o for term in terms for o in term.outside)], masks)
    array = _contracted(kind, terms, gates.hidden, masks, over, sizes, operands=operands)
    if over:
        return Term(array, None, summed(outside, tuple(over)))
    hidden = either(masks)
    return Term(array if hidden is None else kind.masked(array, hidden), hidden, outside)


def pulled(
    kind: Any,
    terms: Sequence[Term],
    gates: Gated,
    others: Sequence[Mask | None],
    over: Collection[Label],
    sizes: Sizes,
    *,
    operands: bool = False,
) -> Term:
    """What a product's cotangent, a term, gives for one of its factors: terms times one another, summed over labels.

    It is hidden where all is that it is a sum of; ``others`` are further masks, those of the factor itself.
    """
    masks = [*gates.hidden, *others, *(term.hidden for term in terms)]
    array = _contracted(kind, terms, (*gates.hidden, *others), masks, over, sizes, operands=operands)
    hidden = throughout(either(masks), over)
    return Term(array if hidden is None else kind.masked(array, hidden), hidden)


def _contracted(
    kind: Any,
    terms: Sequence[Term],
    gates: Sequence[Mask | None],
    masks: Sequence[Mask | None],
    over: Collection[Label],
    sizes: Sizes,
    *,
    operands: bool,
) -> Any:
    """Numbers times numbers, hidden ones left out. A mask is applied to the factors that have its axes."""
    arrays = [term.array for term in terms]
    if operands and over and sum(bool(array.labels) for array in arrays) > 1:
        arrays = [a if t.given else kind.rounded(a, "operand") for a, t in zip(arrays, terms, strict=True)]
    loose = []
    for mask in gates:
        if mask is not None:
            hosts = [k for k, array in enumerate(arrays) if set(mask.labels) <= set(array.labels)]
            loose += [] if hosts else [mask]
            for k in hosts:
                arrays[k] = kind.masked(arrays[k], mask)
    if any(kind.unfinite(array) is not None for array in arrays):
        return kind.contract_shown(arrays or [kind.rational(Fraction(1))], over, sizes, masks)
    arrays += [kind.given(~mask.data, mask.labels) for mask in loose]
    return kind.contract(arrays or [kind.rational(Fraction(1))], over, sizes, masks)


def total(kind: Any, parts: Sequence[Term]) -> Term:
    """The sum of terms; hidden ones are 0 in it."""
    array = kind.add([part.array for part in parts])
    return Term(array, None, tuple(o for part in parts for o in part.outside))


def gathered_cotangent(kind: Any, parts: Sequence[Term]) -> Term:
    """The sum of what arrives for one value: hidden where all of it is, given where it is all there is."""
    if len(parts) == 1:
        return parts[0]
    hidden: Mask | None = parts[0].hidden
    for part in parts[1:]:
        hidden = both(hidden, part.hidden)
    return Term(kind.add([part.array for part in parts]), hidden)
