# Seal of generated text, broken by edits: 8903e14ba5606181ad5fc0a6f5db4352
"""Gradients of rope_attention, to be differentiated again.

Forward (grad_Q, grad_K, grad_V) and backward (dQ, dK, dV, dbias, dgrad_O, dgrad_L) for CuPy, derived from the
definitions of `rope_attention_double_backward`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 125 for the plain program (Q, K, V, position_q,
position_k, grad_O to grad_Q, grad_K and grad_V and gradients), 138 with mask, bias and grad_L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="rope_attention_double_backward",
    inputs=(
        TensorSpec("Q", ("n", "2*pairs"), "real", "queries, of even width"),
        TensorSpec("K", ("m", "2*pairs"), "real", "keys, of even width"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("position_q", ("n",), "real", "the position of query i"),
        TensorSpec("position_k", ("m",), "real", "the position of key j"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("grad_O", ("n", "d_v"), "real", "cotangent of O"),
        TensorSpec("grad_L", ("n",), "real", "cotangent of L", neutral=0),
    ),
    parameters=(
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("grad_Q", ("n", "2*pairs"), "gradient with respect to Q"),
        OutputSpec("grad_K", ("m", "2*pairs"), "gradient with respect to K"),
        OutputSpec("grad_V", ("m", "d_v"), "gradient with respect to V"),
    ),
    gradients=("Q", "K", "V", "bias", "grad_O", "grad_L"),
    cotangents=("grad_Q", "grad_K", "grad_V"),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    position_q: Array,
    position_k: Array,
    grad_O: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    grad_L: Array | None = None,
    *,
    base: float = 10000,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Gradients of rope_attention, to be differentiated again.

    Q [.., n, 2, pairs]: queries, of even width
    K [.., m, 2, pairs]: keys, of even width
    V [.., m, d_v]: values
    position_q [.., n]: the position of query i
    position_k [.., m]: the position of key j
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    grad_O [.., n, d_v]: cotangent of O
    grad_L [.., n]: cotangent of L, optional
    base: pair p turns by the position times base to the power −p/pairs
    scale: multiplies the scores before the bias is added (default 1/√(2 pairs))

    Returns the outputs grad_Q, grad_K and grad_V, and what the backward pass needs:

        C_q[i,p] = cos(base^(-p/pairs) position_q[i])
        N_q[i,p] = sin(base^(-p/pairs) position_q[i])
        Q_turned[i,s,p] = C_q[i,p] Q[i,s,p] + N_q[i,p] Σ_s′ Q[i,s′,p] QuarterTurn(s, s′)
        C_k[j,p] = cos(base^(-p/pairs) position_k[j])
        N_k[j,p] = sin(base^(-p/pairs) position_k[j])
        K_turned[j,s,p] = C_k[j,p] K[j,s,p] + N_k[j,p] Σ_s′ K[j,s′,p] QuarterTurn(s, s′)
        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_sp K_turned[j,s,p] Q_turned[i,s,p]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        grad_V[j,v] = Σ_i A[i,j] grad_O[i,v]
        grad_A[i,j] = Σ_v V[j,v] grad_O[i,v]
        r[i] = Σ_j A[i,j] grad_A[i,j] − grad_L[i]
        grad_S_1[i,j] = grad_A[i,j] − r[i]
        grad_S[i,j] = A[i,j] grad_S_1[i,j]
        grad_K_turned[j,s,p] = scale Σ_i Q_turned[i,s,p] grad_S[i,j]
        grad_K[j,s,p] = C_k[j,p] grad_K_turned[j,s,p] + N_k[j,p] Σ_s′ −QuarterTurn(s, s′)
            grad_K_turned[j,s′,p]
        grad_Q_turned[i,s,p] = scale Σ_j K_turned[j,s,p] grad_S[i,j]
        grad_Q[i,s,p] = C_q[i,p] grad_Q_turned[i,s,p] + N_q[i,p] Σ_s′ −QuarterTurn(s, s′)
            grad_Q_turned[i,s′,p]
    """
    pairs = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(2*max(pairs, 1))
    C_q = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    N_q = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    Q_turned = C_q[..., None, :] * Q + N_q[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    C_k = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    N_k = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    K_turned = C_k[..., None, :] * K + N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(K, -3, -2), axes=(1, 1, 2)), -3, -2)
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = scale * matmul(xp, Q_turned, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1))
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    grad_V = visible_matmul(xp, A.mT, grad_O, None if M is None else M.mT)
    grad_A = grad_O @ V.mT
    r = xp.sum(visible_only(xp, A * grad_A, M), axis=-1)
    if grad_L is not None:
        r = r - grad_L
    grad_S_1 = grad_A - r[..., None]
    grad_S = visible_only(xp, A * grad_S_1, M)
    grad_K_turned = scale * visible_matmul(xp, grad_S.mT, Q_turned, None if M is None else M.mT, axes=(1, 1, 2))
    grad_K = C_k[..., None, :] * grad_K_turned + N_k[..., None, :] * xp.moveaxis(matmul(xp, (xp.arange(2)[:, None] - xp.arange(2)[None, :]) * (-1), xp.moveaxis(grad_K_turned, -3, -2), axes=(1, 1, 2)), -3, -2)
    grad_Q_turned = scale * visible_matmul(xp, grad_S, K_turned, M, axes=(1, 1, 2))
    grad_Q = C_q[..., None, :] * grad_Q_turned + N_q[..., None, :] * xp.moveaxis(matmul(xp, (xp.arange(2)[:, None] - xp.arange(2)[None, :]) * (-1), xp.moveaxis(grad_Q_turned, -3, -2), axes=(1, 1, 2)), -3, -2)
    outputs = {"grad_Q": grad_Q, "grad_K": grad_K, "grad_V": grad_V}
    return outputs, {"C_q": C_q, "N_q": N_q, "C_k": C_k, "N_k": N_k, "K_turned": K_turned, "Q_turned": Q_turned, "A": A, "M": M, "grad_O": grad_O, "V": V, "grad_S_1": grad_S_1, "grad_A": grad_A, "grad_S": grad_S, "scale": scale}


