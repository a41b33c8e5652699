"""What most statements about attention speak of: scores S, their softmax A, and the averages O of values."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.algebra import Axis, Entry, Total, from_terms, terms_of
from derive.errors import DerivationError
from derive.forward import softmax
from derive.forward.program import Definition, Program
from derive.forward.softmax import SoftmaxForm
from derive.proof.identities.known import Known
from derive.proof.statements import Premise, sums_to_one

NO_DL = "L has no cotangent"
SCALE = sp.Symbol("scale", real=True)


@dataclass(frozen=True)
class Attention:
    """A program in which O = Σ A V with A = softmax(S), and the gradients of its outputs, L aside."""

    known: Known
    S: Definition
    A: Definition
    O: Definition
    V: Entry
    form: SoftmaxForm
    with_L: Known | None

    @classmethod
    def of(cls, program: Program) -> Attention | None:
        """The attention in a program: one softmax of a matrix S of scores, whose gradient is A ∘ (dA − r), or None."""
        found = _averages(program)
        if found is None:
            return None
        A, O, V, form = found
        outputs = ("O",) if "O" in {o.name for o in program.outputs} else program.principal_outputs
        try:
            known = Known(program.returning(*outputs))
        except DerivationError:
            return None
        names = known.by_name
        if not {"dS", "dA", "r"} <= names.keys():
            return None
        reduced = names["dA"].target - names["r"].target
        if from_terms(terms_of(names["dS"].value - A.target * reduced)) != 0:
            return None
        with_L = Known(program.returning("O", "L")) if {"O", "L"} <= {o.name for o in program.outputs} else None
        return cls(known, names["S"], A, O, V, form, with_L)

    @property
    def i(self) -> Axis:
        """The queries' axis."""
        return self.S.axes[0]

    @property
    def j(self) -> Axis:
        """The keys' axis."""
        return self.S.axes[1]

    @property
    def v(self) -> Axis:
        """The value coordinates' axis."""
        return self.O.axes[1]

    @property
    def seen(self) -> Premise:
        """What a softmax divides by is not 0."""
        exponentials = Total(self.form.visible * sp.exp(self.form.score), self.j)
        return Premise("every query sees a key", "not 0", exponentials, axes=(self.i,))

    @property
    def rows(self) -> Premise:
        """What is assumed of A while it stays folded; proved for its definition where every query sees a key."""
        return sums_to_one(self.A.target.tensor, self.A.axes, self.j, "weights sum to 1, as every query sees a key")

    def weight(self, key: Axis) -> sp.Expr:
        """A[i, key]."""
        return self.A.target.tensor[self.i, key]

    @property
    def dO(self) -> sp.Expr:
        """What arrives for O."""
        return self.known.at("dO")

    @property
    def chain(self) -> tuple[Definition, ...]:
        """The definitions that lead from dO to dS."""
        return self.known.chosen("r", "dA", "dS")


def _averages(program: Program) -> tuple[Definition, Definition, Entry, SoftmaxForm] | None:
    names = {d.name: d for d in program.definitions}
    if not {"S", "A", "O"} <= names.keys():
        return None
    S, A, O = (names[n] for n in "SAO")
    form = softmax.recognise(A)
    if len(S.axes) != 2 or len(O.axes) != 2 or form is None or form.score != S.target or form.beside != 0:
        return None
    if form.over != S.axes[1] or A.axes != S.axes:
        return None
    over = S.axes[1]
    values = [e for e in O.at(*O.axes).atoms(Entry) if e.base != A.target.base]
    if len(values) != 1 or len(values[0].indices) != 2:
        return None
    V = values[0].base[over, O.axes[1]] if values[0].base.shape[0] == over.size else None
    if V is None or O.value != Total(A.target * V, over):
        return None
    return A, O, V, form


def scores_are_products(program: Program) -> bool:
    """Whether a program is a softmax of S = scale · Q Kᵀ plus what does not depend on Q and K, which are inputs."""
    if not {"Q", "K", "V"} <= (given := {i.name for i in program.inputs}) or _averages(program) is None:
        return False
    return given <= {"Q", "K", "V", "mask", "bias"} and scaled_products(program) is not None


def scaled_products(program: Program) -> tuple[Entry, Entry] | None:
    """Q[i, c] and K[j, c] where S = scale · Σ_c Q K plus what does not depend on them, else None."""
    S = program.definition("S")
    entries = {str(t.name): t for t in (i.tensor for i in program.inputs)}
    entries |= {d.name: d.target.tensor for d in program.definitions}
    if not {"Q", "K"} <= entries.keys() or len(entries["Q"].shape) != 2 or len(entries["K"].shape) != 2:
        return None
    if entries["Q"].shape[1] != entries["K"].shape[1] or SCALE not in S.value.free_symbols:
        return None
    if (entries["Q"].shape[0], entries["K"].shape[0]) != tuple(a.size for a in S.axes):
        return None
    c = Axis("c", entries["Q"].shape[1])
    Q, K = entries["Q"][S.axes[0], c], entries["K"][S.axes[1], c]
    rest = S.value - SCALE * Total(Q * K, c)
    own = {Q.base, K.base}
    return None if any(e.base in own for e in rest.atoms(Entry)) else (Q, K)
