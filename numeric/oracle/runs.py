"""The oracle: what a call of a program should give, from its forward definitions alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from derive.errors import AlgebraError
from derive.forward import catalogue
from derive.forward.program import Program
from numeric.arguments import ACCUMULATION
from numeric.oracle.calls import Arrays, Call
from numeric.oracle.evaluation import Asked, Reader
from numeric.oracle.floats import Floats, has_long_doubles
from numeric.oracle.jets import DIRECTION, Jets
from numeric.oracle.labelled import Host, Labelled, Labels
from numeric.oracle.objects import Digits, Objects
from numeric.oracle.plan import Plan, plan
from numeric.oracle.results import Exact, ExactRun, Sampled
from numeric.oracle.rounding import Rounding
from numeric.oracle.units import DIRECTIONS, Samples, root_mean_square, samples

KEPT = 128
"""How many exact results are kept: those of all samples of one program, and of what properties make of them."""

MEMORY = 2**29
"""How many bytes of results are kept at most, the last one apart."""


def definitions_of(program: Program | str) -> Program:
    """A program, or that of a name: of the catalogue, of a file, or a mode of one such as ``attention_tangent``."""
    if isinstance(program, Program):
        return program
    if program.endswith(catalogue.MODE_SUFFIXES):
        from derive.modes import program as in_mode  # a mode's definitions are derived, and loads what derives them

        return in_mode(program)
    return catalogue.program(program)


class Oracle:
    """Evaluates programs, and remembers plans and recent results by value."""

    def __init__(self) -> None:
        self._plans: dict[Any, Plan] = {}
        self._recent: dict[Any, ExactRun] = {}

    def plan(self, program: Program) -> Plan:
        """The plan of a program, made once for all that have the same definitions."""
        key = _identity(program)
        if key not in self._plans:
            if len(self._plans) > 4 * KEPT:
                self._plans.clear()
            self._plans[key] = plan(program)
        return self._plans[key]

    def exact_run(
        self,
        program: Program | str,
        inputs: Arrays,
        cotangents: Arrays | None = None,
        parameters: Mapping[str, Any] | None = None,
        *,
        digits: int | None = None,
    ) -> ExactRun:
        """Every tensor of a program's forward and backward pass, with units of error.

        Parameters
        ----------
        inputs: arrays ``[.., axes]`` by name, of any dtype that kernels take; leading axes broadcast.
        cotangents: of outputs, in their shapes; a missing one means zero.
        parameters: values of parameters; a missing one takes its default.
        digits: so many decimal digits instead of long doubles (19 digits, which tell an error in float64 from its
            2000th part).

        Raises
        ------
        AlgebraError: a definition holds what has no value, or reads an entry that its tensor does not have.
        InputError: shapes do not fit.
        """
        source = definitions_of(program)
        asked = self.asked(source, inputs, cotangents, parameters)
        given = tuple(sorted(asked.parameters.items()))
        key = (_identity(source), _spelled(asked.call.inputs), _spelled(asked.cotangents), given, digits)
        known = self._recent.pop(key, None)
        if known is None:
            known = self._evaluated(asked, digits)
        self._recent[key] = known  # the most recent is the last
        self._forget()
        return known

    def asked(
        self,
        source: Program,
        inputs: Arrays,
        cotangents: Arrays | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> Asked:
        """What is evaluated: None stands for what is not given."""
        arrays = {n: np.asarray(a) for n, a in inputs.items() if a is not None}
        arriving = {n: np.asarray(a) for n, a in (cotangents or {}).items() if a is not None}
        known = {p.name for p in source.parameters}
        for name in parameters or {}:
            if name not in known:
                raise AlgebraError(f"{source.name} has no parameter {name}")
        return Asked(self.plan(source), Call(source, arrays), arriving, dict(parameters or {}))

    def values(self, asked: Asked, base: Any) -> Samples:
        """All results in a kind of numbers, as arrays of the caller's shapes."""
        machine = asked.evaluated(base)
        reader = Reader(asked, machine, lambda array: _plain(base, array))
        with np.errstate(all="ignore"):
            return Samples(reader.outputs(), reader.gradients(), reader.definitions(), reader.cotangents())

    def _evaluated(self, asked: Asked, digits: int | None) -> ExactRun:
        dtype = stored_dtype(asked.call.inputs)
        base = _numbers(dtype, digits)
        values = self.values(asked, base)
        blurred = _Blurred(asked, base)

        def made(which: str, sampled: bool) -> dict[str, Exact]:
            found: dict[str, Host] = getattr(values, which)
            return {
                name: Exact(
                    value, dtype, blurred.spread(which, name), blurred.samples(which, name) if sampled else None
                )
                for name, value in found.items()
            }

        return ExactRun(
            made("outputs", True), made("gradients", True), made("definitions", False), made("cotangents", False)
        )

    def _forget(self) -> None:
        while len(self._recent) > 1 and (len(self._recent) > KEPT or sum(map(_bytes, self._recent.values())) > MEMORY):
            del self._recent[next(iter(self._recent))]


