"""The numeric layer: generated kernels, and the code that runs and checks them.

Importing it loads nothing heavy; ``load`` and what comes with it load NumPy when they are first used, and
running a kernel loads no SymPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from numeric.errors import BackendError, InputError, NumericError, UnknownProgramError

if TYPE_CHECKING:
    from numeric.kernels import Kernel, Result, load, programs

__all__ = [
    "BackendError",
    "InputError",
    "Kernel",
    "NumericError",
    "Result",
    "UnknownProgramError",
    "load",
    "programs",
]


def __getattr__(name: str) -> Any:
    if name in ("Kernel", "Result", "load", "programs"):
        return getattr(importlib.import_module("numeric.kernels"), name)
    raise AttributeError(f"module 'numeric' has no attribute {name!r}")
