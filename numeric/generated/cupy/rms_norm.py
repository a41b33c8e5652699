# Seal of generated text, broken by edits: 0c3041513a0a951b47fdb88c228cea00
"""Root-mean-square normalisation, scaled.

Forward (Y) and backward (dX, dweight) for CuPy, derived from the definitions of `rms_norm`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 17 for the plain program (X, weight to Y and
gradients).
"""

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec

SIGNATURE = Signature(
    program="rms_norm",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("weight", ("D",), "real", "multiplies each coordinate"),
    ),
    parameters=(
        ParameterSpec("eps", "real", "added to the mean square before the root is taken"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "normalised states"),
    ),
    gradients=("X", "weight"),
    cotangents=("Y",),
)


def forward(X: Array, weight: Array, *, eps: float = 1/100000) -> tuple[dict[str, Array], Saved]:
    """Root-mean-square normalisation, scaled.

    X [.., n, D]: states
    weight [.., D]: multiplies each coordinate
    eps: added to the mean square before the root is taken

    Returns the outputs Y, and what the backward pass needs:

        rstd_Y[i] = 1/√(Σ_x X[i,x]²/D + ε)
        normed_Y[i,x] = X[i,x] rstd_Y[i]
        Y[i,x] = normed_Y[i,x] weight[x]
    """
    D = X.shape[-1]
    rstd_Y = 1 / xp.sqrt((1/max(D, 1)) * xp.sum(X ** 2, axis=-1) + eps)
    normed_Y = X * rstd_Y[..., None]
    Y = normed_Y * weight[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"normed_Y": normed_Y, "weight": weight, "rstd_Y": rstd_Y}


def backward(dY: Array, *, normed_Y: Array, weight: Array, rstd_Y: Array) -> dict[str, Array]:
    """Gradients of rms_norm, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X and weight. Steps:

        ∇weight[x] = Σ_i ∇Y[i,x] normed_Y[i,x]    (chain rule)
        ∇normed_Y[i,x] = ∇Y[i,x] weight[x]    (chain rule)
        r[i] = Σ_x ∇normed_Y[i,x] normed_Y[i,x]/D    (name a reduction)
        ∇X[i,x] = rstd_Y[i] (∇normed_Y[i,x] − normed_Y[i,x] r[i])    (chain rule, sum over uses, write out,
            fold, factor)
    """
    D = dY.shape[-1]
    dweight = xp.sum(dY * normed_Y, axis=-2)
    dnormed_Y = dY * weight[..., None, :]
    r = (1/max(D, 1)) * xp.sum(dnormed_Y * normed_Y, axis=-1)
    dX = rstd_Y[..., None] * (dnormed_Y - normed_Y * r[..., None])
    return {"X": dX, "weight": dweight}
