# Seal of generated text, broken by edits: bdf617de8ff61ef68ff01ffa751fb1bb
"""Layer normalisation: centred, divided by the standard deviation, scaled and shifted.

Forward (Y) and backward (dX, dweight, dshift) for NumPy, derived from the definitions of `layer_norm`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 25 for the plain program (X, weight, shift to Y and
gradients).
"""

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec

SIGNATURE = Signature(
    program="layer_norm",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("weight", ("D",), "real", "multiplies each coordinate"),
        TensorSpec("shift", ("D",), "real", "added to each coordinate"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "normalised states"),
    ),
    gradients=("X", "weight", "shift"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    weight: Array,
    shift: Array,
    *,
    eps: float = 1/100000,
) -> tuple[dict[str, Array], Saved]:
    """Layer normalisation: centred, divided by the standard deviation, scaled and shifted.

    X [.., n, D]: states
    weight [.., D]: multiplies each coordinate
    shift [.., D]: added to each coordinate
    eps: added to the mean square before the root is taken

    Returns the outputs Y, and what the backward pass needs:

        mean_Y[i] = Σ_x X[i,x]/D
        centred_Y[i,x] = X[i,x] − mean_Y[i]
        rstd_Y[i] = 1/√(Σ_x centred_Y[i,x]²/D + ε)
        normed_Y[i,x] = centred_Y[i,x] rstd_Y[i]
        Y[i,x] = normed_Y[i,x] weight[x] + shift[x]
    """
    D = X.shape[-1]
    mean_Y = (1/max(D, 1)) * xp.sum(X, axis=-1)
    centred_Y = X - mean_Y[..., None]
    rstd_Y = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(centred_Y ** 2, axis=-1) + eps)
    normed_Y = centred_Y * rstd_Y[..., None]
    Y = normed_Y * weight[..., None, :] + shift[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"normed_Y": normed_Y, "weight": weight, "rstd_Y": rstd_Y}


def backward(dY: Array, *, normed_Y: Array, weight: Array, rstd_Y: Array) -> dict[str, Array]:
    """Gradients of layer_norm, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, weight and shift. Steps:

        ∇weight[x] = Σ_i ∇Y[i,x] normed_Y[i,x]    (chain rule)
        ∇shift[x] = Σ_i ∇Y[i,x]    (added term)
        ∇normed_Y[i,x] = ∇Y[i,x] weight[x]    (chain rule)
        r[i] = Σ_x ∇normed_Y[i,x]/D    (name a reduction)
        r2[i] = Σ_x ∇normed_Y[i,x] normed_Y[i,x]/D    (name a reduction)
        ∇X[i,x] = rstd_Y[i] (∇normed_Y[i,x] − normed_Y[i,x] r2[i] − r[i])    (chain rule, sum over uses, write
            out, fold, factor, vanishing sum, added term, sum)
    """
    D = dY.shape[-1]
    dweight = xp.sum(dY * normed_Y, axis=-2)
    dshift = xp.sum(dY, axis=-2)
    dnormed_Y = dY * weight[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_Y, axis=-1)
    r2 = (1/max(D, 1)) * xp.sum(dnormed_Y * normed_Y, axis=-1)
    dX = rstd_Y[..., None] * (dnormed_Y - normed_Y * r2[..., None] - r[..., None])
    return {"X": dX, "weight": dweight, "shift": dshift}
