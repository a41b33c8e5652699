"""The mistakes by name. To add one, write what people believe, why it is wrong, and the change it makes."""

from __future__ import annotations

import sympy as sp

from derive.calculus import Derivation
from derive.errors import DefinitionError
from derive.mistakes.changes import (
    at,
    drop_factor,
    drop_term,
    first_alone,
    instead,
    replaced,
    sum_over,
    swap_axes,
    times,
    together,
    twice,
)
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
    Mistake(
        name="weights_lost_in_values",
        title="The weights forgotten on the way back to V",
        breaks="dV",
        belief="Every query that sees a key sends its gradient to the value there.",
        why="It sends its gradient times its weight: what was hardly read hardly learns.",
        change=at("dV", drop_factor("A")),
        violates="value gradients sum to the output gradient",
    ),
    Mistake(
        name="mask_leak",
        title="Hidden scores that get a gradient",
        breaks="dS",
        belief="What a score gains is how much better its value is than the average.",
        why=(
            "It gains that times its weight, and a hidden key has none. Without the weight, gradient leaks to what "
            "nobody may see, and hidden keys learn."
        ),
        change=at("dS", drop_factor("A")),
        violates="a hidden score has gradient zero",
    ),
    Mistake(
        name="queries_and_keys_swapped",
        title="The gradients of scores given to queries and keys the wrong way round",
        breaks="dQ",
        belief="Scores are products of queries and keys, so either gradient is the scores' gradients times the other.",
        why=(
            "It is, but with a transpose on one side: `dS` sums over keys for a query, and over queries for a key. In "
            "self-attention the shapes fit either way."
        ),
        change=together(at("dQ", swap_axes("dS")), at("dK", swap_axes("dS"))),
        violates="scale balance",
    ),
    Mistake(
        name="group_not_summed",
        title="The group not summed",
        breaks="dK",
        belief="Each query head has its key head, and the gradient goes there.",
        why="Several query heads read one key head, and all of them teach it: the gradient is the sum over the group.",
        change=at("dK", first_alone("G")),
        program="grouped_query",
    ),
    Mistake(
        name="turned_the_same_way",
        title="A rotation that goes on turning",
        breaks="dX",
        belief="A rotation is linear, so its backward pass is the same rotation.",
        why="It is the transposed one, which turns back by the same angle.",
        change=at("dX", replaced("sin", lambda entry: -entry)),
        program="rotary_embedding",
    ),
    Mistake(
        name="mean_forgotten",
        title="A layer norm that treats its mean as a constant",
        breaks="dX",
        belief="Mean and deviation are statistics, so they get no gradient.",
        why="They move with every coordinate; without the mean's part, a shift of all coordinates gets a gradient.",
        change=at("dX", drop_term("r")),
        violates="state gradients of layer norm are centred",
        program="layer_norm",
    ),
    Mistake(
        name="weight_twice",
        title="The weight of a normalisation applied twice",
        breaks="dnormed_Y",
        belief="The weight multiplies on the way there, and once more on the way back.",
        why="It multiplies the gradient once. Twice shows only where weights differ from one: never on the first day.",
        change=at("dnormed_Y", twice("weight")),
        program="rms_norm",
    ),
    Mistake(
        name="residual_forgotten",
        title="The residual forgotten",
        breaks="dH",
        belief="What the head adds is what it learns from.",
        why="The states go on unchanged beside the head, and their gradient comes back unchanged beside it.",
        change=at("dH", drop_term("dY")),
        program="attention_head",
    ),
    Mistake(
        name="scale_squared",
        title="The scale applied twice",
        breaks="dQ",
        belief="The score was scaled, so the gradient is scaled, and so is the key that it meets.",
        why="The key that it meets is the key as it is. Twice is a kernel that scales queries in place.",
        change=at("dQ", twice("scale")),
        violates="scale balance",
    ),
    Mistake(
        name="scale_on_the_bias",
        title="The scale on the bias",
        breaks="dbias",
        belief="Score and bias are one number, and what flows back through it is scaled.",
        why="The bias is added after scaling: its gradient is the score's own.",
        change=at("dbias", times(sp.Symbol("scale", real=True))),
    ),
    Mistake(
        name="capped_score_in_the_slope",
        title="The slope of a softcap from the finished score",
        breaks="dS_1",
        belief="The slope of tanh is one minus its value squared, and the score is its value.",
        why="The score is the value times the cap, with the bias added; hidden, it is not even finite.",
        change=at("dS_1", instead("S_2", "S")),
        program="softcap_attention",
    ),
    Mistake(
        name="cotangent_of_l_ignored",
        title="The gradient of L ignored",
        breaks="r",
        belief="L is a by-product that the backward pass uses; nobody differentiates it.",
        why="Who merges partial results or regularises L does, and each score then gets its weight times that.",
        change=at("r", drop_term("dL")),
        violates="score gradients sum to the cotangent of L",
    ),
    Mistake(
        name="row_sum_after_dropout",
        title="The average taken over weights after dropout",
        breaks="r",
        belief="The weights that were used are the weights after dropout.",
        why="The softmax gave the weights before it, and its derivative averages with those.",
        change=at("r", instead("A", "W")),
        program="dropout_attention",
    ),
    Mistake(
        name="sink_outside_the_normaliser",
        title="A sink without a gradient",
        breaks="dT",
        belief="The sink has no value, so nothing flows back to it.",
        why="It takes weight from all others. Giving it less gives them more, and that is its gradient.",
        change=at("dT", times(0)),
        program="sink_attention",
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
