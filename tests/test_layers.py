"""The house: what imports what, what stands at the top, and that no file names a machine."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

TOP = {"pyproject.toml", "README.md", "derive", "numeric", "tests", "docs", "LICENSE", "CHANGELOG.md", "Makefile"}


def loaded(code: str, *packages: str) -> list[str]:
    """Run Python in a process of its own; which of the packages it has loaded in the end."""
    report = f"import sys; print(*sorted({{m.partition('.')[0] for m in sys.modules}} & {set(packages)!r}))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1].split()


def tracked() -> list[str]:
    """The files that git tracks; a skip that says why outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: the list of tracked files is not known")
    command = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        pytest.skip(f"git cannot list the tracked files: {run.stderr.strip()}")
    return [name for name in run.stdout.split("\0") if name]


# Layers.

EVERYTHING = """
import importlib, pkgutil, {package}
for module in pkgutil.walk_packages({package}.__path__, "{package}."):
    importlib.import_module(module.name)
"""


def test_derive_loads_neither_numpy_nor_cupy_nor_numeric() -> None:
    assert loaded(EVERYTHING.format(package="derive"), "numpy", "cupy", "numeric", "sympy") == ["sympy"]


def test_importing_derive_itself_loads_nothing_heavy() -> None:
    assert loaded("import derive", "sympy", "mpmath", "numpy", "numeric") == []


RUN = """
import numpy as np, numeric
for name in ("attention", "causal_attention"):
    kernel = numeric.load(name)
    x = np.ones((2, 3, 4))
    result = kernel.forward(Q=x, K=x, V=x, mask=np.ones((3, 3), dtype=bool))
    kernel.backward(result, {"O": x, "L": np.ones((2, 3))})
"""


def test_running_a_kernel_loads_no_sympy() -> None:
    assert loaded(RUN, "sympy", "mpmath", "derive", "numpy", "cupy") == ["numpy"]


def test_generated_modules_load_no_sympy() -> None:
    code = "import importlib, pkgutil, numeric.generated.numpy as g\n"
    code += "for m in pkgutil.iter_modules(g.__path__): importlib.import_module(f'{g.__name__}.{m.name}')"
    assert loaded(code, "sympy", "derive") == []


HELP = """
import sys
from {module} import main
sys.argv = ["backprove", "--help"]
try:
    main()
except SystemExit as stop:
    assert stop.code == 0
"""


def test_help_loads_neither_sympy_nor_numpy() -> None:
    """Heavy imports stand inside the commands, so that --help is quick."""
    assert loaded(HELP.format(module="numeric.cli"), "sympy", "numpy", "cupy", "mpmath") == []


def test_an_expected_error_of_the_command_is_one_line_and_exit_code_two() -> None:
    command = [sys.executable, "-c", "import sys; sys.argv = ['backprove', 'derive', 'flash']\n"]
    command[-1] += "from numeric.cli import main\nmain()"
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert run.returncode == 2
    assert run.stderr.startswith("backprove: there is no program 'flash'; there are attention")
    assert len(run.stderr.splitlines()) == 1


# The top of the house.


def test_the_top_level_is_exactly_this() -> None:
    """Dot-files aside, which tools want there."""
    top = {name.partition("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} == TOP


def test_no_tracked_file_is_ignored_or_generated_by_a_tool() -> None:
    assert not [name for name in tracked() if re.search(r"__pycache__|\.pyc$|\.egg-info|\.orig$|\.rej$|~$", name)]


def test_the_packages_are_found_where_they_stand() -> None:
    for package in ("derive", "numeric"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert Path(str(spec.origin)).parent == ROOT / package


MACHINE_PATHS = re.compile("|".join(f"/{place}/" for place in ("work", "root", r"home/\w+", r"Users/\w+")))


def test_no_tracked_text_names_a_path_of_a_machine() -> None:
    """Such a path works for one person on one computer."""
    found = []
    for name in tracked():
        path = ROOT / name
        if not path.is_file():
            continue  # removed, and not committed yet
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{name}: {match.group()}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_the_path_check_finds_paths() -> None:
    """The check is checked, with texts that are put together here."""
    for text in ("see /" + "work/main", "cd /" + "root/x", "/" + "home/ada/backprove", "/" + "Users/ada/x"):
        assert MACHINE_PATHS.search(text)
    for text in ("work/main", "root of the repository", "home/", "https://example.org/homework/x"):
        assert not MACHINE_PATHS.search(text)
