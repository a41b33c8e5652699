# Seal of generated text, broken by edits: e948863250e94dfd51dbe5f48a3984a9
"""Attention with weights max(s, 0)²/m.

Forward (O) and backward (dQ, dK, dV, dbias) for CuPy, derived from the definitions of `squared_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 15 for the plain program (Q, K, V to O and
gradients), 19 with mask and bias.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, maximum, visible_matmul, visible_only

SIGNATURE = Signature(
    program="squared_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
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
) -> tuple[dict[str, Array], Saved]:
    """Attention with weights max(s, 0)²/m.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A[i,j] = M[i,j] Max(0, S[i,j])²/m
        O[i,v] = Σ_j A[i,j] V[j,v]
    """
    d = Q.shape[-1]
    m = K.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = Q_scaled @ K.mT
    if bias is not None:
        S = S + bias
    A = visible_only(xp, (1/max(m, 1)) * maximum(xp, 0, S) ** 2, M)
    O = visible_matmul(xp, A, V, M)
    outputs = {"O": O}
    return outputs, {"A": A, "M": M, "V": V, "S": S, "K": K, "Q_scaled": Q_scaled, "scale": scale}


def backward(
    dO: Array,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    S: Array,
    K: Array,
    Q_scaled: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of squared_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O

    Returns the gradients with respect to Q, K, V and bias. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        ∇S[i,j] = 2 [S[i,j] > 0] M[i,j] Max(0, S[i,j]) ∇A[i,j]/m    (chain rule)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
    """
    m = A.shape[-1]
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    dS = visible_only(xp, (2/max(m, 1)) * (maximum(xp, 0, S) * dA), all_of(M, S > 0))
    dQ = scale * visible_matmul(xp, dS, K, all_of(M, S > 0))
    dK = visible_matmul(xp, dS.mT, Q_scaled, all_of(None if M is None else M.mT, S.mT > 0))
    dbias = dS
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias}
