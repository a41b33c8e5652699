# Seal of generated text, broken by edits: 2bc4154ad5e5e1e7e2184a7742376af3
"""Position-wise network with GELU by a tanh.

Forward (Y) and backward (dX, dW_up, db_up, dW_down, db_down) for NumPy, derived from the definitions of
`gelu_tanh_mlp`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 29 for the plain program (X, W_up, b_up, W_down,
b_down to Y and gradients).
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec

SIGNATURE = Signature(
    program="gelu_tanh_mlp",
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
    """Position-wise network with GELU by a tanh.

    X [.., n, D]: states
    W_up [.., D, F]: the map to the hidden width
    b_up [.., F]: added before the activation
    W_down [.., F, D]: the map back
    b_down [.., D]: added to the output

    Returns the outputs Y, and what the backward pass needs:

        U[i,f] = Σ_x W_up[x,f] X[i,x] + b_up[f]
        H_1[i,f] = tanh(√2 (8943/200000 U[i,f]³ + U[i,f])/√π)
        H[i,f] = 1/2 U[i,f] (H_1[i,f] + 1)
        Y[i,x] = Σ_f H[i,f] W_down[f,x] + b_down[x]
    """
    U = X @ W_up + b_up[..., None, :]
    H_1 = xp.tanh((math.sqrt(2)/math.sqrt(math.pi)) * ((8943/200000) * U ** 3 + U))
    H = (1/2) * (U * (H_1 + 1))
    Y = H @ W_down + b_down[..., None, :]
    outputs = {"Y": Y}
    return outputs, {"H": H, "W_down": W_down, "U": U, "H_1": H_1, "W_up": W_up, "X": X}


def backward(
    dY: Array,
    *,
    H: Array,
    W_down: Array,
    U: Array,
    H_1: Array,
    W_up: Array,
    X: Array,
) -> dict[str, Array]:
    """Gradients of gelu_tanh_mlp, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, W_up, b_up, W_down and b_down. Steps:

        ∇W_down[f,x] = Σ_i H[i,f] ∇Y[i,x]    (product)
        ∇b_down[x] = Σ_i ∇Y[i,x]    (added term)
        ∇H[i,f] = Σ_x W_down[f,x] ∇Y[i,x]    (product)
        ∇U[i,f] = ∇H[i,f] (U[i,f] (1 − H_1[i,f]²) (26829/400000 √2 U[i,f]²/√π + 1/√(2π)) + 1/2 H_1[i,f] + 1/2)
            (chain rule, sum over uses, write out, fold, factor)
        ∇X[i,x] = Σ_f W_up[x,f] ∇U[i,f]    (product)
        ∇W_up[x,f] = Σ_i X[i,x] ∇U[i,f]    (product)
        ∇b_up[f] = Σ_i ∇U[i,f]    (added term)
    """
    dW_down = H.mT @ dY
    db_down = xp.sum(dY, axis=-2)
    dH = dY @ W_down.mT
    dU = dH * (U * (1 - H_1 ** 2) * (((26829/400000)*math.sqrt(2)/math.sqrt(math.pi)) * U ** 2 + (1 / math.sqrt(2*math.pi))) + (1/2) * H_1 + (1/2))
    dX = dU @ W_up.mT
    dW_up = X.mT @ dU
    db_up = xp.sum(dU, axis=-2)
    return {"X": dX, "W_up": dW_up, "b_up": db_up, "W_down": dW_down, "b_down": db_down}
