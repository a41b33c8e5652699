"""The prover: true statements are proved for all sizes, false ones stay open, and fingerprints notice mistakes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import sympy as sp

from derive.algebra import Axis, Delta, Entry, Tensor, Total, free_axes, terms_of
from derive.calculus import Derivation, backward, joined
from derive.forward import Builder, Definition, Input, Output, Program, program
from derive.forward.softmax import softmax
from derive.mistakes import MISTAKES, made
from derive.proof import Decimals, interpret
from derive.proof.checks import compacting_changed_nothing, forward_mode_agrees
from derive.proof.fingerprint import (
    EXPONENTS,
    GENERATOR,
    MODULUS,
    FiniteField,
    Residue,
    agree,
    random_point,
    small_sizes,
    where_defined,
)
from derive.proof.identities import identities
from derive.proof.identities_of_parts import identities_of_parts
from derive.proof.prover import Axiom, Identity, absorbs, prove, rows_sum_to_one
from tests.derive.test_algebra import within
from tests.families import ATTENTION

i, k, j = Axis("i", "n"), Axis("k", "n"), Axis("j", "m")
c, v = Axis("c", "d"), Axis("v", "d_v")
SIZES = {"n": 3, "m": 4, "d": 2, "d_v": 5}


@cache
def catalogue(name: str) -> dict[str, Identity]:
    """The identities of a program by name."""
    return {identity.name: identity for identity in identities(program(name))}


NAMED = [(name, statement) for name in ATTENTION for statement in catalogue(name)]


# True statements.


@pytest.mark.parametrize(("name", "statement"), NAMED)
def test_every_identity_is_proved(name: str, statement: str) -> None:
    proof = prove(catalogue(name)[statement])
    assert proof.status == "proved"
    assert proof.remainder == 0


OWN = [
    (name, statement)
    for name, statement in NAMED
    if catalogue(name)[statement].refutable and statement not in {x.name for x in identities_of_parts(program(name))}
]
"""The identities of the program's own tensors, whose premises hold at random points; the others: test_refuter."""


@pytest.mark.parametrize(("name", "statement"), OWN)
def test_every_identity_holds_in_numbers(name: str, statement: str) -> None:
    """Both sides agree in thirty digits where the premises hold: the prover is not the only judge."""
    left, right = sides(catalogue(name)[statement], program(name))
    assert all(abs(x - y) < 1e-20 * (1 + abs(x)) for x, y in zip(left, right, strict=True))
    assert any(abs(x) > 1e-3 for x in left) or catalogue(name)[statement].right == 0


@pytest.mark.parametrize("name", ATTENTION)
def test_the_softmax_lemmas_are_proved_from_the_primitive_form_alone(name: str) -> None:
    lemmas = ("softmax rows sum to one", "softmax Jacobian", "shift invariance", "stabilised softmax")
    assert all(catalogue(name)[lemma].axioms == () for lemma in lemmas)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("statement", ["row sums from outputs", "scale balance"])
def test_identities_without_premises_need_no_row_sums(name: str, statement: str) -> None:
    """They hold for any weights A, normalised or not."""
    identity = catalogue(name)[statement]
    assert identity.premises == ()
    assert prove(replace(identity, axioms=())).status == "proved"


@pytest.mark.parametrize("statement", ["score gradients sum to zero", "outputs are averages of values"])
def test_identities_with_a_premise_need_its_axiom(statement: str) -> None:
    identity = catalogue("attention")[statement]
    assert identity.premises
    assert prove(replace(identity, axioms=())).status == "open"


@pytest.mark.parametrize("statement", list(catalogue("attention")))
def test_an_identity_that_unfolds_definitions_needs_them(statement: str) -> None:
    identity = catalogue("attention")[statement]
    if identity.unfold:
        assert prove(replace(identity, unfold=())).status == "open"


