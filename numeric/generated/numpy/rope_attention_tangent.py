# Seal of generated text, broken by edits: aef06ed21935cc23e0150fb8bc308af7
"""Attention with rotary positions, halves layout, with tangents.

Forward (O, L, tO, tL) for NumPy, derived from the definitions of `rope_attention_tangent`.

Generated: do not edit, run `backprove generate`.

Array operations of the pass, transposes being views: 68 for the plain program (Q, K, V, position_q,
position_k, tQ, tK, tV to O and tO alone), 81 with mask, bias, tbias, L and tL.
Relies on: shift invariance.
"""

import math

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, matmul, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="rope_attention_tangent",
    inputs=(
        TensorSpec("Q", ("n", "2*pairs"), "real", "queries, of even width"),
        TensorSpec("K", ("m", "2*pairs"), "real", "keys, of even width"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("position_q", ("n",), "real", "the position of query i"),
        TensorSpec("position_k", ("m",), "real", "the position of key j"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("tQ", ("n", "2*pairs"), "real", "tangent of Q"),
        TensorSpec("tK", ("m", "2*pairs"), "real", "tangent of K"),
        TensorSpec("tV", ("m", "d_v"), "real", "tangent of V"),
        TensorSpec("tbias", ("n", "m"), "real", "tangent of bias", neutral=0),
    ),
    parameters=(
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
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
    position_q: Array,
    position_k: Array,
    tQ: Array,
    tK: Array,
    tV: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    tbias: Array | None = None,
    *,
    base: float = 10000,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with rotary positions, halves layout, with tangents.

    Q [.., n, 2, pairs]: queries, of even width
    K [.., m, 2, pairs]: keys, of even width
    V [.., m, d_v]: values
    position_q [.., n]: the position of query i
    position_k [.., m]: the position of key j
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    tQ [.., n, 2, pairs]: tangent of Q
    tK [.., m, 2, pairs]: tangent of K
    tV [.., m, d_v]: tangent of V
    tbias [.., n, m]: tangent of bias, optional
    base: pair p turns by the position times base to the power −p/pairs
    scale: multiplies the scores before the bias is added (default 1/√(2 pairs))

    Returns the outputs O, L, tO and tL:

        C_q[i,p] = cos(base^(-p/pairs) position_q[i])
        N_q[i,p] = sin(base^(-p/pairs) position_q[i])
        Q_turned[i,s,p] = C_q[i,p] Q[i,s,p] + N_q[i,p] Σ_s′ Q[i,s′,p] QuarterTurn(s, s′)
        C_k[j,p] = cos(base^(-p/pairs) position_k[j])
        N_k[j,p] = sin(base^(-p/pairs) position_k[j])
        K_turned[j,s,p] = C_k[j,p] K[j,s,p] + N_k[j,p] Σ_s′ K[j,s′,p] QuarterTurn(s, s′)
        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_sp K_turned[j,s,p] Q_turned[i,s,p]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
        tQ_turned[i,s,p] = C_q[i,p] tQ[i,s,p] + N_q[i,p] Σ_s′ QuarterTurn(s, s′) tQ[i,s′,p]
        tK_turned[j,s,p] = C_k[j,p] tK[j,s,p] + N_k[j,p] Σ_s′ QuarterTurn(s, s′) tK[j,s′,p]
        tS[i,j] = scale Σ_sp K_turned[j,s,p] tQ_turned[i,s,p] + scale Σ_sp Q_turned[i,s,p] tK_turned[j,s,p] +
            tbias[i,j]
        tA_1[i,j] = tS[i,j] − Σ_j′ A[i,j′] tS[i,j′]
        tA[i,j] = A[i,j] tA_1[i,j]
        tO[i,v] = Σ_j A[i,j] tV[j,v] + Σ_j V[j,v] tA[i,j]
        tL[i] = Σ_j A[i,j] tS[i,j]
    """
    pairs = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(2*max(pairs, 1))
    C_q = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    N_q = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_q[..., None])
    Q_turned = C_q[..., None, :] * Q + N_q[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    C_k = xp.cos((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    N_k = xp.sin((base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :] * position_k[..., None])
    K_turned = C_k[..., None, :] * K + N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(K, -3, -2), axes=(1, 1, 2)), -3, -2)
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = scale * matmul(xp, Q_turned, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1))
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    tQ_turned = C_q[..., None, :] * tQ + N_q[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(tQ, -3, -2), axes=(1, 1, 2)), -3, -2)
    tK_turned = C_k[..., None, :] * tK + N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(tK, -3, -2), axes=(1, 1, 2)), -3, -2)
    tS = scale * matmul(xp, tQ_turned, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1)) + scale * matmul(xp, Q_turned, xp.moveaxis(tK_turned, -3, -1), axes=(1, 2, 1))
    if tbias is not None:
        tS = tS + tbias
    tA_1 = tS - xp.sum(visible_only(xp, A * tS, M), axis=-1)[..., None]
    tA = visible_only(xp, A * tA_1, M)
    tO = visible_matmul(xp, A, tV, M) + visible_matmul(xp, tA, V, M)
    tL = xp.sum(visible_only(xp, A * tS, M), axis=-1)
    outputs = {"O": O, "L": L, "tO": tO, "tL": tL}
    return outputs, {}
