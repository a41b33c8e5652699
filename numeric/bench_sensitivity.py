"""How small a fault is seen: the smallest relative change of results that is told from rounding, now and before.

A correct kernel's results are changed by a factor 1 + ρ: one entry of median size, the smallest entry, one row, or the
whole of O, dQ, dK or dV. ρ is as small as it may be for the scaled error to exceed the limit. That is measured in the
units of :mod:`numeric.oracle.units`, which come from the function, and in those of a running error bound of the formula
that is tested, which this project used before: it grows with the number of keys, and takes cancellation of the formula
for a matter of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from numeric.arguments import ACCUMULATION
from numeric.kernels import load
from numeric.oracle import Host, exact_run, roundoff, underflow
from numeric.properties import LIMIT
from numeric.samples import dtype as dtype_of
from numeric.terminal import console

SIZES = (8, 64, 512, 4096)
"""Numbers of keys."""

QUERIES = 64
"""The most queries; with as many as keys, long rows would take minutes to evaluate exactly."""

WIDTH = 64
"""The width of a head."""

DTYPES = ("float64", "float32", "bfloat16")

FAULTS = ("one entry", "smallest entry", "one row", "everything")


@dataclass(frozen=True)
class Sensitivity:
    """The smallest relative changes of one tensor that are seen, by fault: in units from the function, and before."""

    keys: int
    tensor: str
    now: Mapping[str, float]
    before: Mapping[str, float]


def sensitivity() -> None:
    """Print the smallest relative change that is seen in results of attention, for each dtype and number of keys."""
    out = console()
    for dtype in DTYPES:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        title = (
            f"attention in {dtype}, d = {WIDTH}, at most {QUERIES} queries: smallest relative change seen, before → now"
        )
        out.print(Text(title, style="bold"))
        for column in ("keys", "", *FAULTS):
            table.add_column(column, justify="right" if column else "left")
        for keys in SIZES:
            for found in measured(keys, dtype):
                cells = (f"{found.before[fault]:.0e} → {found.now[fault]:.0e}" for fault in FAULTS)
                table.add_row(str(keys), found.tensor, *cells)
            table.add_section()
        out.print(table)


def measured(keys: int, dtype: str, seed: int = 0) -> Iterator[Sensitivity]:
    """What is seen of faults in O, dQ, dK and dV of this project's own kernel; inputs are standard normal."""
    rng, queries = np.random.default_rng(seed), min(keys, QUERIES)
    lengths = {"Q": queries, "K": keys, "V": keys}
    drawn = {name: rng.standard_normal((n, WIDTH)).astype(dtype_of(dtype)) for name, n in lengths.items()}
    dO = rng.standard_normal((queries, WIDTH)).astype(dtype_of(dtype))
    kernel = load("attention", "numpy")
    result = kernel.forward(**drawn)
    gradients = kernel.backward(result, {"O": dO})
    exact = exact_run("attention", drawn, {"O": dO})
    bounds = running_bounds(**drawn, dO=dO, dtype=dtype)
    results = {"O": (result.outputs["O"], exact.outputs["O"])}
    results |= {f"d{n}": (gradients[n], exact.gradients[n]) for n in ("Q", "K", "V")}
    for tensor, (got, want) in results.items():
        error = (got.astype(np.longdouble) - want.value).astype(float)
        units = want.unit(dtype), bounds[tensor]
        now, before = (dict(zip(FAULTS, smallest_seen(got.astype(float), error, u), strict=True)) for u in units)
        yield Sensitivity(keys, tensor, now, before)


def smallest_seen(got: Host, error: Host, units: Host) -> tuple[float, ...]:
    """The smallest ρ for which got · (1 + ρ) is more than the limit away from what is exact, for each kind of fault."""
    with np.errstate(divide="ignore"):
        each = (LIMIT * units - error * np.sign(got)) / np.abs(got)
    sizes = np.abs(got).ravel()
    median, least = int(np.argsort(sizes)[sizes.size // 2]), int(np.argmin(sizes))
    norms = np.linalg.norm(got, axis=-1)
    row = int(np.argsort(norms)[norms.size // 2])
    return each.flat[median], each.flat[least], each[row].min(), each.min()


def running_bounds(Q: Host, K: Host, V: Host, dO: Host, dtype: str) -> dict[str, Host]:
    """Units as they were before: the first-order worst case of a straightforward kernel of attention, entry by entry.

    Inner products of length k lose k · u of the sum of magnitudes (Higham, Accuracy and Stability of Numerical
    Algorithms, §3.1); bounds are pushed through the usual backward pass.
    """
    q, k, v, g = (a.astype(float) for a in (Q, K, V, dO))
    u, (m, d), width, scale = roundoff(ACCUMULATION[dtype]), k.shape, v.shape[1], k.shape[1] ** -0.5
    S = q @ k.T * scale
    largest = S.max(-1, keepdims=True)
    A = np.exp(S - largest)
    A /= A.sum(-1, keepdims=True)
    dA, O = g @ v.T, A @ v
    relative = scale * (d + 2) * u * (np.abs(q) @ np.abs(k).T) + (4 + np.abs(S) + np.abs(largest)) * u
    relative = relative + (A * relative).sum(-1, keepdims=True) + (m + 2) * u
    r = (O * g).sum(-1, keepdims=True)
    dS = A * (dA - r)
    of_O = ((relative + m * u) * A) @ np.abs(v)
    of_V = ((relative + len(q) * u) * A).T @ np.abs(g)
    of_r = (of_O * np.abs(g)).sum(-1, keepdims=True) + width * u * (np.abs(O) * np.abs(g)).sum(-1, keepdims=True)
    of_S = relative * np.abs(dS) + A * (width * u * (np.abs(g) @ np.abs(v).T) + of_r) + 2 * u * np.abs(dS)
    of_Q = scale * ((of_S + (m + 2) * u * np.abs(dS)) @ np.abs(k))
    of_K = scale * ((of_S + (len(q) + 2) * u * np.abs(dS)).T @ np.abs(q))
    values = {"O": O, "dQ": scale * dS @ k, "dK": scale * dS.T @ q, "dV": A.T @ g}
    bounds: dict[str, Any] = {"O": of_O, "dQ": of_Q, "dK": of_K, "dV": of_V}
    stored = roundoff(dtype) if ACCUMULATION[dtype] != dtype else 0.0
    return {name: bounds[name] + stored * np.abs(values[name]) + underflow(dtype) for name in bounds}


if __name__ == "__main__":
    sensitivity()
