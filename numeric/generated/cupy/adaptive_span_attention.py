# Seal of generated text, broken by edits: fb5c023b1108ed26ee8a7a9e1c43e5b2
"""Causal attention with a learned, soft span.

Forward (O) and backward (dQ, dK, dV, dspan) for CuPy, derived from the definitions of
`adaptive_span_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 51 for the plain program (Q, K, V, span to O and
gradients).
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import minimum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="adaptive_span_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("span", (), "real", "how far back weights are full; one for each head"),
    ),
    parameters=(
        ParameterSpec("ramp", "real", "over how many positions weights fade out"),
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
    ),
    gradients=("Q", "K", "V", "span"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    span: Array,
    *,
    ramp: float = 8,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Causal attention with a learned, soft span.

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    span [..]: how far back weights are full; one for each head
    ramp: over how many positions weights fade out
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O, and what the backward pass needs:

        S[i,j] = scale Σ_c K[j,c] Q[i,c]
        M[i,j] = [j + ramp + span − i > 0] [j ≤ i]
        W[i,j] = Min(1, (j + ramp + span − i)/ramp)
        A[i,j] = M[i,j] W[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] W[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
    """
    d = Q.shape[-1]
    m = K.shape[-2]
    n = Q.shape[-2]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    Q_scaled = scale * Q
    S = Q_scaled @ K.mT
    M = (xp.arange(m)[None, :] <= xp.arange(n)[:, None]) & (xp.arange(m)[None, :] + ramp + span[..., None, None] - xp.arange(n)[:, None] > 0)
    W = minimum(
        xp,
        1,
        (1/ramp) * (xp.arange(m)[None, :] + ramp + span[..., None, None] - xp.arange(n)[:, None]),
    )
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    A = visible_only(xp, E * W / xp.sum(visible_only(xp, E * W, M), axis=-1)[..., None], M)
    O = visible_matmul(xp, A, V, M)
    outputs = {"O": O}
    return outputs, {"A": A, "M": M, "V": V, "E": E, "W": W, "span": span, "K": K, "Q_scaled": Q_scaled, "ramp": ramp, "scale": scale}


def backward(
    dO: Array,
    *,
    A: Array,
    M: Array,
    V: Array,
    E: Array,
    W: Array,
    span: Array,
    K: Array,
    Q_scaled: Array,
    ramp: float,
    scale: float,
) -> dict[str, Array]:
    """Gradients of adaptive_span_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O

    Returns the gradients with respect to Q, K, V and span. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j]    (name a reduction)
        ∇W[i,j] = M[i,j] exp(S[i,j]) (∇A[i,j] − r[i])/(Σ_j′ M[i,j′] W[i,j′] exp(S[i,j′]))    (chain rule,
            fold, factor)
        ∇span = Σ_ji [1 − (j + ramp + span − i)/ramp > 0] ∇W[i,j]/ramp    (chain rule)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (chain rule, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]    (product)
    """
    m = A.shape[-1]
    n = dO.shape[-2]
    dV = visible_matmul(xp, A.mT, dO, M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    dW = visible_only(xp, E * (dA - r[..., None]) / xp.sum(visible_only(xp, E * W, M), axis=-1)[..., None], M)
    dspan = (1/ramp) * xp.sum(xp.sum(visible_only(xp, dW, 1 - (1/ramp) * (xp.arange(m)[None, :] + ramp + span[..., None, None] - xp.arange(n)[:, None]) > 0), axis=-1), axis=-1)
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M)
    dK = visible_matmul(xp, dS.mT, Q_scaled, M.mT)
    return {"Q": dQ, "K": dK, "V": dV, "span": dspan}