def test_the_catalogue_is_complete_and_says_who_relies_on_what() -> None:
    expected = [
        "softmax rows sum to one",
        "softmax Jacobian",
        "shift invariance",
        "stabilised softmax",
        "score gradients sum to zero",
        "score gradients sum to the cotangent of L",
        "a hidden score has gradient zero",
        "equal values give no routing gradient",
        "outputs are averages of values",
        "value gradients sum to the output gradient",
        "key gradients of one query sum to zero",
        "centred keys",
        "scale balance",
        "row sums from outputs",
    ]
    for name in ATTENTION:
        assert set(expected) <= set(catalogue(name))
        assert len(identities(program(name))) == len(catalogue(name))
        assert all(x.statement and x.relied_on for x in catalogue(name).values())


def test_a_program_of_another_family_has_no_identities() -> None:
    b = Builder("other", "")
    X = b.input("X", i)
    b.define("Y", (i,), X[i] ** 2)
    assert identities(b.output("Y").build()) == ()


def test_a_proof_keeps_the_trace_of_its_rewrites() -> None:
    proof = prove(catalogue("attention")["score gradients sum to zero"])
    assert proof.rewrites == ("unfold dS", "unfold r", "unfold dA", "Σ A = 1 along rows") or (
        proof.rewrites[:3] == ("unfold dS", "unfold r", "unfold dA") and "Σ A = 1 along rows" in proof.rewrites
    )
    shift = prove(catalogue("attention")["shift invariance"])
    assert "exp(x + y) = exp x · exp y" in shift.rewrites


@pytest.mark.parametrize("name", ATTENTION)
def test_proving_ends_quickly(name: str) -> None:
    """All identities of a program in about a second, with room for a busy machine."""
    statements = list(catalogue(name).values())
    start = time.perf_counter()
    with within(20):
        for identity in statements:
            prove(identity)
    assert time.perf_counter() - start < 2


# False statements.


class _Square:
    """Self-attention: as many keys as queries, so that a transpose shows in no shape."""

    def __init__(self) -> None:
        b = Builder("square", "")
        Q, K, V = b.input("Q", i, c), b.input("K", k, c), b.input("V", k, v)
        scale = b.parameter("scale", sp.Rational(1, 3))
        S = b.define("S", (i, k), scale * Total(Q[i, c] * K[k, c], c))
        A = b.define("A", (i, k), softmax(S[i, k], over=k))
        b.define("O", (i, v), Total(A[i, k] * V[k, v], k))
        self.program = b.output("O").build()
        self.definitions = {d.name: d for d in (*self.program.definitions, *backward(self.program).derived.definitions)}
        self.unfold = tuple(self.definitions[n] for n in ("O", "dV", "dA", "r", "dS", "dQ", "dK"))
        self.scale = scale

    def at(self, name: str, *indices: Axis) -> sp.Expr:
        known = {**{x.name: x.tensor for x in self.program.inputs}, "dO": Tensor("dO", i, v)}
        return (known.get(name) or self.definitions[name].target.tensor)[indices]


SQUARE = _Square()
at, scale, l = SQUARE.at, SQUARE.scale, Axis("l", "n")
mean_key = Total(at("A", i, l) * at("K", l, c), l)

TRUE: dict[str, tuple[sp.Expr, sp.Expr]] = {
    "score gradients": (at("dS", i, k), at("A", i, k) * (at("dA", i, k) - Total(at("A", i, l) * at("dA", i, l), l))),
    "values": (at("dV", k, v), Total(at("A", i, k) * at("dO", i, v), i)),
    "queries": (at("dQ", i, c), scale * Total(at("dS", i, k) * at("K", k, c), k)),
    "covariance": (at("dQ", i, c), scale * Total(at("A", i, k) * at("dA", i, k) * (at("K", k, c) - mean_key), k)),
    "keys": (at("dK", k, c), scale * Total(at("dS", i, k) * at("Q", i, c), i)),
    "any constant may be taken off the keys": (
        at("dQ", i, c),
        scale * Total(at("dS", i, k) * (at("K", k, c) - Total(at("K", l, c), l)), k),
    ),
}

