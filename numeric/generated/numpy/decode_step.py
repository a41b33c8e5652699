# Seal of generated text, broken by edits: f144d69ef0e6fa0e91348301c049f850
"""Attention of one new position, with a cache of earlier keys and values.

Forward (O, L) and backward (dQ, dK, dV, dK_cache, dV_cache) for NumPy, derived from the definitions of
`decode_step`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 28 for the plain program (Q, K, V, K_cache, V_cache
to O and gradients), 28 with L.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, maximum, visible_max

SIGNATURE = Signature(
    program="decode_step",
    inputs=(
        TensorSpec("Q", ("d",), "real", "the query of the new position"),
        TensorSpec("K", ("d",), "real", "the key of the new position"),
        TensorSpec("V", ("d_v",), "real", "the value of the new position"),
        TensorSpec("K_cache", ("m", "d"), "real", "keys of earlier positions"),
        TensorSpec("V_cache", ("m", "d_v"), "real", "values of earlier positions"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("O", ("d_v",), "outputs: the weighted averages of the values"),
        OutputSpec("L", (), "logsumexp of the visible scores, natural logarithm", statistic=True),
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
    """Attention of one new position, with a cache of earlier keys and values.

    Q [.., d]: the query of the new position
    K [.., d]: the key of the new position
    V [.., d_v]: the value of the new position
    K_cache [.., m, d]: keys of earlier positions
    V_cache [.., m, d_v]: values of earlier positions
    scale: multiplies the scores (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        S = scale Σ_c K[c] Q[c]
        S_cache[k] = scale Σ_c K_cache[k,c] Q[c]
        A = exp(S)/(Σ_k exp(S_cache[k]) + exp(S))
        A_cache[k] = exp(S_cache[k])/(Σ_k′ exp(S_cache[k′]) + exp(S))
        O[v] = A V[v] + Σ_k A_cache[k] V_cache[k,v]
        L = log(Σ_k exp(S_cache[k]) + exp(S))
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    S = xp.sum(K * Q_scaled, axis=-1)
    S_cache = matmul(xp, Q_scaled, K_cache.mT, axes=(0, 1, 1))
    S_cache_max = maximum(xp, S, visible_max(xp, S_cache, None, empty=-xp.inf))
    E = xp.exp(S_cache - S_cache_max[..., None])
    E2 = xp.exp(S - S_cache_max)
    Z = E2 + xp.sum(E, axis=-1)
    A = E2 / Z
    A_cache = E / Z[..., None]
    O = A[..., None] * V + matmul(xp, A_cache, V_cache, axes=(0, 1, 1))
    L = S_cache_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "A_cache": A_cache, "V_cache": V_cache, "V": V, "Q": Q, "K": K, "K_cache": K_cache, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    A_cache: Array,
    V_cache: Array,
    V: Array,
    Q: Array,
    K: Array,
    K_cache: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of decode_step, derived from its definitions.

    dO [.., d_v]: cotangent of O
    dL [..]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, K_cache and V_cache. Steps:

        ∇V[v] = A ∇O[v]    (chain rule)
        ∇V_cache[k,v] = A_cache[k] ∇O[v]    (product)
        ∇A_cache[k] = Σ_v V_cache[k,v] ∇O[v]    (product)
        ∇A = Σ_v V[v] ∇O[v]    (chain rule)
        r = A ∇A + Σ_k A_cache[k] ∇A_cache[k] − ∇L    (name a reduction)
        ∇S_cache[k] = A_cache[k] (∇A_cache[k] − r)    (logsumexp, softmax, chain rule, sum over uses, fold,
            factor)
        ∇K_cache[k,c] = scale Q[c] ∇S_cache[k]    (product)
        ∇S = A(∇A − r)    (logsumexp, chain rule, sum over uses, fold, factor)
        ∇Q[c] = scale (∇S K[c] + Σ_k K_cache[k,c] ∇S_cache[k])    (product, sum over uses, factor)
        ∇K[c] = ∇S scale Q[c]    (product)
    """
    dV = A[..., None] * dO
    dV_cache = A_cache[..., None] * dO[..., None, :]
    dA_cache = matmul(xp, dO, V_cache.mT, axes=(0, 1, 1))
    dA = xp.sum(V * dO, axis=-1)
    r = A * dA + xp.sum(A_cache * dA_cache, axis=-1)
    if dL is not None:
        r = r - dL
    dS_cache = A_cache * (dA_cache - r[..., None])
    dK_cache = (scale * Q)[..., None, :] * dS_cache[..., None]
    dS = A * (dA - r)
    dQ = scale * (K * dS[..., None] + matmul(xp, dS_cache, K_cache, axes=(0, 1, 1)))
    dK = Q * (scale * dS)[..., None]
    return {"Q": dQ, "K": dK, "V": dV, "K_cache": dK_cache, "V_cache": dV_cache}
