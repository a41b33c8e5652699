# Seal of generated text, broken by edits: e3c5f074988a63bbf6c867c7a1d5f378
"""Attention with weights sigmoid(s + shift).

Forward (O) and backward (dQ, dK, dV, dbias) for CuPy, derived from the definitions of `sigmoid_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 13 for the plain program (Q, K, V to O and
gradients), 19 with mask and bias.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, sigmoid, visible_matmul, visible_only

SIGNATURE = Signature(
    program="sigmoid_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
        ParameterSpec("shift", "real", "added to the scores; −log m imitates a softmax's size"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted sums of the values"),
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
    shift: float = 0,
) -> tuple[dict[str, Array], Saved]:
    """Attention with weights sigmoid(s + shift).

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    scale: multiplies the scores before the bias is added (default 1/√d)
    shift: added to the scores; −log m imitates a softmax's size

    Returns the outputs O, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c] + shift
        A_1[i,j] = Sigmoid(S[i,j])
        A[i,j] = A_1[i,j] M[i,j]
        O[i,v] = Σ_j A[i,j] V[j,v]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = Q_scaled @ K.mT + shift
    if bias is not None:
        S = S + bias
    A_1 = sigmoid(xp, S)
    A = visible_only(xp, A_1, M)
    O = visible_matmul(xp, A, V, M)
    outputs = {"O": O}
    return outputs, {"A": A, "M": M, "V": V, "A_1": A_1, "K": K, "Q_scaled": Q_scaled, "scale": scale}


def backward(
    dO: Array,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    A_1: Array,
    K: Array,
    Q_scaled: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of sigmoid_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O

    Returns the gradients with respect to Q, K, V and bias. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        ∇A_1[i,j] = M[i,j] ∇A[i,j]    (chain rule)
        ∇S[i,j] = A_1[i,j] ∇A_1[i,j] (1 − A_1[i,j])    (chain rule, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
    """
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    dA_1 = visible_only(xp, dA, M)
    dS = visible_only(xp, A_1 * dA_1 * (1 - A_1), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, None if M is None else M.mT)
    dbias = dS
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias}