FALSE: dict[str, tuple[sp.Expr, sp.Expr]] = {
    "the row sum dropped": (at("dS", i, k), at("A", i, k) * at("dA", i, k)),
    "the row sum added": (
        at("dS", i, k),
        at("A", i, k) * (at("dA", i, k) + Total(at("A", i, l) * at("dA", i, l), l)),
    ),
    "the row sum over the wrong axis": (
        at("dS", i, k),
        at("A", i, k) * (at("dA", i, k) - Total(at("A", l, k) * at("dA", l, k), l)),
    ),
    "the row sum of dA without A": (at("dS", i, k), at("A", i, k) * (at("dA", i, k) - Total(at("dA", i, l), l))),
    "the score gradient without A": (at("dS", i, k), at("dA", i, k) - Total(at("A", i, l) * at("dA", i, l), l)),
    "the scale dropped": (at("dQ", i, c), Total(at("dS", i, k) * at("K", k, c), k)),
    "the scale squared": (at("dK", k, c), scale**2 * Total(at("dS", i, k) * at("Q", i, c), i)),
    "A for its transpose in dV": (at("dV", k, v), Total(at("A", k, i) * at("dO", i, v), i)),
    "A dropped in dV": (at("dV", k, v), Total(at("dO", i, v), i)),
    "dS for its transpose in dQ": (at("dQ", i, c), scale * Total(at("dS", k, i) * at("K", k, c), k)),
    "Q and K exchanged in dK": (at("dK", k, c), scale * Total(at("dS", i, k) * at("K", i, c), i)),
    "keys centred with the plain mean in the covariance": (
        at("dQ", i, c),
        scale * Total(at("A", i, k) * at("dA", i, k) * (at("K", k, c) - Total(at("K", l, c), l) / i.size), k),
    ),
    "queries centred in dK": (
        at("dK", k, c),
        scale * Total(at("dS", i, k) * (at("Q", i, c) - Total(at("Q", l, c), l) / i.size), i),
    ),
    "columns of A sum to one": (Total(at("A", i, k), i), sp.S.One),
    "the diagonal of A sums to one": (Total(at("A", i, i), i), sp.S.One),
    "the squares of a row sum to one": (Total(at("A", i, k) ** 2, k), sp.S.One),
    "a row of A against something sums to that thing": (Total(at("A", i, k) * at("Q", k, c), k), at("Q", i, c)),
    "columns of score gradients sum to zero": (Total(at("dS", i, k), i), sp.S.Zero),
    "row sums from outputs without O": (Total(at("A", i, k) * at("dA", i, k), k), Total(at("dO", i, v), v)),
    "value gradients sum over values": (Total(at("dV", k, v), v), Total(at("dO", k, v), v)),
    "query and key gradients balance without a transpose": (
        Total(at("Q", i, c) * at("dQ", i, c), i, c),
        -Total(at("K", k, c) * at("dK", k, c), k, c),
    ),
}


def square_identity(statement: tuple[sp.Expr, sp.Expr]) -> Identity:
    left, right = statement
    return Identity("statement", "", left, right, SQUARE.unfold, (rows_sum_to_one(Tensor("A", i, k)),))


@pytest.mark.parametrize("name", TRUE)
def test_true_statements_about_self_attention_are_proved(name: str) -> None:
    assert prove(square_identity(TRUE[name])).status == "proved"


@pytest.mark.parametrize("name", FALSE)
def test_false_statements_about_self_attention_are_not_proved(name: str) -> None:
    """With as many keys as queries no shape helps; it is false in numbers, and the prover never says proved."""
    identity = square_identity(FALSE[name])
    left, right = sides(identity, SQUARE.program)
    assert any(abs(x - y) > 1e-6 for x, y in zip(left, right, strict=True))
    proof = prove(identity)
    assert proof.status in ("refuted", "open")
    assert proof.remainder != 0


def _with(name: str, statement: str, **changes: Any) -> Identity:
    return replace(catalogue(name)[statement], **changes)


