"""The algebra: equal expressions are one object, rewriting keeps values, and nothing is ever captured.

Random expressions are checked with the exact interpreter: their value before and after a rewriting, at every
position, in thirty digits.
"""

from __future__ import annotations

import copy
import pickle
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.algebra import (
    Axis,
    Delta,
    Entry,
    Indicator,
    Maximum,
    Tensor,
    Total,
    Visible,
    canonical,
    equal,
    factor_common,
    fold,
    free_axes,
    fresh,
    from_terms,
    terms_of,
)
from derive.algebra.binders import rewrite
from derive.errors import AlgebraError, DeriveError
from derive.forward import Builder
from derive.proof import Decimals, interpret

i, k, l = (Axis(name, "n") for name in "ikl")
j, p, q = (Axis(name, "m") for name in "jpq")
c = Axis("c", "d")
n, m, d = i.size, j.size, c.size

SIZES = {"n": 3, "m": 2, "d": 4}
SHAPES = {"X": (i, j), "Y": (i, k), "W": (j, p), "U": (j, c), "v": (i,), "w": (j,), "u": (c,)}
TENSORS = {name: Tensor(name, *axes) for name, axes in SHAPES.items()}
X, Y, W, U, v, w, u = TENSORS.values()
MASK = Tensor("mask", i, j, values="boolean")
FREE = (i, k, j)

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=60)


# Random expressions, and their values.


@dataclass(frozen=True)
class Twin:
    """One value spelled twice: other bound letters, other order, distributed, deltas written or contracted."""

    first: sp.Expr
    second: sp.Expr


Scope = tuple[tuple[Axis, Axis], ...]
"""The axes that an expression may use: as the first and as the second spelling call them."""


class Expressions:
    """Draws small expressions over given axes; many axes have the same size, and letters are used again."""

    def __init__(self, seed: int, *, deltas: bool = True, repeated: bool = True) -> None:
        self.chance = random.Random(seed)
        self.deltas, self.repeated = deltas, repeated

    def one(self, axes: Sequence[Axis], depth: int = 3) -> sp.Expr:
        """An expression over the given axes."""
        return self.twin(tuple((a, a) for a in axes), depth).first

    def twin(self, scope: Scope, depth: int = 3) -> Twin:
        """One expression in two spellings."""
        kinds = [self._product, self._product, self._sum, self._sum, self._total, self._total, self._function]
        kinds += [self._square, self._quotient, self._indicator, *([self._delta] if self.deltas else [])]
        if depth == 0 or self.chance.random() < 0.15:
            return self._entry(scope)
        return self.chance.choice(kinds)(scope, depth - 1)

    def _entry(self, scope: Scope) -> Twin:
        everything = {**SHAPES, "mask": (i, j)}
        for name in self.chance.sample(list(everything), len(everything)):
            choices = [[pair for pair in scope if pair[0].size == axis.size] for axis in everything[name]]
            if all(choices):
                pairs = [self.chance.choice(options) for options in choices]
                if self.repeated or len(set(pairs)) == len(pairs):
                    tensor = TENSORS.get(name, MASK)
                    return Twin(tensor[tuple(a for a, _ in pairs)], tensor[tuple(b for _, b in pairs)])
        number = sp.Integer(self.chance.randint(2, 5))
        return Twin(number, number)

    def _product(self, scope: Scope, depth: int) -> Twin:
        one, two = self.twin(scope, depth), self.twin(scope, depth)
        pieces = [x * y for x in sp.Add.make_args(one.second) for y in sp.Add.make_args(two.second)]
        return Twin(one.first * two.first, sp.Add(*pieces))

    def _sum(self, scope: Scope, depth: int) -> Twin:
        one, two, factor = self.twin(scope, depth), self.twin(scope, depth), self.chance.choice((1, 2, -1, -3))
        return Twin(one.first + factor * two.first, factor * two.second + one.second)

    def _total(self, scope: Scope, depth: int) -> Twin:
        size = self.chance.choice((n, n, m, m, d))
        bound = tuple(self._fresh_pair(size, scope, at) for at in range(self.chance.choice((1, 1, 2))))
        body = self.twin((*scope, *bound), depth)
        firsts, seconds = [a for a, _ in bound], [b for _, b in bound[::-1]]
        terms = sp.Add.make_args(sp.expand_mul(body.second, deep=False))
        return Twin(Total(body.first, *firsts), sp.Add(*(Total(term, *seconds) for term in terms)))

    def _fresh_pair(self, size: sp.Expr, scope: Scope, at: int) -> tuple[Axis, Axis]:
        """Letters that are free in each spelling; the two draws of one sum differ in their number."""
        first, second = ({pair[side].name for pair in scope} for side in (0, 1))
        one = next(f"{x}{at}" for x in "abefgh" if f"{x}{at}" not in first)
        two = self.chance.choice([f"{x}{at}" for x in "stxyzabefgh" if f"{x}{at}" not in second])
        return Axis(one, size), Axis(two, size)

    def _function(self, scope: Scope, depth: int) -> Twin:
        inner = self.twin(scope, depth)
        return Twin(sp.exp(inner.first / 16), sp.exp(inner.second / 16))

    def _square(self, scope: Scope, depth: int) -> Twin:
        inner = self.twin(scope, depth)
        return Twin(inner.first**2, inner.second * inner.second)

    def _quotient(self, scope: Scope, depth: int) -> Twin:
        inner = self.twin(scope, depth)
        return Twin(1 / (1 + inner.first**2), 1 / (inner.second**2 + 1))

    def _indicator(self, scope: Scope, depth: int) -> Twin:
        if len(scope) < 2:
            return self._entry(scope)
        (a, b), (e, f) = self.chance.sample(scope, 2)
        inner = self.twin(scope, depth)
        return Twin(Indicator(a <= e) * inner.first, inner.second * Indicator(b <= f))

    def _delta(self, scope: Scope, depth: int) -> Twin:
        pairs = [(x, y) for x in scope for y in scope if x != y and x[0].size == y[0].size]
        if not pairs:
            return self._entry(scope)
        (a, b), (e, f) = self.chance.choice(pairs)
        inner = self.twin(scope, depth)
        return Twin(Delta(a, e) * inner.first, Delta(f, b) * rewrite(inner.second, lambda x: b if x == f else x))


