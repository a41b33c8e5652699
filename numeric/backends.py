"""Array backends: which one arrays belong to, and what each needs around a kernel."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from numeric.errors import BackendError, InputError
from numeric.signature import Array

NAMES = ("numpy", "cupy")

INSTALL_CUPY = "install it with: pip install 'backprove[gpu]'"


@dataclass(frozen=True)
class Backend:
    """An array namespace by name."""

    name: str
    xp: Any

    def quiet(self) -> contextlib.AbstractContextManager[object]:
        """Silence floating-point warnings: what a hidden entry holds may overflow, and log 0 = −∞ is an answer."""
        return np.errstate(all="ignore") if self.name == "numpy" else contextlib.nullcontext()


def backend(name: str) -> Backend:
    """The backend of that name, ready to run.

    Raises
    ------
    BackendError: the name is unknown, the package is missing, or it finds no device.
    """
    if name == "numpy":
        return Backend(name, np)
    if name == "cupy":
        reason = cupy_missing()
        if reason is not None:
            raise BackendError(f"backend 'cupy' cannot run here: {reason}")
        return Backend(name, importlib.import_module("cupy"))
    raise BackendError(f"there is no backend {name!r}; there are {', '.join(NAMES)}")


def cupy_missing() -> str | None:
    """Why CuPy cannot run on this machine, or None if it can."""
    try:
        cupy: ModuleType = importlib.import_module("cupy")
    except ImportError as error:
        return f"CuPy does not import ({error}); {INSTALL_CUPY}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy {cupy.__version__} finds no CUDA device ({error})"
    return None if count else f"CuPy {cupy.__version__} finds no CUDA device"


def backend_of(program: str, arrays: Mapping[str, Array]) -> Backend:
    """The backend that all the given arrays belong to."""
    owners = {name: _owner(program, name, array) for name, array in arrays.items()}
    if len(set(owners.values())) > 1:
        listed = ", ".join(f"{name} ({owner})" for name, owner in owners.items())
        raise InputError(f"{program}: the arrays belong to different backends: {listed}; move them all to one")
    return backend(next(iter(owners.values()), "numpy"))


def to_backend(target: Backend, program: str, name: str, array: Array) -> Array:
    """An array on a backend that was asked for by name; NumPy arrays are copied to the device."""
    owner = _owner(program, name, array)
    if owner == target.name:
        return array
    if target.name == "cupy":
        return target.xp.asarray(array)
    raise InputError(f"{program}: {name} is a CuPy array, but backend 'numpy' was asked for; pass {name}.get()")


def _owner(program: str, name: str, array: Array) -> str:
    if isinstance(array, (np.matrix, np.ma.MaskedArray)):
        raise InputError(f"{program}: {name} is a {type(array).__name__}; pass a plain array: numpy.asarray({name})")
    owner = type(array).__module__.partition(".")[0]
    if isinstance(array, (np.ndarray, np.generic)):
        return "numpy"
    if owner == "cupy":
        return "cupy"
    raise InputError(
        f"{program}: {name} is a {type(array).__module__}.{type(array).__name__}; "
        f"pass a NumPy or CuPy array, for instance numpy.asarray({name if name.isidentifier() else '…'})"
    )
