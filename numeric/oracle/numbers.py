"""Kinds of numbers on whole arrays: what the evaluator computes with.

Every kind is a :class:`Plain` one over some NumPy dtype, with functions of its own: extended floating point with an
exponent range that nothing leaves (:mod:`numeric.oracle.floats`), or objects, decimals in many digits and rigorous
balls (:mod:`numeric.oracle.objects`). Numbers that carry tangents are built on two of them
(:mod:`numeric.oracle.jets`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from numeric.oracle.functions import by_definition
from numeric.oracle.labelled import Host, Label, Labelled, Labels, Mask, Places, Sizes, arranged, gathered, scattered
from numeric.oracle.labelled import union as union_of

Array = Any
"""A labelled array of whichever kind computes."""


class Kind(Protocol):
    """What the evaluator asks of a kind of numbers; arrays have ``labels``, and meet by them."""

    def given(self, data: Host, labels: Labels) -> Array:
        """Numbers that are exact: floats of any width, integers, or Booleans as 0 and 1."""

    def rational(self, value: Fraction) -> Array:
        """An exact number."""

    def pi(self) -> Array:
        """π."""

    def add(self, parts: Sequence[Array]) -> Array:
        """The sum of at least one array, entry by entry."""

    def chosen(self, parts: Sequence[Array]) -> Array:
        """A sum of which one part at most is not 0: nothing is added, nothing rounded."""

    def multiply(self, parts: Sequence[Array]) -> Array:
        """The product of at least one array, entry by entry."""

    def pair(self, left: Array, right: Array, over: Collection[Label]) -> Array:
        """The product of two arrays, summed over labels that both have."""

    def total(self, array: Array, over: Collection[Label]) -> Array:
        """The sum over labels of an array; others are left alone."""

    def contract(
        self, parts: Sequence[Array], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None] = ()
    ) -> Array:
        """The product of arrays, summed over some labels; masks say which terms there are."""

    def contract_shown(
        self, parts: Sequence[Array], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None]
    ) -> Array:
        """The same term by term, where hidden ones may hold anything: infinity or what is no number."""

    def masked(self, array: Array, hidden: Mask) -> Array:
        """0 where a mask hides, whatever stood there."""

    def renamed(self, array: Array, names: Mapping[Label, Label]) -> Array:
        """The same array under other labels."""

    def gathered(self, array: Array, places: Places) -> Array:
        """The entries at computed places."""

    def scattered(self, array: Array, places: Places, labels: Labels) -> Array:
        """Entries added up at computed places of a tensor with the given labels."""

    def function(self, function: type, array: Array, largest: Labelled | None = None) -> Array:
        """A function of SymPy at every entry; ``largest`` is what an exponential's argument is measured from."""

    def declared(self, function: type, arrays: Sequence[Array]) -> Array:
        """A function that declares what it stands for, and its slope."""

    def power(self, array: Array, exponent: Fraction) -> Array:
        """A rational power."""

    def raised(self, array: Array, exponent: Array) -> Array:
        """A positive number to the power of exact ones."""

    def unfinite(self, array: Array) -> Mask | None:
        """Where entries are infinite or no numbers; None if all are finite."""

    def compared(self, array: Array) -> Host:
        """The values as an array that NumPy compares, in the order of the labels."""

    def rounded(self, array: Array, place: str) -> Array:
        """The numbers as they are known after a rounding: themselves, unless the kind follows roundings."""

    def unsure(self, array: Array, gap: Array, size: float) -> Array:
        """A slope that jumps by a size where a gap is 0, near which rounding decides; itself otherwise."""


