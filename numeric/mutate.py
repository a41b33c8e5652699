"""Checkers that are checked: every mistake in a derivation against every checker, killed or survived.

A *mutant* is a program's backward pass with one mistake in it. It is *equivalent* where the prover shows that it gives
the same gradients; all others are wrong, and the property tests have to refuse each. The other columns show what weaker
checks let through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

import numpy as np
import sympy as sp

from derive.algebra import canonical
from derive.calculus import Derivation, joined
from derive.errors import DeriveError
from derive.forward.program import Program, unfolded
from derive.lower import dense
from derive.mistakes import apply, assumed_sizes, mistakes_for
from derive.mistakes.systematic import systematic
from derive.printers.module import module_source
from derive.proof.fingerprint import agree, small_sizes
from derive.proof.refuter import refute
from numeric.backends import backend
from numeric.errors import NumericError
from numeric.kernels import Kernel, module_of
from numeric.oracle import derivation_of, exact_run
from numeric.properties import LIMIT, Property, finite_differences_agree
from numeric.properties_attention import properties_for
from numeric.samples import Sample
from numeric.verify import SEEDS

Verdict = Literal["killed", "survived", "equivalent", "–"]
"""What a checker says of a mutant; – where it cannot be asked, because the mutant has no array form."""


@dataclass(frozen=True)
class Mutant:
    """A wrong backward program: curated or of a systematic kind, and the definition that it spoils."""

    name: str
    kind: str
    breaks: str
    derived: Program


@dataclass(frozen=True)
class Row:
    """A mutant and every checker's verdict."""

    mutant: Mutant
    verdicts: dict[str, Verdict]

    @property
    def equivalent(self) -> bool:
        """Whether it was proved to be no mistake."""
        return "equivalent" in self.verdicts.values()


def mutants(derivation: Derivation) -> Iterator[Mutant]:
    """All mistakes that can be made in a derivation: the curated ones, then the systematic ones."""
    for mistake in mistakes_for(derivation):
        yield Mutant(mistake.name, "curated", mistake.breaks, apply(mistake, derivation))
    for slip in systematic(derivation):
        yield Mutant(slip.name, slip.kind, slip.breaks, slip.change(derivation.derived))


class _Mutated(Kernel):
    """A program's kernel with the backward pass of a mutant."""

    def __init__(self, program: str, code: ModuleType) -> None:
        super().__init__(program, "numpy")
        self.code = code

    def _code(self, backend_name: str) -> ModuleType:
        return self.code


CHECKERS: tuple[str, ...] = (
    *("prover", "fingerprint", "property tests", "finite differences"),
    *("allclose 1e-2", "loss = mean, 1e-2", "cosine only", "symmetric inputs", "one key", "d = 1"),
)
"""The columns: this project's checkers, then common practice."""


def matrix(name: str, *, curated: bool = False) -> list[Row]:
    """Every mutant of a program against every checker, or the curated ones alone.

    Raises
    ------
    NumericError: the program has no gradients in which a mistake could be made.
    """
    derivation = derivation_of(name)
    if not derivation.derived.definitions:
        raise NumericError(f"{name} has no gradients in which a mistake could be made; name a program that has some")
    chosen = (m for m in mutants(derivation) if m.kind == "curated" or not curated)
    return [_row(name, derivation, mutant) for mutant in chosen]


def _row(name: str, derivation: Derivation, mutant: Mutant) -> Row:
    verdicts: dict[str, Verdict] = {"prover": _prover(derivation, mutant)}
    if verdicts["prover"] == "equivalent":
        return Row(mutant, verdicts | dict.fromkeys(CHECKERS[1:], "equivalent"))
    verdicts["fingerprint"] = _fingerprint(derivation, mutant)
    try:
        kernel = _kernel(name, derivation, mutant)
    except DeriveError:
        return Row(mutant, verdicts | dict.fromkeys(CHECKERS[2:], "–"))
    for checker, refuses in _NUMERIC.items():
        verdicts[checker] = "killed" if refuses(kernel) else "survived"
    return Row(mutant, verdicts)


def _prover(derivation: Derivation, mutant: Mutant) -> Verdict:
    """Equivalent where both values have one canonical form for all sizes, killed by a counterexample."""
    right, wrong = (_spelled_out(derivation, p, mutant.breaks) for p in (derivation.derived, mutant.derived))
    if assumed_sizes(mutant.derived):
        return "killed"  # it indexes an axis of one size by another: for sizes that differ it is not even defined
    if canonical(right - wrong) == 0:
        return "equivalent"
    known = (*derivation.forward.definitions, *derivation.derived.definitions)
    return "killed" if refute(right, wrong, known) else "survived"


def _spelled_out(derivation: Derivation, program: Program, name: str) -> sp.Expr:
    """A definition's value with named reductions written out, so that one mistake does not hide in another name.

    They are what is defined on the way to a gradient and is nobody's cotangent.
    """
    definition = program.definition(name)
    cotangents = {*derivation.names.values(), name}
    return unfolded(definition.value, [d for d in program.definitions if d.name not in cotangents])


