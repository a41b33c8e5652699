"""The table of sensitivity says what it measures: the smallest change that is refused."""

from __future__ import annotations

import numpy as np
import pytest

import numeric
from numeric import bench_sensitivity as bench
from numeric.oracle import exact_run, scaled_error
from numeric.properties import LIMIT


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_more_is_seen_than_before(dtype: str) -> None:
    for keys in (8, 64):
        for found in bench.measured(keys, dtype):
            assert all(found.now[fault] < found.before[fault] / 5 for fault in bench.FAULTS), found


def test_a_change_that_is_told_is_refused_and_a_smaller_one_is_not() -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal((8, bench.WIDTH)).astype(np.float32) for n in ("Q", "K", "V")}
    kernel = numeric.load("attention")
    O = kernel.forward(**arrays).outputs["O"]
    exact = exact_run("attention", arrays).outputs["O"]
    error = (O.astype(np.longdouble) - exact.value).astype(float)
    seen = dict(zip(bench.FAULTS, bench.smallest_seen(O.astype(float), error, exact.unit("float32")), strict=True))
    for factor, refused in ((1.1, True), (0.9, False)):
        changed = (O * (1 + np.float64(factor * seen["everything"]))).astype(np.float32)
        assert (scaled_error(changed, exact) > LIMIT) == refused


def test_the_table_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "SIZES", (8,))
    monkeypatch.setattr(bench, "DTYPES", ("float32",))
    bench.sensitivity()
    shown = capsys.readouterr().out
    assert all(fault in shown for fault in bench.FAULTS)
    assert "→" in shown
    assert max(map(len, shown.splitlines())) <= 100
