# Seal of generated text, broken by edits: 4e0de81c08824a6fac3fce7e54f9eba4
"""Attention with a learned bias for each distance.

Forward (O, L) and backward (dQ, dK, dV, dbias, dtable) for NumPy, derived from the definitions of
`relative_bias_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 35 for the plain program (Q, K, V, table to O and
gradients), 45 with mask, bias and L.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, as_numbers, checked, gathered, maximum, minimum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="relative_bias_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("table", ("distances",), "real", "the bias of each distance, −reach … reach; one for each head"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
        ParameterSpec("reach", "integer", "distances beyond this share a bias"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "bias", "table"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    table: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    scale: float | None = None,
    reach: int | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with a learned bias for each distance.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    table [.., distances]: the bias of each distance, −reach … reach; one for each head
    scale: multiplies the scores before the bias is added (default 1/√d)
    reach: distances beyond this share a bias (default floor(1/2 distances − 1/2))

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c] + table[Min(reach, Max(−reach, j − i)) + reach]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
    """
    d = Q.shape[-1]
    distances = table.shape[-1]
    m = K.shape[-2]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    if reach is None:
        reach = math.floor((1/2)*distances - 1/2)
    Q_scaled = scale * Q
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = Q_scaled @ K.mT + gathered(xp, table, checked(xp, minimum(xp, reach, maximum(xp, -reach, xp.arange(m)[None, :] - xp.arange(n)[:, None])) + reach, distances, "table[reach + Min(reach, Max(-reach, -i + j))]"), 2, 0)
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K": K, "Q_scaled": Q_scaled, "scale": scale, "reach": reach, "distances": distances}


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
    reach: float,
    distances: int,
) -> dict[str, Array]:
    """Gradients of relative_bias_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, bias and table. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
        ∇table[r] = Σ_ji δ[Min(reach, Max(−reach, j − i)) + reach,r] ∇S[i,j]    (added term)
    """
    m = A.shape[-1]
    n = dO.shape[-2]
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, None if M is None else M.mT)
    dbias = dS
    dtable = visible_matmul(
        xp,
        dS.mT,
        xp.moveaxis(as_numbers(xp, (minimum(xp, reach, maximum(xp, -reach, xp.arange(m)[:, None] - xp.arange(n)[None, :])) + reach)[..., None, :, :] == xp.arange(distances)[:, None, None], dO), -3, -1),
        None if M is None else M.mT,
        axes=(0, 2, 1),
    )
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias, "table": dtable}
