"""What every kernel must keep, as named properties; tests and ``backprove verify`` run the same bodies.

A property takes a kernel, a device and a sample, and returns its scaled error: the largest deviation in units
of what rounding alone may cause (see :func:`numeric.oracle.rounding`). It holds up to ``LIMIT``; what is a
matter of bits or of exact zeros returns 0 or infinity, and ``None`` says nothing about this sample.

The properties here speak of any program; those of attention are in :mod:`numeric.properties_attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from numeric.arguments import ACCUMULATION
from numeric.backends import Backend
from numeric.kernels import Kernel, load
from numeric.oracle import Exact, Host, exact_run, pushed_forward, rounding, roundoff, scaled_error
from numeric.samples import Arrays, Run, Sample, run

LIMIT = 2.0
"""Correct kernels stay below 1, the first-order bound; a second unit is for what first order leaves out."""

Body = Callable[[Kernel, Backend, Sample], "float | None"]


@dataclass(frozen=True)
class Property:
    """A named statement about a kernel, and the body that measures how far it is from holding."""

    name: str
    statement: str
    body: Body
    of_products: bool = False
    of_gradients: bool = False


class Registry:
    """Properties in the order in which they are declared; a name is taken once."""

    def __init__(self) -> None:
        self.properties: list[Property] = []

    def __call__(
        self, name: str, statement: str, *, of_products: bool = False, of_gradients: bool = False
    ) -> Callable[[Body], Body]:
        """Register the decorated body under a name, and whether it speaks of scores that are products, of gradients."""

        def register(body: Body) -> Body:
            if any(p.name == name for p in self.properties):
                raise ValueError(f"property {name!r} is registered twice")
            self.properties.append(Property(name, statement, body, of_products, of_gradients))
            return body

        return register


any_program = Registry()


def made_by(kernel: Kernel, device: Backend, sample: Sample) -> tuple[Run, Exact]:
    """A sample's run, and what it should have given."""
    made = run_of(kernel, device, sample)
    return made, exact_of(sample, made)


def run_of(kernel: Kernel, device: Backend, sample: Sample) -> Run:
    """A sample's run alone: what it should have given takes far longer to compute."""
    return run(kernel, device, sample.inputs(kernel.signature), sample.output_cotangents, sample.parameters)


def exact_of(sample: Sample, made: Run) -> Exact:
    """What a run should have given."""
    return exact_run(sample.program, made.inputs, made.cotangents, made.parameters)


def output_error(made: Run, exact: Exact) -> float:
    """The worst scaled error of any output."""
    return max(scaled_error(array, exact[name]) for name, array in made.outputs.items())


def gradient_error(made: Run, exact: Exact) -> float:
    """The worst scaled error of any gradient."""
    return max((scaled_error(array, exact[f"d{name}"]) for name, array in made.gradients.items()), default=0.0)


def exactly(holds: Any) -> float:
    """0 where a matter of bits holds, else infinity."""
    return 0.0 if holds else float("inf")


def _same_bits(left: Arrays, right: Arrays) -> bool:
    return left.keys() == right.keys() and all(left[n].tobytes() == right[n].tobytes() for n in left)


