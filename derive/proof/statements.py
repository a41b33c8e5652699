"""Statements: what is claimed, under which premises, by which definitions; each is printed from what is proved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total, free_axes
from derive.algebra.binders import rewrite
from derive.calculus.partials import partials
from derive.errors import ProofError
from derive.forward.program import Definition, unfolded
from derive.proof.terms import SPELLED, Exporter, Slope, tensors_of
from derive.proof.text import written

Sign = Literal["equal", "not 0", "> 0", ">= 0"]


@dataclass(frozen=True)
class Claim:
    """``left = right``, or with a witness ``left ≥ right``: left − right is the witness, whose parts are at least 0."""

    left: sp.Expr
    right: sp.Expr
    witness: sp.Expr | None = None


@dataclass(frozen=True)
class Premise:
    """What a statement assumes, for all positions of some axes: an equation, or the sign of a value.

    name: what it means, in words.
    """

    name: str
    says: Sign
    of: sp.Expr
    equals: sp.Expr = field(default=sp.S.Zero)
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Identity:
    """A statement for all sizes.

    claims: what it says; unfold: the definitions that its proof writes out, in order, which belong to the statement;
    premises: what it assumes; setting: what else it is about, in words: which program, which cotangents; relied_on: who
    uses it; definitions: what every tensor in it stands for, for counterexamples; all_visible: whether hidden keys are
    outside of its premises; refutable: whether all premises hold at random points, so that a counterexample is one;
    holds: False for an equation that people may take for true, which is listed with its counterexample; of_program: the
    names of what a program defines, so that a reader knows them.
    """

    name: str
    claims: tuple[Claim, ...]
    unfold: tuple[Definition, ...] = ()
    premises: tuple[Premise, ...] = ()
    setting: str = ""
    relied_on: str = ""
    definitions: tuple[Definition, ...] = ()
    all_visible: bool = True
    refutable: bool = True
    holds: bool = True
    topic: str = ""
    of_program: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[Definition, ...]:
        """What its tensors stand for: what it is told, or its own definitions."""
        return self.definitions or self.unfold

    @property
    def left(self) -> sp.Expr:
        """The left side of the first claim."""
        return self.claims[0].left

    @property
    def right(self) -> sp.Expr:
        """The right side of the first claim."""
        return self.claims[0].right

    @property
    def statement(self) -> str:
        """The claims as text: printed from the terms that are proved."""
        data = as_data(self)
        return "; ".join(dict.fromkeys(claim_text(claim, self.holds) for claim in data["claims"]))

    @property
    def where(self) -> tuple[str, ...]:
        """The definitions that the statement is made with, as text."""
        return tuple(definition_text(d) for d in as_data(self)["definitions"])

    @property
    def own(self) -> frozenset[str]:
        """The names of the definitions that belong to the statement and to no program."""
        return frozenset(d.name for d in self.unfold) - frozenset(self.of_program)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The premises, in words and as formulas."""
        return tuple(premise_text(p) for p in as_data(self)["premises"])


def spelled(expr: sp.Expr, definitions: Sequence[Definition]) -> sp.Expr:
    """An expression with its partial derivatives worked out by the calculus: for counterexamples, never for proofs."""

    def derivative(node: sp.Expr) -> sp.Expr:
        if not isinstance(node, Slope):
            return node
        of, by = node.args
        between = [d for d in definitions if d.target.base != by.base]
        while (further := unfolded(of, between)) != of:
            of = further
        parts = partials(of, by.base)
        return sp.Add(*(Total(p.weight * sp.Mul(*map(Delta, p.indices, by.indices)), *p.bound) for p in parts))

    return rewrite(expr, derivative)


def equation(name: str, left: sp.Expr, right: sp.Expr, unfold: Sequence[Definition] = (), **more: Any) -> Identity:
    """A statement of one equation."""
    return Identity(name, (Claim(left, right),), tuple(unfold), **more)


def as_data(identity: Identity) -> dict[str, Any]:
    """A statement as the checker reads it, without steps.

    A statement for each position of an axis of few is one claim for each of them.

    Raises
    ------
    ProofError: something in it cannot stand in a proof.
    """
    exporter = Exporter(_letters(identity))
    free = _free(identity)
    few = [axis for axis in free if axis.size.is_Integer and axis.size <= SPELLED]
    scope = [axis for axis in free if axis not in few]
    taken = [axis.name for axis in scope]
    claims = []
    for claim in identity.claims:
        for places in product(*(range(int(axis.size)) for axis in few)):
            here = dict(zip(few, map(sp.Integer, places), strict=True))
            left, right, witness = (
                None if side is None else exporter.term(side.xreplace(here), taken)
                for side in (claim.left, claim.right, claim.witness)
            )
            own = {"says": "="} if witness is None else {"says": ">=", "witness": witness}
            claims.append({**own, "left": left, "right": right})
    definitions = _mentioned(identity)
    everything = [*_said(identity), *(x for d in definitions for x in (d.target, d.value))]
    premises = [*identity.premises, *_ranges(everything)]
    return {
        "name": identity.name,
        "for": exporter.bound(scope),
        "tensors": tensors_of(everything),
        "definitions": [exporter.definition(d) for d in definitions],
        "premises": [_premise(p, exporter) for p in premises],
        "claims": claims,
    }


def _said(identity: Identity) -> list[sp.Expr]:
    """What a statement claims and assumes, as expressions."""
    claimed = [side for c in identity.claims for side in (c.left, c.right, c.witness) if side is not None]
    return [*claimed, *(x for p in identity.premises for x in (p.of, p.equals))]


