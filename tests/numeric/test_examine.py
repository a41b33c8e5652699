"""Anyone's kernel, asked about every property: two functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import numeric
from numeric.examine import examine
from numeric.findings import Finding
from numeric.samples import Sample
from tests.numeric import kernels_by_hand as by_hand

Host = np.ndarray


def status(findings: list[Finding]) -> dict[str, str]:
    return {finding.property: finding.status for finding in findings}


def forward(Q: Host, K: Host, V: Host) -> dict[str, Host]:
    return {"O": by_hand.attention(Q, K, V, np.zeros_like(Q[:, :1] * V[:1]))["O"]}


def backward(cotangents: dict[str, Host], Q: Host, K: Host, V: Host) -> tuple[Host, ...]:
    made = by_hand.attention(Q, K, V, cotangents["O"])
    return made["Q"], made["K"], made["V"]


def test_a_kernel_without_optional_inputs_and_statistics_is_asked_what_it_can_be_asked() -> None:
    found = examine(forward, backward, "attention", dtypes=("float64", "float32"))
    assert set(status(found).values()) == {"holds"}
    assert {"outputs equal the definitions", "gradients equal the chain rule", "forward mode agrees"} <= set(
        status(found)
    )
    assert all(finding.error is not None and finding.error < 1 for finding in found)


def test_what_is_wrong_is_found_and_told_where() -> None:
    def wrong(*arguments: Any, **inputs: Host) -> tuple[Host, ...]:
        dQ, dK, dV = backward(*arguments, **inputs)
        return dQ * np.float32(1.0001), dK, dV

    found = examine(forward, wrong, "attention")
    assert status(found)["outputs equal the definitions"] == "holds"
    assert status(found)["gradients equal the chain rule"] == "fails"
    assert status(found)["forward mode agrees"] == "fails"
    bad = next(finding for finding in found if finding.property == "gradients equal the chain rule")
    assert "float32, sizes {'n':" in bad.detail


def test_a_kernel_with_everything_is_asked_everything() -> None:
    kernel = numeric.load("causal_attention")

    def run(**inputs: Any) -> dict[str, Host]:
        return kernel.forward(**inputs).outputs

    def back(cotangents: dict[str, Host], **inputs: Any) -> dict[str, Host]:
        return kernel.backward(kernel.forward(**inputs), cotangents)

    samples = [Sample("causal_attention", {"n": 4, "m": 5, "d": 3, "d_v": 6}, (2,), "float64", 1, ("mask",))]
    found = status(examine(run, back, "causal_attention", samples=samples))
    assert set(found.values()) == {"holds"}
    assert {"a bias of −∞ hides", "hidden entries contribute nothing", "large scores do not overflow"} <= set(found)
    outputs = status(examine(run, None, "causal_attention", samples=samples))
    assert set(outputs.values()) == {"holds"}
    assert "outputs equal the definitions" in outputs
    assert not any("gradient" in name for name in outputs)


def test_a_rounding_model_is_asked_of_a_kernel() -> None:
    """A tiled kernel in bfloat16 keeps what it is asked for, and not more."""
    pytest.importorskip("ml_dtypes")

    def tiled(Q: Host, K: Host, V: Host) -> Host:
        return by_hand.flash_attention(Q, K, V, np.zeros((len(Q), V.shape[1]), Q.dtype))["O"]

    def gradients(cotangents: dict[str, Host], Q: Host, K: Host, V: Host) -> list[Host]:
        made = by_hand.flash_attention(Q, K, V, cotangents["O"])
        return [made[name] for name in "QKV"]

    asked: dict[str, Any] = {"dtypes": ("bfloat16",), "program": _plain()}
    fused = status(examine(tiled, gradients, rounding="FlashAttention", **asked))
    assert "fails" not in fused.values(), fused
    strict = status(examine(tiled, gradients, **asked))
    assert strict["gradients equal the chain rule"] == "fails"


def _plain() -> Any:
    from derive.forward import program

    return program("attention").plain()


def test_what_does_not_fit_is_explained() -> None:
    with pytest.raises(numeric.InputError, match="forward returned P, none of the outputs"):
        examine(lambda Q, K, V: {"P": Q}, backward, "attention")
    with pytest.raises(numeric.InputError, match="backward returned 2 arrays; expected the gradients Q, K, V"):
        examine(forward, lambda cotangents, Q, K, V: (Q, K), "attention")
    with pytest.raises(numeric.InputError, match="backward returned no V among its gradients"):
        examine(forward, lambda cotangents, Q, K, V: {"Q": Q, "K": K}, "attention")
    with pytest.raises(numeric.InputError, match="no rounding model 'fast'"):
        examine(forward, backward, "attention", rounding="fast")
