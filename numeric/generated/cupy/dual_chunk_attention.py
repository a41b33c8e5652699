# Seal of generated text, broken by edits: fd66b01ee95282f431b95f71fc221eaf
"""Causal attention with dual-chunk rotary positions.

Forward (O, L) and backward (dQ, dK, dV) for CuPy, derived from the definitions of `dual_chunk_attention`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 159 for the plain program (Q, K, V to O and
gradients), 162 with L.
Relies on: shift invariance.
"""

import math

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import filled, matmul, minimum, visible_matmul, visible_max, visible_only

SIGNATURE = Signature(
    program="dual_chunk_attention",
    inputs=(
        TensorSpec("Q", ("n", "2*pairs"), "real", "queries, of even width"),
        TensorSpec("K", ("m", "2*pairs"), "real", "keys, of even width"),
        TensorSpec("V", ("m", "d_v"), "real", "values"),
    ),
    parameters=(
        ParameterSpec("chunk", "integer", "how many positions make a chunk", least=1),
        ParameterSpec("longest", "integer", "the number of positions seen in training"),
        ParameterSpec("local", "integer", "how many positions keep their distance to the chunk before"),
        ParameterSpec("base", "real", "pair p turns by the position times base to the power −p/pairs"),
        ParameterSpec("scale", "real", "multiplies the scores"),
    ),
    outputs=(
        OutputSpec("O", ("n", "d_v"), "outputs: the weighted averages of the values"),
        OutputSpec("L", ("n",), "logsumexp of the visible scores, natural logarithm", statistic=True),
    ),
    gradients=("Q", "K", "V"),
    cotangents=("O",),
)


