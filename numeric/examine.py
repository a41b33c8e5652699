"""Every property asked of anyone's kernel: two functions on arrays, held against a program's definitions.

>>> import numpy as np
>>> from numeric.examine import examine
>>> def forward(X, weight, shift, eps=1e-5):
...     centred = X - X.mean(-1, keepdims=True)
...     return {"Y": centred / np.sqrt(centred.var(-1, keepdims=True) + eps) * weight + shift}
>>> def backward(cotangents, X, weight, shift, eps=1e-5):
...     centred, dY = X - X.mean(-1, keepdims=True), cotangents["Y"]
...     rstd = 1 / np.sqrt(centred.var(-1, keepdims=True) + eps)
...     n, g = centred * rstd, dY * weight
...     dX = rstd * (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True))
...     return {"X": dX, "weight": (dY * n).sum(-2), "shift": dY.sum(-2)}
>>> found = examine(forward, backward, "layer_norm")
>>> all(finding.status == "holds" for finding in found)
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from derive.forward.program import Program
from numeric.arguments import Arguments, check, split
from numeric.backends import Backend, backend
from numeric.errors import InputError
from numeric.findings import Finding, measured
from numeric.kernels import Kernel, Result
from numeric.oracle import DEFAULT, MODELS, definitions_of
from numeric.oracle.calls import signature_of
from numeric.properties_attention import properties_for
from numeric.samples import Sample, on_host

Forward = Callable[..., Any]
Backward = Callable[..., Any]


class Foreign(Kernel):
    """Someone else's kernel as one of ours: a pair of functions, checked like a generated module.

    source: the program that it computes. rounding: the rounding model that it is asked for.
    """

    def __init__(self, forward: Forward, backward: Backward | None, source: Program, rounding: str = DEFAULT) -> None:
        self.program, self.source, self.rounding = source.name, source, rounding
        self._fixed: Backend | None = backend("numpy")
        self.signature = signature_of(source)
        if backward is None:
            self.signature = replace(self.signature, gradients=())
        self._forward, self._backward = forward, backward

    def forward(self, **inputs: Any) -> Result:
        """Run the forward function.

        Raises
        ------
        InputError: it does not return the program's outputs.
        """
        tensors, parameters = split(self.signature, inputs)
        arguments = check(self.signature, tensors, parameters)
        returned = self._forward(**tensors, **arguments.parameters)
        outputs = self._named(returned, [o.name for o in self.signature.outputs], "forward", "outputs")
        return Result(self.program, outputs, {}, backend("numpy"), arguments)

    def backward(self, result: Result, cotangents: Mapping[str, Any]) -> dict[str, Any]:
        """Run the backward function on the cotangents of all outputs: 0 for those that have none.

        Raises
        ------
        InputError: it does not return a gradient for every differentiable input that was given.
        """
        assert self._backward is not None
        arriving = {n: cotangents.get(n, np.zeros_like(a)) for n, a in result.outputs.items()}
        given: Arguments = result.arguments
        returned = self._backward(arriving, **given.tensors, **given.parameters)
        names = [n for n in self.signature.gradients if n in given.tensors]
        return self._named(returned, names, "backward", "gradients")

    def _named(self, returned: Any, names: Sequence[str], function: str, what: str) -> dict[str, Any]:
        """What a function returned, by name: a dictionary, a tuple in the program's order, or one array."""
        if not isinstance(returned, Mapping):
            several = returned if isinstance(returned, (tuple, list)) else (returned,)
            if len(several) != len(names):
                raise InputError(
                    f"{self.program}: {function} returned {len(several)} arrays; expected the {what} "
                    f"{', '.join(names)}, as a tuple in this order or a dictionary"
                )
            returned = dict(zip(names, several, strict=True))
        missing = [name for name in names if name not in returned]
        if missing:
            raise InputError(f"{self.program}: {function} returned no {', '.join(missing)} among its {what}")
        return {name: np.asarray(on_host(returned[name])) for name in names}


def examine(
    forward: Forward,
    backward: Backward | None,
    program: Program | str,
    *,
    samples: Sequence[Sample] | None = None,
    rounding: str = DEFAULT,
    dtypes: Sequence[str] = ("float32",),
) -> list[Finding]:
    """Hold a kernel against everything that its program must keep.

    Parameters
    ----------
    forward: ``forward(**inputs)`` on NumPy arrays, with parameters by name too; gives outputs by name, or a tuple in
        the program's order. An optional input that it does not take is not given, and an output that a dictionary
        lacks is not asked for.
    backward: ``backward(cotangents, **inputs)``; gives gradients by the names of inputs, or a tuple in their order.
        ``cotangents`` is a dictionary with one for every output. None: only outputs are asked for.
    program: a program or its name.
    samples: what to run; by default small sizes, and rows of 300, in each of the ``dtypes``, without leading axes: give
        samples with some to a kernel that takes them for every input.
    rounding: what the kernel may round: "exact dtype", "float32 inside" or "FlashAttention"
        (:data:`numeric.oracle.MODELS`).

    Returns
    -------
    A finding for each property: whether it holds, the worst error in units of what rounding may cause, and where.
    """
    if rounding not in MODELS:
        raise InputError(f"there is no rounding model {rounding!r}; there are {', '.join(MODELS)}")
    source = definitions_of(program)
    if not _takes(forward, "anything at all"):
        source = source.without(*(name for name in source.optional if not _takes(forward, name)))
    chosen = list(samples) if samples is not None else _samples(source, dtypes)
    source = _returning(forward, source, chosen[0])
    kernel, device = Foreign(forward, backward, source, rounding), _numpy()
    return [measured(kernel, device, p.name, "checked", p.body, chosen) for p in properties_for(kernel)]


def _numpy() -> Backend:
    return backend("numpy")


def _takes(function: Forward, name: str) -> bool:
    """Whether a function has a parameter of that name, or takes any."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _returning(forward: Forward, source: Program, sample: Sample) -> Program:
    """The program with the outputs that a dictionary names."""
    returned = forward(**sample.inputs(signature_of(source)), **sample.parameters)
    if not isinstance(returned, Mapping):
        return source
    names = [o.name for o in source.outputs if o.name in returned]
    if not names:
        raise InputError(f"{source.name}: forward returned {', '.join(map(str, returned))}, none of the outputs")
    return source if len(names) == len(source.outputs) else source.returning(*names)


def _samples(source: Program, dtypes: Sequence[str]) -> list[Sample]:
    """Small sizes that are pairwise distinct, with and without optional inputs; then long rows."""
    names = signature_of(source).sizes
    found = []
    for dtype in dtypes:
        for seed in range(3):
            sizes = {name: 3 + (seed + 2 * k) % (len(names) + 2) for k, name in enumerate(names)}
            given = tuple(source.optional) if seed == 1 else ()
            found.append(Sample(source.name, sizes, (), dtype, seed, given))
        if 1 < len(names) <= 5:
            for longest in names[:3]:
                sizes = {name: 300 if name == longest else 5 + k for k, name in enumerate(names)}
                found.append(Sample(source.name, sizes, (), dtype, 7))
    return found
