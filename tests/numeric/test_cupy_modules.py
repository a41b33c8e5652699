"""CuPy modules on machines without a GPU: they import, and every name that they use exists."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

import numeric
import numeric.generated.cupy as generated
import numeric.support
from tests.families import ATTENTION

MODULES = sorted(Path(generated.__path__[0]).glob("[a-z]*.py"))


def _names(source: str) -> set[str]:
    """Every ``xp.name`` in a source text, dotted names whole."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            parts, inner = [node.attr], node.value
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id == "xp":
                found.add(".".join(reversed(parts)))
    return found


def test_there_is_a_cupy_module_for_every_program() -> None:
    """The two backends have the same programs."""
    assert tuple(path.stem for path in MODULES) == numeric.programs()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_cupy_module_imports_and_its_names_exist(path: Path) -> None:
    """Import the module, and look up every ``xp`` name that it and its support functions use."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; install backprove[gpu]")
    module = importlib.import_module(f"numeric.generated.cupy.{path.stem}")
    assert callable(module.forward)
    assert callable(getattr(module, "backward", None)) == bool(module.SIGNATURE.gradients)
    names = _names(path.read_text(encoding="utf-8")) | _names(
        Path(numeric.support.__file__).read_text(encoding="utf-8")
    )
    if path.stem in ATTENTION:
        assert {"exp", "sum", "where"} <= names
    for name in sorted(names):
        target = cupy
        for part in name.split("."):
            assert hasattr(target, part), f"{path.stem} uses cupy.{name}, which does not exist"
            target = getattr(target, part)


def test_cupy_arrays_have_the_attributes_that_are_used() -> None:
    """Array attributes beyond the namespace: transposes of the last two axes."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; install backprove[gpu]")
    for attribute in ("mT", "shape", "dtype", "ndim", "reshape", "astype", "__matmul__", "__and__", "__invert__"):
        assert hasattr(cupy.ndarray, attribute), attribute


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_cupy_and_numpy_modules_differ_in_the_namespace_alone(path: Path) -> None:
    """The two texts are one derivation printed twice, so what NumPy shows holds for both."""
    other = Path(generated.__path__[0]).parent / "numpy" / path.name
    text = path.read_text(encoding="utf-8").replace("import cupy as xp", "import numpy as xp").replace("CuPy", "NumPy")
    own, their = (t.split('"""', 2) for t in (text, other.read_text(encoding="utf-8")))
    assert own[2] == their[2]
    assert own[1].split() == their[1].split()  # the header wraps where the namespace's name makes it


def test_every_numpy_name_exists() -> None:
    """The same look-up on NumPy, which is always there."""
    for path in MODULES:
        assert all(hasattr(np, name) for name in _names(path.read_text(encoding="utf-8")))
