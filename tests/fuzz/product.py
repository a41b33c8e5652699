"""The package under test, behind two functions: the only module here that imports it.

:func:`run` writes a program with the public builder, derives, generates and runs it; :func:`prove` asks the prover
about a statement. Both say what came back, and judge nothing.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sympy as sp

import numeric
from derive.algebra import Axis, Delta, Indicator, Tensor, Total
from derive.errors import DeriveError
from derive.forward import Builder
from derive.forward import Program as Written
from derive.pipeline import made
from numeric.errors import NumericError
from numeric.kernels import provide
from tests.fuzz import trees as t
from tests.fuzz.evaluate import Array, Index
from tests.fuzz.statements import Assumed, Point, Statement
from tests.fuzz.trees import Program, Tree

MOST_LINES = 8
"""A message of more lines than this is none that a person reads."""

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Ran:
    """What a run gave: values and gradients, entry by entry, of each of the runs that share leading axes; or an error.

    stage: how far it came; place: the innermost function of the package that an unexpected error came through.
    """

    kind: Literal["values", "refused", "misshapen", "traceback"]
    stage: str
    message: str = ""
    place: str = ""
    values: tuple[dict[str, dict[Index, float]], ...] = ()
    gradients: tuple[dict[str, dict[Index, float]], ...] = ()
    source: str = field(default="", repr=False)


class Misshapen(Exception):
    """An array came back with another shape than its tensor has."""


# Translation.


class _Words:
    """A program's tensors and parameters as the package knows them, for the expressions that mention them."""

    def __init__(self, axes: Mapping[t.Axis, Axis], random: Collection[str] = ()) -> None:
        self.axes = dict(axes)
        self.random = random
        self.tensors: dict[str, Tensor] = {}
        self.parameters: dict[str, sp.Symbol] = {}

    def axis(self, axis: t.Axis) -> Axis:
        """An axis."""
        return self.axes.setdefault(axis, Axis(axis.name, axis.size))

    def expression(self, node: Tree) -> Any:
        """An expression or a condition."""
        if isinstance(node, t.Num):
            return sp.Rational(node.value.numerator, node.value.denominator)
        if isinstance(node, t.Param):
            return self.parameters[node.name]
        if isinstance(node, t.Size):
            return Axis("of", node.name).size
        if isinstance(node, t.Pos):
            return self.axis(node.axis)
        if isinstance(node, t.Entry):
            outcome = (OUTCOME,) if node.tensor in self.random else ()
            return self.tensors[node.tensor][(*outcome, *map(self.expression, node.indices))]
        if isinstance(node, t.Sum):
            return Total(self.expression(node.body), *map(self.axis, node.axes))
        inside = [self.expression(p) for p in t.parts(node)]
        if isinstance(node, t.Pow):
            return inside[0] ** node.exponent
        if isinstance(node, t.Fn):
            return _FUNCTIONS[node.name](*inside)
        if isinstance(node, t.Cmp):
            return _COMPARISONS[node.op](*inside)
        return _OPERATIONS[type(node)](*inside)


_FUNCTIONS = {
    "exp": sp.exp,
    "log": sp.log,
    "tanh": sp.tanh,
    "sin": sp.sin,
    "cos": sp.cos,
    "sqrt": sp.sqrt,
    "abs": sp.Abs,
    "max": sp.Max,
    "min": sp.Min,
    "mod": sp.Mod,
    "floor": sp.floor,
}
_COMPARISONS = {"<=": sp.Le, "<": sp.Lt, "==": sp.Eq, "!=": sp.Ne}
_OPERATIONS: dict[type, Any] = {
    t.Add: lambda *terms: sum(terms[1:], terms[0]),
    t.Mul: lambda *factors: sp.Mul(*factors),
    t.Div: lambda above, below: above / below,
    t.Delta: Delta,
    t.Ind: Indicator,
    t.And: sp.And,
    t.Or: sp.Or,
    t.Not: sp.Not,
}


