"""The mistakes by name. To add one, write what people believe, why it is wrong, and the change it makes."""

from __future__ import annotations

import sympy as sp

from derive.algebra.binders import rewrite
from derive.algebra.tensors import is_gate
from derive.calculus import Derivation
from derive.errors import DefinitionError
from derive.mistakes.changes import (
    at,
    drop_factor,
    drop_term,
    first_alone,
    instead,
    neighbouring,
    replaced,
    sum_over,
    sum_wider,
    swap_axes,
    times,
    together,
    twice,
)
from derive.mistakes.mistake import Mistake, applies


def _hidden_at_the_cap(value: sp.Expr) -> sp.Expr:
    """The exponentials with −cap for hidden scores, visible like all others."""
    cap = sp.Symbol("cap", real=True)

    def rule(expr: sp.Expr) -> sp.Expr:
        factors = sp.Mul.make_args(expr)
        scores = [f.args[0] for f in factors if isinstance(f, sp.exp)]
        gates = [f for f in factors if is_gate(f)]
        if not (isinstance(expr, sp.Mul) and scores and gates):
            return expr
        rest = sp.Mul(*(f for f in factors if f not in gates))
        return rest / sp.exp(scores[0]) * sp.exp(sp.Mul(*gates) * (scores[0] + cap) - cap)

    return rewrite(value, rule)


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
        name="sink_without_a_gradient",
        title="A sink without a gradient",
        breaks="dT",
        belief="The sink has no value, so nothing flows back to it.",
        why="It takes weight from all others. Giving it less gives them more, and that is its gradient.",
        change=at("dT", times(0)),
        program="sink_attention",
    ),
    Mistake(
        name="average_of_another_head",
        title="The average of another head",
        breaks="dS",
        belief="The averages are computed beforehand, one for each query, and looked up.",
        why=(
            "There is one for each query and head. An index that is one head behind reads a number of the right size "
            "and the right kind, and every head but the first learns from another's."
        ),
        change=at("dS", neighbouring("r")),
        program="multi_head",
    ),
    Mistake(
        name="average_of_another_layer",
        title="The average of another layer",
        breaks="dS",
        belief="The averages of the last layer are still in memory, and have the right shape.",
        why=(
            "Going backward, the last layer is the one above. Its averages belong to its own weights and outputs; "
            "those of this layer have to be computed anew."
        ),
        change=at("dS", instead("r8", "r5")),
        program="encoder_decoder_block",
    ),
    Mistake(
        name="stale_keys",
        title="Keys that are one step old",
        breaks="dQ",
        belief="While one key is loaded, the one before it is worked on.",
        why=(
            "With two buffers, that holds only if loading and working change places in time. One step late, each "
            "score's gradient meets its neighbour's key, and the first key is used twice."
        ),
        change=at("dQ", neighbouring("K")),
    ),
    Mistake(
        name="mask_forgotten_again",
        title="Weights computed again without the mask",
        breaks="A",
        belief="The weights are the exponentials of the scores less `L`, and the scores are products.",
        why=(
            "Of visible keys only. A hidden score is a number like any other; computed again, it gets a weight, and "
            "keys and values that nobody saw get gradients."
        ),
        change=at("A", drop_factor("M")),
        place="recomputed",
    ),
    Mistake(
        name="top_left_for_bottom_right",
        title="Causal from the wrong corner, going back",
        breaks="M",
        belief="A query sees the keys up to its own position.",
        why=(
            "Its own position among the keys is shifted where a cache came before, or where queries and keys differ in "
            "number. The forward pass knew the offset; without it, the backward pass hides what was seen."
        ),
        change=at("M", replaced("offset", lambda _: sp.S.Zero)),
        program="causal_attention",
        place="recomputed",
    ),
    Mistake(
        name="window_off_by_one",
        title="A window that is one key short, going back",
        breaks="M",
        belief="A window of so many keys before the query begins that many keys before it.",
        why=(
            "Counted with or without its own position, it begins one key earlier or later. Where the two passes count "
            "differently, one key that was read gets no gradient."
        ),
        change=at("M", replaced("left", lambda left: left - 1)),
        program="window_attention",
        place="recomputed",
    ),
    Mistake(
        name="sink_outside_the_normaliser",
        title="A sink outside the normaliser",
        breaks="A",
        belief="The sink has no key, so the weights of the keys sum to one.",
        why="Together with the sink's. Computed again without it, every weight is too large.",
        change=at("A", drop_term("T")),
        program="sink_attention",
        place="recomputed",
    ),
    Mistake(
        name="top_left_throughout",
        title="Causal from the wrong corner, in both passes",
        breaks="M",
        belief="Causal means the keys up to the query's position.",
        why=(
            "Two conventions have that name, and they differ where queries and keys differ in number. Both passes "
            "agree with each other, and with nobody who uses the other one."
        ),
        change=at("M", replaced("offset", lambda _: sp.S.Zero)),
        program="causal_attention",
        place="together",
    ),
    Mistake(
        name="window_off_by_one_throughout",
        title="A window that is one key short, in both passes",
        breaks="M",
        belief="A window of so many keys before the query begins that many keys before it.",
        why="Counted with or without its own position. The gradients are right, of another window.",
        change=at("M", replaced("left", lambda left: left - 1)),
        program="window_attention",
        place="together",
    ),
    Mistake(
        name="one_softmax_throughout",
        title="One softmax for the whole matrix, in both passes",
        breaks="A",
        belief="Softmax turns the scores into weights that sum to one.",
        why=(
            "The weights of each query do. Over the whole matrix, queries compete with each other; the gradients of "
            "that are right, and of a program that nobody asked for."
        ),
        change=together(at("A", sum_wider("i")), at("L", sum_wider("i"))),
        place="together",
    ),
    Mistake(
        name="scale_forgotten_throughout",
        title="The scale forgotten in both passes",
        breaks="S",
        belief="A constant scale changes nothing that training would not learn.",
        why="Wide heads then start with weights near zero and one, where the softmax has hardly a gradient.",
        change=at("S", drop_factor("scale")),
        place="together",
    ),
    Mistake(
        name="capped_after_masking",
        title="Scores capped after masking",
        breaks="A",
        belief="The cap is the last thing that happens to a score.",
        why=(
            "A hidden score is minus infinity, and the cap makes it minus the cap: a small weight, but a weight. Masks "
            "come after caps."
        ),
        change=together(at("A", _hidden_at_the_cap), at("L", _hidden_at_the_cap)),
        program="softcap_attention",
        place="together",
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
