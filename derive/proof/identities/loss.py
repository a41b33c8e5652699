"""The next-token loss: its gradient is the difference of two distributions."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Delta, Total
from derive.forward.program import Program
from derive.proof.identities.known import Known
from derive.proof.statements import Identity, equation, sums_to_one


def cross_entropy_identities(program: Program) -> Iterator[Identity]:
    """Cross-entropy with a temperature, averaged over the targets that count."""
    k = Known(program)
    P, t = k.at("P"), k.by_name["dS"].axes[1]
    tau = next(p.symbol for p in program.parameters if p.name == "temperature")
    onehot = Delta(program.input("targets").entry, t)
    share = k.at("dloss") * k.at("counted") / (tau * k.at("N"))
    yield k.stated(
        equation(
            "logit gradients are probabilities less the target",
            k.at("dZ"),
            share * (P - onehot),
            k.gradients,
            relied_on="p − onehot: a fused loss computes no logarithm on the way back",
        )
    )
    yield k.stated(
        equation(
            "logit gradients are centred",
            Total(k.at("dZ"), t),
            sp.S.Zero,
            k.chosen("counted", "dS", "dZ"),
            premises=(sums_to_one(P.base, P.indices, t, "probabilities sum to 1"),),
            relied_on="a constant added to all logits changes nothing",
        )
    )
