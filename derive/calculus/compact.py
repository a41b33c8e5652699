"""Compact form: gradients written out in what arrives and in the gradients of the scores, branch by branch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Entry, Total, compacted, free_axes, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.algebra.fold import Equations
from derive.calculus.steps import Derivation
from derive.forward import softmax
from derive.forward.program import unfolded


@dataclass(frozen=True)
class Branch:
    """What one path through the forward program gives a gradient; the label says through what."""

    label: str
    value: sp.Expr


@dataclass(frozen=True)
class CompactForm:
    """A gradient as a sum of branches."""

    target: Entry
    branches: tuple[Branch, ...]


def compact_form(derivation: Derivation, lettered: Collection[str] = ()) -> tuple[CompactForm, ...]:
    """The gradients of inputs and scores, with all other cotangents written out.

    ``lettered`` are cotangents that a convention has letters of its own for: they keep them.
    """
    forward, derived, names = derivation.forward, derivation.derived, derivation.names
    forms = [softmax.recognise(d) for d in forward.definitions]
    scores = {str(e.tensor.name) for f in forms if f is not None for e in f.score.atoms(Entry)}
    renamed = {d.name for d in derived.definitions if isinstance(d.value, Entry)}
    kept = {names[s] for s in scores} | {names[o.name] for o in forward.outputs} | (set(lettered) - renamed)
    shown = [d for d in derived.definitions if d.name in kept or d.name in {o.name for o in derived.outputs}]
    hidden = [d for d in derived.definitions if d.name not in kept]
    equations = Equations((d.target, d.value) for d in forward.definitions)

    def written_out(value: sp.Expr) -> sp.Expr:
        while (further := unfolded(value, hidden)) != value:
            value = further
        return rewrite(compacted(equations.fold(from_terms(terms_of(value)))), _merged)

    def branches(name: str, whole: sp.Expr) -> Iterator[Branch]:
        paths = [s for s in derivation.steps_for(name) if s.forward and s.name == name]
        labels = [forward.branches.get(s.forward[0].name, "") for s in paths]
        if len(paths) < 2 or not all(labels):
            yield Branch("", written_out(whole))
            return
        order = list(forward.branches.values())
        for label, step in sorted(zip(labels, paths, strict=True), key=lambda pair: order.index(pair[0])):
            yield Branch(label, written_out(step.after))

    return tuple(CompactForm(d.target, tuple(branches(d.name, d.value))) for d in shown)


def _merged(node: sp.Expr) -> sp.Expr:
    """Sums over the same axis as one sum: Σ a·g − Σ b·g is Σ (a − b)·g."""
    if not isinstance(node, sp.Add):
        return node
    groups: dict[Axis, sp.Expr] = {}
    rest = sp.S.Zero
    for term in node.args:
        totals = [f for f in sp.Mul.make_args(term) if isinstance(f, Total)]
        if len(totals) != 1 or len(totals[0].axes) != 1 or free_axes(term / totals[0]):
            rest += term
            continue
        body, (axis,) = totals[0].open()
        shared = axis.renamed("_")
        groups[shared] = groups.get(shared, sp.S.Zero) + term / totals[0] * body.xreplace({axis: shared})
    return rest + sp.Add(*(Total(compacted(body), axis) for axis, body in groups.items()))
