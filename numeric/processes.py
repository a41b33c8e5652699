"""Work dealt out to several processes, as many as there are cores; results come in the order of what was asked."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def results(task: Callable[[Item], Result], items: Sequence[Item], jobs: int = 0) -> Iterator[Result]:
    """What a task gives for each item, by ``jobs`` processes (0 for one a core); by this one, if one is enough.

    The task is a function of a module, and items and results can be pickled.
    """
    jobs = min(jobs or cores(), len(items))
    if jobs <= 1:
        yield from map(task, items)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(task, items)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
