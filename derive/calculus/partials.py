"""Partial derivatives of a definition's value with respect to the entries of a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Binder, Delta, Entry, Indicator, Tensor, Total
from derive.algebra.functions import KINKED
from derive.errors import DerivationError
from derive.forward.program import Definition


@dataclass(frozen=True)
class Partial:
    """``∂value = Σ_bound weight · ∂X[indices]``, one occurrence of X in the value."""

    indices: tuple[sp.Expr, ...]
    weight: sp.Expr
    bound: tuple[Axis, ...] = ()


def partials(value: sp.Expr, tensor: Tensor) -> Iterator[Partial]:
    """Every occurrence of a tensor in a value, with the derivative with respect to that occurrence.

    Entries and sums are replaced by scalars, SymPy differentiates the scalar expression, and the
    chain rule goes on inside the sums. Indicators are constants: they jump, and have no gradient.

    Raises
    ------
    DerivationError: where SymPy knows no derivative, naming the function.
    """
    scalars = {part: sp.Dummy(real=True) for part in _parts(value)}
    scalar = _with_scalars(value, scalars)
    back = {dummy: part for part, dummy in scalars.items()}
    for part, dummy in scalars.items():
        if isinstance(part, (Indicator, Delta)) or not _depends(part, tensor):
            continue
        weight = _scalar_derivative(scalar, dummy, value).xreplace(back)
        if weight == 0:
            continue
        if isinstance(part, Entry):
            yield Partial(part.indices, weight)
        elif isinstance(part, Total):
            body, axes = part.open()
            for inner in partials(body, tensor):
                yield Partial(inner.indices, weight * inner.weight, (*axes, *inner.bound))
        else:
            raise DerivationError(
                f"{type(part).__name__} in {value} has no derivative: differentiate before stabilising"
            )


def partials_of(program: str, definition: Definition, axes: tuple[Axis, ...], tensor: Tensor) -> Iterator[Partial]:
    """The partial derivatives of a definition at the given axes; errors name the program and the definition."""
    try:
        yield from partials(definition.at(*axes), tensor)
    except DerivationError as error:
        raise DerivationError(f"{program}: {definition} cannot be differentiated: {error}") from None


def _with_scalars(expr: sp.Expr, scalars: dict[sp.Expr, sp.Dummy]) -> sp.Expr:
    """The expression with its parts replaced, without looking into them."""
    if expr in scalars:
        return scalars[expr]
    if not expr.args:
        return expr
    return expr.func(*(_with_scalars(arg, scalars) for arg in expr.args))


def _parts(value: sp.Expr) -> tuple[sp.Expr, ...]:
    """The entries, binders, indicators and deltas of a value that stand outside one another, in a fixed order."""
    found: dict[sp.Expr, None] = {}

    def visit(node: sp.Basic) -> None:
        if isinstance(node, (Entry, Binder, Indicator, Delta)):
            found.setdefault(node)
        else:
            for arg in node.args:
                visit(arg)

    visit(value)
    return tuple(sorted(found, key=sp.default_sort_key))


def _depends(part: sp.Expr, tensor: Tensor) -> bool:
    return any(entry.base == tensor for entry in part.atoms(Entry))


def _subgradient(derivative: sp.Expr) -> sp.Expr:
    """Jumps in a derivative as indicators, which are constants when differentiated again.

    abs has slope 0 at 0, and so has max(x, c) where x = c; at a tie of two tensors each takes half.
    """

    def jump(function: sp.Function) -> sp.Expr:
        x = function.args[0]
        above, below = Indicator(x > 0), Indicator(x < 0)
        if isinstance(function, sp.sign):
            return above - below
        return above if len(x.atoms(sp.Dummy)) == 1 else (1 + above - below) / 2

    return derivative.xreplace({f: jump(f) for f in derivative.atoms(*KINKED)})


def _scalar_derivative(scalar: sp.Expr, dummy: sp.Dummy, value: sp.Expr) -> sp.Expr:
    derivative = _subgradient(sp.diff(scalar, dummy))
    unknown = derivative.atoms(sp.Derivative, sp.Subs, sp.DiracDelta)
    if unknown:
        functions = sorted({type(f).__name__ for f in scalar.atoms(sp.Function) if f.has(dummy)})
        raise DerivationError(
            f"{', '.join(functions)} has no derivative that can be used; write it with differentiable functions, or "
            "as an Indicator of a condition, which is constant in the gradient"
        )
    return derivative