def _mentioned(identity: Identity) -> list[Definition]:
    """The definitions of what a statement mentions, and of what these mention, in order."""
    needed, found = {entry.base for expr in _said(identity) for entry in expr.atoms(Entry)}, []
    for definition in reversed(_in_order(identity.unfold)):
        if definition.target.base in needed:
            needed |= {entry.base for entry in definition.value.atoms(Entry)}
            found.append(definition)
    return found[::-1]


def _in_order(definitions: Sequence[Definition]) -> list[Definition]:
    """Definitions with what each is made of before it."""
    waiting, ordered = list(definitions), []
    while waiting:
        made = {d.target.base for d in waiting}
        ready = next((d for d in waiting if not any(e.base in made for e in d.value.atoms(Entry))), None)
        if ready is None:
            raise ProofError(f"{', '.join(d.name for d in waiting)} are defined by one another")
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def _premise(premise: Premise, exporter: Exporter) -> dict[str, Any]:
    taken = [axis.name for axis in premise.axes]
    of = exporter.term(premise.of, taken)
    said: Mapping[str, Any] = {"of": of}
    if premise.says == "equal":
        said = {"left": of, "right": exporter.term(premise.equals, taken)}
    return {"name": premise.name, "for": exporter.bound(premise.axes), "says": premise.says, **said}


def _ranges(exprs: Sequence[sp.Expr]) -> Iterator[Premise]:
    """What is declared of integer tensors: their values stay below a size, and from 0 on where nothing else is said."""
    found = {t for expr in exprs for t in expr.atoms(Tensor) if not t.boolean and t.bounds is not None}
    for tensor in sorted(found, key=lambda t: str(t.name)):
        axes = tuple(Axis(f"p{k}" if k else "p", size) for k, size in enumerate(tensor.shape))
        least, below = tensor.bounds
        if least.is_finite:
            yield Premise(f"{tensor.name} is at least {least}", ">= 0", tensor[axes] - least, axes=axes)
        yield Premise(f"{tensor.name} is below {below}", ">= 0", below - 1 - tensor[axes], axes=axes)


def _free(identity: Identity) -> list[Axis]:
    sides = [side for c in identity.claims for side in (c.left, c.right, c.witness) if side is not None]
    return sorted(set().union(*(free_axes(side) for side in sides)), key=lambda a: a.name)


def _letters(identity: Identity) -> list[Axis]:
    """The axes whose letters summed ones may have."""
    axes = [*_free(identity), *(a for d in identity.unfold for a in d.axes)]
    axes += [a for p in identity.premises for a in p.axes]
    axes += [a for d in identity.definitions for a in d.axes]
    return list(dict.fromkeys(axes))


def letters_by_size(identity: Identity) -> list[tuple[Any, str]]:
    """The letters of a statement's axes, each with its size as a term."""
    exporter = Exporter()
    return [(exporter.size(axis.size), axis.name) for axis in _letters(identity)]


# Text of what the checker reads.


def claim_text(claim: Mapping[str, Any], holds: bool = True) -> str:
    """``Σ_j A[i,j] = 1``; ≠ for what is listed as false."""
    sign = {"=": "=" if holds else "≠", ">=": "≥"}[claim["says"]]
    if claim["says"] == ">=" and claim["right"] == 0:
        return (
            f"{written(claim['left'])} = {written(claim['witness'])} ≥ 0"
            if claim["witness"] != claim["left"]
            else f"{written(claim['left'])} ≥ 0"
        )
    return f"{written(claim['left'])} {sign} {written(claim['right'])}"


def definition_text(definition: Mapping[str, Any]) -> str:
    """``A[i,j] := …``."""
    places = [["var", x] for x, _ in definition["for"]]
    return f"{written(['at', definition['tensor'], *places])} := {written(definition['value'])}"


def premise_text(premise: Mapping[str, Any]) -> str:
    """A premise in words, and what it says."""
    says = premise["says"]
    if says == "equal":
        said = f"{written(premise['left'])} = {written(premise['right'])}"
    else:
        said = (
            f"{written(premise['of'])} {dict(zip(('not 0', '> 0', '>= 0'), ('≠ 0', '> 0', '≥ 0'), strict=True))[says]}"
        )
    return f"{premise['name']}: {said}" if premise["name"] != said else said


# Premises that several statements have.


def sums_to(entry: Entry, over: Axis, total: sp.Expr, name: str) -> Premise:
    """``Σ_over entry = total`` for all positions of its other axes."""
    return Premise(name, "equal", Total(entry, over), total, tuple(a for a in entry.indices if a != over))


def sums_to_one(tensor: Tensor, axes: Sequence[Axis], over: Axis, name: str) -> Premise:
    """``Σ_over tensor = 1`` for all positions of its other axes."""
    return sums_to(tensor[tuple(axes)], over, sp.S.One, name)


def products_sum_to_delta(left: Entry, right: Entry, over: Axis, name: str) -> Premise:
    """``Σ_over left · right`` is 1 where the other indices of the two agree, and 0 elsewhere."""
    others = [(a, b) for a, b in zip(left.indices, right.indices, strict=True) if a != over]
    deltas = sp.Mul(*(Delta(a, b) for a, b in others))
    axes = tuple(dict.fromkeys(a for pair in others for a in pair))
    return Premise(name, "equal", Total(left * right, over), deltas, axes)


def positive(symbol: sp.Expr) -> Premise:
    """A number that is larger than 0."""
    return Premise(f"{written(Exporter().term(symbol, ()))} > 0", "> 0", symbol)
