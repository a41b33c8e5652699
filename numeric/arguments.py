"""Checking what a caller gives: names, dtypes, shapes and parameters, each error with what to do."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from numeric.errors import InputError
from numeric.signature import Array, ParameterSpec, Signature, TensorSpec, factors_of

ACCUMULATION = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}
"""The supported dtypes, and the dtype that each is computed in."""

LARGEST_INTEGER = 2**62
"""Positions are 64-bit integers; a shift beyond this could overflow them."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Arguments:
    """Checked inputs: the tensors that were given, parameters, storage dtype, sizes and leading shape."""

    tensors: dict[str, Array]
    parameters: dict[str, Any]
    dtype: Any
    sizes: dict[str, int]
    leading: Shape

    def shape_of(self, dims: Iterable[str]) -> Shape:
        """The full shape of a caller's array with the given dimensions."""
        return (*self.leading, *dims_of(dims, self.sizes))


def dims_of(dims: Iterable[str], sizes: Mapping[str, int]) -> Shape:
    """The lengths of dimensions; one that several axes share is their product."""
    return tuple(math.prod(length_of(f, sizes) for f in factors_of(dim)) for dim in dims)


def with_axes(array: Array, dims: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
    """A caller's array with every axis by itself: those that share a dimension are told apart."""
    factors = [f for dim in dims for f in factors_of(dim)]
    if len(factors) == len(dims):
        return array
    return array.reshape((*array.shape[: array.ndim - len(dims)], *(length_of(f, sizes) for f in factors)))


def with_dims(array: Array, dims: tuple[str, ...], sizes: Mapping[str, int]) -> Array:
    """A tensor with every axis by itself as the caller's array has it."""
    rank = sum(len(factors_of(dim)) for dim in dims)
    return array if rank == len(dims) else array.reshape((*array.shape[: array.ndim - rank], *dims_of(dims, sizes)))


def length_of(factor: str, sizes: Mapping[str, int]) -> int:
    """The length of an axis: a size by name, or a number as it is."""
    return int(factor) if factor.isdigit() else sizes[factor]


def split(signature: Signature, given: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The given tensors and parameters; None means left out."""
    specs = {s.name: s for s in signature.inputs}
    parameters = {p.name for p in signature.parameters}
    for name in given:
        if name not in specs and name not in parameters:
            raise InputError(f"{signature.program}: there is no input {name!r}{_hint(name, [*specs, *parameters])}")
    tensors = {n: given[n] for n in specs if given.get(n) is not None}
    for spec in signature.inputs:
        if spec.name not in tensors and not spec.optional:
            wanted = ", ".join(("..", *spec.axes))
            raise InputError(f"{signature.program}: input {spec.name} [{wanted}] is missing ({spec.meaning})")
    return tensors, {n: given[n] for n in parameters if given.get(n) is not None}


def check(signature: Signature, tensors: dict[str, Array], parameters: dict[str, Any]) -> Arguments:
    """Check dtypes, shapes and parameters of one call.

    Raises
    ------
    InputError: naming the program, the tensor, what it is and what was expected.
    """
    specs = {s.name: s for s in signature.inputs}
    dtype = _common_dtype(signature, tensors, specs)
    sizes, leading = sizes_of(signature, tensors), leading_of(signature, tensors)
    for name, array in tensors.items():
        _check_below(signature, specs[name], array, sizes)
    arguments = Arguments(tensors, _checked_parameters(signature, parameters), dtype, sizes, leading)
    for name, array in tensors.items():
        if specs[name].optional:
            _check_broadcast(signature, specs[name], tuple(array.shape), arguments)
    return arguments


def _check_below(signature: Signature, spec: TensorSpec, array: Array, sizes: dict[str, int]) -> None:
    if spec.below is None or not array.size:
        return
    least, largest = int(array.min()), int(array.max())
    wrong = largest if largest >= sizes[spec.below] else least if least < 0 and not spec.negative else None
    if wrong is not None:
        expected = "integers" if spec.negative else "integers from 0"
        raise InputError(
            f"{signature.program}: {spec.name} holds {wrong}; expected {expected} below "
            f"{spec.below} = {sizes[spec.below]} ({spec.meaning})"
        )


def _common_dtype(signature: Signature, tensors: dict[str, Array], specs: dict[str, TensorSpec]) -> Any:
    real = {n: a.dtype for n, a in tensors.items() if specs[n].kind == "real"}
    for name, dtype in real.items():
        if dtype.name not in ACCUMULATION:
            known = ", ".join(ACCUMULATION)
            raise InputError(f"{signature.program}: {name} has dtype {dtype}; expected one of {known}")
    if len({d.name for d in real.values()}) > 1:
        listed = ", ".join(f"{n} is {d}" for n, d in real.items())
        raise InputError(f"{signature.program}: inputs of mixed dtype: {listed}; cast them to one dtype")
    for name, array in tensors.items():
        if specs[name].kind == "boolean" and array.dtype != bool:
            raise InputError(
                f"{signature.program}: {name} has dtype {array.dtype}; expected bool ({specs[name].meaning}); "
                f"for numbers that are added to the scores use bias"
            )
        if specs[name].kind == "integer" and not np.issubdtype(np.dtype(array.dtype), np.integer):
            raise InputError(
                f"{signature.program}: {name} has dtype {array.dtype}; expected integers ({specs[name].meaning})"
            )
    return next(iter(real.values()), np.dtype("float64"))  # whole numbers alone: what they give is as exact as can be


def sizes_of(signature: Signature, tensors: dict[str, Array]) -> dict[str, int]:
    """Every size, read off the dimensions that hold one unknown, until none is left."""
    specs = {s.name: s for s in signature.inputs}
    sizes: dict[str, int] = {}
    sources: dict[str, str] = {}
    waiting = []
    for name, array in tensors.items():
        spec, shape = specs[name], tuple(array.shape)
        if spec.optional:
            continue
        if len(shape) < len(spec.axes):
            wanted = f"[{', '.join(('..', *spec.axes))}], at least {len(spec.axes)} axes"
            raise InputError(f"{signature.program}: {name} has shape {shape}; expected {wanted}")
        waiting += [(name, dim, n) for dim, n in zip(spec.axes, shape[len(shape) - len(spec.axes) :], strict=True)]
    while waiting:
        left = []
        for name, dim, length in waiting:
            factors = factors_of(dim)
            unknown = [f for f in factors if not f.isdigit() and f not in sizes]
            known = math.prod(length_of(f, sizes) for f in factors if f not in unknown)
            if len(unknown) > 1:
                left.append((name, dim, length))
            elif unknown and known and length % known == 0:
                sizes[unknown[0]], sources[unknown[0]] = length // known, name
            elif unknown or known != length:
                raise _misfit(signature, name, dim, tensors, sizes, sources)
        if len(left) == len(waiting):
            raise InputError(f"{signature.program}: the sizes in {left[0][1]} of {left[0][0]} cannot be told apart")
        waiting = left
    return sizes


def _misfit(
    signature: Signature,
    name: str,
    dim: str,
    tensors: dict[str, Array],
    sizes: dict[str, int],
    sources: dict[str, str],
) -> InputError:
    """The error for an array whose dimension does not fit the sizes that others gave."""
    spec = next(s for s in signature.inputs if s.name == name)
    wanted = f"{name} has shape {tuple(tensors[name].shape)}; expected [{', '.join(('..', *spec.axes))}]"
    known = [f for f in factors_of(dim) if f in sizes]
    given = " and ".join(
        f"{f} = {sizes[f]}, as in {sources[f]} of shape {tuple(tensors[sources[f]].shape)}" for f in known
    )
    if dim in sizes:
        return InputError(f"{signature.program}: {wanted} with {given}")
    multiple = " times ".join(f for f in factors_of(dim) if f in sizes or f.isdigit())
    known_sizes = f", with {given}" if given else ""
    return InputError(f"{signature.program}: {wanted}, a multiple of {multiple} where {dim} stands{known_sizes}")


def leading_of(signature: Signature, tensors: dict[str, Array]) -> Shape:
    """The leading axes that all required inputs broadcast to."""
    specs = {s.name: s for s in signature.inputs}
    shapes = {n: tuple(a.shape)[: a.ndim - len(specs[n].axes)] for n, a in tensors.items() if not specs[n].optional}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{n} {tuple(tensors[n].shape)} has {s}" for n, s in shapes.items())
        raise InputError(f"{signature.program}: the leading axes do not broadcast: {listed}") from None


def _check_broadcast(signature: Signature, spec: TensorSpec, shape: Shape, arguments: Arguments) -> None:
    full = arguments.shape_of(spec.axes)
    try:
        fits = np.broadcast_shapes(shape, full) == full
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"{signature.program}: {spec.name} has shape {shape}, which does not broadcast to "
            f"[.., {', '.join(spec.axes)}] = {full}, the scores' shape; each axis must have that length, or 1"
        )


def _checked_parameters(signature: Signature, given: dict[str, Any]) -> dict[str, Any]:
    return {s.name: _parameter(signature.program, s, given[s.name]) for s in signature.parameters if s.name in given}


def _parameter(program: str, spec: ParameterSpec, value: Any) -> int | float:
    wanted = "a finite number"
    least = -LARGEST_INTEGER if spec.least is None else spec.least
    if spec.kind == "integer":
        wanted = "an integer of at most ±2⁶²" if spec.least is None else f"an integer of at least {spec.least}"
        if (
            isinstance(value, numbers.Integral)
            and not isinstance(value, bool)
            and least <= int(value) <= LARGEST_INTEGER
        ):
            return int(value)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InputError(f"{program}: parameter {spec.name} is {value!r}; expected {wanted} ({spec.meaning})")


def check_cotangent(program: str, name: str, cotangent: Array, output: Array) -> None:
    """A cotangent has the shape and dtype of its output."""
    if tuple(cotangent.shape) != tuple(output.shape):
        raise InputError(
            f"{program}: the cotangent of {name} has shape {tuple(cotangent.shape)}; "
            f"expected {tuple(output.shape)}, the shape of {name}"
        )
    if cotangent.dtype != output.dtype:
        raise InputError(
            f"{program}: the cotangent of {name} has dtype {cotangent.dtype}; "
            f"expected {output.dtype}, the dtype of {name}"
        )


def unknown_output(signature: Signature, name: str) -> InputError:
    """The error for a cotangent of something that is no output."""
    outputs = [o.name for o in signature.outputs]
    return InputError(f"{signature.program}: there is no output {name!r} to give a cotangent for{_hint(name, outputs)}")


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1) or [k for k in known if k.lower() == name.lower()]
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} There are {', '.join(known)}" if close else f"{guess} there are {', '.join(known)}"
