"""What comes from outside and is no good: one line that says so, at once, exit code 2, and nothing written."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.generate import sealed
from numeric import cli

for lazily in ("derive.document", "derive.pipeline", "derive.proof.identities", "numeric.mutate.page", "numeric.bench"):
    importlib.import_module(lazily)  # before commands are timed

Refused = Callable[..., str]

AT_ONCE = 2.0
"""Seconds within which a command says what is wrong."""


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: its exit code, and what it printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["backprove", *arguments])
        capfd.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        return int(code or 0), *capfd.readouterr()  # type: ignore[call-overload]

    return run


@pytest.fixture
def refused(run: Callable[..., tuple[int, str, str]]) -> Refused:
    """Run a command that must refuse; the one line that it says."""

    def refused(*arguments: str) -> str:
        start = time.perf_counter()
        code, out, err = run(*arguments)
        assert time.perf_counter() - start < AT_ONCE
        assert (code, out) == (cli.USAGE, "")
        (line,) = err.splitlines()
        assert line.startswith("backprove: ")
        assert line.isprintable()
        assert err == f"{line}\n"
        return line

    return refused


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may read and write, unlike a test's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o777)
        yield Path(made)


def sparse(path: Path) -> None:
    """A file of 5 GB that takes no room."""
    with path.open("wb") as file:
        file.truncate(5_000_000_000)


def unreadable(path: Path) -> None:
    path.write_text("{}", encoding="utf-8")
    path.chmod(0)


Made = Callable[[Path], object]

NO_FILES: dict[str, tuple[Made, str]] = {
    "a pipe that nobody writes": (os.mkfifo, "is a pipe or a device"),
    "a device without end": (lambda p: p.symlink_to("/dev/zero"), "is a pipe or a device"),
    "a folder": (Path.mkdir, "is a directory"),
    "5 GB of nothing": (sparse, "has 5,000,000,000 bytes"),
    "a link to itself": (lambda p: p.symlink_to(p), ""),
    "a link to nowhere": (lambda p: p.symlink_to(p.parent / "nowhere"), ""),
    "nothing": (lambda p: None, ""),
    "without permission": (unreadable, "Permission"),
    "below a file": (lambda p: None, ""),
    "a name too long": (lambda p: None, ""),
}
"""Paths at which there is no file to read, how they are made, and what is said of them."""


@pytest.fixture
def as_nobody() -> Iterator[Callable[[], None]]:
    """Give up the right to read everything, if this process has it; taken back after the test."""

    def give_up() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)

    yield give_up
    if os.getuid() == 0:
        os.seteuid(0)


def place(folder: Path, kind: str, name: str) -> Path:
    """A path of a kind under a name."""
    if kind == "below a file":
        (folder / "file").write_text("{}", encoding="utf-8")
        return folder / "file" / name
    if kind == "a name too long":
        return folder / f"{'x' * 300}{name}"
    NO_FILES[kind][0](folder / name)
    return folder / name


# Matrices.


@pytest.mark.parametrize("kind", NO_FILES)
def test_matrices_that_are_no_file(refused: Refused, folder: Path, as_nobody: Callable[[], None], kind: str) -> None:
    given = place(folder, kind, "given.json")
    if kind == "without permission":
        as_nobody()
    told = refused("document", "--input", str(given), "--out", str(folder / "new"))
    assert NO_FILES[kind][1] in told
    assert "given.json" in told
    assert not (folder / "new").exists()


def test_the_device_itself_and_a_pipe_on_standard_input(refused: Refused, tmp_path: Path) -> None:
    assert "/dev/zero is a pipe or a device; give a file with JSON" in refused("document", "--input", "/dev/zero")
    assert "is a directory; give a file with JSON" in refused("document", "--input", "/")
    read, write = os.pipe()
    try:
        assert "is a pipe or a device" in refused("document", "--input", f"/dev/fd/{read}", "--out", str(tmp_path))
    finally:
        os.close(read)
        os.close(write)
    assert list(tmp_path.iterdir()) == []


BYTES = {
    "nothing": b"",
    "no UTF-8": b'{"Q": "\xff\xfe"}',
    "half a character": '{"Q": "é'.encode()[:-1],
    "UTF-16": '{"Q": [[1]]}'.encode("utf-16"),
    "halves of characters": b'{"Q": "\xed\xa0\x80"}',
    "zeros": b"\0" * 1000,
    "deep lists": b"[" * 90_000,
    "deep objects": b'{"Q":' * 15_000,
    "deep and closed": b'{"Q": ' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    "an escape without its other half": b'{"Q": [["\\ud800"]], "K": [[1]], "V": [[1]]}',
    "such an escape as a key": b'{"\\ud800": [[1]]}',
    "a terminal's escape": b'{"\\u001b[31m": [[1]]}',
    "a long number": b'{"Q": [[' + b"1" * 90_000 + b'e99999]], "K": [[1]], "V": [[1]]}',
    "a long text": b'{"Q": [["' + b"1" * 90_000 + b'x"]], "K": [[1]], "V": [[1]]}',
    "too many bytes": b" " * 2_000_000,
    "too many characters": b" " * 200_000,
    "a program": b"__import__('os').abort()",
}


@pytest.mark.parametrize("content", BYTES.values(), ids=BYTES.keys())
def test_matrices_that_are_no_matrices(refused: Refused, tmp_path: Path, content: bytes) -> None:
    given = tmp_path / "given.json"
    given.write_bytes(content)
    told = refused("document", "--input", str(given), "--out", str(tmp_path / "new"))
    assert len(told) < 400
    assert [p.name for p in tmp_path.iterdir()] == ["given.json"]


ODD_NAMES = ["two\nlines", "\x1b[31mred", "[red]", "\udcff", "tab\t", "ünï", "-"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_files_are_told_on_one_line(refused: Refused, tmp_path: Path, name: str) -> None:
    refused("document", "--input", str(tmp_path / name), "--out", str(tmp_path / "new"))
    (tmp_path / name).mkdir()
    told = refused("document", "--input", str(tmp_path / name), "--out", str(tmp_path / "new"))
    assert "is a directory" in told
    refused("derive", str(tmp_path / f"{name}.py"))
    refused("derive", name)


# Files with programs.

COMMANDS = [("derive",), ("prove",), ("cost",), ("verify",), ("verify", "--mutate"), ("generate", "--out", "OUT")]


def asked(command: tuple[str, ...], file: Path, out: Path) -> tuple[str, ...]:
    """A command's arguments for one file."""
    return (command[0], str(file), *(str(out) if part == "OUT" else part for part in command[1:]))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", NO_FILES)
