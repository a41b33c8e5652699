"""Kernels of normalisations, rows of softmax, losses, networks and tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numeric.wrong_kernels.written import Arrays, Host, Takes, Written


class LayerNorm(Written):
    """Layer normalisation with weights that all entries of a batch share."""

    program = "layer_norm"
    takes = Takes(("float32",), shared=("weight", "shift"))

    def centred(self, X: Host) -> Host:
        return X - X.mean(-1, keepdims=True)

    def rstd(self, X: Host, eps: float) -> Host:
        c = self.centred(X)
        return 1 / np.sqrt((c * c).mean(-1, keepdims=True) + X.dtype.type(eps))

    def over_rows(self, array: Host) -> Host:
        return array.sum(tuple(range(array.ndim - 1)))

    def forward(self, X: Host, weight: Host, shift: Host, eps: float = 1e-5) -> Arrays:
        return {"Y": self.centred(X) * self.rstd(X, eps) * weight + shift}

    def backward(self, cotangents: Arrays, X: Host, weight: Host, shift: Host, eps: float = 1e-5) -> Arrays:
        dY, rstd = cotangents["Y"], self.rstd(X, eps)
        n, g = self.centred(X) * rstd, dY * weight
        return {"X": self.state_gradients(n, g, rstd), "weight": self.over_rows(dY * n), "shift": self.over_rows(dY)}

    def state_gradients(self, n: Host, g: Host, rstd: Host) -> Host:
        return rstd * (g - g.mean(-1, keepdims=True) - n * (g * n).mean(-1, keepdims=True))


class DifferenceOfSquares(LayerNorm):
    """The variance in one pass: the mean of squares less the square of the mean."""

    def rstd(self, X: Host, eps: float) -> Host:
        variance = (X * X).mean(-1, keepdims=True) - X.mean(-1, keepdims=True) ** 2
        return 1 / np.sqrt(np.maximum(variance, 0) + X.dtype.type(eps))


class SampleVariance(LayerNorm):
    """The variance of a sample, divided by one less, as a library's default has it."""

    def rstd(self, X: Host, eps: float) -> Host:
        return 1 / np.sqrt(X.var(-1, ddof=1, keepdims=True) + X.dtype.type(eps))


class EpsOutsideTheRoot(LayerNorm):
    """ε is added to the standard deviation and not to the variance."""

    def rstd(self, X: Host, eps: float) -> Host:
        return 1 / (X.std(-1, keepdims=True) + X.dtype.type(eps))


class EpsIgnored(LayerNorm):
    """ε is 10⁻⁵, whatever is asked for."""

    def rstd(self, X: Host, eps: float) -> Host:
        return super().rstd(X, 1e-5)


class BatchedWeightGradient(LayerNorm):
    """The gradient of the weights is summed over the rows of the first entry of a batch."""

    def over_rows(self, array: Host) -> Host:
        return array[(0,) * (array.ndim - 2)].sum(0)


class RowsInOneBlock(LayerNorm):
    """The gradient of the weights is summed by one block of 128 rows."""

    def over_rows(self, array: Host) -> Host:
        return array.reshape(-1, array.shape[-1])[:128].sum(0)


class MeanHasNoGradient(LayerNorm):
    """The mean is taken for a constant."""

    def state_gradients(self, n: Host, g: Host, rstd: Host) -> Host:
        return rstd * (g - n * (g * n).mean(-1, keepdims=True))


class RmsNorm(Written):
    """Root-mean-square normalisation, with its weight for every entry of a batch."""

    program = "rms_norm"

    def mean(self, squares: Host) -> Host:
        return squares.mean(-1, keepdims=True)

    def rstd(self, X: Host, eps: float) -> Host:
        return 1 / np.sqrt(self.mean(X * X) + X.dtype.type(eps))

    def forward(self, X: Host, weight: Host, eps: float = 1e-5) -> Arrays:
        return {"Y": X * self.rstd(X, eps) * weight[..., None, :]}

    def backward(self, cotangents: Arrays, X: Host, weight: Host, eps: float = 1e-5) -> Arrays:
        dY, rstd = cotangents["Y"], self.rstd(X, eps)
        n, g = X * rstd, dY * weight[..., None, :]
        return {"X": rstd * (g - n * self.mean(g * n)), "weight": (dY * n).sum(-2)}


class WidthOfOneBlock(RmsNorm):
    """A row is summed by 256 threads, each of which takes one number."""

    def mean(self, squares: Host) -> Host:
        return squares[..., :256].sum(-1, keepdims=True) / squares.dtype.type(squares.shape[-1])


class EpsForgotten(RmsNorm):
    """'Rows are never 0', so nothing is added."""

    def rstd(self, X: Host, eps: float) -> Host:
        return 1 / np.sqrt(self.mean(X * X))


class SoftmaxRows(Written):
    """The softmax of rows."""

    program = "softmax_rows"

    def weights(self, S: Host) -> Host:
        E = np.exp(S - S.max(-1, keepdims=True))
        return E / E.sum(-1, keepdims=True)

    def forward(self, X: Host, temperature: float = 1.0) -> Arrays:
        return {"P": self.weights(X / X.dtype.type(temperature))}

    def backward(self, cotangents: Arrays, X: Host, temperature: float = 1.0) -> Arrays:
        P, dP = self.weights(X / X.dtype.type(temperature)), cotangents["P"]
        return {"X": P * (dP - (P * dP).sum(-1, keepdims=True)) / X.dtype.type(temperature)}


