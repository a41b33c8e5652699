"""Named models as data: which programs they are made of, how often, and the sizes of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.errors import DefinitionError


@dataclass(frozen=True)
class Part:
    """A program that a model uses: what for, how often, and sizes that differ from the model's."""

    label: str
    program: str
    times: int = 1
    sizes: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Configuration:
    """A model: sizes by the programs' names for them, and parts; ``inside`` are shares of a part, shown and not added.

    ``left_out`` says what else the published model has.
    """

    name: str
    sizes: Mapping[str, int]
    inside: tuple[Part, ...]
    parts: tuple[Part, ...]
    left_out: str = ""


def _llama(name: str, layers: int, width: int, members: int, hidden: int) -> Configuration:
    sizes = {"D": width, "H": 8, "G": members, "pairs": 64, "d_v": 128, "F": hidden, "T": 128256}
    return Configuration(
        name,
        sizes,
        (Part("the network of a layer", "swiglu"), Part("a layer", "llama_block")),
        (
            Part(f"{layers} layers", "llama_block", layers),
            Part("the last normalisation", "rms_norm"),
            Part("the embedding", "embedding"),
            Part("the unembedding", "unembedding"),
        ),
    )


_GPT3 = Configuration(
    "GPT-3 (Brown et al. 2020)",
    {"D": 12288, "H": 96, "d": 128, "d_v": 128, "F": 49152, "T": 50257},
    (
        Part("a head", "attention_head"),
        Part("the heads of a layer", "multi_head"),
        Part("the heads of 96 layers", "multi_head", 96),
        Part("the network of a layer", "gelu_tanh_mlp"),
        Part("the networks of 96 layers", "gelu_tanh_mlp", 96),
        Part("a layer", "gpt_block"),
    ),
    (
        Part("96 layers", "gpt_block", 96),
        Part("the last normalisation", "layer_norm"),
        Part("the embedding, tied", "embedding"),
        Part("positions", "embedding", 1, {"T": 2048}),
    ),
)

_BERT = Configuration(
    "BERT base (Devlin et al. 2018)",
    {"D": 768, "H": 12, "d": 64, "d_v": 64, "F": 3072, "T": 30522},
    (
        Part("a head", "attention_head"),
        Part("the heads of a layer", "multi_head"),
        Part("the network of a layer", "gelu_mlp"),
        Part("a layer", "bert_block"),
    ),
    (
        Part("12 layers", "bert_block", 12),
        Part("the first normalisation", "layer_norm"),
        Part("the embedding", "embedding"),
        Part("positions", "embedding", 1, {"T": 512}),
        Part("segments", "embedding", 1, {"T": 2}),
    ),
    "the pooler, a map and a shift of 768 × 768 + 768 weights",
)

CONFIGURATIONS: Mapping[str, Configuration] = {
    "gpt3": _GPT3,
    "llama3-8b": _llama("Llama 3 8B (Grattafiori et al. 2024)", 32, 4096, 4, 14336),
    "llama3-70b": _llama("Llama 3 70B (Grattafiori et al. 2024)", 80, 8192, 8, 28672),
    "bert-base": _BERT,
}


def configuration(name: str) -> Configuration:
    """The configuration of that name; an unknown name lists the known ones."""
    if name not in CONFIGURATIONS:
        raise DefinitionError(f"there is no configuration {name!r}; there are {', '.join(CONFIGURATIONS)}")
    return CONFIGURATIONS[name]
