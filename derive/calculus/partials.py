"""Partial derivatives of a definition's value with respect to the entries of a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Binder, Delta, Entry, Indicator, Tensor, Total
from derive.algebra.functions import moves
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

    Entries, sums and maxima are replaced by scalars, SymPy differentiates the scalar expression, and the
    chain rule goes on inside of them. Indicators are constants: they jump, and have no gradient.

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
        elif isinstance(part, (sp.Max, sp.Min)):
            for argument, share in _shares(part):
                for inner in partials(argument, tensor):
                    yield Partial(inner.indices, weight * share * inner.weight, inner.bound)
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
    """The entries, binders, maxima, indicators and deltas of a value outside one another, in a fixed order."""
    found: dict[sp.Expr, None] = {}

    def visit(node: sp.Basic) -> None:
        if isinstance(node, (Entry, Binder, Indicator, Delta, sp.Max, sp.Min)):
            found.setdefault(node)
        else:
            for arg in node.args:
                visit(arg)

    visit(value)
    return tuple(sorted(found, key=sp.default_sort_key))


def _depends(part: sp.Expr, tensor: Tensor) -> bool:
    return any(entry.base == tensor for entry in part.atoms(Entry))


def _shares(extreme: sp.Max | sp.Min) -> Iterator[tuple[sp.Expr, sp.Expr]]:
    """What each argument of a maximum or minimum gets of its cotangent: all of it where it wins, and nothing elsewhere.

    What holds no tensor wins a tie, so that max(x, 0) has slope 0 at 0; tensors that tie take equal shares. The shares
    are indicators, which are constants when differentiated again.
    """
    sign = 1 if isinstance(extreme, sp.Max) else -1
    moving = [argument for argument in extreme.args if moves(argument)]

    def beats(one: sp.Expr, other: sp.Expr, *, also_at_a_tie: bool = False) -> sp.Expr:
        lead = sign * (one - other)
        return Indicator(lead >= 0 if also_at_a_tie else lead > 0)

    def leads(argument: sp.Expr) -> sp.Expr:
        return sp.Mul(*(beats(argument, other, also_at_a_tie=True) for other in moving if other != argument))

    for argument in moving:
        free = sp.Mul(*(beats(argument, other) for other in extreme.args if other not in moving))
        others = [other for other in moving if other != argument]
        if len(others) == 1:
            yield argument, free * (1 + beats(argument, others[0]) - beats(others[0], argument)) / 2
        else:
            yield argument, free * leads(argument) / sp.Add(*map(leads, moving)) if others else free


def _subgradient(derivative: sp.Expr) -> sp.Expr:
    """The sign in the derivative of abs as indicators, which are constants when differentiated again: 0 at 0."""
    signs = derivative.atoms(sp.sign)
    return derivative.xreplace({f: Indicator(f.args[0] > 0) - Indicator(f.args[0] < 0) for f in signs})


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