@any_program("outputs equal the exact interpreter", "forward(inputs) is the value of the definitions")
def outputs_are_exact(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Every output against the definitions evaluated entry by entry in 50 digits."""
    return output_error(*made_by(kernel, device, sample))


@any_program(
    "gradients equal the exact interpreter",
    "backward(cotangents) is the value of the derived program",
    of_gradients=True,
)
def gradients_are_exact(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Every gradient against the derived program evaluated entry by entry in 50 digits."""
    return gradient_error(*made_by(kernel, device, sample))


@any_program("forward mode agrees", "⟨cotangent, J v⟩ = ⟨gradient, v⟩, with J v by dual numbers", of_gradients=True)
def forward_mode_agrees(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Random tangents pushed through the forward definitions, which share nothing with reverse mode."""
    made, exact = made_by(kernel, device, sample)
    rng = np.random.default_rng([sample.seed, 3])
    directions = {n: rng.standard_normal(g.shape) for n, g in made.gradients.items()}
    pushed = float(pushed_forward(sample.program, made, directions))
    pulled, unit = _paired(made.gradients, directions, exact, "d")
    return abs(pushed - pulled) / unit if unit else exactly(pushed == pulled)


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


@any_program("layout does not matter", "reversed, interleaved and read-only views give the same, and are not written")
def layout_does_not_matter(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Inputs and cotangents as views of other arrays."""
    made, exact = made_by(kernel, device, sample)
    inputs = {n: _as_view(a) for n, a in made.inputs.items()}
    cotangents = {n: _as_view(a) for n, a in made.cotangents.items()}
    viewed = run(kernel, device, inputs, cotangents, made.parameters)
    untouched = _same_bits(made.inputs, {n: np.ascontiguousarray(a) for n, a in inputs.items()})
    return max(exactly(untouched), output_error(viewed, exact), gradient_error(viewed, exact))


kinked = Registry()
"""What a program keeps that holds a maximum, a minimum or an absolute value."""


@kinked("the stated slope is taken at kinks", "gradients are exact where what is compared is equal", of_gradients=True)
def kinks_have_their_slope(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Inputs that are whole numbers, so that products cancel exactly, and the default parameters."""
    inputs = sample.inputs(kernel.signature)
    real = {n for n, a in inputs.items() if a.dtype.name in ACCUMULATION}
    whole = {n: np.round(a.astype(float)).astype(a.dtype) if n in real else a for n, a in inputs.items()}
    made = run(kernel, device, whole, sample.output_cotangents, {})
    return gradient_error(made, exact_of(sample, made))


tangents = Registry()
"""What the tangents of a program keep, beside what any program does."""


@tangents("tangents and gradients are adjoint", "⟨u, J v⟩ = ⟨Jᵀ u, v⟩ for random u and v")
def adjoint(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """The tangents that a kernel computes, against the gradients that its program's own kernel computes."""
    made, exact = made_by(kernel, device, sample)
    base = load(kernel.program.removesuffix("_tangent"), device.name)
    arriving = {o.name: made.cotangents[o.name] for o in base.signature.outputs}
    pulled = run(base, device, _with_neutral(base, made.inputs), arriving, made.parameters)
    wanted = exact_run(base.program, pulled.inputs, arriving, made.parameters)
    pushed, above = _paired({n: made.outputs[f"t{n}"] for n in arriving}, arriving, exact, "t")
    moving = {n: made.inputs[f"t{n}"] for n in pulled.gradients if f"t{n}" in made.inputs}
    back, below = _paired(pulled.gradients, moving, wanted, "d")
    return abs(pushed - back) / (above + below) if above + below else exactly(pushed == back)


def _with_neutral(base: Kernel, inputs: Arrays) -> Arrays:
    """The inputs of a program itself; an optional one that moves without being given has its neutral value."""
    own = {s.name: inputs[s.name] for s in base.signature.inputs if s.name in inputs}
    moving = {s.name: s.neutral for s in base.signature.inputs if f"t{s.name}" in inputs and s.name not in inputs}
    return own | {name: np.full_like(inputs[f"t{name}"], value) for name, value in moving.items()}


def _paired(arrays: Arrays, weights: Arrays, exact: Exact, mark: str) -> tuple[float, float]:
    """Σ ⟨weight, array⟩ over the weights that are given, and what rounding alone may do to it."""
    total, unit = 0.0, 0.0
    for name, weight in weights.items():
        products = arrays[name].astype(np.longdouble) * weight
        total += float(products.sum())
        own = rounding(exact[f"{mark}{name}"], arrays[name].dtype.name)
        unit += float((np.abs(weight.astype(float)) * own).sum() + np.abs(products).sum() * roundoff("float64"))
    return total, unit


def _as_view(array: Host) -> Host:
    """The same values as a read-only view with reversed and interleaved strides."""
    if array.ndim == 0:
        return array
    wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
    view = wide[..., ::-2]
    view[...] = array
    view.flags.writeable = False
    return view
