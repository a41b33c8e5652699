"""Whole blocks: attention and a position-wise network, each added to the states that it reads; and models of them."""

from __future__ import annotations

from functools import cache

import sympy as sp

from derive.algebra import Axis, Indicator, Tensor, Total
from derive.forward.attention import c, v
from derive.forward.builder import Builder
from derive.forward.heads import MEANING, attended, head, member, source
from derive.forward.loss import mean_loss, t
from derive.forward.mlp import gated_network, gelu_tanh, network
from derive.forward.norms import epsilon, i, layer_normed, rms_normed, x
from derive.forward.positions import pair, rotated, side, turning_base, waves
from derive.forward.program import Program
from derive.forward.softmax import softmax

memory = Axis("k", "m")
"""The positions of the sequence that an encoder has read."""

BLOCK = MEANING | {
    "i": "positions",
    "j": "positions seen",
    "f": "hidden units",
    "p": "pairs",
    "s": "members of a pair",
    "t": "tokens",
}


def _normed(p: Builder, name: str, X: Tensor, eps: sp.Expr) -> Tensor:
    """Layer normalisation with a weight and a shift of its own."""
    weight = p.input(f"weight_{name}", x, meaning=f"multiplies each coordinate of {name}")
    shift = p.input(f"shift_{name}", x, meaning=f"added to each coordinate of {name}")
    return layer_normed(p, name, X, weight, shift, eps)


def _rms(p: Builder, name: str, X: Tensor, eps: sp.Expr) -> Tensor:
    """Root-mean-square normalisation with a weight of its own."""
    weight = p.input(f"weight_{name}", x, meaning=f"multiplies each coordinate of {name}")
    return rms_normed(p, name, X, weight, eps)


def _self_attended(p: Builder, X: Tensor, visible: sp.Expr) -> sp.Expr:
    """The update of multi-head self-attention with biases."""
    return attended(p, X, X, source, visible, 1 / sp.sqrt(c.size), biases=True)


def gpt_layer(p: Builder, X: Tensor, eps: sp.Expr, visible: sp.Expr) -> Tensor:
    """Define ``Y``: each half reads normalised states and is added to them as they were."""
    X1 = p.define("X1", (i, x), X[i, x] + _self_attended(p, _normed(p, "N1", X, eps), visible))
    return p.define("Y", (i, x), X1[i, x] + network(p, _normed(p, "N2", X1, eps), gelu_tanh))


@cache
def gpt_block() -> Program:
    """Pre-LayerNorm, causal multi-head attention, GELU (Radford et al. 2019)."""
    p = Builder("gpt_block", "A block of GPT: pre-LayerNorm, causal multi-head attention, GELU.")
    X = p.input("X", i, x, meaning="states")
    gpt_layer(p, X, epsilon(p), _causal(p)[i, source])
    return p.output("Y", "updated states").build(axis_meaning=BLOCK)


def _causal(p: Builder) -> Tensor:
    return p.define("M", (i, source), Indicator(source <= i), values="boolean")


@cache
def bert_block() -> Program:
    """Post-LayerNorm, multi-head attention to all that is not padding, GELU (Devlin et al. 2018)."""
    p = Builder("bert_block", "A block of BERT: multi-head attention with a padding mask, GELU, post-LayerNorm.")
    X = p.input("X", i, x, meaning="states")
    real = p.input("real", source, meaning="True where position j is a token, not padding", values="boolean")
    eps = epsilon(p)
    X1 = p.define("X1", (i, x), X[i, x] + _self_attended(p, X, real[source]))
    N1 = _normed(p, "N1", X1, eps)
    X2 = p.define("X2", (i, x), N1[i, x] + network(p, N1, gelu_tanh))
    _normed(p, "Y", X2, eps)
    return p.output("Y", "updated states").build(axis_meaning=BLOCK)


@cache
def encoder_decoder_block() -> Program:
    """A decoder's block: causal self-attention, then attention to what the encoder gave (Vaswani et al. 2017)."""
    p = Builder(
        "encoder_decoder_block", "A decoder's block: causal self-attention, cross-attention, GELU, post-LayerNorm."
    )
    X = p.input("X", i, x, meaning="states")
    C = p.input("C", memory, x, meaning="the encoder's states")
    real = p.input("real", memory, meaning="True where the encoder's position k is a token", values="boolean")
    eps = epsilon(p)
    X1 = p.define("X1", (i, x), X[i, x] + _self_attended(p, X, _causal(p)[i, source]))
    N1 = _normed(p, "N1", X1, eps)
    cross = p.part("cross")
    X2 = p.define(
        "X2", (i, x), N1[i, x] + attended(cross, N1, C, memory, real[memory], 1 / sp.sqrt(c.size), biases=True)
    )
    N2 = _normed(p, "N2", X2, eps)
    X3 = p.define("X3", (i, x), N2[i, x] + network(p, N2, gelu_tanh))
    _normed(p, "Y", X3, eps)
    return p.output("Y", "updated states").build(axis_meaning=BLOCK | {"k": "the encoder's positions"})


