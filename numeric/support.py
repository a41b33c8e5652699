"""The few array functions that generated code calls: visibility by selection, never by arithmetic.

``xp`` is the array namespace; a visibility of ``None`` means that everything is visible.
"""

from __future__ import annotations

from typing import Any

from numeric.signature import Array


def all_of(*conditions: Array | None) -> Array | None:
    """The conjunction of the conditions that are given, or None where none is."""
    result = None
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else result & condition
    return result


def as_numbers(xp: Any, condition: Array, like: Array) -> Array:
    """A condition as the numbers 0 and 1, in the dtype of another array."""
    return xp.astype(condition, like.dtype) if hasattr(xp, "astype") else condition.astype(like.dtype)


def filled(xp: Any, values: Array, shape: tuple[int, ...]) -> Array:
    """Values whose last axes may have length 1, repeated to a full shape; leading axes stay as they are."""
    return xp.broadcast_to(values, (*values.shape[: values.ndim - len(shape)], *shape))


def transposed(visible: Array | None) -> Array | None:
    """A visibility ``[.., n, m]`` as ``[.., m, n]``."""
    return None if visible is None else visible.mT


def visible_only(xp: Any, values: Array, visible: Array | None) -> Array:
    """The values where they are visible, and exactly 0 elsewhere, whatever stands there."""
    return values if visible is None else xp.where(visible, values, xp.zeros_like(values))


def visible_max(xp: Any, scores: Array, visible: Array | None) -> Array:
    """The largest visible score of each row ``[.., n, m] -> [.., n]``; 0 for a row that sees nothing."""
    if scores.shape[-1] == 0:
        return xp.zeros(scores.shape[:-1], dtype=scores.dtype)
    if visible is None:
        return xp.max(scores, axis=-1)
    largest = xp.max(xp.where(visible, scores, xp.full_like(scores, -xp.inf)), axis=-1)
    return xp.where(largest == -xp.inf, xp.zeros_like(largest), largest)


def visible_matmul(xp: Any, left: Array, right: Array, visible: Array | None) -> Array:
    """``left @ right`` summed over visible entries of ``left`` alone.

    Shapes: left and visible ``[.., i, k]``, right ``[.., k, c]``. A hidden entry contributes nothing,
    where a plain product would add 0 · NaN: the rows ``k`` of ``right`` that hold NaN or infinity are
    added one by one, to the rows ``i`` that see them.
    """
    if visible is None:
        return left @ right
    finite = xp.isfinite(right)
    if xp.all(finite):
        return left @ right
    result = left @ xp.where(finite, right, xp.zeros_like(right))
    for k in range(right.shape[-2]):
        if not xp.all(finite[..., k, :]):
            seen = visible[..., :, k : k + 1] & ~finite[..., k : k + 1, :]
            term = left[..., :, k : k + 1] * right[..., k : k + 1, :]
            result = result + xp.where(seen, term, xp.zeros_like(term))
    return result
