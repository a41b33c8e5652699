# Seal of generated text, broken by edits: 9607dbff4df75fd766fb3607fbc8a872
"""Rotation of pairs by given angles, interleaved layout.

Forward (Y) and backward (dX) for NumPy, derived from the definitions of `rotary_embedding_interleaved`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 14 for the plain program (X, cos, sin to Y and
gradients).
"""

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul

SIGNATURE = Signature(
    program="rotary_embedding_interleaved",
    inputs=(
        TensorSpec("X", ("n", "pairs*2"), "real", "vectors of even width"),
        TensorSpec("cos", ("n", "pairs"), "real", "cosine of the angle of pair p at position i"),
        TensorSpec("sin", ("n", "pairs"), "real", "sine of the angle of pair p at position i"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("Y", ("n", "pairs*2"), "the rotated vectors"),
    ),
    gradients=("X",),
    cotangents=("Y",),
)


def forward(X: Array, cos: Array, sin: Array) -> tuple[dict[str, Array], Saved]:
    """Rotation of pairs by given angles, interleaved layout.

    X [.., n, pairs, 2]: vectors of even width
    cos [.., n, pairs]: cosine of the angle of pair p at position i
    sin [.., n, pairs]: sine of the angle of pair p at position i

    Returns the outputs Y, and what the backward pass needs:

        Y[i,p,s] = X[i,p,s] cos[i,p] + sin[i,p] Σ_s′ QuarterTurn(s, s′) X[i,p,s′]
    """
    Y = X * cos[..., None] + matmul(xp, X, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1)) * sin[..., None]
    outputs = {"Y": Y}
    return outputs, {"cos": cos, "sin": sin}


def backward(dY: Array, *, cos: Array, sin: Array) -> dict[str, Array]:
    """Gradients of rotary_embedding_interleaved, derived from its definitions.

    dY [.., n, pairs, 2]: cotangent of Y

    Returns the gradients with respect to X. Steps:

        ∇X[i,p,s] = cos[i,p] ∇Y[i,p,s] − sin[i,p] Σ_s′ QuarterTurn(s, s′) ∇Y[i,p,s′]    (chain rule)
    """
    dX = cos[..., None] * dY - matmul(xp, dY, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1)) * sin[..., None]
    return {"X": dX}
