"""Terms of proofs in numbers: an evaluator of the checker's JSON that shares nothing with its normal forms."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

Data = Mapping[str, Any]
STEP = 1e-6


@dataclass
class World:
    """Sizes, numbers and the definitions of a statement; entries that nothing defines are drawn where they are met."""

    data: Data
    chance: random.Random
    known: dict[Any, float] = field(default_factory=dict)
    moved: dict[Any, float] = field(default_factory=dict)

    def size(self, term: Any) -> int:
        """A size; every letter has one of its own."""
        return round(self.value(term, {}))

    def value(self, term: Any, at: Mapping[str, int]) -> float:
        """The number that a term is at some positions."""
        if isinstance(term, (int, str)):
            return float(Fraction(term))
        head, *args = term
        if head == "var":
            return at[args[0]]
        if head in ("size", "int", "real"):
            return self._drawn((head, args[0]))
        if head == "at":
            return self._entry(args[0], tuple(round(self.value(a, at)) for a in args[1:]))
        if head == "sum":
            names, sizes = [x for x, _ in args[0]], [range(self.size(n)) for _, n in args[0]]
            return math.fsum(
                self.value(args[1], {**at, **dict(zip(names, place, strict=True))}) for place in product(*sizes)
            )
        if head == "if":
            relation, left, right = args[0][0], *(self.value(a, at) for a in args[0][1:])
            return float({"<=": left <= right, "<": left < right, "==": left == right}[relation])
        if head == "d":
            return self._slope(args[0], args[1], at)
        values = [self.value(a, at) for a in args]
        return _power(values[0], Fraction(args[1])) if head == "^" else float(_FUNCTIONS[head](*values))

    def _drawn(self, key: Any) -> float:
        if key not in self.known:
            whole = {"size": (2, 4), "int": (-3, 4)}.get(key[0])
            self.known[key] = self.chance.randint(*whole) if whole else self.chance.uniform(0.3, 2)
        return self.known[key]

    def _entry(self, tensor: str, place: tuple[int, ...]) -> float:
        key = "at", tensor, place
        if key in self.moved:
            return self.moved[key]
        definition = next((d for d in self.data["definitions"] if d["tensor"] == tensor), None)
        ends = [self.size(n) for _, n in definition["for"]] if definition else []
        if definition and all(0 <= k < n for k, n in zip(place, ends, strict=True)):
            return self.value(definition["value"], dict(zip((x for x, _ in definition["for"]), place, strict=True)))
        kind = self.data["tensors"].get(tensor, "real")
        if kind == "real":
            return self._drawn(key)
        if key not in self.known:
            self.known[key] = 1 if kind == "boolean" and not place[-1] else self.chance.randint(0, 1)
        return self.known[key]

    def _slope(self, of: Any, by: Any, at: Mapping[str, int]) -> float:
        """A derivative by central differences; the entry moves, also where it is defined."""
        key = "at", by[1], tuple(round(self.value(a, at)) for a in by[2:])
        here = self._entry(by[1], key[2])
        before, self.moved = self.moved, {}
        values = []
        for step in (STEP, -STEP):
            self.moved = {**before, key: here + step}
            values.append(self.value(of, at))
        self.moved = before
        return (values[0] - values[1]) / (2 * STEP)


def _power(base: float, exponent: Fraction) -> float:
    if exponent.denominator != 1 and base < 0:
        return 0.0
    return float(base**exponent) if base else float(exponent == 0)


def _log(x: float) -> float:
    return math.log(abs(x)) if x else 0.0


_FUNCTIONS: Mapping[str, Any] = {
    "+": lambda *terms: math.fsum(terms),
    "*": lambda *factors: math.prod(factors),
    "delta": lambda one, two: float(one == two),
    "exp": math.exp,
    "log": _log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "floor": math.floor,
    "ceiling": math.ceil,
    "sign": lambda x: (x > 0) - (x < 0),
    "Mod": lambda one, two: one % two if two else 0,
    "power": lambda one, two: float(one**two) if one > 0 else 0.0,
}
