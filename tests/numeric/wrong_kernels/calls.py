"""Kernels that are right once: what they keep, reuse and write into between calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numeric.wrong_kernels.layers import SoftmaxRows
from tests.numeric.wrong_kernels.written import Arrays, Attention, Host


class Saving(Attention):
    """Weights are saved for the backward pass, which is faster than to compute them again."""

    saved: Host

    def forward(self, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        self.saved = self.weights(self.scores(Q, K) * self.scale(Q, scale))
        return {"O": self.values(self.saved, V)}

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        A, dO = self.saved, cotangents["O"]
        dV = self.value_gradients(A, dO)
        dS = self.score_gradients(A, dO @ V.mT) * self.scale(Q, scale)
        return {"Q": self.query_gradients(dS, K), "K": self.key_gradients(dS, Q), "V": dV}


class SecondBackward(Saving):
    """The gradients of scores are written over the weights, which are not needed any more."""

    def score_gradients(self, A: Host, dA: Host) -> Host:
        dA = dA - (A * dA).sum(-1, keepdims=True)
        A *= dA
        return A


class FreedByBackward(Saving):
    """What was saved is given up by the first backward pass."""

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        made = super().backward(cotangents, Q, K, V, scale)
        del self.saved
        return made


class BufferReused(Attention):
    """Results are written into a workspace that the next call of the same shapes uses too."""

    def __init__(self) -> None:
        self.workspace: dict[tuple[int, ...], Host] = {}

    def values(self, A: Host, V: Host) -> Host:
        shape = (*A.shape[:-1], V.shape[-1])
        out = self.workspace.setdefault(shape, np.empty(shape, V.dtype))
        return np.matmul(A, V, out=out)


class GradientsReused(Attention):
    """Gradients of values are given out in a workspace."""

    def __init__(self) -> None:
        self.workspace: dict[tuple[int, ...], Host] = {}

    def value_gradients(self, A: Host, dO: Host) -> Host:
        shape = (*A.shape[:-2], A.shape[-1], dO.shape[-1])
        return np.matmul(A.mT, dO, out=self.workspace.setdefault(shape, np.empty(shape, dO.dtype)))


class GradientsAccumulate(Attention):
    """Gradients are added to those that are there, as a framework does, but nobody sets them to 0."""

    def __init__(self) -> None:
        self.gradients: dict[tuple[int, ...], Host] = {}

    def value_gradients(self, A: Host, dO: Host) -> Host:
        made = super().value_gradients(A, dO)
        kept = self.gradients.setdefault(made.shape, np.zeros_like(made))
        kept += made
        return kept.copy()


class QueriesScaledInPlace(Attention):
    """Queries are scaled where they are, and divided again afterwards, which does not give the same bits."""

    def forward(self, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        factor = self.scale(Q, scale)
        own = np.ascontiguousarray(Q)
        own *= factor
        made = {"O": self.values(self.weights(self.scores(own, K)), V)}
        own /= factor
        return made


class CotangentsOverwritten(SoftmaxRows):
    """The gradient is computed in the memory of the cotangent."""

    def backward(self, cotangents: Arrays, X: Host, temperature: float = 1.0) -> Arrays:
        dX = super().backward(cotangents, X, temperature)["X"]
        given = np.ascontiguousarray(cotangents["P"])
        given[...] = dX
        return {"X": dX}


class MemoryTakenForGranted(Attention):
    """Values are read from the start of their memory, one after another, whatever their strides are."""

    def values(self, A: Host, V: Host) -> Host:
        memory: Any = V if V.base is None else V.base
        return super().values(A, memory.reshape(-1)[: V.size].reshape(V.shape))


class FirstScaleKept(Attention):
    """The scale is computed once, in the first call, and kept."""

    def __init__(self) -> None:
        self.kept: Any = None

    def scale(self, Q: Host, scale: float | None) -> Any:
        if self.kept is None:
            self.kept = super().scale(Q, scale)
        return self.kept


class CachedByShape(Attention):
    """Scores are kept for the backward pass by their shape, and taken from an earlier call of that shape."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, ...], Host] = {}

    def scores(self, Q: Host, K: Host) -> Host:
        shape = (*Q.shape[:-1], K.shape[-2], Q.shape[-1])
        return self.kept.setdefault(shape, super().scores(Q, K))


WRONG = (
    SecondBackward,
    FreedByBackward,
    BufferReused,
    GradientsReused,
    GradientsAccumulate,
    QueriesScaledInPlace,
    CotangentsOverwritten,
    MemoryTakenForGranted,
    FirstScaleKept,
    CachedByShape,
)

RIGHT = ()
