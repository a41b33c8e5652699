"""What people read in a terminal: derivations, findings and summaries, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from derive.printers.derivation import Line, Page
from derive.printers.style import superscript
from numeric.verify import Finding

if TYPE_CHECKING:
    from sympy import Expr

    from derive.count import Count
    from derive.forward.configurations import Configuration
    from derive.lower import KernelCost
    from derive.proof.verdict import Verdict

WIDTH = 100

COLOURS = {"holds": "green", "fails": "bold red", "not measured": "yellow"}


def console(*, stderr: bool = False) -> Console:
    """A console no wider than 100 columns; in a pipe it writes plain text of that width."""
    made = Console(stderr=stderr, highlight=False)
    width = min(made.width, WIDTH) if made.is_terminal else WIDTH
    return Console(stderr=stderr, highlight=False, width=width)


def show_page(out: Console, page: Page) -> None:
    """A derivation: forward definitions, numbered steps, and the program they end in."""
    out.print(Text.assemble((page.program, "bold"), f": {page.mode}, {page.notation} notation"))
    out.print(Text(page.title, style="dim"))
    _heading(out, "Forward")
    out.print(_equations(page.forward, with_rules=False))
    _heading(out, "Steps")
    for number, step in enumerate(page.steps, 1):
        out.print(_step(number, step))
    _heading(out, page.mode.replace("-", " ").capitalize())
    out.print(_equations(page.result, with_rules=True))
    if page.compact:
        _heading(out, "Compact")
        out.print(_equations(page.compact, with_rules=True))
    out.print()
    for note in page.notes:
        out.print(Text(f"  {note}.", style="dim"))


def _heading(out: Console, title: str) -> None:
    out.print()
    out.print(Text(title, style="bold cyan"))


def _equations(lines: Sequence[Line], *, with_rules: bool) -> Padding:
    """Equations aligned at their last left side, with shapes, and rules or remarks."""
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="dim")
    for line in lines:
        remark = line.rule if with_rules else line.reason
        table.add_row(
            Text(line.left, style="bold"), Text(f"= {line.right}"), Text(f"  {line.shape}"), Text(f"  {remark}")
        )
    return Padding(table, (0, 0, 0, 2))


def _step(number: int, step: Line) -> Padding:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="dim", width=3)
    table.add_column()
    table.add_row(f"{number}.", Text.assemble((step.rule, "cyan"), ("  " + step.reason, "dim")))
    if step.before:
        table.add_row("", Text(f"  {step.before}"))
    arrow = "⇒ " if step.before else "  "
    table.add_row("", Text.assemble(arrow, (step.left, "bold"), f" = {step.right}"))
    return Padding(table, (0, 0, 0, 1))


def show_count(
    out: Console, model: Configuration, inside: Sequence[Count], parts: Sequence[Count], total: Count
) -> None:
    """A model's weights, part by part."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=model.name, title_justify="left")
    table.add_column("part")
    table.add_column("program", style="dim")
    table.add_column("weights of maps", justify="right")
    table.add_column("with biases and norms", justify="right")
    for section in (inside, parts, (total,)):
        for row in section:
            table.add_row(row.label, row.program, f"{row.maps:,}", f"{row.all:,}")
        table.add_section()
    out.print(table)
    out.print(Text(f"sizes: {', '.join(f'{n} = {v}' for n, v in model.sizes.items())}", style="dim"))
    if model.left_out:
        out.print(Text(f"left out: {model.left_out}", style="dim"))


