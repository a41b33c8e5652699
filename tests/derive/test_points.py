"""Points: fields that nobody knows before, roots with signs, sizes and whole numbers on both sides of comparisons."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.calculus import Derivation, backward
from derive.errors import AlgebraError
from derive.forward import Builder, program
from derive.forward.program import Program
from derive.lower import dense
from derive.proof.arithmetic import Weights
from derive.proof.checks import compacting_changed_nothing, compactness, forward_mode_agrees, schedule_differs
from derive.proof.degrees import LEAST_BITS, MOST_POINTS, Degrees, FailureBound, looked_at
from derive.proof.fields import (
    SQUARES,
    derived_seed,
    drawn_primes,
    fresh_seed,
    is_prime_below_2_64,
    proved_prime,
)
from derive.proof.fingerprint import FiniteField
from derive.proof.points import ALONE, EQUAL, random_point, sizes_at
from derive.proof.refuter import refute
from derive.proof.roots import NoRootError
from derive.proof.statements import equation
from derive.proof.verdict import fingerprint, settle

i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
X, Z = Tensor("X", i)[i], Tensor("Z", i)[i]
W = Tensor("W", j)
HALF = sp.Rational(1, 2)
OLD = 2**61 - 1
"""The order of the group in which programs once were compared: anyone could know it."""


def root(expr: sp.Expr) -> sp.Expr:
    """A root that SymPy does not simplify."""
    return sp.Pow(expr, HALF, evaluate=False)


def differ(left: sp.Expr, right: sp.Expr, seed: int = 0) -> bool:
    return fingerprint(left, right, (), True, seed)[0]


# Fields.


@pytest.mark.parametrize("seed", range(6))
def test_a_field_is_what_it_says(seed: int) -> None:
    """Both orders are primes, one divides the other less one, and g has exactly that order; squares are squares."""
    primes = drawn_primes(seed)
    assert sp.isprime(primes.order)
    assert sp.isprime(primes.modulus)
    assert (primes.modulus - 1) % primes.order == 0
    assert primes.generator != 1
    assert pow(primes.generator, primes.order, primes.modulus) == 1
    assert primes.order > 2**93
    for prime in (primes.order, primes.modulus):
        assert sp.jacobi_symbol(-1, prime) == -1
        assert all(sp.jacobi_symbol(square, prime) == 1 for square in (2, *SQUARES))


def test_primes_are_told_from_others() -> None:
    assert [n for n in range(2000) if is_prime_below_2_64(n)] == list(sp.primerange(2000))
    strong = 3825123056546413051  # a strong pseudoprime to the first nine bases
    assert not is_prime_below_2_64(strong)
    assert proved_prime(2 * 1009 + 1, 1009) == sp.isprime(2019)
    assert [k for k in range(2, 1000, 2) if proved_prime(k * 1009 + 1, 1009)] == [
        k for k in range(2, 1000, 2) if sp.isprime(k * 1009 + 1)
    ]
    assert not proved_prime(1009 * 1009 * 1010 + 1, 1009), "a factor below the root proves nothing"


def test_runs_draw_other_fields_and_a_seed_gives_them_again() -> None:
    assert drawn_primes(1) == drawn_primes(1)
    fields = [drawn_primes(fresh_seed()) for _ in range(4)]
    assert len({f.modulus for f in fields}) == len({f.generator for f in fields}) == 4
    source, found = program("attention"), []
    for seed in (1, 1, 2):
        bound = FailureBound()
        assert (
            looked_at(lambda s, n, b: compacting_changed_nothing(backward(source), s, b, number=n), seed, bound) == []
        )
        found.append((str(bound), [FiniteField(derived_seed(seed, "point", n)).primes for n in range(3)]))
    assert found[0] == found[1] != found[2]
    assert "seed 2" in found[2][0]


@pytest.mark.parametrize("factor", [OLD, 66 * OLD + 1, OLD * (66 * OLD + 1)])
def test_no_constant_is_0_in_a_field_that_nobody_knows(factor: int) -> None:
    assert differ(X + factor * Z, X)
    assert differ(sp.exp(X + factor * Z), sp.exp(X))
    assert differ(sp.exp(factor * X), sp.S.One)


def test_unknown_functions_are_those_of_the_field() -> None:
    values = [(f := FiniteField(seed)).function(sp.log, f.number(2)).value for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


# Roots.


def test_roots_multiply_and_have_the_signs_of_their_squares_roots() -> None:
    field, chance = FiniteField(3), random.Random(3)
    signs = set()
    for _ in range(40):
        x = field.draw(chance)
        taken = field.power(x * x, HALF)
        assert taken * taken == x * x
        signs.add(taken == x)
        assert (taken == x) or taken == field.number(-1) * x
        assert field.power(field.number(4) * x * x, HALF) == field.number(2) * taken
    assert signs == {True, False}
    e = field.function(sp.exp, field.draw(chance))
    assert field.power(e * e, HALF) == e, "exponentials are positive"
    assert field.power(field.number(6), HALF) == field.power(field.number(2), HALF) * field.power(field.number(3), HALF)


def test_roots_that_may_be_those_of_squares_are_told_from_free_ones() -> None:
    """By what a draw shows: a radicand without a root is no square, nor is it one times those before it."""
    for radicands, signed in (
        ((X**2 + Z,), 0),
        ((X**2,), 1),
        ((X**4 * Z**2,), 1),
        ((Z, X**2 * Z), 1),
        ((X, Z), 0),
        ((X, Z, X * Z), 1),
    ):
        b = Builder("rooted", "")
        tensors = [b.input(name, i) for name in "XZ"]
        b.define("Y", (i,), sum(root(r) for r in radicands) + 0 * tensors[0][i])
        source = b.output("Y").build()
        field = FiniteField(1)
        random_point(source, {"n": 1}, random.Random(1), field, field.draw)
        assert len(field.roots.place) - len(field.roots.free) == signed, radicands


def test_a_root_of_a_square_is_never_taken_for_what_was_squared() -> None:
    for seed in range(3):
        assert differ(root(X**2), X, seed)
        assert differ(root(X**2), -X, seed)
        assert differ(root(X**2 * (1 + Z)), X * root(1 + Z), seed)
        assert differ(sp.exp(root(X**2)), sp.exp(X), seed), "in an exponent too"
    assert settle(equation("no sign", root(X**2), X), 0).word == "refuted"
    assert settle(equation("a sign", root(X**2), sp.Abs(X)), 0).word == "open"


def test_signs_need_as_many_points_as_their_bits() -> None:
    """√(X⁴) = X² is true, and one sign a number: forty points, and no word for less."""
    wrong, bound = fingerprint(root(X**4), X**2, (), True, 0)
    assert not wrong
    assert bound.signs == 1
    assert len(bound.each) >= LEAST_BITS
    assert LEAST_BITS <= bound.bits <= len(bound.each)
    verdict = settle(equation("a square's root", root(X**4), X**2), 0)
    assert verdict.word == "fingerprinted"
    assert "2⁻⁴⁰" in verdict.reason
    assert "together" in verdict.reason
    many, squares = Total(root(sp.expand((X + Z) ** 4)), i), Total((X + Z) ** 2, i)
    wrong, bound = fingerprint(many, squares, (), True, 0)
    assert not wrong
    assert "squares" in bound.refused
    assert len(bound.each) < MOST_POINTS, "what cannot be had is not looked for"
    verdict = settle(equation("a sum of such", many, squares), 0)
    assert (verdict.word, verdict.as_stated) == ("open", None)
    assert "no fingerprint: a difference is missed with probability up to" in verdict.reason


def test_roots_of_sums_of_squares_are_free() -> None:
    wrong, bound = fingerprint(Total(X**2, i) / root(Total(X**2, i)), root(Total(X**2, i)), (), True, 0)
    assert not wrong
    assert bound.signs == 0
    assert bound.everywhere


def test_an_element_without_a_root_says_which_it_is() -> None:
    field = FiniteField()
    with pytest.raises(NoRootError) as missing:
        field.power(field.number(-1), HALF)
    assert missing.value.place == 0
    assert missing.value.radicand == field.primes.modulus - 1


# What a bound is worth.


def test_a_bound_below_40_bits_is_none() -> None:
    """One bit a point is too little at three points; points add bits."""
    bound = FailureBound(degree=10, each=[7.0] * 3)
    assert bound.bits == 21
    assert "degree 10" in bound.refused
    assert FailureBound(each=[7.0] * 6).refused == ""
    assert FailureBound(each=[50.0, 60.0, 45.0]).bits == 45, "at each point, if that is enough"
    assert FailureBound(each=[0.0] * 64).refused
    assert FailureBound().refused


def test_a_degree_as_large_as_the_field_is_refused_and_not_fingerprinted() -> None:
    power = sp.Integer(2) ** 100
    wrong, bound = fingerprint(X**power * X, X ** (power + 1), (), True, 0)
    assert not wrong
    assert bound.bits < LEAST_BITS
    assert "large for the field" in bound.refused


def test_a_bound_with_signs_by_hand() -> None:
    field = FiniteField(2)
    degrees, x = Degrees(field), FiniteField(2).draw(random.Random(0))
    number = degrees.power(degrees.number(x) * degrees.number(x), HALF)
    bound = FailureBound()
    bound.note({"Y": [(number, number)]}, degrees)
    assert bound.each == [pytest.approx(1)]
    field.roots.free.add(0)
    free = FailureBound()
    free.note({"Y": [(number, number)]}, degrees)
    assert free.each == [pytest.approx(math.log2(field.primes.order) - math.log2(4) - 2)]


# Sizes, whole numbers, thresholds.


def test_some_sizes_are_1_and_some_equal() -> None:
    source = program("attention")
    for seed in range(5):
        assert 1 in sizes_at(source, seed, ALONE, rational=False).values()
        assert len(set(sizes_at(source, seed, EQUAL, rational=False).values())) == 1
        assert len(set(sizes_at(source, seed, 0, rational=False).values())) == len(source.sizes)


def test_what_shows_at_one_size_or_at_equal_ones_is_seen() -> None:
    n, m = i.size, j.size
    alone, equal = Indicator(sp.Eq(n, 1)) * X, Indicator(sp.Eq(n, m)) * Total(W[j], j) * X
    for seed in range(4):
        assert differ(alone, 0 * X, seed)
        assert differ(equal, 0 * X, seed)
    assert refute(alone, sp.S.Zero) is not None
    assert refute(equal, sp.S.Zero) is not None


def windowed(value: Callable[[sp.Symbol], sp.Expr], default: int = 128) -> Program:
    b = Builder("windowed", "Sums over a window.")
    given = b.input("V", j, c)
    b.input("X", i)
    width = b.parameter("window", default, "how far it sees", integer=True)
    b.define("Y", (i, c), Total(value(width) * given[j, c], j))
    return b.output("Y").build()


def spoiled(derivation: Derivation, change: Callable[[sp.Expr], sp.Expr]) -> Derivation:
    definitions = tuple(replace(d, value=change(d.value)) for d in derivation.derived.definitions)
    return replace(derivation, derived=replace(derivation.derived, definitions=definitions))


def test_a_window_of_128_cuts_at_sizes_below_8() -> None:
    """Its default never would: whole numbers are small at one point, and beyond all sizes at another."""
    derivation = backward(windowed(lambda width: Indicator(i - j < width)))
    ignored = spoiled(derivation, lambda value: value.replace(lambda e: isinstance(e, Indicator), lambda e: sp.S.One))
    for seed in range(3):
        bound = FailureBound()
        assert looked_at(lambda s, n, b: compacting_changed_nothing(derivation, s, b, number=n), seed, bound) == []
        assert bound.one_sided == []
        assert looked_at(lambda s, n, b: compacting_changed_nothing(ignored, s, b, number=n), seed, FailureBound())
        assert not all(forward_mode_agrees(ignored, seed, number=n) for n in range(3))


def test_a_comparison_that_says_the_same_everywhere_is_told() -> None:
    derivation = backward(windowed(lambda width: Indicator(i - j < 128)))
    bound = FailureBound()
    assert looked_at(lambda s, n, b: schedule_differs(dense(derivation), s, b, number=n), 0, bound) == []
    assert bound.one_sided
    assert all(condition.endswith("< 128") for condition in bound.one_sided)
    assert f"said the same at all points: {', '.join(bound.one_sided)}" in str(bound)
    hidden = equation("never", Total(Indicator(i - j < 128) * W[j], j) * X, Total(W[j], j) * X)
    verdict = settle(hidden, 0)
    assert verdict.word == "open"
    assert "said the same at all points" in verdict.reason


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Indicator(X > 0), sp.S.One),
        (Indicator(X > 1000), sp.S.Zero),
        (Indicator(X > -1000), sp.S.One),
        (sp.Max(X, 0), X),
        (sp.Max(X, -1000), X),
        (sp.Min(X, 1000), X),
    ],
)
def test_thresholds_and_bends_are_seen_from_both_sides(left: sp.Expr, right: sp.Expr) -> None:
    assert refute(left, right) is not None
    with pytest.raises(AlgebraError, match="no order"):
        fingerprint(left, right, (), True, 0)


@pytest.mark.parametrize("least", [0, 1000, -1000])
def test_programs_with_thresholds_are_compared_in_numbers_that_have_an_order(least: int) -> None:
    b = Builder("gated", "")
    given, gain = b.input("X", i, c), b.input("G", i)
    b.define("Y", (i, c), Indicator(given[i, c] > least) * given[i, c] * gain[i])
    derivation = backward(b.output("Y").build())
    assert compactness(derivation.forward) == "exact"
    bound = FailureBound()
    assert looked_at(lambda s, n, b: compacting_changed_nothing(derivation, s, b, number=n), 0, bound) == []
    assert bound.one_sided == []
    for answer in (sp.S.One, sp.S.Zero):
        wrong = spoiled(derivation, lambda v, a=answer: v.replace(lambda e: isinstance(e, Indicator), lambda e: a))
        assert looked_at(lambda s, n, b, w=wrong: compacting_changed_nothing(w, s, b, number=n), 0, FailureBound())


def test_integers_are_drawn_around_what_they_are_compared_with() -> None:
    b = Builder("far", "")
    tokens, given = b.input("tokens", i, values="integer"), b.input("X", i)
    b.define("Y", (i,), Indicator(tokens[i] > 50) * given[i])
    source, seen = b.output("Y").build(), {}
    weights = Weights(0)
    for seed in range(6):
        random_point(
            source, {"n": 4}, random.Random(seed), weights, lambda r: weights.number(r.randint(-9, 9)), seen=seen
        )
    assert list(seen.values()) == [{True, False}]


def test_a_real_parameter_called_like_a_size_is_not_taken_for_it() -> None:
    """What integers are compared with is known by its symbol: a real parameter m is no number of keys."""
    b = Builder("bounded", "")
    point, scale, key = b.input("P", i, values="integer"), b.parameter("m", default=2), b.input("K", j)
    inside = Indicator(sp.Le(0, point[i])) * Indicator(sp.Lt(point[i], j.size))
    b.define("Y", (i,), scale * inside * key[point[i]])
    derivation = backward(b.output("Y").build())
    assert looked_at(lambda s, n, b: compacting_changed_nothing(derivation, s, b, number=n), 0, FailureBound()) == []


@pytest.mark.parametrize("name", ["relative_bias_attention", "block_sparse_attention"])
def test_integer_parameters_that_a_program_does_not_bear_are_drawn_again(name: str) -> None:
    """A table has no entry beyond its reach, and a layout none for more blocks; then it is what is near the default."""
    derivation = backward(program(name))
    for seed in range(8):
        bound = FailureBound()
        assert looked_at(lambda s, n, b: compacting_changed_nothing(derivation, s, b, number=n), seed, bound) == []
        assert len(bound.each) >= 3
