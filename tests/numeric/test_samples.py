"""The samples of every program: that they hold what the plan promises, and that each says what it is for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import numeric
from derive.algebra import Total
from derive.forward import names, program
from derive.forward.builder import Builder
from derive.forward.norms import i, x
from derive.modes import program as in_mode
from numeric.arguments import dims_of
from numeric.oracle.calls import signature_of
from numeric.samples import PLAN, Sample, Takes, Values, samples_of
from numeric.samples.defined import is_defined, looks_up
from numeric.samples.parameters import candidates
from numeric.samples.sizes import LARGE, WORK, Sizes
from numeric.signature import TensorSpec

DTYPES = ("float64", "float32", "float16", "bfloat16")
OURS = Takes(DTYPES, broadcasts=True)


@pytest.fixture(scope="module", params=numeric.programs())
def drawn(request: pytest.FixtureRequest) -> tuple[str, list[Sample]]:
    """Every generated program, and the samples that its kernel is run on."""
    return request.param, list(samples_of(in_mode(request.param), OURS))


def test_every_end_has_a_sample_and_says_what_it_is(drawn: tuple[str, list[Sample]]) -> None:
    name, samples = drawn
    assert {s.purpose for s in samples} == {purpose.name for purpose in PLAN} - _missing(name)
    assert all(str(s).startswith(f"{s.purpose}: {s.dtype}, sizes ") for s in samples)
    assert len({(str(s), s.values) for s in samples}) == len(samples), "a sample is there twice"


def test_sizes_are_what_kernels_go_wrong_at(drawn: tuple[str, list[Sample]]) -> None:
    name, samples = drawn
    source = in_mode(name)
    lengths = [s.sizes for s in samples]
    sizes = signature_of(source).sizes
    for size in sizes:
        assert any(drawn[size] == 1 for drawn in lengths), f"{size} is never 1"
        assert max(drawn[size] for drawn in lengths) >= 17, f"{size} is never large"
    assert any(set(drawn.values()) == {1} for drawn in lengths)
    assert any(len(set(drawn.values())) == 1 and drawn[sizes[0]] >= 3 for drawn in lengths), "sizes are never equal"
    assert any(max(drawn.values()) >= 131 for drawn in lengths)
    if not looks_up(source):
        for multiple in (8, 16, 64) if len(sizes) < 7 else (8, 16):
            near = {drawn[size] % multiple for drawn in lengths for size in sizes if drawn[size] >= multiple - 1}
            assert {multiple - 1, 0, 1} <= near, f"no multiple of {multiple}, one more or one less: {sorted(near)}"
    work = Sizes(source).work
    bounded = (drawn for drawn in lengths if LARGE[-1] not in drawn.values() and len(set(drawn.values())) > 1)
    assert all(work(drawn) <= 4 * WORK for drawn in bounded)


def test_batches_dtypes_and_cotangents_take_turns(drawn: tuple[str, list[Sample]]) -> None:
    name, samples = drawn
    assert any(len(s.leading) == 1 and s.leading[0] >= 3 for s in samples)
    assert any(len(s.leading) == 2 and min(s.leading) >= 2 for s in samples)
    assert any(s.leading == () for s in samples)
    counted = Counter(s.dtype for s in samples)
    assert set(counted) == set(DTYPES)
    assert min(counted.values()) >= 6
    outputs = [o.name for o in in_mode(name).outputs]
    if len(outputs) > 1 and numeric.load(name).signature.gradients:
        alone = {s.cotangents for s in samples if s.cotangents is not None}
        assert len(alone) >= min(len(outputs), 6), "few outputs have a cotangent by themselves"
    core = [s for s in samples if s.core]
    assert {s.dtype for s in core} == set(DTYPES)


def test_parameters_and_optional_inputs_are_set(drawn: tuple[str, list[Sample]]) -> None:
    """On both sides of the default, where a parameter may be on both and the definitions have values there."""
    name, samples = drawn
    source = in_mode(name)
    for parameter in source.parameters:
        free = dict.fromkeys(parameter.default.free_symbols, 4)
        default = float(parameter.default.xreplace(free))
        given = [float(s.parameters[parameter.name]) for s in samples if parameter.name in s.parameters]
        assert any(value != default for value in given), f"{parameter.name} is left at its default"
        if (parameter.least is None or parameter.least < default) and not looks_up(source):
            assert {value < default for value in given} == {True, False}, f"{parameter.name}: {given}"
    for optional in source.optional:
        assert {optional in s.given for s in samples} == {True, False}, f"{optional} is always there, or never"


def test_values_are_extreme_somewhere(drawn: tuple[str, list[Sample]]) -> None:
    values = [s.values for s in drawn[1]]
    assert max(v.spread for v in values) >= 100
    assert min(v.spread for v in values) <= 1e-3
    assert any(v.offset > 10 * v.spread for v in values)
    assert any(v.whole for v in values)
    assert any(v.blind for v in values)
    assert {v.integers for v in values} == {"any", "same", "ends"}


def test_definitions_have_values_at_every_sample_that_may_be_outside(drawn: tuple[str, list[Sample]]) -> None:
    """Where entries are looked up, or parameters are set."""
    name, samples = drawn
    source = in_mode(name)
    doubtful = [s for s in samples if looks_up(source) or s.parameters]
    assert all(is_defined(source, replace(s, dtype="float64")) for s in doubtful if s.values.spread <= 10)


def _missing(name: str) -> set[str]:
    """The ends that a program cannot have samples for."""
    source = in_mode(name)
    without = {"parameters away from their defaults"} if not source.parameters else set()
    return without if list(Sizes(source).pairs()) else without | {"two large sizes"}


@pytest.mark.parametrize("name", ["attention", "language_model", "cross_entropy"])
def test_the_same_seed_gives_the_same_samples(name: str) -> None:
    first, again = (list(samples_of(program(name), OURS)) for _ in range(2))
    assert first == again
    signature = signature_of(program(name))
    for one, other in zip(first[:12], again, strict=False):
        arrays = zip(one.inputs(signature).values(), other.inputs(signature).values(), strict=True)
        assert all(left.tobytes() == right.tobytes() for left, right in arrays)
    moved = list(samples_of(program(name), OURS, seed=1))
    assert {s.purpose for s in moved} == {s.purpose for s in first}
    assert not {s.seed for s in moved} & {s.seed for s in first}
    assert moved[0].sizes != first[0].sizes


@pytest.mark.parametrize("name", ["attention", "layer_norm", "grouped_query"])
def test_samples_are_what_a_kernel_takes(name: str) -> None:
    source = program(name)
    shared = (source.inputs[1].name,)
    takes = Takes(("float16",), leading=(1,), shared=shared, parameters=())
    samples = list(samples_of(source, takes))
    assert {s.dtype for s in samples} == {"float16"}
    assert {len(s.leading) for s in samples} == {1}
    assert {s.own_leading[shared[0]] for s in samples} == {()}
    assert not any(s.parameters or s.thin for s in samples)
    assert max(s.leading[0] for s in samples) >= 3
    spec = next(s for s in signature_of(source).inputs if s.name == shared[0])
    array = samples[1].inputs(signature_of(source))[shared[0]]
    assert array.shape == dims_of(spec.axes, samples[1].sizes)


def test_where_definitions_have_no_value_there_is_no_sample() -> None:
    """Logarithms of inputs get positive numbers; what has no value for these either is left out."""
    p = Builder("logs", "Sums of logarithms.")
    X, k = p.input("X", i, x, meaning="numbers"), p.parameter("k", sp.Integer(2), "to be looked up")
    p.define("Y", (i,), Total(sp.log(X[i, x] + k), x))
    logs = p.output("Y", "sums").build()
    signature, samples = signature_of(logs), list(samples_of(logs))
    assert samples
    for sample in samples:
        assert (sample.inputs(signature)["X"] + sample.parameters.get("k", 2) > 0).all(), sample
        assert is_defined(logs, sample), sample


def test_what_counts_positions_and_what_measures_has_values_on_both_sides() -> None:
    by_name = {p.name: p for n in names() for p in program(n).parameters}
    offset = candidates(by_name["offset"], {"n": 5, "m": 7})
    assert offset == [1, -1, 3, 9, -9]
    eps = candidates(by_name["eps"], {"n": 5, "D": 7})
    assert min(eps) < 1e-5 < max(eps)
    assert 0 < eps[0] < 1


def test_large_lengths_are_longer_than_tiles() -> None:
    assert LARGE[0] > 256
    assert any(length % 64 for length in LARGE)
    assert any(length % 64 == 0 for length in LARGE)


@pytest.mark.parametrize("kind", ["real", "boolean", "integer"])
def test_regimes_draw_what_they_say(kind: str) -> None:
    rng, sizes = np.random.default_rng(0), {"n": 6, "m": 5}
    spec = TensorSpec("X", ("n", "m"), kind, "", below="m" if kind == "integer" else None)  # type: ignore[arg-type]

    def drawn(**regime: object) -> np.ndarray:
        return Values(**regime).drawn(rng, spec, (3, 6, 5), sizes)  # type: ignore[arg-type]

    if kind == "real":
        assert abs(drawn(offset=30.0).mean() - 30) < 1
        assert (drawn(positive=True) > 0.2).all()
        whole = drawn(whole=True, zeros=0.3, spread=4.0)
        assert (whole == np.round(whole)).all()
        assert not whole[:, 0].any()
        assert whole.any()
    elif kind == "boolean":
        blind = drawn(blind=True, visible=0.9)
        assert not blind[:, 0].any()
        assert not blind[..., -1].any()
        assert blind.any()
    else:
        assert set(np.unique(drawn())) == set(range(5))
        assert len(np.unique(drawn(integers="same"))) == 1
        assert set(np.unique(drawn(integers="ends"))) == {0, 4}
