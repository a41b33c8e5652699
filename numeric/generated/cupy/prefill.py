# Seal of generated text, broken by edits: bfaebc763ce8ec2ae94dec4bf0251b0d
"""Causal attention of a chunk of new positions, with a cache of earlier keys and values.

Forward (O, L) and backward (dQ, dK, dV, dK_cache, dV_cache) for CuPy, derived from the definitions of
`prefill`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 44 for the plain program (Q, K, V, K_cache, V_cache
to O and gradients), 47 with L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import maximum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="prefill",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries of the new positions"),
        TensorSpec("K", ("n", "d"), "real", "keys of the new positions"),
        TensorSpec("V", ("n", "d_v"), "real", "values of the new positions"),
        TensorSpec("K_cache", ("m", "d"), "real", "keys of earlier positions"),
        TensorSpec("V_cache", ("m", "d_v"), "real", "values of earlier positions"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "K_cache", "V_cache"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    K_cache: Array,
    V_cache: Array,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Causal attention of a chunk of new positions, with a cache of earlier keys and values.

    Q [.., n, d]: queries of the new positions
    K [.., n, d]: keys of the new positions
    V [.., n, d_v]: values of the new positions
    K_cache [.., m, d]: keys of earlier positions
    V_cache [.., m, d_v]: values of earlier positions
    scale: multiplies the scores (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = [j ≤ i]
        S[i,j] = scale Σ_c K[j,c] Q[i,c]
        S_cache[i,k] = scale Σ_c K_cache[k,c] Q[i,c]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_i′ M[i,i′] exp(S[i,i′]) + Σ_k exp(S_cache[i,k]))
        A_cache[i,k] = exp(S_cache[i,k])/(Σ_i′ M[i,i′] exp(S[i,i′]) + Σ_k′ exp(S_cache[i,k′]))
        O[i,v] = Σ_i′ A[i,i′] V[i′,v] + Σ_k A_cache[i,k] V_cache[k,v]
        L[i] = log(Σ_i′ M[i,i′] exp(S[i,i′]) + Σ_k exp(S_cache[i,k]))
    """
    d = Q.shape[-1]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = xp.arange(n)[None, :] <= xp.arange(n)[:, None]
    S = Q_scaled @ K.mT
    S_cache = Q_scaled @ K_cache.mT
    S_max = maximum(xp, visible_max(xp, S_cache, None, empty=-xp.inf), visible_max(xp, S, M, empty=-xp.inf))
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    E2 = xp.exp(S_cache - S_max[..., None])
    Z = xp.sum(E, axis=-1) + xp.sum(E2, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    A_cache = E2 / Z[..., None]
    O = visible_matmul(xp, A, V, M) + A_cache @ V_cache
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "A_cache": A_cache, "V_cache": V_cache, "V": V, "Q_scaled": Q_scaled, "K": K, "K_cache": K_cache, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array,
    A_cache: Array,
    V_cache: Array,
    V: Array,
    Q_scaled: Array,
    K: Array,
    K_cache: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of prefill, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, K_cache and V_cache. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇V_cache[k,v] = Σ_i A_cache[i,k] ∇O[i,v]    (product)
        ∇A_cache[i,k] = Σ_v V_cache[k,v] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_i′ A[i,i′] ∇A[i,i′] + Σ_k A_cache[i,k] ∇A_cache[i,k] − ∇L[i]    (name a reduction)
        ∇S_cache[i,k] = A_cache[i,k] (∇A_cache[i,k] − r[i])    (logsumexp, softmax, chain rule, sum over uses,
            fold, factor)
        ∇K_cache[k,c] = scale Σ_i Q[i,c] ∇S_cache[i,k]    (product)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, chain rule, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale (Σ_i′ K[i′,c] ∇S[i,i′] + Σ_k K_cache[k,c] ∇S_cache[i,k])    (product, sum over uses,
            factor)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
    """
    dV = visible_matmul(xp, A.mT, dO, M.mT)
    dV_cache = A_cache.mT @ dO
    dA_cache = dO @ V_cache.mT
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1) + xp.sum(A_cache * dA_cache, axis=-1)
    if dL is not None:
        r = r - dL
    dS_cache = A_cache * (dA_cache - r[..., None])
    dK_cache = dS_cache.mT @ Q_scaled
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * (visible_matmul(xp, dS, K, M) + dS_cache @ K_cache)
    dK = visible_matmul(xp, dS.mT, Q_scaled, M.mT)
    return {"Q": dQ, "K": dK, "V": dV, "K_cache": dK_cache, "V_cache": dV_cache}
