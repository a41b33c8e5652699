# Seal of generated text, broken by edits: a28071bf7566c95495897edbe41dc5d5
"""Multi-head attention to another sequence.

Forward (Y) and backward (dX, dC, dW_Q, dW_K, dW_V, dW_O) for NumPy, derived from the definitions of
`cross_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 31 for the plain program (X, C, W_Q, W_K, W_V, W_O to
Y and gradients), 35 with mask.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="cross_attention",
    inputs=(
        TensorSpec("X", ("n", "D"), "real", "states of the queries"),
        TensorSpec("C", ("m", "D"), "real", "states of the keys and values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("W_Q", ("D", "H", "d"), "real", "the queries' maps"),
        TensorSpec("W_K", ("D", "H", "d"), "real", "the keys' maps"),
        TensorSpec("W_V", ("D", "H", "d_v"), "real", "the values' maps"),
        TensorSpec("W_O", ("H", "d_v", "D"), "real", "the output map of each head"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("Y", ("n", "D"), "the sum of the heads' updates"),
    ),
    gradients=("X", "C", "W_Q", "W_K", "W_V", "W_O"),
    cotangents=("Y",),
)


def forward(
    X: Array,
    C: Array,
    W_Q: Array,
    W_K: Array,
    W_V: Array,
    W_O: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Multi-head attention to another sequence.

    X [.., n, D]: states of the queries
    C [.., m, D]: states of the keys and values
    mask [.., n, m]: True where key j is visible to query i, optional
    W_Q [.., D, H, d]: the queries' maps
    W_K [.., D, H, d]: the keys' maps
    W_V [.., D, H, d_v]: the values' maps
    W_O [.., H, d_v, D]: the output map of each head
    scale: multiplies the scores (default 1/√d)

    Returns the outputs Y, and what the backward pass needs:

        M[i,j] = mask[i,j]
        Q[h,i,c] = Σ_x W_Q[x,h,c] X[i,x]
        K[h,j,c] = Σ_x C[j,x] W_K[x,h,c]
        V[h,j,v] = Σ_x C[j,x] W_V[x,h,v]
        S[h,i,j] = scale Σ_c K[h,j,c] Q[h,i,c]
        A[h,i,j] = M[i,j] exp(S[h,i,j])/(Σ_j′ M[i,j′] exp(S[h,i,j′]))
        O[h,i,v] = Σ_j A[h,i,j] V[h,j,v]
        Y[i,x] = Σ_hv O[h,i,v] W_O[h,v,x]
    """
    d = W_Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    M = mask
    Q = xp.moveaxis(matmul(xp, X, W_Q, axes=(1, 1, 2)), -3, -2)
    K = xp.moveaxis(matmul(xp, C, W_K, axes=(1, 1, 2)), -3, -2)
    V = xp.moveaxis(matmul(xp, C, W_V, axes=(1, 1, 2)), -3, -2)
    S = scale * (Q @ K.mT)
    S_max = visible_max(xp, S, None if M is None else M[..., None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), None if M is None else M[..., None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], None if M is None else M[..., None, :, :])
    O = visible_matmul(xp, A, V, None if M is None else M[..., None, :, :])
    Y = matmul(xp, xp.moveaxis(O, -3, -2), W_O, axes=(1, 2, 1))
    outputs = {"Y": Y}
    return outputs, {"O": O, "W_O": W_O, "V": V, "A": A, "M": M, "C": C, "Q": Q, "W_K": W_K, "W_V": W_V, "K": K, "W_Q": W_Q, "X": X, "scale": scale}


def backward(
    dY: Array,
    *,
    O: Array,
    W_O: Array,
    V: Array,
    A: Array,
    M: Array | None,
    C: Array,
    Q: Array,
    W_K: Array,
    W_V: Array,
    K: Array,
    W_Q: Array,
    X: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of cross_attention, derived from its definitions.

    dY [.., n, D]: cotangent of Y

    Returns the gradients with respect to X, C, W_Q, W_K, W_V and W_O. Steps:

        ∇W_O[h,v,x] = Σ_i O[h,i,v] ∇Y[i,x]    (product)
        ∇O[h,i,v] = Σ_x W_O[h,v,x] ∇Y[i,x]    (product)
        ∇A[h,i,j] = Σ_v V[h,j,v] ∇O[h,i,v]    (product)
        r[h,i] = Σ_j A[h,i,j] ∇A[h,i,j]    (name a reduction)
        ∇S[h,i,j] = A[h,i,j] (∇A[h,i,j] − r[h,i])    (softmax, fold, factor)
        ∇V[h,j,v] = Σ_i A[h,i,j] ∇O[h,i,v]    (product)
        ∇W_V[x,h,v] = Σ_j C[j,x] ∇V[h,j,v]    (product)
        ∇K[h,j,c] = scale Σ_i Q[h,i,c] ∇S[h,i,j]    (product)
        ∇C[j,x] = Σ_hc W_K[x,h,c] ∇K[h,j,c] + Σ_hv W_V[x,h,v] ∇V[h,j,v]    (product, sum over uses)
        ∇W_K[x,h,c] = Σ_j C[j,x] ∇K[h,j,c]    (product)
        ∇Q[h,i,c] = scale Σ_j K[h,j,c] ∇S[h,i,j]    (product)
        ∇X[i,x] = Σ_hc W_Q[x,h,c] ∇Q[h,i,c]    (product)
        ∇W_Q[x,h,c] = Σ_i X[i,x] ∇Q[h,i,c]    (product)
    """
    dW_O = matmul(xp, O.mT, dY, axes=(2, 1, 1))
    dO = xp.moveaxis(matmul(xp, dY, xp.moveaxis(W_O, -1, -3), axes=(1, 1, 2)), -3, -2)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, None if M is None else M[..., None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r[..., None]), None if M is None else M[..., None, :, :])
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT[..., None, :, :])
    dW_V = matmul(xp, C.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2))
    dK = scale * visible_matmul(xp, dS.mT, Q, None if M is None else M.mT[..., None, :, :])
    dC = matmul(xp, xp.moveaxis(dK, -3, -2), xp.moveaxis(W_K, -3, -1), axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), xp.moveaxis(W_V, -3, -1), axes=(1, 2, 1))
    dW_K = matmul(xp, C.mT, xp.moveaxis(dK, -3, -2), axes=(1, 1, 2))
    dQ = scale * visible_matmul(xp, dS, K, None if M is None else M[..., None, :, :])
    dX = matmul(xp, xp.moveaxis(dQ, -3, -2), xp.moveaxis(W_Q, -3, -1), axes=(1, 2, 1))
    dW_Q = matmul(xp, X.mT, xp.moveaxis(dQ, -3, -2), axes=(1, 1, 2))
    return {"X": dX, "C": dC, "W_Q": dW_Q, "W_K": dW_K, "W_V": dW_V, "W_O": dW_O}