def written(program: Program) -> Written:
    """The program as a user of the package writes it."""
    words = _Words({})
    p = Builder(program.name, program.summary)
    for given in program.inputs:
        words.tensors[given.name] = p.input(
            given.name,
            *map(words.axis, given.axes),
            meaning=given.meaning,
            values=given.kind,
            constant=given.constant,
            below=None if given.below is None else words.axis(given.below),
            negative=given.negative,
        )
    for parameter in program.parameters:
        default = sp.Rational(parameter.value.numerator, parameter.value.denominator)
        words.parameters[parameter.name] = p.parameter(
            parameter.name, default, parameter.meaning, integer=parameter.integer
        )
    for d in program.definitions:
        axes = tuple(map(words.axis, d.axes))
        words.tensors[d.name] = p.define(d.name, axes, words.expression(d.value), values=d.kind)
    for name in program.outputs:
        p.output(name, program.summary)
    return p.build()


# Running.


def run(program: Program, data: Sequence[Arrays], cotangents: Sequence[Arrays]) -> Ran:
    """Values and gradients of a program; several data sets are given as one call with a leading axis."""
    stage, source = "definition", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            definition = written(program)
            stage = "generation"
            whole = made(definition)
            whole.vet()
            source = whole.text("numpy")
            stage = "loading"
            provide(program.name, "numpy", source)
            kernel = numeric.load(program.name)
            stage = "forward"
            result = kernel.forward(**_given(program, data))
            values = _apart(program, result.outputs, len(data))
            stage = "backward"
            given = {n: _stacked(program.shape_of(n), [c[n] for c in cotangents], float) for n in program.outputs}
            gradients = kernel.backward(result, given) if kernel.signature.gradients else {}
            slopes = _apart(program, gradients, len(data))
    except Misshapen as error:
        return Ran("misshapen", stage, str(error), source=source)
    except (DeriveError, NumericError) as error:
        return Ran("refused", stage, str(error), source=source)
    except Exception as error:
        return Ran("traceback", stage, f"{type(error).__name__}: {error}", _place(error), source=source)
    return Ran("values", stage, values=values, gradients=slopes, source=source)


def acceptable(message: str) -> bool:
    """Whether a refusal has a message that a person reads."""
    return bool(message.strip()) and len(message.strip().splitlines()) <= MOST_LINES


def _given(program: Program, data: Sequence[Arrays]) -> dict[str, Any]:
    dtypes = {"real": float, "boolean": bool, "integer": int}
    given: dict[str, Any] = {
        i.name: _stacked(program.shape_of(i.name), [d[i.name] for d in data], dtypes[i.kind]) for i in program.inputs
    }
    for p in program.parameters:
        if p.given:
            given[p.name] = int(p.value) if p.integer else float(p.value)
    return given


def _stacked(shape: tuple[int, ...], entries: Sequence[Array], dtype: type) -> Any:
    """Arrays of one tensor, one after another along a leading axis if there are several."""
    stacked: Any = np.zeros((len(entries), *shape), dtype)
    for k, array in enumerate(entries):
        for at, value in array.items():
            stacked[(k, *at)] = value
    return stacked if len(entries) > 1 else stacked[0]


def _apart(program: Program, arrays: Mapping[str, Any], runs: int) -> tuple[dict[str, dict[Index, float]], ...]:
    """Arrays by entry, each run by itself; a wrong shape is an error."""
    found: list[dict[str, dict[Index, float]]] = [{} for _ in range(runs)]
    for name, array in arrays.items():
        shape = program.shape_of(name)
        wanted = (runs, *shape) if runs > 1 else shape
        if tuple(array.shape) != wanted:
            raise Misshapen(f"{name} came back with shape {tuple(array.shape)} in place of {wanted}")
        for k, whole in enumerate(array if runs > 1 else [array]):
            found[k][name] = {at: float(whole[at]) for at in np.ndindex(*shape)}
    return tuple(found)


