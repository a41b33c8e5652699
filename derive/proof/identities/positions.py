"""Rotary positions: scores know distances alone, rotations keep lengths, and going back turns the other way."""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import Axis, Total
from derive.algebra.functions import QuarterTurn
from derive.forward.program import Program
from derive.proof.axioms import QUARTER_TURNS, square_is
from derive.proof.identities.attention import SCALE
from derive.proof.identities.known import Known
from derive.proof.prover import Identity

PREMISE = "cos² + sin² = 1 for every pair"


def rotation_identities(program: Program) -> Iterator[Identity]:
    """The rotation by itself, with given cosines and sines."""
    k = Known(program)
    X, Y = program.input("X"), k.by_name["Y"]
    C, N = program.input("cos").entry, program.input("sin").entry
    side = next(a for a in Y.axes if a.size == 2)
    other = Axis("s2", 2)
    angle = (QUARTER_TURNS, square_is(N.base, C.base))

    def turned(entry: sp.Expr, sine: sp.Expr) -> sp.Expr:
        """A vector turned by the angle of cosine C and the given sine."""
        return C * entry + sine * Total(QuarterTurn(side, other) * entry.xreplace({side: other}), other)

    yield k.stated(
        Identity(
            "rotations keep lengths",
            "Σ_s Y[i,s,p]² = Σ_s X[i,s,p]²",
            Total(Y.target**2, side),
            Total(X.entry**2, side),
            k.chosen("Y"),
            angle,
            (PREMISE,),
            "a rotated query or key is as long as it was",
            refutable=False,
        )
    )
    yield k.stated(
        Identity(
            "a rotation's transpose is its inverse",
            "turning Y back by the same angle gives X",
            turned(Y.target, -N),
            X.entry,
            k.chosen("Y"),
            angle,
            (PREMISE,),
            "gradients go back through rotations without loss",
            refutable=False,
        )
    )
    yield k.stated(
        Identity(
            "going back turns the other way",
            "dX = dY turned by −θ: cos · dY − sin · (dY turned by a right angle)",
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
        Identity(
            "scores turn by the difference of angles",
            "S[i,j] = scale Σ_p (cos(a_p − b_p) q·k + sin(a_p − b_p) (turned q)·k) of each pair, with angles a, b",
            S.target,
            SCALE * Total(cosine * along + sine * across, pair) + bias,
            k.chosen("Q_turned", "K_turned", "S"),
            (QUARTER_TURNS,),
            (),
            "rotary positions are relative",
        )
    )
    angle = k.by_name["C_q"].value.args[0]  # the cosine is the outermost function
    x, y = (program.input(f"position_{name}").entry for name in "qk")
    distance = sp.expand(angle / x) * (x - y)
    left, right = sp.symbols("c s", real=True)
    yield k.stated(
        Identity(
            "scores depend on distances alone",
            "cos(a − b) = cos((x_i − y_j) θ_p) and sin(a − b) = sin((x_i − y_j) θ_p), for positions x of queries, y of "
            "keys",
            left * cosine + right * sine,
            left * sp.cos(distance) + right * sp.sin(distance),
            k.chosen("C_q", "N_q", "C_k", "N_k"),
            relied_on="moving every position by the same step changes no score",
        )
    )
