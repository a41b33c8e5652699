"""The checkers that run a mutant's code: property tests, finite differences, and what common practice compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from derive.calculus import Derivation
from derive.errors import LoweringError
from derive.forward.naming import unused
from derive.forward.program import Program
from derive.forward.softmax import recognise
from derive.lower import dense
from derive.lower.arrays import Node, Positions, mentioned, walk
from derive.modes import program as program_of
from derive.printers.module import module_source
from numeric.arguments import ACCUMULATION
from numeric.backends import backend
from numeric.errors import NumericError
from numeric.kernels import Kernel, Result, load, module_of
from numeric.properties import LIMIT, Property, finite_differences_agree
from numeric.properties_attention import properties_for
from numeric.runs import Arrays
from numeric.samples import Sample, Takes, samples_of
from numeric.signature import TensorSpec

MISFITS = (ValueError, IndexError)
"""What NumPy, or a kernel's own checks, say of a shape or an index that does not fit: such code is refused at once."""

Asked = Callable[[Kernel], "bool | None"]
"""Whether a checker refuses a kernel; None where it has nothing to say about such programs."""


class MutantKernel(Kernel):
    """A program's kernel with the code of a mutant.

    Its code takes every input: what may be left out arrives with its neutral value, because a mistake may use it where
    the right program does not need it.

    Raises
    ------
    DeriveError: the mutant has no array form; a constant has none, because it could not know its leading axes.
    """

    def __init__(self, program: str, wrong: Derivation) -> None:
        super().__init__(program, "numpy")
        made = dense(_with_all_inputs(_apart_from_sizes(wrong)))
        constant = [s.name for s in (*made.forward, *made.backward) if not _reads(s.node)]
        if constant:
            raise LoweringError(f"{program}: {', '.join(constant)} became a constant, which has no array form")
        source = module_source(made, made.operations, "numpy", formulas=False)
        self.code = module_of(source, f"mutant of {program}")
        self.signature = replace(self.signature, cotangents=self.code.SIGNATURE.cotangents)

    def forward(self, **inputs: Any) -> Result:
        """Run the forward pass; gradients are of what was given."""
        result = super().forward(**{**self._neutral(inputs), **inputs})
        given = {n: a for n, a in result.arguments.tensors.items() if n in inputs}
        return replace(result, arguments=replace(result.arguments, tensors=given))

    def _neutral(self, inputs: Mapping[str, Any]) -> Arrays:
        stored = next(a.dtype for a in inputs.values() if hasattr(a, "dtype") and a.dtype.name in ACCUMULATION)
        dtypes = {"real": stored, "boolean": np.dtype(bool), "integer": np.dtype(int)}
        return {s.name: np.array(s.neutral, dtypes[s.kind]) for s in self.signature.inputs if s.optional}

    def _stays_small(self, spec: TensorSpec) -> bool:
        return False

    def _code(self, backend_name: str) -> ModuleType:
        return self.code


def _reads(node: Node) -> bool:
    """Whether a node is made from an array, or from positions."""
    return bool(mentioned(node)) or any(isinstance(part, Positions) for part in walk(node))


def _apart_from_sizes(wrong: Derivation) -> Derivation:
    """With other names for defined tensors that are called like a size, which a mistake may be the first to need."""
    sizes = {str(size) for given in wrong.forward.inputs for size in given.tensor.shape}
    taken = wrong.forward.names | wrong.derived.names | sizes
    clashing = [d.name for d in (*wrong.forward.definitions, *wrong.derived.definitions) if d.name in sizes]
    names = {name: unused(f"{name}_tensor", taken) for name in clashing}
    return replace(wrong, forward=wrong.forward.renamed(names), derived=wrong.derived.renamed(names))


def _with_all_inputs(wrong: Derivation) -> Derivation:
    own = {i.name for i in wrong.forward.inputs}

    def required(program: Program) -> Program:
        inputs = (replace(i, neutral=None) if i.name in own else i for i in program.inputs)
        return replace(program, inputs=tuple(inputs))

    return replace(wrong, forward=required(wrong.forward), derived=required(wrong.derived))


def property_tests(kernel: Kernel) -> bool:
    """Whether a property fails on a sample that is asked about it."""
    return any(_refuses(properties_for(kernel), kernel, sample) for sample in _sound_samples(kernel.program))


def finite_differences(kernel: Kernel) -> bool:
    """Whether differences of the kernel's own forward pass contradict its gradients."""
    prop = Property("", "", finite_differences_agree)
    return any(_refuses((prop,), kernel, s) for s in _sound_samples(kernel.program) if s.core)


_SOUND: dict[tuple[str, object], list[Sample]] = {}