def show_cost(out: Console, name: str, found: KernelCost, sizes: Mapping[str, int]) -> None:
    """What a kernel costs: a formula a row, and its value where all sizes are given."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"{name}: one entry of the leading axes")
    table.add_column("what")
    table.add_column("formula")
    if sizes:
        table.add_column("value", justify="right")
    rows = {
        "forward: matrix products": found.forward.products,
        "forward: entry by entry": found.forward.entrywise,
        "backward: matrix products": found.backward.products,
        "backward: entry by entry": found.backward.entrywise,
        "numbers read": found.inputs,
        "numbers written": found.outputs,
        "numbers kept for backward": found.saved,
    }
    for what, formula in rows.items():
        value = formula.subs({s: sizes[str(s)] for s in formula.free_symbols if str(s) in sizes})
        values = [f"{int(value):,}" if value.is_number else _formula(value)] if sizes else []
        table.add_row(what, _formula(formula), *values)
    out.print(table)
    out.print(Text("a product counts two operations for every term that it sums; nothing is skipped", style="dim"))


def _formula(expr: Expr) -> str:
    """A polynomial in sizes, its largest terms first."""
    terms = sorted(expr.as_ordered_terms(), key=lambda t: -len(str(t.free_symbols)))
    return " + ".join(str(t).replace("**2", "²").replace("**3", "³").replace("*", " ") for t in terms)


def show_verdicts(out: Console, name: str, verdicts: Sequence[tuple[Verdict, float]]) -> None:
    """Every statement about a program: when it holds, who relies on it, and what its evidence rests on."""
    out.print(Text(name, style="bold cyan"))
    for verdict, seconds in verdicts:
        identity = verdict.identity
        out.print()
        style = {True: "green", False: "bold red", None: "yellow"}[verdict.as_stated]
        head = Table.grid(expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right", style="dim", no_wrap=True)
        head.add_row(
            Text.assemble((identity.name, "bold"), "  ", (verdict.word, style)),
            f"{identity.topic}, {seconds * 1e3:.0f} ms",
        )
        out.print(head)
        rows = Table.grid(padding=(0, 1))
        rows.add_column(justify="right", style="dim", width=9, no_wrap=True)
        rows.add_column()
        for text in identity.statement.split("; "):
            rows.add_row("", Text(text))
        for text in identity.conditions:
            rows.add_row("if", Text(text))
        if identity.setting:
            rows.add_row("about", Text(identity.setting))
        for text in identity.where:
            rows.add_row("where", Text(text))
        rows.add_row("behind", Text(identity.relied_on))
        for label, evidence in _evidence(verdict):
            rows.add_row(label, evidence)
        out.print(rows)
    out.print()


def _evidence(verdict: Verdict) -> Iterator[tuple[str, Text]]:
    """What a verdict rests on, line by line: a proof in full, a counterexample, or what is left over."""
    from derive.proof.lines import lines

    proof = verdict.proof
    if proof.status == "proved":
        for line in lines(proof.data):
            shown = Text.assemble("  " * line.depth, line.text, (f"   {line.why}" if line.why else "", "dim cyan"))
            yield line.sign or "proof", shown
    elif proof.counterexample is not None:
        yield "because", Text(f"of {proof.counterexample}", style="dim")
    else:
        for rest in proof.remainders:
            yield "left", Text(rest, style="dim")
        if verdict.beside:
            yield "beside", Text(verdict.beside, style="dim")


def words_counted(verdicts: Sequence[Verdict]) -> str:
    """How many statements earned each word."""
    words = dict.fromkeys(v.word for v in verdicts)
    return f"{len(verdicts)} statement{'s' * (len(verdicts) != 1)}: " + ", ".join(
        f"{sum(v.word == w for v in verdicts)} {w}" for w in words
    )


def show_findings(out: Console, findings: Sequence[Finding]) -> None:
    """One table, a section a program: property, backend, the word it earned, scaled error, result."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, width=min(out.width, WIDTH))
    table.add_column("property", ratio=1)
    table.add_column("backend", no_wrap=True)
    table.add_column("evidence", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for name in dict.fromkeys(f.program for f in findings):
        table.add_row(Text(name, style="bold"))
        for finding in findings:
            if finding.program == name:
                table.add_row(
                    Text(f"  {finding.property}"),
                    finding.backend,
                    finding.evidence,
                    written(finding.error),
                    Text(finding.status, style=COLOURS[finding.status]),
                )
        table.add_section()
    out.print(table)
    for finding in findings:
        if finding.evidence == "bounded" and finding.status == "holds":
            told = Text(f"{finding.program} ({finding.backend}): {finding.detail}", style="dim")
            out.print(told, no_wrap=True, overflow="ellipsis")
    for finding in findings:
        if finding.status == "fails":
            out.print(Text(f"{finding.program}: {finding.property} ({finding.backend}): {finding.detail}", style="red"))
    for finding in findings:
        if finding.status == "holds" and finding.detail.startswith("open"):
            out.print(Text(f"{finding.program}: {finding.property} is {finding.detail}", style="yellow"))
    show_unmeasured(out, findings)
    out.print(Text(counted(findings), style="bold"))
    missed = [f.missed for f in findings if f.missed is not None]
    if missed:
        least = f"a difference is missed with probability below 2{superscript(max(missed))}"
        seeds = {f.seed for f in findings if f.missed is not None}
        again = f"; --seed {seeds.pop()} looks at the same points again" if len(seeds) == 1 else ""
        out.print(Text(f"fingerprinted: {least}{again}", style="dim"))
    out.print(Text("error: the worst deviation in units of what rounding may cause; up to 2 holds", style="dim"))


def written(error: float | None) -> str:
    """A scaled error in three digits."""
    return "" if error is None else "∞" if error == float("inf") else f"{error:.3f}" if error < 1000 else f"{error:.1e}"


def counted(findings: Iterable[Finding]) -> str:
    """How many findings hold, fail and were not measured."""
    listed = list(findings)
    totals = {status: sum(f.status == status for f in listed) for status in COLOURS}
    return ", ".join(f"{count} {status}" for status, count in totals.items() if count) or "nothing was checked"


def earned(findings: Sequence[Finding]) -> str:
    """How many findings earned each word, and how many fail."""
    words = dict.fromkeys(f.evidence for f in findings if f.status == "holds")
    parts = [f"{sum(f.evidence == word and f.status == 'holds' for f in findings)} {word}" for word in words]
    failing = sum(f.status == "fails" for f in findings)
    return ", ".join([*parts, *([f"{failing} fail"] if failing else [])]) or "nothing was checked"


def show_summary(out: Console, rows: Sequence[tuple[str, str, float]], findings: Sequence[Finding]) -> None:
    """Stages of a run: what each did and how long it took, and what was not measured."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", style="bold")
    table.add_column("result")
    table.add_column("seconds", justify="right")
    for stage, result, seconds in rows:
        table.add_row(stage, result, f"{seconds:.1f}")
    out.print(table)
    show_unmeasured(out, findings)
    out.print(Text("every finding: backprove verify; the derivations: backprove derive attention", style="dim"))


def show_unmeasured(out: Console, findings: Iterable[Finding]) -> None:
    """What was not measured, and why; each reason once."""
    for reason in dict.fromkeys(f"{f.backend}: {f.detail}" for f in findings if f.status == "not measured"):
        out.print(Text(f"not measured on {reason}", style="yellow"))
