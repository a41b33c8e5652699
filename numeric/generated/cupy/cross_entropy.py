# Seal of generated text, broken by edits: d8c45cbb6b4d24105e2bf30bb749b09f
"""Cross-entropy of the targets under softmax(Z/τ), averaged.

Forward (loss) and backward (dZ) for CuPy, derived from the definitions of `cross_entropy`.

Generated: do not edit, run `backprove generate`.

Array operations of both passes, transposes being views: 23 for the plain program (Z, targets to loss and
gradients).
Relies on: shift invariance.
"""

import cupy as xp

from numeric.signature import Array, OutputSpec, ParameterSpec, Saved, Signature, TensorSpec
from numeric.support import as_numbers, checked, gathered, maximum, visible_max, visible_only

SIGNATURE = Signature(
    program="cross_entropy",
    inputs=(
        TensorSpec("Z", ("n", "T"), "real", "logits"),
        TensorSpec("targets", ("n",), "integer", "the right tokens; negative ones are ignored", below="T", negative=True),
    ),
    parameters=(
        ParameterSpec("temperature", "real", "divides the logits"),
    ),
    outputs=(
        OutputSpec("loss", (), "the mean over counted positions", statistic=True),
    ),
    gradients=("Z",),
    cotangents=("loss",),
)


def forward(Z: Array, targets: Array, *, temperature: float = 1) -> tuple[dict[str, Array], Saved]:
    """Cross-entropy of the targets under softmax(Z/τ), averaged.

    Z [.., n, T]: logits
    targets [.., n]: the right tokens; negative ones are ignored
    temperature: divides the logits

    Returns the outputs loss, and what the backward pass needs:

        S[i,t] = Z[i,t]/temperature
        P[i,t] = exp(S[i,t])/(Σ_t′ exp(S[i,t′]))
        counted[i] = [targets[i] ≥ 0]
        N = Max(1, Σ_i counted[i])
        nll[i] = counted[i] (log(Σ_t exp(S[i,t])) − S[i,targets[i]])
        loss = Σ_i nll[i]/N
    """
    T = Z.shape[-1]
    S = (1/temperature) * Z
    S_max = visible_max(xp, S, None)
    E = xp.exp(S - S_max[..., None])
    Z2 = xp.sum(E, axis=-1)
    P = E / Z2[..., None]
    counted = targets >= 0
    N = maximum(xp, 1, xp.sum(as_numbers(xp, counted, Z), axis=-1))
    nll = visible_only(
        xp,
        S_max + xp.log(Z2) - gathered(xp, S, checked(xp, targets, T, "S[i, targets[i]]", counted, 0), 0, 0),
        counted,
    )
    loss = xp.sum(nll, axis=-1) / N
    outputs = {"loss": loss}
    return outputs, {"P": P, "targets": targets, "N": N, "counted": counted, "temperature": temperature}


def backward(
    dloss: Array,
    *,
    P: Array,
    targets: Array,
    N: Array,
    counted: Array,
    temperature: float,
) -> dict[str, Array]:
    """Gradients of cross_entropy, derived from its definitions.

    dloss [..]: cotangent of loss

    Returns the gradients with respect to Z. Steps:

        ∇S[i,t] = ∇loss counted[i] (P[i,t] − δ[t,targets[i]])/N    (sum, chain rule, write out, fold, factor)
        ∇Z[i,t] = ∇S[i,t]/temperature    (chain rule)
    """
    T = P.shape[-1]
    dS = visible_only(
        xp,
        dloss[..., None, None] * (P - as_numbers(xp, xp.arange(T)[None, :] == targets[..., None], dloss)) / N[..., None, None],
        counted[..., None],
    )
    dZ = (1/temperature) * dS
    return {"Z": dZ}
