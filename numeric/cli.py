"""The command ``backprove``. Heavy imports stand inside the commands, so that ``--help`` is quick."""

from __future__ import annotations

import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from derive.errors import DeriveError
from numeric.errors import NumericError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from derive.forward import Program
    from derive.generate import Difference
    from derive.pipeline import Made
    from numeric.mutate import Row
    from numeric.verify import Finding

app = typer.Typer(
    name="backprove",
    help="Write an attention's forward pass once; get its backward derived, proved, generated, verified and explained.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

HOLDS, WRONG, USAGE, NOTHING_CHECKED = 0, 1, 2, 5

LARGEST_FILE = 1_000_000
"""Bytes that are read of a file that is given."""

Notation = Literal["row", "column", "index"]
Convention = Literal["row", "column"]
Format = Literal["text", "latex", "markdown", "json"]
Mode = Literal["backward", "tangent", "double-backward", "hessian-vector"]
Report = Literal["table", "json", "junit"]


@app.command()
def derive(
    name: Annotated[str, typer.Argument(help="A program, a mode of one such as attention_tangent, or a .py file.")],
    notation: Annotated[Notation, typer.Option(help="Positions as rows, as columns, or entries.")] = "row",
    format: Annotated[Format, typer.Option(help="Terminal text, or source of a document.")] = "text",
    mode: Annotated[
        Mode, typer.Option(help="Gradients, tangents, gradients of gradients, or Hessian times vector.")
    ] = "backward",
    full: Annotated[bool, typer.Option("--full", help="With optional inputs and all outputs.")] = False,
    fix: Annotated[str, typer.Option(help="An axis of which one position is taken alone, such as i.")] = "",
    identity: Annotated[str, typer.Option(help="A map that is set to the identity, such as W_O.")] = "",
) -> None:
    """Derive a program's gradients and print every step."""
    from derive.forward.special import one_of, with_identity
    from derive.modes import derivation_in
    from derive.printers import derivation as printed
    from derive.proof.vetting import vet

    source = _program(name)
    chosen = source if full else source.plain()
    if identity:
        chosen = with_identity(chosen, identity)
    if fix:
        chosen, notation = one_of(chosen, fix), "index"  # what is left of a matrix is written by entries
    derivation, latex = derivation_in(chosen, mode), format in ("latex", "markdown")
    _note(vet(chosen, mode, derivation))
    page = printed.page(derivation, notation, mode, latex=latex, compact=bool(fix))
    if format == "text":
        from numeric.terminal import console, show_page

        out = console()
        show_page(out, page)
        left_out = _left_out(source, chosen)
        if left_out:
            out.print(f"  [dim]Left out: {', '.join(left_out)}; show them with --full.[/dim]")
        return
    writer = {"latex": printed.latex, "markdown": printed.markdown, "json": printed.as_json}[format]
    print(writer(page), end="")


def _left_out(source: Program, chosen: Program) -> list[str]:
    """The inputs and outputs that a plain program lacks."""
    shown = {*(i.name for i in chosen.inputs), *(o.name for o in chosen.outputs)}
    names = [*(i.name for i in source.inputs), *(o.name for o in source.outputs)]
    return [name for name in names if name not in shown]


_DONE = {"missing": "wrote", "changed": "rewrote", "leftover": "removed"}
_WHOSE = {"generated": "", "edited": ", which was edited since", "other": ", which backprove did not write"}


@app.command()
def generate(
    chosen: Annotated[
        list[str] | None, typer.Argument(help="Programs or .py files of your own; they need --out.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where files differ.")] = False,
    out: Annotated[Path | None, typer.Option(help="A directory of your own instead of the committed one.")] = None,
    mode: Annotated[Mode, typer.Option(help="Another program made from each of the named ones.")] = "backward",
) -> None:
    """Regenerate the kernels from their derivations, or check that the committed ones equal them."""
    from derive.generate import check_folder, compare
    from derive.modes import names, taken_apart
    from derive.pipeline import files, made

    if chosen and out is None:
        raise NumericError("give a directory for the kernels that you choose: --out DIR")
    if mode != "backward" and not chosen:
        raise NumericError(f"name the programs to generate in the mode {mode}")
    directory = out or _generated()
    if not check:
        check_folder(directory)
    asked = [(name, mode) for name in chosen] if chosen else [taken_apart(name) for name in names()]
    everything = [made(_program(name), mode) for name, mode in asked]
    expected = files(everything)
    whole = not chosen  # what other programs have left in a directory of one's own stays
    if check:
        differences = compare(directory, expected, leftovers=whole)
    else:
        differences = _written(directory, everything, leftovers=whole)
    for difference in differences:
        done = "kept" if difference.kept else _DONE[difference.kind]
        print(f"{difference.kind if check else done}: {difference.path}{_WHOSE[difference.owner]}")
        if check and difference.diff:
            print(difference.diff)
    if check and differences:
        print(f"{len(differences)} files differ from the derivation; run: backprove generate")
        if any(d.kept or d.owner == "other" for d in differences):
            print("it neither removes nor replaces what it did not write: move that elsewhere")
        raise typer.Exit(WRONG)
    print(f"{len(expected)} files {'equal the derivation' if check else 'are up to date'}")


def _written(directory: Path, everything: Sequence[Made], *, leftovers: bool) -> list[Difference]:
    """Write what was made; what is new or changed is held against its definitions first."""
    from derive.generate import compare, write
    from derive.pipeline import files

    expected = files(everything)
    changed = {Path(d.path).stem for d in compare(directory, expected, leftovers=False)}
    for one in everything:
        if one.name in changed:
            _note(one.vet())
    return write(directory, expected, leftovers=leftovers)


def _note(left_open: Sequence[str]) -> None:
    """Say what could not be asked, and why."""
    for reason in left_open:
        print(f"note: {reason}", file=sys.stderr)


def _generated() -> Path:
    import numeric.generated

    return Path(numeric.generated.__path__[0])


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Programs, modes such as attention_tangent, or .py files; else all.")
    ] = None,
    backend: Annotated[list[str] | None, typer.Option(help="numpy or cupy; all that run here if not given.")] = None,
    only: Annotated[str, typer.Option(help="Only properties whose name holds this text.")] = "",
    format: Annotated[Report, typer.Option(help="A table, or a report for machines.")] = "table",
    mode: Annotated[Mode, typer.Option(help="Another program made from each of the named ones.")] = "backward",
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="Hold results against rigorous balls too; needs python-flint.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the random points; a new one if not given.")] = None,
    mutate: Annotated[bool, typer.Option("--mutate", help="Check the checkers: which mistakes does each see?")] = False,
    curated: Annotated[bool, typer.Option("--curated", help="With --mutate: only the listed mistakes.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="With --mutate: how many processes; 0 for one a core.")] = 0,
    out: Annotated[Path | None, typer.Option(help="With --mutate: write the page checkers.md there.")] = None,
) -> None:
    """Check every identity and property of every program, and say how sure each result is."""
    if mutate:
        if backend or only or rigorous or seed is not None:
            raise NumericError("--mutate asks every checker, on NumPy: leave out --backend, --only, --rigorous, --seed")
        if out is not None and (names or curated):
            raise NumericError("the page is about all programs and all mistakes: leave out names and --curated")
        if out is not None:
            from derive.generate import check_folder

            check_folder(out)
        raise typer.Exit(_mutated(names, format, mode, curated, jobs, out))
    if curated or jobs or out is not None:
        raise NumericError("--curated, --jobs and --out are for --mutate")
    from numeric import reports
    from numeric.terminal import console, show_findings

    findings = _findings(names, backend, only, mode, rigorous=rigorous, seed=seed)
    if format == "table":
        show_findings(console(), findings)
    else:
        print(reports.as_json(findings) if format == "json" else reports.as_junit(findings))
    raise typer.Exit(_exit_code(findings))


@app.command()
def prove(
    names: Annotated[list[str] | None, typer.Argument(help="Programs or .py files; else all.")] = None,
    only: Annotated[str, typer.Option(help="Only statements whose name or topic holds this text.")] = "",
    format: Annotated[Literal["text", "json"], typer.Option(help="Text, or whole proofs for the checker.")] = "text",
    seed: Annotated[int | None, typer.Option(min=0, help="Of the points at which open statements are tried.")] = None,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Let the checker alone read all proofs, in a process of its own.")
    ] = False,
) -> None:
    """Prove the identities of programs for all sizes: every line, counterexample or open end."""
    if recheck:
        raise typer.Exit(_rechecked(names, only, format))
    from derive.forward import names as all_names
    from derive.proof.fields import fresh_seed
    from derive.proof.identities import identities
    from derive.proof.verdict import settle
    from numeric import reports
    from numeric.terminal import console, show_verdicts, words_counted

    out, found = console(), {}
    seed = fresh_seed() if seed is None else seed
    for name in dict.fromkeys(names or all_names()):
        chosen = [x for x in identities(_program(name)) if only in x.name or only in x.topic]
        timed = []
        for identity in chosen:
            start = time.perf_counter()
            timed.append((settle(identity, seed), _since(start)))
        found[name] = [verdict for verdict, _ in timed]
        if format == "text" and timed:
            show_verdicts(out, _printable(name), timed)
    verdicts = [v for listed in found.values() for v in listed]
    if format == "json":
        print(reports.verdicts_as_json(found))
    else:
        out.print(words_counted(verdicts) if verdicts else "no statement was found")
    if any(v.as_stated is False for v in verdicts):
        raise typer.Exit(WRONG)
    raise typer.Exit(HOLDS if any(v.as_stated for v in verdicts) else NOTHING_CHECKED)