def random_inputs(seed: int) -> dict[str, Any]:
    """Positive fractions for every tensor, and a mask."""
    chance = random.Random(seed)

    def array(axes: Sequence[Axis]) -> Any:
        if not axes:
            return Fraction(chance.randint(1, 9), chance.randint(2, 6))
        return [array(axes[1:]) for _ in range(SIZES[str(axes[0].size)])]

    hidden = [[chance.randint(0, 1) for _ in range(SIZES["m"])] for _ in range(SIZES["n"])]
    return {**{name: array(axes) for name, axes in SHAPES.items()}, "mask": hidden}


def values(value: sp.Expr, seed: int = 0, axes: Sequence[Axis] = FREE, earlier: Sequence[Any] = ()) -> list[Any]:
    """The entries of an expression at every position of its axes, after some earlier definitions."""
    builder = Builder("random", "")
    for name, own in SHAPES.items():
        builder.input(name, *own)
    builder.input("mask", i, j, values="boolean")
    for name, own, spelled in earlier:
        builder.define(name, own, spelled)
    builder.define("out", tuple(axes), value)
    program = builder.output("out").build()
    found = interpret(program, random_inputs(seed), sizes=SIZES, arithmetic=Decimals(30))["out"]
    return _flat(found)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Turn a computation that does not end into an error."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _flat(nested: Any) -> list[Any]:
    return [entry for part in nested for entry in _flat(part)] if isinstance(nested, list) else [nested]


def same(one: Sequence[Any], two: Sequence[Any]) -> bool:
    """Whether values agree in about twenty digits."""
    return all(abs(x - y) <= 1e-18 * (1 + abs(x)) for x, y in zip(one, two, strict=True))


# Every rewriting keeps the value.


REWRITINGS = {
    "canonical": canonical,
    "terms": lambda e: from_terms(terms_of(e)),
    "factor_common": factor_common,
    "factor_common of canonical": lambda e: factor_common(canonical(e)),
    "fold with nothing": lambda e: fold(e, []),
    "opening and closing": lambda e: rewrite(e, lambda x: x),
}


@few
@given(seed=seeds)
@pytest.mark.parametrize("rewriting", REWRITINGS)
def test_rewriting_keeps_the_value(rewriting: str, seed: int) -> None:
    """A random expression has the same value at every position before and after."""
    expression = Expressions(seed).one(FREE)
    rewritten = REWRITINGS[rewriting](expression)
    assert free_axes(rewritten) <= set(FREE)
    assert same(values(expression, seed), values(rewritten, seed))


@few
@given(seed=seeds)
def test_canonical_is_idempotent(seed: int) -> None:
    """Canonicalising again changes nothing."""
    once = canonical(Expressions(seed).one(FREE))
    assert canonical(once) == once


@few
@given(seed=seeds)
def test_canonical_ignores_letters_order_and_distribution(seed: int) -> None:
    """Two spellings of one value have one canonical form, and that value."""
    twin = Expressions(seed).twin(tuple((a, a) for a in FREE))
    assert canonical(twin.first) == canonical(twin.second)
    assert equal(twin.first, twin.second)
    assert same(values(twin.first, seed), values(twin.second, seed))