def _jacobian_without(part: str) -> Identity:
    identity = catalogue("attention")["softmax Jacobian"]
    A, q = Tensor("A", i, j), Axis("q", "m")
    right = {"−A": A[i, j] * Delta(j, q), "δ": -A[i, j] * A[i, q], "A": Delta(j, q) - A[i, q]}[part]
    return replace(identity, right=right)


def _shifted_by_key() -> Identity:
    S, t = Tensor("S", i, j), Tensor("t", j)
    return Identity("shift by key", "", softmax(S[i, j] + t[j], over=j), softmax(S[i, j], over=j))


A, M = Tensor("A", i, j), Tensor("M", i, j, values="boolean")

OPEN: dict[str, Callable[[], Identity]] = {
    "Jacobian without −A": lambda: _jacobian_without("−A"),
    "Jacobian without δ": lambda: _jacobian_without("δ"),
    "Jacobian without the first A": lambda: _jacobian_without("A"),
    "shift invariance for a shift that depends on the key": _shifted_by_key,
    "dS sums to zero although L has a cotangent": lambda: _with(
        "attention", "score gradients sum to the cotangent of L", right=sp.S.Zero
    ),
    "dS sums to minus the cotangent of L": lambda: _with(
        "attention", "score gradients sum to the cotangent of L", right=-Tensor("dL", i)[i]
    ),
    "a visible score has gradient zero": lambda: _with(
        "attention", "a hidden score has gradient zero", left=M[i, j] * Tensor("dS", i, j)[i, j]
    ),
    "a hidden weight gradient is zero": lambda: _with(
        "causal_attention",
        "a hidden score has gradient zero",
        left=(1 - M[i, j]) * Tensor("dA", i, j)[i, j],
        unfold=catalogue("attention")["score gradients sum to zero"].unfold,
    ),
    "equal values give no value gradient": lambda: _with(
        "attention",
        "value gradients sum to the output gradient",
        left=Tensor("dV", j, v)[j, v],
        right=sp.S.Zero,
    ),
    "scale balance with one scale too many": lambda: _with(
        "attention",
        "scale balance",
        left=sp.Symbol("scale", real=True) * catalogue("attention")["scale balance"].left,
    ),
    "a weight is its square": lambda: Identity(
        "square", "", A[i, j] ** 2, A[i, j], axioms=(rows_sum_to_one(A), absorbs(A, M))
    ),
    "weights sum to one with another factor": lambda: Identity(
        "factor", "", Total(A[i, j] * M[i, j], j), sp.S.One, axioms=(rows_sum_to_one(A),)
    ),
    "weights sum to one under a decay": lambda: Identity(
        "decay",
        "",
        Total(A[i, j] * sp.Symbol("g", positive=True) ** j, j),
        sp.Symbol("g", positive=True) ** j,
        axioms=(rows_sum_to_one(A),),
    ),
    "another visibility is absorbed": lambda: Identity(
        "transposed mask",
        "",
        Tensor("B", i, k)[i, k] * Tensor("M", i, k, values="boolean")[k, i],
        Tensor("B", i, k)[i, k],
        axioms=(absorbs(Tensor("B", i, k), Tensor("M", i, k, values="boolean")),),
    ),
    "n is m": lambda: Identity("sizes", "", Total(A[i, j], i, j), j.size * sp.S.One, axioms=(rows_sum_to_one(A),)),
}


@pytest.mark.parametrize("name", OPEN)
def test_false_statements_are_not_proved(name: str) -> None:
    with within(10):
        assert prove(OPEN[name]()).status in ("refuted", "open")


def test_all_row_sums_together_are_the_number_of_rows() -> None:
    identity = Identity("sizes", "", Total(A[i, j], i, j), i.size * sp.S.One, axioms=(rows_sum_to_one(A),))
    assert prove(identity).status == "proved"


def test_an_open_proof_shows_what_remains() -> None:
    T = Tensor("T", i)
    identity = Identity("short", "", 2 * T[i] ** 2 + T[i], T[i] + T[i] ** 2)
    assert prove(identity).remainder == T[i] ** 2