def backward(
    dgrad_Q: Array,
    dgrad_K: Array,
    dgrad_V: Array,
    *,
    C_q: Array,
    N_q: Array,
    C_k: Array,
    N_k: Array,
    K_turned: Array,
    Q_turned: Array,
    A: Array,
    M: Array | None,
    grad_O: Array,
    V: Array,
    grad_S_1: Array,
    grad_A: Array,
    grad_S: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of rope_attention_double_backward, derived from its definitions.

    dgrad_Q [.., n, 2, pairs]: cotangent of grad_Q
    dgrad_K [.., m, 2, pairs]: cotangent of grad_K
    dgrad_V [.., m, d_v]: cotangent of grad_V

    Returns the gradients with respect to Q, K, V, bias, grad_O and grad_L. Steps:

        ∇grad_Q_turned[i,s,p] = C_q[i,p] ∇grad_Q[i,s,p] + N_q[i,p] Σ_s′ QuarterTurn(s, s′) ∇grad_Q[i,s′,p]
            (chain rule)
        ∇grad_K_turned[j,s,p] = C_k[j,p] ∇grad_K[j,s,p] + N_k[j,p] Σ_s′ QuarterTurn(s, s′) ∇grad_K[j,s′,p]
            (chain rule)
        ∇grad_S[i,j] = scale (Σ_sp K_turned[j,s,p] ∇grad_Q_turned[i,s,p] + Σ_sp Q_turned[i,s,p]
            ∇grad_K_turned[j,s,p])    (product, sum over uses, factor)
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
        ∇bias[i,j] = ∇S[i,j]    (added term)
        ∇K_turned[j,s,p] = scale (Σ_i Q_turned[i,s,p] ∇S[i,j] + Σ_i ∇grad_Q_turned[i,s,p] grad_S[i,j])
            (product, sum over uses, factor)
        ∇K[j,s,p] = C_k[j,p] ∇K_turned[j,s,p] − N_k[j,p] Σ_s′ QuarterTurn(s, s′) ∇K_turned[j,s′,p]    (chain
            rule)
        ∇Q_turned[i,s,p] = scale (Σ_j K_turned[j,s,p] ∇S[i,j] + Σ_j ∇grad_K_turned[j,s,p] grad_S[i,j])
            (product, sum over uses, factor)
        ∇Q[i,s,p] = C_q[i,p] ∇Q_turned[i,s,p] − N_q[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_turned[i,s′,p]    (chain
            rule)
    """
    dgrad_Q_turned = C_q[..., None, :] * dgrad_Q + N_q[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dgrad_Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    dgrad_K_turned = C_k[..., None, :] * dgrad_K + N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dgrad_K, -3, -2), axes=(1, 1, 2)), -3, -2)
    dgrad_S = scale * (matmul(xp, dgrad_Q_turned, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1)) + matmul(xp, Q_turned, xp.moveaxis(dgrad_K_turned, -3, -1), axes=(1, 2, 1)))
    dgrad_S_1 = visible_only(xp, A * dgrad_S, M)
    dr = -xp.sum(dgrad_S_1, axis=-1)
    dgrad_L = -dr
    dgrad_A = visible_only(xp, A * dr[..., None], M) + dgrad_S_1
    dV = visible_matmul(xp, dgrad_A.mT, grad_O, None if M is None else M.mT)
    dgrad_O = visible_matmul(xp, A, dgrad_V, M) + visible_matmul(xp, dgrad_A, V, M)
    dA = grad_O @ dgrad_V.mT + dgrad_S * grad_S_1 + dr[..., None] * grad_A
    r2 = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    dS = visible_only(xp, A * (dA - r2[..., None]), M)
    dbias = dS
    dK_turned = scale * (visible_matmul(xp, dS.mT, Q_turned, None if M is None else M.mT, axes=(1, 1, 2)) + visible_matmul(xp, grad_S.mT, dgrad_Q_turned, None if M is None else M.mT, axes=(1, 1, 2)))
    dK = C_k[..., None, :] * dK_turned - N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dK_turned, -3, -2), axes=(1, 1, 2)), -3, -2)
    dQ_turned = scale * (visible_matmul(xp, dS, K_turned, M, axes=(1, 1, 2)) + visible_matmul(xp, grad_S, dgrad_K_turned, M, axes=(1, 1, 2)))
    dQ = C_q[..., None, :] * dQ_turned - N_q[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_turned, -3, -2), axes=(1, 1, 2)), -3, -2)
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias, "grad_O": dgrad_O, "grad_L": dgrad_L}
