# Seal of generated text, broken by edits: 3a0b253f4bd1a4b249bd27d32c4b9085
"""Attention with softly capped scores: cap·tanh(s/cap), with tangents.

Forward (O, L, tO, tL) for CuPy, derived from the definitions of `softcap_attention_tangent`.

Generated: do not edit, run `backprove generate`.

Array operations of the pass, transposes being views: 25 for the plain program (Q, K, V, tQ, tK, tV to O and
tO alone), 38 with mask, bias, tbias, L and tL.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="softcap_attention_tangent",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("tQ", ("n", "d"), "real", "tangent of Q"),
        TensorSpec("tK", ("m", "d"), "real", "tangent of K"),
        TensorSpec("tV", ("m", "d_v"), "real", "tangent of V"),
        TensorSpec("tbias", ("n", "m"), "real", "tangent of bias", neutral=0),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
        ParameterSpec("cap", "real", "scores stay between −cap and cap"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
        OutputSpec("tO", ("n", "d_v"), "tangent of O"),
        OutputSpec("tL", ("n",), "tangent of L", statistic=True),
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
    bias: Array | None = None,
    tbias: Array | None = None,
    *,
    scale: float | None = None,
    cap: float = 2,
) -> tuple[dict[str, Array], Saved]:
    """Attention with softly capped scores: cap·tanh(s/cap), with tangents.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    tQ [.., n, d]: tangent of Q
    tK [.., m, d]: tangent of K
    tV [.., m, d_v]: tangent of V
    tbias [.., n, m]: tangent of bias, optional
    scale: multiplies the scores before the bias is added (default 1/√d)
    cap: scores stay between −cap and cap

    Returns the outputs O, L, tO and tL:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S_1[i,j] = scale Σ_c K[j,c] Q[i,c]/cap
        S_2[i,j] = tanh(S_1[i,j])
        S[i,j] = bias[i,j] + cap S_2[i,j]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
        tS_1[i,j] = scale (Σ_c K[j,c] tQ[i,c] + Σ_c Q[i,c] tK[j,c])/cap
        tS_2[i,j] = tS_1[i,j] (1 − S_2[i,j]²)
        tS[i,j] = cap tS_2[i,j] + tbias[i,j]
        tA_1[i,j] = tS[i,j] − Σ_j′ A[i,j′] tS[i,j′]
        tA[i,j] = A[i,j] tA_1[i,j]
        tO[i,v] = Σ_j A[i,j] tV[j,v] + Σ_j V[j,v] tA[i,j]
        tL[i] = Σ_j A[i,j] tS[i,j]
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S_1 = (scale/cap) * (Q @ K.mT)
    S_2 = xp.tanh(S_1)
    S = cap * S_2
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    tS_1 = (scale/cap) * (tQ @ K.mT + Q @ tK.mT)
    tS_2 = tS_1 * (1 - S_2 ** 2)
    tS = cap * tS_2
    if tbias is not None:
        tS = tS + tbias
    tA_1 = tS - xp.sum(visible_only(xp, A * tS, M), axis=-1)[..., None]
    tA = visible_only(xp, A * tA_1, M)
    tO = visible_matmul(xp, A, tV, M) + visible_matmul(xp, tA, V, M)
    tL = xp.sum(visible_only(xp, A * tS, M), axis=-1)
    outputs = {"O": O, "L": L, "tO": tO, "tL": tL}
    return outputs, {}
