# Seal of generated text, broken by edits: 227e53b46fe6a33198e8642f3019e24b
"""Gradients of causal_attention, to be differentiated again.

Forward (grad_Q, grad_K, grad_V) and backward (dQ, dK, dV, dbias, dgrad_O, dgrad_L) for CuPy, derived from the
definitions of `causal_attention_double_backward`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 58 for the plain program (Q, K, V, grad_O to grad_Q,
grad_K and grad_V and gradients), 63 with mask, bias and grad_L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="causal_attention_double_backward",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("grad_O", ("n", "d_v"), "real", "cotangent of O"),
        TensorSpec("grad_L", ("n",), "real", "cotangent of L", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
        ParameterSpec("offset", "integer", "key j is visible to query i where j <= i + offset"),
    ),
    outputs=(
        OutputSpec("grad_Q", ("n", "d"), "gradient with respect to Q"),
        OutputSpec("grad_K", ("m", "d"), "gradient with respect to K"),
        OutputSpec("grad_V", ("m", "d_v"), "gradient with respect to V"),
    ),
    gradients=("Q", "K", "V", "bias", "grad_O", "grad_L"),
    cotangents=("grad_Q", "grad_K", "grad_V"),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    grad_O: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    grad_L: Array | None = None,
    *,
    scale: float | None = None,
    offset: int = 0,
) -> tuple[dict[str, Array], Saved]:
    """Gradients of causal_attention, to be differentiated again.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    grad_O [.., n, d_v]: cotangent of O
    grad_L [.., n]: cotangent of L, optional
    scale: multiplies the scores before the bias is added (default 1/√d)
    offset: key j is visible to query i where j <= i + offset

    Returns the outputs grad_Q, grad_K and grad_V, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] [j ≤ i + offset] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        grad_V[j,v] = Σ_i A[i,j] grad_O[i,v]
        grad_A[i,j] = Σ_v V[j,v] grad_O[i,v]
        r[i] = Σ_j A[i,j] grad_A[i,j] − grad_L[i]
        grad_S_1[i,j] = grad_A[i,j] − r[i]
        grad_S[i,j] = A[i,j] grad_S_1[i,j]
        grad_Q[i,c] = scale Σ_j K[j,c] grad_S[i,j]
        grad_K[j,c] = scale Σ_i Q[i,c] grad_S[i,j]
    """
    d = Q.shape[-1]
    m = K.shape[-2]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = all_of(
        xp.arange(m)[None, :] <= (xp.arange(n) + offset)[..., None],
        mask,
        None if bias is None else bias != -xp.inf,
    )
    S = Q_scaled @ K.mT
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    grad_V = visible_matmul(xp, A.mT, grad_O, M.mT)
    grad_A = grad_O @ V.mT
    r = xp.sum(visible_only(xp, A * grad_A, M), axis=-1)
    if grad_L is not None:
        r = r - grad_L
    grad_S_1 = grad_A - r[..., None]
    grad_S = visible_only(xp, A * grad_S_1, M)
    grad_Q = scale * visible_matmul(xp, grad_S, K, M)
    grad_K = visible_matmul(xp, grad_S.mT, Q_scaled, M.mT)
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
    M: Array,
    grad_O: Array,
    V: Array,
    grad_S_1: Array,
    grad_A: Array,
    grad_S: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of causal_attention_double_backward, derived from its definitions.

    dgrad_Q [.., n, d]: cotangent of grad_Q
    dgrad_K [.., m, d]: cotangent of grad_K
    dgrad_V [.., m, d_v]: cotangent of grad_V

    Returns the gradients with respect to Q, K, V, bias, grad_O and grad_L. Steps:

        ∇grad_S[i,j] = scale (Σ_c K[j,c] ∇grad_Q[i,c] + Σ_c Q[i,c] ∇grad_K[j,c])    (product, sum over uses,
            factor)
        ∇grad_S_1[i,j] = A[i,j] ∇grad_S[i,j]    (chain rule)
        ∇r[i] = −Σ_j ∇grad_S_1[i,j]    (chain rule)
        ∇grad_L[i] = −∇r[i]    (chain rule)
        ∇grad_A[i,j] = A[i,j] ∇r[i] + ∇grad_S_1[i,j]    (added term, product, sum over uses)
        ∇V[j,v] = Σ_i ∇grad_A[i,j] grad_O[i,v]    (product)
        ∇grad_O[i,v] = Σ_j A[i,j] ∇grad_V[j,v] + Σ_j V[j,v] ∇grad_A[i,j]    (product, sum over uses)
        ∇A[i,j] = Σ_v ∇grad_V[j,v] grad_O[i,v] + ∇grad_S[i,j] grad_S_1[i,j] + ∇r[i] grad_A[i,j]    (chain
            rule, product, sum over uses)
        r2[i] = Σ_j A[i,j] ∇A[i,j]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r2[i])    (softmax, fold, factor)
        ∇Q[i,c] = scale (Σ_j K[j,c] ∇S[i,j] + Σ_j ∇grad_K[j,c] grad_S[i,j])    (product, sum over uses,
            factor)
        ∇K[j,c] = scale (Σ_i Q[i,c] ∇S[i,j] + Σ_i ∇grad_Q[i,c] grad_S[i,j])    (product, sum over uses,
            factor)
        ∇bias[i,j] = ∇S[i,j]    (added term)
    """
    dgrad_S = scale * (dgrad_Q @ K.mT + Q @ dgrad_K.mT)
    dgrad_S_1 = visible_only(xp, A * dgrad_S, M)
    dr = -xp.sum(dgrad_S_1, axis=-1)
    dgrad_L = -dr
    dgrad_A = visible_only(xp, A * dr[..., None], M) + dgrad_S_1
    dV = visible_matmul(xp, dgrad_A.mT, grad_O, M.mT)
    dgrad_O = visible_matmul(xp, A, dgrad_V, M) + visible_matmul(xp, dgrad_A, V, M)
    dA = grad_O @ dgrad_V.mT + dgrad_S * grad_S_1 + dr[..., None] * grad_A
    r2 = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    dS = visible_only(xp, A * (dA - r2[..., None]), M)
    dQ = scale * (visible_matmul(xp, dS, K, M) + visible_matmul(xp, grad_S, dgrad_K, M))
    dK = scale * (visible_matmul(xp, dS.mT, Q, M.mT) + visible_matmul(xp, grad_S.mT, dgrad_Q, M.mT))
    dbias = dS
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias, "grad_O": dgrad_O, "grad_L": dgrad_L}
