"""Square roots in a finite field: which was taken at a point, and of which it was seen that they are free.

The root of an element is the one that is a square itself, so roots multiply as those of positive numbers do, and
√(x²) is ±x by whether x is a square: a stand-in for the sign of x, right for half of all x. A difference that shows
for one sign alone is missed at every second point, however large the field is.

A radicand that has no root at some draw is no square of what was drawn, and no square times some of those before it,
which had roots at that draw. Then its root is free, as good as a new variable with an equation.
A radicand that has a root at every draw is taken to be a square, whose root has a sign that only points can tell.
"""

from __future__ import annotations

from derive.proof.arithmetic import UndefinedError


class NoRootError(UndefinedError):
    """An element of a field has no square root: its value, and which of the radicands at the point it is."""

    def __init__(self, radicand: int, place: int) -> None:
        super().__init__("this element of the field has no square root")
        self.radicand, self.place = radicand, place


class Roots:
    """The radicands at a point by their values, in the order in which their roots were asked for first."""

    def __init__(self) -> None:
        self.place: dict[int, int] = {}
        self.in_exponents: set[int] = set()
        self.free: set[int] = set()

    def note(self, radicand: int, *, exponent: bool) -> int:
        """The place of a radicand, new or known; ``exponent`` says that its root is taken among exponents too."""
        place = self.place.setdefault(radicand, len(self.place))
        if exponent:
            self.in_exponents.add(place)
        return place

    def forget(self, start: int) -> None:
        """Forget radicands from a place on: their draw is not used."""
        self.place = {radicand: place for radicand, place in self.place.items() if place < start}
        self.in_exponents = {place for place in self.in_exponents if place < start}
        self.free = {place for place in self.free if place < start}

    def counted(self, places: int) -> tuple[int, int]:
        """Of a set of places, as bits: how many roots are free, and how many have a sign that only points can tell."""
        free = signed = 0
        while places:
            lowest = places & -places
            place = lowest.bit_length() - 1
            weight = 2 if place in self.in_exponents else 1
            free, signed = (free + weight, signed) if place in self.free else (free, signed + weight)
            places ^= lowest
        return free, signed
