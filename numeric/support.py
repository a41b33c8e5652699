"""The few array functions that generated code calls: visibility by selection, never by arithmetic.

``xp`` is the array namespace; a visibility of ``None`` means that everything is visible.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from numeric.errors import InputError
from numeric.signature import Array


def all_of(*conditions: Array | None) -> Array:
    """The conjunction of the conditions that are given, or None where none is."""
    result = None
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else result & condition
    return result


def as_numbers(xp: Any, condition: Array, like: Array) -> Array:
    """A condition as the numbers 0 and 1, in the dtype of another array."""
    return xp.astype(condition, like.dtype) if hasattr(xp, "astype") else condition.astype(like.dtype)


def sigmoid(xp: Any, x: Array) -> Array:
    """``1/(1 + exp(−x))`` from ``exp(−|x|)``, which does not overflow."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, xp.ones_like(x), small) / (1 + small)


def erf(xp: Any, x: Array) -> Array:
    """The error function: SciPy's where it is installed, or CuPy's own, else the standard library's entry by entry."""
    module = {"numpy": "scipy.special", "cupy": "cupyx.scipy.special"}.get(xp.__name__)
    try:
        if module is not None:
            return importlib.import_module(module).erf(x)
    except ImportError:
        pass
    x = as_real(xp, x)
    values = [math.erf(float(entry)) for entry in xp.reshape(x, (-1,))]
    return xp.reshape(xp.asarray(values, dtype=x.dtype), x.shape)


def maximum(xp: Any, one: Array | float, other: Array | float) -> Array:
    """The larger of two, one of which may be a number."""
    return xp.maximum(*_alike(xp, one, other))


def minimum(xp: Any, one: Array | float, other: Array | float) -> Array:
    """The smaller of two, one of which may be a number."""
    return xp.minimum(*_alike(xp, one, other))


def _alike(xp: Any, one: Array | float, other: Array | float) -> tuple[Array, Array]:
    """Two arrays; a number takes the other's dtype, unless it would lose its fraction in it."""
    like: Any = other if _is_number(one) else one
    return tuple(_array(xp, a, like) if _is_number(a) else a for a in (one, other))  # type: ignore[return-value]


def _array(xp: Any, number: float, like: Array) -> Array:
    return xp.asarray(number, dtype=None if isinstance(number, float) and _is_whole(xp, like) else like.dtype)


def _is_whole(xp: Any, x: Array) -> bool:
    return bool(xp.isdtype(x.dtype, ("bool", "integral")))


def _is_number(value: Array | float) -> bool:
    """Whether it is a number of Python's own; NumPy's float64, an array without axes, is one by inheritance only."""
    return type(value) in (int, float)


def as_real(xp: Any, x: Array) -> Array:
    """Integers as real numbers, which functions are about; anything else as it is."""
    return xp.asarray(x, dtype=xp.float64) if _is_whole(xp, x) else x


def gathered(xp: Any, values: Array, index: Array, new: int, rest: int) -> Array:
    """``values [.., length, rest…]`` at an index ``[.., new…]``, which gives ``[.., new…, rest…]``.

    An index outside gives the nearest entry: what is not meant to count is hidden by what it is multiplied with.

    Raises
    ------
    InputError: there is something to look up, and no entry to look it up in.
    """
    if values.shape[-1 - rest] == 0 and math.prod(index.shape):
        raise InputError(f"an entry is looked up in a table of shape {tuple(values.shape)}, which has none")
    own = index.shape[index.ndim - new :]
    flat = xp.reshape(index, (*index.shape[: index.ndim - new], math.prod(own), *(1 for _ in range(rest))))
    flat = xp.clip(flat, 0, max(values.shape[-1 - rest] - 1, 0))
    rank = max(values.ndim, flat.ndim)
    values, flat = (xp.reshape(a, (*(1 for _ in range(rank - a.ndim)), *a.shape)) for a in (values, flat))
    picked = xp.take_along_axis(values, flat, axis=-1 - rest)
    return xp.reshape(picked, (*picked.shape[: picked.ndim - 1 - rest], *own, *picked.shape[picked.ndim - rest :]))


