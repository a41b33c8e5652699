# Seal of generated text, broken by edits: 1042d8542ed566dc8dfe04cce2357499
"""Softmax of every row of X/τ.

Forward (P) and backward (dX) for NumPy, derived from the definitions of `softmax_rows`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 11 for the plain program (X to P and gradients).
Relies on: shift invariance.
"""

import numpy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import visible_max

SIGNATURE = Signature(
    program="softmax_rows",
    inputs=(
        TensorSpec("X", ("n", "T"), "real", "logits"),
    ),
    parameters=(
        ParameterSpec("temperature", "real", "divides the logits"),
    ),
    outputs=(
        OutputSpec("P", ("n", "T"), "weights that sum to 1 in every row"),
    ),
    gradients=("X",),
    cotangents=("P",),
)


def forward(X: Array, *, temperature: float = 1) -> tuple[dict[str, Array], Saved]:
    """Softmax of every row of X/τ.

    X [.., n, T]: logits
    temperature: divides the logits

    Returns the outputs P, and what the backward pass needs:

        S[i,t] = X[i,t]/temperature
        P[i,t] = exp(S[i,t])/(Σ_t′ exp(S[i,t′]))
    """
    S = (1/temperature) * X
    S_max = visible_max(xp, S, None)
    E = xp.exp(S - S_max[..., None])
    Z = xp.sum(E, axis=-1)
    P = E / Z[..., None]
    outputs = {"P": P}
    return outputs, {"P": P, "temperature": temperature}


def backward(dP: Array, *, P: Array, temperature: float) -> dict[str, Array]:
    """Gradients of softmax_rows, derived from its definitions.

    dP [.., n, T]: cotangent of P

    Returns the gradients with respect to X. Steps:

        r[i] = Σ_t P[i,t] ∇P[i,t]    (name a reduction)
        ∇S[i,t] = P[i,t] (∇P[i,t] − r[i])    (softmax, fold, factor)
        ∇X[i,t] = ∇S[i,t]/temperature    (chain rule)
    """
    r = xp.sum(P * dP, axis=-1)
    dS = P * (dP - r[..., None])
    dX = (1/temperature) * dS
    return {"X": dX}
