"""Extended floating point: 64 bits of mantissa where the machine has them, and exponents that nothing overflows.

exp(10⁵) is 2^144269.5: an array whose entries leave the range of its dtype keeps an integer exponent beside each. So
a softmax is evaluated as it is defined, without subtracting anything, whatever its scores are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from derive.errors import AlgebraError
from numeric.oracle.labelled import Host, Label, Labelled, Labels, Mask, arranged, kept
from numeric.oracle.labelled import union as union_of
from numeric.oracle.numbers import Plain

LOWEST = -(2**40)
"""The exponent of 0, below all others."""

ONE_BY_ONE = 2**24
"""The most products with exponents that are formed one by one."""

_FUNCTIONS: dict[type, Callable[[Host], Host]] = {
    sp.sin: np.sin,
    sp.cos: np.cos,
    sp.tan: np.tan,
    sp.asin: np.arcsin,
    sp.acos: np.arccos,
    sp.atan: np.arctan,
    sp.sinh: np.sinh,
    sp.cosh: np.cosh,
    sp.tanh: np.tanh,
    sp.asinh: np.arcsinh,
    sp.acosh: np.arccosh,
    sp.atanh: np.arctanh,
    sp.Abs: np.abs,
    sp.sign: np.sign,
    sp.floor: np.floor,
    sp.ceiling: np.ceil,
}


def has_long_doubles() -> bool:
    """Whether NumPy's long double has 64 bits of mantissa and fifteen of exponent, as on x86."""
    info = np.finfo(np.longdouble)
    return bool(info.nmant >= 63 and info.maxexp >= 16384)


