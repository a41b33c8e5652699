"""Position-wise networks: two maps with GELU between them, and the gated SwiGLU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import sympy as sp

from derive.algebra import Axis, Tensor, Total
from derive.algebra.functions import Sigmoid
from derive.forward.norms import AXES, i, x
from derive.forward.program import Builder, Program

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


def _gelu_mlp(name: str, summary: str, activation: Callable[[sp.Expr], sp.Expr]) -> Program:
    p = Builder(name, summary)
    X = p.input("X", i, x, meaning="states")
    W_up = p.input("W_up", x, f, meaning="the map to the hidden width")
    b_up = p.input("b_up", f, meaning="added before the activation")
    W_down = p.input("W_down", f, x, meaning="the map back")
    b_down = p.input("b_down", x, meaning="added to the output")
    U = p.define("U", (i, f), Total(X[i, x] * W_up[x, f], x) + b_up[f])
    H = p.define("H", (i, f), activation(U[i, f]))
    p.define("Y", (i, x), Total(H[i, f] * W_down[f, x], f) + b_down[x])
    return p.output("Y", "updates of the states").build(axis_meaning=AXES)


@cache
def gelu_mlp() -> Program:
    """Two maps with the exact GELU between them."""
    return _gelu_mlp("gelu_mlp", "Position-wise network with the exact GELU.", gelu)


@cache
def gelu_tanh_mlp() -> Program:
    """Two maps with the tanh approximation of GELU between them."""
    return _gelu_mlp("gelu_tanh_mlp", "Position-wise network with GELU by a tanh.", gelu_tanh)


def swiglu_of(p: Builder, X: Tensor, W_gate: Tensor, W_up: Tensor, W_down: Tensor) -> sp.Expr:
    """``(silu(X W_gate) ∘ X W_up) W_down`` at ``[i, x]`` (Shazeer 2020)."""
    U = p.define("U", (i, f), Total(X[i, x] * W_gate[x, f], x))
    B = p.define("B", (i, f), Total(X[i, x] * W_up[x, f], x))
    H = p.define("H", (i, f), silu(U[i, f]) * B[i, f])
    return Total(H[i, f] * W_down[f, x], f)


@cache
def swiglu() -> Program:
    """The gated network of Llama."""
    p = Builder("swiglu", "Gated position-wise network: (silu(X W_gate) ∘ X W_up) W_down.")
    X = p.input("X", i, x, meaning="states")
    W_gate = p.input("W_gate", x, f, meaning="the gate's map")
    W_up = p.input("W_up", x, f, meaning="the map to the hidden width")
    W_down = p.input("W_down", f, x, meaning="the map back")
    p.define("Y", (i, x), swiglu_of(p, X, W_gate, W_up, W_down))
    return p.output("Y", "updates of the states").build(axis_meaning=AXES)
