# Seal of generated text, broken by edits: cad99f788f31c0017b2174767643769f
"""Multi-query attention: all query heads share keys and values.

Forward (O, L) and backward (dQ, dK, dV) for CuPy, derived from the definitions of `multi_query`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 17 for the plain program (Q, K, V to O and
gradients), 24 with mask and L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="multi_query",
    inputs=(
        TensorSpec("Q", ("G", "n", "d"), "real", "queries; the heads of a group are neighbours"),
        TensorSpec("K", ("m", "d"), "real", "keys, one for each group"),
        TensorSpec("V", ("m", "d_v"), "real", "values, one for each group"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("G", "n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("G", "n"), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Multi-query attention: all query heads share keys and values.

    Q [.., G, n, d]: queries; the heads of a group are neighbours
    K [.., m, d]: keys, one for each group
    V [.., m, d_v]: values, one for each group
    mask [.., n, m]: True where key j is visible to query i, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = mask[i,j]
        S[g,i,j] = scale Σ_c K[j,c] Q[g,i,c]
        A[g,i,j] = M[i,j] exp(S[g,i,j])/(Σ_j′ M[i,j′] exp(S[g,i,j′]))
        O[g,i,v] = Σ_j A[g,i,j] V[j,v]
        L[g,i] = log(Σ_j M[i,j] exp(S[g,i,j]))
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = mask
    S = matmul(xp, Q_scaled, K.mT, axes=(2, 1, 1))
    S_max = visible_max(xp, S, None if M is None else M[..., None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), None if M is None else M[..., None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], None if M is None else M[..., None, :, :])
    O = visible_matmul(xp, A, V, None if M is None else M[..., None, :, :], axes=(2, 1, 1))
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K": K, "Q_scaled": Q_scaled, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    K: Array,
    Q_scaled: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of multi_query, derived from its definitions.

    dO [.., G, n, d_v]: cotangent of O
    dL [.., G, n]: cotangent of L, optional

    Returns the gradients with respect to Q, K and V. Steps:

        ∇V[j,v] = Σ_gi A[g,i,j] ∇O[g,i,v]    (product)
        ∇A[g,i,j] = Σ_v V[j,v] ∇O[g,i,v]    (product)
        r[g,i] = Σ_j A[g,i,j] ∇A[g,i,j] − ∇L[g,i]    (name a reduction)
        ∇S[g,i,j] = A[g,i,j] (∇A[g,i,j] − r[g,i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[g,i,c] = scale Σ_j K[j,c] ∇S[g,i,j]    (product)
        ∇K[j,c] = scale Σ_gi Q[g,i,c] ∇S[g,i,j]    (product)
    """
    dV = visible_matmul(
        xp,
        xp.moveaxis(A, -1, -3),
        dO,
        None if M is None else M.mT[..., None, :],
        axes=(1, 2, 1),
    )
    dA = matmul(xp, dO, V.mT, axes=(2, 1, 1))
    r = xp.sum(visible_only(xp, A * dA, None if M is None else M[..., None, :, :]), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), None if M is None else M[..., None, :, :])
    dQ = scale * visible_matmul(xp, dS, K, None if M is None else M[..., None, :, :], axes=(2, 1, 1))
    dK = visible_matmul(
        xp,
        xp.moveaxis(dS, -1, -3),
        Q_scaled,
        None if M is None else M.mT[..., None, :],
        axes=(1, 2, 1),
    )
    return {"Q": dQ, "K": dK, "V": dV}
