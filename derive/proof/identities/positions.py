"""Rotary positions: scores know distances alone, rotations keep lengths, and going back turns the other way."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Total
from derive.algebra.functions import QuarterTurn
from derive.forward.program import Program
from derive.proof.identities.attention import SCALE
from derive.proof.identities.known import Known
from derive.proof.statements import Claim, Identity, Premise, equation


def rotation_identities(program: Program) -> Iterator[Identity]:
    """The rotation by itself, with given cosines and sines."""
    k = Known(program)
    X, Y = program.input("X"), k.by_name["Y"]
    C, N = program.input("cos").entry, program.input("sin").entry
    side = next(a for a in Y.axes if a.size == 2)
    other = Axis("s2", 2)
    angle = Premise("cosine and sine of one angle", "equal", N**2, 1 - C**2, N.indices)

    def turned(entry: sp.Expr, sine: sp.Expr) -> sp.Expr:
        """A vector turned by the angle of cosine C and the given sine."""
        return C * entry + sine * Total(QuarterTurn(side, other) * entry.xreplace({side: other}), other)

    yield k.stated(
        equation(
            "rotations keep lengths",
            Total(Y.target**2, side),
            Total(X.entry**2, side),
            k.chosen("Y"),
            premises=(angle,),
            relied_on="a rotated query or key is as long as it was",
            refutable=False,
        )
    )
    yield k.stated(
        equation(
            "a rotation's transpose is its inverse",
            turned(Y.target, -N),
            X.entry,
            k.chosen("Y"),
            premises=(angle,),
            setting="on the left Y is turned back by the same angle",
            relied_on="gradients go back through rotations without loss",
            refutable=False,
        )
    )
    yield k.stated(
        equation(
            "going back turns the other way",
            k.at("dX"),
            turned(k.at("dY"), -N),
            k.chosen("dX"),
            relied_on="backward passes of rotary embeddings; turning by +θ again is a common mistake",
        )
    )


def rotary_identities(program: Program) -> Iterator[Identity]:
    """Attention with rotary positions: a score is a function of the distance of two positions."""
    k = Known(program.returning("O"))
    S, bias = k.by_name["S"], k.at("bias") if "bias" in k.program.optional else sp.S.Zero
    Q, K = program.input("Q").entry, program.input("K").entry
    side, pair = sorted((a for a in Q.indices if a not in S.axes), key=lambda a: not a.size.is_Integer)
    other = Axis("s2", 2)
    C_q, N_q, C_k, N_k = (k.at(name) for name in ("C_q", "N_q", "C_k", "N_k"))
    along = Total(Q * K, side)
    across = Total(QuarterTurn(side, other) * Q.xreplace({side: other}) * K, side, other)
    cosine, sine = C_q * C_k + N_q * N_k, N_q * C_k - C_q * N_k
    yield k.stated(
        equation(
            "scores turn by the difference of angles",
            S.target,
            SCALE * Total(cosine * along + sine * across, pair) + bias,
            k.chosen("Q_turned", "K_turned", "S"),
            setting="the factors are cosine and sine of the difference of two angles",
            relied_on="rotary positions are relative",
        )
    )
    angle = k.by_name["C_q"].value.args[0]  # the cosine is the outermost function
    x, y = (program.input(f"position_{name}").entry for name in "qk")
    distance = sp.expand(angle / x) * (x - y)
    yield k.stated(
        Identity(
            "scores depend on distances alone",
            (Claim(cosine, sp.cos(distance)), Claim(sine, sp.sin(distance))),
            k.chosen("C_q", "N_q", "C_k", "N_k"),
            relied_on="moving every position by the same step changes no score",
        )
    )
