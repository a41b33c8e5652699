# Seal of generated text, broken by edits: 35c0638f0005a52d33071769072067af
"""Position-wise network with the exact GELU.

Forward (Y) and backward (dX, dW_up, db_up, dW_down, db_down) for CuPy, derived from the definitions of
`gelu_mlp`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 24 for the plain program (X, W_up, b_up, W_down,
b_down to Y and gradients).
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import erf

SIGNATURE = Signature(
    program="gelu_mlp",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("W_up", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("b_up", ("F",), "real", "added before the activation"),
        TensorSpec("W_down", ("F", "D"), "real", "the map back"),
        TensorSpec("b_down", ("D",), "real", "added to the output"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updates of the states"),
    ),
    gradients=("X", "W_up", "b_up", "W_down", "b_down"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    W_up: Array,
    b_up: Array,
    W_down: Array,
    b_down: Array,
) -> tuple[dict[str, Array], Saved]:
    """Position-wise network with the exact GELU.

    X [.., n, D]: states
    W_up [.., D, F]: the map to the hidden width
    b_up [.., F]: added before the activation
    W_down [.., F, D]: the map back
    b_down [.., D]: added to the output

    Returns the outputs Y, and what the backward pass needs:

        U[i,f] = Σ_x W_up[x,f] X[i,x] + b_up[f]
        H_1[i,f] = erf(1/2 √2 U[i,f])
        H[i,f] = 1/2 U[i,f] (H_1[i,f] + 1)
        Y[i,x] = Σ_f H[i,f] W_down[f,x] + b_down[x]
    """
    U = X @ W_up + b_up[..., None, :]
    H_1 = erf(xp, ((1/2)*math.sqrt(2)) * U)
    H = (1/2) * (U * (H_1 + 1))
    Y = H @ W_down + b_down[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"H": H, "W_down": W_down, "H_1": H_1, "U": U, "W_up": W_up, "X": X}


def backward(
    dY: Array,
    *,
    H: Array,
    W_down: Array,
    H_1: Array,
    U: Array,
    W_up: Array,
    X: Array,
) -> dict[str, Array]:
    """Gradients of gelu_mlp, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, W_up, b_up, W_down and b_down. Steps:

        ∇W_down[f,x] = Σ_i H[i,f] ∇Y[i,x]    (product)
        ∇b_down[x] = Σ_i ∇Y[i,x]    (added term)
        ∇H[i,f] = Σ_x W_down[f,x] ∇Y[i,x]    (product)
        ∇U[i,f] = ∇H[i,f] (1/2 H_1[i,f] + U[i,f] exp(−1/2 U[i,f]²)/√(2π) + 1/2)    (chain rule, sum over uses,
            write out, factor)
        ∇X[i,x] = Σ_f W_up[x,f] ∇U[i,f]    (product)
        ∇W_up[x,f] = Σ_i X[i,x] ∇U[i,f]    (product)
        ∇b_up[f] = Σ_i ∇U[i,f]    (added term)
    """
    dW_down = H.mT @ dY
    db_down = xp.sum(dY, axis=-2)
    dH = dY @ W_down.mT
    dU = dH * ((1/2) * H_1 + (1 / math.sqrt(2*math.pi)) * (U * xp.exp((-1/2) * U ** 2)) + (1/2))
    dX = dU @ W_up.mT
    dW_up = X.mT @ dU
    db_up = xp.sum(dU, axis=-2)
    return {"X": dX, "W_up": dW_up, "b_up": db_up, "W_down": dW_down, "b_down": db_down}