@few
@given(seed=seeds)
def test_expressions_with_other_bound_letters_are_one_object(seed: int) -> None:
    """Renaming free axes there and back gives the same object with the same hash, binders and all."""
    expression = Expressions(seed).one(FREE)
    there = {a: fresh(a) for a in FREE}
    back = {b: a for a, b in there.items()}
    again = expression.xreplace(there).xreplace(back)
    assert again == expression
    assert hash(again) == hash(expression)


@few
@given(seed=seeds)
def test_equal_does_not_lie(seed: int) -> None:
    """Where two random expressions are said to be equal, they are; an expression never equals itself plus one."""
    drawn = Expressions(seed)
    one, two = drawn.one((i, j), depth=1), drawn.one((i, j), depth=1)
    if equal(one, two):
        assert same(values(one, seed, (i, j)), values(two, seed, (i, j)))
    assert not equal(one, one + 1)


@few
@given(seed=seeds)
def test_folding_keeps_the_value(seed: int) -> None:
    """Folding random definitions into an expression that spells them at random indices keeps its value."""
    earlier, expression = _with_uses(seed)
    equations = [(Tensor(name, *axes)[axes], value) for name, axes, value in earlier]
    with within(20):
        folded = fold(expression, equations)
    assert free_axes(folded) <= set(FREE)
    assert same(values(expression, seed, FREE, earlier), values(folded, seed, FREE, earlier))


def _with_uses(seed: int) -> tuple[list[tuple[str, tuple[Axis, ...], sp.Expr]], sp.Expr]:
    """A few definitions, and an expression with powers of their values at other indices, under sums too."""
    drawn = Expressions(seed, deltas=seed % 3 == 0)
    chance = drawn.chance
    earlier, result = [], drawn.one(FREE, depth=1)
    for name in ("T0", "T1"):
        axes = tuple(chance.sample(FREE, chance.choice((1, 2))))
        value = drawn.one(axes, depth=2)
        if free_axes(value) != set(axes):
            continue
        earlier.append((name, axes, value))
        names = {a: Axis(f"b{at}", a.size) if chance.random() < 0.5 else a for at, a in enumerate(axes)}
        bound = [b for b in names.values() if b not in FREE]
        use = Total(value.xreplace(names) ** chance.choice((1, 1, 2)) * drawn.one((*FREE, *bound), depth=1), *bound)
        result = result * use if chance.random() < 0.5 else result + use
    return earlier, result


# Alpha-equivalence.


def _is_one_object(first: sp.Expr, second: sp.Expr) -> None:
    assert first == second
    assert hash(first) == hash(second)
    assert str(first) == str(second)


def test_bound_letters_do_not_matter() -> None:
    _is_one_object(Total(X[i, j] * w[j], j), Total(X[i, p] * w[p], p))
    _is_one_object(Maximum(X[i, j], j), Maximum(X[i, q], q))
    _is_one_object(Maximum(Visible(MASK[i, j], X[i, j]), j), Maximum(Visible(MASK[i, q], X[i, q]), q))


def test_bound_letters_do_not_matter_under_functions_and_other_binders() -> None:
    one = Total(Y[i, k] * sp.exp(Total(Y[k, l] * v[l], l)), k)
    two = Total(Y[i, l] * sp.exp(Total(Y[l, k] * v[k], k)), l)
    _is_one_object(one, two)


def test_a_bound_letter_may_also_be_free_elsewhere() -> None:
    _is_one_object(X[i, j] * Total(X[i, j], j), X[i, j] * Total(X[i, p], p))


def test_axes_of_one_size_may_be_listed_in_any_order() -> None:
    _is_one_object(Total(Y[i, k] * Y[k, l] * v[l], k, l), Total(Y[i, l] * Y[l, k] * v[k], k, l))
    _is_one_object(Total(Y[i, k] * Y[k, l] * v[l], k, l), Total(Y[i, k] * Y[k, l] * v[l], l, k))


def test_axes_of_different_sizes_may_be_listed_in_any_order() -> None:
    _is_one_object(Total(X[i, j] * U[j, c], j, c), Total(X[i, p] * U[p, c], c, p))


def test_the_four_spellings_of_a_cycle_of_three_are_one_object() -> None:
    cycles = [(i, k, l), (k, l, i), (l, k, i), (k, i, l)]
    spelled = [Total(Y[a, b] * Y[b, e] * Y[e, a] * v[a], i, k, l) for a, b, e in cycles]
    for other in spelled[1:]:
        _is_one_object(spelled[0], other)