class _Blurred:
    """Samples of the errors of one run, worked out for each rounding model and dtype when they are first asked for."""

    def __init__(self, asked: Asked, base: Any) -> None:
        self.asked, self.base = asked, base
        self.known: dict[tuple[Any, str], Samples] = {}

    def of(self, rounding: Rounding, dtype: str) -> Samples:
        """All samples."""
        key = (rounding.amounts(dtype).unit, tuple(rounding.amounts(dtype).sizes.items())), dtype
        if key not in self.known:
            self.known[key] = samples(self.asked, self.base, rounding, dtype)
        return self.known[key]

    def samples(self, which: str, name: str) -> Sampled:
        """Samples of one result."""

        def sampled(rounding: Rounding, dtype: str) -> Host:
            found: Host = getattr(self.of(rounding, dtype), which)[name]
            return found

        return sampled

    def spread(self, which: str, name: str) -> Sampled:
        """The standard deviation of one result."""

        def spread(rounding: Rounding, dtype: str) -> Host:
            found: Host = getattr(self.of(rounding, dtype), which)[name]
            return root_mean_square(found) if which in ("outputs", "gradients") else found

        return spread


def _bytes(run: ExactRun) -> int:
    """The memory of a run's results, with the samples that may come."""
    values = sum(e.value.nbytes for part in (run.definitions, run.cotangents) for e in part.values())
    sampled = sum(e.value.size for part in (run.outputs, run.gradients) for e in part.values())
    return int(values + sampled * 8 * DIRECTIONS)


def _identity(program: Program) -> tuple[Any, ...]:
    return program.name, program.inputs, program.parameters, program.definitions, program.outputs


def _spelled(arrays: Arrays) -> tuple[object, ...]:
    """Arrays as a key: names, dtypes, shapes and bytes."""
    return tuple((n, a.dtype.str, a.shape, np.ascontiguousarray(a).tobytes()) for n, a in sorted(arrays.items()))


def stored_dtype(inputs: Arrays) -> str:
    """The dtype of a program's real inputs."""
    found = [a.dtype.name for a in inputs.values() if a.dtype.name in ACCUMULATION]
    return found[0] if found else "float64"


def _numbers(dtype: str, digits: int | None) -> Any:
    """The numbers that exact values are computed in: long doubles; digits where the machine has none."""
    if digits is not None:
        return Digits(digits)
    if has_long_doubles():
        return Floats(np.longdouble)
    return Digits(30) if dtype == "float64" else Floats(np.float64)


def _plain(base: Any, array: Labelled) -> tuple[Host, Labels]:
    plain = array if isinstance(base, Objects) else base.plain(array)
    return plain.data, plain.labels


def pushed_forward(
    program: Program | str, inputs: Arrays, tangents: Arrays, parameters: Mapping[str, Any] | None = None
) -> dict[str, Host]:
    """The tangents of all outputs for given tangents of inputs: dual numbers through the forward definitions alone."""
    source = definitions_of(program)
    base = _numbers(stored_dtype(inputs), None)
    kind = Jets(base, base)
    asked = ORACLE.asked(source, inputs, None, parameters)
    machine = asked.machine(kind, tangents=tangents)
    machine.forward()

    def moved(jet: Any) -> tuple[Host, Labels]:
        if jet.tangents is None:
            return _plain(base, base.given(np.zeros(()), ()))
        data, labels = _plain(base, jet.tangents)
        k = labels.index(DIRECTION)
        return np.take(data, 0, axis=k), (*labels[:k], *labels[k + 1 :])

    return Reader(asked, machine, moved).outputs()


ORACLE = Oracle()
"""The oracle that the module's functions ask: one memory for all."""

exact_run = ORACLE.exact_run
