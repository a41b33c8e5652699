"""Generated files: compared by name first, written whole or not at all, and the same bytes on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

import numeric.generated
from derive.errors import DeriveError
from derive.generate import MARK, SEAL, check_folder, compare, sealed, write
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
        (tmp_path / path).write_text(sealed(path, text), encoding="utf-8")
        (tmp_path / path).with_name("__init__.py").touch()
    return tmp_path


def kinds(directory: Path) -> list[tuple[str, str]]:
    """The differences of a directory as pairs."""
    return [(d.kind, d.path) for d in compare(directory, FILES)]


def edit(path: Path, old: str = "", new: str = "# edited\n") -> bytes:
    """Change a file, at its end unless a text to replace is given; returns what it holds then."""
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new) if old else text + new, encoding="utf-8")
    return path.read_bytes()


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
    edit(folder / "one/a.py", "y = 2", "y = 5")
    (difference,) = compare(folder, FILES)
    assert difference.diff.splitlines()[:2] == ["--- committed/one/a.py", "+++ derived/one/a.py"]
    assert "-y = 5" in difference.diff.splitlines()
    assert "+y = 2" in difference.diff.splitlines()
    assert "-x = 1" not in difference.diff


@pytest.mark.parametrize("spoil", [lambda t: t.rstrip("\n"), lambda t: t + "\n", lambda t: t.replace("\n", "\r\n")])
def test_line_ends_are_part_of_the_contents(folder: Path, spoil: object) -> None:
    """A file with other line ends, or without the last one, is not the derived file, and the diff is not empty."""
    text = sealed("one/a.py", FILES["one/a.py"])
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
    assert {p: sealed(p, t).encode() for p, t in FILES.items()} == contents(tmp_path)
    assert kinds(tmp_path) == []


def test_files_that_are_up_to_date_are_not_touched(folder: Path) -> None:
    os.utime(folder / "one/a.py", (1, 1))
    edit(folder / "one/b.py")
    assert [d.path for d in write(folder, FILES)] == ["one/b.py"]
    assert (folder / "one/a.py").stat().st_mtime == 1
    assert write(folder, FILES) == []


# Whose a file is.


def test_a_seal_is_right_for_one_path_and_one_text() -> None:
    """It is one line of ASCII that depends on nothing else."""
    seal, _, text = sealed("one/a.py", "x = 1\n").partition("\n")
    assert text == "x = 1\n"
    assert seal == f"{SEAL}9e690c2b5dc1798b959a6233e0f725db"
    assert seal.isascii()
    others = (sealed("one/b.py", "x = 1\n"), sealed("two/a.py", "x = 1\n"), sealed("one/a.py", "x = 2\n"))
    assert seal not in {other.partition("\n")[0] for other in others}


def test_a_leftover_as_it_was_generated_is_removed(folder: Path) -> None:
    (folder / "one/old.py").write_text(sealed("one/old.py", "old = 1\n"), encoding="utf-8")
    (done,) = write(folder, FILES)
    assert (done.kind, done.path, done.owner, done.kept) == ("leftover", "one/old.py", "generated", False)
    assert kinds(folder) == []


MINE = {
    "without a seal": "mine = 1\n",
    "with the words of generated files": f'"""Mine.\n\n{MARK}, run `backprove generate`.\n"""\n',
    "with a seal that is not at the top": "\n" + sealed("one/old.py", "old = 1\n"),
    "with a seal in a text": f'x = """\n{sealed("one/old.py", "old = 1")}"""\n',
    "with half a seal": SEAL,
    "with somebody's seal": f"{SEAL}0123456789abcdef0123456789abcdef\nold = 1\n",
    "edited at its end": sealed("one/old.py", "old = 1\n") + "more = 2\n",
    "edited in its middle": sealed("one/old.py", "old = 1\n").replace("1\n", "2\n"),
    "with other line ends": sealed("one/old.py", "old = 1\n").replace("\n", "\r\n"),
    "without its last line end": sealed("one/old.py", "old = 1\n").rstrip("\n"),
    "copied under another name": sealed("one/a.py", FILES["one/a.py"]),
    "empty": "",
}


@pytest.mark.parametrize("text", MINE.values(), ids=MINE.keys())
def test_a_leftover_of_an_authors_stays_and_is_told(folder: Path, text: str) -> None:
    """Whatever was written or edited by hand, also a copy of a generated file."""
    (folder / "one/old.py").write_bytes(text.encode())
    for _ in range(2):
        (told,) = write(folder, FILES)
        assert (told.kind, told.path, told.kept) == ("leftover", "one/old.py", True)
        assert told.owner == ("edited" if text.startswith(SEAL) else "other")
        assert (folder / "one/old.py").read_bytes() == text.encode()


def test_a_leftover_that_is_no_text_stays(folder: Path) -> None:
    """A link to a generated file, a folder, a pipe that nobody writes, and bytes that are no characters."""
    (folder / "one/link.py").symlink_to(folder / "one/a.py")
    (folder / "one/folder.py").mkdir()
    os.mkfifo(folder / "one/pipe.py")
    (folder / "one/bytes.py").write_bytes(b"\xff\xfe" + SEAL.encode() * 3)
    start = time.perf_counter()
    told = write(folder, FILES)
    assert time.perf_counter() - start < 2
    assert [d.path for d in told if d.kept] == [f"one/{name}.py" for name in ("bytes", "folder", "link", "pipe")]
    assert sorted(p.name for p in (folder / "one").iterdir()) == sorted(
        ["__init__.py", "a.py", "b.py", "bytes.py", "folder.py", "link.py", "pipe.py"]
    )


def test_an_edited_generated_file_is_replaced_and_told(folder: Path) -> None:
    edit(folder / "one/a.py", "y = 2", "y = 5")
    (folder / "one/b.py").write_text(sealed("one/b.py", "of last week\n"), encoding="utf-8")
    told = write(folder, FILES)
    assert [(d.kind, d.path, d.owner) for d in told] == [
        ("changed", "one/a.py", "edited"),
        ("changed", "one/b.py", "generated"),
    ]
    assert kinds(folder) == []


def foreign(path: Path, kind: str) -> None:
    """Put something at a path that backprove never put there."""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(path.parent.parent / "elsewhere.py")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(MINE[kind], encoding="utf-8")


@pytest.mark.parametrize(
    "kind", ["link", "folder", "pipe", "empty", *(kind for kind, text in MINE.items() if not text.startswith(SEAL))]
)
def test_a_file_of_somebody_elses_in_the_way_stops_everything(folder: Path, kind: str) -> None:
    """Before anything is written or removed, with its name."""
    (folder / "one/a.py").unlink()
    (folder / "one/old.py").write_text(sealed("one/old.py", "old = 1\n"), encoding="utf-8")
    (folder / "elsewhere.py").write_text(sealed("one/b.py", "linked\n"), encoding="utf-8")
    foreign(folder / "one/b.py", kind)
    before = sorted(p.relative_to(folder) for p in folder.rglob("*")), contents(folder)
    (difference,) = (d for d in compare(folder, FILES) if d.path == "one/b.py")
    assert (difference.kind, difference.owner, difference.diff) == ("changed", "other", "")
    with pytest.raises(DeriveError, match=r"one/b\.py is in the way: it was not written by backprove; move it"):
        write(folder, FILES)
    assert (sorted(p.relative_to(folder) for p in folder.rglob("*")), contents(folder)) == before


def test_a_package_marker_of_somebody_elses_is_in_the_way_of_a_program_of_that_name(folder: Path) -> None:
    (folder / "one/__init__.py").write_text("mine = 1\n", encoding="utf-8")
    with pytest.raises(DeriveError, match=r"one/__init__\.py is in the way"):
        write(folder, {**FILES, "one/__init__.py": "generated = 1\n"})
    assert (folder / "one/__init__.py").read_text(encoding="utf-8") == "mine = 1\n"


def test_leftovers_are_nobodys_business_unless_asked_for(folder: Path) -> None:
    (folder / "one/old.py").write_text(sealed("one/old.py", "old = 1\n"), encoding="utf-8")
    (folder / "one/mine.py").write_text("mine = 1\n", encoding="utf-8")
    assert write(folder, FILES, leftovers=False) == []
    assert (folder / "one/old.py").exists()


# Folders.


def bad_folders(tmp_path: Path) -> dict[str, Path]:
    """Places in which no folder can be made."""
    (tmp_path / "file").write_text("mine\n", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    below = {f"{name}/below": tmp_path / name / "below" for name in ("file", "loop", "dangling", "pipe")}
    return {name: tmp_path / name for name in ("file", "loop", "dangling", "pipe")} | below


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_written(tmp_path: Path) -> None:
    for name, path in bad_folders(tmp_path).items():
        there = tmp_path / name.partition("/")[0]
        with pytest.raises(DeriveError, match=f"cannot write to {path}: {there} is not a directory; choose") as caught:
            check_folder(path)
        with pytest.raises(DeriveError, match="is not a directory; choose"):
            write(path, FILES)
        assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["dangling", "file", "loop", "pipe"]


def test_a_file_where_a_folder_of_a_target_goes_is_named_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("mine\n", encoding="utf-8")
    with pytest.raises(DeriveError, match="two is not a directory"):
        write(tmp_path, FILES)
    assert [p.name for p in tmp_path.iterdir()] == ["two"]


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode, **_: False)
    with pytest.raises(DeriveError, match="may not be written; choose a directory that can be written"):
        check_folder(tmp_path / "new")


def test_a_folder_that_can_be_made_or_written_is_taken(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path, tmp_path / "a/b/c", tmp_path / "link/d", Path("."), Path()):
        check_folder(path)
    assert [p.name for p in tmp_path.iterdir()] == ["link"]


# Files.


def test_written_files_have_plain_line_ends_and_can_be_read_by_all(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    for path in FILES:
        assert b"\r" not in (tmp_path / path).read_bytes()
        assert (tmp_path / path).stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(folder / "one/a.py")
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
    texts = dict(zip(PATHS, found.decode().split("\0"), strict=True))
    assert [sealed(path, text).encode() for path, text in texts.items()] == [
        (GENERATED / path).read_bytes() for path in PATHS
    ]
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
