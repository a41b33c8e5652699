"""The exact interpreter as an oracle for arrays: what a run should have given, and how well it can be known.

This module joins the two layers; it loads SymPy, and nothing that runs kernels imports it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np

from derive.calculus import Derivation, backward
from derive.modes import program
from derive.proof import Duals, RunningErrors, interpret
from derive.proof.arithmetic import Arithmetic, Balls, Decimals
from numeric.arguments import ACCUMULATION, leading_of, length_of, sizes_of, with_axes, with_dims
from numeric.kernels import load
from numeric.samples import Arrays, Run

Host = np.ndarray[Any, Any]

Exact = dict[str, Host]
"""Object arrays of bounded numbers by tensor name."""


_DERIVATIONS: dict[tuple[object, ...], Derivation] = {}


def derivation_of(name: str) -> Derivation:
    """The derivation behind a program, made once for each set of definitions that bears the name."""
    source = program(name)
    key = (name, source.inputs, source.parameters, source.definitions, source.outputs)
    if key not in _DERIVATIONS:
        _DERIVATIONS[key] = backward(source)
    return _DERIVATIONS[key]


def exact_run(
    name: str,
    inputs: Arrays,
    cotangents: Arrays,
    parameters: Mapping[str, Any],
    arithmetic: Arithmetic | None = None,
) -> Exact:
    """Every tensor of a program's forward and backward pass, in many digits with running error bounds.

    Another ``arithmetic`` gives another kind of numbers: :class:`derive.proof.arithmetic.Balls` encloses them.
    Recent results are kept: the properties of one sample ask for the same one after another.
    """
    derivation = derivation_of(name)
    if arithmetic is not None:
        return _evaluated(derivation, name, inputs, cotangents, parameters, arithmetic)
    key = (id(derivation), _spelled(inputs), _spelled(cotangents), tuple(sorted(parameters.items())))
    known = _RECENT.pop(key, None)
    if known is None:
        known = _evaluated(derivation, name, inputs, cotangents, parameters, RunningErrors())
    _RECENT[key] = known  # the most recent is the last
    if len(_RECENT) > KEPT:
        del _RECENT[next(iter(_RECENT))]
    return dict(known)


KEPT = 32
"""How many exact results are kept; a sample of every dtype and seed of one program, and some more."""

_RECENT: dict[tuple[object, ...], Exact] = {}


def _spelled(arrays: Arrays) -> tuple[object, ...]:
    """Arrays as a key: names, dtypes, shapes and bytes."""
    return tuple((n, a.dtype.str, a.shape, np.ascontiguousarray(a).tobytes()) for n, a in sorted(arrays.items()))


def _evaluated(
    derivation: Derivation,
    name: str,
    inputs: Arrays,
    cotangents: Arrays,
    parameters: Mapping[str, Any],
    arithmetic: Arithmetic,
) -> Exact:
    """Forward and backward pass by the interpreter, one entry of the leading axes after another."""
    forward, derived = derivation.forward, derivation.derived
    call = _Call(name, inputs)
    seeds = {n: with_axes(np.broadcast_to(a, a.shape), call.dims[n], call.sizes) for n, a in cotangents.items()}
    results: list[dict[str, Any]] = []
    for at in np.ndindex(*call.leading):
        given = {n: _nested(a[at], arithmetic) for n, a in call.full.items()}
        values = interpret(forward, given, sizes=call.sizes, parameters=parameters, arithmetic=arithmetic)
        known = {**given, **values, **{f"d{n}": _nested(a[at], arithmetic) for n, a in seeds.items()}}
        needed = {i.name: known[i.name] for i in derived.inputs if i.name in known}
        gradients = interpret(derived, needed, sizes=call.sizes, parameters=parameters, arithmetic=arithmetic)
        results.append({**values, **gradients})
    found = {}
    for definition in (*forward.definitions, *derived.definitions):
        shape = tuple(length_of(str(a.size), call.sizes) for a in definition.axes)
        stacked = _stacked([r[definition.name] for r in results], call.leading, shape)
        dims = call.dims.get(definition.name)
        found[definition.name] = stacked if dims is None else with_dims(stacked, dims, call.sizes)
    return found


class _Call:
    """One call's inputs with full leading axes and every axis by itself, and its sizes."""

    def __init__(self, name: str, inputs: Arrays) -> None:
        signature = load(name).signature
        self.specs = {s.name: s for s in signature.inputs}
        self.sizes = sizes_of(signature, inputs)
        self.dims = dict(signature.dims)
        self.dims |= {f"d{s.name}": s.axes for s in signature.inputs}
        self.leading = leading_of(signature, inputs)
        self.full = {n: self.stretched(n, a) for n, a in inputs.items()}

    def stretched(self, name: str, array: Any) -> Host:
        """An array of an input's shape as the input's."""
        spec = self.specs[name]
        full = np.broadcast_to(array, (*self.leading, *array.shape[max(array.ndim - len(spec.axes), 0) :]))
        return full if spec.stays_small else with_axes(full, spec.axes, self.sizes)


def pushed_forward(name: str, run: Run, tangents: Arrays) -> Any:
    """Σ ⟨cotangent, J · tangent⟩ from dual numbers run through the forward definitions alone."""
    forward, decimals = program(name), Decimals()
    duals = Duals(decimals)
    call = _Call(name, run.inputs)
    moving = {n: call.stretched(n, a) for n, a in tangents.items()}
    cotangents = {n: with_axes(c, call.dims[n], call.sizes) for n, c in run.cotangents.items()}
    total = decimals.number(0)
    for at in np.ndindex(*call.leading):
        given = {
            n: _paired(a[at], moving[n][at] if n in moving else np.zeros(a[at].shape), duals)
            for n, a in call.full.items()
        }
        values = interpret(forward, given, sizes=call.sizes, parameters=run.parameters, arithmetic=duals)
        for output, cotangent in cotangents.items():
            moved = _flat(values[output], cotangent[at].ndim)
            total += sum(
                (decimals.number(float(c)) * m.tangent for c, m in zip(cotangent[at].flat, moved, strict=True)),
                decimals.number(0),
            )
    return total


