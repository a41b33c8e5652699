"""Parameters away from their defaults: numbers on both sides of whatever a program compares them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derive.forward.program import Parameter


def away(parameters: Sequence[Parameter], sizes: Mapping[str, int], turn: int = 0) -> dict[str, Any]:
    """A value other than the default for every parameter; another combination each turn."""
    chosen: dict[str, Any] = {}
    for k, parameter in enumerate(parameters):
        tried = candidates(parameter, sizes, k)
        if tried:
            chosen[parameter.name] = tried[(turn + k) % len(tried)]
    return chosen


def turns(parameters: Sequence[Parameter], sizes: Mapping[str, int]) -> int:
    """How many turns it takes until each parameter has had each of its values."""
    return max((len(candidates(p, sizes, k)) for k, p in enumerate(parameters)), default=0)


def candidates(parameter: Parameter, sizes: Mapping[str, int], number: int = 0) -> list[Any]:
    """The values that a parameter is given besides its default.

    What counts positions: one more and one less than the default, none, half and more than all of the longest size, and
    as many the other way. What measures: a number between 0 and 1, since many must lie there, then less and more than
    the default.
    """
    default = parameter.default.xreplace({s: max(sizes[str(s)], 1) for s in parameter.default.free_symbols})
    if parameter.symbol.is_integer:
        own, longest = int(default), max(sizes.values(), default=1)
        counted = dict.fromkeys((own + 1, own - 1, 0, longest // 2, longest + 2, -1, -longest - 2))
        least = parameter.least
        return [n for n in counted if n != own and (least is None or n >= least)]
    own_value = float(default)
    measured = (0.6 + 0.3 / (number + 1), 0.37 * own_value or 0.23, 2.3 * own_value or -0.4)
    return [x for x in measured if x != own_value]