class TemperatureOnTheWayThere(SoftmaxRows):
    """The gradient is not divided by the temperature."""

    def backward(self, cotangents: Arrays, X: Host, temperature: float = 1.0) -> Arrays:
        return {"X": super().backward(cotangents, X, temperature)["X"] * X.dtype.type(temperature)}


class TwoPassesOfAWarp(SoftmaxRows):
    """A row is read in two steps of 32 numbers, and the maximum is that of the first."""

    def weights(self, S: Host) -> Host:
        E = np.exp(S - S[..., :32].max(-1, keepdims=True))
        return E / E.sum(-1, keepdims=True)


class CrossEntropy(Written):
    """The mean cross-entropy of targets; negative ones are left out."""

    program = "cross_entropy"

    def forward(self, Z: Host, targets: Host, temperature: float = 1.0) -> Arrays:
        S = Z / Z.dtype.type(temperature)
        top = S.max(-1, keepdims=True)
        logsum = np.log(np.exp(S - top).sum(-1)) + top[..., 0]
        losses = np.where(targets >= 0, logsum - _at(S, targets), 0)
        return {"loss": losses.sum(-1) / self.number(targets).astype(Z.dtype)}

    def backward(self, cotangents: Arrays, Z: Host, targets: Host, temperature: float = 1.0) -> Arrays:
        E = np.exp((Z - Z.max(-1, keepdims=True)) / Z.dtype.type(temperature))
        right = np.arange(Z.shape[-1]) == targets[..., None]
        dS = np.where(targets[..., None] >= 0, E / E.sum(-1, keepdims=True) - right, 0)
        sent = cotangents["loss"] / self.number(targets).astype(Z.dtype) / Z.dtype.type(temperature)
        return {"Z": (dS * sent[..., None, None]).astype(Z.dtype)}

    def number(self, targets: Host) -> Host:
        return np.maximum((targets >= 0).sum(-1), 1)


def _at(S: Host, targets: Host) -> Host:
    return np.take_along_axis(S, np.maximum(targets, 0)[..., None], -1)[..., 0]


class MeanOverAll(CrossEntropy):
    """The mean is over all rows, those that are left out among them."""

    def number(self, targets: Host) -> Host:
        return np.full(targets.shape[:-1], targets.shape[-1])


class NoRowCounts(CrossEntropy):
    """Where every row is left out, 0 is divided by 0."""

    def number(self, targets: Host) -> Host:
        return (targets >= 0).sum(-1)


class Gated(Written):
    """A gated network."""

    program = "swiglu"
    takes = Takes(("float32",), shared=("W_gate", "W_up", "W_down"))

    def gate(self, U: Host) -> Host:
        return 1 / (1 + np.exp(-U))

    def slope(self, U: Host) -> Host:
        s = self.gate(U)
        return s + U * s * (1 - s)

    def forward(self, X: Host, W_gate: Host, W_up: Host, W_down: Host) -> Arrays:
        U = X @ W_gate
        return {"Y": (U * self.gate(U) * (X @ W_up)) @ W_down}

    def backward(self, cotangents: Arrays, X: Host, W_gate: Host, W_up: Host, W_down: Host) -> Arrays:
        U, B, dY = X @ W_gate, X @ W_up, cotangents["Y"]
        s = self.gate(U)
        dH = dY @ W_down.mT
        dU, dB = dH * B * self.slope(U), dH * U * s
        made = {"W_gate": X.mT @ dU, "W_up": X.mT @ dB, "W_down": (U * s * B).mT @ dY}
        summed = {name: array.reshape(-1, *array.shape[-2:]).sum(0) for name, array in made.items()}
        return {"X": dU @ W_gate.mT + dB @ W_up.mT, **summed}


class GateIsItsOwnSlope(Gated):
    """The gate's own slope is left out of the gradient."""

    def slope(self, U: Host) -> Host:
        return self.gate(U)


class Table(Written):
    """Rows of a table, looked up by number."""

    program = "embedding"
    takes = Takes(("float32",), leading=(0,))

    def forward(self, tokens: Host, W_E: Host) -> Arrays:
        return {"X": W_E[tokens]}

    def backward(self, cotangents: Arrays, tokens: Host, W_E: Host) -> Arrays:
        dW = np.zeros_like(W_E)
        self.scatter(dW, tokens, cotangents["X"])
        return {"W_E": dW}

    def scatter(self, dW: Host, tokens: Host, rows: Host) -> None:
        np.add.at(dW, tokens, rows)


class TokensThatComeTwice(Table):
    """Gradients are added by fancy indexing, where of equal numbers the last one stays."""

    def scatter(self, dW: Host, tokens: Any, rows: Host) -> None:
        dW[tokens] += rows


WRONG = (
    DifferenceOfSquares,
    SampleVariance,
    EpsOutsideTheRoot,
    EpsIgnored,
    BatchedWeightGradient,
    RowsInOneBlock,
    MeanHasNoGradient,
    WidthOfOneBlock,
    EpsForgotten,
    TemperatureOnTheWayThere,
    TwoPassesOfAWarp,
    MeanOverAll,
    NoRowCounts,
    GateIsItsOwnSlope,
    TokensThatComeTwice,
)

RIGHT = (LayerNorm, RmsNorm, SoftmaxRows, CrossEntropy, Gated, Table)