def test_axioms_leave_a_term_alone_where_they_do_not_apply() -> None:
    (term,) = terms_of(Tensor("T", i)[i] ** 2)
    axiom: Axiom
    for axiom in (rows_sum_to_one(A), absorbs(A, M)):
        assert axiom.apply(term) is term


def sides(identity: Identity, source: Program) -> tuple[list[Any], list[Any]]:
    """Both sides of an identity in numbers, from the definitions of a program and of its gradients.

    Definitions that the identity unfolds take the place of those of the same name; tensors that nobody
    defines are given at random; every query sees the first key.
    """
    ordered = {d.name: d for d in source.definitions}
    ordered |= {d.name: d for d in identity.unfold if d.name not in ordered and not d.name.startswith(("d", "r"))}
    ordered |= {d.name: d for d in backward(source.returning("O")).derived.definitions}
    ordered |= {d.name: d for d in identity.unfold}
    axes = tuple(sorted(free_axes(identity.left) | free_axes(identity.right), key=str))
    both = [Definition(Tensor(n, *axes)[axes], x) for n, x in (("left", identity.left), ("right", identity.right))]
    definitions = (*ordered.values(), *both)
    needed = {x.target.tensor for x in both}
    for definition in reversed(definitions):
        if definition.target.tensor in needed:
            needed |= {e.tensor for e in definition.value.atoms(Entry)}
    kept = tuple(d for d in definitions if d.target.tensor in needed)
    defined = {d.target.tensor for d in kept}
    given = sorted((t for t in needed if t not in defined), key=str)
    inputs = tuple(Input(t, tuple(Axis(f"a{n}", s) for n, s in enumerate(t.shape)), "") for t in given)
    outputs = tuple(Output(d.target.tensor, axes, "") for d in both)
    total = replace(source, inputs=inputs, definitions=kept, outputs=outputs)
    chance = random.Random(5)

    def array(shape: list[int], boolean: bool) -> Any:
        if not shape:
            return int(chance.random() < 0.8) if boolean else Fraction(chance.randint(-12, 12), 8)
        return [1 if boolean and len(shape) == 1 and at == 0 else array(shape[1:], boolean) for at in range(shape[0])]

    values = {x.name: array([SIZES[str(s)] for s in x.tensor.shape], x.tensor.boolean) for x in inputs}
    parameters = {x.name: Fraction(2, 3) for x in source.parameters if not x.symbol.is_integer}
    found = interpret(total, values, sizes=SIZES, parameters=parameters, arithmetic=Decimals(30))
    return _flat(found["left"]), _flat(found["right"])


def _flat(nested: Any) -> list[Any]:
    return [x for part in nested for x in _flat(part)] if isinstance(nested, list) else [nested]


# Fingerprints.


def test_the_fields_constants_are_what_they_say() -> None:
    """Both are primes, one divides the other less one, and the generator has exactly that order."""
    assert sp.isprime(EXPONENTS)
    assert sp.isprime(MODULUS)
    assert (MODULUS - 1) % EXPONENTS == 0
    assert GENERATOR != 1
    assert pow(GENERATOR, EXPONENTS, MODULUS) == 1


def test_exp_is_a_homomorphism_and_other_functions_are_not() -> None:
    field, chance = FiniteField(), random.Random(1)
    for _ in range(20):
        x, y = (Residue(chance.randrange(EXPONENTS), chance.randrange(MODULUS)) for _ in range(2))
        assert field.function(sp.exp, x + y) == field.function(sp.exp, x) * field.function(sp.exp, y)
        assert field.function(sp.log, x + y) != field.function(sp.log, x) * field.function(sp.log, y)
        assert field.function(sp.log, x) == field.function(sp.log, x)
    assert field.function(sp.exp, field.number(0)) == field.number(1)


def test_the_field_calculates_with_fractions() -> None:
    field = FiniteField()
    half = field.number(Fraction(1, 2))
    assert half + half == field.number(1)
    assert half * field.number(-6) == field.number(-3)
    assert field.power(field.number(7), sp.Integer(-1)) * field.number(7) == field.number(1)
    assert field.function(sp.exp, half) * field.function(sp.exp, half) == field.function(sp.exp, field.number(1))