def scaled_error(computed: Host, exact: Host) -> float:
    """The largest error of an array, in units of what rounding alone may cause, entry by entry."""
    if computed.shape != exact.shape:
        raise ValueError(f"shapes differ: {computed.shape} and {exact.shape}")
    deviations = [_deviation(float(got), want.value) for got, want in zip(computed.flat, exact.flat, strict=True)]
    return worst(np.array(deviations, dtype=float).reshape(exact.shape), rounding(exact, computed.dtype.name))


@dataclass(frozen=True)
class Enclosure:
    """How one tensor of a run lies to rigorous balls around its exact values: bounds, not estimates.

    error: the largest deviation of an entry, in units of what rounding may cause; deviation: the largest that an entry
    may be away from its exact value; radius: the largest of a ball.
    """

    tensor: str
    error: float
    deviation: float
    radius: float

    def __str__(self) -> str:
        return f"{self.tensor} up to {_up(self.deviation, 2)} from a ball of radius {_up(self.radius, 1)}"


def enclosures(made: Run, name: str) -> list[Enclosure]:
    """A run's outputs and gradients, each held against rigorous balls around its exact values.

    Raises
    ------
    AlgebraError: python-flint is missing, or Arb has no function that the program needs.
    """
    arguments = (name, made.inputs, made.cotangents, made.parameters)
    balls, units = exact_run(*arguments, Balls()), exact_run(*arguments)
    found = []
    for tensor, array in (*made.outputs.items(), *((f"d{n}", g) for n, g in made.gradients.items())):
        pairs = list(zip(array.flat, balls[tensor].flat, strict=True))
        deviations = np.array([_ball_deviation(float(x), ball) for x, ball in pairs], dtype=float).reshape(array.shape)
        error = worst(deviations, rounding(units[tensor], array.dtype.name))
        radius = max((_above(ball.rad()) for _, ball in pairs), default=0.0)
        found.append(Enclosure(tensor, error, float(np.max(deviations, initial=0.0)), radius))
    return found


def _ball_deviation(got: float, ball: Any) -> float:
    """A bound on how far a number is from any number of a ball."""
    if np.isinf(got):
        return 0.0 if float(ball.mid()) == got else float("inf")
    return float("inf") if np.isnan(got) else _above(abs(ball - got))


def _above(ball: Any) -> float:
    """A float that no number of a ball exceeds; a ball that encloses nothing has none but infinity."""
    upper = float(ball.upper())
    return math.inf if math.isnan(upper) else math.nextafter(upper, math.inf) if upper else 0.0


def _up(bound: float, digits: int) -> str:
    """A bound in so many digits, rounded up, so that it stays one."""
    if bound in (0, math.inf):
        return "0" if bound == 0 else "∞"
    return f"{Context(digits, ROUND_CEILING).create_decimal(bound):.{digits - 1}e}"


def rounding(exact: Host, storage: str) -> Host:
    """What rounding may do to each entry of an array stored in a dtype.

    u · (running error bound), with u the unit roundoff of the computing dtype, plus one rounding to a
    narrower storage dtype and the underflow threshold.
    """
    compute = ACCUMULATION[storage]
    own = roundoff(storage) if storage != compute else 0.0
    units = [roundoff(compute) * float(e.error) + own * abs(float(e.value)) + underflow(storage) for e in exact.flat]
    return np.array(units, dtype=float).reshape(exact.shape)


def worst(deviations: Host, units: Host) -> float:
    """The largest deviation in its unit; 0 where nothing deviates, infinity where what must be exact does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(deviations == 0, 0.0, deviations / units)
    return float("inf") if np.isnan(ratios).any() else float(np.max(ratios, initial=0.0))


def _deviation(got: float, want: Any) -> float:
    if got == want:
        return 0.0
    return float(abs(got - want)) if np.isfinite(got) else float("inf")


def roundoff(dtype_name: str) -> float:
    """Unit roundoff u of a dtype."""
    return {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype_name]


def underflow(dtype_name: str) -> float:
    """Below this, a result may lose digits to underflow."""
    return {"float64": 1e-300, "float32": 1e-35, "float16": 2.0**-24, "bfloat16": 1e-35}[dtype_name]


def _nested(array: Host, arithmetic: Arithmetic) -> Any:
    if array.ndim == 0:
        return arithmetic.number(_exact(array))
    return [_nested(row, arithmetic) for row in array]


def _exact(entry: Host) -> int | float:
    """An entry as a Python number of the same value."""
    return int(entry) if np.issubdtype(entry.dtype, np.integer) else float(entry)


def _paired(values: Host, tangents: Host, duals: Duals) -> Any:
    if values.ndim == 0:
        return duals.dual(_exact(values), float(tangents))
    return [_paired(v, t, duals) for v, t in zip(values, tangents, strict=True)]


def _flat(nested: Any, rank: int) -> list[Any]:
    return [nested] if rank == 0 else [x for part in nested for x in _flat(part, rank - 1)]


def _stacked(parts: list[Any], leading: tuple[int, ...], shape: tuple[int, ...]) -> Host:
    stacked = np.empty((*leading, *shape), dtype=object)
    for at, part in zip(np.ndindex(*leading), parts, strict=True):
        for index, entry in zip(np.ndindex(*shape), _flat(part, len(shape)), strict=True):
            stacked[(*at, *index)] = entry
    return stacked
