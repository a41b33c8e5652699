"""Properties of the attention family: programs with Q, K, V, a mask, a bias, outputs O and L.

dS, the gradient of the scores, is read off as the gradient of a full-sized bias; the weights A are the outputs
for values that are the identity matrix. So a kernel is asked about both without showing its insides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from derive.algebra.functions import has_kink
from derive.proof.identities import scores_are_products
from numeric.arguments import ACCUMULATION
from numeric.backends import Backend
from numeric.kernels import Kernel
from numeric.oracle import ExactRun, Host, scaled_error, worst
from numeric.properties import (
    Property,
    Registry,
    any_program,
    exact_of,
    exactly,
    gradient_error,
    kinked,
    made_by,
    output_error,
    rounding_of,
    source_of,
    tangents,
)
from numeric.runs import Arrays, Run, run
from numeric.samples import Sample
from numeric.signature import Signature

attention = Registry()

biased = Registry()
"""What a program keeps that adds a bias to its scores, whatever else it has."""


masked = Registry()
"""What a program keeps that has a mask, and keys of their own, whatever else it has."""


def _with_bias(sample: Sample) -> Sample:
    return replace(sample, given=tuple(dict.fromkeys((*sample.given, "bias"))))


def _without_l(sample: Sample) -> Sample:
    return replace(sample, cotangents=("O",))


def _wide(array: Host) -> Host:
    return array.astype(np.longdouble)


def _weights(kernel: Kernel, device: Backend, made: Run) -> Run:
    """The run whose outputs are the weights A: that for values that are the identity matrix."""
    values = np.eye(made.inputs["K"].shape[-2], dtype=made.inputs["V"].dtype)
    return run(kernel, device, {**made.inputs, "V": values}, {}, made.parameters)


def _errors(kernel: Kernel, made: Run, exact: ExactRun) -> float:
    """The worst scaled error of any output or gradient."""
    return max(output_error(kernel, made, exact), gradient_error(kernel, made, exact))


@attention("hidden entries contribute nothing", "NaN and ∞ in hidden keys and values change nothing")
def hidden_contributes_nothing(kernel: Kernel, device: Backend, sample: Sample) -> float | None:
    """Hide a key from every query and poison it, its value and its bias; its own gradients are exactly 0."""
    inputs = sample.inputs(kernel.signature)
    n, m = sample.sizes["n"], sample.sizes["m"]
    if m == 0:
        return None
    hidden = m // 2
    inputs["mask"] = np.broadcast_to(inputs.get("mask", np.True_), (*sample.leading, n, m)).copy()
    inputs["mask"][..., hidden] = False
    clean = run(kernel, device, inputs, sample.output_cotangents, sample.parameters)
    poisoned = {name: array.copy() for name, array in inputs.items()}
    poisoned["K"][..., hidden, :], poisoned["V"][..., hidden, :] = np.nan, np.inf
    if "bias" in poisoned:
        poisoned["bias"][..., hidden] = np.nan
    made = run(kernel, device, poisoned, clean.cotangents, sample.parameters)
    silent = [(made.gradients[name][..., hidden, :] == 0).all() for name in ("K", "V")]
    if "bias" in made.gradients:
        silent.append((made.gradients["bias"][~inputs["mask"]] == 0).all())
    return max(exactly(all(silent)), _errors(kernel, made, exact_of(kernel, clean)))


@attention("score gradients sum to the cotangent of L", "Σ_j dS[i,j] = dL[i], and 0 without it")
def score_gradients_sum(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """A query that sees nothing has dS = 0 and ignores dL."""
    made, exact = made_by(kernel, device, _with_bias(sample))
    dS = made.gradients["bias"]
    given = np.where(np.isfinite(made.outputs["L"]), made.cotangents.get("L", np.zeros(dS.shape[:-1])), 0)
    units = exact.gradients["bias"].weighted(np.ones(()), -1).unit(dS.dtype.name, rounding_of(kernel))
    return worst(np.abs(_wide(dS).sum(-1) - given), units)


@attention("key gradients of one query sum to zero", "dO in one row only ⇒ Σ_j dK[j,c] = 0", of_products=True)
def key_gradients_sum(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """The last query alone sends a gradient back, so every key's gradient is a multiple of it."""
    inputs = sample.inputs(kernel.signature)

    def one_row(result):  # type: ignore[no-untyped-def]
        cotangents = _without_l(sample).output_cotangents(result)
        cotangents["O"][..., :-1, :] = 0
        return cotangents

    made = run(kernel, device, inputs, one_row, sample.parameters)
    dK = made.gradients["K"]
    exact = exact_of(kernel, made).gradients["K"].weighted(np.ones(()), -2)
    return worst(np.abs(_wide(dK).sum(-2)), exact.unit(dK.dtype.name, rounding_of(kernel)))


