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
        self.free: set[int] = set()

    def note(self, radicand: int) -> int:
        """The place of a radicand, new or known."""
        return self.place.setdefault(radicand, len(self.place))

    def forget(self, start: int) -> None:
        """Forget radicands from a place on: their draw is not used."""
        self.place = {radicand: place for radicand, place in self.place.items() if place < start}
        self.free = {place for place in self.free if place < start}

    def used(self, radicand: int) -> int:
        """The use of a root as a bit; one to the left, its use in an exponent, where it is another root."""
        return 1 << 2 * self.place[radicand]

    def counted(self, uses: int) -> tuple[int, int]:
        """Of some uses, as bits: how many are of free roots, and how many have a sign that only points can tell."""
        free = sum((uses >> 2 * place & 3).bit_count() for place in self.free)
        return free, uses.bit_count() - free
