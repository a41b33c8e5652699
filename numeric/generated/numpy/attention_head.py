# Seal of generated text, broken by edits: 16f766742dc297e000b6de4ff432fdf0
"""One causal attention head with projections and the residual: H + O W_O.

Forward (Y) and backward (dH, dW_Q, dW_K, dW_V, dW_O) for NumPy, derived from the definitions of
`attention_head`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 38 for the plain program (H, W_Q, W_K, W_V, W_O to Y
and gradients).
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="attention_head",
    inputs=(
        TensorSpec("H", ("n", "D"), "real", "states"),
        TensorSpec("W_Q", ("D", "d"), "real", "the queries' map"),
        TensorSpec("W_K", ("D", "d"), "real", "the keys' map"),
        TensorSpec("W_V", ("D", "d_v"), "real", "the values' map"),
        TensorSpec("W_O", ("d_v", "D"), "real", "the output map"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "updated states"),
    ),
    gradients=("H", "W_Q", "W_K", "W_V", "W_O"),
    cotangents=("Y",),
)


def forward(
    H: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """One causal attention head with projections and the residual: H + O W_O.

    H [.., n, D]: states
    W_Q [.., D, d]: the queries' map
    W_K [.., D, d]: the keys' map
    W_V [.., D, d_v]: the values' map
    W_O [.., d_v, D]: the output map
    scale: multiplies the scores (default 1/√d)

    Returns the outputs Y, and what the backward pass needs:

        Q[i,c] = Σ_x H[i,x] W_Q[x,c]
        K[j,c] = Σ_x H[j,x] W_K[x,c]
        V[j,v] = Σ_x H[j,x] W_V[x,v]
        S[i,j] = scale Σ_c K[j,c] Q[i,c]
        A[i,j] = [j ≤ i] exp(S[i,j])/(Σ_i′ [i′ ≤ i] exp(S[i,i′]))
        O[i,v] = Σ_i′ A[i,i′] V[i′,v]
        Y[i,x] = H[i,x] + Σ_v O[i,v] W_O[v,x]
    """
    d = W_Q.shape[-1]
    n = H.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q = H @ W_Q
    K = H @ W_K
    V = H @ W_V
    S = scale * (Q @ K.mT)
    S_max = visible_max(xp, S, xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    O = visible_matmul(xp, A, V, xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    Y = H + O @ W_O
    outputs = {"Y": Y}
    return outputs, {"O": O, "W_O": W_O, "V": V, "A": A, "H": H, "Q": Q, "K": K, "W_K": W_K, "W_Q": W_Q, "W_V": W_V, "scale": scale}


def backward(
    dY: Array,
    *,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    H: Array,
    Q: Array,
    K: Array,
    W_K: Array,
    W_Q: Array,
    W_V: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of attention_head, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to H, W_Q, W_K, W_V and W_O. Steps:

        ∇W_O[v,x] = Σ_i O[i,v] ∇Y[i,x]    (product)
        ∇O[i,v] = Σ_x W_O[v,x] ∇Y[i,x]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_i′ A[i,i′] ∇A[i,i′]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (softmax, fold, factor)
        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇W_V[x,v] = Σ_i H[i,x] ∇V[i,v]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇W_K[x,c] = Σ_i H[i,x] ∇K[i,c]    (product)
        ∇Q[i,c] = scale Σ_i′ K[i′,c] ∇S[i,i′]    (product)
        ∇H[i,x] = Σ_c W_K[x,c] ∇K[i,c] + Σ_c W_Q[x,c] ∇Q[i,c] + Σ_v W_V[x,v] ∇V[i,v] + ∇Y[i,x]    (added term,
            product, sum over uses)
        ∇W_Q[x,c] = Σ_i H[i,x] ∇Q[i,c]    (product)
    """
    n = dY.shape[-2]
    dW_O = O.mT @ dY
    dO = dY @ W_O.mT
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, xp.arange(n)[None, :] <= xp.arange(n)[:, None]), axis=-1)
    dS = visible_only(xp, A * (dA - r[..., None]), xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    dV = visible_matmul(xp, A.mT, dO, xp.arange(n)[:, None] <= xp.arange(n)[None, :])
    dW_V = H.mT @ dV
    dK = scale * visible_matmul(xp, dS.mT, Q, xp.arange(n)[:, None] <= xp.arange(n)[None, :])
    dW_K = H.mT @ dK
    dQ = scale * visible_matmul(xp, dS, K, xp.arange(n)[None, :] <= xp.arange(n)[:, None])
    dH = dK @ W_K.mT + dQ @ W_Q.mT + dV @ W_V.mT
    if dY is not None:
        dH = dH + dY
    dW_Q = H.mT @ dQ
    return {"H": dH, "W_Q": dW_Q, "W_K": dW_K, "W_V": dW_V, "W_O": dW_O}
