"""Array schedules, evaluated over numbers of any kind: what is generated is what was derived, and mistakes show."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.algebra import Axis, Total
from derive.calculus import Derivation, backward, joined
from derive.errors import AlgebraError
from derive.forward import Builder
from derive.forward.softmax import softmax
from derive.lower import Kernel, dense
from derive.lower.arrays import Apply, Node, Product, Reduce, Select, View
from derive.modes import names, program
from derive.proof.arithmetic import Arithmetic, Decimals, Symbolic, Weights
from derive.proof.checks import (
    compacting_changed_nothing,
    compactness,
    schedule_differs,
)
from derive.proof.degrees import Degrees, FailureBound
from derive.proof.fingerprint import FiniteField, ShiftedField, both_sides
from derive.proof.interpreter import interpret
from derive.proof.points import entries, random_point, small_sizes
from derive.proof.schedule import run
from derive.proof.strided import Array, ScheduleError, broadcast, spread

ORDERED = ("adaptive_span_attention", "relu_attention", "squared_attention")
"""They take the maximum of real numbers, which a finite field does not have."""

i, j, v = Axis("i", "n"), Axis("j", "m"), Axis("v", "d_v")


@cache
def derivation(name: str) -> Derivation:
    return backward(program(name))


@cache
def scheduled(name: str) -> Kernel:
    return dense(derivation(name))


# Every program.


@pytest.mark.parametrize("name", [n for n in names() if n not in ORDERED])
def test_what_is_generated_is_what_was_derived(name: str) -> None:
    bound = FailureBound()
    assert schedule_differs(scheduled(name), 0, bound) == []
    assert bound.degree > 0
    assert bound.refused == ""


@pytest.mark.parametrize("name", ORDERED)
def test_where_a_maximum_of_real_numbers_is_taken_the_evidence_is_exact(name: str) -> None:
    """A finite field has no order: numbers are rational, nothing is missed for a degree, and a mistake is seen."""
    bound, kernel = FailureBound(), scheduled(name)
    assert compactness(derivation(name).forward) == "exact"
    assert schedule_differs(scheduled(name), 0, bound) == []
    assert bound.degree == 0
    assert compacting_changed_nothing(derivation(name), 0, bound) == []
    last = kernel.backward[-1]
    assert schedule_differs(
        replace(kernel, backward=(*kernel.backward[:-1], replace(last, node=kernel.backward[0].node)))
    )


@pytest.mark.parametrize("name", [*ORDERED, "attention", "rotary_embedding", "grouped_query"])
@pytest.mark.parametrize("seed", range(3))
def test_schedules_are_exact_in_rational_numbers(name: str, seed: int) -> None:
    """Exp is an unknown function, so a shift that is not 0 would be seen; what is optional is given or not."""
    made, chance = derivation(name), random.Random(seed)
    whole, sizes = joined(made.forward, made.derived), small_sizes(made.forward, seed)
    weights = Weights(seed)
    inputs, parameters = random_point(whole, sizes, chance, weights, _fraction)
    for given in (inputs, {n: x for n, x in inputs.items() if n not in scheduled(name).may_be_none}):
        exact: dict[str, Any] = {"sizes": sizes, "parameters": parameters, "arithmetic": weights}
        found = run(scheduled(name), given, given, shift=lambda: Fraction(0), **exact)
        right = interpret(whole, given, **exact)
        assert found == {n: right[n] for n in found}


def _fraction(chance: random.Random) -> Fraction:
    return Fraction(chance.randint(-9, 9), chance.randint(1, 4))


# Arrays.


@pytest.mark.parametrize(
    "name", ["attention", "causal_attention", "sink_attention", "layer_norm", "relative_bias_attention"]
)
@pytest.mark.parametrize("optional", [True, False])
def test_the_evaluator_gives_what_numpy_gives(name: str, optional: bool, rng: np.random.Generator) -> None:
    """The same kernel, once as printed code on arrays, once in thirty digits, its true maxima included."""
    made, sizes = derivation(name), small_sizes(derivation(name).forward, 1)
    kernel, decimals = numeric.load(name), Decimals(30)
    inputs = {x.name: _drawn(x, sizes, rng) for x in made.forward.inputs if optional or x.neutral is None}
    result = kernel.forward(**inputs)
    seeds = {n: rng.normal(size=a.shape) for n, a in result.outputs.items()}
    gradients = kernel.backward(result, seeds)
    exact: dict[str, Any] = {"sizes": sizes, "parameters": {}, "arithmetic": decimals}
    nested = {n: a.tolist() for n, a in inputs.items()}
    found = run(scheduled(name), nested, {f"d{n}": a.tolist() for n, a in seeds.items()}, **exact)
    for output, array in (*result.outputs.items(), *((f"d{n}", g) for n, g in gradients.items())):
        computed = np.array([float(x) for x in entries(found[output], array.ndim)]).reshape(array.shape)
        np.testing.assert_allclose(array, computed, rtol=1e-9, atol=1e-12)


def _drawn(given: Any, sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = [int(s) if s.is_Integer else sizes[str(s)] for s in given.tensor.shape]
    if given.tensor.boolean:
        return rng.random(shape) < 0.6
    return rng.integers(0, 4, shape) if given.tensor.discrete else rng.normal(size=shape)


@pytest.mark.parametrize("seed", range(20))
def test_arrays_broadcast_as_numpy_does(seed: int) -> None:
    chance = random.Random(seed)
    full = [chance.randint(1, 4) for _ in range(chance.randint(0, 4))]
    shapes = [[n if chance.random() < 0.7 else 1 for n in full][chance.randint(0, len(full)) :] for _ in range(2)]
    arrays = [np.arange(int(np.prod(s))).reshape(s) for s in shapes]
    shape = broadcast(*(a.shape for a in arrays))
    assert shape == np.broadcast_shapes(*(a.shape for a in arrays))
    for array in arrays:
        assert (
            spread(Array(array.shape, array.ravel().tolist()), shape) == np.broadcast_to(array, shape).ravel().tolist()
        )


def test_arrays_that_do_not_broadcast_are_an_error() -> None:
    with pytest.raises(ScheduleError, match="do not broadcast"):
        broadcast((2, 3), (3, 2))
    with pytest.raises(ScheduleError, match="does not broadcast"):
        spread(Array((2,), [1, 2]), (3,))


def test_the_evaluator_takes_exact_symbols() -> None:
    b = Builder("weighted", "Weighted.")
    S, V = b.input("S", i, j), b.input("V", j, v)
    A = b.define("A", (i, j), softmax(S[i, j], over=j))
    b.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    made = dense(backward(b.output("O").build()))
    found = run(
        made,
        {"S": [[0, 1]], "V": [[2], [3]]},
        {"dO": [[1]]},
        sizes={"n": 1, "m": 2, "d_v": 1},
        parameters={},
        arithmetic=Symbolic(),
    )
    e = sp.exp(-1)
    assert sp.simplify(found["O"][0][0] - (2 * e + 3) / (e + 1)) == 0
    assert sp.simplify(found["dV"][0][0] - e / (e + 1)) == 0


def test_a_hidden_nan_stays_hidden_where_products_select() -> None:
    """Where a product does not, it does not: 0 · NaN is NaN, in the evaluator as in arrays."""
    kernel, nan = scheduled("attention"), float("nan")
    given = {"Q": [[1, 0]], "K": [[1, 2], [0, 1]], "V": [[1], [nan]], "mask": [[1, 0]]}
    exact: dict[str, Any] = {"sizes": {"n": 1, "m": 2, "d": 2, "d_v": 1}, "parameters": {}, "arithmetic": Decimals(20)}
    assert run(kernel, given, {"dO": [[1]]}, **exact)["O"] == [[1]]
    spoilt = changed(kernel, "O", lambda node: replace(node, visible=None) if isinstance(node, Product) else node)
    (((entry,),),) = (run(spoilt, given, {"dO": [[1]]}, **exact)["O"],)
    assert entry != entry


# Mistakes in schedules.


def rebuilt(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The node with a rule applied to it and to everything that it is computed from, innermost first."""
    new = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            new[field.name] = rebuilt(value, rule)
        elif isinstance(value, tuple) and value and all(isinstance(x, Node) for x in value):
            new[field.name] = tuple(rebuilt(x, rule) for x in value)
    return rule(replace(node, **new))


