"""The catalogue: what kernels and explanations of attention rely on, each as a statement with premises.

Statements are built from a program's own definitions and its derived gradients, so they speak of the code that is
generated, not of formulas typed in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from derive.forward.program import Program
from derive.proof.identities.algorithms import fused_identities, merging_identities, tiling_identities
from derive.proof.identities.attention import Attention, scores_are_products
from derive.proof.identities.centring import centring_identities
from derive.proof.identities.conventions import transposition_identities
from derive.proof.identities.decoding import decode_step_identities, prefill_identities
from derive.proof.identities.heads import head_identities, shared_keys, side_by_side
from derive.proof.identities.loss import cross_entropy_identities
from derive.proof.identities.norms import layer_norm_identities, rms_norm_identities
from derive.proof.identities.positions import rotary_identities, rotation_identities
from derive.proof.identities.routing import routing_identities
from derive.proof.identities.softmax import softmax_identities
from derive.proof.statements import Identity

OF_ATTENTION: Mapping[str, Callable[[Attention], Iterator[Identity]]] = {
    "softmax": softmax_identities,
    "routing": routing_identities,
    "centring": centring_identities,
    "algorithms": lambda a: (x for found in (fused_identities(a), tiling_identities(a)) for x in found),
}
"""Topics of every program that averages values by a softmax of scores."""

OF_PROGRAMS: Mapping[str, Mapping[str, Callable[[Program], Iterator[Identity]]]] = {
    "attention": {"algorithms": lambda program: merging_identities(), "matrix form": transposition_identities},
    "attention_head": {"matrix form": head_identities},
    "multi_head": {"structure": side_by_side},
    "cross_attention": {"structure": side_by_side},
    "grouped_query": {"structure": shared_keys},
    "multi_query": {"structure": shared_keys},
    "rope_attention": {"positions": rotary_identities},
    "rope_interleaved_attention": {"positions": rotary_identities},
    "rotary_embedding": {"positions": rotation_identities},
    "rotary_embedding_interleaved": {"positions": rotation_identities},
    "layer_norm": {"norms": layer_norm_identities},
    "rms_norm": {"norms": rms_norm_identities},
    "cross_entropy": {"loss": cross_entropy_identities},
    "prefill": {"algorithms": prefill_identities},
    "decode_step": {"algorithms": decode_step_identities},
}
"""Topics of single programs, by name."""


def identities(program: Program) -> tuple[Identity, ...]:
    """The identities of a program: those of its attention, if it is one, and its own."""
    found: list[Identity] = []
    attention = Attention.of(program)
    if attention is not None:
        for topic, statements in OF_ATTENTION.items():
            found += [replace(attention.known.stated(s), topic=topic) for s in statements(attention)]
    for topic, of_program in OF_PROGRAMS.get(program.name, {}).items():
        found += [replace(s, topic=topic) for s in of_program(program)]
    return tuple(found)


__all__ = ["identities", "scores_are_products"]
