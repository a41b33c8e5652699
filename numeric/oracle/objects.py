"""Numbers that are objects: decimals in many digits, and balls with rigorous radii."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from derive.errors import AlgebraError
from numeric.oracle.labelled import Host, Labelled, Labels, Mask, kept
from numeric.oracle.numbers import Plain


class Objects(Plain):
    """Arrays of Python objects; what a kind of object can do is said once, for one of them."""

    dtype = np.dtype(object)

    def number(self, value: Any) -> Any:
        """The object of an exact number: int, float or fraction."""
        raise NotImplementedError

    def one_function(self, function: type, x: Any) -> Any:
        """A function at one number."""
        raise NotImplementedError

    def one_power(self, x: Any, exponent: Fraction) -> Any:
        """A rational power of one number."""
        raise NotImplementedError

    def is_finite(self, x: Any) -> bool:
        """Whether a number is neither infinite nor undefined."""
        raise NotImplementedError

    def given(self, data: Host, labels: Labels) -> Labelled:
        """Exact numbers of any dtype as objects."""
        return Labelled(self._each(lambda entry: self.number(_exact(entry)), np.asarray(data)), labels)

    def rational(self, value: Fraction) -> Labelled:
        """An exact number."""
        return Labelled(self.array(self.number(value)), ())

    def function(self, function: type, array: Labelled, largest: Labelled | None = None) -> Labelled:
        """A function at every entry."""
        return Labelled(self._each(lambda x: self.one_function(function, x), array.data), array.labels)

    def power(self, array: Labelled, exponent: Fraction) -> Labelled:
        """A rational power of every entry."""
        return Labelled(self._each(lambda x: self.one_power(x, exponent), array.data), array.labels)

    def raised(self, array: Labelled, exponent: Labelled) -> Labelled:
        """A positive number to the power of others."""
        return self.function(sp.exp, self.multiply([exponent, self.function(sp.log, array)]))

    def unfinite(self, array: Labelled) -> Mask | None:
        """Where entries are infinite or undefined."""
        found = self._each(lambda x: not self.is_finite(x), array.data)
        return kept(Mask(found.astype(bool), array.labels))

    def compared(self, array: Labelled) -> Host:
        """The objects themselves."""
        return array.data

    def _each(self, change: Callable[[Any], Any], data: Host) -> Host:
        result = np.empty(data.shape, dtype=object)
        for at in np.ndindex(*data.shape):
            result[at] = change(data[at])
        return result


def _exact(entry: Any) -> Any:
    if isinstance(entry, (bool, np.bool_, int, np.integer)):
        return int(entry)
    return float(entry)


class Digits(Objects):
    """Decimals with many digits (mpmath)."""

    def __init__(self, digits: int = 50) -> None:
        self.context = mpmath.mp.clone()
        self.context.dps = digits
        self.zero = self.context.mpf(0)

    def number(self, value: Any) -> Any:
        """A number, rounded to so many digits."""
        if isinstance(value, Fraction):
            return self.context.mpf(value.numerator) / value.denominator
        return self.context.mpf(value)

    def pi(self) -> Labelled:
        """π."""
        return Labelled(self.array(+self.context.pi), ())

    def one_function(self, function: type, x: Any) -> Any:
        """Mpmath's function of the same name; the limit −∞ for log 0, no number where it is not real."""
        if function is sp.log and x == 0:
            return self.context.mpf("-inf")
        if function is sp.Abs:
            return abs(x)
        known = getattr(self.context, {"ceiling": "ceil"}.get(function.__name__, function.__name__), None)
        if known is None:
            raise AlgebraError(f"mpmath has no function {function.__name__}")
        return self._real(known(x))

    def one_power(self, x: Any, exponent: Fraction) -> Any:
        """A power; 1/0 is infinite."""
        if x == 0 and exponent < 0:
            return self.context.mpf("inf")
        if exponent.denominator == 1:
            return x**exponent.numerator
        return self._real(self.context.power(x, self.number(exponent)))

    def _real(self, value: Any) -> Any:
        return self.context.mpf("nan") if isinstance(value, self.context.mpc) else value

    def is_finite(self, x: Any) -> bool:
        """Whether a number is finite."""
        return bool(self.context.isfinite(x))


class Balls(Objects):
    """Real numbers enclosed in balls with rigorous radii (Arb, through python-flint).

    Raises
    ------
    AlgebraError: python-flint is not installed.
    """

    def __init__(self, bits: int = 160) -> None:
        try:
            import flint
        except ImportError:
            raise AlgebraError("rigorous balls need python-flint; install it with: pip install python-flint") from None
        self.flint: Any = flint
        flint.ctx.prec = bits
        self.zero = flint.arb(0)

    def number(self, value: Any) -> Any:
        """A ball around an exact number; a float is exact."""
        if isinstance(value, Fraction):
            return self.flint.arb(self.flint.fmpq(value.numerator, value.denominator))
        return self.flint.arb(value)

    def pi(self) -> Labelled:
        """π."""
        return Labelled(self.array(self.flint.arb.pi()), ())

    def one_function(self, function: type, x: Any) -> Any:
        """Arb's function of the same name."""
        if function is sp.Abs:
            return abs(x)
        if function is sp.log and x == 0:
            return self.flint.arb("-inf")
        known = getattr(x, {"ceiling": "ceil"}.get(function.__name__, function.__name__), None)
        if known is None:
            raise AlgebraError(f"Arb has no function {function.__name__}")
        return known()

    def one_power(self, x: Any, exponent: Fraction) -> Any:
        """A rational power."""
        if exponent.denominator > 2:
            return x ** self.number(exponent)
        base = x.sqrt() if exponent.denominator == 2 else x
        raised = base ** abs(exponent.numerator)
        return 1 / raised if exponent < 0 else raised

    def is_finite(self, x: Any) -> bool:
        """Whether a ball is bounded."""
        return bool(x.is_finite())

    def compared(self, array: Labelled) -> Host:
        """The middles of balls: conditions are on inputs, which are exact."""
        return self._each(lambda x: float(x.mid()), array.data).astype(float)
