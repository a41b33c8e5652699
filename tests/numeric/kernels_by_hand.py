"""Kernels of attention written by hand, right and wrong: what the oracle has to tell apart. NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Host = np.ndarray
Arrays = dict[str, Host]
Product = Callable[[Host, Host], Host]


def attention(Q: Host, K: Host, V: Host, dO: Host, product: Product = np.matmul, dropped: int = 0) -> Arrays:
    """O, and the gradients of Q, K and V, in the dtype of the arrays, by a given matrix product."""
    scale = Q.dtype.type(Q.shape[-1] ** -0.5)
    S = product(Q, K.T) * scale
    if dropped:
        S[:, -dropped:] = -np.inf
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    dA = product(dO, V.T)
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    return {"O": product(A, V), "Q": product(dS, K) * scale, "K": product(dS.T, Q) * scale, "V": product(A.T, dO)}


def one_after_another(left: Host, right: Host) -> Host:
    """A matrix product that adds term after term: the order that loses most."""
    total = np.zeros((left.shape[0], right.shape[1]), left.dtype)
    for k in range(left.shape[1]):
        total += left[:, k : k + 1] * right[k : k + 1]
    return total


def rounded_product(dtype: Any) -> Product:
    """A product of operands that are rounded to a dtype of 16 bits; sums are in float32."""
    return lambda left, right: rounded(left, dtype) @ rounded(right, dtype)


def rounded(array: Host, dtype: Any) -> Host:
    """Numbers as 16 bits hold them, in float32."""
    result: Host = array.astype(dtype).astype(np.float32)
    return result


def tf32_product(left: Host, right: Host) -> Host:
    """A product of operands with ten bits of mantissa, as tensor cores take float32."""
    return _ten_bits(left) @ _ten_bits(right)


def _ten_bits(array: Host) -> Host:
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    kept: Host = ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    return kept


def flash_attention(Q: Host, K: Host, V: Host, dO: Host, tile: int = 64) -> Arrays:
    """FlashAttention-2 on arrays of 16 bits: tiles, float32 accumulators, P and dS rounded, D from the stored O."""
    stored = Q.dtype
    q, k, v, g = (a.astype(np.float32) for a in (Q, K, V, dO))
    scale = np.float32(Q.shape[-1] ** -0.5)
    top = np.full((len(q), 1), -np.inf, np.float32)
    Z, acc = np.zeros((len(q), 1), np.float32), np.zeros((len(q), v.shape[1]), np.float32)
    for start in range(0, len(k), tile):
        S = q @ k[start : start + tile].T * scale
        higher = np.maximum(top, S.max(-1, keepdims=True))
        P, fade = np.exp(S - higher), np.exp(top - higher)
        Z, acc, top = (
            Z * fade + P.sum(-1, keepdims=True),
            acc * fade + rounded(P, stored) @ v[start : start + tile],
            higher,
        )
    O, L = (acc / Z).astype(stored), top + np.log(Z)
    D = (O.astype(np.float32) * g).sum(-1, keepdims=True)
    dQ, dK, dV = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for start in range(0, len(k), tile):
        here = slice(start, start + tile)
        P = np.exp(q @ k[here].T * scale - L)
        dS = rounded(P * (g @ v[here].T - D), stored)
        dV[here], dK[here] = rounded(P, stored).T @ g, dS.T @ q * scale
        dQ += dS @ k[here] * scale
    return {"O": O, "Q": dQ.astype(stored), "K": dK.astype(stored), "V": dV.astype(stored)}


def all_in_sixteen_bits(Q: Host, K: Host, V: Host, dO: Host) -> Arrays:
    """Every intermediate result stored in 16 bits; sums are in float32."""
    stored = Q.dtype

    def r(array: Host) -> Host:
        return rounded(array, stored)

    q, k, v, g = (a.astype(np.float32) for a in (Q, K, V, dO))
    scale = r(np.float32(Q.shape[-1] ** -0.5))
    S = r(r(q @ k.T) * scale)
    E = r(np.exp(r(S - S.max(-1, keepdims=True))))
    A = r(E / r(E.sum(-1, keepdims=True)))
    dA = r(g @ v.T)
    dS = r(A * r(dA - r(r(A * dA).sum(-1, keepdims=True))))
    made = {"O": A @ v, "Q": r(dS @ k) * scale, "K": r(dS.T @ q) * scale, "V": A.T @ g}
    return {name: array.astype(stored) for name, array in made.items()}
