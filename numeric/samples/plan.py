"""The plan: what each sample is for, as a table, and the samples of any program that follow from it.

Everything is chosen from a program's definitions: its sizes, parameters and the kinds of its inputs. No program has
samples of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from derive.forward.program import Program
from numeric.arguments import Shape
from numeric.oracle.calls import signature_of
from numeric.samples import parameters as chosen
from numeric.samples.defined import is_defined, looks_up, needs_positive
from numeric.samples.sample import Sample
from numeric.samples.sizes import Lengths, Sizes
from numeric.samples.values import Values


@dataclass(frozen=True)
class Takes:
    """What a kernel takes.

    dtypes: those of its real inputs. leading: how many leading axes. shared: inputs that never have any, such as
    weights. broadcasts: whether leading axes and optional inputs may be left out or have length 1 where others do not.
    parameters: those that it can be given, all if None.
    """

    dtypes: tuple[str, ...] = ("float64",)
    leading: tuple[int, ...] = (0, 1, 2)
    shared: tuple[str, ...] = ()
    broadcasts: bool = False
    parameters: tuple[str, ...] | None = None

    def axes(self, wanted: Shape) -> Shape:
        """Leading axes that the kernel takes, as many entries as wanted where that can be."""
        number = min(self.leading, key=lambda k: (abs(k - len(wanted)), k))
        if number >= len(wanted):
            return (1,) * (number - len(wanted)) + wanted
        return wanted[len(wanted) - number :]


@dataclass(frozen=True)
class Purpose:
    """A row of the plan: samples for one end.

    name: the end, as reports say it. why: what goes wrong there. sizes: the rule, one sample for each lengths that it
    gives. values: how entries are drawn. leading: the leading axes, taken in turn. given: which optional inputs;
    "turn" leaves some out in turn. parameters: left to their defaults, or away from them; "every" makes a sample for
    each of their values. cotangents: of all outputs, or of one output alone in turn. core: every property is asked.
    dtypes: a sample in each, or in one in turn. broadcasts: leading axes and optional inputs are repeated.
    """

    name: str
    why: str
    sizes: Callable[[Sizes], Iterable[Lengths]]
    values: Values = field(default_factory=Values)
    leading: tuple[Shape, ...] = ((),)
    given: Literal["none", "all", "turn"] = "turn"
    parameters: Literal["default", "away", "every"] = "default"
    cotangents: Literal["all", "turn"] = "all"
    core: bool = False
    dtypes: Literal["each", "turn"] = "turn"
    broadcasts: bool = False


PLAN: tuple[Purpose, ...] = (
    Purpose(
        "distinct sizes",
        "axes that are taken for each other",
        lambda s: [s.distinct()],
        given="none",
        core=True,
        dtypes="each",
    ),
    Purpose(
        "everything given",
        "optional inputs, parameters and batch entries that are ignored, the third and later ones above all",
        lambda s: [s.distinct(1), s.distinct(4)],
        leading=((4,),),
        given="all",
        parameters="away",
        core=True,
    ),
    Purpose(
        "two leading axes",
        "heads that are taken for batch entries, and cotangents of one output alone",
        lambda s: [s.distinct(2), s.distinct(3)],
        leading=((2, 3), (3, 2)),
        cotangents="turn",
        core=True,
    ),
    Purpose("equal sizes", "what is transposed, and has the right shape by accident", lambda s: s.square()),
    Purpose(
        "a size of 1",
        "axes that vanish, or are broadcast where they should be summed",
        lambda s: s.ones(),
        leading=((), (1,), (3,), (1, 2)),
        cotangents="turn",
    ),
    Purpose(
        "near 8, 16 and 64",
        "the last tile or vector register, where it is full, holds one entry, or lacks one",
        lambda s: s.tiles(),
        leading=((), (2,)),
    ),
    Purpose("a large size", "what is right only for short rows", lambda s: s.large()),
    Purpose("two large sizes", "blocks of scores that are skipped, or visited twice", lambda s: s.pairs()),
    Purpose(
        "parameters away from their defaults",
        "parameters that are ignored, on either side of what they are compared with",
        lambda s: [s.distinct(4)],
        leading=((), (2,)),
        parameters="every",
    ),
    Purpose(
        "saturated values",
        "scores that overflow an exponential or are clamped; weights that are 1, or too small to be kept",
        lambda s: [s.distinct(5), s.distinct(7)],
        values=Values(spread=10.0, visible=0.9),
    ),
    Purpose(
        "extreme values",
        "one key with all the weight, maxima that come late in a long row, and exponentials that overflow",
        lambda s: [s.distinct(6), *s.pairs((19, 67))],
        values=Values(spread=200.0, visible=0.9, positions=-2),
        given="none",
    ),
    Purpose(
        "small values",
        "what is added for safety, and absolute tolerances",
        lambda s: [s.distinct(7)],
        values=Values(spread=1e-3, cotangents=1e-3, integers="ends"),
    ),
    Purpose(
        "a large common mean",
        "variances that are differences of large numbers",
        lambda s: [s.distinct(8), s.distinct(11)],
        values=Values(offset=30.0, positions=2),
        given="none",
    ),
    Purpose(
        "zeros and whole numbers",
        "quotients by what may be 0, and ties",
        lambda s: [s.distinct(9)],
        values=Values(whole=True, zeros=0.3, integers="same"),
    ),
    Purpose(
        "nothing visible",
        "rows that see nothing, and keys that nobody sees",
        lambda s: [s.distinct(10)],
        values=Values(blind=True, visible=0.5),
        given="all",
        leading=((2,),),
    ),
    Purpose(
        "inputs that are broadcast",
        "gradients that are not summed over what their input is repeated along",
        lambda s: [s.distinct(11), s.distinct(12), s.distinct(13)],
        leading=((2, 3),),
        given="all",
        broadcasts=True,
    ),
)
"""What kernels are run on. Every row is there because kernels were wrong there and right elsewhere."""


def samples_of(program: Program, takes: Takes = Takes(), seed: int = 0) -> Iterator[Sample]:
    """The samples of a program for a kernel, the same for the same seed.

    Parameters
    ----------
    program: any program; what its definitions have no value at is left out.
    takes: what the kernel takes.
    seed: other numbers, and other sizes in each of the roles that the plan gives them.
    """
    sizes, turn = Sizes(program, seed), count(seed)
    plain = Sample(program.name, sizes.distinct(), seed=seed, own_leading=dict.fromkeys(takes.shared, ()))
    plain = replace(plain, values=replace(plain.values, positive=needs_positive(program, plain)))
    for purpose in PLAN:
        if purpose.broadcasts and not (takes.broadcasts and max(takes.leading) > 1):
            continue
        for lengths in purpose.sizes(sizes):
            for sample in _samples(purpose, program, takes, plain, lengths, turn):
                fitting = _fitting(program, sample)
                if fitting is not None:
                    yield fitting


def _samples(
    purpose: Purpose, program: Program, takes: Takes, plain: Sample, lengths: Lengths, turn: Iterator[int]
) -> Iterator[Sample]:
    given = [p for p in program.parameters if takes.parameters is None or p.name in takes.parameters]
    rounds = chosen.turns(given, lengths) if purpose.parameters == "every" else 1
    for k in range(rounds):
        now = next(turn)
        sample = replace(
            plain,
            sizes=lengths,
            leading=takes.axes(purpose.leading[now % len(purpose.leading)]),
            seed=1000 * plain.seed + now,
            given=_given(purpose, program, now),
            parameters={} if purpose.parameters == "default" else chosen.away(given, lengths, k),
            values=replace(purpose.values, positive=plain.values.positive),
            purpose=purpose.name,
            core=purpose.core,
        )
        if purpose.cotangents == "turn" and len(program.outputs) > 1:
            sample = replace(sample, cotangents=(program.outputs[now % len(program.outputs)].name,))
        if purpose.broadcasts:
            sample = _broadcast(program, sample, now)
        dtypes = takes.dtypes if purpose.dtypes == "each" else (takes.dtypes[now % len(takes.dtypes)],)
        yield from (replace(sample, dtype=name) for name in dtypes)


def _given(purpose: Purpose, program: Program, turn: int) -> tuple[str, ...]:
    """Which optional inputs are passed: in turn, every choice of them."""
    names = tuple(program.optional)
    if purpose.given == "turn":
        return tuple(name for k, name in enumerate(names) if turn >> k & 1)
    return names if purpose.given == "all" else ()


def _broadcast(program: Program, sample: Sample, turn: int) -> Sample:
    """Some inputs with fewer leading axes, or of length 1, and optional ones that are repeated along their first."""
    shapes = (sample.leading, sample.leading[1:], (1, *sample.leading[1:]), ())
    own = {given.name: shapes[(k + turn) % 4] for k, given in enumerate(program.inputs) if given.neutral is None}
    if all(shape != sample.leading for shape in own.values()):
        own[next(iter(own))] = sample.leading
    thin = tuple(s.name for s in signature_of(program).inputs if s.optional and s.stays_small and s.axes)
    return replace(sample, own_leading={**own, **sample.own_leading}, thin=thin[turn % 2 :])


def _fitting(program: Program, sample: Sample) -> Sample | None:
    """The sample, or one like it at which the definitions have a value: with other sizes, parameters as they are, or
    fewer zeros.

    Where entries are read at computed positions, a size may have to keep pace with another.
    """
    doubtful = sample.parameters or sample.values.zeros or looks_up(program)
    if not doubtful or is_defined(program, sample, differentiated=bool(sample.values.zeros)):
        return sample
    longest = max(sample.sizes.values())
    grown = [replace(sample, sizes={**sample.sizes, name: longest}) for name in sample.sizes]
    grown.append(replace(sample, sizes=dict.fromkeys(sample.sizes, longest)))
    fewer = [{n: v for n, v in sample.parameters.items() if n != name} for name in sample.parameters]
    tried = [*grown, *(replace(sample, parameters=left) for left in (*fewer, {}))]
    if sample.values.zeros:
        regimes = (replace(sample.values, zeros=0.0, positive=positive) for positive in (sample.values.positive, True))
        tried = [replace(sample, values=values) for values in regimes]
    return next((one for one in tried if is_defined(program, one)), None)