def _rechecked(names: list[str] | None, only: str, format: str) -> int:
    """Let the checker read the proofs of the named programs, or of all."""
    from derive.forward import names as all_names
    from derive.proof import checker
    from numeric.recheck import recheck

    if format != "text":
        raise NumericError("--recheck prints what the checker says: leave out --format")
    own = [_program(name).name for name in names or ()]
    done = recheck(own or all_names(), only, jobs=1 if own else 0)
    print(done.told)
    size = Path(str(checker.__file__)).read_text(encoding="utf-8").count("\n")
    print(f"by {Path(str(checker.__file__)).name}, {size} lines, in a process that loads nothing else of backprove")
    return HOLDS if done.accepted else WRONG


def _mutated(names: list[str] | None, format: Report, mode: Mode, curated: bool, jobs: int, out: Path | None) -> int:
    """Hold every mistake in the programs against every checker; 1 where one is missed that must not be."""
    import json
    from functools import partial

    from rich.progress import track

    from derive.forward import names as catalogue
    from numeric.mutate import as_records, failures, matrices
    from numeric.terminal import console

    if format == "junit":
        raise NumericError("the matrix of mistakes is a table or JSON: --format table or --format json")
    if mode != "backward" and not names:
        raise NumericError(f"name the programs to spoil in the mode {mode}")
    chosen = list(dict.fromkeys(_provided(name, mode) for name in names)) if names else list(catalogue())
    err = console(stderr=True)

    def shown(results: Iterable[list[Row]], total: int) -> Iterable[list[Row]]:
        bar = partial(track, console=err, transient=True, disable=not err.is_terminal)
        return bar(results, "making mistakes", total=total)

    found = matrices(chosen, curated=curated, jobs=jobs, shown=shown)
    if format == "json":
        print(json.dumps({name: as_records(rows) for name, rows in found.items()}, ensure_ascii=False, indent=2))
    else:
        _show_mutated(found, one_by_one=bool(names))
    if out is not None:
        from numeric.mutate.page import write_page

        print(f"wrote {write_page(out, found)}", file=sys.stderr)
    missed = [f"{name}, {failure}" for name, rows in found.items() for failure in failures(rows)]
    for line in missed:
        print(line, file=sys.stderr)
    return WRONG if missed else HOLDS


