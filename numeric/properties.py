"""What every kernel must keep, as named properties; tests and ``backprove verify`` run the same bodies.

A property takes a kernel, a device and a sample, and returns its scaled error: the largest deviation in units of what
rounding alone may cause (:mod:`numeric.oracle.units`), under the rounding model that the kernel is asked for
("float32 inside" of kernels that this project generates). It holds up to ``LIMIT``; what is a matter of bits or of
exact zeros returns 0 or infinity, and ``None`` says nothing about this sample. :func:`numeric.examine.examine` asks
anyone's kernel.

The properties here speak of any program; those of attention are in :mod:`numeric.properties_attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from derive.forward.program import Program
from numeric.arguments import ACCUMULATION
from numeric.backends import Backend
from numeric.kernels import Kernel, Result, load
from numeric.oracle import (
    DEFAULT,
    Exact,
    ExactRun,
    Host,
    definitions_of,
    exact_run,
    pushed_forward,
    scaled_error,
    together,
)
from numeric.runs import Arrays, Run, on_host, run
from numeric.samples import Sample

LIMIT = 2.0
"""Correct kernels stay below 1; a second unit is margin."""

Body = Callable[[Kernel, Backend, Sample], "float | None"]


@dataclass(frozen=True)
class Property:
    """A named statement about a kernel, and the body that measures how far it is from holding.

    of_products: it speaks of scores that are products. of_gradients: it speaks of gradients. everywhere: it is asked at
    every sample, and not at those of the core alone.
    """

    name: str
    statement: str
    body: Body
    of_products: bool = False
    of_gradients: bool = False
    everywhere: bool = False

    def asks(self, sample: Sample) -> bool:
        """Whether a sample is asked about it: those that are made for one end are asked about results alone."""
        return self.everywhere or sample.core


class Registry:
    """Properties in the order in which they are declared; a name is taken once."""

    def __init__(self) -> None:
        self.properties: list[Property] = []

    def __call__(
        self,
        name: str,
        statement: str,
        *,
        of_products: bool = False,
        of_gradients: bool = False,
        everywhere: bool = False,
    ) -> Callable[[Body], Body]:
        """Register the decorated body under a name; the flags are those of :class:`Property`."""

        def register(body: Body) -> Body:
            if any(p.name == name for p in self.properties):
                raise ValueError(f"property {name!r} is registered twice")
            self.properties.append(Property(name, statement, body, of_products, of_gradients, everywhere))
            return body

        return register


any_program = Registry()


def source_of(kernel: Kernel) -> Program:
    """The program that a kernel computes."""
    return definitions_of(getattr(kernel, "source", kernel.program))


def rounding_of(kernel: Kernel) -> str:
    """The rounding model that a kernel is asked for."""
    return str(getattr(kernel, "rounding", DEFAULT))


def made_by(kernel: Kernel, device: Backend, sample: Sample) -> tuple[Run, ExactRun]:
    """A sample's run, and what it should have given."""
    made = run_of(kernel, device, sample)
    return made, exact_of(kernel, made)


def run_of(kernel: Kernel, device: Backend, sample: Sample) -> Run:
    """A sample's run alone: what it should have given takes longer to compute."""
    return run(kernel, device, sample.inputs(kernel.signature), sample.output_cotangents, sample.parameters)


def exact_of(kernel: Kernel, made: Run) -> ExactRun:
    """What a run should have given."""
    return exact_run(source_of(kernel), made.inputs, made.cotangents, made.parameters)


def output_error(kernel: Kernel, made: Run, exact: ExactRun) -> float:
    """The worst scaled error of any output."""
    return max(scaled_error(a, exact.outputs[name], rounding_of(kernel)) for name, a in made.outputs.items())


def gradient_error(kernel: Kernel, made: Run, exact: ExactRun) -> float:
    """The worst scaled error of any gradient."""
    found = (scaled_error(a, exact.gradients[name], rounding_of(kernel)) for name, a in made.gradients.items())
    return max(found, default=0.0)


def exactly(holds: Any) -> float:
    """0 where a matter of bits holds, else infinity."""
    return 0.0 if holds else float("inf")


def begun(kernel: Kernel, device: Backend, sample: Sample) -> tuple[Result, Arrays]:
    """A sample's forward call, and its cotangents on the device."""
    result = kernel.forward(**_moved(device, sample.inputs(kernel.signature)), **sample.parameters)
    return result, _moved(device, sample.output_cotangents(result))


