"""The mistakes by name. To add one, write what people believe, why it is wrong, and the change it makes."""

from __future__ import annotations

from derive.calculus import Derivation
from derive.errors import DefinitionError
from derive.mistakes.changes import at, drop_factor, sum_over, swap_axes
from derive.mistakes.mistake import Mistake, applies

MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="values_untransposed",
        title="The transpose forgotten on the way back to V",
        breaks="dV",
        belief="The forward pass multiplies by `A`, so the backward pass multiplies by `A`.",
        why=(
            "A value collects from every query that read it, so the sum has to run over the queries. As it stands, `A` "
            "sums over the keys, and what comes out belongs to queries. The shapes object only where queries "
            "and keys differ in number; in self-attention they never do."
        ),
        change=at("dV", swap_axes("A")),
        violates="value gradients sum to the output gradient",
    ),
    Mistake(
        name="one_softmax_for_all_queries",
        title="One softmax for all queries",
        breaks="dS",
        belief="Softmax is a function of the score matrix, so one weighted average is subtracted everywhere.",
        why=(
            "Each query has a softmax of its own, which answers to its own scores and to nobody else's. What is "
            "subtracted is that query's average; the total over all queries is right only where there is one query."
        ),
        change=at("dS", sum_over("r", "i")),
        violates="score gradients sum to zero",
    ),
    Mistake(
        name="scale_lost_in_queries",
        title="The scale forgotten on the way back to Q",
        breaks="dQ",
        belief="Nobody trains the scale. A constant has no gradient, so the backward pass can leave it out.",
        why=(
            "That nothing is learned there is true and beside the point: a score moves by the scale times what the "
            "product of query and key moves, so whatever flows back through a score is scaled too. Only the length "
            "comes out wrong, and a test that looks at directions, such as cosine similarity, lets it through."
        ),
        change=at("dQ", drop_factor("scale")),
        violates="scale balance",
    ),
)

_BY_NAME = {m.name: m for m in MISTAKES}
if len(_BY_NAME) != len(MISTAKES):
    raise DefinitionError("two mistakes have the same name; every mistake is listed once")


def names() -> tuple[str, ...]:
    """The names of all mistakes, in order."""
    return tuple(_BY_NAME)


def mistake(name: str) -> Mistake:
    """The mistake of that name; an unknown name is an error that lists the known ones."""
    if name not in _BY_NAME:
        raise DefinitionError(f"there is no mistake {name!r}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def mistakes_for(derivation: Derivation) -> tuple[Mistake, ...]:
    """The mistakes that can be made in a derivation."""
    return tuple(m for m in MISTAKES if applies(m, derivation))
