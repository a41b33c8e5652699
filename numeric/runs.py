"""Running a kernel once on a device, with everything handed back on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from numeric.backends import Backend
from numeric.kernels import Kernel
from numeric.signature import Array

Host = np.ndarray[Any, Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Run:
    """One forward and backward call, with everything on the host as NumPy arrays."""

    inputs: Arrays
    cotangents: Arrays
    outputs: Arrays
    gradients: Arrays
    parameters: Mapping[str, Any]


def run(kernel: Kernel, device: Backend, inputs: Arrays, cotangents: Any, parameters: Mapping[str, Any]) -> Run:
    """Run a kernel on a device. ``cotangents`` is a dictionary, or a function from the result to one."""
    moved = {n: device.xp.asarray(a) for n, a in inputs.items()}
    result = kernel.forward(**moved, **parameters)
    host_cotangents = cotangents(result) if callable(cotangents) else cotangents
    arriving = {n: device.xp.asarray(a) for n, a in host_cotangents.items()}
    gradients = kernel.backward(result, arriving) if kernel.signature.gradients else {}
    outputs, gradients = ({n: on_host(a) for n, a in d.items()} for d in (result.outputs, gradients))
    return Run(inputs, host_cotangents, outputs, gradients, parameters)


def on_host(array: Array) -> Host:
    """The array as a NumPy array."""
    host: Host = array.get() if hasattr(array, "get") else np.asarray(array)
    return host