def test_a_program_that_is_no_file(
    refused: Refused, folder: Path, as_nobody: Callable[[], None], kind: str, command: tuple[str, ...]
) -> None:
    given = place(folder, kind, "given.py")
    if kind == "without permission":
        as_nobody()
    told = refused(*asked(command, given, folder / "new"))
    assert NO_FILES[kind][1] in told
    assert "given.py" in told
    assert not (folder / "new").exists()


SOURCES = {
    "nothing": b"",
    "no UTF-8": b"x = '\xff'\n",
    "zeros": b"x = 1\0\n",
    "no Python": b"this is no Python\n",
    "deep brackets": b"(" * 50_000,
    "a deep sum": b"x = " + b"-" * 50_000 + b"1\n",
    "an error of two lines": b"raise ValueError('one\\ntwo')\n",
    "an error with an escape": b"raise ValueError('\\x1b[31mred\\ud800')\n",
    "an endless descent": b"def f(): f()\nf()\n",
    "the end": b"raise SystemExit\n",
    "a successful end": b"import sys\nsys.exit(0)\n",
    "an end with words": b"raise SystemExit('two\\nlines')\n",
    "no program": b"x = 1\n",
}


@pytest.mark.parametrize("content", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_program_that_is_none(refused: Refused, tmp_path: Path, content: bytes, command: tuple[str, ...]) -> None:
    given = tmp_path / "given.py"
    given.write_bytes(content)
    assert "given.py" in refused(*asked(command, given, tmp_path / "new"))
    assert [p.name for p in tmp_path.iterdir()] == ["given.py"]


# Texts.

ODD = [
    "[red]",
    "\x1b[31m",
    "two\nlines",
    "\ud800",
    "(",
    "\\",
    "../../etc/passwd",
    "__class__",
    "{0}",
    "%s",
    "'",
    "x" * 9_000,
]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_are_refused_where_a_name_is_asked_for(refused: Refused, text: str) -> None:
    for arguments in (
        ("derive", text),
        ("derive", "attention", "--fix", text),
        ("derive", "attention", "--identity", text),
        ("generate", text, "--out", "nowhere"),
        ("verify", text),
        ("verify", "attention", "--backend", text),
        ("verify", "--mutate", text),
        ("prove", text),
        ("count", text),
        ("cost", text),
        ("cost", "attention", "--sizes", text),
        ("bench", text),
    ):
        assert len(refused(*arguments)) < 30_000
    assert not Path("nowhere").exists()


@pytest.mark.parametrize(
    "sizes",
    [
        *("n", "n=", "=4", "n==4", "n=-1", "n=1.5", "n=1e3", "n=0x10", "n=4_0", "n=٣", "n=²", "n= 4", "q=4"),
        *("n=4;m=5", "n=4,n=4", "n=4 m=5", "n=9999999999999999999", f"n={'9' * 50_000}", "n=4,\ud800=1", "n=NaN"),
    ],
)
def test_odd_sizes_are_refused(refused: Refused, sizes: str) -> None:
    told = refused("cost", "attention", "--sizes", sizes)
    assert told.startswith("backprove: attention: ")
    assert len(told) < 300


@pytest.mark.parametrize("text", [*ODD, "*"])
def test_what_filters_is_any_text(run: Callable[..., tuple[int, str, str]], text: str) -> None:
    """A filter that nothing passes is no error; nothing was checked."""
    for command in (("prove", "unembedding"), ("verify", "unembedding", "--backend", "numpy")):
        code, _, err = run(*command, "--only", text)
        assert (code, err) == (cli.NOTHING_CHECKED, "")


# Places to write to.


@pytest.mark.parametrize("command", [("document",), ("generate",), ("generate", "attention"), ("verify", "--mutate")])
@pytest.mark.parametrize(
    "kind", ["a file", "below a file", "a link to itself", "below a link to itself", "a link to nowhere", "a pipe"]
)
def test_a_place_that_is_no_folder(refused: Refused, tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    """Found out before the work, which takes minutes."""
    place = tmp_path / "place"
    if kind.endswith("a file"):
        place.write_text("mine", encoding="utf-8")
    elif kind == "a pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(place if "itself" in kind else tmp_path / "nowhere")
    told = refused(*command, "--out", str(place / "below" if kind.startswith("below") else place))
    assert f"{place} is not a directory; choose a directory that can be written" in told
    assert [p.name for p in tmp_path.iterdir()] == ["place"]


@pytest.mark.parametrize("command", [("document",), ("generate",), ("generate", "attention"), ("verify", "--mutate")])
def test_a_place_that_may_not_be_written(
    refused: Refused, folder: Path, as_nobody: Callable[[], None], command: tuple[str, ...]
) -> None:
    folder.chmod(0o555)
    as_nobody()
    told = refused(*command, "--out", str(folder / "new"))
    assert f"{folder} may not be written; choose a directory that can be written" in told


# Names that are printed.

PROGRAM = """from derive.algebra import Axis
from derive.forward import Builder

i = Axis("i", "n")
p = Builder("squares", "Squares.")
X = p.input("X", i, meaning="numbers")
p.define("Y", (i,), X[i] ** 2)
program = p.output("Y", "their squares").build()
"""


@pytest.mark.parametrize("name", ["[red]file", "[bold]", "[link=x]", "\x1b[31mred", "\udcff", "two\nlines"])
def test_odd_names_of_good_files_are_shown_as_they_are(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, name: str
) -> None:
    """No markup, no escape of a terminal's, and no traceback."""
    given = tmp_path / f"{name}.py"
    given.write_text(PROGRAM, encoding="utf-8")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
    code, out, err = run("cost", str(given), "--sizes", "n=4")
    assert (code, err) == (0, "")
    assert shown in "".join(out.split("\n"))
    for command in ("derive", "prove"):
        code, out, err = run(command, str(given))
        assert code == (cli.NOTHING_CHECKED if command == "prove" else 0)
        assert "\x1b" not in out + err


# What was generated, and by whom.


def test_generate_says_whose_each_file_is(
    run: Callable[..., tuple[int, str, str]], refused: Refused, tmp_path: Path
) -> None:
    """Wrote; nothing; rewrote what was edited; refused to replace what somebody else wrote."""
    given, out = tmp_path / "mine.py", tmp_path / "kernels"
    given.write_text(PROGRAM, encoding="utf-8")
    asked = ("generate", str(given), "--out", str(out))
    assert run(*asked) == (0, "wrote: numpy/squares.py\nwrote: cupy/squares.py\n2 files are up to date\n", "")
    assert run(*asked) == (0, "2 files are up to date\n", "")
    assert run(*asked, "--check") == (0, "2 files equal the derivation\n", "")
    made = out / "numpy" / "squares.py"
    good = made.read_bytes()
    made.write_bytes(good + b"# mine\n")
    code, told, _ = run(*asked, "--check")
    assert code == cli.WRONG
    assert told.startswith("changed: numpy/squares.py, which was edited since\n---")
    assert run(*asked)[1].splitlines()[0] == "rewrote: numpy/squares.py, which was edited since"
    assert made.read_bytes() == good
    made.write_bytes(b"# mine\n" + good)
    code, told, _ = run(*asked, "--check")
    assert (code, told.splitlines()[0]) == (cli.WRONG, "changed: numpy/squares.py, which backprove did not write")
    assert told.endswith("it neither removes nor replaces what it did not write: move that elsewhere\n")
    (out / "cupy" / "squares.py").unlink()
    told = refused(*asked)
    assert f"{made} is in the way: it was not written by backprove; move it elsewhere" in told
    assert made.read_bytes() == b"# mine\n" + good
    assert not (out / "cupy" / "squares.py").exists()


def test_generate_keeps_what_is_not_its_own(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leftover is removed only as it was generated; the others are told each time, and are no failure."""
    monkeypatch.setattr("derive.modes.names", lambda: ())
    monkeypatch.setattr("derive.pipeline.files", lambda _: {"numpy/a.py": "a = 1\n"})
    made = {name: sealed(f"numpy/{name}.py", "b = 1\n") for name in ("old", "edited")}
    made |= {"edited": made["edited"] + "# mine\n", "mine": "# Generated: do not edit\n"}
    (tmp_path / "numpy").mkdir()
    for name, text in made.items():
        (tmp_path / "numpy" / f"{name}.py").write_text(text, encoding="utf-8")
    asked = ("generate", "--out", str(tmp_path))
    kept = (
        "kept: numpy/edited.py, which was edited since\nkept: numpy/mine.py, which backprove did not write\n"
        "1 files are up to date\n"
    )
    first, *rest = run(*asked)[1].splitlines(keepends=True)
    assert first == "wrote: numpy/a.py\n"
    assert sorted(rest) == sorted(["removed: numpy/old.py\n", *kept.splitlines(keepends=True)])
    assert run(*asked) == (0, kept, "")
    assert run(*asked, "--check")[0] == cli.WRONG
    assert sorted(p.name for p in (tmp_path / "numpy").iterdir()) == ["a.py", "edited.py", "mine.py"]
