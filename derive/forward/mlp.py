"""Position-wise networks: two maps with GELU between them, and the gated SwiGLU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import sympy as sp

from derive.algebra import Axis, Tensor, Total
from derive.algebra.functions import Sigmoid
from derive.forward.builder import Builder
from derive.forward.norms import AXES, i, x
from derive.forward.program import Program

f = Axis("f", "F")


def gelu(u: sp.Expr) -> sp.Expr:
    """``u·Φ(u)`` with the normal distribution function Φ (Hendrycks and Gimpel 2016)."""
    return u * (1 + sp.erf(u / sp.sqrt(2))) / 2


def gelu_tanh(u: sp.Expr) -> sp.Expr:
    """The approximation of GELU by a tanh."""
    return u * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (u + sp.Rational(44715, 1000000) * u**3))) / 2


def silu(u: sp.Expr) -> sp.Expr:
    """``u·σ(u)``."""
    return u * Sigmoid(u)


def network(p: Builder, X: Tensor, activation: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """``activation(X W_up + b_up) W_down + b_down`` at ``[i, x]``, with its weights declared."""
    W_up = p.input("W_up", x, f, meaning="the map to the hidden width")
    b_up = p.input("b_up", f, meaning="added before the activation")
    W_down = p.input("W_down", f, x, meaning="the map back")
    b_down = p.input("b_down", x, meaning="added to the output")
    U = p.define("U", (i, f), Total(X[i, x] * W_up[x, f], x) + b_up[f])
    H = p.define("H", (i, f), activation(U[i, f]))
    return Total(H[i, f] * W_down[f, x], f) + b_down[x]


def gated_network(p: Builder, X: Tensor) -> sp.Expr:
    """``(silu(X W_gate) ∘ X W_up) W_down`` at ``[i, x]`` (Shazeer 2020), with its weights declared."""
    W_gate = p.input("W_gate", x, f, meaning="the gate's map")
    W_up = p.input("W_up", x, f, meaning="the map to the hidden width")
    W_down = p.input("W_down", f, x, meaning="the map back")
    U = p.define("U", (i, f), Total(X[i, x] * W_gate[x, f], x))
    B = p.define("B", (i, f), Total(X[i, x] * W_up[x, f], x))
    H = p.define("H", (i, f), silu(U[i, f]) * B[i, f])
    return Total(H[i, f] * W_down[f, x], f)


def _mlp(name: str, summary: str, update: Callable[[Builder, Tensor], sp.Expr]) -> Program:
    p = Builder(name, summary)
    X = p.input("X", i, x, meaning="states")
    p.define("Y", (i, x), update(p, X))
    return p.output("Y", "updates of the states").build(axis_meaning=AXES)


@cache
def gelu_mlp() -> Program:
    """Two maps with the exact GELU between them."""
    return _mlp("gelu_mlp", "Position-wise network with the exact GELU.", partial(network, activation=gelu))


@cache
def gelu_tanh_mlp() -> Program:
    """Two maps with the tanh approximation of GELU between them."""
    return _mlp("gelu_tanh_mlp", "Position-wise network with GELU by a tanh.", partial(network, activation=gelu_tanh))


@cache
def swiglu() -> Program:
    """The gated network of Llama."""
    return _mlp("swiglu", "Gated position-wise network: (silu(X W_gate) ∘ X W_up) W_down.", gated_network)
