# Seal of generated text, broken by edits: 4049cf879acec1c31a030b3480245a57
"""Attention within buckets, with shared queries and keys.

Forward (O, L) and backward (dQ, dV) for CuPy, derived from the definitions of `reformer_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 43 for the plain program (Q, V, bucket to O and
gradients), 46 with L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import as_numbers, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="reformer_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries, and at unit length keys"),
        TensorSpec("V", ("n", "d_v"), "real", "values"),
        TensorSpec("bucket", ("n",), "integer", "the bucket that position i is hashed to"),
    ),
    parameters=(
        ParameterSpec("penalty", "real", "subtracted from a position's score with itself"),
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "V"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    V: Array,
    bucket: Array,
    *,
    penalty: float = 100,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention within buckets, with shared queries and keys.

    Q [.., n, d]: queries, and at unit length keys
    V [.., n, d_v]: values
    bucket [.., n]: the bucket that position i is hashed to
    penalty: subtracted from a position's score with itself
    scale: multiplies the scores (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = [bucket[i] = bucket[j]] [j ≤ i]
        U[i] = 1/√(Σ_c Q[i,c]²)
        K[j,c] = Q[j,c] U[j]
        S[i,j] = scale Σ_c K[j,c] Q[i,c] − penalty δ[i,j]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_i′ M[i,i′] exp(S[i,i′]))
        O[i,v] = Σ_i′ A[i,i′] V[i′,v]
        L[i] = log(Σ_i′ M[i,i′] exp(S[i,i′]))
    """
    d = Q.shape[-1]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = (xp.arange(n)[None, :] <= xp.arange(n)[:, None]) & (bucket[..., None] == bucket[..., None, :])
    U = 1 / xp.sqrt(xp.sum(Q ** 2, axis=-1))
    K = Q * U[..., None]
    S = Q_scaled @ K.mT - penalty * as_numbers(xp, xp.arange(n)[:, None] == xp.arange(n)[None, :], Q)
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "Q_scaled": Q_scaled, "K": K, "U": U, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array,
    V: Array,
    Q_scaled: Array,
    K: Array,
    U: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of reformer_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q and V. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_i′ A[i,i′] ∇A[i,i′] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        r2[i] = Σ_c K[i,c] ∇K[i,c]    (name a reduction)
        ∇Q[i,c] = U[i] (∇K[i,c] − K[i,c] r2[i]) + scale Σ_i′ K[i′,c] ∇S[i,i′]    (chain rule, product, sum
            over uses, write out, fold, factor)
    """
    dV = visible_matmul(xp, A.mT, dO, M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, M.mT)
    r2 = xp.sum(K * dK, axis=-1)
    dQ = U[..., None] * (dK - K * r2[..., None]) + scale * visible_matmul(xp, dS, K, M)
    return {"Q": dQ, "V": dV}
