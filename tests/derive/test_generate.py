"""Generated files: compared by name first, written whole or not at all, and the same bytes on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import numeric.generated
from derive.generate import MARK, compare, write
from derive.modes import names, program
from derive.pipeline import TARGETS, modules
from tests.families import ATTENTION

FILES = {
    "one/a.py": f'"""{MARK}."""\nx = 1\ny = 2\n',
    "one/b.py": f'"""{MARK}."""\n',
    "two/a.py": f'"""{MARK}."""\nz = 3\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory that holds the expected files and package markers."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        (tmp_path / path).with_name("__init__.py").touch()
    return tmp_path


def kinds(directory: Path) -> list[tuple[str, str]]:
    """The differences of a directory as pairs."""
    return [(d.kind, d.path) for d in compare(directory, FILES)]


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


# Comparing.


def test_a_directory_as_expected_has_no_differences(folder: Path) -> None:
    assert kinds(folder) == []


def test_missing_and_leftover_files_come_before_changed_ones(folder: Path) -> None:
    (folder / "one/a.py").unlink()
    (folder / "two/old.py").write_text(f'"""{MARK}."""\n', encoding="utf-8")
    (folder / "one/b.py").write_text("changed\n", encoding="utf-8")
    assert kinds(folder) == [("missing", "one/a.py"), ("leftover", "two/old.py"), ("changed", "one/b.py")]


def test_an_empty_directory_lacks_everything(tmp_path: Path) -> None:
    assert kinds(tmp_path) == [("missing", path) for path in FILES]
    assert kinds(tmp_path / "not there") == [("missing", path) for path in FILES]


def test_a_changed_file_is_shown_as_a_unified_diff(folder: Path) -> None:
    (folder / "one/a.py").write_text(f'"""{MARK}."""\nx = 1\ny = 5\n', encoding="utf-8")
    (difference,) = compare(folder, FILES)
    assert difference.diff.splitlines()[:2] == ["--- committed/one/a.py", "+++ derived/one/a.py"]
    assert "-y = 5" in difference.diff.splitlines()
    assert "+y = 2" in difference.diff.splitlines()
    assert "-x = 1" not in difference.diff


@pytest.mark.parametrize("spoil", [lambda t: t.rstrip("\n"), lambda t: t + "\n", lambda t: t.replace("\n", "\r\n")])
def test_line_ends_are_part_of_the_contents(folder: Path, spoil: object) -> None:
    """A file with other line ends, or without the last one, is not the derived file, and the diff is not empty."""
    text = FILES["one/a.py"]
    (folder / "one/a.py").write_bytes(spoil(text).encode())  # type: ignore[operator]
    (difference,) = compare(folder, FILES)
    assert (difference.kind, difference.path) == ("changed", "one/a.py")
    assert difference.diff


def test_package_markers_and_other_folders_are_nobodys_business(folder: Path) -> None:
    (folder / "three").mkdir()
    (folder / "three/mine.py").write_text("mine = 1\n", encoding="utf-8")
    (folder / "one/notes.txt").write_text("notes\n", encoding="utf-8")
    assert kinds(folder) == []


# Writing.


def test_writing_makes_a_directory_as_expected(tmp_path: Path) -> None:
    written = write(tmp_path, FILES)
    assert [d.path for d in written] == list(FILES)
    assert {p: t.encode() for p, t in FILES.items()} == contents(tmp_path)
    assert kinds(tmp_path) == []


def test_files_that_are_up_to_date_are_not_touched(folder: Path) -> None:
    os.utime(folder / "one/a.py", (1, 1))
    (folder / "one/b.py").write_text("changed\n", encoding="utf-8")
    assert [d.path for d in write(folder, FILES)] == ["one/b.py"]
    assert (folder / "one/a.py").stat().st_mtime == 1
    assert write(folder, FILES) == []


def test_a_generated_leftover_is_removed_and_an_authors_file_is_kept(folder: Path) -> None:
    (folder / "one/old.py").write_text(f'"""Old.\n\n{MARK}, run something."""\n', encoding="utf-8")
    (folder / "one/mine.py").write_text("mine = 1\n", encoding="utf-8")
    write(folder, FILES)
    assert not (folder / "one/old.py").exists()
    assert (folder / "one/mine.py").read_text(encoding="utf-8") == "mine = 1\n"
    assert kinds(folder) == [("leftover", "one/mine.py")]


def test_only_what_was_changed_is_reported_as_changed(folder: Path) -> None:
    """An author's file that stays is no change."""
    (folder / "one/mine.py").write_text("mine = 1\n", encoding="utf-8")
    assert write(folder, FILES) == []


