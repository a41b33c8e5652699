"""Kernels as people write them: every wrong one is refused by the default samples, every right one accepted."""

from __future__ import annotations

from typing import Any

import pytest

from numeric.examine import examine
from numeric.findings import Finding
from tests.numeric.wrong_kernels import RIGHT, WRONG


def examined(written: type[Any]) -> list[Finding]:
    kernel = written()
    return examine(kernel.forward, kernel.backward, kernel.program, takes=kernel.takes, rounding=kernel.rounding)


@pytest.mark.parametrize("written", WRONG, ids=lambda kernel: kernel.__name__)
def test_a_wrong_kernel_is_refused(written: type[Any]) -> None:
    """Some property fails, and says at which sample."""
    refused = [finding for finding in examined(written) if finding.status == "fails"]
    assert refused, written.__doc__
    assert all("sizes {" in finding.detail for finding in refused)


@pytest.mark.parametrize("written", RIGHT, ids=lambda kernel: kernel.__name__)
def test_a_right_kernel_in_the_same_style_is_accepted(written: type[Any]) -> None:
    """So that what refuses the wrong ones is the mistake."""
    found = examined(written)
    assert [(f.property, f.error, f.detail) for f in found if f.status == "fails"] == []
    measured = [finding.error for finding in found if finding.error is not None]
    assert len(measured) > 5
    assert max(measured) < 1.5