def _place(error: BaseException) -> str:
    """The innermost function of the package that an error came through."""
    root = Path(numeric.__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in ("derive", "numeric"):
            return f"{path.relative_to(root)}:{frame.name}"
        if frame.filename.startswith("<generated"):
            return f"generated code: {frame.name}"
    return "outside of the package"


# Proving.


@dataclass(frozen=True)
class Asked:
    """What the prover said of a statement: its word and its reasons, or the error that came instead.

    point: the counterexample of a statement that is refuted.
    """

    word: Literal["proved", "refuted", "open", "refused", "traceback"]
    reason: str = ""
    place: str = ""
    point: Point | None = None


def prove(statement: Statement) -> Asked:
    """Ask the prover about a statement; this function is all that knows its interface, and loads it."""
    from derive.proof.lines import lines
    from derive.proof.verdict import prove as proof_of

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = proof_of(_identity(statement))
    except DeriveError as error:
        return Asked("refused", str(error))
    except Exception as error:
        return Asked("traceback", f"{type(error).__name__}: {error}", _place(error))
    if found.status == "proved":
        return Asked("proved", "; ".join(dict.fromkeys(line.why for line in lines(found.data) if line.why)))
    if found.status == "refuted":
        point = found.counterexample
        given = Point(point.sizes, point.inputs, point.parameters, point.at)
        return Asked("refuted", str(point), point=given)
    return Asked("open", f"{'; '.join(found.remainders)} remains")


OUTCOME = Axis("w_", "outcomes_")
"""Expectations are weighted sums over the outcomes of a random tensor."""

CHANCE = Tensor("P_", OUTCOME)
"""The chances of outcomes."""


def _identity(statement: Statement) -> Any:
    """A statement with what it assumes as premises."""
    from derive.forward.program import Definition
    from derive.proof.statements import equation

    random = {a.tensor for a in statement.assumed if a.kind == "expected"}
    words = _words_of(statement, random)
    unfold = tuple(
        Definition(words.tensors[d.name][tuple(map(words.axis, d.axes))], words.expression(d.value))
        for d in statement.definitions
    )
    left, right = words.expression(statement.left), words.expression(statement.right)
    if random:
        left, right = (Total(CHANCE[OUTCOME] * side, OUTCOME) for side in (left, right))
    premises = [p for a in statement.assumed for p in _premises(a, words)]
    return equation("a statement", left, right, unfold, premises=tuple(premises))


def _premises(assumed: Assumed, words: _Words) -> list[Any]:
    """What is assumed of a tensor."""
    from derive.proof.statements import Premise, products_sum_to_delta, sums_to

    tensor = words.tensors[assumed.tensor]
    axes = [Axis(f"{letter}_", size) for letter, size in zip("abcd", tensor.shape, strict=False)]
    others = [Axis(f"{letter}2_", size) for letter, size in zip("abcd", tensor.shape, strict=False)]
    if assumed.kind == "sums_to_one":
        over = axes[assumed.over]
        return [sums_to(tensor[tuple(axes)], over, sp.S.One, f"{assumed.tensor} sums to one")]
    if assumed.kind == "products_sum_to_delta":
        over = axes[assumed.over]
        others[assumed.over] = over
        other = words.tensors[assumed.other][tuple(others)]
        return [products_sum_to_delta(tensor[tuple(axes)], other, over, "inverse")]
    if assumed.kind == "square_is":
        square = 1 - words.tensors[assumed.other][tuple(axes)] ** 2
        return [Premise("square", "equal", tensor[tuple(axes)] ** 2, square, tuple(axes))]
    axes[0], others[0] = OUTCOME, OUTCOME
    one, two, chance = tensor[tuple(axes)], tensor[tuple(others)], CHANCE[OUTCOME]
    deltas = sp.Mul(*map(Delta, axes[1:], others[1:]))
    return [
        Premise("chances", "equal", Total(chance, OUTCOME), sp.S.One),
        Premise("mean", "equal", Total(chance * one, OUTCOME), sp.S.Zero, tuple(axes[1:])),
        Premise("variance", "equal", Total(chance * one * two, OUTCOME), deltas, (*axes[1:], *others[1:])),
    ]


def _words_of(statement: Statement, random: Collection[str] = ()) -> _Words:
    """The tensors and parameters of a statement; random ones have an axis of outcomes, in front."""
    words = _Words({}, random)
    for x in (*statement.tensors, *statement.definitions):
        below = getattr(x, "below", None)
        least = -sp.oo if getattr(x, "negative", False) else sp.S.Zero
        within = None if below is None else (least, words.axis(below).size)
        first = (OUTCOME,) if x.name in random else ()
        words.tensors[x.name] = Tensor(x.name, *first, *map(words.axis, x.axes), values=x.kind, within=within)
    for parameter in statement.parameters:
        kind = {"integer": True} if parameter.integer else {"real": True}
        words.parameters[parameter.name] = sp.Symbol(parameter.name, **kind)
    return words
