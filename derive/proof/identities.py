"""The catalogue: what kernels and explanations of attention rely on, each as a statement with premises.

The statements are built from a program's own definitions and its derived gradients, so they speak of the
code that is generated, not of formulas typed in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total, fold, free_axes, fresh, from_terms, terms_of
from derive.algebra.binders import rewrite
from derive.calculus import backward
from derive.calculus.partials import partials
from derive.forward import softmax
from derive.forward.program import Definition, Program
from derive.lower.stabilise import stabilise
from derive.proof.identities_of_parts import identities_of_parts
from derive.proof.prover import Identity, absorbs, inverse_of, rows_sum_to_one

SEEN = "every query sees a key (where it sees none, A is 0 and so are both sides)"


def identities(program: Program) -> tuple[Identity, ...]:
    """The identities of a program whose scores are products of queries and keys, and those of its parts."""
    own = tuple(_Attention(program).identities()) if scores_are_products(program) else ()
    return (*own, *identities_of_parts(program))


def scores_are_products(program: Program) -> bool:
    """Whether a program is a softmax of S = scale · Q Kᵀ plus what does not depend on Q and K."""
    names = {d.name for d in program.definitions}
    if not ({"S", "A", "O"} <= names and {"Q", "K", "V"} <= {i.name for i in program.inputs}):
        return False
    form = softmax.recognise(program.definition("A"))
    S, given = program.definition("S").target, {i.name for i in program.inputs}
    if len(S.indices) != 2 or not given <= {"Q", "K", "V", "mask", "bias"} or form is None or form.score != S:
        return False
    Q, K = program.input("Q").entry, program.input("K").entry
    scale, scores = sp.Symbol("scale", real=True), program.definition("S").value
    shared = tuple(free_axes(Q) & free_axes(K))
    rest = scores - scale * Total(Q * K, *shared)
    return not any(entry.base in (Q.base, K.base) for entry in rest.atoms(Entry))


class _Attention:
    """The definitions and gradients of one program, under the names that statements use."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.outputs_alone = program.returning("O")
        self.forward = {d.name: d for d in self.outputs_alone.definitions}
        self.backward = {d.name: d for d in backward(self.outputs_alone).derived.definitions}
        self.S, self.A, self.O = (self.forward[n] for n in "SAO")
        (self.i, self.j), self.v = self.S.axes, self.O.axes[1]
        self.axioms = (rows_sum_to_one(self.A.target.tensor),)

    def at(self, name: str, *indices: Axis) -> sp.Expr:
        """An entry of a defined or derived tensor."""
        definition = self.forward.get(name) or self.backward[name]
        return definition.target.tensor[indices or definition.axes]

    def given(self, name: str) -> sp.Expr:
        """An input at its own axes."""
        return self.program.input(name).entry

    def closed_jacobian(self, q: Axis) -> sp.Expr:
        """∂A[i,j]/∂S[i,q] as diag(a) − aaᵀ says."""
        return self.A.target * (Delta(self.j, q) - self.A.target.tensor[self.i, q])

    def derived(self, *names: str) -> tuple[Definition, ...]:
        """Definitions to unfold, in order."""
        everything = {**self.forward, **self.backward}
        return tuple(d for n, d in everything.items() if n in names)

    def identities(self) -> Iterator[Identity]:
        for identity in (*self._softmax(), *self._routing(), *self._centring(), *self._algorithms()):
            own = {d.name: d for d in identity.unfold}
            everything = {**self.forward, **self.backward, **own}
            yield replace(identity, definitions=tuple(everything.values()))

    def _softmax(self) -> Iterator[Identity]:
        i, j, form = self.i, self.j, softmax.recognise(self.A)
        assert form is not None
        row = self.A.value
        yield Identity(
            "softmax rows sum to one",
            "Σ_j A[i,j] = 1",
            Total(row, j),
            sp.S.One,
            premises=(SEEN,),
            relied_on="every identity below",
        )
        q = Axis("q", j.size)
        yield Identity(
            "softmax Jacobian",
            "∂A[i,j]/∂S[i,q] = A[i,j] (δ[j,q] − A[i,q])",
            self._jacobian(q),
            self.closed_jacobian(q),
            premises=(SEEN,),
            relied_on="the softmax step of every derivation",
        )
        other = Axis("p", j.size)
        J = self.closed_jacobian(q)
        yield Identity(
            "the softmax Jacobian is symmetric",
            "J[j,q] = J[q,j] with J = diag(a) − a aᵀ",
            J,
            J.xreplace({j: other}).xreplace({q: j}).xreplace({other: q}),
            premises=(SEEN,),
            relied_on="forward and reverse mode use one Jacobian",
        )
        yield Identity(
            "the softmax Jacobian annihilates constants",
            "Σ_q J[j,q] = 0",
            Total(J, q),
            sp.S.Zero,
            axioms=self.axioms,
            premises=(SEEN,),
            relied_on="shift invariance, seen backwards",
        )
        x = Tensor("x", j)
        average = Total(self.A.target.tensor[i, q] * x[q], q)
        yield Identity(
            "the softmax Jacobian is a weighted variance",
            "xᵀ J x = Σ_j A[i,j] (x[j] − Σ_q A[i,q] x[q])² ≥ 0",
            Total(x[j] * J * x[q], j, q),
            Total(self.A.target * (x[j] - average) ** 2, j),
            axioms=self.axioms,
            premises=(SEEN,),
            relied_on="the Jacobian is positive semi-definite",
        )
        shift = Tensor("t", i)
        moved = softmax.softmax(form.score + shift[i], j, form.visible)
        yield Identity(
            "shift invariance",
            "softmax(S + t 1ᵀ) = softmax(S)",
            moved,
            row,
            premises=(SEEN,),
            relied_on="stabilisation: the largest score is subtracted before exponentiating",
        )
        stable = {d.name: d for d in stabilise(self.outputs_alone).definitions}
        yield Identity(
            "stabilised softmax",
            "exp(S − max)/Σ exp(S − max) = softmax(S)",
            stable["A"].value,
            row,
            unfold=(stable["E"], stable["Z"]),
            premises=(SEEN,),
            relied_on="the dense schedule",
        )

    def _jacobian(self, q: Axis) -> sp.Expr:
        """∂A[i,j]/∂S[i,q], by the chain rule from the primitive form, folded."""
        score = self.S.target.tensor
        row = fresh(self.i)
        total = sp.S.Zero
        for part in partials(self.A.value.xreplace({self.i: row}), score):
            deltas = sp.Mul(*(Delta(p, x) for p, x in zip((row, q), part.indices, strict=True)))
            total += Total(part.weight * deltas, *part.bound)
        return fold(from_terms(terms_of(total)).xreplace({row: self.i}), [(self.A.target, self.A.value)])

    def _routing(self) -> Iterator[Identity]:
        i, j, v = self.i, self.j, self.v
        dS = self.at("dS")
        chain = self.derived("r", "dA", "dS")
        yield Identity(
            "score gradients sum to zero",
            "Σ_j dS[i,j] = 0",
            Total(dS, j),
            sp.S.Zero,
            chain,
            self.axioms,
            (SEEN, "L has no cotangent"),
            "centring; a check worth running on every kernel",
        )
        full = backward(self.program).derived
        if "L" in {o.name for o in self.program.outputs}:
            unfold = tuple(d for d in full.definitions if d.name in ("r", "dA", "dS"))
            total = full.definition("dS").target
            yield Identity(
                "score gradients sum to the cotangent of L",
                "Σ_j dS[i,j] = dL[i]",
                Total(total, j),
                full.input("dL").entry,
                unfold,
                self.axioms,
                (SEEN,),
                "kernels that return the logsumexp",
            )
        if "M" in self.forward:
            hidden = 1 - self.at("M")
            axiom = absorbs(self.A.target.tensor, self.forward["M"].target.tensor)
            yield Identity(
                "a hidden score has gradient zero",
                "(1 − M[i,j]) dS[i,j] = 0",
                hidden * dS,
                sp.S.Zero,
                self.derived("dS"),
                (axiom,),
                (),
                "masks; skipped tiles",
            )
        w = Tensor("w", v)
        V = self.program.input("V").tensor
        equal = tuple(_replaced(d, V, lambda indices: w[indices[1]]) for d in chain)
        yield Identity(
            "equal values give no routing gradient",
            "V[j,v] = w[v] for all j ⇒ dS = 0",
            dS,
            sp.S.Zero,
            equal,
            self.axioms,
            (SEEN, "L has no cotangent"),
            "reading what a head can learn",
        )
        yield Identity(
            "outputs are averages of values",
            "O[i,v] − w[v] = Σ_j A[i,j] (V[j,v] − w[v]), and A ≥ 0",
            self.O.target - w[v],
            Total(self.A.target * (self.given("V") - w[v]), j),
            self.derived("O"),
            self.axioms,
            (SEEN,),
            "O lies in the convex hull of the visible values",
        )
        q = Axis("q", j.size)
        yield Identity(
            "what one score moves",
            "∂O[i,v]/∂S[i,q] = A[i,q] (V[q,v] − O[i,v])",
            Total(self.closed_jacobian(q) * self.given("V"), j),
            self.A.target.tensor[i, q] * (V[q, v] - self.O.target),
            self.derived("O"),
            self.axioms,
            (SEEN,),
            "reading what a head can learn: to first order, weight moves the output towards the value",
        )
        cotangent = Tensor("dO", i, v)[i, v]
        yield Identity(
            "routing gradient",
            "dS[i,j] = A[i,j] Σ_v dO[i,v] (V[j,v] − O[i,v])",
            dS,
            self.A.target * Total(cotangent * (self.given("V") - self.O.target), v),
            self.derived("r", "dA", "dS", "O"),
            self.axioms,
            (SEEN, "L has no cotangent"),
            "β_j = α_j gᵀ(v_j − o): a key gains where its value points along the gradient",
        )
        dO = Tensor("dO", i, v)[i, v]
        yield Identity(
            "value gradients sum to the output gradient",
            "Σ_j dV[j,v] = Σ_i dO[i,v]",
            Total(self.at("dV"), j),
            Total(dO, i),
            self.derived("dV"),
            self.axioms,
            (SEEN,),
            "finding a transpose or a weight that was lost",
        )

    def _centring(self) -> Iterator[Identity]:
        i, j = self.i, self.j
        dS, scale = self.at("dS"), sp.Symbol("scale", real=True)
        chain = self.derived("r", "dA", "dS", "dQ", "dK", "O")
        K, Q = self.given("K"), self.given("Q")
        yield Identity(
            "key gradients of one query sum to zero",
            "Σ_j scale dS[i,j] Q[i,c] = 0 for each query i",
            Total(scale * dS * Q, j),
            sp.S.Zero,
            chain,
            self.axioms,
            (SEEN, "L has no cotangent"),
            "keys can be centred",
        )
        r = fresh(j)
        centre = Total(self.A.target.tensor[i, r] * K.xreplace({j: r}), r)
        yield Identity(
            "centred keys",
            "dQ[i,c] = scale Σ_j dS[i,j] (K[j,c] − Σ_r A[i,r] K[r,c])",
            self.at("dQ"),
            scale * Total(dS * (K - centre), j),
            chain,
            self.axioms,
            (SEEN, "L has no cotangent"),
            "dQ as a key-value covariance; it lies in the span of key differences",
        )
        dO = Tensor("dO", i, self.v)[i, self.v]
        beta = self.A.target * Total(dO * (self.given("V") - self.O.target), self.v)
        yield Identity(
            "query gradients are a covariance",
            "dQ[i,c] = scale Σ_j A[i,j] (Σ_v dO[i,v] (V[j,v] − O[i,v])) (K[j,c] − Σ_r A[i,r] K[r,c])",
            self.at("dQ"),
            scale * Total(beta * (K - centre), j),
            chain,
            self.axioms,
            (SEEN, "L has no cotangent"),
            "dQ is a covariance of keys and values under the weights",
        )
        e = Axis("e", Q.indices[1].size)
        yield Identity(
            "scale balance",
            "Σ_i Q[i,c] dQ[i,e] = Σ_j dK[j,c] K[j,e]",
            Total(Q * self.at("dQ", i, e), i),
            Total(self.at("dK") * K.xreplace({K.indices[1]: e}), j),
            chain,
            self.axioms,
            (),
            "finding a scale that one of dQ and dK lost",
        )
        a, b = Axis("a", e.size), Axis("b", e.size)
        B, C = Tensor("B", a, b), Tensor("C", a, b)
        c = Q.indices[1]
        changed = Total(B[e, a] * Q.xreplace({c: a}), a) * Total(C[e, b] * K.xreplace({K.indices[1]: b}), b)
        yield Identity(
            "scores do not depend on the basis",
            "q ↦ B q and k ↦ B⁻ᵀ k leave Σ_c Q[i,c] K[j,c]",
            Total(changed, e),
            Total(Q * K.xreplace({K.indices[1]: c}), c),
            axioms=(inverse_of(B, C),),
            premises=("C is B⁻ᵀ: Σ_c B[c,e] C[c,f] = δ[e,f]",),
            relied_on="queries and keys mean something only together",
            refutable=False,
        )

    def _algorithms(self) -> Iterator[Identity]:
        i, j, v = self.i, self.j, self.v
        dO = Tensor("dO", i, v)[i, v]
        yield Identity(
            "row sums from outputs",
            "Σ_j A[i,j] dA[i,j] = Σ_v dO[i,v] O[i,v]",
            Total(self.A.target * self.at("dA"), j),
            Total(dO * self.O.target, v),
            self.derived("dA", "O"),
            self.axioms,
            (),
            "fused backward passes: D = rowsum(dO ∘ O) needs no second pass over the keys",
        )


def _replaced(definition: Definition, tensor: Tensor, entry) -> Definition:  # type: ignore[no-untyped-def]
    value = rewrite(definition.value, lambda e: entry(e.indices) if isinstance(e, Entry) and e.base == tensor else e)
    return Definition(definition.target, value)