def changed(kernel: Kernel, name: str, rule: Callable[[Node], Node], *, guarded: bool = False) -> Kernel:
    """The kernel with a rule applied in the statements of a name; it has to change something."""

    def change(statements: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            replace(s, node=rebuilt(s.node, rule)) if s.name == name and (s.guard is not None) == guarded else s
            for s in statements
        )

    made = replace(kernel, forward=change(kernel.forward), backward=change(kernel.backward))
    assert made != kernel
    return made


def swapped(node: Node) -> Node:
    return (
        replace(node, arguments=node.arguments[::-1]) if isinstance(node, Apply) and len(node.arguments) == 2 else node
    )


def renamed(before: str, after: str) -> Callable[[Node], Node]:
    return lambda node: replace(node, function=after) if isinstance(node, Apply) and node.function == before else node


def unselected(node: Node) -> Node:
    return node.operand if isinstance(node, Select) else node


def untransposed(node: Node) -> Node:
    return node.operand if isinstance(node, View) and set(node.axes) == set(node.operand.axes) else node


def turned(node: Node) -> Node:
    return replace(node, left=node.right, right=node.left) if isinstance(node, Product) else node


def without_shift(node: Node) -> Node:
    """L without S_max: what is left is the logarithm."""
    return node.arguments[1] if isinstance(node, Apply) and node.function == "add" else node


