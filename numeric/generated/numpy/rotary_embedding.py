# Seal of generated text, broken by edits: 8ca8e11ad4df6b13cf076131790c993c
"""Rotation of pairs by given angles, halves layout.

Forward (Y) and backward (dX) for NumPy, derived from the definitions of `rotary_embedding`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 14 for the plain program (X, cos, sin to Y and
gradients).
"""

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul

SIGNATURE = Signature(
    program="rotary_embedding",
    inputs=(
        TensorSpec("X", ("n", "2*pairs"), "real", "vectors of even width"),
        TensorSpec("cos", ("n", "pairs"), "real", "cosine of the angle of pair p at position i"),
        TensorSpec("sin", ("n", "pairs"), "real", "sine of the angle of pair p at position i"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("Y", ("n", "2*pairs"), "the rotated vectors"),
    ),
    gradients=("X",),
    cotangents=("Y",),
)


def forward(X: Array, cos: Array, sin: Array) -> tuple[dict[str, Array], Saved]:
    """Rotation of pairs by given angles, halves layout.

    X [.., n, 2, pairs]: vectors of even width
    cos [.., n, pairs]: cosine of the angle of pair p at position i
    sin [.., n, pairs]: sine of the angle of pair p at position i

    Returns the outputs Y, and what the backward pass needs:

        Y[i,s,p] = X[i,s,p] cos[i,p] + sin[i,p] Σ_s′ QuarterTurn(s, s′) X[i,s′,p]
    """
    Y = X * cos[..., None, :] + xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(X, -3, -2), axes=(1, 1, 2)), -3, -2) * sin[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"cos": cos, "sin": sin}


def backward(dY: Array, *, cos: Array, sin: Array) -> dict[str, Array]:
    """Gradients of rotary_embedding, derived from its definitions.

    dY [.., n, 2, pairs]: cotangent of Y

    Returns the gradients with respect to X. Steps:

        ∇X[i,s,p] = cos[i,p] ∇Y[i,s,p] − sin[i,p] Σ_s′ QuarterTurn(s, s′) ∇Y[i,s′,p]    (chain rule)
    """
    dX = cos[..., None, :] * dY - xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dY, -3, -2), axes=(1, 1, 2)), -3, -2) * sin[..., None, :]
    return {"X": dX}
