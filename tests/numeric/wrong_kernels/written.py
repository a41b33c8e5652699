"""What a kernel says of itself, and right attention that others are written from."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from numeric.samples import Takes

Host = np.ndarray
Arrays = dict[str, Host]

SINGLE = Takes(("float32",))
DOUBLE = Takes(("float64",))


class Written:
    """A kernel: the program that it computes, what it has to take, and the rounding model that it claims.

    ``forward`` takes inputs by name and gives outputs by name; ``backward`` takes cotangents first, and gives gradients
    by the names of inputs.
    """

    program: ClassVar[str]
    takes: ClassVar[Takes] = SINGLE
    rounding: ClassVar[str] = "float32 inside"


def silent(keys: Host, hidden: Host) -> Host:
    """Keys or values, with 0 where nobody sees one: what is there may be no number."""
    unseen = hidden.all(-2)
    return np.where(unseen[..., None], keys.dtype.type(0), keys)


class Attention(Written):
    """Attention without a mask, in the dtype of its inputs, leading axes and all."""

    program = "attention"
    takes = Takes(("float32",), parameters=("scale",))

    def scale(self, Q: Host, scale: float | None) -> Any:
        return Q.dtype.type(Q.shape[-1] ** -0.5 if scale is None else scale)

    def scores(self, Q: Host, K: Host) -> Host:
        return Q @ K.mT

    def weights(self, S: Host) -> Host:
        E = np.exp(S - S.max(-1, keepdims=True))
        return E / E.sum(-1, keepdims=True)

    def values(self, A: Host, V: Host) -> Host:
        return A @ V

    def score_gradients(self, A: Host, dA: Host) -> Host:
        return A * (dA - (A * dA).sum(-1, keepdims=True))

    def query_gradients(self, dS: Host, K: Host) -> Host:
        return dS @ K

    def key_gradients(self, dS: Host, Q: Host) -> Host:
        return dS.mT @ Q

    def value_gradients(self, A: Host, dO: Host) -> Host:
        return A.mT @ dO

    def forward(self, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        return {"O": self.values(self.weights(self.scores(Q, K) * self.scale(Q, scale)), V)}

    def backward(self, cotangents: Arrays, Q: Host, K: Host, V: Host, scale: float | None = None) -> Arrays:
        factor, dO = self.scale(Q, scale), cotangents["O"]
        A = self.weights(self.scores(Q, K) * factor)
        dS = self.score_gradients(A, dO @ V.mT) * factor
        return {
            "Q": self.query_gradients(dS, K),
            "K": self.key_gradients(dS, Q),
            "V": self.value_gradients(A, dO),
        }
