# Seal of generated text, broken by edits: 4598a51f4280caf0834a31f29a6fb5e0
"""Attention with the difference of two softmaxes.

Forward (O) and backward (dV, dlam, dQ1, dK1, dQ2, dK2) for NumPy, derived from the definitions of
`differential_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 39 for the plain program (V, lam, Q1, K1, Q2, K2 to O
and gradients), 49 with mask.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="differential_attention",
    inputs=(
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("lam", (), "real", "how much of the second softmax is subtracted; one for each head"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("Q1", ("n", "d"), "real", "queries of softmax 1"),
        TensorSpec("K1", ("m", "d"), "real", "keys of softmax 1"),
        TensorSpec("Q2", ("n", "d"), "real", "queries of softmax 2"),
        TensorSpec("K2", ("m", "d"), "real", "keys of softmax 2"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the values under the difference of two weightings"),
    ),
    gradients=("V", "lam", "Q1", "K1", "Q2", "K2"),
    cotangents=("O",),
)


def forward(
    V: Array,
    lam: Array,
    Q1: Array,
    K1: Array,
    Q2: Array,
    K2: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with the difference of two softmaxes.

    V [.., m, d_v]: values
    lam [..]: how much of the second softmax is subtracted; one for each head
    mask [.., n, m]: True where key j is visible to query i, optional
    Q1 [.., n, d]: queries of softmax 1
    K1 [.., m, d]: keys of softmax 1
    Q2 [.., n, d]: queries of softmax 2
    K2 [.., m, d]: keys of softmax 2
    scale: multiplies the scores (default 1/√d)

    Returns the outputs O, and what the backward pass needs:

        M[i,j] = mask[i,j]
        S1[i,j] = scale Σ_c K1[j,c] Q1[i,c]
        A1[i,j] = M[i,j] exp(S1[i,j])/(Σ_j′ M[i,j′] exp(S1[i,j′]))
        S2[i,j] = scale Σ_c K2[j,c] Q2[i,c]
        A2[i,j] = M[i,j] exp(S2[i,j])/(Σ_j′ M[i,j′] exp(S2[i,j′]))
        A[i,j] = A1[i,j] − lam A2[i,j]
        O[i,v] = Σ_j A[i,j] V[j,v]
    """
    d = Q1.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q1_scaled = scale * Q1
    M = mask
    S1 = Q1_scaled @ K1.mT
    S1_max = visible_max(xp, S1, M)
    E = visible_only(xp, xp.exp(S1 - S1_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A1 = visible_only(xp, E / Z[..., None], M)
    S2 = scale * (Q2 @ K2.mT)
    S2_max = visible_max(xp, S2, M)
    E2 = visible_only(xp, xp.exp(S2 - S2_max[..., None]), M)
    Z2 = xp.sum(E2, axis=-1)
    A2 = visible_only(xp, E2 / Z2[..., None], M)
    A = A1 - visible_only(xp, A2 * lam[..., None, None], M)
    O = visible_matmul(xp, A, V, M)
    outputs = {"O": O}
    return outputs, {"A": A, "M": M, "V": V, "A2": A2, "lam": lam, "K2": K2, "Q2": Q2, "A1": A1, "K1": K1, "Q1_scaled": Q1_scaled, "scale": scale}


def backward(
    dO: Array,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    A2: Array,
    lam: Array,
    K2: Array,
    Q2: Array,
    A1: Array,
    K1: Array,
    Q1_scaled: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of differential_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O

    Returns the gradients with respect to V, lam, Q1, K1, Q2 and K2. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        ∇lam = −Σ_ji A2[i,j] ∇A[i,j]    (chain rule)
        ∇A2[i,j] = −lam ∇A[i,j]    (chain rule)
        r[i] = Σ_j A2[i,j] ∇A2[i,j]    (name a reduction)
        ∇S2[i,j] = A2[i,j] (∇A2[i,j] − r[i])    (softmax, fold, factor)
        ∇Q2[i,c] = scale Σ_j K2[j,c] ∇S2[i,j]    (product)
        ∇K2[j,c] = scale Σ_i Q2[i,c] ∇S2[i,j]    (product)
        ∇A1[i,j] = ∇A[i,j]    (added term)
        r2[i] = Σ_j A1[i,j] ∇A1[i,j]    (name a reduction)
        ∇S1[i,j] = A1[i,j] (∇A1[i,j] − r2[i])    (softmax, fold, factor)
        ∇Q1[i,c] = scale Σ_j K1[j,c] ∇S1[i,j]    (product)
        ∇K1[j,c] = scale Σ_i Q1[i,c] ∇S1[i,j]    (product)
    """
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    dlam = -xp.sum(xp.sum(visible_only(xp, A2 * dA, M), axis=-1), axis=-1)
    dA2 = -(dA * lam[..., None, None])
    r = xp.sum(visible_only(xp, A2 * dA2, M), axis=-1)
    dS2 = visible_only(xp, A2 * (dA2 - r[..., None]), M)
    dQ2 = scale * visible_matmul(xp, dS2, K2, M)
    dK2 = scale * visible_matmul(xp, dS2.mT, Q2, None if M is None else M.mT)
    dA1 = dA
    r2 = xp.sum(visible_only(xp, A1 * dA1, M), axis=-1)
    dS1 = visible_only(xp, A1 * (dA1 - r2[..., None]), M)
    dQ1 = scale * visible_matmul(xp, dS1, K1, M)
    dK1 = visible_matmul(xp, dS1.mT, Q1_scaled, None if M is None else M.mT)
    return {"V": dV, "lam": dlam, "Q1": dQ1, "K1": dK1, "Q2": dQ2, "K2": dK2}