def test_exp_of_what_has_passed_through_exp_is_an_unknown_function() -> None:
    """The same argument gives the same value, another argument another one; sums in the exponent are not known."""
    field = FiniteField()
    once = field.function(sp.exp, field.number(2))
    for value in (once, once + field.number(1), once * field.number(3), field.power(once, sp.Integer(-1))):
        assert field.function(sp.exp, value) == field.function(sp.exp, value)
        assert field.function(sp.exp, value) != field.function(sp.exp, value + field.number(1))


@cache
def gradients(name: str) -> Derivation:
    return backward(program(name))


def agreement(derivation: Derivation, wrong: Program, seed: int = 0) -> list[str]:
    """The gradients in which a wrong backward program is found out."""
    sizes = small_sizes(derivation.forward, seed)
    right, other = joined(derivation.forward, derivation.derived), joined(derivation.forward, wrong)
    return agree(right, replace(other, inputs=right.inputs), sizes, seed)


@pytest.mark.parametrize("name", ATTENTION)
def test_a_program_agrees_with_itself(name: str) -> None:
    for seed in range(5):
        assert agreement(gradients(name), gradients(name).derived, seed) == []
        assert compacting_changed_nothing(gradients(name), seed) == []


def test_another_spelling_agrees() -> None:
    derivation = gradients("attention")
    definitions = tuple(Definition(d.target, sp.expand(d.value)) for d in derivation.derived.definitions)
    assert agreement(derivation, replace(derivation.derived, definitions=definitions)) == []


CHANGES: dict[str, tuple[str, Callable[[sp.Expr], sp.Expr], list[str]]] = {
    "r dropped": ("dS", lambda e: Tensor("A", i, j)[i, j] * Tensor("dA", i, j)[i, j], ["dQ", "dK", "dbias"]),
    "a sign": ("dV", lambda e: -e, ["dV"]),
    "a thousandth": ("dK", lambda e: e * sp.Rational(1001, 1000), ["dK"]),
    "the scale": ("dQ", lambda e: e / sp.Symbol("scale", real=True), ["dQ"]),
    "a constant": ("dbias", lambda e: e + sp.Rational(1, 10**12), ["dbias"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprints_refuse_wrong_programs(change: str) -> None:
    name, spoil, expected = CHANGES[change]
    derived = gradients("attention").derived
    definitions = tuple(replace(d, value=spoil(d.value)) if d.name == name else d for d in derived.definitions)
    wrong = replace(derived, definitions=definitions)
    assert agreement(gradients("attention"), wrong) == expected
    if expected != ["dbias"]:
        assert not forward_mode_agrees(replace(gradients("attention"), derived=wrong))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_fingerprints_refuse_every_listed_mistake(mistake: Any) -> None:
    """At sizes that are equal where the mistake needs them to be."""
    derivation = backward(program(mistake.program))
    wrong = made(mistake, derivation)
    sizes = dict.fromkeys(small_sizes(derivation.forward, 0), 4)  # a square: its root is a number of the field
    right = joined(derivation.forward, derivation.derived)
    other = replace(joined(wrong.forward, wrong.derived), inputs=right.inputs)
    assert any(where_defined(lambda s: agree(right, other, sizes, s), seed) for seed in range(3))


def test_small_sizes_are_pairwise_distinct_for_any_number_of_names() -> None:
    for count in (1, 4, 6, 8):
        b = Builder("many", "")
        axes = [Axis(f"a{at}", f"n{at}") for at in range(count)]
        tensors = [b.input(f"X{at}", axis) for at, axis in enumerate(axes)]
        b.define("Y", (axes[0],), tensors[0][axes[0]])
        sizes = small_sizes(b.output("Y").build(), seed=3)
        assert len(sizes) == count
        assert len(set(sizes.values())) == count
        assert min(sizes.values()) >= 2


def test_random_point_are_the_same_for_the_same_seed() -> None:
    drawn = [random_point(program("attention"), SIZES, random.Random(seed)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
