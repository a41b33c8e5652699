# Seal of generated text, broken by edits: 506bb673058997b3b46a68b0228aa42e
"""Grouped-query attention: G query heads share each key head, with tangents.

Forward (O, L, tO, tL) for CuPy, derived from the definitions of `grouped_query_tangent`.

Generated: do not edit, run `backprove generate`.

Array operations of the pass, transposes being views: 19 for the plain program (Q, K, V, tQ, tK, tV to O and
tO alone), 28 with mask, L and tL.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="grouped_query_tangent",
    inputs=(
        TensorSpec("Q", ("H*G", "n", "d"), "real", "queries; the heads of a group are neighbours"),
        TensorSpec("K", ("H", "m", "d"), "real", "keys, one for each group"),
        TensorSpec("V", ("H", "m", "d_v"), "real", "values, one for each group"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("tQ", ("H*G", "n", "d"), "real", "tangent of Q"),
        TensorSpec("tK", ("H", "m", "d"), "real", "tangent of K"),
        TensorSpec("tV", ("H", "m", "d_v"), "real", "tangent of V"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("H*G", "n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("H*G", "n"), "logsumexp of the visible scores, natural logarithm", statistic=True),
        OutputSpec("tO", ("H*G", "n", "d_v"), "tangent of O"),
        OutputSpec("tL", ("H*G", "n"), "tangent of L", statistic=True),
    ),
    gradients=(),
    cotangents=(),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    tQ: Array,
    tK: Array,
    tV: Array,
    mask: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Grouped-query attention: G query heads share each key head, with tangents.

    Q [.., H, G, n, d]: queries; the heads of a group are neighbours
    K [.., H, m, d]: keys, one for each group
    V [.., H, m, d_v]: values, one for each group
    mask [.., n, m]: True where key j is visible to query i, optional
    tQ [.., H, G, n, d]: tangent of Q
    tK [.., H, m, d]: tangent of K
    tV [.., H, m, d_v]: tangent of V
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O, L, tO and tL:

        M[i,j] = mask[i,j]
        S[h,g,i,j] = scale Σ_c K[h,j,c] Q[h,g,i,c]
        A[h,g,i,j] = M[i,j] exp(S[h,g,i,j])/(Σ_j′ M[i,j′] exp(S[h,g,i,j′]))
        O[h,g,i,v] = Σ_j A[h,g,i,j] V[h,j,v]
        L[h,g,i] = log(Σ_j M[i,j] exp(S[h,g,i,j]))
        tS[h,g,i,j] = scale (Σ_c K[h,j,c] tQ[h,g,i,c] + Σ_c Q[h,g,i,c] tK[h,j,c])
        tA_1[h,g,i,j] = tS[h,g,i,j] − Σ_j′ A[h,g,i,j′] tS[h,g,i,j′]
        tA[h,g,i,j] = A[h,g,i,j] tA_1[h,g,i,j]
        tO[h,g,i,v] = Σ_j A[h,g,i,j] tV[h,j,v] + Σ_j V[h,j,v] tA[h,g,i,j]
        tL[h,g,i] = Σ_j A[h,g,i,j] tS[h,g,i,j]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    M = mask
    S = scale * matmul(xp, Q, K.mT, axes=(2, 1, 1))
    S_max = visible_max(xp, S, None if M is None else M[..., None, None, :, :])
    E = visible_only(xp, xp.exp(S - S_max[..., None]), None if M is None else M[..., None, None, :, :])
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], None if M is None else M[..., None, None, :, :])
    O = visible_matmul(xp, A, V, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1))
    L = S_max + xp.log(Z)
    tS = scale * (matmul(xp, tQ, K.mT, axes=(2, 1, 1)) + matmul(xp, Q, tK.mT, axes=(2, 1, 1)))
    tA_1 = tS - xp.sum(visible_only(xp, A * tS, None if M is None else M[..., None, None, :, :]), axis=-1)[..., None]
    tA = visible_only(xp, A * tA_1, None if M is None else M[..., None, None, :, :])
    tO = visible_matmul(xp, A, tV, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1)) + visible_matmul(xp, tA, V, None if M is None else M[..., None, None, :, :], axes=(2, 1, 1))
    tL = xp.sum(visible_only(xp, A * tS, None if M is None else M[..., None, None, :, :]), axis=-1)
    outputs = {"O": O, "L": L, "tO": tO, "tL": tL}
    return outputs, {}
