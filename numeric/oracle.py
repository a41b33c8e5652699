"""The exact interpreter as an oracle for arrays: what a run should have given, and how well it can be known.

This module joins the two layers; it loads SymPy, and nothing that runs kernels imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from derive.calculus import Derivation, backward
from derive.forward import Program, program
from derive.proof import Duals, RunningErrors, interpret
from derive.proof.arithmetic import Arithmetic, Balls, Decimals
from numeric.arguments import ACCUMULATION
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
    """
    derivation, arithmetic = derivation_of(name), arithmetic or RunningErrors()
    forward, derived = derivation.forward, derivation.derived
    leading = _leading(forward, inputs)
    full = {n: _stretched(forward, n, a, leading) for n, a in inputs.items()}
    sizes = _sizes(forward, full)
    results: list[dict[str, Any]] = []
    for at in np.ndindex(*leading):
        given = {n: _nested(a[at], arithmetic) for n, a in full.items()}
        values = interpret(forward, given, sizes=sizes, parameters=parameters, arithmetic=arithmetic)
        seeds = {f"d{n}": _nested(np.broadcast_to(a, a.shape)[at], arithmetic) for n, a in cotangents.items()}
        known = {**given, **values, **seeds}
        needed = {i.name: known[i.name] for i in derived.inputs if i.name in known}
        gradients = interpret(derived, needed, sizes=sizes, parameters=parameters, arithmetic=arithmetic)
        results.append({**values, **gradients})
    shapes = {d.name: tuple(sizes[str(a.size)] for a in d.axes) for p in (forward, derived) for d in p.definitions}
    return {n: _stacked([r[n] for r in results], leading, shape) for n, shape in shapes.items()}


def pushed_forward(name: str, run: Run, tangents: Arrays) -> Any:
    """Σ ⟨cotangent, J · tangent⟩ from dual numbers run through the forward definitions alone."""
    forward, decimals = program(name), Decimals()
    duals = Duals(decimals)
    leading = _leading(forward, run.inputs)
    full = {n: _stretched(forward, n, a, leading) for n, a in run.inputs.items()}
    moving = {n: _stretched(forward, n, a, leading) for n, a in tangents.items()}
    total = decimals.number(0)
    for at in np.ndindex(*leading):
        given = {n: _paired(full[n][at], moving.get(n, np.zeros(full[n].shape))[at], duals) for n in full}
        values = interpret(forward, given, sizes=_sizes(forward, full), parameters=run.parameters, arithmetic=duals)
        for output, cotangent in run.cotangents.items():
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


def bounded_error(made: Run, name: str) -> float:
    """The largest scaled error of a run against rigorous balls around the exact values: a bound, not an estimate."""
    arguments = (name, made.inputs, made.cotangents, made.parameters)
    units, balls = exact_run(*arguments), exact_run(*arguments, Balls())
    errors = [0.0]
    for tensor, array in (*made.outputs.items(), *((f"d{n}", g) for n, g in made.gradients.items())):
        deviations = [_ball_deviation(float(x), ball) for x, ball in zip(array.flat, balls[tensor].flat, strict=True)]
        shaped = np.array(deviations, dtype=float).reshape(array.shape)
        errors.append(worst(shaped, rounding(units[tensor], array.dtype.name)))
    return max(errors)


def _ball_deviation(got: float, ball: Any) -> float:
    if np.isinf(got):
        return 0.0 if float(ball.mid()) == got else float("inf")
    return float(abs(ball - got).upper())


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


def _leading(forward: Program, inputs: Arrays) -> tuple[int, ...]:
    required = [i for i in forward.inputs if i.neutral is None]
    return np.broadcast_shapes(*(inputs[i.name].shape[: inputs[i.name].ndim - len(i.axes)] for i in required))


def _stretched(forward: Program, name: str, array: Any, leading: tuple[int, ...]) -> Host:
    given = forward.input(name)
    if given.neutral is None:
        return np.broadcast_to(array, (*leading, *array.shape[array.ndim - len(given.axes) :]))
    return np.broadcast_to(array, (*leading, *array.shape[max(array.ndim - len(given.axes), 0) :]))


def _sizes(forward: Program, full: Arrays) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for given in forward.inputs:
        if given.name in full and given.neutral is None:
            shape = full[given.name].shape
            sizes |= dict(zip(map(str, given.tensor.shape), shape[len(shape) - len(given.axes) :], strict=True))
    return sizes


def _nested(array: Host, arithmetic: Arithmetic) -> Any:
    if array.ndim == 0:
        return arithmetic.number(float(array))
    return [_nested(row, arithmetic) for row in array]


def _paired(values: Host, tangents: Host, duals: Duals) -> Any:
    if values.ndim == 0:
        return duals.dual(float(values), float(tangents))
    return [_paired(v, t, duals) for v, t in zip(values, tangents, strict=True)]


def _flat(nested: Any, rank: int) -> list[Any]:
    return [nested] if rank == 0 else [x for part in nested for x in _flat(part, rank - 1)]


def _stacked(parts: list[Any], leading: tuple[int, ...], shape: tuple[int, ...]) -> Host:
    stacked = np.empty((*leading, *shape), dtype=object)
    for at, part in zip(np.ndindex(*leading), parts, strict=True):
        for index, entry in zip(np.ndindex(*shape), _flat(part, len(shape)), strict=True):
            stacked[(*at, *index)] = entry
    return stacked