def forward(
    Q: Array,
    K: Array,
    V: Array,
    *,
    chunk: int = 2,
    longest: int = 8,
    local: int = 1,
    base: float = 10000,
    scale: float | None = None,
) -> tuple[dict[str, Array], Saved]:
    """Causal attention with dual-chunk rotary positions.

    Q [.., n, 2, pairs]: queries, of even width
    K [.., m, 2, pairs]: keys, of even width
    V [.., m, d_v]: values
    chunk: how many positions make a chunk
    longest: the number of positions seen in training
    local: how many positions keep their distance to the chunk before
    base: pair p turns by the position times base to the power −p/pairs
    scale: multiplies the scores (default 1/√(2 pairs))

    Returns the outputs O and L, and what the backward pass needs:

        C_k[j,p] = cos((j mod chunk) base^(-p/pairs))
        N_k[j,p] = sin((j mod chunk) base^(-p/pairs))
        K_turned[j,s,p] = C_k[j,p] K[j,s,p] + N_k[j,p] Σ_s′ K[j,s′,p] QuarterTurn(s, s′)
        C_inner[i,p] = cos((i mod chunk) base^(-p/pairs))
        N_inner[i,p] = sin((i mod chunk) base^(-p/pairs))
        Q_inner[i,s,p] = C_inner[i,p] Q[i,s,p] + N_inner[i,p] Σ_s′ Q[i,s′,p] QuarterTurn(s, s′)
        S_inner[i,j] = scale Σ_sp K_turned[j,s,p] Q_inner[i,s,p]
        C_next[i,p] = cos(Min(chunk + local − 1, (i mod chunk) + chunk) base^(-p/pairs))
        N_next[i,p] = sin(Min(chunk + local − 1, (i mod chunk) + chunk) base^(-p/pairs))
        Q_next[i,s,p] = C_next[i,p] Q[i,s,p] + N_next[i,p] Σ_s′ Q[i,s′,p] QuarterTurn(s, s′)
        S_next[i,j] = scale Σ_sp K_turned[j,s,p] Q_next[i,s,p]
        C_far[i,p] = cos(base^(-p/pairs) (longest − 1))
        N_far[i,p] = sin(base^(-p/pairs) (longest − 1))
        Q_far[i,s,p] = C_far[i,p] Q[i,s,p] + N_far[i,p] Σ_s′ Q[i,s′,p] QuarterTurn(s, s′)
        S_far[i,j] = scale Σ_sp K_turned[j,s,p] Q_far[i,s,p]
        M[i,j] = [j ≤ i]
        S[i,j] = [floor(i/chunk) = floor(j/chunk) + 1] S_next[i,j] + [floor(i/chunk) = floor(j/chunk)]
            S_inner[i,j] + [floor(i/chunk) > floor(j/chunk) + 1] S_far[i,j]
        A[i,j] = M[i,j] exp(S[i,j])/(Σ_j′ M[i,j′] exp(S[i,j′]))
        O[i,v] = Σ_j A[i,j] V[j,v]
        L[i] = log(Σ_j M[i,j] exp(S[i,j]))
    """
    m = K.shape[-3]
    n = Q.shape[-3]
    pairs = Q.shape[-1]
    if scale is None:
        scale = 1 / math.sqrt(2*max(pairs, 1))
    C_k = xp.cos(
        xp.remainder(xp.arange(m), chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    N_k = xp.sin(
        xp.remainder(xp.arange(m), chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    K_turned = C_k[..., None, :] * K + N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(K, -3, -2), axes=(1, 1, 2)), -3, -2)
    C_inner = xp.cos(
        xp.remainder(xp.arange(n), chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    N_inner = xp.sin(
        xp.remainder(xp.arange(n), chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    Q_inner = C_inner[..., None, :] * Q + N_inner[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    S_inner = scale * matmul(xp, Q_inner, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1))
    C_next = xp.cos(
        minimum(xp, chunk + local - 1, xp.remainder(xp.arange(n), chunk) + chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    N_next = xp.sin(
        minimum(xp, chunk + local - 1, xp.remainder(xp.arange(n), chunk) + chunk)[..., None] * (base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
    )
    Q_next = C_next[..., None, :] * Q + N_next[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    S_next = scale * matmul(xp, Q_next, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1))
    C_far = filled(
        xp,
        xp.cos((longest - 1) * base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
        (n, pairs),
    )
    N_far = filled(
        xp,
        xp.sin((longest - 1) * base ** ((-1/max(pairs, 1)) * xp.arange(pairs)))[..., None, :],
        (n, pairs),
    )
    Q_far = C_far[..., None, :] * Q + N_far[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(Q, -3, -2), axes=(1, 1, 2)), -3, -2)
    S_far = scale * matmul(xp, Q_far, xp.moveaxis(K_turned, -3, -1), axes=(1, 2, 1))
    M = xp.arange(m)[None, :] <= xp.arange(n)[:, None]
    S = visible_only(xp, S_next, xp.floor_divide(xp.arange(n), chunk)[..., None] == (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :]) + visible_only(xp, S_inner, xp.floor_divide(xp.arange(n), chunk)[..., None] == xp.floor_divide(xp.arange(m), chunk)[..., None, :]) + visible_only(xp, S_far, xp.floor_divide(xp.arange(n), chunk)[..., None] > (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :])
    S_max = visible_max(xp, S, M)
    E = visible_only(xp, xp.exp(S - S_max[..., None]), M)
    Z = xp.sum(E, axis=-1)
    A = visible_only(xp, E / Z[..., None], M)
    O = visible_matmul(xp, A, V, M)
    L = S_max + xp.log(Z)
    outputs = {"O": O, "L": L}
    return outputs, {"A": A, "M": M, "V": V, "K_turned": K_turned, "C_far": C_far, "C_inner": C_inner, "C_next": C_next, "N_far": N_far, "N_inner": N_inner, "N_next": N_next, "Q_far": Q_far, "Q_inner": Q_inner, "Q_next": Q_next, "C_k": C_k, "N_k": N_k, "chunk": chunk, "scale": scale}


def backward(
    dO: Array,
    dL: Array | None = None,
    *,
    A: Array,
    M: Array,
    V: Array,
    K_turned: Array,
    C_far: Array,
    C_inner: Array,
    C_next: Array,
    N_far: Array,
    N_inner: Array,
    N_next: Array,
    Q_far: Array,
    Q_inner: Array,
    Q_next: Array,
    C_k: Array,
    N_k: Array,
    chunk: float,
    scale: float,
) -> dict[str, Array]:
    """Gradients of dual_chunk_attention, derived from its definitions.

    dO [.., n, d_v]: cotangent of O
    dL [.., n]: cotangent of L, optional

    Returns the gradients with respect to Q, K and V. Steps:

        ∇V[j,v] = Σ_i A[i,j] ∇O[i,v]    (product)
        ∇A[i,j] = Σ_v V[j,v] ∇O[i,v]    (product)
        r[i] = Σ_j A[i,j] ∇A[i,j] − ∇L[i]    (name a reduction)
        ∇S[i,j] = A[i,j] (∇A[i,j] − r[i])    (logsumexp, softmax, sum over uses, fold, factor)
        ∇S_far[i,j] = [floor(i/chunk) > floor(j/chunk) + 1] ∇S[i,j]    (chain rule)
        ∇Q_far[i,s,p] = scale Σ_j K_turned[j,s,p] ∇S_far[i,j]    (product)
        ∇S_next[i,j] = [floor(i/chunk) = floor(j/chunk) + 1] ∇S[i,j]    (chain rule)
        ∇Q_next[i,s,p] = scale Σ_j K_turned[j,s,p] ∇S_next[i,j]    (product)
        ∇S_inner[i,j] = [floor(i/chunk) = floor(j/chunk)] ∇S[i,j]    (chain rule)
        ∇Q_inner[i,s,p] = scale Σ_j K_turned[j,s,p] ∇S_inner[i,j]    (product)
        ∇Q[i,s,p] = C_far[i,p] ∇Q_far[i,s,p] + C_inner[i,p] ∇Q_inner[i,s,p] + C_next[i,p] ∇Q_next[i,s,p] −
            N_far[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_far[i,s′,p] − N_inner[i,p] Σ_s′ QuarterTurn(s, s′)
            ∇Q_inner[i,s′,p] − N_next[i,p] Σ_s′ QuarterTurn(s, s′) ∇Q_next[i,s′,p]    (chain rule, sum over
            uses)
        ∇K_turned[j,s,p] = scale (Σ_i Q_far[i,s,p] ∇S_far[i,j] + Σ_i Q_inner[i,s,p] ∇S_inner[i,j] + Σ_i
            Q_next[i,s,p] ∇S_next[i,j])    (product, sum over uses, factor)
        ∇K[j,s,p] = C_k[j,p] ∇K_turned[j,s,p] − N_k[j,p] Σ_s′ QuarterTurn(s, s′) ∇K_turned[j,s′,p]    (chain
            rule)
    """
    m = A.shape[-1]
    n = dO.shape[-2]
    dV = visible_matmul(xp, A.mT, dO, M.mT)
    dA = dO @ V.mT
    r = xp.sum(visible_only(xp, A * dA, M), axis=-1)
    if dL is not None:
        r = r - dL
    dS = visible_only(xp, A * (dA - r[..., None]), M)
    dS_far = visible_only(
        xp,
        dS,
        xp.floor_divide(xp.arange(n), chunk)[..., None] > (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :],
    )
    dQ_far = scale * visible_matmul(xp, dS_far, K_turned, (xp.floor_divide(xp.arange(n), chunk)[..., None] > (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :]) & M, axes=(1, 1, 2))
    dS_next = visible_only(
        xp,
        dS,
        xp.floor_divide(xp.arange(n), chunk)[..., None] == (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :],
    )
    dQ_next = scale * visible_matmul(xp, dS_next, K_turned, (xp.floor_divide(xp.arange(n), chunk)[..., None] == (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None, :]) & M, axes=(1, 1, 2))
    dS_inner = visible_only(
        xp,
        dS,
        xp.floor_divide(xp.arange(n), chunk)[..., None] == xp.floor_divide(xp.arange(m), chunk)[..., None, :],
    )
    dQ_inner = scale * visible_matmul(xp, dS_inner, K_turned, (xp.floor_divide(xp.arange(n), chunk)[..., None] == xp.floor_divide(xp.arange(m), chunk)[..., None, :]) & M, axes=(1, 1, 2))
    dQ = C_far[..., None, :] * dQ_far + C_inner[..., None, :] * dQ_inner + C_next[..., None, :] * dQ_next - N_far[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_far, -3, -2), axes=(1, 1, 2)), -3, -2) - N_inner[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_inner, -3, -2), axes=(1, 1, 2)), -3, -2) - N_next[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dQ_next, -3, -2), axes=(1, 1, 2)), -3, -2)
    dK_turned = scale * (visible_matmul(xp, dS_far.mT, Q_far, (xp.floor_divide(xp.arange(n), chunk)[..., None, :] > (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None]) & M.mT, axes=(1, 1, 2)) + visible_matmul(xp, dS_inner.mT, Q_inner, (xp.floor_divide(xp.arange(n), chunk)[..., None, :] == xp.floor_divide(xp.arange(m), chunk)[..., None]) & M.mT, axes=(1, 1, 2)) + visible_matmul(xp, dS_next.mT, Q_next, (xp.floor_divide(xp.arange(n), chunk)[..., None, :] == (xp.floor_divide(xp.arange(m), chunk) + 1)[..., None]) & M.mT, axes=(1, 1, 2)))
    dK = C_k[..., None, :] * dK_turned - N_k[..., None, :] * xp.moveaxis(matmul(xp, xp.arange(2)[:, None] - xp.arange(2)[None, :], xp.moveaxis(dK_turned, -3, -2), axes=(1, 1, 2)), -3, -2)
    return {"Q": dQ, "K": dK, "V": dV}