def averaged(node: Node) -> Node:
    return Apply(node.axes, "multiply", (node, node)) if isinstance(node, Reduce) else node


MUTANTS: dict[str, tuple[str, str, Callable[[Node], Node], bool, str]] = {
    "operands of a difference swapped": ("attention", "E", swapped, False, "O"),
    "operands of a product swapped": ("attention", "S", turned, False, "S"),
    "weights not selected": ("attention", "E", unselected, False, "O"),
    "a sign under a guard": ("attention", "S", renamed("add", "subtract"), True, "O"),
    "the sign of dL": ("attention", "r", renamed("subtract", "add"), True, "dQ"),
    "no transpose": ("attention", "S", untransposed, False, "S"),
    "no transpose in a gradient": ("attention", "dV", untransposed, False, "dV"),
    "multiplied for divided": ("attention", "A", renamed("divide", "multiply"), False, "O"),
    "a sum squared": ("attention", "r", averaged, False, "dQ"),
    "shifted by the opposite": ("attention", "E", renamed("subtract", "add"), False, "L"),
    "a logarithm without its shift": ("attention", "L", without_shift, False, "L"),
    "a root left out": ("layer_norm", "rstd_Y", lambda n: n.arguments[0] if _is(n, "sqrt") else n, False, "Y"),
    "a comparison turned": ("causal_attention", "M", renamed("less_equal", "greater_equal"), False, "O"),
}


def _is(node: Node, function: str) -> bool:
    return isinstance(node, Apply) and node.function == function


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mistake_in_a_schedule_is_seen(mutant: str) -> None:
    name, statement, rule, guarded, where = MUTANTS[mutant]
    found = schedule_differs(changed(scheduled(name), statement, rule, guarded=guarded))
    assert any(x == where or x.startswith(f"{where}: ") for x in found), found


def test_what_is_not_kept_or_not_guarded_is_an_error_of_the_schedule() -> None:
    kernel = scheduled("attention")
    (message,) = schedule_differs(replace(kernel, saved=tuple(n for n in kernel.saved if n != "V")))
    assert message == "dA: V is not there"
    bare = replace(kernel, backward=tuple(replace(s, guard=None) for s in kernel.backward))
    given = {"Q": [[1]], "K": [[1]], "V": [[1]]}
    exact: dict[str, Any] = {"sizes": {"n": 1, "m": 1, "d": 1, "d_v": 1}, "parameters": {}, "arithmetic": Decimals()}
    assert run(kernel, given, {"dO": [[1]]}, **exact)["dV"] == [[1]]
    with pytest.raises(ScheduleError, match="r: dL is used, and may be missing"):
        run(bare, given, {"dO": [[1]]}, **exact)