def test_inner_spelling_does_not_depend_on_the_outer_letters() -> None:
    """The inner sum is symmetric in its two axes but for free axes, whose letters an outer sum takes away."""

    def spelled(a: Axis, b: Axis) -> sp.Expr:
        return Total(v[a] * Y[a, b] * sp.exp(Total(X[a, p] * X[b, q] * W[p, q], p, q)), a, b)

    for _ in range(12):  # past the step from one to two digits in fresh names
        _is_one_object(spelled(i, k), spelled(k, i))
        _is_one_object(canonical(spelled(l, i)), canonical(spelled(i, l)))


def test_the_canonical_form_does_not_depend_on_what_was_opened_before() -> None:
    expression = Total(sp.exp(Total(X[i, p] * X[k, q] * W[p, q], p, q)) * Y[i, k] * Y[k, i], i, k)
    first = str(canonical(expression))
    for _ in range(110):
        fresh(i)
        assert str(canonical(expression)) == first


def test_order_of_factors_and_terms_does_not_matter() -> None:
    _is_one_object(Total(w[j] * X[i, j] + u[c], j), Total(u[c] + X[i, p] * w[p], p))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "pickle"])
def test_copies_are_equal(again: Any) -> None:
    expression = Total(X[i, j] * MASK[i, j], j) + v[i]
    _is_one_object(expression, again(expression))
    assert again(j).size == m
    assert again(MASK).boolean


# No capture.


def test_opening_makes_axes_that_nobody_holds() -> None:
    total = Total(X[i, j] * w[j], j)
    (one, (first,)), (two, (second,)) = total.open(), total.open()
    assert first != second
    assert free_axes(one) == {i, first}
    assert free_axes(two) == {i, second}


def test_opening_and_closing_many_times_changes_nothing() -> None:
    expression = Total(Y[i, k] * sp.exp(Total(Y[k, l] * X[l, j] * w[j], l, j)), k)
    again = expression
    for _ in range(25):
        body, axes = again.open()
        again = Total(rewrite(body, lambda e: e), *axes)
        _is_one_object(expression, again)


def test_substituting_a_free_axis_under_a_binder_does_not_capture_it() -> None:
    total = Total(Y[i, k] * v[k], k)
    assert total.xreplace({i: k}) == Total(Y[k, l] * v[l], l)
    assert free_axes(total.xreplace({i: k})) == {k}


def test_rewriting_under_a_binder_does_not_capture_what_is_put_in() -> None:
    """u[c] becomes v[k]: where the sum over k stood already, the new k is not that one."""
    total = Total(Y[i, k] * v[k] * sp.exp(u[c] * v[k]), k)
    replaced = rewrite(total, lambda e: v[k] if e == u[c] else e)
    assert replaced == Total(Y[i, l] * v[l] * sp.exp(v[k] * v[l]), l)
    assert free_axes(replaced) == {i, k}


def test_rewriting_can_put_a_sum_into_a_sum_over_the_same_letter() -> None:
    total = Total(Y[i, k] * sp.exp(v[k]), k)
    replaced = rewrite(total, lambda e: Total(Y[e.indices[0], k], k) if isinstance(e, Entry) and e.base == v else e)
    assert replaced == Total(Y[i, k] * sp.exp(Total(Y[k, l], l)), k)


def test_nested_sums_over_one_letter_are_two_sums() -> None:
    """The inner letter hides the outer one, as in every language with scopes."""
    assert Total(v[k] * sp.exp(Total(v[k], k)), k) == Total(v[k], k) * sp.exp(Total(v[l], l))
    assert Total(v[k] * Total(Y[k, k], k), k) == Total(v[k], k) * Total(Y[l, l], l)


def test_sums_over_axes_of_one_size_stay_apart() -> None:
    assert Total(X[i, j] * Total(W[j, p] * w[p], p), j) == Total(X[i, p] * W[p, q] * w[q], p, q)
    assert not equal(Total(X[i, j] * W[j, p], j, p), Total(X[i, j] * W[j, j], j))


def test_a_sum_over_a_body_that_holds_another_sums_axis_does_not_capture_it() -> None:
    """A closed binder's body, taken apart, has a loose axis: another sum over it is refused; open() is the way."""
    inner = Total(Y[i, k] * v[k], k)
    with pytest.raises(AlgebraError, match=r"_1.*open\(\)"):
        Total(inner.body * Y[l, i], i)
    body, (axis,) = inner.open()
    assert Total(body * Y[l, i], i) == Total(Y[i, axis] * v[axis] * Y[l, i], i)


