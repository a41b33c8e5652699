"""Definitions that a compact derivation once got wrong without a word, or that ended in a traceback.

Each is right now, or an error says why not. What is right comes from the oracle, which knows the definitions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

from derive.algebra import Axis, Delta, Indicator, Total
from derive.algebra.functions import Sigmoid
from derive.calculus import backward
from derive.errors import DeriveError, ProofError
from derive.forward.builder import Builder
from derive.forward.program import Program
from derive.modes import in_mode
from derive.pipeline import made
from derive.proof import vetting
from numeric.errors import InputError
from numeric.kernels import load, provide
from numeric.oracle import ORACLE
from numeric.oracle.calls import signature_of
from numeric.oracle.floats import Floats
from numeric.samples import Sample

n, m, d = sp.symbols("n m d", integer=True, nonnegative=True)
i, j, c = Axis("i", "n"), Axis("j", "m"), Axis("c", "d")
k = Axis("k", "n")

HALF = sp.Rational(1, 2)

SIZES = {"n": 4, "m": 3, "d": 2}


def agrees(program: Program, mode: str = "backward") -> None:
    """Values and gradients of the generated code are those of the definitions, with and without leading axes."""
    whole = made(program, mode)
    assert all("in the order of generated code" in left_open for left_open in whole.vet())  # the rest is asked
    whole_program = in_mode(program, mode)
    provide(whole.name, "numpy", whole.text("numpy"))
    kernel = load(whole.name)
    for seed, leading in enumerate([(), (2,), ()]):
        sizes = {str(s): SIZES.get(str(s), 3 + k) for k, s in enumerate(whole_program.sizes)}
        sample = Sample(whole.name, sizes, leading, "float64", seed, parameters=PARAMETERS[seed](whole_program))
        inputs = sample.inputs(signature_of(whole_program))
        result = kernel.forward(**inputs, **sample.parameters)
        cotangents = sample.output_cotangents(result)
        gradients = kernel.backward(result, cotangents) if kernel.signature.gradients else {}
        asked = ORACLE.asked(whole_program, inputs, cotangents, sample.parameters)
        wanted = ORACLE.values(asked, Floats(np.longdouble))
        for found, right in ((result.outputs, wanted.outputs), (gradients, wanted.gradients)):
            for name, array in found.items():
                np.testing.assert_allclose(array, np.asarray(right[name], float), rtol=1e-10, atol=1e-10, err_msg=name)


PARAMETERS: tuple[Callable[[Program], dict[str, Any]], ...] = (
    lambda program: {},
    lambda program: {p.name: 2 if p.symbol.is_integer else 1.7 for p in program.parameters},
    lambda program: {p.name: -1 if p.symbol.is_integer else 0.3 for p in program.parameters},
)


def built(write: Callable[[Builder], Any], name: str = "own") -> Program:
    """A program of one output ``Y``."""
    p = Builder(name, "A program of one's own.")
    write(p)
    return p.output("Y").build()


Y = "Y"
RIGHT: dict[str, Callable[[Builder], Any]] = {}


def right(write: Callable[[Builder], Any]) -> Callable[[Builder], Any]:
    """A program that is derived, run and held against the oracle."""
    RIGHT[write.__name__] = write
    return write


@right
def a_delta_picks_nothing_beyond_its_range(p: Builder) -> None:
    X, W = p.input("X", i), p.input("W", i)
    p.define(Y, (i,), W[i] * Total(Delta(k, i + 1) * X[k], k))


@right
def a_delta_of_an_integer_tensor_that_may_be_negative(p: Builder) -> None:
    T = p.input("T", i, values="integer", below=j, negative=True)
    X = p.input("X", j)
    p.define(Y, (i,), Total(Delta(j, T[i]) * X[j], j))


@right
def a_count_is_counted_once(p: Builder) -> None:
    X, K = p.input("X", i, c), p.input("K", j, c)
    p.define(Y, (i, c), X[i, c] * Total(Indicator(sp.Le(j, i)), j) + Total(K[j, c], j))


@right
def a_scale_is_not_moved_into_both_tensors_of_a_square(p: Builder) -> None:
    X, K, s = p.input("X", i, c), p.input("K", j, c), p.parameter("scale", sp.Rational(1, 2))
    S = p.define("S", (i, k), s * Total(X[i, c] * X[k, c], c))
    T = p.define("T", (i, j), s * Total(X[i, c] * K[j, c], c))
    p.define(Y, (i,), Total(S[i, k], k) + Total(T[i, j], j))


@right
def a_scale_is_not_moved_into_a_divisor(p: Builder) -> None:
    Q, K, s = p.input("Q", i, c), p.input("K", j, c), p.parameter("scale", sp.Rational(1, 2))
    p.define(Y, (i, j), s * Total(Q[i, c] * K[j, c] / (1 + Q[i, c] ** 2), c))


@right
def a_kernel_of_squared_distances(p: Builder) -> None:
    X, Z, V = p.input("X", i), p.input("Z", j), p.input("V", j)
    p.define(Y, (i,), Total(sp.exp(-((X[i] - Z[j]) ** 2) / 2) * V[j], j))


@right
def a_shift_beside_a_weight(p: Builder) -> None:
    X, W, s = p.input("X", i), p.input("W", i), p.parameter("shift", 2)
    p.define(Y, (i,), X[i] * s / W[i] + sp.exp(X[i] - s))


@right
def an_input_called_like_a_temporary(p: Builder) -> None:
    X, T = p.input("X", i, c), p.input("dY_total", i)
    p.define(Y, (i, c), X[i, c] * T[i] - Total(X[i, c] * T[i], c) / d)


@right
def a_parameter_called_like_a_size(p: Builder) -> None:
    X, length = p.input("X", i, c), p.parameter("m", 3)
    p.define(Y, (i,), Total(length * X[i, c], c) / n)


@right
def a_tensor_beside_what_its_gradient_would_be_called(p: Builder) -> None:
    X, dX, d2X = p.input("X", i), p.input("dX", i), p.input("d2X", i)
    p.define(Y, (i,), X[i] * dX[i] * d2X[i])


@right
def a_definition_called_like_a_size(p: Builder) -> None:
    r, X = Axis("r", "R"), p.input("X", i, Axis("r", "R"))
    R = p.define("R", (i, r), X[i, r] ** 3)
    mean = p.define("mean", (i,), Total(X[i, r] / r.size, r))
    p.define(Y, (i, r), R[i, r] ** 2 * mean[i])


@right
def neighbours_at_a_border(p: Builder) -> None:
    X = p.input("X", i)
    p.define(Y, (i,), X[i] * X[sp.Max(i - 1, 0)])


@right
def a_mirror(p: Builder) -> None:
    X, W = p.input("X", i), p.input("W", i)
    p.define(Y, (i,), X[i] * X[n - 1 - i] * W[i])


@right
def a_token_shift(p: Builder) -> None:
    X, W = p.input("X", i, c), p.input("W", c)
    before = Indicator(sp.Ge(i, 1)) * X[i - 1, c]
    p.define(Y, (i, c), W[c] * X[i, c] + (1 - W[c]) * before)


@right
def a_power_that_is_a_tensor(p: Builder) -> None:
    X, W = p.input("X", i), p.input("W", i)
    p.define(Y, (i,), (X[i] ** 2 + 1) ** W[i])


@right
def a_high_power_of_a_sum(p: Builder) -> None:
    X = p.input("X", i, c)
    p.define(Y, (i,), Total(X[i, c], c) ** 9)


@right
def a_gate_over_itself(p: Builder) -> None:
    M, X = p.input("M", i, values="boolean"), p.input("X", i, c)
    p.define(Y, (i, c), M[i] * sp.exp(X[i, c]) / Total(M[i] * sp.exp(X[i, c]), c))


@right
def a_sum_inside_a_condition(p: Builder) -> None:
    X, Z = p.input("X", i, c), p.input("Z", i)
    p.define(Y, (i,), Z[i] * Indicator(Total(X[i, c], c) > 0))


@right
def a_constant_for_every_entry(p: Builder) -> None:
    X = p.input("X", i)
    one = p.define("one", (i,), sp.S.One)
    p.define(Y, (i,), one[i] + 0 * X[i])


@right
def an_output_that_no_input_changes(p: Builder) -> None:
    p.input("X", i)
    p.define(Y, (i,), i + 1)


@right
def nothing_but_integers_given(p: Builder) -> None:
    p.input("T", i, values="integer", below=i)
    p.define(Y, (), sp.S.One)


@right
def an_integer_parameter_in_a_condition(p: Builder) -> None:
    X, window = p.input("X", i), p.parameter("window", 128, integer=True)
    p.define(Y, (i,), Total(X[k] * Indicator(sp.Le(i - k, window)), k))


@right
def a_look_up_beside_the_condition_that_hides_it(p: Builder) -> None:
    T = p.input("T", i, values="integer", below=j, negative=True)
    X, Z = p.input("X", i, j), p.input("Z", i)
    p.define(Y, (i,), Indicator(sp.Ge(T[i], 0)) * (Total(X[i, j] * Z[i], j) - X[i, T[i]]) ** 2)


@right
def an_input_called_self(p: Builder) -> None:
    X = p.input("self", i)
    p.define(Y, (i,), X[i] ** 2)


@right
def an_irrational_constant(p: Builder) -> None:
    X = p.input("X", i)
    p.define(Y, (i,), X[i] * sp.sin(1) + sp.pi * sp.exp(2) - sp.log(3) * X[i] ** 2)


@right
def functions_of_integers(p: Builder) -> None:
    """Integers are real numbers to a function, wherever its result is kept."""
    T, X = p.input("T", i, values="integer"), p.input("X", i)
    functions = (
        sp.exp,
        sp.tanh,
        sp.sin,
        sp.erf,
        Sigmoid,
        sp.Abs,
        lambda t: sp.log(1 + t**2),
        lambda t: sp.sqrt(1 + t**2),
    )
    p.define(Y, (i,), sp.Add(*(X[i] ** k * f(T[i] / 2) * f(T[i]) for k, f in enumerate(functions, 1))))


@right
def a_fraction_beside_an_integer(p: Builder) -> None:
    T, X = p.input("T", i, values="integer"), p.input("X", i)
    p.define(Y, (i,), X[i] * sp.Max(T[i], HALF) + sp.Min(T[i], HALF) + sp.Mod(T[i], 3) * X[i] ** 2)


@right
def a_total_of_integers_beside_one_of_real_numbers(p: Builder) -> None:
    """What NumPy gives for the sum over all axes is a number, and no array."""
    T, X = p.input("T", i, c, values="integer"), p.input("X", i, c)
    p.define(Y, (), sp.Max(Total(X[i, c] ** 2, i, c), Total(T[i, c], i, c)) + sp.Min(HALF, Total(T[i, c], i, c)))


@right
def a_softmax_of_integers(p: Builder) -> None:
    T, V = p.input("T", i, j, values="integer"), p.input("V", j, c)
    E = sp.exp(T[i, j])
    A = p.define("A", (i, j), Indicator(sp.Le(j, i)) * E / Total(Indicator(sp.Le(j, i)) * E, j))
    p.define(Y, (i, c), Total(A[i, j] * V[j, c], j))


@right
def a_softmax_of_positions(p: Builder) -> None:
    Q, V, s = p.input("Q", i), p.input("V", j, c), p.parameter("slope", 1)
    E = sp.exp(-s * sp.Abs(i - j))
    A = p.define("A", (i, j), E / Total(E, j))
    p.define(Y, (i, c), Q[i] * Total(A[i, j] * V[j, c], j))


@right
def rows_that_see_nothing(p: Builder) -> None:
    """Their weights are 0, and so are the gradients of what they were made from: not 0/0."""
    S, V = p.input("S", i), p.input("V", k)
    seen = Indicator(i < k)
    p.define(Y, (i, k), seen * sp.exp(S[i]) * V[k] ** 2 / Total(seen * sp.exp(S[i]) * V[k] ** 2, k))


@right
def rows_that_see_nothing_with_a_divisor_of_its_own(p: Builder) -> None:
    """Linear attention of what came before: the first row has no divisor."""
    Q, K, V = p.input("Q", i, c), p.input("K", k, c), p.input("V", k)
    W = p.define("W", (i, k), Indicator(k < i) * Total((1 + Q[i, c] ** 2) * (1 + K[k, c] ** 2), c))
    Z = p.define("Z", (i,), Total(W[i, k], k))
    A = p.define("A", (i, k), Indicator(k < i) * W[i, k] / Z[i])
    p.define(Y, (i,), Total(A[i, k] * V[k], k))


@right
def rows_that_see_nothing_by_an_input(p: Builder) -> None:
    M, Q, K = p.input("M", i, k, values="boolean"), p.input("Q", i), p.input("K", k)
    Z = p.define("Z", (i,), Total(M[i, k] * sp.exp(Q[i]) * K[k] ** 2, k))
    p.define(Y, (i, k), M[i, k] * sp.exp(Q[i]) * K[k] ** 2 / Z[i])


@right
def a_definition_that_is_the_same_for_all_places(p: Builder) -> None:
    """Σ_k δ(k, j) is 1: the value of F says nothing of the place, so it does not say F at which."""
    X, H = p.input("X", i), p.input("H", j)
    F = p.define("F", (j,), Total(Delta(Axis("k", "m"), j) * Total(X[i], i), Axis("k", "m")))
    p.define(Y, (i,), Total(X[k] * H[0], k) + Total(F[j], j))


@right
def a_condition_on_a_size(p: Builder) -> None:
    X = p.input("X", i, c)
    S = p.define("S", (i,), Indicator(sp.Le(i, n - 1 - i)) * Total(X[i, c], c))
    p.define(Y, (i,), S[n - 1] * Total(S[k], k) + Total(Indicator(sp.Le(k, 0)), k) * X[i, 0])


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_derived_is_what_the_definitions_say(name: str) -> None:
    agrees(built(RIGHT[name]))


@pytest.mark.parametrize("mode", ["tangent", "double-backward"])
@pytest.mark.parametrize("name", [name for name in RIGHT if name not in ("an_output_that_no_input_changes",)])
def test_so_are_its_modes(name: str, mode: str) -> None:
    program = built(RIGHT[name], "moded")
    if not any(given.differentiable for given in program.inputs):
        pytest.skip("it has no gradients")
    agrees(program, mode)


def test_what_the_gradients_of_a_mode_are_called_meets_no_other_name() -> None:
    p = Builder("own", "Names of a mode.")
    X, G = p.input("X", i), p.input("grad_X", i)
    p.define(Y, (i,), X[i] ** 2 * G[i])
    program = p.output(Y).build()
    double = in_mode(program, "double-backward")
    assert len(set(double.tensors)) == len(double.tensors)
    agrees(program, "double-backward")


# Kinks: what is fixed wins a tie, tensors share theirs.

TIES: dict[str, Callable[..., Any]] = {
    "of two tensors": lambda X, Z, s: sp.Max(X[i], Z[i]),
    "with a number": lambda X, Z, s: sp.Max(X[i], 0) + Z[i],
    "with a parameter": lambda X, Z, s: sp.Min(X[i], s) * Z[i],
    "of a difference with a number": lambda X, Z, s: sp.Max(X[i] - Z[i], 0),
    "of two tensors and a number": lambda X, Z, s: sp.Max(X[i], Z[i], 0),
    "of two tensors and a parameter": lambda X, Z, s: sp.Min(X[i], Z[i], s),
    "with a position": lambda X, Z, s: sp.Max(X[i], i) * Z[i],
    "with a 0/1 number": lambda X, Z, s: sp.Max(X[i], Indicator(Z[i] > 0)),
    "of three": lambda X, Z, s: sp.Max(X[i], Z[i], X[i] * Z[i]),
    "of a sum": lambda X, Z, s: sp.Max(Total(X[i], i), Z[i]),
    "inside of another": lambda X, Z, s: sp.Max(sp.Min(X[i], Z[i]) + 1, Z[i]),
    "of an absolute value": lambda X, Z, s: sp.Abs(X[i] - Z[i]) * Z[i],
}


@pytest.mark.parametrize("name", TIES)
def test_at_a_tie_the_slope_is_what_the_rule_says(name: str) -> None:
    """Whole numbers tie often; dual numbers, which vet the program, share the rule."""
    p = Builder("ties", "Kinks.")
    X, Z, s = p.input("X", i), p.input("Z", i), p.parameter("s", 1)
    program = p.define(Y, (i,), TIES[name](X, Z, s)) and p.output(Y).build()
    whole = made(program)
    for _ in range(4):
        whole.vet()
    provide("ties", "numpy", whole.text("numpy"))
    values = [-1.0, 0.0, 1.0, 2.0]
    inputs = {"X": np.repeat(values, 4), "Z": np.tile(values, 4)}
    result = load("ties").forward(**inputs)
    cotangents = {Y: np.arange(1.0, 17.0)}
    found = load("ties").backward(result, cotangents)
    wanted = ORACLE.values(ORACLE.asked(program, inputs, cotangents, {}), Floats(np.longdouble)).gradients
    for tensor in ("X", "Z"):
        np.testing.assert_array_equal(found[tensor], np.asarray(wanted[tensor], float), err_msg=tensor)


# What cannot be done is an error that says so.

REFUSED: dict[str, tuple[Callable[[Builder], Any], str]] = {}


def refused(message: str) -> Callable[[Callable[[Builder], Any]], Callable[[Builder], Any]]:
    """A program that cannot be derived, with what the error says."""

    def note(write: Callable[[Builder], Any]) -> Callable[[Builder], Any]:
        REFUSED[write.__name__] = write, message
        return write

    return note


@refused("the size m cannot be read off an input")
def an_axis_that_no_input_has(p: Builder) -> None:
    X = p.input("X", i)
    p.define(Y, (i, j), X[i] * j)


@refused("give an input's axis a size of its own")
def a_size_that_is_a_sum_of_others(p: Builder) -> None:
    a = Axis("a", n + d - 1)
    X = p.input("X", a)
    p.define(Y, (), Total(X[a], a))


@refused("multiply by Indicator")
def an_entry_before_the_first(p: Builder) -> None:
    X = p.input("X", i)
    p.define(Y, (i,), X[i - 1])


@refused("integer")
def a_delta_of_a_real_tensor(p: Builder) -> None:
    X = p.input("X", i)
    p.define(Y, (i,), Total(Delta(j, X[i]), j))


@refused("below the size m, which no input has")
def positions_in_a_tensor_that_is_not_there(p: Builder) -> None:
    T, X = p.input("T", i, values="integer", below=j), p.input("X", i)
    p.define(Y, (i,), T[i] * X[i])


@refused("Python reads it as 'fi'")
def a_size_that_python_spells_in_another_way(p: Builder) -> None:
    a = Axis("a", "\N{LATIN SMALL LIGATURE FI}")
    X = p.input("X", a)
    p.define(Y, (), Total(X[a], a))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_an_error_that_says_what_to_do(name: str) -> None:
    write, message = REFUSED[name]
    with pytest.raises(DeriveError, match=message):
        made(built(write))


def test_integers_do_not_wrap_around_where_they_are_multiplied() -> None:
    """A position of three million to the third power is no 64-bit integer; compared and looked up it stays one."""
    p = Builder("own", "Large integers as numbers.")
    T, X, L = p.input("T", i, values="integer"), p.input("X", i), p.input("L", k, c)
    far = Indicator(T[i] * 2 > 3) * L[sp.Mod(T[i], n), 0]
    p.define(Y, (i,), X[i] * T[i] ** 3 + Total(T[k], k) ** 4 + far * (n + i) ** 3)
    whole = made(p.output(Y).build())
    whole.vet()
    provide("own", "numpy", whole.text("numpy"))
    large, x, table = np.array([3_000_000, 2**62, 1]), np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(3, 2)
    found = load("own").forward(T=large, X=x, L=table).outputs["Y"]
    whole_numbers = [int(t) for t in large]
    wanted = [
        int(x[at]) * t**3 + sum(whole_numbers) ** 4 + (2 * t > 3) * int(table[t % 3, 0]) * (3 + at) ** 3
        for at, t in enumerate(whole_numbers)
    ]
    np.testing.assert_allclose(found, [float(w) for w in wanted], rtol=1e-14)


def test_what_a_definition_hides_by_itself_excuses_no_index() -> None:
    """F has no entry n; that F is 0 where i < 2 says nothing of it."""
    p = Builder("own", "A definition read one place beyond its last.")
    X = p.input("X", i)
    F = p.define("F", (i,), Indicator(i > 1) * X[i])
    p.define(Y, (i,), F[i + 1] * Indicator(i > 0) * X[i - 1])
    whole = made(p.output(Y).build())
    provide("own", "numpy", whole.text("numpy"))
    with pytest.raises(InputError, match=r"F\[i \+ 1\] is looked up at 4, outside of 0 … 3"):
        load("own").forward(X=np.ones(4))


def test_texts_cannot_leave_their_place_in_generated_code() -> None:
    text = 'it ends \\N{SNOWMAN} \\ with """ and \' and {x} and %s\\'
    p = Builder("texts", text)
    X, s = p.input("X", i, meaning=text), p.parameter("s", 2, text)
    p.define(Y, (i,), s * X[i])
    agrees(p.output(Y, text).build())


# What is refuted is refused.


@pytest.mark.parametrize("spoilt", ["compacting_changed_nothing", "forward_mode_agrees", "schedule_differs"])
def test_nothing_is_written_that_a_check_refutes(
    spoilt: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from numeric import cli

    wrong: dict[str, Any] = {"forward_mode_agrees": False}
    monkeypatch.setattr(vetting, spoilt, lambda *given: wrong.get(spoilt, ["dQ"]))
    monkeypatch.setattr("sys.argv", ["backprove", "generate", "attention", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == cli.USAGE
    assert list(tmp_path.iterdir()) == []
    assert "what was derived is wrong" in capsys.readouterr().err


def test_a_wrong_derivation_is_refuted() -> None:
    program = built(RIGHT["a_kernel_of_squared_distances"])
    derivation = backward(program)
    first, *others = derivation.derived.definitions
    twice = replace(derivation.derived, definitions=(replace(first, value=2 * first.value), *others))
    with pytest.raises(ProofError, match="what was derived is wrong: at a random point"):
        vetting.vet(program, "backward", replace(derivation, derived=twice))
