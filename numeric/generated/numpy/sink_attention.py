# Seal of generated text, broken by edits: e19bb4e3bbb31f14195dceb1efee74c6
"""Attention with a sink: one more score in the denominator, without a value.

Forward (O, L) and backward (dQ, dK, dV, dsink, dbias) for NumPy, derived from the definitions of
`sink_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 25 for the plain program (Q, K, V, sink to O and
gradients), 35 with mask, bias and L.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, filled, maximum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="sink_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("sink", (), "real", "the score of the sink; one for each head"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "sink", "bias"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    sink: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with a sink: one more score in the denominator, without a value.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    sink [..]: the score of the sink; one for each head
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        T[i] = sink
        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A_sink[i] = exp(T[i])/(Σ_j M[i,j] exp(S[i,j]) + exp(T[i]))
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]) + exp(T[i]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]) + exp(T[i]))
    """
    d = Q.shape[-1]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    T = filled(xp, sink[..., None], (n,))
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = Q_scaled @ K.mT
    if bias is not None:
        S = S + bias
    S_max = maximum(xp, T, visible_max(xp, S, M, empty=-xp.inf))
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    E2 = xp.exp(T - S_max)
    Z = E2 + xp.sum(E, axis=-1)
    A_sink = E2 / Z
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K": K, "Q_scaled": Q_scaled, "A_sink": A_sink, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    K: Array,
    Q_scaled: Array,
    A_sink: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of sink_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, sink and bias. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
        ∇T[i] = −A_sink[i] r[i]    (logsumexp, chain rule, sum over uses, fold, factor)
        ∇sink = Σ_i ∇T[i]    (added term)
    """
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, None if M is None else M.mT)
    dbias = dS
    dT = -(A_sink * r)
    dsink = xp.sum(dT, axis=-1)
    return {"Q": dQ, "K": dK, "V": dV, "sink": dsink, "bias": dbias}