@pytest.mark.parametrize("name", ["_1", "_2"])
def test_an_authors_axis_cannot_be_mistaken_for_a_bound_one(name: str) -> None:
    """Either such a name is refused, or the axis stays free."""
    try:
        axis = Axis(name, "n")
        total = Total(Y[axis, k], k) * sp.exp(Total(Y[axis, k] * sp.exp(Total(Y[k, l], l)), k))
    except DeriveError:
        return
    assert total.xreplace({axis: i}) == Total(Y[i, k], k) * sp.exp(Total(Y[i, k] * sp.exp(Total(Y[k, l], l)), k))


# Sums evaluate on construction.


def test_constants_move_out_of_a_sum() -> None:
    assert Total(3 * v[i] * w[j], j) == 3 * v[i] * Total(w[j], j)
    assert Total(-w[j], j) == -Total(w[j], j)


def test_an_axis_that_is_not_mentioned_becomes_its_size() -> None:
    assert Total(v[i], j) == m * v[i]
    assert Total(sp.Integer(1), i, j) == n * m
    assert Total(w[j], j, k) == n * Total(w[j], j)
    assert Total(sp.Integer(2), Axis("t", 3)) == 6


def test_nested_sums_merge() -> None:
    merged = Total(Total(X[i, j] * W[j, p], p), j)
    assert merged == Total(X[i, j] * W[j, p], j, p)
    assert isinstance(merged, Total)
    assert len(merged.axes) == 2


def test_a_factor_that_is_a_sum_merges() -> None:
    assert Total(w[j] * Total(X[i, j] * v[i], i), j) == Total(w[j] * X[i, j] * v[i], i, j)


def test_independent_parts_fall_apart() -> None:
    assert Total(v[i] * w[j] * w[j], i, j) == Total(v[i], i) * Total(w[j] ** 2, j)
    assert Total(X[i, j] * v[i] * w[p] * u[c], i, j, p, c) == Total(X[i, j] * v[i], i, j) * Total(w[p], p) * Total(
        u[c], c
    )


def test_a_power_of_a_sum_is_not_the_sum_of_powers() -> None:
    assert not equal(Total(w[j], j) ** 2, Total(w[j] ** 2, j))
    assert equal(Total(w[j], j) ** 2, Total(w[j] * w[p], j, p))


def test_zero_and_empty_sums() -> None:
    assert Total(sp.Integer(0), i) == 0
    assert Total(v[i]) == v[i]


def test_a_sum_over_no_values_is_not_positive() -> None:
    """Sizes may be 0, so a sum of positive numbers is only known not to be negative."""
    total = Total(sp.exp(w[j]), j)
    assert total.is_nonnegative
    assert not total.is_positive


def test_free_axes_are_those_of_the_body_that_are_not_bound() -> None:
    assert free_axes(Total(X[i, j] * w[j], j)) == {i}
    assert free_axes(Maximum(X[i, j], i, j)) == frozenset()


# Deltas.


def test_a_summed_delta_picks_an_entry() -> None:
    assert canonical(Total(Delta(k, i) * v[k], k)) == v[i]
    assert canonical(Total(Delta(i, k) * Y[i, k], k)) == Y[i, i]


def test_a_diagonal_entry_is_reached_from_both_sides() -> None:
    expected = Y[k, k] * v[k]
    assert canonical(Total(Delta(i, k) * Y[i, i] * v[i], i)) == expected
    assert canonical(Total(Delta(i, k) * Delta(l, k) * Y[i, l] * v[i], i, l)) == expected


def test_a_chain_of_deltas_contracts() -> None:
    assert canonical(Total(Delta(i, k) * Delta(k, l) * v[l], k, l)) == v[i]
    assert canonical(Total(Delta(i, k) * Delta(k, l), k)) == Delta(i, l)


def test_a_delta_of_two_bound_axes_merges_them() -> None:
    assert canonical(Total(Delta(i, k) * Y[i, k], i, k)) == Total(Y[i, i], i)
    assert canonical(Total(Delta(i, k), i, k)) == n


def test_a_delta_of_two_free_axes_stays_and_unifies_its_neighbours() -> None:
    assert canonical(Delta(i, k) * v[k]) == Delta(i, k) * v[i]
    assert equal(Delta(i, k) * v[k], Delta(k, i) * v[i])
    assert not equal(Delta(i, k) * v[k], v[k])


def test_deltas_reach_into_sums_functions_and_indicators() -> None:
    value = Delta(i, k) * Indicator(k <= l) * sp.exp(Total(Y[k, i] * v[i], i))
    assert canonical(Total(value, k)) == Indicator(i <= l) * sp.exp(Total(Y[i, k] * v[k], k))


def test_deltas_are_symmetric_and_idempotent() -> None:
    assert Delta(i, k) == Delta(k, i)
    assert Delta(i, k) ** 2 == Delta(i, k)
    assert Delta(i, i) == 1
    assert equal(Delta(i, k) * Delta(k, l), Delta(i, l) * Delta(k, l))


