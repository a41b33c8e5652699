# Seal of generated text, broken by edits: 99952b46a40a18db4ac318a63663d63a
"""Attention to low-rank mixtures of keys and values.

Forward (O, L) and backward (dQ, dK, dV, dE_k, dE_v) for NumPy, derived from the definitions of
`linformer_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 23 for the plain program (Q, K, V, E_k, E_v to O and
gradients), 26 with L.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import visible_max

SIGNATURE = Signature(
    program="linformer_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("E_k", ("rank", "m"), "real", "mixes keys along the sequence"),
        TensorSpec("E_v", ("rank", "m"), "real", "mixes values along the sequence"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "E_k", "E_v"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    E_k: Array,
    E_v: Array,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention to low-rank mixtures of keys and values.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    E_k [.., rank, m]: mixes keys along the sequence
    E_v [.., rank, m]: mixes values along the sequence
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        K_mixed[r,c] = Σ_j E_k[r,j] K[j,c]
        V_mixed[r,v] = Σ_j E_v[r,j] V[j,v]
        S[i,r] = scale Σ_c K_mixed[r,c] Q[i,c]
        A[i,r] = exp(S[i,r])/(Σ_r′ exp(S[i,r′]))
        O[i,v] = Σ_r A[i,r] V_mixed[r,v]
        L[i] = log(Σ_r exp(S[i,r]))
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    K_mixed = E_k @ K
    V_mixed = E_v @ V
    S = Q_scaled @ K_mixed.mT
    S_max = visible_max(xp, S, None)
    E = xp.exp(S - S_max[..., None])
    Z = xp.sum(E, axis=-1)
    A = E / Z[..., None]
    O = A @ V_mixed
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"V_mixed": V_mixed, "A": A, "K_mixed": K_mixed, "E_v": E_v, "V": V, "Q_scaled": Q_scaled, "E_k": E_k, "K": K, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    V_mixed: Array,
    A: Array,
    K_mixed: Array,
    E_v: Array,
    V: Array,
    Q_scaled: Array,
    E_k: Array,
    K: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of linformer_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, E_k and E_v. Steps:

        ∇A[i,r] = Σ_v V_mixed[r,v] ∇O[i,v]    (product)
        r[i] = Σ_r A[i,r] ∇A[i,r] − ∇L[i]    (name a reduction)
        ∇S[i,r] = A[i,r] (∇A[i,r] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale Σ_r K_mixed[r,c] ∇S[i,r]    (product)
        ∇V_mixed[r,v] = Σ_i A[i,r] ∇O[i,v]    (product)
        ∇V[j,v] = Σ_r E_v[r,j] ∇V_mixed[r,v]    (product)
        ∇E_v[r,j] = Σ_v V[j,v] ∇V_mixed[r,v]    (product)
        ∇K_mixed[r,c] = scale Σ_i Q[i,c] ∇S[i,r]    (product)
        ∇K[j,c] = Σ_r E_k[r,j] ∇K_mixed[r,c]    (product)
        ∇E_k[r,j] = Σ_c K[j,c] ∇K_mixed[r,c]    (product)
    """
    dA = dO @ V_mixed.mT
    r = xp.sum(A * dA, axis=-1)
    if dL is not None:
        r = r - dL
    dS = A * (dA - r[..., None])
    dQ = scale * (dS @ K_mixed)
    dV_mixed = A.mT @ dO
    dV = E_v.mT @ dV_mixed
    dE_v = dV_mixed @ V.mT
    dK_mixed = dS.mT @ Q_scaled
    dK = E_k.mT @ dK_mixed
    dE_k = dK_mixed @ K.mT
    return {"Q": dQ, "K": dK, "V": dV, "E_k": dE_k, "E_v": dE_v}