class Floats(Plain):
    """A NumPy floating-point dtype, long double or float64, with exponents where they are needed."""

    def __init__(self, dtype: Any = np.longdouble) -> None:
        self.dtype = np.dtype(dtype)
        self.zero = self.dtype.type(0)
        self.range = int(np.finfo(self.dtype).maxexp) * 3 // 10
        """Products of three numbers within 2^±range stay representable."""
        text = mpmath.mp.clone()
        text.dps = 40
        log2 = text.log(2)
        self.log2 = self._number(log2)
        high = text.ldexp(text.nint(text.ldexp(log2, 32)), -32)
        self.log2_parts = self._number(high), self._number(log2 - high)

    def _number(self, value: Any) -> Any:
        return self.dtype.type(mpmath.nstr(value, 35))

    def rational(self, value: Fraction) -> Labelled:
        """An exact number, rounded once."""
        top, bottom = value.numerator, value.denominator
        if abs(top) < 2**53 and bottom < 2**53:
            return Labelled(np.asarray(self.dtype.type(top) / self.dtype.type(bottom)), ())
        context = mpmath.mp.clone()
        context.prec = 120
        return Labelled(np.asarray(self._number(context.mpf(top) / bottom)), ())

    def pi(self) -> Labelled:
        """π."""
        context = mpmath.mp.clone()
        context.prec = 120
        return Labelled(np.asarray(self._number(+context.pi)), ())

    def add(self, parts: Sequence[Labelled]) -> Labelled:
        """The sum; terms with exponents are brought to the largest."""
        if all(part.exponent is None for part in parts):
            return super().add(parts)
        labels = union_of(*(part.labels for part in parts))
        exponents = [arranged(_effective(part), part.labels, labels) for part in parts]
        top = exponents[0]
        for exponent in exponents[1:]:
            top = np.maximum(top, exponent)
        data: Any = self.zero
        for part, exponent in zip(parts, exponents, strict=True):
            data = data + np.ldexp(arranged(part.data, part.labels, labels), _shift(exponent - top))
        return self.ranged(Labelled(self.array(data), labels, _plain_zero(top)))

    def pair(self, left: Labelled, right: Labelled, over: Collection[Label]) -> Labelled:
        """The product of two arrays, summed over labels.

        With exponents, products are formed one by one; if they are too many, the largest exponent of a row is taken
        out of it before it is summed.
        """
        if left.exponent is None and right.exponent is None:
            return super().pair(left, right, over)
        if over and _terms(left, right) <= ONE_BY_ONE:
            return self.total(self.pair(left, right, ()), over)
        (one, top), (other, bottom) = self._levelled(left, over), self._levelled(right, over)
        product = super().pair(one, other, over)
        exponent = arranged(top.data, top.labels, product.labels) + arranged(bottom.data, bottom.labels, product.labels)
        return self.ranged(Labelled(product.data, product.labels, np.broadcast_to(exponent, product.data.shape)))

    def total(self, array: Labelled, over: Collection[Label]) -> Labelled:
        """The sum over some labels."""
        if array.exponent is None:
            return super().total(array, over)
        level, top = self._levelled(array, over)
        summed = super().total(level, over)
        exponent = arranged(top.data, top.labels, summed.labels)
        return self.ranged(Labelled(summed.data, summed.labels, np.broadcast_to(exponent, summed.data.shape)))

    def _levelled(self, array: Labelled, over: Collection[Label]) -> tuple[Labelled, Labelled]:
        """An array as numbers times powers of two that are the same along the labels that are summed over."""
        axes = tuple(k for k, label in enumerate(array.labels) if label in over)
        labels = tuple(label for label in array.labels if label not in over)
        if array.exponent is None:
            return array, Labelled(np.zeros((), dtype=np.int64), ())
        exponent = _effective(array)
        top = np.max(exponent, axis=axes, initial=LOWEST, keepdims=True) if axes else exponent
        data = np.ldexp(array.data, _shift(exponent - top)) if axes else array.data
        top = _plain_zero(np.asarray(top))
        return Labelled(data, array.labels), Labelled(
            top.reshape([top.shape[k] for k in _places(array, labels)]), labels
        )

    def scattered(self, array: Labelled, places: Any, labels: Labels) -> Labelled:
        """Entries added up at computed places, within the range of the dtype."""
        return super().scattered(self.plain(array), places, labels)

    def function(self, function: type, array: Labelled, largest: Labelled | None = None) -> Labelled:
        """A function at every entry; NumPy's where it has one, else mpmath's entry by entry."""
        if function is sp.exp:
            return self._exp(self.plain(array))
        if function is sp.log:
            data = np.log(array.data)
            return Labelled(
                self.array(data if array.exponent is None else data + array.exponent * self.log2), array.labels
            )
        x = self.plain(array)
        if function is sp.erf:
            return Labelled(_erf(x.data), x.labels)
        known = _FUNCTIONS.get(function)
        if known is None:
            return Labelled(self._by_mpmath(function, x.data), x.labels)
        return Labelled(self.array(known(x.data)), x.labels)

    def _exp(self, array: Labelled) -> Labelled:
        x = array.data
        finite = np.where(np.isfinite(x), x, 0)
        if float(np.max(np.abs(finite), initial=0)) < self.range * 0.6:
            return Labelled(self.array(np.exp(x)), array.labels)
        whole = np.rint(finite / self.log2)
        high, low = self.log2_parts
        rest = np.where(np.isfinite(x), (finite - whole * high) - whole * low, x)
        return self.ranged(Labelled(self.array(np.exp(rest)), array.labels, whole.astype(np.int64)))

    def power(self, array: Labelled, exponent: Fraction) -> Labelled:
        """A rational power; NaN where it is no real number."""
        data, scale = self._fraction(array)
        raised = _raised(data, exponent)
        if scale is None:
            return Labelled(self.array(raised), array.labels)
        exact = scale * exponent.numerator
        whole, rest = exact // exponent.denominator, exact % exponent.denominator
        two = self.dtype.type(2)
        raised = raised * two ** (rest.astype(self.dtype) / self.dtype.type(exponent.denominator))
        return self.ranged(Labelled(self.array(raised), array.labels, whole))

    def _fraction(self, array: Labelled) -> tuple[Host, Host | None]:
        """Data near 1 with exponents, if powers of the plain numbers might leave the range."""
        if array.exponent is None:
            sizes = np.abs(array.data[np.isfinite(array.data) & (array.data != 0)])
            limit = np.ldexp(self.dtype.type(1), self.range // 4)
            if not sizes.size or (sizes.max() < limit and sizes.min() > 1 / limit):
                return array.data, None
        data, scale = np.frexp(array.data)
        return data, scale.astype(np.int64) + (0 if array.exponent is None else array.exponent)

    def raised(self, array: Labelled, exponent: Labelled) -> Labelled:
        """A positive number to the power of others."""
        return self.function(sp.exp, self.multiply([exponent, self.function(sp.log, array)]))

    def unfinite(self, array: Labelled) -> Mask | None:
        """Where entries are infinite or no numbers."""
        return kept(Mask(~np.isfinite(array.data), array.labels))

    def compared(self, array: Labelled) -> Host:
        """The numbers themselves."""
        return self.plain(array).data

    def plain(self, array: Labelled) -> Labelled:
        """Numbers without exponents; what is too large is infinite, what is too small 0."""
        if array.exponent is None:
            return array
        return Labelled(self.array(np.ldexp(array.data, _shift(array.exponent))), array.labels)

    def light(self, array: Labelled) -> Labelled:
        """Numbers of a wider float in this one, with exponents where they leave its range."""
        if array.data.dtype == self.dtype:
            return array
        if array.exponent is None:
            data = array.data.astype(self.dtype)
            size = np.abs(data)
            lost = (size > 2.0**self.range) | (size < 2.0**-self.range)  # infinity and 0 among them
            if not bool((lost & np.isfinite(array.data) & (array.data != 0)).any()):
                return Labelled(data, array.labels)
        data, scale = np.frexp(array.data)
        scale = scale.astype(np.int64) + (0 if array.exponent is None else array.exponent)
        return self.ranged(Labelled(data.astype(self.dtype), array.labels, scale))

    def ranged(self, array: Labelled) -> Labelled:
        """Without exponents where the range of the dtype is wide enough, else with numbers near 1."""
        if array.exponent is None:
            return array
        data, scale = np.frexp(array.data)
        scale = np.where((data == 0) | ~np.isfinite(data), 0, scale + array.exponent)
        if int(np.max(np.abs(scale), initial=0)) < self.range:
            return Labelled(self.array(np.ldexp(data, scale.astype(np.int32))), array.labels)
        return Labelled(self.array(data), array.labels, scale)

    def _by_mpmath(self, function: type, data: Host) -> Host:
        context = mpmath.mp.clone()
        context.prec = 80
        known = getattr(context, function.__name__, None)
        if known is None:
            raise AlgebraError(f"mpmath has no function {function.__name__}")
        result = np.empty(data.shape, dtype=self.dtype)
        for at, entry in np.ndenumerate(data):
            value = known(context.mpf(str(entry)))
            result[at] = np.nan if isinstance(value, context.mpc) else self._number(value)
        return result


def _raised(data: Host, exponent: Fraction) -> Host:
    if exponent.denominator == 1:
        result = data ** abs(exponent.numerator)
    elif exponent.denominator == 2:
        result = np.sqrt(data) ** abs(exponent.numerator)
    else:
        result = data ** (data.dtype.type(abs(exponent.numerator)) / data.dtype.type(exponent.denominator))
    return np.asarray(1 / result if exponent < 0 else result)


def _erf(x: Host) -> Host:
    """The error function by the series 2/√π · exp(−x²) · Σ 2ⁿ x²ⁿ⁺¹/(2n + 1)!!, whose terms have one sign."""
    near = np.minimum(np.abs(x), 7)  # beyond, 1 − erf(x) is less than 2⁻⁶⁵
    term, total = near.copy(), near.copy()
    for n in range(1, 200):
        term = term * (2 * near * near / (2 * n + 1))
        total = total + term
        if not bool((term > total * 2.0**-70).any()):
            break
    root = np.sqrt(np.arctan2(x.dtype.type(0), x.dtype.type(-1)))
    value = np.minimum(2 / root * np.exp(-near * near) * total, 1)
    return np.asarray(np.copysign(value, x))


def _terms(left: Labelled, right: Labelled) -> int:
    """How many products two arrays have, before they are summed."""
    lengths = dict(zip(left.labels, left.data.shape, strict=True)) | dict(
        zip(right.labels, right.data.shape, strict=True)
    )
    return math.prod(lengths.values())


def _effective(array: Labelled) -> Host:
    """Exponents, with the lowest of all where a number is 0."""
    if array.exponent is None:
        return np.where(array.data == 0, LOWEST, 0)
    return np.where(array.data == 0, LOWEST, array.exponent)


def _plain_zero(exponent: Host) -> Host:
    return np.where(exponent == LOWEST, 0, exponent)


def _shift(exponent: Host) -> Host:
    """Exponents as ldexp takes them; what lies beyond every range stays beyond it."""
    return np.clip(exponent, -40000, 40000).astype(np.int32)


def _places(array: Labelled, labels: Labels) -> list[int]:
    return [array.labels.index(label) for label in labels]
