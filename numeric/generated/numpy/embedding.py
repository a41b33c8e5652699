# Seal of generated text, broken by edits: bc2a1533214086664c8aa3d0e3ccfcbd
"""Token embedding: a row of the table for each token.

Forward (X) and backward (dW_E) for NumPy, derived from the definitions of `embedding`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 5 for the plain program (tokens, W_E to X and
gradients).
"""

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import as_numbers, gathered

SIGNATURE = Signature(
    program="embedding",
    inputs=(
        TensorSpec("tokens", ("n",), "integer", "token numbers", below="T"),
        TensorSpec("W_E", ("T", "D"), "real", "one row for each token of the vocabulary"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("X", ("n", "D"), "states"),
    ),
    gradients=("W_E",),
    cotangents=("X",),
)


def forward(tokens: Array, W_E: Array) -> tuple[dict[str, Array], Saved]:
    """Token embedding: a row of the table for each token.

    tokens [.., n]: token numbers
    W_E [.., T, D]: one row for each token of the vocabulary

    Returns the outputs X, and what the backward pass needs:

        X[i,x] = W_E[tokens[i],x]
    """
    T = W_E.shape[-2]
    X = gathered(xp, W_E, tokens, 1, 1)
    outputs = {"X": X}
    return outputs, {"tokens": tokens, "T": T}


def backward(dX: Array, *, tokens: Array, T: int) -> dict[str, Array]:
    """Gradients of embedding, derived from its definitions.

    dX [.., n, D]: cotangent of X

    Returns the gradients with respect to W_E. Steps:

        ∇W_E[t,x] = Σ_i δ[t,tokens[i]] ∇X[i,x]    (added term)
    """
    dW_E = as_numbers(xp, xp.arange(T)[:, None] == tokens[..., None, :], dX) @ dX
    return {"W_E": dW_E}
