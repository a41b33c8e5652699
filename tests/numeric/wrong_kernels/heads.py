"""Kernels for batches and heads: entries that are taken for each other, or forgotten."""

from __future__ import annotations

import numpy as np

from tests.numeric.wrong_kernels.written import Arrays, Attention, Host, Written, silent


class SecondLeadingAxis(Attention):
    """A batch of heads was never tried: every head reads the keys of the first."""

    def scores(self, Q: Host, K: Host) -> Host:
        return super().scores(Q, K[:, :1] if K.ndim == 4 else K)


class HeadsInTheWrongOrder(Attention):
    """Two leading axes are made one for the launch, and taken apart the other way round."""

    def values(self, A: Host, V: Host) -> Host:
        O = super().values(A, V)
        if O.ndim < 4:
            return O
        b, h, *own = O.shape
        return O.reshape(h, b, *own).swapaxes(0, 1).reshape(b, h, *own)


class ThirdBatchEntry(Attention):
    """Two buffers take turns while a batch is streamed: the third entry reads the values of the first."""

    def values(self, A: Host, V: Host) -> Host:
        loaded = V if V.ndim < 3 else V[np.arange(len(V)) % 2]
        return super().values(A, loaded)


class FirstOfTheBatch(Attention):
    """A statistic of the softmax is kept for the first entry of the batch alone."""

    def score_gradients(self, A: Host, dA: Host) -> Host:
        row_sums = (A * dA).sum(-1, keepdims=True)
        return A * (dA - (row_sums if A.ndim < 3 else row_sums[:1]))


class Grouped(Written):
    """Query heads that share keys: Q [.., H·G, n, d], heads of a group beside each other, and K, V [.., H, m, ..]."""

    program = "grouped_query"

    def forward(self, Q: Host, K: Host, V: Host, mask: Host | None = None, scale: float | None = None) -> Arrays:
        return {"O": self.weights(Q, K, mask, scale) @ self.repeated(self.seen(V, mask), Q)}

    def backward(
        self, cotangents: Arrays, Q: Host, K: Host, V: Host, mask: Host | None = None, scale: float | None = None
    ) -> Arrays:
        A, dO, shape = self.weights(Q, K, mask, scale), cotangents["O"], (*K.shape[:-2], -1)
        dA = dO @ self.repeated(self.seen(V, mask), Q).mT
        dS = A * (dA - (A * dA).sum(-1, keepdims=True)) * self.scale(Q, scale)
        dK, dV = dS.mT @ Q, A.mT @ dO
        return {
            "Q": dS @ self.repeated(self.seen(K, mask), Q),
            "K": self.over_group(dK.reshape(*shape, *dK.shape[-2:])),
            "V": self.over_group(dV.reshape(*shape, *dV.shape[-2:])),
        }

    def scale(self, Q: Host, scale: float | None) -> np.generic:
        factor: np.generic = Q.dtype.type(Q.shape[-1] ** -0.5 if scale is None else scale)
        return factor

    def weights(self, Q: Host, K: Host, mask: Host | None, scale: float | None) -> Host:
        S = Q @ self.repeated(self.seen(K, mask), Q).mT * self.scale(Q, scale)
        if mask is not None:
            S = np.where(mask[..., None, :, :], S, S.dtype.type(-np.inf))
        top = S.max(-1, keepdims=True)
        E = np.exp(S - np.where(np.isneginf(top), 0, top))
        Z = E.sum(-1, keepdims=True)
        return E / np.where(Z == 0, 1, Z)

    def seen(self, keys: Host, mask: Host | None) -> Host:
        return keys if mask is None else silent(keys, ~mask[..., None, :, :])

    def repeated(self, keys: Host, Q: Host) -> Host:
        return np.repeat(keys, Q.shape[-3] // keys.shape[-3], axis=-3)

    def over_group(self, gradients: Host) -> Host:
        return gradients.sum(-3)


class GroupsInterleaved(Grouped):
    """The heads of keys are repeated as a whole, where each should be repeated by itself."""

    def repeated(self, keys: Host, Q: Host) -> Host:
        return keys[..., np.arange(Q.shape[-3]) % keys.shape[-3], :, :]


class LastOfTheGroup(Grouped):
    """Every query head writes its gradient of the shared keys, and the last one stays."""

    def over_group(self, gradients: Host) -> Host:
        return gradients[..., -1, :, :]


class MeanOfTheGroup(Grouped):
    """Gradients of shared keys are averaged over the group, as data-parallel training averages."""

    def over_group(self, gradients: Host) -> Host:
        return gradients.mean(-3)


WRONG = (
    SecondLeadingAxis,
    HeadsInTheWrongOrder,
    ThirdBatchEntry,
    FirstOfTheBatch,
    GroupsInterleaved,
    LastOfTheGroup,
    MeanOfTheGroup,
)

RIGHT = (Grouped,)
