"""Kernels that are right for some lengths: tiles, registers and blocks whose ends were not thought of."""

from __future__ import annotations

import numpy as np

from tests.numeric.wrong_kernels.written import Attention, Host


class FirstTileOfKeys(Attention):
    """Keys are loaded once, a tile of 64: later ones are never seen."""

    def scores(self, Q: Host, K: Host) -> Host:
        S = super().scores(Q, K)
        S[..., 64:] = -np.inf
        return S


class EightQueries(Attention):
    """One warp a block and eight queries a warp: the launch has one block, and queries after the eighth give 0."""

    def values(self, A: Host, V: Host) -> Host:
        O = super().values(A, V)
        O[..., 8:, :] = 0
        return O


class WidthInVectors(Attention):
    """Dot products take eight numbers at once; what is left over is done only where there are fewer than eight."""

    def scores(self, Q: Host, K: Host) -> Host:
        d = Q.shape[-1]
        whole = d // 8 * 8 if d > 8 else d
        return Q[..., :whole] @ K[..., :whole].mT


class OneQueryDecodes(Attention):
    """A single query is decoding, where nobody asks for gradients of keys."""

    def key_gradients(self, dS: Host, Q: Host) -> Host:
        dK = super().key_gradients(dS, Q)
        return dK * 0 if Q.shape[-2] == 1 else dK


class OneKeyIsBroadcast(Attention):
    """With one key the product is written as a broadcast, and the sum over queries is forgotten."""

    def value_gradients(self, A: Host, dO: Host) -> Host:
        return A[..., :1, :].mT * dO[..., :1, :] if A.shape[-1] == 1 else super().value_gradients(A, dO)


class LastTileOfSixteen(Attention):
    """The loop over tiles of 16 keys ends before the one that is not full."""

    def scores(self, Q: Host, K: Host) -> Host:
        S, m = super().scores(Q, K), K.shape[-2]
        if m > 16:
            S[..., m // 16 * 16 :] = -np.inf
        return S


class OnePastTheTile(Attention):
    """A row that just fills its tile reads on into the next row: ≤ where < was meant."""

    def value_gradients(self, A: Host, dO: Host) -> Host:
        dV, n = super().value_gradients(A, dO), dO.shape[-2]
        if n % 8 == 0 and n:
            dV += A[..., -1:, :].mT @ dO[..., -1:, :]
        return dV


class TransposedWhereSquare(Attention):
    """The layout of dS is told from its shape, which says nothing where there are as many queries as keys."""

    def key_gradients(self, dS: Host, Q: Host) -> Host:
        return dS @ Q if dS.shape[-1] == Q.shape[-2] else dS.mT @ Q


class TileVisitedTwice(Attention):
    """Splitting keys over two workers, each takes ⌈m/2⌉ of a long row: with an odd number one key counts twice."""

    def scores(self, Q: Host, K: Host) -> Host:
        S, m = super().scores(Q, K), K.shape[-2]
        if m > 128 and m % 2:
            S[..., m // 2] += np.log(S.dtype.type(2))
        return S


WRONG = (
    FirstTileOfKeys,
    EightQueries,
    WidthInVectors,
    OneQueryDecodes,
    OneKeyIsBroadcast,
    LastTileOfSixteen,
    OnePastTheTile,
    TransposedWhereSquare,
    TileVisitedTwice,
)

RIGHT = (Attention,)
