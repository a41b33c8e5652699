"""Weights of named models and costs of kernels, both from shapes alone."""

from __future__ import annotations

import pytest
import sympy as sp

from derive.count import count, weights
from derive.errors import DefinitionError
from derive.forward import program
from derive.forward.configurations import CONFIGURATIONS, Configuration, Part, configuration
from derive.lower import cost
from derive.pipeline import kernel


def test_gpt3_counts_are_those_of_the_notes() -> None:
    inside, parts, total = count(configuration("gpt3"))
    maps = {c.label: c.maps for c in (*inside, *parts)}
    assert maps["a head"] == 6_291_456
    assert maps["the heads of a layer"] == 603_979_776
    assert maps["the heads of 96 layers"] == 57_982_058_496
    assert maps["the networks of 96 layers"] == 115_964_116_992
    assert maps["the embedding, tied"] == 617_558_016
    assert maps["96 layers"] == maps["the heads of 96 layers"] + maps["the networks of 96 layers"]
    assert total.all == sum(c.all for c in parts)


@pytest.mark.parametrize(
    ("name", "published"),
    [("llama3-8b", 8_030_261_248), ("llama3-70b", 70_553_706_496), ("bert-base", 109_482_240 - 590_592)],
)
def test_other_models_have_the_published_number_of_weights(name: str, published: int) -> None:
    """BERT's pooler is left out, and the output says so."""
    assert count(configuration(name))[2].all == published


def test_weights_are_what_is_learned_and_has_no_position() -> None:
    assert [i.name for i in weights(program("llama_block"))] == [
        *("weight_N1", "W_Q", "W_K", "W_V", "W_O", "weight_N2", "W_gate", "W_up", "W_down")
    ]
    assert weights(program("attention")) == ()


def test_a_configuration_that_lacks_a_size_or_is_unknown_says_so() -> None:
    with pytest.raises(DefinitionError, match="there is no configuration 'gpt9'; there are gpt3, llama3-8b"):
        configuration("gpt9")
    lacking = Configuration("x", {"D": 4}, (), (Part("a network", "swiglu"),))
    with pytest.raises(DefinitionError, match="swiglu: W_gate has size 'F', which the configuration lacks"):
        count(lacking)
    assert set(CONFIGURATIONS) == {"gpt3", "llama3-8b", "llama3-70b", "bert-base"}


def _sizes(*names: str) -> list[sp.Symbol]:
    return [sp.Symbol(n, integer=True, nonnegative=True) for n in names]


def test_products_of_attention_cost_what_everybody_counts() -> None:
    n, m, d, d_v = _sizes("n", "m", "d", "d_v")
    found = cost(kernel(program("attention").plain()))
    assert found.forward.products == 2 * n * m * d + 2 * n * m * d_v
    assert found.backward.products == 4 * n * m * d + 4 * n * m * d_v
    assert found.inputs == n * d + m * d + m * d_v
    assert found.outputs == n * d_v


def test_a_decode_step_grows_with_the_cache_and_not_with_its_square() -> None:
    m, d, d_v = _sizes("m", "d", "d_v")
    found = cost(kernel(program("decode_step").plain()))
    assert found.forward.products == 2 * m * d + 2 * m * d_v
    assert sp.Poly(found.forward.entrywise, m).degree() == 1
    chunk = cost(kernel(program("prefill").plain()))
    n = _sizes("n")[0]
    assert (
        chunk.forward.products == 2 * n * (m + n) * (d + d_v)
        or sp.expand(chunk.forward.products - 2 * n * (m + n) * (d + d_v)) == 0
    )