@attention("a shift of a row of scores changes nothing", "O(S + t 1ᵀ) = O(S) and dQ(S + t 1ᵀ) = dQ(S)")
def shift_invariant(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Whole rows of an integer bias are shifted by ±64, which every dtype represents exactly."""
    inputs = _with_bias(sample).inputs(kernel.signature)
    coarse, errors = np.round(inputs["bias"].astype(float)), []
    base: ExactRun | None = None
    for shift in (0, 64, -64):
        inputs["bias"] = (coarse + shift).astype(inputs["bias"].dtype)
        made = run(kernel, device, inputs, _without_l(sample).output_cotangents, sample.parameters)
        exact = exact_of(kernel, made)
        base = base or exact
        O = replace(exact.outputs["O"], value=base.outputs["O"].value)
        dQ = replace(exact.gradients["Q"], value=base.gradients["Q"].value)
        errors.append(scaled_error(made.outputs["O"], O, rounding_of(kernel)))
        errors.append(scaled_error(made.gradients["Q"], dQ, rounding_of(kernel)))
    return max(errors)


@attention("large scores do not overflow", "logits of ±1e5 give finite, accurate results")
def large_scores(kernel: Kernel, device: Backend, sample: Sample) -> float | None:
    """A bias of ±1e5 on whole rows, which float32 and float64 represent exactly."""
    if ACCUMULATION[sample.dtype] != sample.dtype:
        return None
    inputs = _with_bias(sample).inputs(kernel.signature)
    signs = np.where(np.arange(sample.sizes["n"]) % 2, 1e5, -1e5)[:, None]
    inputs["bias"] = (np.round(inputs["bias"]) + signs).astype(inputs["bias"].dtype)
    made = run(kernel, device, inputs, sample.output_cotangents, sample.parameters)
    return _errors(kernel, made, exact_of(kernel, made))


@attention("centred keys give the same query gradient", "dQ = scale Σ_j dS (K − K̄) with K̄ = Σ_r A K", of_products=True)
def centred_keys(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """The covariance form, from the kernel's own dS and A."""
    sample = _with_bias(_without_l(sample))
    made, exact = made_by(kernel, device, sample)
    asked = made.inputs["Q"].dtype.name, rounding_of(kernel)
    weighing = _weights(kernel, device, made)
    A, K, dS = _wide(weighing.outputs["O"]), _wide(made.inputs["K"]), _wide(made.gradients["bias"])
    scale = float(sample.parameters.get("scale", max(sample.sizes["d"], 1) ** -0.5))
    centred = scale * (K[..., None, :, :] - (A @ K)[..., :, None, :])
    deviation = np.abs(_wide(made.gradients["Q"]) - (dS[..., None] * centred).sum(-2))
    units = exact.gradients["Q"].unit(*asked)
    for c in range(K.shape[-1]):
        units[..., c] += exact.gradients["bias"].weighted(centred[..., c], -1).unit(*asked)
        mean = exact_of(kernel, weighing).outputs["O"].weighted(scale * K[..., None, :, c], -1)
        units[..., c] += np.abs(dS.sum(-1)).astype(float) * mean.unit(*asked)
    return worst(deviation, units)


@attention("row sums come from outputs", "rowsum(A ∘ dA) = rowsum(dO ∘ O), with dA = dO Vᵀ")
def row_sums_from_outputs(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """What fused backward passes rely on."""
    made, exact = made_by(kernel, device, _without_l(sample))
    asked = made.outputs["O"].dtype.name, rounding_of(kernel)
    weighing = _weights(kernel, device, made)
    A, dO, V = _wide(weighing.outputs["O"]), _wide(made.cotangents["O"]), _wide(made.inputs["V"])
    dA = dO @ np.swapaxes(V, -1, -2)
    left, right = (A * dA).sum(-1), (dO * _wide(made.outputs["O"])).sum(-1)
    units = exact.outputs["O"].weighted(dO, -1).unit(*asked)
    units = units + exact_of(kernel, weighing).outputs["O"].weighted(dA, -1).unit(*asked)
    return worst(np.abs(left - right), units)


@attention("outputs lie in the hull of visible values", "min V ≤ O ≤ max V over the keys that a query sees")
def outputs_in_hull(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Coordinate by coordinate, up to rounding; a query that sees nothing gives 0."""
    made, exact = made_by(kernel, device, sample)
    seen = np.asarray(exact.definitions["A"].value > 0, dtype=bool)[..., None]
    V, O = _wide(made.inputs["V"])[..., None, :, :], _wide(made.outputs["O"])
    low = np.min(np.where(seen, V, np.inf), axis=-2, initial=np.inf)
    high = np.max(np.where(seen, V, -np.inf), axis=-2, initial=-np.inf)
    blind = ~seen.any(-2)
    low, high = np.where(blind, 0, low), np.where(blind, 0, high)
    units = exact.outputs["O"].unit(made.outputs["O"].dtype.name, rounding_of(kernel))
    return worst(np.maximum(np.maximum(low - O, O - high), 0), units)


@attention("equal values give no routing gradient", "V[j,v] = w[v] for all j ⇒ dS = 0")
def equal_values(kernel: Kernel, device: Backend, sample: Sample) -> float | None:
    """All values alike: where a query looks cannot matter."""
    sample = _with_bias(_without_l(sample))
    inputs: Arrays = sample.inputs(kernel.signature)
    if sample.sizes["m"] == 0:
        return None
    inputs["V"] = np.repeat(inputs["V"][..., :1, :], sample.sizes["m"], axis=-2)
    made = run(kernel, device, inputs, sample.output_cotangents, sample.parameters)
    exact = exact_of(kernel, made).gradients["bias"]
    return scaled_error(made.gradients["bias"], replace(exact, value=0 * exact.value), rounding_of(kernel))


@biased("a bias of −∞ hides", "bias[i,j] = −∞ is the same as mask[i,j] = False, NaN and ∞ in what is hidden included")
def minus_infinity_hides(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Hide every key from the first query, one from all, and a few more by the bias alone; poison the one."""
    inputs = _with_bias(sample).inputs(kernel.signature)
    hidden = np.random.default_rng([sample.seed, 5]).random(inputs["bias"].shape[-2:]) < 0.2
    hidden[:1], hidden[:, -1:] = True, True
    inputs["bias"] = np.where(hidden, np.array(-np.inf, inputs["bias"].dtype), inputs["bias"])
    clean = run(kernel, device, inputs, sample.output_cotangents, sample.parameters)
    return _poisoned(kernel, device, sample, clean)


@masked("what a mask hides contributes nothing", "NaN and ∞ at a key that no query sees change nothing")
def mask_hides(kernel: Kernel, device: Backend, sample: Sample) -> float:
    """Hide the last key from every query by the mask, and poison it."""
    inputs = replace(sample, given=tuple(dict.fromkeys((*sample.given, "mask")))).inputs(kernel.signature)
    inputs["mask"][..., -1:] = False
    return _poisoned(kernel, device, sample, run(kernel, device, inputs, sample.output_cotangents, sample.parameters))


def _poisoned(kernel: Kernel, device: Backend, sample: Sample, clean: Run) -> float:
    """How far a run comes out otherwise with NaN and ∞ in all that belongs to the last key, which is hidden."""
    inputs = {name: array.copy() for name, array in clean.inputs.items()}
    for number, name in enumerate(_of_keys(kernel.signature)):
        if name in inputs:
            inputs[name][..., -1:, :] = np.nan if number % 2 else np.inf
    made = run(kernel, device, inputs, clean.cotangents, sample.parameters)
    return _errors(kernel, made, exact_of(kernel, clean))


def _of_keys(signature: Signature) -> list[str]:
    """The keys, values and tangents of them, where keys are not queries too.

    States that are projected to keys are none: a hidden one times a gradient of 0 is part of a map's gradient.
    """
    hides = next((s for s in signature.inputs if s.name in ("mask", "bias")), None)
    if hides is None or hides.axes[-1] == hides.axes[-2]:
        return []
    named = (s for s in signature.inputs if s.name.removeprefix("t").startswith(("K", "V")))
    return [s.name for s in named if len(s.axes) > 1 and s.axes[-2] == hides.axes[-1]]


def properties_for(kernel: Kernel) -> tuple[Property, ...]:
    """The properties that speak of a program: any program's, and attention's where it has the tensors."""
    names = {s.name for s in kernel.signature.inputs} | {o.name for o in kernel.signature.outputs}
    differentiated = bool(kernel.signature.gradients)
    family = names == {"Q", "K", "V", "mask", "bias", "O", "L"} and differentiated
    source = source_of(kernel)
    products = family and scores_are_products(source)
    moving = tangents.properties if kernel.program.endswith("_tangent") else []
    general = [p for p in any_program.properties if differentiated or not p.of_gradients]
    hiding = biased.properties if "bias" in names else []
    if "mask" in names and not family and _of_keys(kernel.signature):
        hiding = [*hiding, *masked.properties]
    folded = kinked.properties if differentiated and any(has_kink(d.value) for d in source.definitions) else []
    own = [p for p in attention.properties if family and (products or not p.of_products)]
    return (*general, *moving, *hiding, *folded, *own)
