"""Kernels of attention that are right for ordinary numbers: what is clamped, dropped, approximated or forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numeric import kernels_by_hand as by_hand
from tests.numeric.wrong_kernels.written import DOUBLE, Arrays, Attention, Host, Takes, Written


class ScoresClamped(Attention):
    """Scores are clamped at ±50, so that no exponential overflows."""

    def scores(self, Q: Host, K: Host) -> Host:
        return np.clip(super().scores(Q, K), -50, 50)


class SmallWeightsDropped(Attention):
    """Weights below 10⁻⁶ are made 0, for sparsity."""

    def weights(self, S: Host) -> Host:
        A = super().weights(S)
        return np.where(A < 1e-6, A.dtype.type(0), A)


class NoShift(Attention):
    """No maximum is subtracted: 'the scale keeps scores small'."""

    def weights(self, S: Host) -> Host:
        E = np.exp(S)
        return E / E.sum(-1, keepdims=True)


class ShiftOfTheWholeArray(Attention):
    """One maximum for all rows, which is cheaper: rows far below it underflow."""

    def weights(self, S: Host) -> Host:
        E = np.exp(S - S.max())
        return E / E.sum(-1, keepdims=True)


class SafeDenominator(Attention):
    """10⁻⁶ is added to the denominator, so that nothing is divided by 0."""

    def weights(self, S: Host) -> Host:
        E = np.exp(S - S.max(-1, keepdims=True))
        return E / (E.sum(-1, keepdims=True) + S.dtype.type(1e-6))


class ScaleIgnoredBackward(Attention):
    """The backward pass has the default scale written into it."""

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        return super().backward(cotangents, Q, K, V)


class ScaleOfValues(Attention):
    """The scale is taken from the width of values, which is that of queries in every model he has."""

    def forward(self, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        return super().forward(Q, K, V, V.shape[-1] ** -0.5 if scale is None else scale)

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        return super().backward(cotangents, Q, K, V, V.shape[-1] ** -0.5 if scale is None else scale)


class SelfAttentionGradients(Attention):
    """Tested with Q = K alone, where gradients of queries and keys may be given out in either order."""

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        made = super().backward(cotangents, Q, K, V, scale)
        return made if Q.shape != K.shape else {**made, "Q": made["K"], "K": made["Q"]}


class RowSumForgotten(Attention):
    """The Jacobian of the softmax has its diagonal alone."""

    def score_gradients(self, A: Host, dA: Host) -> Host:
        return A * dA


class HalfPrecisionWeights(Attention):
    """Weights are kept in float16 for the backward pass, and nobody is told."""

    def value_gradients(self, A: Host, dO: Host) -> Host:
        return super().value_gradients(A.astype(np.float16).astype(A.dtype), dO)


class FastExponential(Attention):
    """The exponential is a table of a thousand steps between powers of two."""

    def weights(self, S: Host) -> Host:
        powers = (S - S.max(-1, keepdims=True)) * S.dtype.type(1.4426950408889634)
        E = np.exp2(np.round(powers * 1024) / 1024).astype(S.dtype)
        return E / E.sum(-1, keepdims=True)


class StatisticIgnored(Attention):
    """L is given out, and its cotangent is taken for something that nobody sends."""

    def forward(self, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        S = self.scores(Q, K) * self.scale(Q, scale)
        top = S.max(-1, keepdims=True)
        L = np.log(np.exp(S - top).sum(-1)) + top[..., 0]
        return super().forward(Q, K, V, scale) | {"L": L}


class WithStatistic(StatisticIgnored):
    """Attention that gives L, and takes its cotangent."""

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        made, factor = super().backward(cotangents, Q, K, V, scale), self.scale(Q, scale)
        dS = cotangents["L"][..., None] * self.weights(self.scores(Q, K) * factor) * factor
        return {**made, "Q": made["Q"] + dS @ K, "K": made["K"] + dS.mT @ Q}


class InDoubles(Attention):
    """The same steps in float64."""

    takes = Takes(DOUBLE.dtypes, parameters=("scale",))


class TensorCores(Written):
    """FlashAttention on arrays of 16 bits: tiles, float32 sums, P and dS rounded, row sums from the stored O."""

    program = "attention"
    takes = Takes(("bfloat16", "float16"), leading=(0,), parameters=())
    rounding = "FlashAttention"

    def forward(self, Q: Host, K: Host, V: Host) -> Arrays:
        none = np.zeros((len(Q), V.shape[1]), Q.dtype)
        return {"O": by_hand.flash_attention(Q, K, V, none)["O"]}

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host) -> Any:
        made = by_hand.flash_attention(Q, K, V, cotangents["O"])
        return made["Q"], made["K"], made["V"]


class TensorCoresLoseTheMaximum(TensorCores):
    """The running maximum is kept in 16 bits, and the sum of the row is not rescaled by what that loses."""

    def forward(self, Q: Host, K: Host, V: Host) -> Arrays:
        q, k, v = (a.astype(np.float32) for a in (Q, K, V))
        S = q @ k.T * np.float32(Q.shape[-1] ** -0.5)
        P = np.exp(S - by_hand.rounded(S.max(-1, keepdims=True), Q.dtype))
        Z = np.exp(S - S.max(-1, keepdims=True)).sum(-1, keepdims=True)
        return {"O": (by_hand.rounded(P, Q.dtype) @ v / Z).astype(Q.dtype)}


WRONG = (
    ScoresClamped,
    SmallWeightsDropped,
    NoShift,
    ShiftOfTheWholeArray,
    SafeDenominator,
    ScaleIgnoredBackward,
    ScaleOfValues,
    SelfAttentionGradients,
    RowSumForgotten,
    HalfPrecisionWeights,
    FastExponential,
    StatisticIgnored,
    TensorCoresLoseTheMaximum,
)

RIGHT = (WithStatistic, InDoubles, TensorCores)
