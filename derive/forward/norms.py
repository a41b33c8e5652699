"""Normalisations over the width, from means and squares; their gradients' compact form is derived."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Tensor, Total
from derive.forward.builder import Builder
from derive.forward.program import Program

i, x = Axis("i", "n"), Axis("x", "D")

AXES = {"i": "positions", "x": "coordinates"}


def epsilon(p: Builder) -> sp.Symbol:
    """The parameter ``eps``, added to a mean square before its root is taken."""
    return p.parameter("eps", sp.Rational(1, 100000), "added to the mean square before the root is taken")


def layer_normed(p: Builder, name: str, X: Tensor, weight: Tensor, shift: Tensor, eps: sp.Expr) -> Tensor:
    """Define ``name = weight · (X − mean)/√(variance + eps) + shift`` (Ba et al. 2016)."""
    mean = p.define(f"mean_{name}", (i,), Total(X[i, x], x) / x.size)
    centred = p.define(f"centred_{name}", (i, x), X[i, x] - mean[i])
    variance = Total(centred[i, x] ** 2, x) / x.size
    rstd = p.define(f"rstd_{name}", (i,), (variance + eps) ** sp.Rational(-1, 2))
    normed = p.define(f"normed_{name}", (i, x), centred[i, x] * rstd[i])
    return p.define(name, (i, x), normed[i, x] * weight[x] + shift[x])


def rms_normed(p: Builder, name: str, X: Tensor, weight: Tensor, eps: sp.Expr) -> Tensor:
    """Define ``name = weight · X/√(mean square + eps)`` (Zhang and Sennrich 2019)."""
    square = Total(X[i, x] ** 2, x) / x.size
    rstd = p.define(f"rstd_{name}", (i,), (square + eps) ** sp.Rational(-1, 2))
    normed = p.define(f"normed_{name}", (i, x), X[i, x] * rstd[i])
    return p.define(name, (i, x), normed[i, x] * weight[x])


@cache
def layer_norm() -> Program:
    """Layer normalisation with weight and shift."""
    p = Builder("layer_norm", "Layer normalisation: centred, divided by the standard deviation, scaled and shifted.")
    X = p.input("X", i, x, meaning="states")
    weight = p.input("weight", x, meaning="multiplies each coordinate")
    shift = p.input("shift", x, meaning="added to each coordinate")
    layer_normed(p, "Y", X, weight, shift, epsilon(p))
    return p.output("Y", "normalised states").build(axis_meaning=AXES)


@cache
def rms_norm() -> Program:
    """Root-mean-square normalisation with a weight."""
    p = Builder("rms_norm", "Root-mean-square normalisation, scaled.")
    X = p.input("X", i, x, meaning="states")
    weight = p.input("weight", x, meaning="multiplies each coordinate")
    rms_normed(p, "Y", X, weight, epsilon(p))
    return p.output("Y", "normalised states").build(axis_meaning=AXES)
