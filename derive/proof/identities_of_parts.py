"""Identities of what surrounds attention: normalisations, losses, rotations, and the merging of partial results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Tensor, Total
from derive.calculus import backward
from derive.forward.program import Definition, Program
from derive.proof.prover import Identity, quarter_turns, rows_sum_to_one, square_is


def identities_of_parts(program: Program) -> tuple[Identity, ...]:
    """The identities of a program of that name, if it is one that has some here."""
    made = _FAMILIES.get(program.name)
    return () if made is None else tuple(made(program))


class _Derived:
    """A program's definitions and gradients by name."""

    def __init__(self, program: Program) -> None:
        derivation = backward(program)
        self.definitions = (*derivation.forward.definitions, *derivation.derived.definitions)
        self.by_name = {d.name: d for d in self.definitions}
        self.program = program

    def at(self, name: str) -> sp.Expr:
        """An entry of a defined tensor, or of an input, at its own axes."""
        known = self.by_name.get(name)
        return self.program.input(name).entry if known is None else known.target

    def chosen(self, *names: str) -> tuple[Definition, ...]:
        """Definitions to unfold, in order."""
        return tuple(d for d in self.definitions if d.name in names)

    def known(self, identity: Identity) -> Identity:
        """The statement with what every tensor in it stands for."""
        return replace(identity, definitions=self.definitions)


def _layer_norm(program: Program) -> Iterator[Identity]:
    """Gradients of states are orthogonal to what normalising takes away."""
    d = _Derived(program)
    x = d.by_name["dX"].axes[1]
    dX, normed, rstd = d.at("dX"), d.at("normed_Y"), d.at("rstd_Y")
    unfold = d.chosen("mean_Y", "centred_Y", "normed_Y", "r", "r2", "dX")
    yield d.known(
        Identity(
            "state gradients of layer norm are centred",
            "Σ_x dX[i,x] = 0",
            Total(dX, x),
            sp.S.Zero,
            unfold,
            relied_on="a shift of all coordinates changes nothing",
        )
    )
    moved, centred = d.at("dnormed_Y"), d.at("centred_Y")
    epsilon = rstd**-2 - Total(centred**2, x) / x.size
    yield d.known(
        Identity(
            "state gradients of layer norm are orthogonal to what was normalised",
            "Σ_x dX[i,x] normed[i,x] = eps rstd[i]³ Σ_x dnormed[i,x] normed[i,x], which is 0 for eps = 0; "
            "eps is 1/rstd² − Σ_x centred²/D",
            Total(dX * normed, x),
            epsilon * rstd**3 * Total(moved * normed, x),
            unfold,
            relied_on="the length of a state changes nothing",
        )
    )


def _rms_norm(program: Program) -> Iterator[Identity]:
    """Gradients of states are orthogonal to the states."""
    d = _Derived(program)
    x = d.by_name["dX"].axes[1]
    dX, X, rstd = d.at("dX"), d.at("X"), d.at("rstd_Y")
    epsilon = rstd**-2 - Total(X**2, x) / x.size
    yield d.known(
        Identity(
            "state gradients of RMS norm are orthogonal to the states",
            "Σ_x dX[i,x] X[i,x] = eps rstd[i]³ Σ_x dnormed[i,x] X[i,x], which is 0 for eps = 0; "
            "eps is 1/rstd² − Σ_x X²/D",
            Total(dX * X, x),
            epsilon * rstd**3 * Total(d.at("dnormed_Y") * X, x),
            d.chosen("normed_Y", "r", "dX"),
            relied_on="the length of a state changes nothing",
        )
    )


def _cross_entropy(program: Program) -> Iterator[Identity]:
    """The loss's gradient is the difference of two distributions."""
    d = _Derived(program)
    t = d.by_name["dS"].axes[1]
    yield d.known(
        Identity(
            "logit gradients are centred",
            "Σ_t dS[i,t] = 0",
            Total(d.at("dS"), t),
            sp.S.Zero,
            d.chosen("dS"),
            (rows_sum_to_one(d.by_name["P"].target.tensor),),
            ("a counted target is a token of the vocabulary",),
            "a constant added to all logits changes nothing",
        )
    )