def _show_mutated(found: Mapping[str, list[Row]], *, one_by_one: bool) -> None:
    from numeric.mutate.shown import show_matrices, show_matrix
    from numeric.terminal import console

    if not one_by_one:
        show_matrices(console(), found)
        return
    for name, rows in found.items():
        show_matrix(console(), name, rows)


def _findings(
    names: list[str] | None,
    backends: list[str] | None,
    only: str = "",
    mode: Mode = "backward",
    *,
    rigorous: bool = False,
    seed: int | None = None,
) -> list[Finding]:
    """Run the checks, in as many processes as there are cores, showing progress on a terminal."""
    from rich.progress import track

    from derive.proof.fields import fresh_seed
    from numeric.backends import backend, cupy_missing
    from numeric.kernels import load, programs
    from numeric.processes import results
    from numeric.terminal import console
    from numeric.verify import Asked, findings

    if mode != "backward" and not names:
        raise NumericError(f"name the programs to verify in the mode {mode}")
    chosen = list(dict.fromkeys(_provided(name, mode) for name in names or programs()))
    on = tuple(dict.fromkeys(backends or [])) or None
    for asked in on or ():
        backend(asked)
    tensors = {name: len(load(name).signature.dims) for name in chosen}
    widest = sorted(chosen, key=lambda name: -tensors[name])  # first, so that no process is left alone with them
    seed = fresh_seed() if seed is None else seed  # one for all processes
    everything = [Asked(name, on, only, rigorous, seed) for name in widest]
    # What is made in memory is known to this process alone, and a device is better not shared.
    alone = not set(chosen) <= set(programs()) or cupy_missing() is None
    err = console(stderr=True)
    found = track(
        results(findings, everything, jobs=1 if alone else 0),
        "verifying",
        total=len(everything),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    by_name = dict(zip(widest, found, strict=True))
    return [finding for name in chosen for finding in by_name[name]]


def _provided(name: str, mode: Mode) -> str:
    """The name of a program in a mode; what is not committed is generated in memory, and what it is made from too."""
    from derive.modes import in_mode, program, taken_apart
    from derive.pipeline import TARGETS, module
    from numeric.backends import cupy_missing
    from numeric.kernels import programs, provide

    if mode == "backward" and name in programs():
        return name
    own = in_mode(_program(name), mode)
    for made in dict.fromkeys((taken_apart(own.name)[0], own.name)):
        for target in TARGETS:
            if made not in programs() and (target == "numpy" or cupy_missing() is None):
                provide(made, target, module(program(made), target))
    return own.name


def _exit_code(findings: list[Finding]) -> int:
    if any(f.status == "fails" for f in findings):
        return WRONG
    return HOLDS if any(f.status == "holds" for f in findings) else NOTHING_CHECKED


@app.command()
def count(
    name: Annotated[str, typer.Argument(help="gpt3, llama3-8b, llama3-70b or bert-base.")],
) -> None:
    """Count a model's weights from the shapes of the programs that it is made of."""
    from derive.count import count as counted
    from derive.forward.configurations import configuration
    from numeric.terminal import console, show_count

    model = configuration(name)
    show_count(console(), model, *counted(model))


@app.command()
def cost(
    name: Annotated[str, typer.Argument(help="A program, or a .py file of your own.")],
    sizes: Annotated[str, typer.Option(help="Sizes by name, such as n=1,m=4096; without them, formulas.")] = "",
    full: Annotated[bool, typer.Option("--full", help="With optional inputs and all outputs.")] = False,
) -> None:
    """Print what a kernel computes, reads, writes and keeps, as formulas in sizes and as numbers."""
    from rich.markup import escape

    from derive.lower import cost as costs
    from derive.pipeline import kernel
    from numeric.terminal import console, show_cost

    source = _program(name)
    chosen = source if full else source.plain()
    known = [str(s) for s in dict.fromkeys(s for i in chosen.inputs for s in i.tensor.shape if not s.is_Integer)]
    show_cost(console(), escape(_printable(name)), costs(kernel(chosen)), _sizes(name, sizes, known))


def _sizes(name: str, text: str, known: list[str]) -> dict[str, int]:
    """Sizes that are given as text; some or none may be given."""
    sizes: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        size, _, number = part.partition("=")
        if size not in known or not (number.isascii() and number.isdecimal()) or len(number) > 18:
            wanted = f"give whole numbers for {', '.join(known)}, such as {known[0]}=4" if known else "it has no sizes"
            raise NumericError(f"{name}: {part[:40]!r} is no size; {wanted}")
        if size in sizes:
            raise NumericError(f"{name}: the size {size} is given twice")
        sizes[size] = int(number)
    return sizes


@app.command()
def document(
    out: Annotated[Path, typer.Option(help="Where worked_example.md and .html, and programs.md, go.")] = Path(
        "docs/generated"
    ),
    input: Annotated[Path | None, typer.Option(help='JSON of your own: {"Q": [[1, "1/2"]], "K": …, "V": …}.')] = None,
    notation: Annotated[Convention, typer.Option(help="Positions as rows or as columns.")] = "row",
) -> None:
    """Write the worked example and the page of programs: every formula, number and answer from the derivations."""
    for path in _document(out, input, notation):
        print(f"wrote {_printable(str(path))}")


def _document(out: Path, given: Path | None, notation: Convention) -> tuple[Path, ...]:
    from derive.document import Inputs, parse_inputs, worked_example, write_documents, write_programs
    from derive.generate import check_folder

    check_folder(out)
    inputs = Inputs() if given is None else parse_inputs(_text(given))
    page = worked_example(inputs.matrices or None, notation=notation, scale=inputs.scale)
    return write_documents(out, page) + (write_programs(out) if given is None else ())


def _text(path: Path) -> str:
    """What a file of a user's holds."""
    _check_file(path, "JSON")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DeriveError(f'{path} is not a UTF-8 text file; give JSON such as {{"Q": [[1, "1/2"]], …}}') from None


def _program(name: str) -> Program:
    """The program that is asked for; a file of a user's is looked at before it is run."""
    from derive.modes import program, taken_apart

    file = Path(taken_apart(name)[0])
    if file.suffix == ".py" and file.exists():
        _check_file(file, "a program")
    try:
        return program(name)
    except SystemExit as stop:
        raise DeriveError(f"{name} ends Python, with {stop.code!r}; a file that defines a program goes on") from None


def _check_file(path: Path, what: str) -> None:
    """A file of which there is an end, and no waiting for it: no folder, no pipe, no device, nothing huge.

    Raises
    ------
    DeriveError, OSError: it is something else, or not there.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
        raise DeriveError(f"{path} is {kind}; give a file with {what}")
    if found.st_size > LARGEST_FILE:
        most = f"at most {LARGEST_FILE:,} bytes"
        raise DeriveError(f"{path} has {found.st_size:,} bytes; give a file with {what} of {most}")


@app.command()
def bench(
    what: Annotated[
        str,
        typer.Argument(
            help="derive (all gradients), prove (each identity), stack (of blocks), run (against a peer, if any) or "
            "sensitivity (the smallest fault that is seen)."
        ),
    ] = "derive",
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are printed.")] = 15,
) -> None:
    """Measure; interleaved medians, with a peer in the same process where there is one."""
    from numeric import bench as benchmarks

    if what not in benchmarks.BENCHMARKS:
        raise NumericError(f"there is no benchmark {what!r}; there are {', '.join(benchmarks.BENCHMARKS)}")
    benchmarks.BENCHMARKS[what](repeats)


@app.command()
def run() -> None:
    """Regenerate, verify and document everything, and print one summary."""
    from derive.modes import names, taken_apart
    from derive.pipeline import made
    from derive.proof.rationals import flint_missing
    from numeric.terminal import console, earned, show_findings, show_summary
    from numeric.verify import BALLS, Finding

    out, rows = console(), []
    start = time.perf_counter()
    everything = [made(_program(name), mode) for name, mode in map(taken_apart, names())]
    changed = [d for d in _written(_generated(), everything, leftovers=True) if not d.kept]
    rows.append(("generate", f"{len(changed)} files rewritten" if changed else "kernels are up to date", _since(start)))
    start = time.perf_counter()
    missing = flint_missing()
    findings = _findings(None, None, rigorous=missing is None)
    if missing:
        findings.append(Finding("all programs", BALLS, "numpy", "", "not measured", None, missing))
    rows.append(("verify", earned(findings), _since(start)))
    start = time.perf_counter()
    paths = _document(Path("docs/generated"), None, "row")
    rows.append(("document", ", ".join(map(str, paths)), _since(start)))
    if _exit_code(findings) != HOLDS:
        show_findings(out, findings)
    show_summary(out, rows, findings)
    raise typer.Exit(_exit_code(findings))


def _since(start: float) -> float:
    return time.perf_counter() - start


def _printable(text: str) -> str:
    """A text on one line: what would break it, move the cursor, or cannot be written is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def main() -> None:
    """Run the command; expected errors are one line and exit code 2."""
    try:
        app()
    except (DeriveError, NumericError) as error:
        told = str(error)
    except OSError as error:
        told = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
    else:
        return
    print(f"backprove: {_printable(told)}", file=sys.stderr)
    raise SystemExit(USAGE)
