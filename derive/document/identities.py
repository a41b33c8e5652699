"""The page of identities: every statement of the catalogue with its premises, its evidence and who relies on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from derive.document.evidence import settled
from derive.errors import ProofError
from derive.forward import names
from derive.printers.derivation import plain
from derive.proof import checker, statements, terms, text
from derive.proof.rules import RULES
from derive.proof.statements import Identity
from derive.proof.verdict import Verdict

FEW = 4
"""How many programs are named one by one."""

Row = tuple[Identity, dict[str, Verdict]]
"""A statement, and its verdict for each program that it is made about."""


def identities_page() -> str:
    """The page as Markdown.

    Raises
    ------
    ProofError: a statement is not what the catalogue says of it.
    """
    verdicts = {name: settled(name) for name in names()}
    rows: dict[tuple[str, str], Row] = {}
    for name, found in verdicts.items():
        for verdict in found:
            if verdict.as_stated is False:
                raise ProofError(f"{name}: {verdict.identity.name} is not as stated; run: backprove prove {name}")
            key = verdict.identity.topic, verdict.identity.name
            rows.setdefault(key, (verdict.identity, {}))[1][name] = verdict
    listed = list(rows.values())
    return "\n".join([*_head(listed), *_trusted(), *_rules(), *_topics(listed), *_open(listed)]) + "\n"


def _head(rows: Sequence[Row]) -> Iterator[str]:
    statements = sum(len(verdicts) for _, verdicts in rows)
    words = [v.word for _, verdicts in rows for v in verdicts.values()]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    yield "# Identities"
    yield ""
    yield "Made by `backprove document`; do not edit. `backprove prove NAME` prints every line of every proof."
    yield ""
    yield f"{len(rows)} statements, made about {statements} times of {_of_programs(rows)} programs: {counted}."
    yield "*Proved* means for all sizes: every step is accepted by a checker that knows nothing of what found it."
    yield "*Refuted* is an equation that people may take for true, listed with a counterexample. Every statement is"
    yield "printed from the terms that are proved, and stands on its program's own definitions and derived gradients."
    yield ""


def _trusted() -> Iterator[str]:
    """What somebody has to believe who believes the proofs, counted."""
    base, *others = (
        Path(str(module.__file__)).read_text(encoding="utf-8").count("\n")
        for module in (checker, terms, statements, text)
    )
    around = sum(others)
    yield "## What you have to trust"
    yield ""
    yield "`backprove prove --format json > proofs.json` writes every statement with its definitions, its premises"
    yield "and every step of its proof; `python checker.py proofs.json` reads that and accepts it, or says which step"
    yield "fails."
    yield "To be trusted are"
    yield ""
    yield f"- `derive/proof/checker.py`, {base} lines, and Python's standard library: no SymPy, nothing else of this"
    yield "  project;"
    yield "- that the file says what the program and this page say: `derive/proof/statements.py` and `terms.py` write"
    yield f"  definitions, premises and claims as terms, and `text.py` prints those terms, {around} lines; the checker"
    yield "  reads terms alone, and no text;"
    yield "- what the file assumes: its premises, which in a file of somebody else's may contradict each other, and"
    yield "  which tensors hold integers, or 0 and 1;"
    yield "- that a program's gradients are those of its definitions: `backprove verify` asks dual numbers about that."
    yield ""
    yield "The prover, canonical forms and SymPy's simplifications in a proof are not among them: what they get wrong,"
    yield "the checker does not accept. What a definition is before it is written down, SymPy decides: x/x is 1 there."
    yield "`backprove prove --recheck` runs the checker on the whole catalogue."
    yield ""


def _of_programs(rows: Sequence[Row]) -> int:
    return len({name for _, verdicts in rows for name in verdicts})


def _rules() -> Iterator[str]:
    yield "## What a step may do"
    yield ""
    yield "Between steps only the normal form of sums of products counts: orders, brackets and names of summed"
    yield "positions do not; 1/(xy) is 1/x · 1/y, a 0/1 factor is its square, Σ 1 is the size, and comparisons of"
    yield "integers have one spelling. A step replaces instances of one of these:"
    yield ""
    yield "| rule | says | may be used if |"
    yield "|---|---|---|"
    for rule in RULES.values():
        yield f"| {plain(rule.title)} | {plain(rule.says)} | {plain('; '.join(rule.conditions)) or 'always'} |"
    yield ""


def _topics(rows: Sequence[Row]) -> Iterator[str]:
    for topic in dict.fromkeys(identity.topic for identity, _ in rows):
        yield f"## {topic.capitalize()}"
        yield ""
        yield "| identity | statement | holds if | evidence | behind it | programs |"
        yield "|---|---|---|---|---|---|"
        for identity, verdicts in rows:
            if identity.topic == topic:
                yield f"| {' | '.join(_cells(identity, verdicts))} |"
        yield ""


def _cells(identity: Identity, verdicts: dict[str, Verdict]) -> tuple[str, ...]:
    words = dict.fromkeys(v.word for v in verdicts.values())
    programs = ", ".join(f"`{n}`" for n in verdicts) if len(verdicts) <= FEW else f"{len(verdicts)} programs"
    conditions = [*map(_code, identity.conditions), *([plain(identity.setting)] if identity.setting else [])]
    made = "".join(f"<br>with {_code(text)}" for text in identity.where if text.split("[")[0] in identity.own)
    return (
        plain(identity.name),
        f"{_code(identity.statement)}{made}",
        "; ".join(conditions) or "always",
        ", ".join(words),
        plain(identity.relied_on),
        programs,
    )


def _code(text: str) -> str:
    """Text as code in a cell of a table; a name before a colon stays words."""
    words, colon, formula = text.rpartition(": ")
    return f"{plain(words)}: `{formula}`" if colon else f"`{text}`"


def _open(rows: Sequence[Row]) -> Iterator[str]:
    left = [(n, v) for _, verdicts in rows for n, v in verdicts.items() if v.proof.status == "open"]
    yield "## Open"
    yield ""
    if not left:
        yield "The prover leaves none of these statements open."
    for name, verdict in left:
        left_over = "; ".join(verdict.proof.remainders)
        yield f"- `{name}`, {plain(verdict.identity.name)}: {verdict.word}. Left over: `{left_over}`."
    yield ""
    yield "Not proved but checked for every program, each with the word that it earns in `backprove verify`:"
    yield ""
    yield "- The compact gradients equal the bare chain rule, and the generated order of operations equals the"
    yield "  derivation: *fingerprinted* at random points of a finite field."
    yield "- Reverse mode is the transpose of forward mode: *exact* with dual numbers at random sizes, *fingerprinted*"
    yield "  where roots are taken."
    yield "- A whole sequence decoded token by token, or in chunks, equals the full causal pass: *exact* at given"
    yield "  sizes. One chunk and one token are proved above."
