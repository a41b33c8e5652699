"""Benchmarks: scripts that print interleaved medians and ratios, never timed tests."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from rich import box
from rich.table import Table
from rich.text import Text

from numeric.terminal import console

Name = TypeVar("Name", bound=Hashable)


def interleaved(
    bodies: Mapping[Name, Callable[[], object]],
    repeats: int,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, float]:
    """Median seconds of each body; the bodies take turns, so that a busy machine hits all alike.

    ``before`` is called before each of them and is not measured. For what one thread computes, the ``clock`` may be
    :func:`time.process_time`, which does not run while others use the machine.
    """
    times: dict[Name, list[float]] = {name: [] for name in bodies}
    for body in bodies.values():
        body()
    for _ in range(repeats):
        for name, body in bodies.items():
            before()
            start = clock()
            body()
            times[name].append(clock() - start)
    return {name: statistics.median(spent) for name, spent in times.items()}


def cold() -> None:
    """Forget what SymPy and derivations remember."""
    from sympy.core.cache import clear_cache

    from derive.memory import forget

    clear_cache()
    forget()


def derive(repeats: int) -> None:
    """Time to derive the gradients of every program, after SymPy is imported, with all caches cleared."""
    from derive.forward import names, program
    from derive.pipeline import derivation, kernel

    bodies: dict[str, Callable[[], object]] = {}
    for name in names():
        source = program(name)
        bodies[f"{name}: derive, plain"] = partial(derivation, source.plain())
        bodies[f"{name}: derive, full"] = partial(derivation, source)
        bodies[f"{name}: derive and schedule, full"] = partial(kernel, source)
    medians = interleaved(bodies, repeats, cold)
    _show("Deriving, SymPy imported, caches cleared (aim: below 0.5 s)", medians, None)


AIM = 0.1
"""Seconds that proving an identity for all sizes may take."""

SLOWEST = 20
"""Identities that are shown."""


def prove(repeats: int) -> None:
    """Processor time to prove each identity of every program, after SymPy is imported, with all caches cleared."""
    from derive.forward import names, program
    from derive.proof import verdict
    from derive.proof.identities import identities

    bodies = {
        (name, identity.name): partial(verdict.prove, identity)
        for name in names()
        for identity in identities(program(name))
    }
    medians = interleaved(bodies, repeats, cold, time.process_time)
    slowest = sorted(medians, key=lambda named: -medians[named])
    out, table = console(), Table(box=box.SIMPLE_HEAD, pad_edge=False)
    title = f"Proving identities for all sizes, processor time, caches cleared: the {SLOWEST} slowest"
    out.print(Text(title, style="bold"))
    table.add_column("program")
    table.add_column("identity")
    table.add_column("median ms", justify="right")
    for name, identity in slowest[:SLOWEST]:
        table.add_row(name, identity, f"{medians[name, identity] * 1e3:.1f}")
    out.print(table)
    out.print(_summary(medians))


def _summary(medians: Mapping[tuple[str, str], float]) -> str:
    """How many proofs there are, and which take longer than they should."""
    told = f"{len(medians)} identities, slowest {max(medians.values()) * 1e3:.1f} ms"
    slow = [f"{identity} ({name})" for (name, identity), spent in medians.items() if spent >= AIM]
    aim = f"{AIM * 1e3:.0f} ms"
    return f"{told}; {len(slow)} not below {aim}: {'; '.join(slow)}" if slow else f"{told}, all below {aim}"


def run(repeats: int) -> None:
    """Forward and backward on the CPU in float32, against PyTorch's fused attention where it is installed."""
    import numpy as np

    from numeric.kernels import load

    kernel = load("attention")

    def ours(Q: Any, K: Any, V: Any, dO: Any) -> object:
        return kernel.backward(kernel.forward(Q=Q, K=K, V=V), {"O": dO})

    for shape in ((4, 8, 256, 64), (1, 8, 1024, 64)):
        rng = np.random.default_rng(0)
        Q, K, V, dO = (rng.standard_normal(shape, dtype=np.float32) for _ in range(4))
        bodies: dict[str, Callable[[], object]] = {"backprove, NumPy, dense": partial(ours, Q, K, V, dO)}
        peer = _torch_body(Q, K, V, dO)
        if peer is not None:
            bodies["torch scaled_dot_product_attention"] = peer
        medians = interleaved(bodies, repeats)
        _show(f"attention forward + backward, float32, [batch, heads, n, d] = {shape}", medians, "torch")


def stack(repeats: int) -> None:
    """Time to derive a stack of Llama blocks, per definition: a plot, flat where the time grows with the size alone."""
    from derive.calculus import backward
    from derive.forward.blocks import llama_block
    from derive.printers.derivation import page

    counts: dict[int, int] = {}

    def body(layers: int, *, printed: bool = False) -> Callable[[], object]:
        source = llama_block(layers)

        def run() -> object:
            made = backward(source)
            counts[layers] = len(made.forward.definitions) + len(made.derived.definitions)
            return page(made, "index") if printed else made

        return run

    one = interleaved({"derive, compact and print": body(1, printed=True)}, repeats, cold)
    _show("One llama_block, all gradients, SymPy imported, caches cleared (aim: below 5 s)", one, None)
    sizes = (1, 2, 4, 8, 16, 32)
    medians = interleaved({layers: body(layers) for layers in sizes}, max(repeats // 5, 1), cold)
    out, table = console(), Table(box=box.SIMPLE_HEAD, pad_edge=False)
    out.print(Text("Stacked llama blocks: time to derive, for each definition of both passes", style="bold"))
    for column in ("blocks", "definitions", "seconds", "ms per definition"):
        table.add_column(column, justify="right")
    table.add_column("")
    each = {layers: 1e3 * medians[layers] / counts[layers] for layers in sizes}
    for layers, spent in each.items():
        bar = "█" * round(40 * spent / max(each.values()))
        table.add_row(str(layers), str(counts[layers]), f"{medians[layers]:.2f}", f"{spent:.2f}", bar)
    out.print(table)


def _torch_body(*arrays: object) -> Callable[[], object] | None:
    try:
        import torch
    except ImportError:
        return None
    Q, K, V, dO = (torch.from_numpy(a) for a in arrays)
    for tensor in (Q, K, V):
        tensor.requires_grad_()

    def body() -> object:
        output = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
        return torch.autograd.grad(output, (Q, K, V), dO)

    return body


def _show(title: str, medians: Mapping[str, float], peer: str | None) -> None:
    base = next((t for name, t in medians.items() if peer and name.startswith(peer)), None)
    out = console()
    out.print(Text(title, style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what")
    table.add_column("median ms", justify="right")
    if base is not None:
        table.add_column("ratio", justify="right")
    for name, spent in medians.items():
        ratio = [] if base is None else [f"{spent / base:.2f}"]
        table.add_row(name, f"{spent * 1e3:.1f}", *ratio)
    out.print(table)


def sensitivity(repeats: int) -> None:
    """Print the smallest fault that is seen; nothing is timed, so that there is nothing to repeat."""
    from numeric.bench_sensitivity import sensitivity as measured

    measured()


BENCHMARKS: dict[str, Callable[[int], None]] = {
    "derive": derive,
    "prove": prove,
    "run": run,
    "sensitivity": sensitivity,
    "stack": stack,
}
"""The benchmarks by name, as ``backprove bench`` knows them."""