def test_a_delta_renames_an_axis_that_stands_in_an_exponent() -> None:
    """Decay γ^(i−k) is an axis in an exponent: no axis may be left behind there."""
    decay = sp.Symbol("g", positive=True)
    assert canonical(Total(Delta(k, i) * decay**k * v[k], k)) == decay**i * v[i]


def test_a_delta_of_axes_of_different_sizes_is_refused() -> None:
    """δ[i,j] with i < n, j < m cannot be contracted: w[i] would be read beyond its end."""
    with pytest.raises(AlgebraError, match=r"n.*m|m.*n"):
        canonical(Total(Delta(i, j) * w[j], j))


# Zero-one factors.


def test_a_boolean_entry_is_its_square() -> None:
    assert MASK[i, j] * MASK[i, j] == MASK[i, j]
    assert canonical(MASK[i, j] * (MASK[i, j] * v[i] + 1)) == MASK[i, j] * v[i] + MASK[i, j]
    assert X[i, j] * X[i, j] != X[i, j]
    assert Total(MASK[i, j] * MASK[i, j], j) == Total(MASK[i, j], j)


def test_an_indicator_is_its_square_and_decides_constants() -> None:
    assert Indicator(i <= k) ** 3 == Indicator(i <= k)
    assert Indicator(sp.true) == 1
    assert Indicator(sp.false) == 0
    assert canonical(Total(Delta(i, k) * Indicator(i <= k), k)) == 1


def test_what_is_always_visible_is_itself() -> None:
    assert Visible(1, X[i, j]) == X[i, j]
    assert Visible(MASK[i, j], X[i, j]) != X[i, j]


# Canonical form and equality.


