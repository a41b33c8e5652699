# Seal of generated text, broken by edits: 004502dd2c7c4d39e36dc2d6bd85b7cd
"""Attention with a temperature: softmax(s/τ).

Forward (O, L) and backward (dQ, dK, dV, dbias, dtemperature) for CuPy, derived from the definitions of
`temperature_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 24 for the plain program (Q, K, V, temperature to O
and gradients), 34 with mask, bias and L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import all_of, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="temperature_attention",
    inputs=(
        TensorSpec("Q", ("n", "d"), "real", "queries"),
        TensorSpec("K", ("m", "d"), "real", "keys"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
        TensorSpec("mask", ("n", "m"), "boolean", "True where key j is visible to query i", neutral=1),
        TensorSpec("bias", ("n", "m"), "real", "added to the scaled scores; −∞ hides", neutral=0),
        TensorSpec("temperature", (), "real", "divides the scaled scores; one for each head"),
    ),
    parameters=(
        ParameterSpec("scale", "real", "multiplies the scores before the bias is added"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V", "bias", "temperature"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    temperature: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    *,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Attention with a temperature: softmax(s/τ).

    Q [.., n, d]: queries
    K [.., m, d]: keys
    V [.., m, d_v]: values
    mask [.., n, m]: True where key j is visible to query i, optional
    bias [.., n, m]: added to the scaled scores; −∞ hides, optional
    temperature [..]: divides the scaled scores; one for each head
    scale: multiplies the scores before the bias is added (default 1/√d)

    Returns the outputs O and L, and what the backward pass needs:

        M[i,j] = [bias[i,j] ≠ −∞] mask[i,j]
        S[i,j] = bias[i,j] + scale Σ_c K[j,c] Q[i,c]/temperature
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
    """
    d = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(max(d, 1))
    M = all_of(mask, None if bias is None else bias != -xp.inf)
    S = scale * (Q @ K.mT) / temperature[..., None, None]
    if bias is not None:
        S = S + bias
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K": K, "temperature": temperature, "Q": Q, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array | None,
    V: Array,
    K: Array,
    temperature: Array,
    Q: Array,
    scale: float,
) -> dict[str, Array]:
    """Gradients of temperature_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K, V, bias and temperature. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇Q[i,c] = scale Σ_j K[j,c] ∇S[i,j]/temperature    (product)
        ∇K[j,c] = scale Σ_i Q[i,c] ∇S[i,j]/temperature    (product)
        ∇bias[i,j] = ∇S[i,j]    (added term)
        ∇temperature = −Σ_ci Q[i,c] ∇Q[i,c]/temperature    (chain rule, fold)
    """
    dV = visible_matmul(xp, A.mT, dO, None if M is None else M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dQ = scale * visible_matmul(xp, dS, K, M) / temperature[..., None, None]
    dK = scale * visible_matmul(xp, dS.mT, Q, None if M is None else M.mT) / temperature[..., None, None]
    dbias = dS
    dtemperature = -xp.sum(xp.sum(Q * dQ, axis=-1), axis=-1) / temperature
    return {"Q": dQ, "K": dK, "V": dV, "bias": dbias, "temperature": dtemperature}
