"""Kernels with masks: causal ones, windows, and masks that the caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numeric.wrong_kernels.written import Arrays, Attention, Host, Takes, silent


class Masked(Attention):
    """Attention with a mask and a bias, both optional; a query that sees nothing gives 0."""

    takes = Takes(("float32",))

    def hidden(self, n: int, m: int, mask: Host | None, bias: Host | None, **parameters: int) -> Host:
        """Where a query does not see a key."""
        hidden = np.zeros((n, m), bool)
        if mask is not None:
            hidden = hidden | ~mask
        return hidden if bias is None else hidden | np.isneginf(bias)

    def visible_weights(self, S: Host, hidden: Host) -> Host:
        S = np.where(hidden, S.dtype.type(-np.inf), S)
        top = S.max(-1, keepdims=True)
        E = np.exp(S - np.where(np.isneginf(top), 0, top))
        Z = E.sum(-1, keepdims=True)
        return E / np.where(Z == 0, 1, Z)

    def forward(
        self,
        Q: Host,
        K: Host,
        V: Host,
        mask: Host | None = None,
        bias: Host | None = None,
        scale: float | None = None,
        **parameters: int,
    ) -> Arrays:
        A, hidden = self._weights(Q, K, mask, bias, scale, **parameters)
        return {"O": self.values(A, silent(V, hidden))}

    def backward(
        self,
        cotangents: Arrays,
        Q: Host,
        K: Host,
        V: Host,
        mask: Host | None = None,
        bias: Host | None = None,
        scale: float | None = None,
        **parameters: int,
    ) -> Arrays:
        A, hidden = self._weights(Q, K, mask, bias, scale, **parameters)
        dO, factor = cotangents["O"], self.scale(Q, scale)
        dS = self.score_gradients(A, dO @ silent(V, hidden).mT)
        made = {"Q": dS @ silent(K, hidden) * factor, "K": dS.mT @ Q * factor, "V": self.value_gradients(A, dO)}
        return made if bias is None else {**made, "bias": self.bias_gradients(dS, bias)}

    def bias_gradients(self, dS: Host, bias: Host) -> Host:
        return dS

    def _weights(self, Q: Host, K: Host, mask: Any, bias: Any, scale: Any, **parameters: int) -> tuple[Host, Host]:
        hidden = self.hidden(Q.shape[-2], K.shape[-2], mask, bias, **parameters)
        S = self.scores(Q, silent(K, hidden)) * self.scale(Q, scale)
        return self.visible_weights(S if bias is None else S + bias, hidden), hidden


class LargeNegativeNumber(Masked):
    """Hidden scores become −10⁹ and not −∞: a query that sees nothing sees everything."""

    def visible_weights(self, S: Host, hidden: Host) -> Host:
        return self.weights(np.where(hidden, S.dtype.type(-1e9), S))


class BlindQueriesAreNaN(Masked):
    """Rows without a visible key divide 0 by 0."""

    def visible_weights(self, S: Host, hidden: Host) -> Host:
        return self.weights(np.where(hidden, S.dtype.type(-np.inf), S))


class HiddenAfterTheSoftmax(Masked):
    """Weights are multiplied by the mask, and no longer add up to 1."""

    def visible_weights(self, S: Host, hidden: Host) -> Host:
        return self.weights(S) * ~hidden


class MaskOfTheFirstHead(Masked):
    """The mask is that of the first entry of the batch: 'all sequences have one length'."""

    def hidden(self, n: int, m: int, mask: Host | None, bias: Host | None, **parameters: int) -> Host:
        first = mask if mask is None or mask.ndim == 2 else mask[(0,) * (mask.ndim - 2)]
        return super().hidden(n, m, first, bias)


class BiasWithoutAGradient(Masked):
    """The bias is data for its author, and has a gradient of 0."""

    def bias_gradients(self, dS: Host, bias: Host) -> Host:
        return np.zeros_like(bias)


class HiddenValuesAreMultiplied(Masked):
    """What nobody sees is multiplied by a weight of 0, which is not 0 where it is no number."""

    def values(self, A: Host, V: Host) -> Host:
        return A @ V

    def forward(self, Q: Host, K: Host, V: Host, *arguments: Any, **inputs: Any) -> Arrays:
        made = super().forward(Q, K, V, *arguments, **inputs)
        return {"O": made["O"] + (0 * V.sum(-2, keepdims=True))}


class Causal(Masked):
    """Key j is visible to query i where j ≤ i + offset."""

    program = "causal_attention"

    def hidden(self, n: int, m: int, mask: Host | None, bias: Host | None, **parameters: int) -> Host:
        return super().hidden(n, m, mask, bias) | self.future(n, m, parameters.get("offset", 0))

    def future(self, n: int, m: int, offset: int) -> Host:
        return np.arange(m) > np.arange(n)[:, None] + offset


class CausalFromTheEnd(Causal):
    """The last query is aligned with the last key, as where a cache goes before."""

    def future(self, n: int, m: int, offset: int) -> Host:
        return super().future(n, m, offset + m - n)


class StrictlyCausal(Causal):
    """A query does not see its own position."""

    def future(self, n: int, m: int, offset: int) -> Host:
        return super().future(n, m, offset - 1)


class OffsetIgnored(Causal):
    """The offset is there for the interface."""

    def future(self, n: int, m: int, offset: int) -> Host:
        return super().future(n, m, 0)


class BlocksSkipped(Causal):
    """Blocks of 64 by 64 after the diagonal are skipped, and whole blocks on it: queries before the last of a block
    do not see the keys of their own block where these do not start with them."""

    def future(self, n: int, m: int, offset: int) -> Host:
        i, j = np.arange(n)[:, None], np.arange(m)
        return super().future(n, m, offset) | ((j // 64 == i // 64) & (i >= 64) & (j > i // 64 * 64))


class CausalForwardAlone(Causal):
    """The backward pass computes its weights again, without the causal mask."""

    def backward(self, cotangents: Arrays, *arguments: Any, **inputs: Any) -> Arrays:
        return Masked().backward(cotangents, *arguments, **inputs)


class Window(Masked):
    """Key j is visible to query i where i − left ≤ j ≤ i + right."""

    program = "window_attention"

    def hidden(self, n: int, m: int, mask: Host | None, bias: Host | None, **parameters: int) -> Host:
        far = self.far(np.arange(m) - np.arange(n)[:, None], m, parameters.get("left", 1), parameters.get("right", 0))
        return super().hidden(n, m, mask, bias) | far

    def far(self, apart: Host, m: int, left: int, right: int) -> Host:
        return (apart < -left) | (apart > right)


class WindowWrapsAround(Window):
    """Keys of a window are taken at indices that may be negative, and NumPy counts those from the end."""

    def far(self, apart: Host, m: int, left: int, right: int) -> Host:
        return super().far(apart, m, left, right) & super().far(apart - m, m, left, right)


class RightOfTheWindowIgnored(Window):
    """Written for decoders: nothing is ever seen after a query's own position."""

    def far(self, apart: Host, m: int, left: int, right: int) -> Host:
        return super().far(apart, m, left, min(right, 0))


WRONG = (
    LargeNegativeNumber,
    BlindQueriesAreNaN,
    HiddenAfterTheSoftmax,
    MaskOfTheFirstHead,
    BiasWithoutAGradient,
    HiddenValuesAreMultiplied,
    CausalFromTheEnd,
    StrictlyCausal,
    OffsetIgnored,
    BlocksSkipped,
    CausalForwardAlone,
    WindowWrapsAround,
    RightOfTheWindowIgnored,
)

RIGHT = (Masked, Causal, Window)
