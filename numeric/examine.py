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
>>> [finding.property for finding in found if finding.status == "fails"]
[]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from derive.forward.program import Program
from numeric.arguments import Arguments, Shape, check, split
from numeric.backends import Backend, backend
from numeric.errors import InputError, KernelError
from numeric.findings import Finding, measured
from numeric.kernels import Kernel, Result
from numeric.oracle import DEFAULT, MODELS, definitions_of
from numeric.oracle.calls import signature_of
from numeric.properties import run_of
from numeric.properties_attention import properties_for
from numeric.runs import on_host
from numeric.samples import Sample, Takes, samples_of

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
        KernelError: it raises an exception, or an output has another shape.
        """
        tensors, parameters = split(self.signature, inputs)
        arguments = check(self.signature, tensors, parameters)
        returned = _run("forward", self._forward, **tensors, **arguments.parameters)
        shapes = {o.name: arguments.shape_of(o.axes) for o in self.signature.outputs}
        outputs = self._named(returned, shapes, "forward", "outputs")
        return Result(self.program, outputs, {}, backend("numpy"), arguments)

    def backward(self, result: Result, cotangents: Mapping[str, Any]) -> dict[str, Any]:
        """Run the backward function on the cotangents of all outputs: 0 for those that have none.

        Raises
        ------
        InputError: it does not return a gradient for every differentiable input that was given.
        KernelError: it raises an exception, or a gradient has not the shape of its input.
        """
        assert self._backward is not None
        arriving = {n: cotangents.get(n, np.zeros_like(a)) for n, a in result.outputs.items()}
        given: Arguments = result.arguments
        returned = _run("backward", self._backward, arriving, **given.tensors, **given.parameters)
        shapes = {n: tuple(given.tensors[n].shape) for n in self.signature.gradients if n in given.tensors}
        return self._named(returned, shapes, "backward", "gradients")

    def _named(self, returned: Any, names: Mapping[str, Shape], function: str, what: str) -> dict[str, Any]:
        """What a function returned, by name: a dictionary, a tuple in the program's order, or one array.

        ``names`` have the shapes that are expected.
        """
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
        arrays = {name: np.asarray(on_host(returned[name])) for name in names}
        for name, shape in names.items():
            if arrays[name].shape != shape:
                raise KernelError(f"{function} returned {name} with shape {arrays[name].shape}; expected {shape}")
        return arrays


def _run(name: str, function: Callable[..., Any], *arguments: Any, **inputs: Any) -> Any:
    """What someone's function returns; whatever it raises is an error of the kernel."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **inputs)
    except Exception as error:
        raise KernelError(f"{name} raised {type(error).__name__}: {error}") from error


def examine(
    forward: Forward,
    backward: Backward | None,
    program: Program | str,
    *,
    takes: Takes | None = None,
    samples: Sequence[Sample] | None = None,
    rounding: str = DEFAULT,
    dtypes: Sequence[str] = ("float32",),
) -> list[Finding]:
    """Hold a kernel against everything that its program must keep.

    Parameters
    ----------
    forward: ``forward(**inputs)`` on NumPy arrays, with parameters by name too; gives outputs by name, or a tuple in
        the program's order. An optional input or a parameter that it does not take is not given, and an output that a
        dictionary lacks is not asked for.
    backward: ``backward(cotangents, **inputs)``; gives gradients by the names of inputs, or a tuple in their order.
        ``cotangents`` is a dictionary with one for every output. None: only outputs are asked for.
    program: a program or its name.
    takes: what the kernel has to take: dtypes, how many leading axes, and which inputs have none. By default arrays of
        the ``dtypes``, and as many leading axes as it runs with and keeps in the shapes of what it returns.
    samples: what to run, in place of the samples that :func:`numeric.samples.samples_of` makes of any program.
    rounding: what the kernel may round: "exact dtype", "float32 inside" or "FlashAttention"
        (:data:`numeric.oracle.MODELS`).
    dtypes: of real inputs, where ``takes`` is not given.

    Returns
    -------
    A finding for each property: whether it holds, the worst error in units of what rounding may cause, and where. A
    kernel that raises an exception at a sample, or returns arrays of other shapes, fails there.

    Raises
    ------
    InputError: results are not those of the program, or there is no such rounding model.
    """
    if rounding not in MODELS:
        raise InputError(f"there is no rounding model {rounding!r}; there are {', '.join(MODELS)}")
    source = definitions_of(program)
    source = source.without(*(name for name in source.optional if not _has(forward, name)))
    device = backend("numpy")
    plain = samples[0] if samples else next(samples_of(source, Takes(tuple(dtypes), leading=(0,))))
    source = _returning(forward, source, plain)
    kernel = Foreign(forward, backward, source, rounding)
    if samples is None:
        samples = list(samples_of(source, takes or _taken(kernel, forward, plain, dtypes)))
    return [measured(kernel, device, prop, samples) for prop in properties_for(kernel)]


def _has(function: Forward, name: str) -> bool:
    """Whether a function has a parameter of that name, or takes any."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _returning(forward: Forward, source: Program, sample: Sample) -> Program:
    """The program with the outputs that a dictionary names."""
    try:
        returned = _run("forward", forward, **sample.inputs(signature_of(source)), **sample.parameters)
    except KernelError:
        return source  # every finding will say so
    if not isinstance(returned, Mapping):
        return source
    names = [o.name for o in source.outputs if o.name in returned]
    if not names:
        raise InputError(f"{source.name}: forward returned {', '.join(map(str, returned))}, none of the outputs")
    return source if len(names) == len(source.outputs) else source.returning(*names)


LEADING = (11, 13)
"""Leading axes that a kernel is tried with: longer than the sizes beside them, so that none is taken for another."""


def _taken(kernel: Foreign, forward: Forward, plain: Sample, dtypes: Sequence[str]) -> Takes:
    """What a kernel is found to take: leading axes of every input, or else of those that have the first axis.

    What it computes there is not looked at.
    """
    parameters = tuple(p.name for p in kernel.source.parameters if _has(forward, p.name))
    first = next(spec.axes[0] for spec in kernel.signature.inputs if spec.axes)
    weights = tuple(spec.name for spec in kernel.signature.inputs if first not in spec.axes)
    for shared in ((), weights):
        tried = replace(plain, own_leading=dict.fromkeys(shared, ()))
        found = tuple(k for k in (1, 2) if _runs(kernel, replace(tried, leading=LEADING[:k])))
        if found:
            break
    without = (0,) if not found or _runs(kernel, plain) else ()
    return Takes(tuple(dtypes), (*without, *found), shared if found else (), parameters=parameters)


def _runs(kernel: Foreign, sample: Sample) -> bool:
    try:
        run_of(kernel, backend("numpy"), sample)
    except KernelError:
        return False
    return True
