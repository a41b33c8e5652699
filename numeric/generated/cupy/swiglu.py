# Seal of generated text, broken by edits: f37cd564668e6af0c64755757a6f47bc
"""Gated position-wise network: (silu(X W_gate) ∘ X W_up) W_down.

Forward (Y) and backward (dX, dW_gate, dW_up, dW_down) for CuPy, derived from the definitions of `swiglu`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 19 for the plain program (X, W_gate, W_up, W_down to
Y and gradients).
"""

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import sigmoid

SIGNATURE = Signature(
    program="swiglu",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states"),
        TensorSpec("W_gate", ("D", "F"), "real", "the gate's map"),
        TensorSpec("W_up", ("D", "F"), "real", "the map to the hidden width"),
        TensorSpec("W_down", ("F", "D"), "real", "the map back"),
    ),
    parameters=(
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updates of the states"),
    ),
    gradients=("X", "W_gate", "W_up", "W_down"),
    cotangents=("Y",),
)


def forward(X: Array, W_gate: Array, W_up: Array, W_down: Array) -> tuple[dict[str, Array], Saved]:
    """Gated position-wise network: (silu(X W_gate) ∘ X W_up) W_down.

    X [.., n, D]: states
    W_gate [.., D, F]: the gate's map
    W_up [.., D, F]: the map to the hidden width
    W_down [.., F, D]: the map back

    Returns the outputs Y, and what the backward pass needs:

        U[i,f] = Σ_x W_gate[x,f] X[i,x]
        B[i,f] = Σ_x W_up[x,f] X[i,x]
        H_1[i,f] = Sigmoid(U[i,f])
        H[i,f] = B[i,f] H_1[i,f] U[i,f]
        Y[i,x] = Σ_f H[i,f] W_down[f,x]
    """
    U = X @ W_gate
    B = X @ W_up
    H_1 = sigmoid(xp, U)
    H = B * H_1 * U
    Y = H @ W_down
    outputs = {"Y": Y}
    return outputs, {"H": H, "W_down": W_down, "H_1": H_1, "U": U, "X": X, "B": B, "W_gate": W_gate, "W_up": W_up}


def backward(
    dY: Array,
    *,
    H: Array,
    W_down: Array,
    H_1: Array,
    U: Array,
    X: Array,
    B: Array,
    W_gate: Array,
    W_up: Array,
) -> dict[str, Array]:
    """Gradients of swiglu, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, W_gate, W_up and W_down. Steps:

        ∇W_down[f,x] = Σ_i H[i,f] ∇Y[i,x]    (product)
        ∇H[i,f] = Σ_x W_down[f,x] ∇Y[i,x]    (product)
        ∇B[i,f] = H_1[i,f] U[i,f] ∇H[i,f]    (chain rule)
        ∇W_up[x,f] = Σ_i X[i,x] ∇B[i,f]    (product)
        ∇U[i,f] = ∇H[i,f] (H_1[i,f] (B[i,f] − H[i,f]) + H[i,f])    (chain rule, sum over uses, write out,
            fold, factor)
        ∇X[i,x] = Σ_f W_gate[x,f] ∇U[i,f] + Σ_f W_up[x,f] ∇B[i,f]    (product, sum over uses)
        ∇W_gate[x,f] = Σ_i X[i,x] ∇U[i,f]    (product)
    """
    dW_down = H.mT @ dY
    dH = dY @ W_down.mT
    dB = H_1 * U * dH
    dW_up = X.mT @ dB
    dU = dH * (H_1 * (B - H) + H)
    dX = dU @ W_gate.mT + dB @ W_up.mT
    dW_gate = X.mT @ dU
    return {"X": dX, "W_gate": dW_gate, "W_up": dW_up, "W_down": dW_down}
