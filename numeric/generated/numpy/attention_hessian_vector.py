# Seal of generated text, broken by edits: 53df1908eac48a01e2b8c0773827c365
"""Gradients of attention and their tangents.

Forward (grad_Q, grad_K, grad_V, tgrad_Q, tgrad_K, tgrad_V) for NumPy, derived from the definitions of
`attention_hessian_vector`.

Generated: do not edit, run `backprove generate`.

Array operations of the pass, transposes being views: 43 for the plain program (Q, K, V, grad_O, tQ, tK, tV to
grad_Q, grad_K, grad_V, tgrad_Q, tgrad_K and tgrad_V alone), 58 with mask, bias, grad_L and tbias.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="attention_hessian_vector",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("grad_O", ("n", "d_v"), "real", "cotangent of O"),
        TensorSpec("grad_L", ("n",), "real", "cotangent of L", neutral=0),
        TensorSpec("tQ", ("n", "d"), "real", "tangent of Q"),
        TensorSpec("tK", ("m", "d"), "real", "tangent of K"),
        TensorSpec("tV", ("m", "d_v"), "real", "tangent of V"),
        TensorSpec("tbias", ("n", "m"), "real", "tangent of bias", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("grad_Q", ("n", "d"), "gradient with respect to Q"),
        OutputSpec("grad_K", ("m", "d"), "gradient with respect to K"),
        OutputSpec("grad_V", ("m", "d_v"), "gradient with respect to V"),
        OutputSpec("tgrad_Q", ("n", "d"), "tangent of grad_Q"),
        OutputSpec("tgrad_K", ("m", "d"), "tangent of grad_K"),
        OutputSpec("tgrad_V", ("m", "d_v"), "tangent of grad_V"),
    ),
    gradients=(),
    cotangents=(),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    grad_O: Array,
    tQ: Array,
    tK: Array,
    tV: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    grad_L: Array | None = None,
    tbias: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Gradients of attention and their tangents.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    grad_O [.., n, d_v]: cotangent of O
    grad_L [.., n]: cotangent of L, optional
    tQ [.., n, d]: tangent of Q
    tK [.., m, d]: tangent of K
    tV [.., m, d_v]: tangent of V
    tbias [.., n, m]: tangent of bias, optional
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs grad_Q, grad_K, grad_V, tgrad_Q, tgrad_K and tgrad_V:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        grad_V[j,v] = Σ_i A[i,j] grad_O[i,v]
        grad_A[i,j] = Σ_v V[j,v] grad_O[i,v]
        r[i] = Σ_j A[i,j] grad_A[i,j] − grad_L[i]
        grad_S_1[i,j] = grad_A[i,j] − r[i]
        grad_S[i,j] = A[i,j] grad_S_1[i,j]
        grad_Q[i,c] = scale Σ_j K[j,c] grad_S[i,j]
        grad_K[j,c] = scale Σ_i Q[i,c] grad_S[i,j]
        tS[i,j] = scale Σ_c K[j,c] tQ[i,c] + scale Σ_c Q[i,c] tK[j,c] + tbias[i,j]
        tA_1[i,j] = tS[i,j] − Σ_j′ A[i,j′] tS[i,j′]
        tA[i,j] = A[i,j] tA_1[i,j]
        tgrad_V[j,v] = Σ_i grad_O[i,v] tA[i,j]
        tgrad_A[i,j] = Σ_v grad_O[i,v] tV[j,v]
        tr[i] = Σ_j A[i,j] tgrad_A[i,j] + Σ_j grad_A[i,j] tA[i,j]
        tgrad_S_1[i,j] = tgrad_A[i,j] − tr[i]
        tgrad_S[i,j] = A[i,j] tgrad_S_1[i,j] + grad_S_1[i,j] tA[i,j]
        tgrad_Q[i,c] = scale (Σ_j K[j,c] tgrad_S[i,j] + Σ_j grad_S[i,j] tK[j,c])
        tgrad_K[j,c] = scale (Σ_i Q[i,c] tgrad_S[i,j] + Σ_i grad_S[i,j] tQ[i,c])
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
    grad_V = visible_matmul(xp, A.mT, grad_O, None if M is None else M.mT)
    grad_A = grad_O @ V.mT
    r = xp.sum(visible_only(xp, A * grad_A, M), axis=-1)
    if grad_L is not None:
        r = r - grad_L
    grad_S_1 = grad_A - r[..., None]
    grad_S = visible_only(xp, A * grad_S_1, M)
    grad_Q = scale * visible_matmul(xp, grad_S, K, M)
    grad_K = visible_matmul(xp, grad_S.mT, Q_scaled, None if M is None else M.mT)
    tS = Q_scaled @ tK.mT + scale * (tQ @ K.mT)
    if tbias is not None:
        tS = tS + tbias
    tA_1 = tS - xp.sum(visible_only(xp, A * tS, M), axis=-1)[..., None]
    tA = visible_only(xp, A * tA_1, M)
    tgrad_V = visible_matmul(xp, tA.mT, grad_O, None if M is None else M.mT)
    tgrad_A = grad_O @ tV.mT
    tr = xp.sum(visible_only(xp, A * tgrad_A, M), axis=-1) + xp.sum(visible_only(xp, grad_A * tA, M), axis=-1)
    tgrad_S_1 = tgrad_A - tr[..., None]
    tgrad_S = visible_only(xp, A * tgrad_S_1, M) + visible_only(xp, grad_S_1 * tA, M)
    tgrad_Q = scale * (visible_matmul(xp, tgrad_S, K, M) + visible_matmul(xp, grad_S, tK, M))
    tgrad_K = scale * (visible_matmul(xp, tgrad_S.mT, Q, None if M is None else M.mT) + visible_matmul(xp, grad_S.mT, tQ, None if M is None else M.mT))
    outputs = {"grad_Q": grad_Q, "grad_K": grad_K, "grad_V": grad_V, "tgrad_Q": tgrad_Q, "tgrad_K": tgrad_K, "tgrad_V": tgrad_V}
    return outputs, {}