def _moved(device: Backend, arrays: Arrays) -> Arrays:
    return {n: device.xp.asarray(a) for n, a in arrays.items()}


def _copied(arrays: Arrays) -> Arrays:
    """Arrays as they are now, on the host."""
    return {n: np.array(on_host(a)) for n, a in arrays.items()}


def _same_bits(left: Arrays, right: Arrays) -> bool:
    return left.keys() == right.keys() and all(left[n].tobytes() == right[n].tobytes() for n in left)


@any_program("outputs equal the definitions", "forward(inputs) is the value of the definitions", everywhere=True)
def outputs_are_exact(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Every output against the definitions, evaluated in more digits than any kernel has."""
    return output_error(kernel, *made_by(kernel, device, sample))


@any_program(
    "gradients equal the chain rule",
    "backward(cotangents) is what the bare chain rule gives through the forward definitions",
    of_gradients=True,
    everywhere=True,
)
def gradients_are_exact(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Every gradient against the chain rule through the forward definitions, which knows nothing of any derivation."""
    return gradient_error(kernel, *made_by(kernel, device, sample))


@any_program("forward mode agrees", "⟨cotangent, J v⟩ = ⟨gradient, v⟩, with J v by dual numbers", of_gradients=True)
def forward_mode_agrees(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Random tangents pushed through the forward definitions, which share nothing with reverse mode."""
    made, exact = made_by(kernel, device, sample)
    rng = np.random.default_rng([sample.seed, 3])
    directions = {n: rng.standard_normal(g.shape) for n, g in made.gradients.items()}
    moved = pushed_forward(source_of(kernel), made.inputs, directions, made.parameters)
    pushed = sum((moved[n] * c.astype(np.longdouble)).sum() for n, c in made.cotangents.items())
    pulled, unit = _paired(made.gradients, directions, exact.gradients, rounding_of(kernel))
    return abs(float(pushed - pulled)) / unit if unit else exactly(pushed == pulled)


@any_program(
    "finite differences agree", "⟨gradient, v⟩ is the slope of ⟨cotangent, outputs⟩ along v", of_gradients=True
)
def finite_differences_agree(kernel: Kernel, device: Backend, sample: Sample) -> float | None:
    """Central differences of the kernel's own forward pass in float64, along a random direction."""
    if sample.dtype != "float64":
        return None
    made = run_of(kernel, device, sample)
    rng, step = np.random.default_rng([sample.seed, 4]), 1e-5
    direction = {n: rng.standard_normal(g.shape) for n, g in made.gradients.items()}

    def paired(distance: float) -> float:
        moved = {n: a + distance * direction[n] if n in direction else a for n, a in made.inputs.items()}
        outputs = run(kernel, device, moved, made.cotangents, made.parameters).outputs
        return float(
            sum(np.where(np.isfinite(outputs[n]), c * outputs[n], 0).sum() for n, c in made.cotangents.items())
        )

    with np.errstate(invalid="ignore"):
        slope = (paired(step) - paired(-step)) / (2 * step)
    terms = [made.gradients[n] * direction[n] for n in direction]
    pulled, size = sum(float(t.sum()) for t in terms), sum(float(np.abs(t).sum()) for t in terms)
    return abs(slope - pulled) / (1e-7 * (1 + size))


@any_program("the same call gives the same bits", "two runs on equal inputs are bit-identical")
def deterministic(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Run twice, with a run on other inputs in between, and compare bytes."""
    first = run_of(kernel, device, sample)
    run_of(kernel, device, replace(sample, seed=sample.seed + 1))
    second = run_of(kernel, device, sample)
    return exactly(_same_bits(first.outputs, second.outputs) and _same_bits(first.gradients, second.gradients))


@any_program("backward may be called again", "backward(result, …) gives the same bits each time", of_gradients=True)
def backward_again(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Backward three times on one result: with some cotangents, with others, and with the first ones again."""
    result, arriving = begun(kernel, device, sample)
    first = _copied(kernel.backward(result, arriving))
    kernel.backward(result, {n: -a for n, a in arriving.items()})
    return exactly(_same_bits(first, _copied(kernel.backward(result, arriving))))


@any_program("calls leave other calls alone", "inputs, cotangents and results stay as they are in later calls")
def calls_are_apart(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Everything that a call was given or gave, before and after a call on other inputs of the same shapes."""
    moved = _moved(device, sample.inputs(kernel.signature))
    before = _copied(moved)
    result = kernel.forward(**moved, **sample.parameters)
    given = _moved(device, sample.output_cotangents(result))
    arrays = {"inputs": moved, "cotangents": given, "outputs": result.outputs}
    kept = {"inputs": before, "cotangents": _copied(given), "outputs": _copied(result.outputs)}
    if kernel.signature.gradients:
        arrays["gradients"] = kernel.backward(result, given)
        kept["gradients"] = _copied(arrays["gradients"])
    run_of(kernel, device, replace(sample, seed=sample.seed + 1))
    return exactly(all(_same_bits(kept[name], _copied(arrays[name])) for name in arrays))


@any_program("layout does not matter", "reversed, interleaved and read-only views give the same, and are not written")
def layout_does_not_matter(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Inputs and cotangents as views of other arrays."""
    made, exact = made_by(kernel, device, sample)
    inputs = {n: _as_view(a) for n, a in made.inputs.items()}
    cotangents = {n: _as_view(a) for n, a in made.cotangents.items()}
    viewed = run(kernel, device, inputs, cotangents, made.parameters)
    untouched = _same_bits(made.inputs, {n: np.ascontiguousarray(a) for n, a in inputs.items()})
    errors = output_error(kernel, viewed, exact), gradient_error(kernel, viewed, exact)
    return max(exactly(untouched), *errors)


kinked = Registry()
"""What a program keeps that holds a maximum, a minimum or an absolute value."""


@kinked("the stated slope is taken at kinks", "gradients are exact where what is compared is equal", of_gradients=True)
def kinks_have_their_slope(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Inputs that are whole numbers, so that products cancel exactly, and the default parameters."""
    inputs = sample.inputs(kernel.signature)
    real = {n for n, a in inputs.items() if a.dtype.name in ACCUMULATION}
    whole = {n: np.round(a.astype(float)).astype(a.dtype) if n in real else a for n, a in inputs.items()}
    made = run(kernel, device, whole, sample.output_cotangents, {})
    return gradient_error(kernel, made, exact_of(kernel, made))


tangents = Registry()
"""What the tangents of a program keep, beside what any program does."""


@tangents("tangents and gradients are adjoint", "⟨u, J v⟩ = ⟨Jᵀ u, v⟩ for random u and v")
def adjoint(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """The tangents that a kernel computes, against the gradients that its program's own kernel computes."""
    made, exact = made_by(kernel, device, replace(sample, cotangents=None))
    base = load(kernel.program.removesuffix("_tangent"), device.name)
    arriving = {o.name: made.cotangents[o.name] for o in base.signature.outputs}
    pulled = run(base, device, _with_neutral(base, made.inputs), arriving, made.parameters)
    wanted = exact_run(base.program, pulled.inputs, arriving, made.parameters)
    moved = {n: f"t{n}" for n in arriving}
    outputs = {n: made.outputs[t] for n, t in moved.items()}
    pushed, above = _paired(outputs, arriving, {n: exact.outputs[t] for n, t in moved.items()}, rounding_of(kernel))
    moving = {n: made.inputs[f"t{n}"] for n in pulled.gradients if f"t{n}" in made.inputs}
    back, below = _paired(pulled.gradients, moving, wanted.gradients, rounding_of(kernel))
    return abs(float(pushed - back)) / (above + below) if above + below else exactly(pushed == back)


def _with_neutral(base: Kernel, inputs: Arrays) -> Arrays:
    """The inputs of a program itself; an optional one that moves without being given has its neutral value."""
    own = {s.name: inputs[s.name] for s in base.signature.inputs if s.name in inputs}
    moving = {s.name: s.neutral for s in base.signature.inputs if f"t{s.name}" in inputs and s.name not in inputs}
    return own | {name: np.full_like(inputs[f"t{name}"], value) for name, value in moving.items()}


def _paired(arrays: Arrays, weights: Arrays, exact: Mapping[str, Exact], rounding: str) -> tuple[Any, float]:
    """Σ ⟨weight, array⟩ over the weights that are given, and what rounding alone may do to it."""
    if not weights:
        return np.longdouble(0), 0.0
    total = sum((arrays[n].astype(np.longdouble) * w.astype(np.longdouble)).sum() for n, w in weights.items())
    sums = [exact[n].weighted(w, tuple(range(w.ndim))) for n, w in weights.items()]
    return total, float(together(sums).unit(next(arrays[n].dtype.name for n in weights), rounding))


def _as_view(array: Host) -> Host:
    """The same values as a read-only view with reversed and interleaved strides."""
    if array.ndim == 0:
        return array
    wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
    view = wide[..., ::-2]
    view[...] = array
    view.flags.writeable = False
    return view