def checked(xp: Any, index: Array, length: int, text: str, seen: Array | None = None, further: int = 0) -> Array:
    """An index, if all of it that counts lies in 0 … length − 1.

    ``seen`` says where it counts, over the index's axes and ``further`` ones: None means everywhere.

    Raises
    ------
    InputError: naming what is looked up and where; the text is printed as it is.
    """
    outside = (index < 0) | (index >= length)
    if seen is not None:
        counts = xp.any(seen, axis=tuple(range(-further, 0))) if further else seen
        outside = outside & counts
    if xp.any(outside):
        wrong = xp.broadcast_to(index, outside.shape)[outside][0]
        raise InputError(
            f"{text} is looked up at {int(wrong)}, outside of 0 … {length - 1}: give other positions, or a table that "
            "is long enough; in a definition, multiply by Indicator(…) of the positions that count"
        )
    return index


def filled(xp: Any, values: Array, shape: tuple[int, ...]) -> Array:
    """Values whose last axes may have length 1, repeated to a full shape; leading axes stay as they are."""
    return xp.broadcast_to(values, (*values.shape[: values.ndim - len(shape)], *shape))


def repeated(xp: Any, values: Array, given: Array, rank: int, own: int) -> Array:
    """Values of ``own`` axes that no input changes, once for every place of the leading axes of an input.

    ``rank`` is how many axes of the input are not leading ones.
    """
    return xp.tile(values, (*given.shape[: given.ndim - rank], *(1 for _ in range(own))))


def visible_only(xp: Any, values: Array, visible: Array | None) -> Array:
    """The values where they are visible, and exactly 0 elsewhere, whatever stands there."""
    return values if visible is None else xp.where(visible, values, xp.zeros_like(values))


def visible_max(xp: Any, scores: Array, visible: Array | None, empty: float = 0) -> Array:
    """The largest visible score of each row ``[.., n, m] -> [.., n]``; ``empty`` for a row that sees nothing."""
    if scores.shape[-1] == 0:
        return xp.full(scores.shape[:-1], empty, dtype=as_real(xp, scores).dtype)
    if visible is None:
        return xp.max(scores, axis=-1)
    scores = as_real(xp, scores)
    largest = xp.max(xp.where(visible, scores, xp.full_like(scores, -xp.inf)), axis=-1)
    return xp.where(largest == -xp.inf, xp.full_like(largest, empty), largest)


Axes = tuple[int, int, int]
"""How many last axes of a product are rows, summed over, and columns."""


def matmul(xp: Any, left: Array, right: Array, axes: Axes = (1, 1, 1)) -> Array:
    """The product of left ``[.., rows, over]`` and right ``[.., over, columns]``, several axes each, as one ``@``."""
    rows, over, columns = axes
    wide, deep = left.shape[left.ndim - rows - over :], right.shape[right.ndim - columns :]
    one = _joined(xp, _joined(xp, left, over), rows, before=1)
    two = _joined(xp, _joined(xp, right, columns), over, before=1)
    product = one @ two
    return xp.reshape(product, (*product.shape[:-2], *wide[:rows], *deep))


def _joined(xp: Any, array: Array, count: int, before: int = 0) -> Array:
    """The array with some neighbouring axes as one: the last ones, or those before the last."""
    if count == 1:
        return array
    end = array.ndim - before
    length = math.prod(array.shape[end - count : end])
    return xp.reshape(array, (*array.shape[: end - count], length, *array.shape[end:]))


def visible_matmul(xp: Any, left: Array, right: Array, visible: Array | None, axes: Axes = (1, 1, 1)) -> Array:
    """The product summed over visible entries of ``left`` alone; shapes as in :func:`matmul`.

    ``visible`` broadcasts to left. A hidden entry contributes nothing, where a plain product would add 0 · NaN:
    the rows of ``right`` that hold NaN or infinity are added one by one, to the rows that see them.
    """
    if visible is None:
        return matmul(xp, left, right, axes)
    finite = xp.isfinite(right)
    if xp.all(finite):
        return matmul(xp, left, right, axes)
    result = matmul(xp, left, xp.where(finite, right, xp.zeros_like(right)), axes)
    rows, over, columns = axes
    last = left.ndim - rows - over
    seen = xp.broadcast_to(visible, (*visible.shape[: max(visible.ndim - rows - over, 0)], *left.shape[last:]))
    seen, left = (_joined(xp, _joined(xp, a, over), rows, before=1) for a in (seen, left))
    finite, right = (_joined(xp, _joined(xp, a, columns), over, before=1) for a in (finite, right))
    for k in range(right.shape[-2]):
        if not xp.all(finite[..., k, :]):
            shown = seen[..., :, k : k + 1] & ~finite[..., k : k + 1, :]
            term = left[..., :, k : k + 1] * right[..., k : k + 1, :]
            result = result + xp.reshape(xp.where(shown, term, xp.zeros_like(term)), result.shape)
    return result
