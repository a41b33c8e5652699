"""The published cases of ONNX operators, collected once for all tests."""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the published ONNX cases need the package onnx")


@dataclass(frozen=True)
class Case:
    """One published case: a single node with its inputs and expected outputs by name."""

    name: str
    attributes: dict[str, Any]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    atol: float


class NotApplicableError(Exception):
    """A case uses a feature that the programs cannot express; the message names it."""


def listed(operator: str) -> dict[str, str]:
    """The operator's cases that the programs cannot express, by name, each with the reason."""
    text = (Path(__file__).parents[1] / "data" / "onnx_not_applicable.toml").read_text("utf-8")
    reasons: dict[str, str] = tomllib.loads(text).get(operator, {})
    return reasons


@cache
def _collected() -> tuple[Any, ...]:
    """The cases of all operators: ONNX makes them when they are first imported, and only then.

    Some warn, and they seed NumPy's global generator: both stay here.
    """
    from onnx.backend.test.case.node import collect_testcases

    state = np.random.get_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(collect_testcases(None))
    finally:
        np.random.set_state(state)


def published(operator: str) -> dict[str, Case]:
    """An operator's cases by name, without those that spell the same node as a function body."""
    mine = [c for c in _collected() if [n.op_type for n in c.model.graph.node] == [operator]]
    return {c.name: _case(c, operator) for c in mine}


def _case(collected: Any, operator: str) -> Case:
    """A collected case by the names of the operator's inputs and outputs; a name left empty is left out."""
    (node,) = collected.model.graph.node
    ((arrays, expected),) = collected.data_sets
    schema = onnx.defs.get_schema(operator)
    inputs = [spec.name for spec, given in zip(schema.inputs, node.input, strict=False) if given]
    outputs = [spec.name for spec, given in zip(schema.outputs, node.output, strict=False) if given]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return Case(
        name=collected.name,
        attributes=attributes,
        inputs={n: np.asarray(a) for n, a in zip(inputs, arrays, strict=True)},
        outputs={n: np.asarray(a) for n, a in zip(outputs, expected, strict=True)},
        atol=collected.atol,
    )