class Plain(Kind):
    """What all kinds have in common: NumPy's operations on arrays of one dtype, without exponents."""

    dtype: np.dtype[Any]
    zero: Any

    def light(self, array: Labelled) -> Labelled:
        """Numbers of another kind in this one, as good as it has them."""
        raise NotImplementedError

    def given(self, data: Host, labels: Labels) -> Labelled:
        """Numbers that are exact."""
        return Labelled(np.asarray(data).astype(self.dtype), labels)

    def add(self, parts: Sequence[Labelled]) -> Labelled:
        """The sum, entry by entry."""
        labels = union_of(*(part.labels for part in parts))
        data = arranged(parts[0].data, parts[0].labels, labels)
        for part in parts[1:]:
            data = data + arranged(part.data, part.labels, labels)
        return Labelled(self.array(data), labels)

    def chosen(self, parts: Sequence[Labelled]) -> Labelled:
        """The sum of parts of which one at most is not 0."""
        return self.add(parts)

    def multiply(self, parts: Sequence[Labelled]) -> Labelled:
        """The product, entry by entry."""
        result = parts[0]
        for part in parts[1:]:
            result = self.pair(result, part, ())
        return result

    def pair(self, left: Labelled, right: Labelled, over: Collection[Label]) -> Labelled:
        """The product of two arrays summed over labels of theirs: entry by entry, or as one stack of matrices."""
        if not over:
            labels = union_of(left.labels, right.labels)
            data = arranged(left.data, left.labels, labels) * arranged(right.data, right.labels, labels)
            return Labelled(self.array(data), labels)
        return _matrix_product(self.matmul, left, right, tuple(over))

    def matmul(self, left: Host, right: Host) -> Host:
        """A stack of matrix products ``[.., a, b] @ [.., b, c]``."""
        if 0 in (*left.shape, *right.shape):
            return np.full((*left.shape[:-1], right.shape[-1]), self.zero, dtype=self.dtype)
        return left @ right

    def total(self, array: Labelled, over: Collection[Label]) -> Labelled:
        """The sum over some labels of an array."""
        axes = tuple(k for k, label in enumerate(array.labels) if label in over)
        if not axes:
            return array
        labels = tuple(label for label in array.labels if label not in over)
        return Labelled(self.array(np.add.reduce(array.data, axis=axes, initial=self.zero)), labels)

    def contract(
        self, parts: Sequence[Labelled], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None] = ()
    ) -> Labelled:
        """The product of arrays, summed over some labels, two arrays after another."""
        result: Labelled = contracted(self, parts, over, sizes)
        return result

    def contract_shown(
        self, parts: Sequence[Labelled], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None]
    ) -> Labelled:
        """The product of arrays, every term by itself, without the hidden ones."""
        product = self.multiply(parts)
        for mask in hidden:
            product = product if mask is None else self.masked(product, mask)
        return self.contract([product], over, sizes)

    def masked(self, array: Labelled, hidden: Mask) -> Labelled:
        """0 where a mask hides."""
        labels = union_of(array.labels, hidden.labels)
        where = arranged(hidden.data, hidden.labels, labels)
        exponent = None if array.exponent is None else arranged(array.exponent, array.labels, labels)
        data = self.array(np.where(where, self.array(self.zero), arranged(array.data, array.labels, labels)))
        return Labelled(data, labels, None if exponent is None else np.where(where, 0, exponent))

    def renamed(self, array: Labelled, names: Mapping[Label, Label]) -> Labelled:
        """The same array under other labels."""
        return array.renamed(names)

    def gathered(self, array: Labelled, places: Places) -> Labelled:
        """The entries at computed places."""
        return gathered(array, places)

    def scattered(self, array: Labelled, places: Places, labels: Labels) -> Labelled:
        """Entries added up at computed places."""
        return scattered(array, places, labels, self.zero)

    def declared(self, function: type, arrays: Sequence[Labelled]) -> Labelled:
        """A declared function, by its definition."""
        result: Labelled = by_definition(function, arrays, self)
        return result

    def rounded(self, array: Labelled, place: str) -> Labelled:
        """Plain numbers follow no roundings."""
        return array

    def unsure(self, array: Labelled, gap: Labelled, size: float) -> Labelled:
        """Plain numbers are sure of every sign."""
        return array

    def array(self, data: Any) -> Host:
        """An array of this kind's dtype, of what may be one number."""
        if isinstance(data, np.ndarray) and data.dtype == self.dtype:
            return data
        made = np.empty(np.shape(data), dtype=self.dtype)
        made[...] = data
        return made


def contracted(kind: Any, parts: Sequence[Array], over: Collection[Label], sizes: Sizes) -> Array:
    """A product of arrays summed over labels, by ``kind.total`` and ``kind.pair``: the smallest product first.

    A label that no array has counts as often as it is long.
    """
    present = set(union_of(*(part.labels for part in parts)))
    repeated = math.prod(sizes[label] for label in over if label not in present)
    left, todo = list(parts), {label for label in over if label in present}
    while len(left) > 1:
        left = [kind.total(part, todo - _others(left, part)) for part in left]
        one, other = min(_pairs(left), key=lambda pair: _length(pair, left, todo, sizes))
        rest = [part for part in left if part is not one and part is not other]
        done = (set(one.labels) | set(other.labels)) & todo - set(union_of(*(part.labels for part in rest)))
        left = [*rest, kind.pair(one, other, tuple(label for label in one.labels if label in done))]
    result = kind.total(left[0], todo)
    return result if repeated == 1 else kind.multiply([result, kind.rational(Fraction(repeated))])


def _others(parts: Sequence[Array], own: Array) -> set[Label]:
    return set(union_of(*(part.labels for part in parts if part is not own)))


def _pairs(parts: Sequence[Array]) -> list[tuple[Array, Array]]:
    return [(one, other) for k, one in enumerate(parts) for other in parts[k + 1 :]]


def _length(pair: tuple[Array, Array], parts: Sequence[Array], todo: set[Label], sizes: Sizes) -> int:
    """How many entries the product of two arrays has once it is summed over what no other array has."""
    needed = set(union_of(*(part.labels for part in parts if part is not pair[0] and part is not pair[1])))
    labels = {label for part in pair for label in part.labels if label not in todo or label in needed}
    return math.prod(sizes[label] for label in labels)


def _matrix_product(matmul: Any, left: Labelled, right: Labelled, over: Labels) -> Labelled:
    """Two arrays as stacks of matrices: stacked along what both have and keep, multiplied along what is summed."""
    stack, rows, columns = _sides(left.labels, right.labels, over)
    one = _as_matrices(left, stack, rows, over)
    other = _as_matrices(right, stack, over, columns)
    shape = (*_lengths(left, stack), *_lengths(left, rows), *_lengths(right, columns))
    return Labelled(matmul(one, other).reshape(shape), (*stack, *rows, *columns))


@lru_cache(maxsize=4096)
def _sides(left: Labels, right: Labels, over: Labels) -> tuple[Labels, Labels, Labels]:
    """The labels that two arrays have in common and keep, and those that each has alone."""
    common = tuple(label for label in left if label in right and label not in over)
    rows = tuple(label for label in left if label not in right)
    return common, rows, tuple(label for label in right if label not in left)


def _as_matrices(array: Labelled, stack: Labels, rows: Labels, columns: Labels) -> Host:
    data = arranged(array.data, array.labels, (*stack, *rows, *columns))
    return data.reshape(
        (*_lengths(array, stack), math.prod(_lengths(array, rows)), math.prod(_lengths(array, columns)))
    )


def _lengths(array: Labelled, labels: Labels) -> tuple[int, ...]:
    return tuple(array.data.shape[array.labels.index(label)] for label in labels)
