"""The page of all programs: what each is derived, proved and generated from, and how many operations it takes.

Gradients, identities and fingerprints are found out while the page is made: a program that could not be derived, or
whose fingerprint failed, would stop it. What runs where is what the tests run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from derive.document.evidence import settled
from derive.document.hand_forms import HAND_FORMS, operations_in
from derive.errors import AlgebraError, ProofError
from derive.forward import names, program
from derive.modes import COMMITTED, taken_apart
from derive.pipeline import derivation, kernel
from derive.printers.module import module_source
from derive.proof.checks import compacting_changed_nothing, compactness, exactness, forward_mode_agrees

SYSTEMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Scaled dot-product attention", ("attention", "causal_attention")),
    ("The head of the notes, with projections and residual", ("attention_head",)),
    ("Multi-head attention, self and cross", ("multi_head", "cross_attention")),
    ("Grouped-query and multi-query attention (GQA, MQA)", ("grouped_query", "multi_query")),
    ("Latent attention (MLA)", ("latent_attention",)),
    ("Rotary positions (RoPE)", ("rope_attention", "rope_interleaved_attention", "rotary_embedding")),
    ("Rotary positions, pairs lying together", ("rotary_embedding_interleaved",)),
    ("Linear biases (ALiBi), learned relative biases", ("alibi_attention", "relative_bias_attention")),
    ("Dual-chunk positions (Qwen2.5-1M)", ("dual_chunk_attention",)),
    ("Softcap, learned scale, temperature", ("softcap_attention", "learned_scale_attention", "temperature_attention")),
    ("Sinks", ("sink_attention",)),
    ("Sigmoid, ReLU and squared attention", ("sigmoid_attention", "relu_attention", "squared_attention")),
    ("Differential attention", ("differential_attention",)),
    ("Dropout with a given keep mask", ("dropout_attention",)),
    ("Sliding window, prefix, documents", ("window_attention", "prefix_attention", "document_attention")),
    ("Longformer: window and global positions", ("longformer_attention",)),
    ("GPT-3: dense and banded layers in turn", ("alternating_attention", "language_model")),
    ("Dilated and block-sparse attention", ("dilated_attention", "block_sparse_attention")),
    ("Reformer: buckets, shared queries and keys", ("reformer_attention",)),
    ("Adaptive span", ("adaptive_span_attention",)),
    ("Linformer: low-rank keys and values", ("linformer_attention",)),
    ("Softmax of rows", ("softmax_rows",)),
    ("LayerNorm, RMSNorm", ("layer_norm", "rms_norm")),
    ("GELU and SwiGLU networks", ("gelu_mlp", "gelu_tanh_mlp", "swiglu")),
    ("Embedding, unembedding", ("embedding", "unembedding")),
    ("Next-token loss", ("cross_entropy",)),
    ("Blocks of GPT, BERT and Llama 3", ("gpt_block", "bert_block", "llama_block")),
    ("Encoder and decoder", ("encoder_decoder_block",)),
    ("Key/value cache: prefill and decoding", ("prefill", "decode_step")),
)
"""What the notes and the guide name, and the programs that spell it."""

ELSEWHERE = (
    ("FlashAttention", "computes attention in tiles: the schedule here is dense; L and rowsum(dO ∘ O) are derived"),
    ("Ring Attention", "computes attention in rounds on several machines: not generated"),
)
"""What the notes name that is a way to compute a program, not a program."""


def programs_page() -> str:
    """The page as Markdown."""
    missing = set(names()) - {name for _, listed in SYSTEMS for name in listed}
    if missing:
        raise ProofError(f"the page of programs does not list {', '.join(sorted(missing))}")
    return "\n".join([*_head(), *_systems(), *_counts()]) + "\n"


def _head() -> Iterator[str]:
    yield "# Programs"
    yield ""
    yield "Made by `backprove document`; do not edit. `backprove derive NAME` prints any of them."
    yield ""


def _systems() -> Iterator[str]:
    yield "## What is derived, and what that rests on"
    yield ""
    yield "- *identities*: how many are proved for all sizes ([the page of identities](identities.md) lists them)."
    yield "- *compact*: the compact gradients equal the bare chain rule at a random point of a finite field, or in"
    yield "  rational numbers (exact) where a maximum is taken, as a finite field has no order."
    yield "- *forward mode*: reverse mode agrees with dual numbers, in rational numbers (exact) or in that field."
    yield "- *modes*: those that come as generated code; every mode of every program can be generated."
    yield "- NumPy modules are run by the tests against the definitions. CuPy modules are the same text over another"
    yield "  namespace; without a GPU they are generated and not measured."
    yield ""
    yield "| system | program | gradients | identities | compact | forward mode | modes | NumPy | CuPy | documented |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for system, listed in SYSTEMS:
        for number, name in enumerate(listed):
            yield f"| {system if number == 0 else ''} | {_row(name)} |"
    yield ""
    for name, why in ELSEWHERE:
        yield f"- {name} {why}."
    yield ""


def _row(name: str) -> str:
    source = program(name)
    made = derivation(source)
    proved = [v for v in settled(name) if v.word == "proved"]
    if any(v.as_stated is False for v in settled(name)):
        raise ProofError(f"{name}: an identity is not as stated, so the page may not list it")
    modes = [mode.replace("-", " ") for base, mode in map(taken_apart, COMMITTED) if base == name]
    formulas = "formulas, worked example" if name in ("attention", "causal_attention") else "formulas"
    cells = (
        f"`{name}`",
        str(len(made.derived.outputs)),
        str(len(proved)) if proved else "–",
        _found(lambda: compacting_changed_nothing(made) == [], compactness(made.forward)),
        _found(lambda: forward_mode_agrees(made), exactness(made.forward)),
        ", ".join(modes) or "–",
        "runs",
        "generated",
        formulas,
    )
    return " | ".join(cells)


def _found(check: Callable[[], bool], word: str) -> str:
    """The word that a check earns, or why it says nothing."""
    try:
        holds = check()
    except AlgebraError as reason:
        return f"not possible: {reason}"
    if not holds:
        raise ProofError("a gradient is wrong; run: backprove verify")
    return word


def _counts() -> Iterator[str]:
    yield "## Array operations"
    yield ""
    yield "Forward and backward pass of the plain program, counted by one rule in the generated NumPy code and in what"
    yield "people write by hand (`derive/document/hand_forms.py`): arithmetic, comparisons and calls that touch arrays."
    yield ""
    yield "| program | derived | by hand |"
    yield "|---|---|---|"
    for name, hand in HAND_FORMS.items():
        made = kernel(program(name).plain())
        own = operations_in(module_source(made, made.operations, "numpy"))
        yield f"| `{name}` | {own} | {operations_in(hand)} |"
