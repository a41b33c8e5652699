"""Normalisations: what does not change them, and what their gradients are therefore orthogonal to."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Tensor, Total
from derive.forward.program import Program
from derive.proof.identities.known import Known, entries_replaced, spelled_out
from derive.proof.prover import Identity

LENGTH = "the length of a state changes nothing"


def layer_norm_identities(program: Program) -> Iterator[Identity]:
    """LayerNorm: invariant to shifts and, but for ε, to scale."""
    k = Known(program)
    x = k.by_name["dX"].axes[1]
    dX, normed, rstd = k.at("dX"), k.at("normed_Y"), k.at("rstd_Y")
    unfold = (*k.chosen("mean_Y", "centred_Y", "normed_Y"), *(d for d in k.gradients if d.name in _to(k, "dX")))
    yield k.stated(
        Identity(
            "state gradients of layer norm are centred",
            "Σ_x dX[i,x] = 0",
            Total(dX, x),
            sp.S.Zero,
            unfold,
            relied_on="a shift of all coordinates changes nothing",
        )
    )
    moved, centred = k.at("dnormed_Y"), k.at("centred_Y")
    epsilon = rstd**-2 - Total(centred**2, x) / x.size
    yield k.stated(
        Identity(
            "state gradients of layer norm are orthogonal to what was normalised",
            "Σ_x dX[i,x] normed[i,x] = eps rstd[i]³ Σ_x dnormed[i,x] normed[i,x], which is 0 for eps = 0; "
            "eps is 1/rstd² − Σ_x centred²/D",
            Total(dX * normed, x),
            epsilon * rstd**3 * Total(moved * normed, x),
            unfold,
            relied_on=LENGTH,
        )
    )
    shift = Tensor("t", k.at("X").indices[0])
    spelled = _spelled(k)
    X = program.input("X").tensor
    yield k.stated(
        Identity(
            "layer norm does not notice a shift",
            "layer_norm(X + t 1ᵀ) = layer_norm(X)",
            entries_replaced(spelled, X, lambda entry: entry + shift[entry.indices[0]]),
            spelled,
            relied_on="its gradient is centred",
        )
    )
    yield from _scaled(k, "layer norm", "layer_norm", "a state of different coordinates")


def rms_norm_identities(program: Program) -> Iterator[Identity]:
    """RMSNorm: invariant, but for ε, to scale."""
    k = Known(program)
    x = k.by_name["dX"].axes[1]
    dX, X, rstd = k.at("dX"), k.at("X"), k.at("rstd_Y")
    epsilon = rstd**-2 - Total(X**2, x) / x.size
    yield k.stated(
        Identity(
            "state gradients of RMS norm are orthogonal to the states",
            "Σ_x dX[i,x] X[i,x] = eps rstd[i]³ Σ_x dnormed[i,x] X[i,x], which is 0 for eps = 0; "
            "eps is 1/rstd² − Σ_x X²/D",
            Total(dX * X, x),
            epsilon * rstd**3 * Total(k.at("dnormed_Y") * X, x),
            (*k.chosen("normed_Y"), *(d for d in k.gradients if d.name in _to(k, "dX"))),
            relied_on=LENGTH,
        )
    )
    yield from _scaled(k, "RMS norm", "rms_norm", "a state that is not 0")


def _to(k: Known, name: str) -> tuple[str, ...]:
    """A gradient, and the reductions on the way to it that have no gradient's name."""
    cotangents = set(k.derivation.names.values())
    return (name, *(d.name for d in k.gradients if d.name not in cotangents))


def _spelled(k: Known) -> sp.Expr:
    """Y in terms of the inputs alone."""
    return spelled_out(k.at("Y"), k.derivation.forward.definitions)


def _scaled(k: Known, name: str, function: str, defined: str) -> Iterator[Identity]:
    """Y at λX with λ²ε, and Y at X with ε, are one: with ε = 0, scale does not matter at all."""
    length, eps = sp.Symbol("lambda", positive=True), next(p.symbol for p in k.program.parameters if p.name == "eps")
    spelled, X = _spelled(k), k.program.input("X").tensor
    longer = entries_replaced(spelled, X, lambda entry: length * entry)
    yield k.stated(
        Identity(
            f"{name} does not notice length",
            f"{function}(λX; λ²ε) = {function}(X; ε) for λ > 0; with ε = 0, {function}(λX) = {function}(X)",
            longer.xreplace({eps: length**2 * eps}),
            spelled,
            premises=("λ > 0", f"ε > 0, or {defined}"),
            relied_on="its gradient is orthogonal to what was normalised",
        )
    )
