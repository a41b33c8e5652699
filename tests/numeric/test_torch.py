"""PyTorch's own functions and autograd in float64 as a peer: outputs and gradients to 1e-10, relative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numeric

torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed; install backprove[peers]")
F = torch.nn.functional

Tensors = dict[str, Any]


def drawn(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def compare(program: str, inputs: Tensors, peer: Callable[[Tensors], Tensors], **parameters: Any) -> None:
    """Outputs of the peer and gradients of Σ ⟨cotangent, output⟩ by its autograd, against the kernel's."""
    kernel = numeric.load(program, "numpy")
    result = kernel.forward(**inputs, **parameters)
    real = {n: a.dtype == np.float64 for n, a in inputs.items()}
    tensors = {n: torch.tensor(a, requires_grad=real[n]) for n, a in inputs.items()}
    outputs = peer(tensors)
    rng = np.random.default_rng(99)
    cotangents = {n: rng.normal(size=tuple(o.shape)) for n, o in outputs.items()}
    sum((torch.tensor(c) * outputs[n]).sum() for n, c in cotangents.items()).backward()
    for name, output in outputs.items():
        close(result.outputs[name], output.detach().numpy(), name)
    gradients = kernel.backward(result, cotangents)
    for name, gradient in gradients.items():
        want = tensors[name].grad
        close(gradient, np.zeros_like(gradient) if want is None else want.numpy(), f"d{name}")


