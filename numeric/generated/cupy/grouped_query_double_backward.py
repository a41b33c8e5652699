# Seal of generated text, broken by edits: 263aba97b9f6a804b774bf4472dba064
"""Gradients of grouped_query, to be differentiated again.

Forward (grad_Q, grad_K, grad_V) and backward (dQ, dK, dV, dgrad_O, dgrad_L) for CuPy, derived from the
definitions of `grouped_query_double_backward`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 46 for the plain program (Q, K, V, grad_O to grad_Q,
grad_K and grad_V and gradients), 56 with mask and grad_L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="grouped_query_double_backward",
    inputs=(
        TensorSpec("Q", ("H*G", "n", "d"), "real", "queries; the heads of a group are neighbours"),
        TensorSpec("K", ("H", "m", "d"), "real", "keys, one for each group"),
        TensorSpec("V", ("H", "m", "d_v"), "real", "values, one for each group"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("grad_O", ("H*G", "n", "d_v"), "real", "cotangent of O"),
        TensorSpec("grad_L", ("H*G", "n"), "real", "cotangent of L", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("grad_Q", ("H*G", "n", "d"), "gradient with respect to Q"),
        OutputSpec("grad_K", ("H", "m", "d"), "gradient with respect to K"),
        OutputSpec("grad_V", ("H", "m", "d_v"), "gradient with respect to V"),
    ),
    gradients=("Q", "K", "V", "grad_O", "grad_L"),
    cotangents=("grad_Q", "grad_K", "grad_V"),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    grad_O: Array,
    mask: Array | None = None,
    grad_L: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Gradients of grouped_query, to be differentiated again.

    Q [.., H, G, n, d]: queries; the heads of a group are neighbours
    K [.., H, m, d]: keys, one for each group
    V [.., H, m, d_v]: values, one for each group
    mask [.., n, m]: True where key j is visible to query i, optional
    grad_O [.., H, G, n, d_v]: cotangent of O
    grad_L [.., H, G, n]: cotangent of L, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs grad_Q, grad_K and grad_V, and what the backward pass needs:

        M[i,j] = mask[i,j]
        S[h,g,i,j] = scale Σ_c K[h,j,c] Q[h,g,i,c]
        A[h,g,i,j] = M[i,j] exp(S[h,g,i,j])/(Σ_j′ M[i,j′] exp(S[h,g,i,j′]))
        grad_V[h,j,v] = Σ_gi A[h,g,i,j] grad_O[h,g,i,v]
        grad_A[h,g,i,j] = Σ_v V[h,j,v] grad_O[h,g,i,v]
        r[h,g,i] = Σ_j A[h,g,i,j] grad_A[h,g,i,j] − grad_L[h,g,i]
        grad_S_1[h,g,i,j] = grad_A[h,g,i,j] − r[h,g,i]
        grad_S[h,g,i,j] = A[h,g,i,j] grad_S_1[h,g,i,j]
        grad_Q[h,g,i,c] = scale Σ_j K[h,j,c] grad_S[h,g,i,j]
        grad_K[h,j,c] = scale Σ_gi Q[h,g,i,c] grad_S[h,g,i,j]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = mask
    S = matmul(xp, Q_scaled, K.mT, axes=(2, 1, 1))
    S_max = visible_max(xp, S, None if M is None else M[..., None, None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), None if M is None else M[..., None, None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], None if M is None else M[..., None, None, :, :])
    grad_V = visible_matmul(
        xp,
        xp.moveaxis(A, -1, -3),
        grad_O,
        None if M is None else M.mT[..., None, :, None, :],
        axes=(1, 2, 1),
    )
    grad_A = matmul(xp, grad_O, V.mT, axes=(2, 1, 1))
    r = xp.sum(visible_only(xp, A * grad_A, None if M is None else M[..., None, None, :, :]), axis=-1)
    if grad_L is not None:
        r = r - grad_L
    grad_S_1 = grad_A - r[..., None]
    grad_S = visible_only(xp, A * grad_S_1, None if M is None else M[..., None, None, :, :])
    grad_Q = scale * visible_matmul(xp, grad_S, K, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1))
    grad_K = visible_matmul(
        xp,
        xp.moveaxis(grad_S, -1, -3),
        Q_scaled,
        None if M is None else M.mT[..., None, :, None, :],
        axes=(1, 2, 1),
    )
    outputs = {"grad_Q": grad_Q, "grad_K": grad_K, "grad_V": grad_V}
    return outputs, {"K": K, "Q": Q, "A": A, "M": M, "grad_O": grad_O, "V": V, "grad_S_1": grad_S_1, "grad_A": grad_A, "grad_S": grad_S, "scale": scale}


def backward(
    dgrad_Q: Array,
    dgrad_K: Array,
    dgrad_V: Array,
    *,
    K: Array,
    Q: Array,
    A: Array,
    M: Array | None,
    grad_O: Array,
    V: Array,
    grad_S_1: Array,
    grad_A: Array,
    grad_S: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of grouped_query_double_backward, derived from its definitions.

    dgrad_Q [.., H, G, n, d]: cotangent of grad_Q
    dgrad_K [.., H, m, d]: cotangent of grad_K
    dgrad_V [.., H, m, d_v]: cotangent of grad_V

    Returns the gradients with respect to Q, K, V, grad_O and grad_L. Steps:

        ∇grad_S[h,g,i,j] = scale (Σ_c K[h,j,c] ∇grad_Q[h,g,i,c] + Σ_c Q[h,g,i,c] ∇grad_K[h,j,c])    (product,
            sum over uses, factor)
        ∇grad_S_1[h,g,i,j] = A[h,g,i,j] ∇grad_S[h,g,i,j]    (chain rule)
        ∇r[h,g,i] = −Σ_j ∇grad_S_1[h,g,i,j]    (chain rule)
        ∇grad_L[h,g,i] = −∇r[h,g,i]    (chain rule)
        ∇grad_A[h,g,i,j] = A[h,g,i,j] ∇r[h,g,i] + ∇grad_S_1[h,g,i,j]    (added term, product, sum over uses)
        ∇V[h,j,v] = Σ_gi ∇grad_A[h,g,i,j] grad_O[h,g,i,v]    (product)
        ∇grad_O[h,g,i,v] = Σ_j A[h,g,i,j] ∇grad_V[h,j,v] + Σ_j V[h,j,v] ∇grad_A[h,g,i,j]    (product, sum over
            uses)
        ∇A[h,g,i,j] = Σ_v ∇grad_V[h,j,v] grad_O[h,g,i,v] + ∇grad_S[h,g,i,j] grad_S_1[h,g,i,j] + ∇r[h,g,i]
            grad_A[h,g,i,j]    (chain rule, product, sum over uses)
        r2[h,g,i] = Σ_j A[h,g,i,j] ∇A[h,g,i,j]    (name a reduction)
        ∇S[h,g,i,j] = A[h,g,i,j] (∇A[h,g,i,j] − r2[h,g,i])    (softmax, fold, factor)
        ∇Q[h,g,i,c] = scale (Σ_j K[h,j,c] ∇S[h,g,i,j] + Σ_j ∇grad_K[h,j,c] grad_S[h,g,i,j])    (product, sum
            over uses, factor)
        ∇K[h,j,c] = scale (Σ_gi Q[h,g,i,c] ∇S[h,g,i,j] + Σ_gi ∇grad_Q[h,g,i,c] grad_S[h,g,i,j])    (product,
            sum over uses, factor)
    """
    dgrad_S = scale * (matmul(xp, dgrad_Q, K.mT, axes=(2, 1, 1)) + matmul(xp, Q, dgrad_K.mT, axes=(2, 1, 1)))
    dgrad_S_1 = visible_only(xp, A * dgrad_S, None if M is None else M[..., None, None, :, :])
    dr = -xp.sum(dgrad_S_1, axis=-1)
    dgrad_L = -dr
    dgrad_A = visible_only(xp, A * dr[..., None], None if M is None else M[..., None, None, :, :]) + dgrad_S_1
    dV = visible_matmul(
        xp,
        xp.moveaxis(dgrad_A, -1, -3),
        grad_O,
        None if M is None else M.mT[..., None, :, None, :],
        axes=(1, 2, 1),
    )
    dgrad_O = visible_matmul(xp, A, dgrad_V, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1)) + visible_matmul(xp, dgrad_A, V, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1))
    dA = matmul(xp, grad_O, dgrad_V.mT, axes=(2, 1, 1)) + dgrad_S * grad_S_1 + dr[..., None] * grad_A
    r2 = xp.sum(visible_only(xp, A * dA, None if M is None else M[..., None, None, :, :]), axis=-1)
    dS = visible_only(xp, A * (dA - r2[..., None]), None if M is None else M[..., None, None, :, :])
    dQ = scale * (visible_matmul(xp, dS, K, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1)) + visible_matmul(xp, grad_S, dgrad_K, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1)))
    dK = scale * (visible_matmul(xp, xp.moveaxis(dS, -1, -3), Q, None if M is None else M.mT[..., None, :, None, :], axes=(1, 2, 1)) + visible_matmul(xp, xp.moveaxis(grad_S, -1, -3), dgrad_Q, None if M is None else M.mT[..., None, :, None, :], axes=(1, 2, 1)))
    return {"Q": dQ, "K": dK, "V": dV, "grad_O": dgrad_O, "grad_L": dgrad_L}
