"""Arrays whose dimensions have labels: the axes of a program, numbered leading axes, directions of tangents.

A label that an array does not have is one along which it is the same everywhere; nothing is repeated before it must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]

Label = Hashable

Labels = tuple[Label, ...]

Sizes = Mapping[Label, int]
"""The length along each label."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Numbers ``data · 2^exponent``, entry by entry; no exponent means 0. Both arrays have one shape."""

    data: Host
    labels: Labels
    exponent: Host | None = None

    def each(self, change: Callable[[Host], Host], labels: Labels) -> Labelled:
        """The same change of shape to data and exponents."""
        return Labelled(change(self.data), labels, None if self.exponent is None else change(self.exponent))

    def renamed(self, names: Mapping[Label, Label]) -> Labelled:
        """The same numbers under other labels."""
        return Labelled(self.data, tuple(names.get(label, label) for label in self.labels), self.exponent)


@dataclass(frozen=True, slots=True)
class Mask:
    """Where something is hidden: True there."""

    data: Host
    labels: Labels

    def renamed(self, names: Mapping[Label, Label]) -> Mask:
        """The same mask under other labels."""
        return Mask(self.data, tuple(names.get(label, label) for label in self.labels))


@lru_cache(maxsize=4096)
def union(*labels: Labels) -> Labels:
    """All labels, each once, in the order in which they come."""
    return tuple(dict.fromkeys(label for own in labels for label in own))


def arranged(data: Host, own: Labels, wanted: Labels) -> Host:
    """A view with its dimensions in the wanted order, of length 1 where the array does not have a label."""
    if own == wanted:
        return data
    order, places = _arrangement(own, wanted)
    return data.transpose(order)[places]


@lru_cache(
    maxsize=4096
)  # few combinations of labels occur, and to compare them takes longer than to move a small array
def _arrangement(own: Labels, wanted: Labels) -> tuple[tuple[int, ...], tuple[slice | None, ...]]:
    """The order of an array's dimensions, and where new ones go between them."""
    order = tuple(own.index(label) for label in wanted if label in own)
    return order, tuple(slice(None) if label in own else None for label in wanted)


def spread(array: Labelled, labels: Labels, sizes: Sizes) -> Labelled:
    """The numbers with exactly the given labels, repeated along those that they do not have; a view."""
    shape = tuple(sizes[label] for label in labels)
    return array.each(lambda data: np.broadcast_to(arranged(data, array.labels, labels), shape), labels)


def either(masks: Iterable[Mask | None]) -> Mask | None:
    """Where one of several masks hides; None where none does."""
    found = [mask for mask in masks if mask is not None]
    if len(found) < 2:
        return found[0] if found else None
    labels = union(*(mask.labels for mask in found))
    data = arranged(found[0].data, found[0].labels, labels)
    for mask in found[1:]:
        data = data | arranged(mask.data, mask.labels, labels)
    return Mask(data, labels)


def both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Where two masks hide; a sum is hidden where all that is added is."""
    if one is None or other is None:
        return None
    labels = union(one.labels, other.labels)
    return kept(Mask(arranged(one.data, one.labels, labels) & arranged(other.data, other.labels, labels), labels))


def throughout(mask: Mask | None, over: Collection[Label]) -> Mask | None:
    """Where a mask hides everything along some labels, which are gone then."""
    return _reduced(mask, over, np.all)


def somewhere(mask: Mask, over: Collection[Label]) -> Mask:
    """Where a mask hides anything along some labels, which are gone then."""
    return _reduced(mask, over, np.any) or Mask(np.zeros((), dtype=bool), ())


def _reduced(mask: Mask | None, over: Collection[Label], reduce: Any) -> Mask | None:
    if mask is None:
        return None
    axes = tuple(k for k, label in enumerate(mask.labels) if label in over)
    labels = tuple(label for label in mask.labels if label not in over)
    return kept(Mask(np.asarray(reduce(mask.data, axis=axes)) if axes else mask.data, labels))


def kept(mask: Mask) -> Mask | None:
    """A mask, or None where it hides nothing."""
    return mask if mask.data.any() else None


def counted(hidden: Sequence[Mask | None], over: Collection[Label], sizes: Sizes) -> Labelled:
    """How many positions along some labels no mask hides; float64."""
    mask = either(hidden)
    if mask is None:
        return Labelled(np.asarray(float(math.prod(sizes[label] for label in over))), ())
    axes = tuple(k for k, label in enumerate(mask.labels) if label in over)
    labels = tuple(label for label in mask.labels if label not in over)
    others = math.prod(sizes[label] for label in over if label not in mask.labels)
    return Labelled(np.asarray((~mask.data).sum(axis=axes) * float(others)), labels)


@dataclass(frozen=True)
class Places:
    """Where entries are looked up: for each looked-up label of a tensor, integers over labels of their own."""

    index: Mapping[Label, tuple[Host, Labels]]
    sizes: Sizes

    def split(self, labels: Labels) -> tuple[Labels, Labels, Labels]:
        """Of a tensor's labels: those that stay by themselves, those that move with the index; then all of the index.

        What moves with the index is an axis that the index depends on too, as i in ``S[i, targets[i]]``.
        """
        new = union(*(own for _, own in self.index.values()))
        stay = tuple(label for label in labels if label not in self.index and label not in new)
        along = tuple(label for label in labels if label not in self.index and label in new)
        return stay, along, new

    def picked(self, labels: Labels) -> tuple[Labels, tuple[Any, ...], Labels]:
        """A tensor's labels in the order of an index into it, that index, and the labels of what it gives."""
        stay, along, new = self.split(labels)
        looked_up = tuple(label for label in self.index if label in labels)
        index: list[Any] = [slice(None)] * len(stay)
        index += [arranged(np.arange(self.sizes[label]), (label,), new) for label in along]
        index += [arranged(*self.index[label], new) for label in looked_up]
        return (*stay, *along, *looked_up), tuple(index), (*stay, *new)


def gathered(array: Labelled, places: Places) -> Labelled:
    """The entries of a tensor at computed places."""
    order, index, labels = places.picked(array.labels)
    if not any(label in places.index for label in array.labels):
        return array
    shape = tuple(places.sizes[label] for label in labels)
    return array.each(lambda data: np.broadcast_to(arranged(data, array.labels, order)[index], shape), labels)


def scattered(array: Labelled, places: Places, labels: Labels, zero: Any) -> Labelled:
    """The transpose of :func:`gathered`: entries added up at the places of a tensor with the given labels.

    What the array has beside is kept: directions, leading axes that the tensor does not have.
    """
    extra = tuple(label for label in array.labels if label not in labels and label not in places.split(labels)[2])
    order, index, given = places.picked((*extra, *labels))
    full = spread(array, given, places.sizes)
    result = np.full(tuple(places.sizes[label] for label in order), zero, dtype=array.data.dtype)
    np.add.at(result, index, full.data)
    return Labelled(result, order)
