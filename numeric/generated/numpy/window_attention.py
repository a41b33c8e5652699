# Seal of generated text, broken by edits: 100e0df34319580ae8e1b6a9afdca164
"""Sliding-window attention: i − left ≤ j ≤ i + right.

Forward (O, L) and backward (dQ, dK, dV, dbias) for NumPy, derived from the definitions of `window_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 30 for the plain program (Q, K, V to O and
gradients), 35 with mask, bias and L.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="window_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
        ParameterSpec("left", "integer", "how many keys before its own position a query sees"),
        ParameterSpec("right", "integer", "how many keys after its own position a query sees"),
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
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    scale: float | None = None,
    left: int = 1,
    right: int = 0,
) -> tuple[dict[str, Array], Saved]:
    """Sliding-window attention: i − left ≤ j ≤ i + right.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    scale: multiplies the scores before the bias is added (default 1/√d)
    left: how many keys before its own position a query sees
    right: how many keys after its own position a query sees

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] [j ≤ i + right] [j ≥ i − left] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
    """
    d = Q.shape[-1]
    m = K.shape[-2]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = all_of(
        xp.arange(m)[None, :] <= (xp.arange(n) + right)[..., None],
        xp.arange(m)[None, :] >= (xp.arange(n) - left)[..., None],
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
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K": K, "Q_scaled": Q_scaled, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array,
    V: Array,
    K: Array,
    Q_scaled: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of window_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V and bias. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
    """
    dV = visible_matmul(xp, A.mT, dO, M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, M.mT)
    dbias = dS
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias}
