"""The evaluator itself, on cases that are computed by hand: literal programs, literal values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.fuzz import trees as t
from tests.fuzz.evaluate import MP, Result, Singular, Tie, Undefined, evaluate
from tests.fuzz.trees import (
    ONE,
    ZERO,
    Axis,
    Cmp,
    Definition,
    Delta,
    Entry,
    Fn,
    Ind,
    Input,
    Num,
    Parameter,
    Pos,
    Pow,
    Program,
    Size,
    Sum,
    Tree,
    tree,
)

I, K, J = Axis("i", "n"), Axis("k", "n"), Axis("j", "m")
i, k, j, n, m = Pos(I), Pos(K), Pos(J), Size("n"), Size("m")


def X(*at: Tree | int) -> Tree:
    return Entry("X", tuple(map(tree, at)))


def Y(*at: Tree | int) -> Tree:
    return Entry("Y", tuple(map(tree, at)))


def T(*at: Tree | int) -> Tree:
    return Entry("T", tuple(map(tree, at)))


def run(
    value: Tree,
    axes: tuple[Axis, ...],
    inputs: dict[Input, Any],
    cotangent: Any,
    sizes: dict[str, int],
    *before: Definition,
    parameters: tuple[Parameter, ...] = (),
) -> Result:
    """The output O[axes] := value."""
    definitions = (*before, Definition("O", axes, value))
    program = Program("case", "", tuple(inputs), parameters, definitions, ("O",), sizes)
    data = {given.name: _entries(array) for given, array in inputs.items()}
    return evaluate(program, data, {"O": _entries(cotangent)})


def _entries(array: Any, at: tuple[int, ...] = ()) -> dict[tuple[int, ...], Any]:
    if not isinstance(array, list):
        return {at: array}
    return {key: v for position, row in enumerate(array) for key, v in _entries(row, (*at, position)).items()}


def nested(entries: dict[tuple[int, ...], Any]) -> Any:
    """Entries as lists of floats, to compare with literals."""
    if () in entries:
        return float(entries[()])
    heads = sorted({at[0] for at in entries})
    return [nested({at[1:]: v for at, v in entries.items() if at[0] == h}) for h in heads]


def check(result: Result, values: Any, gradient: Any, name: str = "X") -> None:
    for found, wanted in ((result.values["O"], values), (result.gradients[name], gradient)):
        assert {at: float(v) for at, v in found.items()} == pytest.approx(_entries(wanted), rel=1e-14)


XI, YJ, XIJ = Input("X", (I,)), Input("Y", (J,)), Input("X", (I, J))
TI = Input("T", (I,), "integer")


def test_a_product_of_matrix_and_vector() -> None:
    """O[i] = Σ_j X[i,j] Y[j] at X = [[1, 2], [3, 4]], Y = [5, 6], with cotangent [1, 10]."""
    result = run(Sum((J,), X(i, j) * Y(j)), (I,), {XIJ: [[1, 2], [3, 4]], YJ: [5, 6]}, [1, 10], {"n": 2, "m": 2})
    assert nested(result.values["O"]) == [17, 39]
    assert nested(result.gradients["X"]) == [[5, 6], [50, 60]]
    assert nested(result.gradients["Y"]) == [31, 42]  # 1·1 + 3·10, 2·1 + 4·10
    assert not result.partial


@pytest.mark.parametrize(
    ("value", "at", "expected", "slope"),
    [
        (Fn("exp", (X(),)), 0.5, 1.6487212707001282, 1.6487212707001282),
        (Fn("log", (X(),)), 4.0, 1.3862943611198906, 0.25),
        (Fn("sqrt", (X(),)), 4.0, 2.0, 0.25),
        (Fn("tanh", (X(),)), 0.5, 0.46211715726000973, 0.7864477329659274),
        (Fn("sin", (X(),)), 0.5, 0.479425538604203, 0.8775825618903728),
        (Fn("cos", (X(),)), 0.5, 0.8775825618903728, -0.479425538604203),
        (Fn("abs", (X(),)), -3.0, 3.0, -1.0),
        (Fn("abs", (X() - X(),)), 3.0, 0.0, 0.0),
        (Fn("max", (X(), ZERO)), 3.0, 3.0, 1.0),
        (Fn("max", (X(), ZERO)), -3.0, 0.0, 0.0),
        (Fn("min", (X(), ONE, tree(2))), -3.0, -3.0, 1.0),
        (Fn("min", (X(), ONE, tree(2))), 3.0, 1.0, 0.0),
        (Fn("max", (X(), X())), 3.0, 3.0, 1.0),
        (Pow(X(), 3), 2.0, 8.0, 12.0),
        (Pow(X(), -2), 2.0, 0.25, -0.25),
        (ONE / (ONE + X() * X()), 2.0, 0.2, -0.16),
        (X() * Num(Fraction(1, 4)) - tree(1), 2.0, -0.5, 0.25),
    ],
)
def test_functions_and_their_slopes(value: Tree, at: float, expected: float, slope: float) -> None:
    check(run(value, (), {Input("X", ()): at}, 1.0, {}), expected, slope)


def test_a_softmax() -> None:
    """Two scores 0 and log 3: weights 1/4 and 3/4; dS = A (dA − Σ A dA) with dA = [1, 0]."""
    weight = Fn("exp", (X(j),)) / Sum((K2,), Fn("exp", (X(Pos(K2)),)))
    result = run(weight, (J,), {Input("X", (J,)): [0, MP.log(3)]}, [1, 0], {"m": 2})
    check(result, [0.25, 0.75], [0.1875, -0.1875])


K2 = Axis("k", "m")


def test_a_hidden_factor_is_not_evaluated() -> None:
    """[i + 1 < n] X[i+1] is 0 at the end; the product is flat, so it hides factors of products in it, too."""
    inside = Ind(Cmp("<", i + 1, n))
    check(run(inside * X(i + 1), (I,), {XI: [1, 2, 3]}, [1, 10, 100], {"n": 3}), [2, 3, 0], [0, 1, 10])
    deep = (inside * tree(2)) * (X(i + 1) / X(i + 1))
    check(run(deep, (I,), {XI: [1, 2, 3]}, [1, 1, 1], {"n": 3}), [2, 2, 0], [0, 0, 0])


def test_a_boolean_entry_hides_as_well_and_gates_may_guard_each_other() -> None:
    mask = Input("M", (I,), "boolean")
    shown = Entry("M", (i + 1,)) * Ind(Cmp("<", i + 1, n)) * X(i)
    result = run(shown, (I,), {XI: [1, 2, 3], mask: [True, False, True]}, [1, 1, 1], {"n": 3})
    check(result, [0, 2, 0], [0, 1, 0])


@pytest.mark.parametrize("value", [X(i + 1), X(i - 1), Ind(Cmp("<", i, n)) * X(i + 1), X(T(i))])
def test_what_nothing_hides_is_undefined(value: Tree) -> None:
    with pytest.raises(Undefined):
        run(value, (I,), {XI: [1, 2], TI: [0, 2]}, [1, 1], {"n": 2})


def test_a_fraction_is_no_position() -> None:
    with pytest.raises(Undefined):
        run(X(i / 2), (I,), {XI: [1, 2]}, [1, 1], {"n": 2})


def test_a_delta_in_a_sum_is_zero_outside_of_the_range() -> None:
    """Σ_k δ(k, i + 1) X[k] is X[i+1] where there is one."""
    value = Sum((K,), Delta(k, i + 1) * X(k))
    check(run(value, (I,), {XI: [1, 2, 3]}, [1, 10, 100], {"n": 3}), [2, 3, 0], [0, 1, 10])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (n - 1 - i, [30, 20, 10]),
        (Fn("mod", (i + 1, n)), [20, 30, 10]),
        (Fn("mod", (i - 1, n)), [30, 10, 20]),
        (Fn("floor", (i / 2,)), [10, 10, 20]),
        (Fn("max", (i - 1, ZERO)), [10, 10, 20]),
        (Fn("min", (i + 2, n - 1)), [30, 30, 30]),
        (T(i), [30, 10, 10]),
        (T(T(i)), [10, 30, 30]),
        (T(T(T(i))), [30, 10, 10]),
        (Sum((K,), Ind(Cmp("<", k, i))), [10, 20, 30]),
        (Fn("abs", (i - 2,)), [30, 20, 10]),
    ],
)
def test_computed_indices(index: Tree, expected: list[int]) -> None:
    result = run(X(index), (I,), {XI: [10, 20, 30], TI: [2, 0, 0]}, [1, 1, 1], {"n": 3})
    check(result, expected, [expected.count(10), expected.count(20), expected.count(30)])


def test_diagonals_and_transposes() -> None:
    square = Input("X", (I, K))
    data = {square: [[1, 2], [3, 4]]}
    check(run(X(i, i), (I,), data, [1, 10], {"n": 2}), [1, 4], [[1, 0], [0, 10]])
    check(run(X(k, i), (I, K), data, [[1, 2], [3, 4]], {"n": 2}), [[1, 3], [2, 4]], [[1, 3], [2, 4]])


def test_axes_that_stand_in_the_output_or_the_sum_alone() -> None:
    check(
        run(X(i), (I, J), {XI: [1, 2]}, [[1, 10, 100], [2, 20, 200]], {"n": 2, "m": 3}), [[1] * 3, [2] * 3], [111, 222]
    )
    check(run(Sum((J,), X(i)), (I,), {XI: [1, 2]}, [1, 10], {"n": 2, "m": 3}), [3, 6], [3, 30])
    check(run(Sum((J,), ONE) * X(i), (I,), {XI: [1, 2]}, [1, 10], {"n": 2, "m": 3}), [3, 6], [3, 30])


def test_an_inner_sum_may_use_an_outer_name_again() -> None:
    """O[i] = X[i] · Σ_i X[i]; the gradient is g[i] Σ X + Σ g X."""
    check(run(X(i) * Sum((I,), X(i)), (I,), {XI: [1, 2]}, [1, 10], {"n": 2}), [3, 6], [24, 51])


def test_counts_positions_and_conditions() -> None:
    below = Sum((K,), Ind(t.And((Cmp("<=", k, i), t.Not(Cmp("==", k, tree(1)))))))
    check(run(below * X(i), (I,), {XI: [1, 1, 1]}, [1, 1, 1], {"n": 3}), [1, 1, 2], [1, 1, 2])
    either = Ind(t.Or((Cmp("!=", i, n - 1), Cmp("<", X(i), ONE))))
    check(run(either * X(i) * i, (I,), {XI: [1, 2, 3]}, [1, 1, 1], {"n": 3}), [0, 2, 0], [0, 1, 0])


def test_earlier_definitions_and_parameters() -> None:
    """Y[i] := p X[i]; O := Σ_i Y[i]² is p² Σ X²."""
    before = Definition("Y", (I,), t.Param("p") * X(i))
    scale = Parameter("p", Fraction(1, 2))
    check(run(Sum((I,), Pow(Y(i), 2)), (), {XI: [2, 4]}, 3, {"n": 2}, before, parameters=(scale,)), 5, [3, 6])


def test_an_entry_that_no_output_needs_makes_a_case_partial() -> None:
    before = Definition("Y", (I,), X(i + 1))
    result = run(Ind(Cmp("<", i, n - 1)) * Y(i), (I,), {XI: [1, 2]}, [1, 1], {"n": 2}, before)
    assert result.partial
    check(result, [2, 0], [0, 1])


def test_constants_and_integers_have_no_gradient() -> None:
    constant = Input("Y", (J,), constant=True)
    result = run(X(0) * Y(0) * T(0), (), {XI: [2], constant: [3], TI: [0]}, 1, {"n": 1, "m": 1})
    assert result.gradients.keys() == {"X"}


def test_what_cannot_be_judged_by() -> None:
    for value in (Fn("log", (X() - X(),)), ONE / (X() - X()), Fn("exp", (X() * 1000,)), Fn("sqrt", (X() * -1,))):
        with pytest.raises(Singular):
            run(value, (), {Input("X", ()): 1.5}, 1, {})
    with pytest.raises(Tie):
        run(Ind(Cmp("<", X() * 3, X() + X() + X())), (), {Input("X", ()): 1.5}, 1, {})


def test_gradients_agree_with_differences() -> None:
    """A deeper expression: central differences in 40 digits agree in 12."""
    inner = Fn("tanh", (Sum((J,), X(i, j) * Y(j)) / (ONE + Pow(Y(0), 2)),))
    value = Sum((I,), Fn("exp", (inner,)) * Fn("sin", (X(n - 1 - i, 0),)))
    point = [MP.mpf("0.3"), MP.mpf("-0.7")]

    def at(y: list[Any]) -> Result:
        return run(value, (), {XIJ: [[1.5, -0.5], [0.25, 2]], YJ: y}, 1, {"n": 2, "m": 2})

    step = MP.mpf("1e-12")
    for place in range(2):
        up, down = list(point), list(point)
        up[place] += step
        down[place] -= step
        difference = (at(up).values["O"][()] - at(down).values["O"][()]) / (2 * step)
        assert abs(difference - at(point).gradients["Y"][place,]) < 1e-20


# Trees.


def test_substitution_captures_nothing() -> None:
    """Σ_k X[i] Y[k] at i = k is Σ_k0 X[k] Y[k0]."""
    body = Sum((K,), X(i) * Y(k))
    moved = t.substituted(body, {I: k})
    other = Axis("k0", "n")
    assert moved == Sum((other,), X(k) * Y(Pos(other)))
    assert t.substituted(Sum((I,), X(i)), {I: k}) == Sum((I,), X(i))
    assert t.free_axes(body) == {I}


def test_a_tree_is_shown_in_index_notation() -> None:
    shown = Sum((J,), Ind(Cmp("<=", j, i)) * X(n - 1 - i, j)) / (ONE + Pow(Y(j), 2))
    assert t.show(shown) == "(Σ_{j<m} ([j <= i]·X[n − 1 − i, j]))/(1 + Y[j]^2)"