def _llama_attended(p: Builder, X: Tensor, turning: tuple[sp.Expr, sp.Expr], visible: sp.Expr) -> sp.Expr:
    """The update of grouped-query attention with rotary positions."""
    heads, width = (head, member), (side, pair)
    W_Q = p.input("W_Q", x, heads, width, meaning="the queries' maps")
    W_K = p.input("W_K", x, head, width, meaning="the keys' maps, one for each group")
    W_V = p.input("W_V", x, head, v, meaning="the values' maps, one for each group")
    W_O = p.input("W_O", heads, v, x, meaning="the output map of each head")
    Q = p.define("Q", (*heads, i, *width), Total(X[i, x] * W_Q[(x, *heads, *width)], x))
    K = p.define("K", (head, i, *width), Total(X[i, x] * W_K[(x, head, *width)], x))
    V = p.define("V", (head, source, v), Total(X[source, x] * W_V[x, head, v], x))
    Q_turned = p.define("Q_turned", (*heads, i, *width), rotated(Q, (*heads, i), "half", *turning))
    K_turned = p.define("K_turned", (head, i, *width), rotated(K, (head, i), "half", *turning))
    products = Total(Q_turned[(*heads, i, *width)] * K_turned[(head, source, *width)], *width)
    S = p.define("S", (*heads, i, source), products / sp.sqrt(2 * pair.size))
    A = p.define("A", (*heads, i, source), softmax(S[(*heads, i, source)], over=source, visible=visible))
    O = p.define("O", (*heads, i, v), Total(A[(*heads, i, source)] * V[head, source, v], source))
    return Total(O[(*heads, i, v)] * W_O[(*heads, v, x)], *heads, v)


def llama_layer(p: Builder, X: Tensor, eps: sp.Expr, turning: tuple[sp.Expr, sp.Expr], visible: sp.Expr) -> Tensor:
    """Define ``Y``: each half reads normalised states and is added to them as they were."""
    X1 = p.define("X1", (i, x), X[i, x] + _llama_attended(p, _rms(p, "N1", X, eps), turning, visible))
    return p.define("Y", (i, x), X1[i, x] + gated_network(p, _rms(p, "N2", X1, eps)))


@cache
def llama_block(layers: int = 1) -> Program:
    """RMSNorm, rotary positions, grouped-query attention, SwiGLU (Llama 3); ``layers`` of them one after another."""
    name = "llama_block" if layers == 1 else f"llama_block_{layers}"
    p = Builder(name, "A block of Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU.")
    X = p.input("X", i, x, meaning="states")
    position = p.input("position", i, meaning="the position of each state", constant=True)
    eps, base = epsilon(p), turning_base(p)
    turning, M = waves(p, "x", position[i], i, base), _causal(p)
    last = X
    for number in range(1, layers + 1):
        last = llama_layer(p if layers == 1 else p.part(number), last, eps, turning, M[i, source])
    return p.output(str(last.name), "updated states").build(axis_meaning=BLOCK)


@cache
def language_model(layers: int = 2, *, tied: bool = True) -> Program:
    """A small GPT with its loss: tokens and positions embedded, blocks, a last LayerNorm, logits, cross-entropy.

    Layers see all earlier positions and the last ``window`` of them in turn, as in GPT-3 (Brown et al. 2020).
    """
    name = "language_model" if (layers, tied) == (2, True) else f"language_model_{layers}{'' if tied else '_untied'}"
    p = Builder(name, "A language model: embedding, GPT blocks, dense and banded in turn, logits and loss.")
    tokens = p.input("tokens", i, meaning="token numbers", values="integer", below=t)
    targets = p.input(
        "targets", i, meaning="the right tokens; negative ones are ignored", values="integer", below=t, negative=True
    )
    W_E = p.input("W_E", t, x, meaning="one row for each token of the vocabulary")
    W_P = p.input("W_P", i, x, meaning="one row for each position")
    eps = epsilon(p)
    window = p.parameter("window", 2, "how many positions a banded layer sees, its own among them", integer=True)
    temperature = p.parameter("temperature", 1, "divides the logits")
    dense = _causal(p)
    banded = p.define("M_banded", (i, source), dense[i, source] * Indicator(source > i - window), values="boolean")
    X = p.define("X", (i, x), W_E[tokens[i], x] + W_P[i, x])
    for number in range(1, layers + 1):
        visible = dense if number % 2 else banded
        X = gpt_layer(p.part(number), X, eps, visible[i, source])
    N = _normed(p, "N_out", X, eps)
    W_U = W_E if tied else p.input("W_U", t, x, meaning="one row of logits for each token")
    Z = p.define("Z", (i, t), Total(N[i, x] * W_U[t, x], x))
    mean_loss(p, Z, targets, temperature)
    return p.output("loss", "the mean over counted positions", statistic=True).build(axis_meaning=BLOCK)
