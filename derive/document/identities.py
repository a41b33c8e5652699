"""The page of identities: every statement of the catalogue with its premises, its evidence and who relies on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from derive.document.evidence import settled
from derive.document.markdown import plain
from derive.errors import ProofError
from derive.forward import names
from derive.proof.axioms import ALWAYS, LAWS, Axiom
from derive.proof.prover import Identity
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
    return "\n".join([*_head(listed), *_assumed(listed), *_topics(listed), *_open(listed)]) + "\n"


def _head(rows: Sequence[Row]) -> Iterator[str]:
    statements = sum(len(verdicts) for _, verdicts in rows)
    words = [v.word for _, verdicts in rows for v in verdicts.values()]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    yield "# Identities"
    yield ""
    yield "Made by `backprove document`; do not edit. `backprove prove NAME` prints every rewrite of every proof."
    yield ""
    yield f"{len(rows)} statements, made about {statements} times of {_of_programs(rows)} programs: {counted}."
    yield "*Proved* means for all sizes, by canonical form and the axioms below, never by sampling. *Refuted* is an"
    yield "equation that people may take for true, listed with a counterexample. A statement is built from the"
    yield "program's own definitions and derived gradients, and says that its sides are equal where they are defined."
    yield ""


def _of_programs(rows: Sequence[Row]) -> int:
    return len({name for _, verdicts in rows for name in verdicts})


def _assumed(rows: Sequence[Row]) -> Iterator[str]:
    axioms: dict[str, Axiom] = {a.name: a for a in ALWAYS}
    for identity, _ in rows:
        axioms |= {a.name: a for a in identity.axioms}
    yield "## What proofs may use"
    yield ""
    yield "In this order: definitions unfold; laws of all numbers; axioms about single tensors, each a premise of what"
    yield "uses it or proved of the tensor's definition; multiplication by what divides. The algebra keeps sums of"
    yield "products canonical: bound axes have no names, factors no order, deltas contract, M² = M."
    yield ""
    yield "| kind | name | statement |"
    yield "|---|---|---|"
    for law in LAWS:
        yield f"| law | {plain(law.name)} | `{law.statement}` |"
    for axiom in axioms.values():
        yield f"| axiom | {plain(axiom.name)} | `{axiom.statement}` |"
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
    premises = "; ".join(map(plain, identity.premises)) or "always"
    return (
        plain(identity.name),
        f"`{identity.statement}`",
        premises,
        ", ".join(words),
        plain(identity.relied_on),
        programs,
    )


def _open(rows: Sequence[Row]) -> Iterator[str]:
    left = [(n, v) for _, verdicts in rows for n, v in verdicts.items() if v.proof.status == "open"]
    yield "## Open"
    yield ""
    if not left:
        yield "The prover leaves none of these statements open."
    for name, verdict in left:
        yield f"- `{name}`, {plain(verdict.identity.name)}: {verdict.word}. Left: `{verdict.proof.left}`. "
        yield f"  Right: `{verdict.proof.right}`."
    yield ""
    yield "Not proved but checked for every program, each with the word that it earns in `backprove verify`:"
    yield ""
    yield "- The compact gradients equal the bare chain rule, and the generated order of operations equals the"
    yield "  derivation: *fingerprinted* at random points of a finite field."
    yield "- Reverse mode is the transpose of forward mode: *exact* with dual numbers at random sizes, *fingerprinted*"
    yield "  where roots are taken."
    yield "- A whole sequence decoded token by token, or in chunks, equals the full causal pass: *exact* at given"
    yield "  sizes. One chunk and one token are proved above."