def test_written_files_have_plain_line_ends_and_can_be_read_by_all(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    for path in FILES:
        assert b"\r" not in (tmp_path / path).read_bytes()
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "one/a.py").write_text("old\n", encoding="utf-8")
    before = contents(folder)

    def refuse(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", refuse)
    monkeypatch.setattr("pathlib.Path.replace", refuse)
    monkeypatch.setattr("pathlib.Path.rename", refuse)
    with pytest.raises(OSError, match="the disk is full"):
        write(folder, FILES)
    assert contents(folder) == before


def test_a_text_that_cannot_be_encoded_leaves_the_old_file_and_nothing_else(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(UnicodeEncodeError):
        write(folder, {**FILES, "one/a.py": "broken \ud800\n"})
    assert contents(folder) == before


# The generated modules.

GENERATED = Path(numeric.generated.__path__[0])
PATHS = [f"{target}/{name}.py" for target in TARGETS for name in names()]
FAMILY = [f"{target}/{name}.py" for target in TARGETS for name in ATTENTION]


@cache
def derived() -> dict[str, str]:
    """Every generated module, derived once for all tests."""
    return modules()


def test_every_program_is_generated_for_every_target_in_a_fixed_order() -> None:
    assert list(derived()) == PATHS


def test_the_committed_modules_equal_the_derivation() -> None:
    assert compare(GENERATED, derived()) == []


def test_generating_twice_gives_the_same_text() -> None:
    assert modules() == derived()


PRINT = "import sys; from derive.pipeline import modules; sys.stdout.write('\\0'.join(modules().values()))"


def test_generating_gives_the_same_bytes_under_every_hash_seed() -> None:
    """The bytes that are committed, which were made under another seed, as this process has another."""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", PRINT]
    found = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=300).stdout
    assert found.split(b"\0") == [(GENERATED / path).read_bytes() for path in PATHS]
    assert found.split(b"\0") == [text.encode() for text in derived().values()]


@pytest.mark.parametrize("path", FAMILY)
def test_a_generated_module_compiles_and_says_where_it_comes_from(path: str) -> None:
    """The program, the target, the operation counts, the lemma it relies on, and how to make it again."""
    text = derived()[path]
    compile(text, path, "exec")
    target, name = path.removesuffix(".py").split("/")
    header = " ".join(text.split('"""')[1].split())
    assert header.startswith(program(name).summary)
    assert f"for {'NumPy' if target == 'numpy' else 'CuPy'}, derived from the definitions of `{name}`" in header
    assert f"{MARK}, run `backprove generate`." in header
    assert "for the plain program (Q, K, V to O and gradients)" in header
    assert "Relies on: shift invariance." in header
    assert f"\nimport {target} as xp\n" in text


@pytest.mark.parametrize("path", PATHS)
def test_a_generated_module_holds_no_date_path_or_trailing_space(path: str) -> None:
    text = derived()[path]
    assert text.endswith("}\n")
    assert all(line == line.rstrip() for line in text.splitlines())
    assert not any(word in text for word in ("/home", "\\", "20" + "25", "20" + "26"))


@pytest.mark.parametrize("name", ATTENTION)
def test_targets_differ_in_their_namespace_alone(name: str) -> None:
    one, two = (derived()[f"{target}/{name}.py"] for target in TARGETS)
    assert one.replace("NumPy", "CuPy").replace("import numpy as xp", "import cupy as xp") == two


def test_the_mark_stands_in_every_generated_module() -> None:
    assert all(MARK in text for text in derived().values())