DIFFERENT = {
    "transposed": (Y[i, k], Y[k, i]),
    "sum over the other axis": (Total(Y[i, k], k), Total(Y[k, i], k)),
    "trace and grand total": (Total(Y[i, i], i), Total(Y[i, k], i, k)),
    "sum of squares and square of sum": (Total(w[j] ** 2, j), Total(w[j], j) ** 2),
    "product of sums and sum of products": (Total(v[i], i) * Total(v[k] ** 2, k), Total(v[i] ** 3, i)),
    "sizes": (Total(v[i], j), Total(v[i], k)),
    "exponential of a sum and sum of exponentials": (sp.exp(Total(w[j], j)), Total(sp.exp(w[j]), j)),
    "one mask missing": (Total(MASK[i, j] * X[i, j], j), Total(X[i, j], j)),
    "strict and weak comparison": (Indicator(i <= k) * v[i], Indicator(i < k) * v[i]),
    "matrix product in the other order": (Total(Y[i, l] * Y[l, l] * Y[l, k], l), Total(Y[i, l] * Y[l, k], l)),
    "path and square": (Total(Y[i, k] * Y[k, i], k), Total(Y[i, k] * Y[i, k], k)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_expressions_are_not_equal(name: str) -> None:
    one, two = DIFFERENT[name]
    assert not equal(one, two)
    assert not same(values(one), values(two))


def test_equality_goes_through_distribution_deltas_and_functions() -> None:
    assert equal(
        Total(X[i, j] * (w[j] + Total(W[j, p], p)), j), Total(X[i, j] * w[j], j) + Total(W[j, p] * X[i, j], p, j)
    )
    assert equal(sp.exp(v[i] * (v[i] + 1)), sp.exp(v[i] ** 2 + v[i]))
    assert equal(1 / (1 + Total(v[k] * (v[k] + 1), k)), 1 / (Total(v[k], k) + 1 + Total(v[k] ** 2, k)))


def test_equality_goes_through_a_distributed_divisor() -> None:
    """1/Σ(a + b) and 1/(Σa + Σb) differ in distribution alone."""
    assert equal(1 / Total(w[j] + X[i, j], j), 1 / (Total(w[j], j) + Total(X[i, j], j)))


def test_canonical_is_idempotent_where_a_contracted_delta_lets_a_logarithm_open() -> None:
    """log Σ_k δ[i,k] exp(v[k] + X[k,j]) is a sum once the delta is gone, and is then multiplied out too."""
    once = canonical(v[i] * sp.log(Total(Delta(i, k) * sp.exp(v[k] + X[k, j]), k)))
    assert canonical(once) == once
    assert once == canonical(v[i] * (v[i] + X[i, j]))


# Taking out common factors.


def test_a_common_factor_is_taken_out() -> None:
    factored = factor_common(X[i, j] * v[i] - X[i, j] * Total(X[i, p], p))
    assert factored == X[i, j] * (v[i] - Total(X[i, p], p))


def test_powers_have_their_least_power_in_common() -> None:
    assert factor_common(v[i] ** 3 * w[j] + v[i] ** 2) == v[i] ** 2 * (v[i] * w[j] + 1)
    assert factor_common(w[j] / v[i] + 1 / v[i]) == (w[j] + 1) / v[i]


def test_nothing_is_taken_out_where_nothing_is_common() -> None:
    for expression in (v[i] + w[j], v[i] * w[j], 2 * v[i] + 2 * w[j], v[i] + 1 / v[i]):
        assert factor_common(expression) is expression


# Folding.


S, Z, A, G = Tensor("S", i, j), Tensor("Z", i), Tensor("A", i, j), Tensor("G", i, j)
SOFTMAX = [(A[i, j], sp.exp(S[i, j]) / Z[i])]
NORMALISED = [(A[i, j], sp.exp(S[i, j]) / Total(sp.exp(S[i, p]), p))]


def test_a_definition_is_folded_at_any_indices() -> None:
    assert fold(sp.exp(S[k, q]) / Z[k], SOFTMAX) == A[k, q]
    assert fold(5 * v[k] * sp.exp(S[k, q]) / Z[k], SOFTMAX) == 5 * v[k] * A[k, q]


def test_a_definition_is_folded_across_a_sum() -> None:
    """Z stands outside the sum and exp(S) within it; together they are A."""
    assert fold(Total(G[i, j] * sp.exp(S[i, j]), j) / Z[i], SOFTMAX) == Total(G[i, j] * A[i, j], j)
    spelled = Total(G[i, j] * sp.exp(S[i, j]), j) * sp.exp(S[i, q]) / Total(sp.exp(S[i, p]), p) ** 2
    assert fold(spelled, NORMALISED) == A[i, q] * Total(G[i, j] * A[i, j], j)


def test_squares_and_higher_powers_fold() -> None:
    assert fold(sp.exp(2 * S[i, j]) / Z[i] ** 2, SOFTMAX) == A[i, j] ** 2
    assert fold(sp.exp(3 * S[i, j]) / Z[i] ** 2, SOFTMAX) == A[i, j] ** 2 * sp.exp(S[i, j])
    assert fold(sp.exp(S[i, j]) / Z[i] ** 2, SOFTMAX) == A[i, j] / Z[i]


def test_squares_fold_under_a_mask_too() -> None:
    """M² = M: one mask is enough for every A."""
    masked = [(A[i, j], MASK[i, j] * sp.exp(S[i, j]) / Z[i])]
    assert fold(MASK[i, j] * sp.exp(2 * S[i, j]) / Z[i] ** 2, masked) == A[i, j] ** 2


def test_a_definition_is_folded_inside_functions_and_divisors() -> None:
    assert fold(sp.exp(sp.exp(S[i, j]) / Z[i]), SOFTMAX) == sp.exp(A[i, j])
    total = [(Z[i], Total(sp.exp(S[i, p]), p))]
    assert fold(G[i, j] / Total(sp.exp(S[i, j]), j), total) == G[i, j] / Z[i]
    assert fold(sp.log(Total(sp.exp(S[i, j]), j)), total) == sp.log(Z[i])


def test_a_number_in_front_is_divided_out() -> None:
    assert fold(3 * v[i] * w[j], [(A[i, j], 2 * v[i] * w[j])]) == sp.Rational(3, 2) * A[i, j]


def test_a_summed_definition_is_not_folded_where_its_axis_is_used_elsewhere() -> None:
    equations = [(Z[i], Total(sp.exp(S[i, p]), p))]
    spelled = Total(sp.exp(S[i, p]) * w[p], p)
    assert fold(spelled, equations) == spelled


def test_a_summed_definition_is_not_folded_where_its_axis_stands_in_an_exponent() -> None:
    decay = sp.Symbol("g", positive=True)
    spelled = Total(w[j] * decay**j, j)
    folded = fold(spelled, [(Tensor("t")[()], Total(w[j], j))])
    assert not free_axes(folded)
    assert folded == spelled


def test_a_transposed_spelling_is_not_folded() -> None:
    """With equal sizes only the letters tell exp(S[i,k])/Z[i] from exp(S[k,i])/Z[i]."""
    B, T = Tensor("B", i, k), Tensor("T", i, k)
    equations = [(B[i, k], sp.exp(T[i, k]) / Z[i])]
    for spelled in (sp.exp(T[k, i]) / Z[i], sp.exp(T[i, k]) / Z[k], sp.exp(T[i, i]) / Z[k]):
        assert fold(spelled, equations) == spelled
    assert fold(sp.exp(T[k, i]) / Z[k], equations) == B[k, i]
    assert fold(sp.exp(T[k, k]) / Z[k], equations) == B[k, k]


def test_a_summed_pattern_is_not_folded_onto_a_diagonal() -> None:
    """Σ_k Y[i,k] Y[k,i] and Σ_k Y[k,k]² look alike when axes are merged."""
    equations = [(v[i], Total(Y[i, k] * Y[k, i], k))]
    spelled = Total(Y[k, k] ** 2, k)
    assert fold(spelled, equations) == spelled


def test_a_sum_over_other_indices_is_not_folded() -> None:
    equations = [(Z[i], Total(Y[i, k], k))]
    assert fold(Total(Y[k, i], k), equations) == Total(Y[k, i], k)
    assert fold(Total(Y[l, k], k), equations) == Z[l]


def test_a_definition_with_an_axis_that_its_value_lacks_leaves_no_loose_axis() -> None:
    """B[i,j] := exp(v[i]): no entry of B may be named where the value says nothing about j."""
    folded = fold(w[p] * sp.exp(v[k]), [(A[i, j], sp.exp(v[i]))])
    assert free_axes(folded) == {k, p}


def test_plain_names_and_numbers_are_not_folded() -> None:
    for value in (S[i, j], 3 * S[i, j], sp.Integer(2)):
        assert fold(S[i, j] ** 2, [(A[i, j], value)]) == S[i, j] ** 2


def test_folding_ends_where_two_definitions_spell_the_same() -> None:
    B = Tensor("B", i, j)
    spelled = sp.exp(S[i, j]) / Z[i]
    assert fold(spelled**2, [(A[i, j], spelled), (B[i, j], spelled)]) == A[i, j] ** 2


@pytest.mark.parametrize("value", [sp.exp(v[i] - v[k]), 1 / (1 + (v[i] - v[k]) ** 2), sp.exp(-((v[i] - v[k]) ** 2))])
def test_folding_ends_where_equal_indices_make_a_definition_trivial(value: sp.Expr) -> None:
    """exp(v[i] − v[k]) at i = k is 1, which is a factor of everything, any number of times."""
    equations = [(Y[i, k], value)]
    with within(10):
        assert fold(v[i] * v[k] * value, equations) == v[i] * v[k] * Y[i, k]


def test_a_definition_whose_entries_all_stand_under_sums_is_folded() -> None:
    """exp(Σ_c U[j,c] u[c]) names j only under the sum."""
    equations = [(W[j, p], sp.exp(Total(U[j, c] * U[p, c], c)))]
    assert fold(w[q] * sp.exp(Total(U[q, c] * U[j, c], c)), equations) in (w[q] * W[q, j], w[q] * W[j, q])


def test_folding_is_idempotent_where_one_definition_uses_another() -> None:
    equations = [(Z[i], Total(sp.exp(S[i, p]), p)), *SOFTMAX]
    once = fold(sp.exp(S[i, j]) / Total(sp.exp(S[i, p]), p), equations)
    assert fold(once, equations) == once
    assert once == A[i, j]


# Errors name the expression.


def test_a_wrong_rank_names_the_tensor_its_shape_and_the_indices() -> None:
    with pytest.raises(AlgebraError, match=r"X has 2 axes of sizes \(n, m\), but is indexed with 1: \[i\]"):
        X[i]


def test_a_wrong_size_names_the_axis_and_both_sizes() -> None:
    with pytest.raises(AlgebraError, match=r"X\[i, k\]: axis k has size n, but X has size m there"):
        X[i, k]


def test_a_repeated_axis_is_named() -> None:
    with pytest.raises(AlgebraError, match=r"Total: axis j is used twice"):
        Total(w[j], j, j)
    with pytest.raises(AlgebraError, match=r"tensor T: axis i is used twice"):
        Tensor("T", i, i)


def test_a_sum_over_something_else_than_an_axis_is_refused() -> None:
    with pytest.raises(AlgebraError, match=r"Total: n is not an Axis"):
        Total(w[j], n)


@pytest.mark.parametrize("expression", [v[k], Total(v[k], k), v[i] * Total(v[k], k)], ids=str)
def test_differentiating_by_hand_is_refused(expression: sp.Expr) -> None:
    """SymPy's own derivative knows no deltas and would be a silent zero."""
    with pytest.raises(AlgebraError, match=r"differentiated directly; use derive\.calculus"):
        expression.diff(v[i])


@settings(max_examples=20)
@given(seed=seeds)
def test_the_generator_draws_what_the_checks_need(seed: int) -> None:
    """Seeds are reproducible: the same seed draws the same expression."""
    assert Expressions(seed).one(FREE) == Expressions(seed).one(FREE)
