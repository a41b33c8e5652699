"""Numbers with tangents: an exact value, and how it moves along several directions at once.

Two uses. Along one given direction they are dual numbers (forward mode). Along random directions they are the device
that measures conditioning: wherever a rounding may occur, each direction gets a random perturbation of the size of that
rounding, and what arrives at a result, in the forward evaluation and in the chain rule after it, is one sample of the
error that such roundings cause, to first order (:class:`Roundings`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from numeric.oracle.floats import Floats
from numeric.oracle.functions import STEPS, derivative, evaluated
from numeric.oracle.labelled import (
    Host,
    Label,
    Labelled,
    Labels,
    Mask,
    Places,
    Sizes,
    arranged,
    counted,
    union,
)
from numeric.oracle.numbers import Kind, Plain, contracted
from numeric.oracle.rounding import Amounts

DIRECTION = "direction"
"""The label of tangents that counts directions."""

ACCUMULATED = 0.5
"""κ: k terms that are added one after another in the worst correct order lose about κ·√k·u of their root mean square
and of their sum: roundings are uniform within ±u, of partial sums that grow. Measured: 0.25 at most."""

STORED = ("value", "operand")
"""Where small numbers may lose digits to subnormal ones: what has a name. An exponential is stored less the largest of
its row, so that its own size says nothing."""

NEAR = 4.0
"""How many standard deviations from a kink rounding may still decide on the other side of it."""

SURE = 2.0
"""By how much more than the jump a slope is blurred near a kink, in units of error."""


@dataclass(frozen=True)
class Roundings:
    """Random perturbations of the size of roundings; ``scale`` is c, by which results measure standard deviations."""

    amounts: Amounts
    rng: np.random.Generator
    count: int
    scale: float

    def signs(self, shape: tuple[int, ...]) -> Host:
        """±1 at random for every direction and entry: no entry's perturbation is small by chance."""
        wanted = self.count * math.prod(shape)
        bits = np.unpackbits(np.frombuffer(self.rng.bytes((wanted + 7) // 8), dtype=np.uint8))[:wanted]
        return bits.reshape((self.count, *shape)).astype(np.int8) * 2 - 1


@dataclass(frozen=True)
class Jet:
    """A value and its tangents, labelled by directions first; None where it does not move."""

    value: Labelled
    tangents: Labelled | None
    light: list[Labelled] = field(default_factory=list, compare=False, repr=False)

    @property
    def labels(self) -> Labels:
        """The labels of the value; tangents may lack some."""
        return self.value.labels


class Jets(Kind):
    """Numbers of one kind with tangents of another: of the same, or of a faster one where digits do not matter."""

    def __init__(self, base: Plain, moving: Plain, roundings: Roundings | None = None) -> None:
        self.base, self.moving, self.roundings = base, moving, roundings

    def _light(self, jet: Jet) -> Labelled:
        """The value as the kind of numbers that tangents are."""
        if not jet.light:
            same = self.base is self.moving
            jet.light.append(jet.value if same else lightened(self.base, self.moving, jet.value))
        return jet.light[0]

    def given(self, data: Host, labels: Labels) -> Jet:
        """Exact numbers, which do not move."""
        return Jet(self.base.given(data, labels), None)

    def along(self, data: Host, labels: Labels, tangents: Host) -> Jet:
        """Exact numbers that move at given rates, in one direction."""
        return Jet(self.base.given(data, labels), self.moving.given(tangents[None], (DIRECTION, *labels)))

    def rational(self, value: Fraction) -> Jet:
        """An exact number."""
        return Jet(self.base.rational(value), None)

    def pi(self) -> Jet:
        """π."""
        return Jet(self.base.pi(), None)

    def add(self, parts: Sequence[Jet]) -> Jet:
        """The sum, blurred as one of so many terms."""
        result = self.chosen(parts)
        if self.roundings is None or len(parts) < 2:
            return result
        squares = self.moving.add([self._square(part) for part in parts])
        return self._accumulated(result, squares, Labelled(np.asarray(float(len(parts))), ()))

    def chosen(self, parts: Sequence[Jet]) -> Jet:
        """The sum without a rounding."""
        moved = [part.tangents for part in parts if part.tangents is not None]
        return Jet(self.base.add([part.value for part in parts]), self.moving.add(moved) if moved else None)

    def multiply(self, parts: Sequence[Jet]) -> Jet:
        """The product rule, without a rounding."""
        result = parts[0]
        for part in parts[1:]:
            result = self.pair(result, part, ())
        return result

    def pair(self, left: Jet, right: Jet, over: Collection[Label]) -> Jet:
        """The product rule for a product that is summed over labels of both."""
        moved = []
        if left.tangents is not None:
            moved.append(self.moving.pair(left.tangents, self._light(right), over))
        if right.tangents is not None:
            moved.append(self.moving.pair(right.tangents, self._light(left), over))
        value = self.base.pair(left.value, right.value, over)
        return Jet(value, self.moving.add(moved) if moved else None)

    def total(self, jet: Jet, over: Collection[Label]) -> Jet:
        """The sum over labels of an array, without a rounding."""
        value = self.base.total(jet.value, over)
        return Jet(value, None if jet.tangents is None else self.moving.total(jet.tangents, over))

    def contract(
        self, parts: Sequence[Jet], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None] = ()
    ) -> Jet:
        """A product that is summed over labels, blurred as a sum of as many terms as there are."""
        full = [self._full(part, sizes) for part in parts]
        result: Jet = contracted(self, full, over, sizes)
        if self.roundings is None or not over:
            return result
        squares = self.moving.contract([self._square(part) for part in parts], over, sizes)
        blurred = self._accumulated(result, squares, counted(hidden, over, sizes))
        return self.rounded(blurred, "total")

    def _full(self, jet: Jet, sizes: Sizes) -> Jet:
        """A jet whose tangents have all labels of its value."""
        tangents = jet.tangents
        if tangents is None or set(jet.labels) <= set(tangents.labels):
            return jet
        labels = (DIRECTION, *jet.labels)
        own = dict(zip(tangents.labels, tangents.data.shape, strict=True))
        shape = tuple(own.get(label, sizes.get(label, 1)) for label in labels)
        spread = tangents.each(lambda d: np.broadcast_to(arranged(d, tangents.labels, labels), shape), labels)
        return Jet(jet.value, spread, jet.light)

    def contract_shown(
        self, parts: Sequence[Jet], over: Collection[Label], sizes: Sizes, hidden: Sequence[Mask | None]
    ) -> Jet:
        """Values term by term; tangents as if what is infinite or no number were 0."""
        value = self.base.contract_shown([part.value for part in parts], over, sizes, hidden)
        finite = [part if (bad := self.unfinite(part)) is None else self.masked(part, bad) for part in parts]
        masks = [self.given(~mask.data, mask.labels) for mask in hidden if mask is not None]
        return Jet(value, self.contract([*finite, *masks], over, sizes, hidden).tangents)

    def masked(self, jet: Jet, hidden: Mask) -> Jet:
        """0 where a mask hides, and at rest."""
        tangents = None if jet.tangents is None else self.moving.masked(jet.tangents, hidden)
        return Jet(self.base.masked(jet.value, hidden), tangents)

    def renamed(self, jet: Jet, names: Mapping[Label, Label]) -> Jet:
        """The same under other labels."""
        tangents = None if jet.tangents is None else jet.tangents.renamed(names)
        return Jet(jet.value.renamed(names), tangents, [part.renamed(names) for part in jet.light])

    def gathered(self, jet: Jet, places: Places) -> Jet:
        """The entries at computed places."""
        tangents = None if jet.tangents is None else self.moving.gathered(jet.tangents, _with_directions(places, jet))
        return Jet(self.base.gathered(jet.value, places), tangents)

    def scattered(self, jet: Jet, places: Places, labels: Labels) -> Jet:
        """Entries added up at computed places, blurred by how many there are at each."""
        value = self.base.scattered(jet.value, places, labels)
        full, tangents = self._full(jet, places.sizes).tangents, None
        if full is not None:
            tangents = self.moving.scattered(full, _with_directions(places, jet), labels)
        result = Jet(value, tangents)
        if self.roundings is None:
            return result
        squares = self.moving.scattered(self._square(jet), places, labels)
        ones = self.moving.given(np.ones(()), ())
        return self._accumulated(result, squares, self.moving.scattered(ones, places, labels))

    def function(self, function: type, jet: Jet, largest: Labelled | None = None) -> Jet:
        """The chain rule, and a rounding of the value; an exponential's argument is rounded less ``largest`` too.

        What jumps does not move.
        """
        value = self.base.function(function, jet.value)
        result = Jet(value, None)
        if jet.tangents is not None and function not in STEPS:
            light = self._light(jet)
            slope = self._light(result) if function is sp.exp else self._slope(function, light)
            result = Jet(value, self._sloped(jet.tangents, slope), result.light)
        if self.roundings is None or largest is None:
            return self.rounded(result, "function")
        below = self.moving.add([self._light(jet), self.moving.multiply([largest, self.moving.rational(Fraction(-1))])])
        far = np.where(np.isfinite(below.data), np.abs(below.data), 0)
        size, least = self.roundings.amounts.sizes["function"], self.roundings.amounts.least
        result = self._perturbed(result, size, Labelled(1 + far, below.labels))
        if size == 1 or not least:
            return result
        smallest = self.moving.multiply(
            [self.moving.function(sp.exp, largest), self.moving.given(np.asarray(least), ())]
        )
        return self._moved_by(result, self._spread_over(smallest, result))

    def _spread_over(self, amount: Labelled, jet: Jet) -> Labelled:
        """An amount at every entry of a value that is not 0."""
        there = self.moving.given(np.asarray(self.base.compared(jet.value) != 0), jet.labels)
        return self.moving.multiply([there, amount])

    def _slope(self, function: type, light: Labelled) -> Labelled:
        symbols, expression = derivative(function, 1)
        slope: Labelled = evaluated(expression, {symbols[0]: light}, self.moving)
        return slope

    def _sloped(self, tangents: Labelled, slope: Labelled) -> Labelled:
        """Tangents times slopes; what has no finite slope does not move."""
        bad = self.moving.unfinite(slope)
        moved = self.moving.multiply([tangents, slope if bad is None else self.moving.masked(slope, bad)])
        return moved if bad is None else self.moving.masked(moved, bad)

    def declared(self, function: type, arrays: Sequence[Jet]) -> Jet:
        """The chain rule with the slopes that a function declares, and a rounding of the value."""
        value = self.base.declared(function, [jet.value for jet in arrays])
        moved = []
        for place, jet in enumerate(arrays):
            if jet.tangents is not None:
                symbols, slope = derivative(function, len(arrays), place)
                given = dict(zip(symbols, map(self._light, arrays), strict=True))
                moved.append(self._sloped(jet.tangents, evaluated(slope, given, self.moving)))
        return self.rounded(Jet(value, self.moving.add(moved) if moved else None), "function")

    def power(self, jet: Jet, exponent: Fraction) -> Jet:
        """The power rule, and a rounding of the value."""
        tangents = None
        if jet.tangents is not None:
            slope = self.moving.power(self._light(jet), exponent - 1)
            slope = self.moving.multiply([slope, self.moving.rational(exponent)])
            tangents = self._sloped(jet.tangents, slope)
        return self.rounded(Jet(self.base.power(jet.value, exponent), tangents), "function")

    def raised(self, jet: Jet, exponent: Jet) -> Jet:
        """A positive number to the power of exact ones."""
        value = self.base.raised(jet.value, exponent.value)
        tangents = None
        if jet.tangents is not None:
            inverse = self.moving.power(self._light(jet), Fraction(-1))
            light = self._light(Jet(value, None))
            tangents = self._sloped(jet.tangents, self.moving.multiply([light, self._light(exponent), inverse]))
        return self.rounded(Jet(value, tangents), "function")

    def unfinite(self, jet: Jet) -> Mask | None:
        """Where values are infinite or no numbers."""
        return self.base.unfinite(jet.value)

    def compared(self, jet: Jet) -> Host:
        """The values."""
        return self.base.compared(jet.value)

    def rounded(self, jet: Jet, place: str) -> Jet:
        """A value with the perturbations that a rounding at such a place makes."""
        if self.roundings is None or not self.roundings.amounts.sizes[place]:
            return jet
        return self._perturbed(jet, self.roundings.amounts.sizes[place], stored=place in STORED)

    def _perturbed(self, jet: Jet, size: float, further: Labelled | None = None, *, stored: bool = False) -> Jet:
        """Perturbations of a relative size, with a factor of its own at each entry if it is given."""
        amount = self.moving.power(self._square(jet), Fraction(1, 2))
        if further is not None:
            amount = self.moving.multiply([amount, further])
        assert self.roundings is not None
        if stored and size > 1 and self.roundings.amounts.least:
            least = np.where(amount.data == 0, 0, self.roundings.amounts.least / size)  # an exact 0 is stored as it is
            amount = Labelled(np.maximum(amount.data, least), amount.labels)
        return self._moved_by(jet, self.moving.multiply([amount, self.moving.rational(Fraction(size))]))

    def _moved_by(self, jet: Jet, amount: Labelled) -> Jet:
        """Further random tangents of a given size at each entry."""
        assert self.roundings is not None
        signs, labels = self.roundings.signs(amount.data.shape), (DIRECTION, *amount.labels)
        moved = np.multiply(signs, amount.data, dtype=float)
        tangents = jet.tangents
        if tangents is None:
            return Jet(jet.value, Labelled(moved, labels, _repeated(amount.exponent, len(signs))), jet.light)
        if amount.exponent is None and tangents.exponent is None and set(tangents.labels) <= set(labels):
            moved += arranged(tangents.data, tangents.labels, labels)
            return Jet(jet.value, Labelled(moved, labels), jet.light)
        random = Labelled(moved, labels, _repeated(amount.exponent, len(signs)))
        return Jet(jet.value, self.moving.add([tangents, random]), jet.light)

    def _square(self, jet: Jet) -> Labelled:
        """The mean square of a value as it is perturbed: what is rounded is the perturbed number, not the exact one.

        It matters where rounding leaves nothing of a number: a product with it is then as large as the rounding.
        """
        light = self._light(jet)
        square = self.moving.multiply([light, light])
        if jet.tangents is not None and self.roundings is not None:
            unit = self.moving.given(np.asarray(self.roundings.amounts.unit**2), ())
            moved = self.moving.multiply([mean_square(self.moving, jet.tangents), unit])
            square = self.moving.add([square, moved])
        bad = self.moving.unfinite(square)
        return square if bad is None else self.moving.masked(square, bad)

    def _accumulated(self, result: Jet, squares: Labelled, terms: Labelled) -> Jet:
        """A sum with what its accumulation may lose: κ·√k·√(Σt² + (Σt)²), k being the number of terms."""
        size = self.moving.power(self.moving.add([squares, self._square(result)]), Fraction(1, 2))
        root = Labelled(ACCUMULATED * np.sqrt(terms.data), terms.labels)
        return self._moved_by(result, self.moving.multiply([size, root]))

    def unsure(self, jet: Jet, gap: Jet, size: float) -> Jet:
        """A slope that jumps where a gap is 0: blurred where the gap is not, but within what rounding decides."""
        if self.roundings is None or gap.tangents is None:
            return jet
        labels = union((DIRECTION,), gap.labels)
        moved = arranged(self.moving.compared(gap.tangents), gap.tangents.labels, labels)
        spread = NEAR * self.roundings.amounts.unit * np.sqrt(np.mean(np.square(moved), axis=0))
        distance = np.abs(np.asarray(self._light(gap).data, dtype=float))
        near = (distance > 0) & (distance < spread)
        if not near.any():
            return jet
        jump = SURE * size / (self.roundings.scale * self.roundings.amounts.unit)
        return self._moved_by(jet, Labelled(np.where(near, jump, 0.0), gap.labels))


def _with_directions(places: Places, jet: Jet) -> Places:
    """Places in tangents, which have directions beside."""
    if jet.tangents is None or DIRECTION not in jet.tangents.labels:
        return places
    count = jet.tangents.data.shape[jet.tangents.labels.index(DIRECTION)]
    return Places(places.index, {**places.sizes, DIRECTION: count})


def mean_square(kind: Plain, tangents: Labelled) -> Labelled:
    """The mean of the squares of tangents over their directions."""
    labels = tuple(label for label in tangents.labels if label != DIRECTION)
    count = tangents.data.shape[tangents.labels.index(DIRECTION)]
    if tangents.exponent is None:
        data = arranged(tangents.data, tangents.labels, (DIRECTION, *labels))
        return Labelled(np.asarray(np.einsum("k...,k...->...", data, data) / count), labels)
    return kind.multiply(
        [kind.total(kind.multiply([tangents, tangents]), [DIRECTION]), kind.rational(Fraction(1, count))]
    )


def _repeated(exponent: Host | None, count: int) -> Host | None:
    return None if exponent is None else np.broadcast_to(exponent, (count, *exponent.shape))


def lightened(base: Any, moving: Any, array: Labelled) -> Labelled:
    """Values of one kind as the floats that tangents are: of long doubles, of decimals, of the middles of balls."""
    if isinstance(base, Floats):
        return moving.light(array)  # type: ignore[no-any-return]
    parts: Callable[[Any], Any] = base.context.frexp
    data, exponent = np.empty(array.data.shape), np.empty(array.data.shape, dtype=np.int64)
    for at in np.ndindex(*array.data.shape):
        x = array.data[at]
        data[at], exponent[at] = map(_python, parts(x)) if base.is_finite(x) else (float(x), 0)
    return moving.ranged(Labelled(data, array.labels, exponent))  # type: ignore[no-any-return]


def _python(part: Any) -> Any:
    return int(part) if isinstance(part, int) else float(part)
