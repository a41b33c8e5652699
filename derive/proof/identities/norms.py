"""Normalisations: what does not change them, and what their gradients are therefore orthogonal to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import sympy as sp

from derive.algebra import Entry, Tensor, Total
from derive.forward.program import Definition, Program
from derive.proof.identities.known import Known, renamed, with_entries_replaced
from derive.proof.statements import Identity, Premise, equation, sums_to

LENGTH = "the length of a state changes nothing"


def layer_norm_identities(program: Program) -> Iterator[Identity]:
    """LayerNorm: invariant to shifts and, but for ε, to scale."""
    k = Known(program)
    x = k.by_name["dX"].axes[1]
    dX, normed, rstd = k.at("dX"), k.at("normed_Y"), k.at("rstd_Y")
    unfold = (*k.chosen("mean_Y", "centred_Y", "normed_Y"), *(d for d in k.gradients if d.name in _to(k, "dX")))
    yield k.stated(
        equation(
            "state gradients of layer norm are centred",
            Total(dX, x),
            sp.S.Zero,
            unfold,
            premises=(_wide(k),),
            relied_on="a shift of all coordinates changes nothing",
        )
    )
    moved, centred, eps = k.at("dnormed_Y"), k.at("centred_Y"), _epsilon(k)
    yield k.stated(
        equation(
            "centred states sum to zero",
            Total(centred, x),
            sp.S.Zero,
            k.chosen("mean_Y", "centred_Y"),
            premises=(_wide(k),),
            relied_on="the gradients below",
        )
    )
    yield k.stated(
        equation(
            "state gradients of layer norm are orthogonal to what was normalised",
            Total(dX * normed, x),
            eps * rstd**3 * Total(moved * normed, x),
            (*k.chosen("rstd_Y"), *unfold[2:]),
            premises=(
                Premise("ε > 0", "> 0", eps),
                sums_to(centred, x, sp.S.Zero, "centred states sum to 0, by definition"),
            ),
            relied_on=LENGTH,
        )
    )
    yield k.stated(_unnoticed(k))
    yield k.stated(_scaled(k, "layer norm"))


def rms_norm_identities(program: Program) -> Iterator[Identity]:
    """RMSNorm: invariant, but for ε, to scale."""
    k = Known(program)
    x = k.by_name["dX"].axes[1]
    dX, X, rstd, eps = k.at("dX"), k.at("X"), k.at("rstd_Y"), _epsilon(k)
    yield k.stated(
        equation(
            "state gradients of RMS norm are orthogonal to the states",
            Total(dX * X, x),
            eps * rstd**3 * Total(k.at("dnormed_Y") * X, x),
            (*k.chosen("rstd_Y", "normed_Y"), *(d for d in k.gradients if d.name in _to(k, "dX"))),
            premises=(Premise("ε > 0", "> 0", eps),),
            relied_on=LENGTH,
        )
    )
    yield k.stated(_scaled(k, "RMS norm"))


def _to(k: Known, name: str) -> tuple[str, ...]:
    """A gradient, and the reductions on the way to it that have no gradient's name."""
    cotangents = set(k.derivation.names.values())
    return (name, *(d.name for d in k.gradients if d.name not in cotangents))


def _epsilon(k: Known) -> sp.Symbol:
    return next(p.symbol for p in k.program.parameters if p.name == "eps")


def _wide(k: Known) -> Premise:
    """What means divide by."""
    return Premise("a state has a coordinate", "> 0", k.by_name["dX"].axes[1].size)


def _unnoticed(k: Known) -> Identity:
    """Y at X + t, where every coordinate moves by the same, is Y at X."""
    X, shift = k.program.input("X"), Tensor("t", k.program.input("X").axes[0])
    moved = _at(k, lambda entry: entry + shift[entry.indices[0]], "shifted")
    return equation(
        "layer norm does not notice a shift",
        moved[-1].target,
        k.at("Y"),
        (*k.derivation.forward.definitions, *moved),
        premises=(_wide(k),),
        setting=f"what ends in _shifted is at {X.name} + t",
        relied_on="its gradient is centred",
    )


def _scaled(k: Known, name: str) -> Identity:
    """Y at λX with λ²ε, and Y at X with ε, are one: with ε = 0, scale does not matter at all."""
    length, eps = sp.Symbol("lambda", positive=True), _epsilon(k)
    means = (_wide(k),) if "mean_Y" in k.by_name else ()
    longer = tuple(
        Definition(d.target, d.value.xreplace({eps: length**2 * eps}))
        for d in _at(k, lambda entry: length * entry, "longer")
    )
    return equation(
        f"{name} does not notice length",
        longer[-1].target,
        k.at("Y"),
        (*k.derivation.forward.definitions, *longer),
        premises=(*means, Premise("λ > 0", "> 0", length)),
        setting="what ends in _longer is at λX and λ²ε; with ε = 0, length does not matter at all",
        relied_on="its gradient is orthogonal to what was normalised",
    )


def _at(k: Known, by: Callable[[Entry], sp.Expr], suffix: str) -> tuple[Definition, ...]:
    """The forward definitions at another X, under other names."""
    X = k.program.input("X").tensor
    return with_entries_replaced(renamed(k.derivation.forward.definitions, suffix), X, by)
