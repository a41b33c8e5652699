"""Algorithms: what fused, tiled, ring and online computations of attention rely on."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Entry, Tensor, Total
from derive.forward.program import Definition
from derive.proof.identities.attention import Attention
from derive.proof.statements import Claim, Identity, Premise, equation, sums_to_one


def fused_identities(a: Attention) -> Iterator[Identity]:
    """D = rowsum(dO ∘ O), which saves fused backward passes a pass over the keys, with and without a cotangent of L."""
    D = Total(a.dO * a.O.target, a.v)
    yield equation(
        "row sums from outputs",
        Total(a.A.target * a.known.at("dA"), a.j),
        D,
        a.known.chosen("dA", "O"),
        relied_on="fused backward passes: D = rowsum(dO ∘ O) needs no second pass over the keys",
    )
    if a.with_L is None:
        return
    dS, dA, dL = (a.with_L.at(name) for name in ("dS", "dA", "dL"))
    chain = a.with_L.chosen("r", "dA", "dS")
    yield equation(
        "score gradients sum to the cotangent of L",
        Total(dS, a.j),
        dL,
        chain,
        premises=(a.rows,),
        relied_on="kernels that return the logsumexp",
    )
    yield equation(
        "score gradients from D and the cotangent of L",
        dS,
        a.A.target * (dA - (D - dL)),
        (*a.with_L.chosen("O"), *chain),
        relied_on="fused backward passes take dL off D and change nothing else",
    )


def tiling_identities(a: Attention) -> Iterator[Identity]:
    """Any assignment of keys to tiles, in any order; hidden keys may be in any tile or in none that is computed."""
    i, j, v = a.i, a.j, a.v
    t, u = Axis("t", "tiles"), Axis("u", "tiles")
    T = Tensor("T", t, j, values="boolean")
    every = sums_to_one(T, (t, j), t, "every key is in one tile")
    weight = a.form.visible * sp.exp(a.form.score) * T[t, j]
    total = Total(weight, j)
    log = Definition(Tensor("L_tile", i, t)[i, t], sp.log(total))
    output = Definition(Tensor("O_tile", i, t, v)[i, t, v], Total(weight * a.V, j) / total)
    seen = Premise("every tile holds a key that the query sees", "not 0", total, axes=(i, t))
    around = "a tile without one counts as (0, −∞), which changes nothing"
    exponentials = Total(sp.exp(log.target), t)
    yield equation(
        "tiled attention is attention",
        Total(sp.exp(log.target) * output.target, t) / exponentials,
        a.O.target,
        (a.A, a.O, log, output),
        premises=(every, seen),
        setting=around,
        relied_on="tiled kernels; attention over a ring; keys split over machines",
        refutable=False,
    )
    whole = Definition(Tensor("L", i)[i], sp.log(Total(a.form.visible * sp.exp(a.form.score), j)))
    yield equation(
        "tiled logsumexp is logsumexp",
        sp.log(exponentials),
        whole.target,
        (whole, log),
        premises=(every, seen),
        setting=around,
        relied_on="tiled kernels keep L for the backward pass",
        refutable=False,
    )
    P, O, L = Tensor("P", t, u, values="boolean"), Tensor("O_tile", i, u, v), Tensor("L_tile", i, u)
    yield equation(
        "the order of tiles does not matter",
        Total(P[t, u] * sp.exp(L[i, u]) * O[i, u, v], t, u) / Total(P[t, u] * sp.exp(L[i, u]), t, u),
        Total(sp.exp(L[i, u]) * O[i, u, v], u) / Total(sp.exp(L[i, u]), u),
        premises=(sums_to_one(P, (t, u), t, "every tile has one turn"),),
        setting="P[t,u] is 1 where tile u has turn t",
        relied_on="rings: each machine starts with its own block",
        refutable=False,
    )
    x = Tensor("x", j)
    yield equation(
        "gradients of tiles add up",
        Total(T[t, j] * a.known.at("dS") * x[j], t, j),
        Total(a.known.at("dS") * x[j], j),
        premises=(every,),
        setting="for any x, as for dQ",
        relied_on="backward passes in tiles accumulate dQ",
        refutable=False,
    )


class _Partial:
    """One coordinate of an output, and its logsumexp: given, or defined.

    ``weight`` is what it counts with when it is merged, exp(L). What may be empty has one that is given: exp(L) of a
    real L is never 0.
    """

    def __init__(
        self, name: str, output: sp.Expr | None = None, log: sp.Expr | None = None, weight: sp.Expr | None = None
    ) -> None:
        self.O, self.L = (_scalar(f"{letter}_{name}") for letter in "OL")
        self.weight = sp.exp(self.L) if weight is None else weight
        given = output is None or log is None
        self.definitions = () if given else (Definition(self.O, output), Definition(self.L, log))

    def __or__(self, other: _Partial) -> _Partial:
        """What two parts are together."""
        weights = self.weight + other.weight
        output = (self.weight * self.O + other.weight * other.O) / weights
        names = (str(p.O.tensor.name).removeprefix("O_") for p in (self, other))
        both = _Partial("".join(n if len(n) == 1 else f"⟨{n}⟩" for n in names), output, sp.log(weights))
        both.definitions = (*self.definitions, *other.definitions, *both.definitions)
        return both


def _scalar(name: str) -> Entry:
    return Tensor(name)[()]


def _same(name: str, one: _Partial, two: _Partial, **more: object) -> Identity:
    """That two partial results are one: outputs and logsumexps."""
    unfold = tuple(dict.fromkeys((*one.definitions, *two.definitions)))
    return Identity(name, (Claim(one.O, two.O), Claim(one.L, two.L)), unfold, **more)  # type: ignore[arg-type]


def merging_identities() -> Iterator[Identity]:
    """Partial results (O, L) of blocks of keys: how kernels that work in tiles, rounds or steps put them together."""
    a, b, c = map(_Partial, "abc")
    e = _Partial("e", weight=_scalar("w_e"))
    yield _same(
        "merging partial results is associative",
        (a | b) | c,
        a | (b | c),
        relied_on="tiles and rings: blocks may come in any grouping",
    )
    yield _same(
        "merging partial results is commutative",
        a | b,
        b | a,
        relied_on="the order of a ring does not matter",
    )
    yield _same(
        "an empty partial result changes nothing",
        a | e,
        a,
        premises=(Premise("e is empty: its weight, exp L_e for L_e → −∞, is 0", "equal", e.weight),),
        relied_on="skipped tiles; a query that sees nothing in a block",
        refutable=False,
    )
    (S, V), (T, W) = _block(1), _block(2)
    (above, below), (more, further) = (_exponentials(s, w) for s, w in ((S, V), (T, W)))
    first, second = (
        _Partial(str(k), x / y, sp.log(y)) for k, (x, y) in enumerate(((above, below), (more, further)), 1)
    )
    whole = _Partial("whole", (above + more) / (below + further), sp.log(below + further))
    yield _same(
        "two merged blocks are the whole",
        first | second,
        whole,
        premises=tuple(Premise(f"block {k} has a key", "not 0", y) for k, y in ((1, below), (2, further))),
        setting="an empty block counts as (0, −∞)",
        relied_on="tiled kernels; decoding with a cache",
    )
    yield _online(S, V)


def _online(S: Tensor, V: Tensor) -> Identity:
    """One step of online softmax, for any running maximum: it is subtracted, and cancels."""
    above, below, m, shift = (_scalar(name) for name in ("a", "l", "m", "m_new"))
    j, kept = Axis("j", S.shape[0]), sp.exp(m - shift)
    total = Definition(_scalar("l_new"), kept * below + Total(sp.exp(S[j] - shift), j))
    output = Definition(_scalar("a_new"), kept * above + Total(sp.exp(S[j] - shift) * V[j], j))
    weighted, exponentials = _exponentials(S, V)
    return Identity(
        "one step of online softmax",
        (
            Claim(sp.exp(shift) * total.target, sp.exp(m) * below + exponentials),
            Claim(sp.exp(shift) * output.target, sp.exp(m) * above + weighted),
        ),
        (total, output),
        setting="m_new is any number; the output is a/l, and L = m + log l",
        relied_on="online softmax: the running maximum may be any number",
    )


def _block(number: int) -> tuple[Tensor, Tensor]:
    j = Axis("j", f"m_{number}")
    return Tensor(f"S_{number}", j), Tensor(f"V_{number}", j)


def _exponentials(scores: Tensor, values: Tensor) -> tuple[sp.Expr, sp.Expr]:
    """Σ e^s v and Σ e^s over a block of keys."""
    j = Axis("j", scores.shape[0])
    return Total(sp.exp(scores[j]) * values[j], j), Total(sp.exp(scores[j]), j)
