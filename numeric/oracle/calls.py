"""Calls: a program's inputs as arrays with labels, and results as the caller's arrays.

Leading axes are numbered from the first; one that an input is repeated along is no label of it, and its gradient is
summed over that axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from derive.algebra.axes import Axis
from derive.errors import AlgebraError
from derive.forward.program import Input, Output, Program
from numeric.arguments import dims_of, leading_of, sizes_of, with_axes, with_dims
from numeric.errors import InputError
from numeric.oracle.discrete import Whole
from numeric.oracle.labelled import Host, Label, Labels, Sizes, arranged
from numeric.signature import OutputSpec, ParameterSpec, Signature, TensorSpec

Arrays = Mapping[str, Host]


def signature_of(program: Program) -> Signature:
    """A program's interface, as its generated kernel states it."""
    return Signature(
        program.name,
        tuple(_input_spec(given) for given in program.inputs),
        tuple(
            ParameterSpec(p.name, "integer" if p.symbol.is_integer else "real", p.meaning, p.least)
            for p in program.parameters
        ),
        tuple(OutputSpec(o.name, _dims(o), o.meaning, o.statistic) for o in program.outputs),
        tuple(i.name for i in program.inputs if i.differentiable),
        (),
    )


def _input_spec(given: Input) -> TensorSpec:
    kind = "boolean" if given.tensor.boolean else "integer" if given.tensor.discrete else "real"
    below = None if given.below is None else str(given.below)
    return TensorSpec(given.name, _dims(given), kind, given.meaning, given.neutral, below, given.negative)  # type: ignore[arg-type]


def _dims(tensor: Input | Output) -> tuple[str, ...]:
    dims = tensor.dims or tuple((axis,) for axis in tensor.axes)
    return tuple("*".join(str(axis.size) for axis in dim) for dim in dims)


@dataclass(frozen=True)
class Call:
    """The inputs of one call of a program."""

    program: Program
    inputs: Arrays

    @cached_property
    def signature(self) -> Signature:
        """The program's interface."""
        return signature_of(self.program)

    @cached_property
    def named_sizes(self) -> dict[str, int]:
        """Every size by name."""
        known = {spec.name for spec in self.signature.inputs}
        for name in self.inputs:
            if name not in known:
                raise AlgebraError(f"{self.program.name} has no input {name}; it has {', '.join(sorted(known))}")
        for spec in self.signature.inputs:
            if not spec.optional and spec.name not in self.inputs:
                raise AlgebraError(f"{self.program.name}: input {spec.name} is missing")
        return sizes_of(self.signature, dict(self.inputs))

    @cached_property
    def leading(self) -> tuple[int, ...]:
        """The lengths of the leading axes."""
        return leading_of(self.signature, dict(self.inputs))

    @property
    def sizes(self) -> dict[Label, int]:
        """Sizes by name, and of leading axes by number."""
        found: dict[Label, int] = dict(self.named_sizes.items())
        found.update(enumerate(self.leading))
        return found

    def labelled(self, given: Input) -> tuple[Host, Labels]:
        """A given input's array with a label for every dimension along which it is not repeated."""
        return self._labelled(given, self.inputs[given.name])

    def like(self, given: Input, array: Host) -> tuple[Host, Labels]:
        """An array of an input's shape with the same labels."""
        return self._labelled(given, array)

    def _labelled(self, given: Input, array: Host) -> tuple[Host, Labels]:
        spec = next(s for s in self.signature.inputs if s.name == given.name)
        if spec.stays_small:
            data = array.reshape((1,) * max(len(given.axes) - array.ndim, 0) + array.shape)
        else:
            data = with_axes(array, spec.axes, self.named_sizes)
        own = data.ndim - len(given.axes)
        first = len(self.leading) - own
        labels: tuple[Label, ...] = (*(first + k for k in range(own)), *given.axes)
        lengths = (*self.leading[first:], *(self._length(axis) for axis in given.axes))
        full = [k for k, length in enumerate(lengths) if data.shape[k] == length]
        squeezed = data[tuple(slice(None) if k in full else 0 for k in range(data.ndim))]
        return np.asarray(squeezed), tuple(labels[k] for k in full)

    def _length(self, axis: Axis) -> int:
        return int(axis.size.xreplace({s: self.named_sizes[str(s)] for s in axis.size.free_symbols}))

    def integer(self, given: Input) -> Whole:
        """An integer or 0/1 input, or its neutral value."""
        if given.name not in self.inputs:
            return Whole(np.asarray(given.neutral, dtype=np.int64), ())
        data, labels = self.labelled(given)
        return Whole(data.astype(np.int64), labels)

    def cotangent(self, output: Output, array: Host) -> tuple[Host, Labels]:
        """A cotangent of an output, labelled.

        Raises
        ------
        InputError: its shape is not the output's.
        """
        spec = next(o for o in self.signature.outputs if o.name == output.name)
        wanted = (*self.leading, *dims_of(spec.axes, self.named_sizes))
        if array.shape != wanted:
            raise InputError(
                f"{self.program.name}: the cotangent of {output.name} has shape {array.shape}; expected {wanted}"
            )
        data = with_axes(array, spec.axes, self.named_sizes)
        return data, (*range(len(self.leading)), *output.axes)

    def as_output(self, output: Output, data: Host, labels: Labels, sizes: Sizes, before: Labels = ()) -> Host:
        """An output as the caller's array; labels ``before`` all others come first."""
        spec = next(o for o in self.signature.outputs if o.name == output.name)
        full: Host = with_dims(self._full(data, labels, output.axes, sizes, before), spec.axes, self.named_sizes)
        return full

    def as_tensor(self, axes: tuple[Axis, ...], data: Host, labels: Labels, sizes: Sizes, before: Labels = ()) -> Host:
        """A tensor with every axis by itself after the leading ones."""
        return self._full(data, labels, axes, sizes, before)

    def as_gradient(self, given: Input, data: Host, labels: Labels, sizes: Sizes, before: Labels = ()) -> Host:
        """A gradient, summed over what its input is repeated along, in the shape of the input."""
        _, own = self.labelled(given)
        wanted = (*before, *own)
        full = np.broadcast_to(arranged(data, labels, wanted), tuple(sizes[label] for label in wanted))
        return full.reshape((*(sizes[label] for label in before), *self.inputs[given.name].shape))

    def repeated(self, given: Input, labels: Labels) -> Labels:
        """The labels over which a gradient is summed: leading axes that it has and its input lacks, and axes."""
        _, own = self.labelled(given)
        leading = tuple(label for label in labels if isinstance(label, int) and label not in own)
        return (*leading, *(axis for axis in given.axes if axis not in own))

    def _full(self, data: Host, labels: Labels, axes: tuple[Axis, ...], sizes: Sizes, before: Labels) -> Host:
        wanted: Labels = (*before, *range(len(self.leading)), *axes)
        return np.broadcast_to(arranged(data, labels, wanted), tuple(sizes[label] for label in wanted))