def _fingerprint(derivation: Derivation, mutant: Mutant) -> Verdict:
    right = joined(derivation.forward, derivation.derived)
    wrong = replace(joined(derivation.forward, mutant.derived), inputs=right.inputs)
    try:
        seen = any(
            agree(right, wrong, _squared(small_sizes(derivation.forward, seed), mutant.derived), seed) for seed in SEEDS
        )
    except DeriveError:
        return "–"
    return "killed" if seen else "survived"


def _squared(sizes: dict[str, int], program: Program) -> dict[str, int]:
    """Sizes at which a program is defined that takes some of them to be equal."""
    sizes = dict(sizes)
    for one, other in assumed_sizes(program):
        sizes = {n: sizes[str(other)] if v == sizes[str(one)] else v for n, v in sizes.items()}
    return sizes


def _kernel(name: str, derivation: Derivation, mutant: Mutant) -> Kernel:
    made = dense(Derivation(derivation.forward, mutant.derived, (), derivation.names))
    return _Mutated(name, module_of(module_source(made, made.operations, "numpy"), mutant.name))


def _sample(kernel: Kernel, **changed: Any) -> Sample:
    sizes = {size: 3 + k for k, size in enumerate(kernel.signature.sizes)}
    return Sample(
        kernel.program,
        {**sizes, **changed.pop("sizes", {})},
        **{"leading": (), "dtype": "float64", "seed": 1, **changed},
    )


def _square(kernel: Kernel) -> Sample:
    """All sizes alike, so that a transpose has the right shape."""
    return _sample(kernel, sizes=dict.fromkeys(kernel.signature.sizes, 4))


def _samples(kernel: Kernel) -> tuple[Sample, ...]:
    optional = tuple(s.name for s in kernel.signature.inputs if s.optional)
    return _square(kernel), _sample(kernel, given=optional), _sample(kernel)


def _refused_by(prop: Property, kernel: Kernel, sample: Sample) -> bool:
    try:
        error = prop.body(kernel, backend("numpy"), sample)
    except (ValueError, TypeError, IndexError, AttributeError):
        return True  # a shape that does not fit is refused by NumPy itself
    return error is not None and not error <= LIMIT


def _properties(kernel: Kernel) -> bool:
    return any(_refused_by(p, kernel, s) for s in _samples(kernel) for p in properties_for(kernel))


def _finite_differences(kernel: Kernel) -> bool:
    prop = Property("", "", finite_differences_agree)
    return any(_refused_by(prop, kernel, s) for s in _samples(kernel))


def _compared(
    kernel: Kernel,
    sample: Sample,
    refuses: Callable[[np.ndarray, np.ndarray], bool],
    *,
    mean: bool = False,
    symmetric: bool = False,
) -> bool:
    """Whether a comparison with the right gradients refuses the kernel's."""
    inputs = sample.inputs(kernel.signature)
    if symmetric:
        inputs = {n: inputs["K"] if n in ("Q", "V") else a for n, a in inputs.items()}
    try:
        result = kernel.forward(**inputs)
        cotangents = {
            n: np.full_like(a, 1 / a.size) if mean else np.ones_like(a) if symmetric else c
            for (n, a), c in zip(result.outputs.items(), sample.output_cotangents(result).values(), strict=True)
        }
        cotangents = {n: c for n, c in cotangents.items() if n != "L"}
        got = kernel.backward(result, cotangents)
    except (ValueError, TypeError, IndexError, AttributeError):
        return True
    exact = exact_run(kernel.program, inputs, cotangents, {})
    right = {n: np.array([float(e.value) for e in exact[f"d{n}"].flat]).reshape(g.shape) for n, g in got.items()}
    return any(refuses(g, right[n]) for n, g in got.items())


def _not_close(got: np.ndarray, want: np.ndarray) -> bool:
    return not np.allclose(got, want, rtol=1e-2, atol=1e-2)


def _turned(got: np.ndarray, want: np.ndarray) -> bool:
    norms = float(np.linalg.norm(got) * np.linalg.norm(want))
    return bool(norms) and float((got * want).sum()) < 0.99 * norms


def _mean_sample(kernel: Kernel) -> Sample:
    return _sample(kernel, sizes=dict.fromkeys(kernel.signature.sizes, 12))


_NUMERIC: dict[str, Callable[[Kernel], bool]] = {
    "property tests": _properties,
    "finite differences": _finite_differences,
    "allclose 1e-2": lambda k: _compared(k, _square(k), _not_close),
    "loss = mean, 1e-2": lambda k: _compared(k, _mean_sample(k), _not_close, mean=True),
    "cosine only": lambda k: _compared(k, _square(k), _turned),
    "symmetric inputs": lambda k: _compared(k, _square(k), _not_close, symmetric=True),
    "one key": lambda k: _compared(k, _sample(k, sizes={"m": 1}), _not_close),
    "d = 1": lambda k: _compared(k, _sample(k, sizes={"d": 1, "d_v": 1}), _not_close),
}


def as_records(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as plain data."""
    return [{"mistake": r.mutant.name, "kind": r.mutant.kind, "breaks": r.mutant.breaks, **r.verdicts} for r in rows]


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """By checker, how many wrong gradients are killed, survive, or cannot be asked about."""
    wrong = [row for row in rows if not row.equivalent]
    return {
        checker: {word: sum(row.verdicts[checker] == word for row in wrong) for word in ("killed", "survived", "–")}
        for checker in CHECKERS
    }
