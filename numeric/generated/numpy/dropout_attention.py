# Seal of generated text, broken by edits: 42655acd12d1d5ceac5b525dba994a95
"""Attention whose weights are dropped out after the softmax.

Forward (O) and backward (dQ, dK, dV, dbias) for NumPy, derived from the definitions of `dropout_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 22 for the plain program (Q, K, V, keep to O and
gradients), 28 with mask and bias.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="dropout_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("keep", ("n", "m"), "boolean", "True where a weight is kept"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("rate", "real", "the chance of being dropped"),
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the averages of the values under the weights that are kept"),
    ),
    gradients=("Q", "K", "V", "bias"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    keep: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    rate: float = 1/4,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention whose weights are dropped out after the softmax.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    keep [.., n, m]: True where a weight is kept
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    rate: the chance of being dropped
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        W[i,j] = A[i,j] keep[i,j]/(1 − rate)
        O[i,v] = Σ_j V[j,v] W[i,j]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = Q_scaled @ K.mT
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    W = visible_only(xp, (1/(1 - rate)) * A, keep)
    O = visible_matmul(xp, W, V, all_of(M, keep))
    outputs = {"O": O}
    return outputs, {"W": W, "M": M, "keep": keep, "V": V, "A": A, "K": K, "Q_scaled": Q_scaled, "rate": rate, "scale": scale}


def backward(
    dO: Array,
    *,
    W: Array,
    M: Array | None,
    keep: Array,
    V: Array,
    A: Array,
    K: Array,
    Q_scaled: Array,
    rate: float,
    scale: float,
) -> dict[str, Array]:
    """Gradients of dropout_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O

    Returns the gradients with respect to Q, K, V and bias. Steps:

        ∇V[j,v] = Σ_i W[i,j] ∇O[i,v]    (product)
        ∇W[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        ∇A[i,j] = ∇W[i,j] keep[i,j]/(1 − rate)    (chain rule)
        r[i] = Σ_j A[i,j] ∇A[i,j]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (softmax, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
    """
    dV = visible_matmul(xp, W.mT, dO, all_of(None if M is None else M.mT, keep.mT))
    dW = dO @ V.mT
    dA = visible_only(xp, (1/(1 - rate)) * dW, keep)
    r = xp.sum(visible_only(xp, A * dA, all_of(M, keep)), axis=-1)
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, None if M is None else M.mT)
    dbias = dS
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias}