def test_only_what_stabilisation_made_is_a_shift() -> None:
    """A maximum that is none has no fingerprint, wherever it stands."""
    kernel = scheduled("attention")
    assert kernel.shifts == ("S_max",)
    assert set(scheduled("sink_attention").shifts) == {"S_max"}
    assert scheduled("relu_attention").shifts == ()
    with pytest.raises(AlgebraError, match="Max has no fingerprint"):
        schedule_differs(replace(kernel, shifts=()))


# Shifts in the field.


def test_logarithms_and_nested_exponentials_know_shifts() -> None:
    field, chance = ShiftedField(), random.Random(5)
    z = field.function(sp.exp, field.draw(chance)) + field.function(sp.exp, field.draw(chance))
    before = {f: field.function(f, z) for f in (sp.log, sp.exp)}
    t = field.shift(chance)
    peak, minus = field.function(sp.exp, t), field.number(-1)
    lower = z * field.power(peak, sp.Integer(-1))
    assert field.function(sp.log, lower) + t == before[sp.log]
    assert field.function(sp.exp, z + minus * t) * peak == before[sp.exp]
    assert field.function(sp.log, z * peak) != before[sp.log] + t, "only what a schedule needs is known"
    assert field.function(sp.log, z) == before[sp.log]
    assert field.function(sp.log, lower + field.number(1)) + t != before[sp.log]
    assert FiniteField(like=field).function(sp.log, lower) + t != before[sp.log], "a field without shifts knows nothing"


# Degrees.


def test_degrees_by_hand() -> None:
    plain = FiniteField()
    field = Degrees(plain)
    x, y, z, w = (field.number(plain.draw(random.Random(s))) for s in range(4))
    inverse = sp.Integer(-1)
    one = field.number(1)
    assert (x.degree, field.number(Fraction(1, 3)).degree, (x * y + z).degree) == (1, 0, 2)
    assert (x * field.power(y, inverse)).degree == 2
    same = x * field.power(y, inverse) + z * field.power(y, inverse)
    assert (same.numerator, same.divisors.degree) == (1, 1), "a common denominator stays one"
    other = x * field.power(y, inverse) + z * field.power(w, inverse)
    assert (other.numerator, other.divisors.degree) == (2, 2), "(xw + zy)/(yw)"
    nested = one + field.power(other, inverse)
    assert (nested.numerator, nested.divisors.degree) == (2, 2), "1 + yw/(xw + zy)"
    assert field.power(other, sp.Integer(3)).degree == 12
    assert field.function(sp.exp, x).degree == 1
    assert field.function(sp.exp, x * y + z).degree == 2, "equal arguments are missed with their degree"
    assert field.function(sp.exp, field.number(2)).degree == 1
    assert (field.number(0) + other).degree == other.degree


def test_the_degree_of_a_softmax_by_hand() -> None:
    """O = Σ e V / Σ e: degree 2 over degree 1, on both sides."""
    b = Builder("weighted", "Weighted.")
    S, V = b.input("S", i, j), b.input("V", j, v)
    A = b.define("A", (i, j), softmax(S[i, j], over=j))
    b.define("O", (i, v), Total(A[i, j] * V[j, v], j))
    source, bound, field = b.output("O").build(), FailureBound(), FiniteField()
    degrees, sizes = Degrees(field), small_sizes(source, 0)
    inputs, _ = random_point(source, sizes, random.Random(0), field, field.draw)
    bound.note(both_sides(source, source, inputs, {"sizes": sizes, "parameters": {}, "arithmetic": degrees}), degrees)
    assert bound.degree == 2 * (2 + 1)
    assert 2.0**-bound.bits > bound.degree / field.primes.order > 2.0 ** -(bound.bits + 1)
    assert bound.bits >= 91


def test_counting_degrees_changes_no_number() -> None:
    source = program("sink_attention")
    sizes = small_sizes(source, 2)
    field = FiniteField()
    inputs, parameters = random_point(source, sizes, random.Random(2), field, field.draw)
    found: list[dict[str, Any]] = []
    fields_: tuple[Arithmetic, ...] = (FiniteField(), Degrees(FiniteField()))
    for arithmetic in fields_:
        found.append(interpret(source, inputs, sizes=sizes, parameters=parameters, arithmetic=arithmetic))
    plain, counted = (entries(x["O"], 2) for x in found)
    assert plain == [x.residue for x in counted]