def _rotary(program: Program) -> Iterator[Identity]:
    """Rotations keep lengths, and going back turns the other way."""
    d = _Derived(program)
    X, Y = program.input("X"), d.by_name["Y"]
    C, N = program.input("cos").tensor, program.input("sin").tensor
    side = next(a for a in Y.axes if a.size == 2)
    angle = (quarter_turns(), square_is(N, C))
    premise = ("cos² + sin² = 1 for every pair",)
    yield d.known(
        Identity(
            "rotations keep lengths",
            "Σ_s Y[i,s,p]² = Σ_s X[i,s,p]²",
            Total(Y.target**2, side),
            Total(X.entry**2, side),
            d.chosen("Y"),
            angle,
            premise,
            "a rotated query or key is as long as it was",
            refutable=False,
        )
    )


def _attention(program: Program) -> Iterator[Identity]:
    """Partial results (O, L) of blocks of keys: how kernels that work in tiles, rounds or steps put them together."""
    a, b, c = map(_part, "abc")
    yield Identity(
        "merging partial results is associative",
        "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c), with (O, L) ⊕ (O′, L′) = ((e^L O + e^L′ O′)/(e^L + e^L′), log(e^L + e^L′))",
        _merged(_merged(a, b), c)[0],
        _merged(a, _merged(b, c))[0],
        relied_on="tiles and rings: blocks may come in any grouping",
    )
    yield Identity(
        "merging partial results is commutative",
        "a ⊕ b = b ⊕ a",
        _merged(a, b)[0],
        _merged(b, a)[0],
        relied_on="the order of a ring does not matter",
    )
    yield Identity(
        "an empty partial result changes nothing",
        "a ⊕ (0, −∞) = a",
        _merged(a, (sp.S.Zero, -sp.oo))[0],
        a[0],
        relied_on="skipped tiles",
    )
    S, V = Tensor("S_1", Axis("j", "m_1")), Tensor("V_1", Axis("j", "m_1"))
    T, W = Tensor("S_2", Axis("j", "m_2")), Tensor("V_2", Axis("j", "m_2"))
    first, second = (_result(s, w) for s, w in ((S, V), (T, W)))
    sums = [_exponentials(s, w) for s, w in ((S, V), (T, W))]
    yield Identity(
        "two merged blocks are the whole",
        "O over both blocks of keys = O of the first ⊕ O of the second, for blocks of any two sizes",
        _merged(first, second)[0],
        (sums[0][0] + sums[1][0]) / (sums[0][1] + sums[1][1]),
        relied_on="tiled = dense for any tiling; decoding with a cache = the full causal pass",
    )


_Partial = tuple[sp.Expr, sp.Expr]
"""One coordinate of an output, and its logsumexp."""


def _part(name: str) -> _Partial:
    return sp.Symbol(f"O_{name}", real=True), sp.Symbol(f"L_{name}", real=True)


def _merged(one: _Partial, two: _Partial) -> _Partial:
    weights = sp.exp(one[1]) + sp.exp(two[1])
    return (sp.exp(one[1]) * one[0] + sp.exp(two[1]) * two[0]) / weights, sp.log(weights)


def _exponentials(scores: Tensor, values: Tensor) -> _Partial:
    """Σ e^s v and Σ e^s over a block of keys."""
    j = Axis("j", scores.shape[0])
    return Total(sp.exp(scores[j]) * values[j], j), Total(sp.exp(scores[j]), j)


def _result(scores: Tensor, values: Tensor) -> _Partial:
    weighted, total = _exponentials(scores, values)
    return weighted / total, sp.log(total)


_FAMILIES: dict[str, Callable[[Program], Iterator[Identity]]] = {
    "attention": _attention,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "cross_entropy": _cross_entropy,
    "rotary_embedding": _rotary,
    "rotary_embedding_interleaved": _rotary,
}
