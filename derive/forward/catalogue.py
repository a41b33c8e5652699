"""The programs by name, as the command line knows them; a user's file adds its own."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Callable
from pathlib import Path

from derive.errors import DefinitionError, DeriveError
from derive.forward import attention, blocks, decoding, heads, loss, mlp, norms, positions, scores, visibility
from derive.forward.program import Program

_PROGRAMS: dict[str, Callable[[], Program]] = {
    made.__name__: made
    for made in (
        attention.attention,
        visibility.causal_attention,
        visibility.window_attention,
        visibility.prefix_attention,
        visibility.document_attention,
        visibility.longformer_attention,
        visibility.alternating_attention,
        visibility.dilated_attention,
        visibility.block_sparse_attention,
        visibility.reformer_attention,
        visibility.adaptive_span_attention,
        visibility.linformer_attention,
        scores.softcap_attention,
        scores.learned_scale_attention,
        scores.temperature_attention,
        scores.sigmoid_attention,
        scores.relu_attention,
        scores.squared_attention,
        scores.dropout_attention,
        scores.sink_attention,
        scores.differential_attention,
        heads.attention_head,
        heads.multi_head,
        heads.cross_attention,
        heads.grouped_query,
        heads.multi_query,
        heads.latent_attention,
        positions.rope_attention,
        positions.rope_interleaved_attention,
        positions.rotary_embedding,
        positions.rotary_embedding_interleaved,
        positions.alibi_attention,
        positions.relative_bias_attention,
        positions.dual_chunk_attention,
        norms.layer_norm,
        norms.rms_norm,
        mlp.gelu_mlp,
        mlp.gelu_tanh_mlp,
        mlp.swiglu,
        loss.softmax_rows,
        loss.embedding,
        loss.unembedding,
        loss.cross_entropy,
        decoding.prefill,
        decoding.decode_step,
        blocks.gpt_block,
        blocks.bert_block,
        blocks.llama_block,
        blocks.encoder_decoder_block,
        blocks.language_model,
    )
}

_OWN: dict[str, Program] = {}

MODE_SUFFIXES = ("_tangent", "_double_backward", "_hessian_vector")
"""How the names of programs end that are made from others; no program of its own may be named like that."""


def names() -> tuple[str, ...]:
    """The names of the programs that come with the package, in order."""
    return tuple(_PROGRAMS)


def program(name: str) -> Program:
    """The program of that name, or the one that a Python file defines; an unknown name lists the known ones.

    A file is run, so give only files that you would run yourself.
    """
    if name in _OWN:
        return _OWN[name]
    if name in _PROGRAMS:
        return _PROGRAMS[name]()
    if name.endswith(".py"):
        return from_file(Path(name))
    raise DefinitionError(
        f"there is no program {name!r}; there are {', '.join(_PROGRAMS)}, or give a .py file of your own"
    )


def from_file(path: Path) -> Program:
    """Run a Python file and take the one :class:`Program` that it defines at top level; add it to the catalogue.

    Raises
    ------
    DefinitionError: the file is missing, fails (the message points at its line), or defines no program or several.
    """
    if not path.is_file():
        raise DefinitionError(f"there is no file {path}")
    try:
        scope = runpy.run_path(str(path))
    except DeriveError as error:
        raise DefinitionError(f"{_where(path, error)}: {error}") from None
    except Exception as error:
        raise DefinitionError(f"{_where(path, error)}: {type(error).__name__}: {error}") from error
    found = {id(value): value for value in scope.values() if isinstance(value, Program)}
    if len(found) != 1:
        listed = ", ".join(p.name for p in found.values()) or "none"
        raise DefinitionError(
            f"{path} defines {len(found)} programs ({listed}); end with: program = p.output(…).build()"
        )
    own = next(iter(found.values()))
    if own.name in _PROGRAMS:
        raise DefinitionError(f"{path}: the name {own.name!r} is taken by the package; choose another")
    if not own.name.isidentifier():
        raise DefinitionError(f"{path}: the name {own.name!r} cannot name a module; use letters, digits and _")
    if own.name.endswith(MODE_SUFFIXES):
        raise DefinitionError(f"{path}: the name {own.name!r} ends like a mode of another program; choose another")
    _OWN[own.name] = own
    return own


def _where(path: Path, error: BaseException) -> str:
    """The file and the line of it that failed."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    return f"{path}, line {lines[-1]}" if lines else str(path)