def _sound_samples(program: str) -> list[Sample]:
    """The samples on which the right kernel keeps its properties: what refuses that one too says nothing.

    Raises
    ------
    NumericError: there is no such sample, so that nothing can be said of mutants.
    """
    key = program, program_of(program).definitions
    if key not in _SOUND:
        right = load(program, "numpy")
        drawn = samples_of(program_of(program), Takes(broadcasts=True))
        _SOUND[key] = [sample for sample in drawn if not _refuses(properties_for(right), right, sample)]
    if not _SOUND[key]:
        raise NumericError(f"{program} itself does not keep its properties; run: backprove verify {program}")
    return _SOUND[key]


def _refuses(asked: Iterable[Property], kernel: Kernel, sample: Sample) -> bool:
    """Whether a property that a sample is asked about fails."""
    for prop in asked:
        if prop.asks(sample):
            try:
                with np.errstate(all="ignore"):
                    error = prop.body(kernel, backend("numpy"), sample)
            except MISFITS:
                return True
            if error is not None and not error <= LIMIT:
                return True
    return False


def _sample(kernel: Kernel, *, sizes: Mapping[str, int] | None = None, **given: Any) -> Sample:
    """A sample of pairwise distinct sizes, small ones where there are many."""
    own = dict(zip(kernel.signature.sizes, _lengths(kernel), strict=True))
    return Sample(kernel.program, {**own, **(sizes or {})}, **{"seed": 1, **given})


def _lengths(kernel: Kernel) -> list[int]:
    least = 2 if _is_wide(kernel) else 3
    return list(range(least, least + len(kernel.signature.sizes)))


def _is_wide(kernel: Kernel) -> bool:
    """Whether a program has so many sizes that its arrays are large when these are not small."""
    return len(kernel.signature.sizes) > 4


def _square(kernel: Kernel, length: int = 0) -> Sample:
    """All sizes alike, so that a transpose has the right shape."""
    names = kernel.signature.sizes
    return _sample(kernel, sizes=dict.fromkeys(names, length or (3 if _is_wide(kernel) else 4)))


def _compared(
    kernel: Kernel,
    sample: Sample,
    refuses: Callable[[np.ndarray, np.ndarray], bool],
    *,
    mean: bool = False,
    symmetric: bool = False,
) -> bool | None:
    """Whether a comparison with the gradients of a right kernel refuses a mutant's; None if it refuses these too."""
    inputs = sample.inputs(kernel.signature)
    if symmetric:
        inputs = _alike(inputs)
    right = load(kernel.program, "numpy")
    wanted = right.forward(**inputs)
    usual = [o.name for o in kernel.signature.outputs if not o.statistic] or list(wanted.outputs)
    cotangents = {
        n: np.full_like(a, 1 / a.size) if mean else np.ones_like(a) if symmetric else c
        for (n, a), c in zip(wanted.outputs.items(), sample.output_cotangents(wanted).values(), strict=True)
        if n in usual
    }
    with np.errstate(all="ignore"):
        try:
            got = kernel.backward(kernel.forward(**inputs), cotangents)
        except MISFITS:
            return True
        return any(refuses(got[n], array) for n, array in right.backward(wanted, cotangents).items())


def _alike(inputs: Arrays) -> Arrays:
    """The same numbers in every real input of one shape: self-attention without projections."""
    first: dict[tuple[int, ...], Any] = {}
    return {n: first.setdefault(a.shape, a) if np.issubdtype(a.dtype, np.floating) else a for n, a in inputs.items()}


def _not_close(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape != want.shape or not np.allclose(got, want, rtol=1e-2, atol=1e-2)


def _turned(got: np.ndarray, want: np.ndarray) -> bool:
    if got.shape != want.shape:
        return True
    norms = float(np.linalg.norm(got) * np.linalg.norm(want))
    return bool(norms) and not float((got * want).sum()) >= 0.99 * norms


def _at_one(kernel: Kernel, names: set[str]) -> bool | None:
    """A comparison where some sizes are 1; None where a program has none of them."""
    ones = {name: 1 for name in kernel.signature.sizes if name in names}
    return _compared(kernel, _sample(kernel, sizes=ones), _not_close) if ones else None


def _keys(kernel: Kernel) -> set[str]:
    """The sizes of what the softmaxes of a program run over."""
    forms = (recognise(d) for d in program_of(kernel.program).definitions)
    return {str(form.over.size) for form in forms if form is not None}


NUMERIC: dict[str, Asked] = {"property tests": property_tests, "finite differences": finite_differences}
"""This project's checkers that run code."""

COMMON_PRACTICE: dict[str, Asked] = {
    "allclose 1e-2": lambda k: _compared(k, _square(k), _not_close),
    "loss = mean, 1e-2": lambda k: _compared(k, _square(k, 6 if _is_wide(k) else 12), _not_close, mean=True),
    "cosine only": lambda k: _compared(k, _square(k), _turned),
    "symmetric inputs": lambda k: _compared(k, _square(k), _not_close, symmetric=True),
    "one key": lambda k: _at_one(k, _keys(k)),
    "d = 1": lambda k: _at_one(k, {"d", "d_v"}),
}
"""What people do instead: a comparison with gradients that are known to be right, at inputs that show too little."""
