"""A plain float64 reference for attention, written by hand: one query at a time, Jacobians spelled out.

It calls neither generated code nor the symbolic layer. Hidden keys are left out of every sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass
class Reference:
    """Outputs, and gradients for the given cotangents."""

    O: Array
    L: Array
    dQ: Array
    dK: Array
    dV: Array
    dbias: Array


def attention_reference(
    Q: Array,
    K: Array,
    V: Array,
    dO: Array,
    dL: Array,
    mask: Array | None = None,
    bias: Array | None = None,
    scale: float | None = None,
    offset: int | None = None,
) -> Reference:
    """Attention of ``[n, d], [m, d], [m, d_v]``; causal with an offset, else every key is visible.

    Arrays are two-dimensional; ``dL`` has shape ``[n]``.
    """
    n, m, d = len(Q), len(K), Q.shape[1]
    Q, K, V, dO, dL = (np.asarray(a, dtype=np.float64) for a in (Q, K, V, dO, dL))
    scale = (1 / np.sqrt(d) if d else 1.0) if scale is None else scale
    added = np.zeros((n, m)) if bias is None else np.broadcast_to(np.asarray(bias, dtype=np.float64), (n, m))
    visible = np.ones((n, m), dtype=bool) if mask is None else np.broadcast_to(mask, (n, m))
    result = Reference(
        np.zeros((n, V.shape[1])),
        np.full(n, -np.inf),
        np.zeros(Q.shape),
        np.zeros(K.shape),
        np.zeros(V.shape),
        np.zeros((n, m)),
    )
    for i in range(n):
        seen = [j for j in range(m) if visible[i, j] and (offset is None or j <= i + offset) and added[i, j] > -np.inf]
        if not seen:
            continue
        keys, values = K[seen], V[seen]
        scores = np.array([scale * (Q[i] @ k) for k in keys]) + added[i, seen]
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        result.O[i] = sum(w * v for w, v in zip(weights, values, strict=True))
        result.L[i] = scores.max() + np.log(np.exp(scores - scores.max()).sum())
        jacobian = np.diag(weights) - np.outer(weights, weights)
        d_scores = jacobian @ np.array([v @ dO[i] for v in values]) + dL[i] * weights
        result.dQ[i] = scale * sum(s * k for s, k in zip(d_scores, keys, strict=True))
        for j, w, s in zip(seen, weights, d_scores, strict=True):
            result.dK[j] += scale * s * Q[i]
            result.dV[j] += w * dO[i]
            result.dbias[i, j] = s
    return result
