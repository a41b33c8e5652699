# Seal of generated text, broken by edits: 2c593928746f7ded8ae2b7210260eee1
"""Logits of every token of the vocabulary.

Forward (Z) and backward (dX, dW_U) for CuPy, derived from the definitions of `unembedding`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 3 for the plain program (X, W_U to Z and gradients).
"""

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec

SIGNATURE = Signature(
    program="unembedding",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("W_U", ("T", "D"), "real", "one row for each token of the vocabulary"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("Z", ("n", "T"), "logits"),
    ),
    gradients=("X", "W_U"),
    cotangents=("Z",),
)


def forward(X: Array, W_U: Array) -> tuple[dict[str, Array], Saved]:
    """Logits of every token of the vocabulary.

    X [.., n, D]: states
    W_U [.., T, D]: one row for each token of the vocabulary

    Returns the outputs Z, and what the backward pass needs:

        Z[i,t] = Σ_x W_U[t,x] X[i,x]
    """
    Z = X @ W_U.mT
    outputs = {"Z": Z}
    return outputs, {"W_U": W_U, "X": X}


def backward(dZ: Array, *, W_U: Array, X: Array) -> dict[str, Array]:
    """Gradients of unembedding, derived from its definitions.

    dZ [.., n, T]: cotangent of Z

    Returns the gradients with respect to X and W_U. Steps:

        ∇X[i,x] = Σ_t W_U[t,x] ∇Z[i,t]    (product)
        ∇W_U[t,x] = Σ_i X[i,x] ∇Z[i,t]    (product)
    """
    dX = dZ @ W_U
    dW_U = dZ.mT @ X
    return {"X": dX, "W_U": dW_U}
