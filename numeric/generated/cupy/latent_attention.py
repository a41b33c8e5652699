# Seal of generated text, broken by edits: 979602f69ffccf4fbcb4a8402b76fcdb
"""Attention whose keys and values come from a low-rank latent.

Forward (O) and backward (dQ, dC, dW_K, dW_V) for CuPy, derived from the definitions of `latent_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 24 for the plain program (Q, C, W_K, W_V to O and
gradients), 28 with mask.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="latent_attention",
    inputs=(
        TensorSpec("Q", ("H", "n", "d"), "real", "queries"),
        TensorSpec("C", ("m", "R"), "real", "latents, shared by all heads"),
        TensorSpec("W_K", ("H", "R", "d"), "real", "each head's map from latents to keys"),
        TensorSpec("W_V", ("H", "R", "d_v"), "real", "each head's map from latents to values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("H", "n", "d_v"), "outputs: the weighted averages of the values"),
    ),
    gradients=("Q", "C", "W_K", "W_V"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    C: Array,
    W_K: Array,
    W_V: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention whose keys and values come from a low-rank latent.

    Q [.., H, n, d]: queries
    C [.., m, R]: latents, shared by all heads
    W_K [.., H, R, d]: each head's map from latents to keys
    W_V [.., H, R, d_v]: each head's map from latents to values
    mask [.., n, m]: True where key j is visible to query i, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O, and what the backward pass needs:

        M[i,j] = mask[i,j]
        K[h,j,c] = Σ_r C[j,r] W_K[h,r,c]
        V[h,j,v] = Σ_r C[j,r] W_V[h,r,v]
        S[h,i,j] = scale Σ_c K[h,j,c] Q[h,i,c]
        A[h,i,j] = M[i,j] exp(S[h,i,j])/(Σ_j′ M[i,j′] exp(S[h,i,j′]))
        O[h,i,v] = Σ_j A[h,i,j] V[h,j,v]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = mask
    K = xp.moveaxis(matmul(xp, C, xp.moveaxis(W_K, -3, -2), axes=(1, 1, 2)), -3, -2)
    V = xp.moveaxis(matmul(xp, C, xp.moveaxis(W_V, -3, -2), axes=(1, 1, 2)), -3, -2)
    S = Q_scaled @ K.mT
    S_max = visible_max(xp, S, None if M is None else M[..., None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), None if M is None else M[..., None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], None if M is None else M[..., None, :, :])
    O = visible_matmul(xp, A, V, None if M is None else M[..., None, :, :])
    outputs = {"O": O}
    return outputs, {"V": V, "A": A, "M": M, "K": K, "C": C, "Q_scaled": Q_scaled, "W_K": W_K, "W_V": W_V, "scale": scale}


def backward(
    dO: Array,
    *,
    V: Array,
    A: Array,
    M: Array | None,
    K: Array,
    C: Array,
    Q_scaled: Array,
    W_K: Array,
    W_V: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of latent_attention, derived from its definitions.

    dO [.., H, n, d_v]: cotangent of O

    Returns the gradients with respect to Q, C, W_K and W_V. Steps:

        ∇A[h,i,j] = Σ_v V[h,j,v] ∇O[h,i,v]    (product)
        r[h,i] = Σ_j A[h,i,j] ∇A[h,i,j]    (name a reduction)
        ∇S[h,i,j] = A[h,i,j] (∇A[h,i,j] − r[h,i])    (softmax, fold, factor)
        ∇Q[h,i,c] = scale Σ_j K[h,j,c] ∇S[h,i,j]    (product)
        ∇V[h,j,v] = Σ_i A[h,i,j] ∇O[h,i,v]    (product)
        ∇W_V[h,r,v] = Σ_j C[j,r] ∇V[h,j,v]    (product)
        ∇K[h,j,c] = scale Σ_i Q[h,i,c] ∇S[h,i,j]    (product)
        ∇C[j,r] = Σ_hc W_K[h,r,c] ∇K[h,j,c] + Σ_hv W_V[h,r,v] ∇V[h,j,v]    (product, sum over uses)
        ∇W_K[h,r,c] = Σ_j C[j,r] ∇K[h,j,c]    (product)
    """
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, None if M is None else M[..., None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r[..., None]), None if M is None else M[..., None, :, :])
    dQ = scale * visible_matmul(xp, dS, K, None if M is None else M[..., None, :, :])
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT[..., None, :, :])
    dW_V = xp.moveaxis(matmul(xp, C.mT, xp.moveaxis(dV, -3, -2), axes=(1, 1, 2)), -3, -2)
    dK = visible_matmul(xp, dS.mT, Q_scaled, None if M is None else M.mT[..., None, :, :])
    dC = matmul(xp, xp.moveaxis(dK, -3, -2), W_K.mT, axes=(1, 2, 1)) + matmul(xp, xp.moveaxis(dV, -3, -2), W_V.mT, axes=(1, 2, 1))
    dW_K = xp.moveaxis(matmul(xp, C.mT, xp.moveaxis(dK, -3, -2), axes=(1, 1, 2)), -3, -2)
    return {"Q": dQ, "C": dC, "W_K": dW_K, "W_V": dW_V}
