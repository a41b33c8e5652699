"""Everything that is claimed of every program, checked once, each with the word that it earned.

The words (strongest first): *proved* for all sizes by canonical form (or *refuted* by a counterexample, where the
catalogue says that an equation is false); *fingerprinted* at random points of a finite field; *exact* in rational
arithmetic; *bounded* by rigorous balls around the exact values; *checked* in floating point within a multiple of what
rounding may do to the function. What the prover leaves *open* says so, with its other evidence.

Kernels that this project generates are asked for the rounding model "float32 inside": arrays of 16 bits are computed in
float32, and float32 and float64 in themselves (:mod:`numeric.oracle.rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from derive.errors import AlgebraError
from derive.lower import dense
from derive.modes import derivation_in, taken_apart
from derive.modes import program as program_of
from derive.proof.checks import (
    compacting_changed_nothing,
    compactness,
    exactness,
    forward_mode_agrees,
    schedule_differs,
    tangents_agree,
)
from derive.proof.degrees import FailureBound, looked_at
from derive.proof.fields import fresh_seed
from derive.proof.identities import identities
from derive.proof.rationals import python_flint
from derive.proof.statements import Identity
from derive.proof.verdict import settle
from numeric.arguments import ACCUMULATION
from numeric.backends import NAMES, Backend, backend, cupy_missing
from numeric.derivations import derivation_of
from numeric.findings import Finding as Finding
from numeric.findings import Status, measured
from numeric.kernels import Kernel, load
from numeric.oracle import enclosures
from numeric.properties import LIMIT, rounding_of, run_of, source_of
from numeric.properties_attention import properties_for
from numeric.samples import Sample, Takes, dtype, samples_of

SEEDS = range(3)
BALLS = "results lie in rigorous balls"
SCHEDULE = "generated order equals the derivation"
POINTS = {
    "fingerprinted": "random points of random fields of 2¹¹⁷ elements, random sizes",
    "exact": "random rational points, random sizes",
}
DUALS = "dual numbers in exact arithmetic, random sizes"

WrongAt = Callable[[int, int, FailureBound], list[str]]
"""What is wrong at a point: of its seed, its number, and a bound that takes notes."""


@dataclass(frozen=True)
class Check:
    """Something to find out, named before it is run so that progress can be shown."""

    program: str
    property: str
    backend: str
    run: Callable[[], Finding]


def checks(
    programs: Sequence[str], backends: Sequence[str] | None = None, *, rigorous: bool = False, seed: int | None = None
) -> list[Check]:
    """All checks of the given programs, on the given backends or on all; ``rigorous`` ones hold results against balls.

    ``seed`` is what random points of finite fields come from, a new one if it is not given.

    Raises
    ------
    AlgebraError: rigorous balls are asked for, and python-flint, which gives them, is not installed.
    """
    if rigorous:
        python_flint()
    planned: list[Check] = []
    seed = fresh_seed() if seed is None else seed
    for name in programs:
        planned += _symbolic(name, seed)
        for chosen in backends or NAMES:
            planned += _numeric(name, chosen, rigorous)
    return planned


@dataclass(frozen=True)
class Asked:
    """What to find out of one program: on which backends, of which properties, with rigorous balls or without.

    ``seed`` is what random points of finite fields come from.
    """

    program: str
    backends: tuple[str, ...] | None = None
    only: str = ""
    rigorous: bool = False
    seed: int | None = None


def findings(asked: Asked) -> list[Finding]:
    """Everything that is asked of one program, found out; for one of several processes."""
    planned = checks([asked.program], asked.backends, rigorous=asked.rigorous, seed=asked.seed)
    return [check.run() for check in planned if asked.only in check.property]


def _symbolic(name: str, seed: int) -> Iterator[Check]:
    source = program_of(name)
    for identity in identities(source):
        yield Check(name, identity.name, "symbolic", partial(_statement, name, identity, seed))
    yield Check(name, SCHEDULE, "symbolic", partial(_schedule, name, SCHEDULE, seed))
    base, mode = taken_apart(name)
    if mode in ("tangent", "hessian-vector"):
        title = "tangents are what dual numbers give"
        yield Check(name, title, "symbolic", lambda: _tangents(name, title, base, mode, seed))
        return
    for title, check in {"compacting changed nothing": _fingerprint, "forward mode agrees": _forward_mode}.items():
        yield Check(name, title, "symbolic", partial(check, name, title, seed))


def _statement(name: str, identity: Identity, seed: int) -> Finding:
    """A statement of the catalogue: what is proved, or refuted where it is listed as false, is as stated."""
    verdict = settle(identity, seed)
    status: dict[bool | None, Status] = {True: "holds", False: "fails", None: "not measured"}
    detail = "" if verdict.proof.status == "proved" else f"{verdict.reason}; stated as: {identity.statement}"
    return Finding(name, identity.name, "symbolic", verdict.word, status[verdict.as_stated], None, detail)


def _fingerprint(name: str, title: str, seed: int) -> Finding:
    derivation = derivation_of(name)
    word = compactness(derivation.forward)

    def wrong(seed: int, number: int, bound: FailureBound) -> list[str]:
        return compacting_changed_nothing(derivation, seed, bound, number=number)

    return _algebraic(name, title, word, POINTS[word], wrong, seed)


def _schedule(name: str, title: str, seed: int) -> Finding:
    kernel = dense(derivation_of(name))
    word = compactness(kernel.derivation.forward)

    def wrong(seed: int, number: int, bound: FailureBound) -> list[str]:
        return schedule_differs(kernel, seed, bound, number=number)

    return _algebraic(name, title, word, f"the array schedule at {POINTS[word]}", wrong, seed)


def _forward_mode(name: str, title: str, seed: int) -> Finding:
    derivation = derivation_of(name)

    def wrong(seed: int, number: int, bound: FailureBound) -> list[str]:
        agrees = forward_mode_agrees(derivation, seed, bound=bound, number=number)
        return [] if agrees else [f"the product with a tangent at point {number}"]

    return _algebraic(name, title, exactness(derivation.forward), DUALS, wrong, seed)


def _tangents(name: str, title: str, base: str, mode: str, seed: int) -> Finding:
    derivation = derivation_in(program_of(base), mode)

    def wrong(seed: int, number: int, bound: FailureBound) -> list[str]:
        return tangents_agree(derivation, seed, bound=bound, number=number)

    return _algebraic(name, title, exactness(derivation.forward), DUALS, wrong, seed)


def _algebraic(name: str, title: str, word: str, how: str, wrong_at: WrongAt, seed: int) -> Finding:
    """What is found without floating point: where two ways to one result differ, at all points of a check.

    A fingerprint whose bound is worth too little is none: then nothing was measured.
    """
    bound = FailureBound()
    try:
        wrong = sorted(looked_at(wrong_at, seed, bound))
    except AlgebraError as error:
        return Finding(name, title, "symbolic", "", "not measured", None, str(error))
    if wrong:
        told = f"differs in {', '.join(wrong)}; seed {seed}"
        return Finding(name, title, "symbolic", word, "fails", None, told, None, seed)
    missed = -bound.bits if word == "fingerprinted" else None
    if missed is not None and bound.refused:
        return Finding(name, title, "symbolic", "", "not measured", None, bound.refused, None, seed)
    return Finding(name, title, "symbolic", word, "holds", None, f"{how}; {bound}", missed, seed)


def _numeric(name: str, chosen: str, rigorous: bool) -> Iterator[Check]:
    reason = cupy_missing() if chosen == "cupy" else None
    if reason is not None:
        missing = Finding(name, "all properties", chosen, "", "not measured", None, reason)
        yield Check(name, "all properties", chosen, lambda: missing)
        return
    kernel, device = load(name), backend(chosen)
    drawn = cache(partial(samples, kernel, device))  # once for all properties, when the first is asked about
    for prop in properties_for(kernel):

        def measure(prop=prop) -> Finding:  # type: ignore[no-untyped-def]
            return measured(kernel, device, prop, drawn())

        yield Check(name, prop.name, chosen, measure)
    if rigorous:
        yield Check(name, BALLS, chosen, lambda: _bounded(kernel, device))


def _bounded(kernel: Kernel, device: Backend) -> Finding:
    """Every entry of every result of core samples within the limit of a rigorous ball around its exact value.

    Told is the largest deviation in the widest dtype, or the worst where something is wrong.
    """
    program, found = kernel.program, []
    try:
        for sample in (s for s in samples(kernel, device) if s.core):
            made, source = run_of(kernel, device, sample), source_of(kernel)
            found += [(sample, close) for close in enclosures(source, made, rounding_of(kernel))]
    except AlgebraError as reason:
        return Finding(program, BALLS, device.name, "", "not measured", None, str(reason))
    at, worst = max(found, key=lambda pair: pair[1].error)
    if worst.error > LIMIT:
        return Finding(program, BALLS, device.name, "bounded", "fails", worst.error, f"{worst} ({at})")
    widest = [close for sample, close in found if sample.dtype == found[0][0].dtype]
    largest = max(widest, key=lambda close: close.deviation)
    told = replace(largest, radius=max(close.radius for close in widest))
    return Finding(program, BALLS, device.name, "bounded", "holds", worst.error, f"{told} ({found[0][0].dtype})")


def samples(kernel: Kernel, device: Backend) -> list[Sample]:
    """The samples of one of this project's kernels, in every dtype that a device computes."""
    return list(samples_of(source_of(kernel), Takes(tuple(dtypes(device)), broadcasts=True)))


def dtypes(device: Backend) -> list[str]:
    """The dtypes that a device computes: bfloat16 only where ml_dtypes gives NumPy one."""
    names = list(ACCUMULATION)
    if device.name != "numpy":
        names.remove("bfloat16")
        return names
    try:
        dtype("bfloat16")
    except ImportError:
        names.remove("bfloat16")
    return names