def close(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Relative to the largest entry, because entries near 0 are sums that cancel."""
    assert got.shape == want.shape, name
    worst = float(np.abs(got - want).max(initial=0.0))
    assert worst <= 1e-10 * max(float(np.abs(want).max(initial=0.0)), 1e-3), f"{name}: off by {worst}"


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_softmax(temperature: float) -> None:
    compare(
        "softmax_rows",
        drawn(1, X=(2, 5, 7)),
        lambda t: {"P": F.softmax(t["X"] / temperature, dim=-1)},
        temperature=temperature,
    )


def test_layer_norm() -> None:
    arrays = drawn(2, X=(3, 5, 7), weight=(7,), shift=(7,))
    compare("layer_norm", arrays, lambda t: {"Y": F.layer_norm(t["X"], (7,), t["weight"], t["shift"], 1e-5)})


def test_rms_norm() -> None:
    arrays = drawn(3, X=(3, 5, 7), weight=(7,))
    compare("rms_norm", arrays, lambda t: {"Y": F.rms_norm(t["X"], (7,), t["weight"], 1e-6)}, eps=1e-6)


def sdpa(**options: Any) -> Callable[[Tensors], Tensors]:
    return lambda t: {"O": F.scaled_dot_product_attention(t["Q"], t["K"], t["V"], **options)}


def test_scaled_dot_product_attention() -> None:
    arrays = drawn(4, Q=(2, 3, 5, 4), K=(2, 3, 7, 4), V=(2, 3, 7, 6))
    compare("attention", arrays, sdpa())
    compare("attention", arrays, sdpa(scale=0.3), scale=0.3)
    mask = np.random.default_rng(5).random((5, 7)) < 0.6
    mask[:, 0] = True
    compare("attention", {**arrays, "mask": mask}, sdpa(attn_mask=torch.tensor(mask)))


def test_causal_and_grouped_attention() -> None:
    arrays = drawn(6, Q=(2, 6, 5, 4), K=(2, 3, 5, 4), V=(2, 3, 5, 4))
    compare("causal_attention", {**arrays, "Q": arrays["Q"][:, :3]}, sdpa(is_causal=True))
    compare("grouped_query", arrays, sdpa(enable_gqa=True))


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_cross_entropy(temperature: float) -> None:
    """Ignored targets are negative for us, −100 for PyTorch."""
    targets = np.array([3, 0, -1, 6, 6, -1, 2])
    renamed = torch.tensor(np.where(targets < 0, -100, targets))
    peer = lambda t: {"loss": F.cross_entropy(t["Z"] / temperature, renamed)}  # noqa: E731
    compare("cross_entropy", {**drawn(7, Z=(7, 9)), "targets": targets}, peer, temperature=temperature)


def test_networks() -> None:
    arrays = drawn(8, X=(5, 4), W_up=(4, 9), b_up=(9,), W_down=(9, 4), b_down=(4,))

    def network(approximate: str) -> Callable[[Tensors], Tensors]:
        return lambda t: {
            "Y": F.gelu(t["X"] @ t["W_up"] + t["b_up"], approximate=approximate) @ t["W_down"] + t["b_down"]
        }

    compare("gelu_mlp", arrays, network("none"))
    compare("gelu_tanh_mlp", arrays, network("tanh"))
    gated = drawn(9, X=(5, 4), W_gate=(4, 9), W_up=(4, 9), W_down=(9, 4))
    compare("swiglu", gated, lambda t: {"Y": (F.silu(t["X"] @ t["W_gate"]) * (t["X"] @ t["W_up"])) @ t["W_down"]})


def turned(x: Any, position: Any) -> Any:
    """Rotary positions in the halves layout of a last axis, as Llama's own code does it."""
    half = x.shape[-1] // 2
    theta = position[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    cosine, sine = torch.cos(theta), torch.sin(theta)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def test_a_llama_block() -> None:
    n, width, groups, members, head, hidden = 5, 6, 2, 3, 4, 7
    arrays = drawn(
        10,
        X=(n, width),
        weight_N1=(width,),
        W_Q=(width, groups * members, head),
        W_K=(width, groups, head),
        W_V=(width, groups, head),
        W_O=(groups * members, head, width),
        weight_N2=(width,),
        W_gate=(width, hidden),
        W_up=(width, hidden),
        W_down=(hidden, width),
    )

    def block(t: Tensors) -> Tensors:
        normed = F.rms_norm(t["X"], (width,), t["weight_N1"], 1e-5)
        q, k, v = (torch.einsum("nx,xhc->hnc", normed, t[w]) for w in ("W_Q", "W_K", "W_V"))
        q, k = turned(q, t["position"]), turned(k, t["position"])
        heads = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
        x = t["X"] + torch.einsum("hnv,hvx->nx", heads, t["W_O"])
        normed = F.rms_norm(x, (width,), t["weight_N2"], 1e-5)
        return {"Y": x + (F.silu(normed @ t["W_gate"]) * (normed @ t["W_up"])) @ t["W_down"]}

    compare("llama_block", {**arrays, "position": np.arange(n, dtype=float)}, block)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's own forward mode imports it
def test_double_backward_and_tangents_of_attention() -> None:
    """Second derivatives by autograd of autograd, tangents by forward mode."""
    arrays = drawn(11, Q=(5, 4), K=(7, 4), V=(7, 6), grad_O=(5, 6))

    def gradients(t: Tensors) -> Tensors:
        # The mathematical implementation: the fused ones refuse a second derivative.
        weights = F.softmax(t["Q"] @ t["K"].T / 2.0, dim=-1)
        first = torch.autograd.grad(weights @ t["V"], [t["Q"], t["K"], t["V"]], t["grad_O"], create_graph=True)
        return dict(zip(("grad_Q", "grad_K", "grad_V"), first, strict=True))

    compare("attention_double_backward", arrays, gradients)
    own, moving = drawn(12, Q=(5, 4), K=(7, 4), V=(7, 6)), drawn(13, tQ=(5, 4), tK=(7, 4), tV=(7, 6))
    _, pushed = torch.func.jvp(
        lambda q, k, v: F.softmax(q @ k.T / 2.0, dim=-1) @ v,
        tuple(torch.tensor(a) for a in own.values()),
        tuple(torch.tensor(a) for a in moving.values()),
    )
    close(numeric.load("attention_tangent").forward(**own, **moving).outputs["tO"], pushed.numpy(), "tO")
