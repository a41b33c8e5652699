"""What derivations remember: results of pure functions, which programs that are much alike share."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, ParamSpec, TypeVar, cast

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_MEMORIES: list[_lru_cache_wrapper[Any]] = []


def remembered(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function with its last few thousand results kept."""
    memory = lru_cache(maxsize=4096)(function)
    _MEMORIES.append(memory)
    return cast(Callable[Parameters, Result], memory)


def forget() -> None:
    """Forget every result: what is measured afterwards starts cold."""
    for memory in _MEMORIES:
        memory.cache_clear()
