# Seal of generated text, broken by edits: 9628af61cda11e78014757b40c2108c7
"""Attention with rotary positions, interleaved layout.

Forward (O, L) and backward (dQ, dK, dV, dbias) for CuPy, derived from the definitions of
`rope_interleaved_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 66 for the plain program (Q, K, V, position_q,
position_k to O and gradients), 76 with mask, bias and L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="rope_interleaved_attention",
    inputs=(
        TensorSpec("Q", ("n", "pairs*2"), "real", "queries, of even width"),
        TensorSpec("K", ("m", "pairs*2"), "real", "keys, of even width"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("position_q", ("n",), "real", "the position of query i"),
        TensorSpec("position_k", ("m",), "real", "the position of key j"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "bias"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    position_q: Array,
    position_k: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    base: float = 10000,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with rotary positions, interleaved layout.

    Q [.., n, pairs, 2]: queries, of even width
    K [.., m, pairs, 2]: keys, of even width
    V [.., m, d_v]: values
    position_q [.., n]: the position of query i
    position_k [.., m]: the position of key j
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    base: pair p turns by the position times base to the power −p/pairs
    scale: multiplies the scores before the bias is added (default 1/√(2 pairs))

    Returns the outputs O and L, and what the backward pass needs:

        C_q[i,p] = cos(base^(-p/pairs) position_q[i])
        N_q[i,p] = sin(base^(-p/pairs) position_q[i])
        Q_turned[i,p,s] = C_q[i,p] Q[i,p,s] + N_q[i,p] Σ_s′ Q[i,p,s′] QuarterTurn(s, s′)
        C_k[j,p] = cos(base^(-p/pairs) position_k[j])
        N_k[j,p] = sin(base^(-p/pairs) position_k[j])
        K_turned[j,p,s] = C_k[j,p] K[j,p,s] + N_k[j,p] Σ_s′ K[j,p,s′] QuarterTurn(s, s′)
        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_sp K_turned[j,p,s] Q_turned[i,p,s]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
    """
    pairs = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(2*max(pairs, 1))
    C_q = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    N_q = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    Q_turned = C_q[..., None] * Q + N_q[..., None] * matmul(xp, Q, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1))
    C_k = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    N_k = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    K_turned = C_k[..., None] * K + N_k[..., None] * matmul(xp, K, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1))
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = scale * matmul(xp, Q_turned.mT, xp.moveaxis(K_turned, (-1, -3), (-3, -1)), axes=(1, 2, 1))
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "Q_turned": Q_turned, "C_k": C_k, "N_k": N_k, "K_turned": K_turned, "C_q": C_q, "N_q": N_q, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    Q_turned: Array,
    C_k: Array,
    N_k: Array,
    K_turned: Array,
    C_q: Array,
    N_q: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of rope_interleaved_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V and bias. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇bias[i,j] = ∇S[i,j]    (added term)
        ∇K_turned[j,p,s] = scale Σ_i Q_turned[i,p,s] ∇S[i,j]    (product)
        ∇K[j,p,s] = C_k[j,p] ∇K_turned[j,p,s] − N_k[j,p] Σ_s′ QuarterTurn(s, s′) ∇K_turned[j,p,s′]    (chain
            rule)
        ∇Q_turned[i,p,s] = scale Σ_j K_turned[j,p,s] ∇S[i,j]    (product)
        ∇Q[i,p,s] = C_q[i,p] ∇Q_turned[i,p,s] − N_q[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_turned[i,p,s′]    (chain
            rule)
    """
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dbias = dS
    dK_turned = scale * visible_matmul(xp, dS.mT, Q_turned, None if M is None else M.mT, axes=(1, 1, 2))
    dK = C_k[..., None] * dK_turned - N_k[..., None] * matmul(xp, dK_turned, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1))
    dQ_turned = scale * visible_matmul(xp, dS, K_turned, M, axes=(1, 1, 2))
    dQ = C_q[..., None] * dQ_turned - N_q[..., None] * matmul(xp, dQ_turned, (xp.arange(2)[:, None] - xp.arange(2)[None, :]).mT, axes=(2, 1, 1))
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias}
