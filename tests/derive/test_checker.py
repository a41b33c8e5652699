"""The checker: it stands alone, every rule refuses what its side conditions rule out, and no altered proof passes."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from derive.forward import program
from derive.proof import checker
from derive.proof.checker import EQUATIONS, check
from derive.proof.identities import identities
from derive.proof.rules import RULES
from derive.proof.verdict import prove
from tests.derive.terms_in_numbers import World

FILE = Path(str(checker.__file__))
Data = Mapping[str, Any]

# Alone.


def test_it_is_one_file_of_at_most_500_lines_that_imports_the_standard_library_alone() -> None:
    source = FILE.read_text(encoding="utf-8")
    assert source.count("\n") <= 500
    assert max(map(len, source.splitlines())) <= 120
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    modules = {name.name for n in nodes if isinstance(n, ast.Import) for name in n.names}
    modules |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}
    assert {m.split(".")[0] for m in modules} <= set(sys.stdlib_module_names)


def run(path: Path) -> subprocess.CompletedProcess[str]:
    """The checker as somebody runs it who has the file and Python."""
    command = [sys.executable, "-I", "-S", str(FILE), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")


def test_it_reads_a_file_and_says_what_it_accepts(tmp_path: Path) -> None:
    path = tmp_path / "proofs.json"
    whole = proof("attention", "score gradients sum to zero")
    path.write_text(json.dumps({"attention": [whole, {"name": "open", "evidence": "open"}]}), encoding="utf-8")
    done = run(path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 of 1 proofs accepted\n", "")
    wrong = {**whole, "claims": [{**whole["claims"][0], "right": 1}]}
    path.write_text(json.dumps({"attention": [whole, wrong]}), encoding="utf-8")
    done = run(path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "attention, score gradients sum to zero: step 1 (definition): it does not start where another ends\n"
        "1 of 2 proofs accepted\n"
    )
    path.write_text("{}", encoding="utf-8")
    assert run(path).returncode == 1, "nothing was checked"


# Rules.

V = ["var", "i"]
X, Y, M, N = ["at", "X", V], ["at", "Y", V], ["at", "M", V], ["at", "N", V]
POSITIONS = [["i", ["size", "n"]]]


def minus(left: Any, right: Any) -> Any:
    return ["+", left, ["*", -1, right]]


def data(left: Any, right: Any, *steps: Data, says: str = "=", **more: Any) -> dict[str, Any]:
    """A statement about X, Y: real, M: 0 or 1, N: integers, for i below n, with its steps."""
    claim = {"says": says, "left": left, "right": right, "steps": list(steps)}
    claim |= {"witness": more.pop("witness")} if "witness" in more else {}
    known = {"name": "", "for": POSITIONS, "tensors": {"M": "boolean", "N": "integer"}}
    return {**known, "definitions": [], "premises": [], **more, "claims": [claim]}


def by(rule: str, left: Any, right: Any, *instances: Data, **more: Any) -> dict[str, Any]:
    """One step from left − right to 0."""
    given = {"instances": list(instances)} if instances else {}
    return {"rule": rule, "before": minus(left, right), "after": 0, **given, **more}


def one(rule: str, left: Any, right: Any, instance: Data, **more: Any) -> dict[str, Any]:
    """A statement that one instance of a rule proves."""
    return data(left, right, by(rule, left, right, instance), **more)


def define(tensor: str, value: Any, over: Any = POSITIONS) -> dict[str, Any]:
    return {"tensor": tensor, "for": over, "value": value}


def premise(says: str, over: Any = POSITIONS, **more: Any) -> dict[str, Any]:
    return {"name": says, "for": over, "says": says, **more}


NEXT = ["+", V, 1]
K = ["var", "k"]
OVER = [["k", ["size", "n"]]]
LENGTH = ["size", "n"]


def total(body: Any, over: Any = OVER) -> Any:
    return ["sum", over, body]


SUMS = premise("equal", left=total(["at", "A", V, K]), right=1)
ROW = {"premise": 0, "with": {"i": V}}


def sums(left: Any, instance: Data, **more: Any) -> dict[str, Any]:
    return one("premise", left, 1, instance, premises=[SUMS], **more)


def unfolds(left: Any, right: Any, where: list[Any], *definitions: Data) -> dict[str, Any]:
    return one("definition", left, right, {"tensor": "D", "at": where}, definitions=list(definitions))


def picks(at: Any, right: Any, of: Any = ["at", "X", K], **more: Any) -> dict[str, Any]:  # noqa: B006
    instance = {"var": "k", "size": LENGTH, "at": at, "of": of}
    return one("delta_sum", total(["*", ["delta", K, at], of]), right, instance, **more)


def below(left: Any, right: Any) -> Any:
    return ["if", ["<=", left, right]]


DELTA = ["delta", V, ["var", "j"]]
BOTH = [*POSITIONS, ["j", LENGTH]]
INNER = [by("delta_sum", total(["*", ["delta", K, V], ["at", "X", K]]), X)]

VALID: dict[str, dict[str, Any]] = {
    "definition": unfolds(["at", "D", V], ["*", 2, X], [V], define("D", ["*", 2, X])),
    "premise": sums(total(["at", "A", V, K]), ROW),
    "derivative": one(
        "derivative",
        ["d", ["^", X, 2], ["at", "X", ["var", "j"]]],
        ["*", 2, X, DELTA],
        {"of": ["^", X, 2], "by": ["at", "X", ["var", "j"]]},
        **{"for": BOTH},
    ),
    "derivative: of 1/x where x is not 0": one(
        "derivative",
        ["d", ["^", X, -1], X],
        ["*", -1, ["^", X, -2]],
        {"of": ["^", X, -1], "by": X, "because": [ROW]},
        premises=[premise("not 0", of=X)],
    ),
    "gate": one("gate", ["*", M, ["exp", ["*", M, X]]], ["*", M, ["exp", X]], {"gate": M, "of": ["exp", ["*", M, X]]}),
    "delta_sum": picks(NEXT, ["*", below(0, NEXT), below(NEXT, ["+", LENGTH, -1]), ["at", "X", NEXT]]),
    "delta_beside": one(
        "delta_beside",
        ["*", DELTA, ["at", "X", ["var", "j"]]],
        ["*", DELTA, X],
        {"var": "j", "at": V, "of": ["at", "X", ["var", "j"]]},
        **{"for": BOTH},
    ),
    "ranges": one("ranges", below(V, ["+", LENGTH, -1]), 1, {"of": ["+", LENGTH, -1, ["*", -1, V]]}),
    "inside": one(
        "inside",
        ["exp", ["at", "D", V]],
        ["exp", ["*", 2, X]],
        {
            "of": ["exp", ["at", "D", V]],
            "argument": 1,
            "to": ["*", 2, X],
            "steps": [by("definition", ["at", "D", V], ["*", 2, X], {"tensor": "D", "at": [V]})],
        },
        definitions=[define("D", ["*", 2, X])],
    ),
    "multiply": data(
        ["+", ["^", X, -1], ["*", minus(X, 1), ["^", X, -1]]],
        1,
        {
            "rule": "multiply",
            "by": X,
            "because": [ROW],
            "before": minus(["+", ["^", X, -1], ["*", minus(X, 1), ["^", X, -1]]], 1),
            "after": minus(["*", X, ["+", ["^", X, -1], ["*", minus(X, 1), ["^", X, -1]]]], X),
        },
        {
            "rule": "x · 1/x",
            "instances": [{"X": X, "because": [ROW], "times": X}],
            "before": minus(["*", X, ["+", ["^", X, -1], ["*", minus(X, 1), ["^", X, -1]]]], X),
            "after": 0,
        },
        premises=[premise("not 0", of=X)],
    ),
}
"""A proof by each rule that is no equation."""


def altered(rule: str, change: Callable[[Any], None]) -> dict[str, Any]:
    """A valid proof with something changed in place."""
    whole: dict[str, Any] = json.loads(json.dumps(VALID[rule]))
    change(whole)
    return whole


def _of_derivative(whole: Any) -> None:
    whole["claims"][0]["steps"][0]["instances"][0]["of"] = ["d", ["at", "D", V], X]


REFUSED: dict[str, dict[str, Any]] = {
    "definition: an index lies outside": unfolds(
        ["at", "D", NEXT], ["*", 2, ["at", "X", NEXT]], [NEXT], define("D", ["*", 2, X])
    ),
    "definition: an index that is negative": unfolds(
        ["at", "D", ["+", V, -1]], ["at", "X", ["+", V, -1]], [["+", V, -1]], define("D", X)
    ),
    "definition: an index that may lie anywhere": unfolds(["at", "D", N], ["at", "X", N], [N], define("D", X)),
    "definition: an index that is no integer": unfolds(["at", "D", "1/2"], ["at", "X", "1/2"], ["1/2"], define("D", X)),
    "definition: an index that is real": unfolds(["at", "D", Y], ["at", "X", Y], [Y], define("D", X)),
    "definition: the position of an axis of another size": one(
        "definition",
        ["at", "D", ["var", "j"]],
        ["at", "X", ["var", "j"]],
        {"tensor": "D", "at": [["var", "j"]]},
        definitions=[define("D", X)],
        **{"for": [["j", ["size", "m"]]]},
    ),
    "definition: by itself": unfolds(
        ["at", "D", V], ["*", 2, ["at", "D", V]], [V], define("D", ["*", 2, ["at", "D", V]])
    ),
    "definition: by one that comes after it": unfolds(
        ["at", "D", V], ["at", "E", V], [V], define("D", ["at", "E", V]), define("E", ["at", "D", V])
    ),
    "definition: twice": unfolds(["at", "D", V], X, [V], define("D", Y), define("D", X)),
    "definition: fewer indices": unfolds(["at", "D"], X, [], define("D", X)),
    "definition: more indices": unfolds(["at", "D", V, V], X, [V, V], define("D", X)),
    "definition: 0/1 by what is not": {
        **unfolds(["at", "D", V], X, [V], define("D", X)),
        "tensors": {"D": "boolean"},
    },
    "definition: an integer by what is not": {
        **unfolds(["at", "D", V], ["*", "1/2", N], [V], define("D", ["*", "1/2", N])),
        "tensors": {"D": "integer", "N": "integer"},
    },
    "premise: the index occurs twice": sums(total(["at", "A", K, K]), {"premise": 0, "with": {"i": K}}),
    "premise: the row is a mirror of the summed index": sums(
        total(["at", "A", ["+", LENGTH, -1, ["*", -1, K]], K]),
        {"premise": 0, "with": {"i": ["+", LENGTH, -1, ["*", -1, K]]}},
    ),
    "premise: the row is looked up at the summed index": sums(
        total(["at", "A", ["at", "N", K], K]), {"premise": 0, "with": {"i": ["at", "N", K]}}
    ),
    "premise: the row is a remainder of the summed index": sums(
        total(["at", "A", ["Mod", K, 2], K]), {"premise": 0, "with": {"i": ["Mod", K, 2]}}
    ),
    "premise: a row outside": sums(total(["at", "A", NEXT, K]), {"premise": 0, "with": {"i": NEXT}}),
    "premise: the square": sums(total(["^", ["at", "A", V, K], 2]), ROW),
    "premise: another factor": sums(total(["*", ["at", "A", V, K], ["at", "X", K]]), ROW),
    "premise: over part of the axis": sums(total(["at", "A", V, K], [["k", ["+", LENGTH, 1]]]), ROW),
    "premise: of another rank": sums(total(["at", "A", V, V, K]), ROW),
    "premise: a sign is no equation": one("premise", X, 0, ROW, premises=[premise(">= 0", of=X)]),
    "derivative: by what is 0 or 1": one("derivative", ["d", M, M], 1, {"of": M, "by": M}),
    "derivative: by what is no entry": one("derivative", ["d", X, ["*", 2, X]], "1/2", {"of": X, "by": ["*", 2, X]}),
    "derivative: of a function without a rule": one(
        "derivative", ["d", ["tanh", X], X], 1, {"of": ["tanh", X], "by": X}
    ),
    "derivative: of 1/x where x may be 0": one(
        "derivative", ["d", ["^", X, -1], X], ["*", -1, ["^", X, -2]], {"of": ["^", X, -1], "by": X}
    ),
    "derivative: of a log where x may be 0": one(
        "derivative", ["d", ["log", X], X], ["^", X, -1], {"of": ["log", X], "by": X}
    ),
    "derivative: of 1/x where something else is not 0": one(
        "derivative",
        ["d", ["^", X, -1], X],
        ["*", -1, ["^", X, -2]],
        {"of": ["^", X, -1], "by": X, "because": [ROW]},
        premises=[premise("not 0", of=Y)],
    ),
    "derivative: a definition that is passed over": one(
        "derivative",
        ["d", ["at", "D", V], X],
        0,
        {"of": ["at", "D", V], "by": X},
        definitions=[define("D", ["*", 2, X])],
    ),
    "derivative: a definition at an index outside": one(
        "derivative",
        ["d", ["at", "D", NEXT], ["at", "X", NEXT]],
        2,
        {"of": ["at", "D", NEXT], "by": ["at", "X", NEXT]},
        definitions=[define("D", ["*", 2, X])],
    ),
    "gate: what may be any number": one(
        "gate", ["*", X, ["exp", ["*", X, Y]]], ["*", X, ["exp", Y]], {"gate": X, "of": ["exp", ["*", X, Y]]}
    ),
    "gate: a product of gates and something": one(
        "gate", ["*", M, X, ["exp", M]], ["*", M, X, ["exp", 1]], {"gate": ["*", M, X], "of": ["exp", M]}
    ),
    "delta_sum: without its range": picks(NEXT, ["at", "X", NEXT]),
    "delta_sum: without its lower end": picks(
        ["+", V, -1], ["*", below(V, LENGTH), ["at", "X", ["+", V, -1]]], ["at", "X", K]
    ),
    "delta_sum: at what is no integer": picks(Y, ["*", below(0, Y), below(Y, ["+", LENGTH, -1]), ["at", "X", Y]]),
    "delta_sum: at what moves along": picks(
        ["+", LENGTH, -1, ["*", -1, K]], ["at", "X", ["+", LENGTH, -1, ["*", -1, K]]]
    ),
    "delta_sum: over a position that is in use": one(
        "delta_sum",
        total(["*", ["delta", V, K], ["at", "X", V]], POSITIONS),
        ["at", "X", K],
        {"var": "i", "size": LENGTH, "at": K, "of": ["at", "X", V]},
        **{"for": [*POSITIONS, *OVER]},
    ),
    "delta_beside: what the delta does not say": one(
        "delta_beside",
        ["*", DELTA, ["at", "X", ["var", "j"]]],
        ["*", DELTA, ["at", "X", NEXT]],
        {"var": "j", "at": V, "of": ["at", "X", ["var", "j"]]},
        **{"for": BOTH},
    ),
    "ranges: one too few": one("ranges", below(V, ["+", LENGTH, -2]), 1, {"of": ["+", LENGTH, -2, ["*", -1, V]]}),
    "ranges: the first is not before it": one("ranges", below(1, V), 1, {"of": ["+", V, -1]}),
    "ranges: a size may be 0": one("ranges", below(1, LENGTH), 1, {"of": ["+", LENGTH, -1]}, **{"for": []}),
    "ranges: a part of a size may be 0": one(
        "ranges",
        below(0, ["+", LENGTH, -1, K]),
        1,
        {"of": ["+", LENGTH, -1, K]},
        **{"for": [["k", ["+", LENGTH, ["size", "m"]]]]},
    ),
    "ranges: an integer tensor": one("ranges", below(0, N), 1, {"of": N}),
    "ranges: a real number": one("ranges", below(0, X), 1, {"of": X}, premises=[]),
    "ranges: an integer of which something else is known": one(
        "ranges", below(0, N), 1, {"of": N, "because": [ROW]}, premises=[premise("not 0", of=N)]
    ),
    "inside: of a derivative": one(
        "inside",
        ["d", ["at", "D", V], X],
        ["d", ["*", 2, X], X],
        {
            "of": ["d", ["at", "D", V], X],
            "argument": 1,
            "to": ["*", 2, X],
            "steps": [by("definition", ["at", "D", V], ["*", 2, X], {"tensor": "D", "at": [V]})],
        },
        definitions=[define("D", ["*", 2, X])],
    ),
    "inside: by multiplication": one(
        "inside",
        ["exp", ["*", X, ["^", X, -1]]],
        ["exp", 1],
        {
            "of": ["exp", ["*", X, ["^", X, -1]]],
            "argument": 1,
            "to": 1,
            "steps": [
                {
                    "rule": "multiply",
                    "by": X,
                    "because": [ROW],
                    "before": minus(["*", X, ["^", X, -1]], 1),
                    "after": minus(["*", X, X, ["^", X, -1]], X),
                },
                by("x · 1/x", ["*", X, X, ["^", X, -1]], X, {"X": X, "because": [ROW], "times": X}),
            ],
        },
        premises=[premise("not 0", of=X)],
    ),
    "inside: without a proof": one(
        "inside", ["exp", X], ["exp", Y], {"of": ["exp", X], "argument": 1, "to": Y, "steps": []}
    ),
    "multiply: by what may be 0": altered("multiply", lambda whole: whole.update(premises=[premise(">= 0", of=X)])),
    "multiply: without a reason": altered("multiply", lambda whole: whole["claims"][0]["steps"][0].pop("because")),
    "multiply: by another number": altered("multiply", lambda whole: whole["claims"][0]["steps"][0].update(by=2)),
    "no steps": data(X, Y),
    "no claims": {**data(X, X), "claims": []},
    "a claim of another kind": data(X, X, says="<="),
    "a step of no rule": data(X, Y, by("magic", X, Y, {})),
    "a private method is no rule": data(X, Y, by("_slope", X, Y, {})),
    "a witness that may be negative": data(X, 0, says=">=", witness=X),
    "a witness that is less than the difference": data(["^", X, 2], -1, says=">=", witness=["^", X, 2]),
    "a position that the statement does not have": data(["at", "X", K], ["at", "X", K]),
    "an index that is real": data(["at", "X", Y], ["at", "X", Y]),
    "a delta of reals": data(["delta", X, Y], ["delta", X, Y]),
    "a size that may be negative": data(1, 1, **{"for": [["i", ["+", LENGTH, -1]]]}),
    "a sum over what may be negative": data(total(1, [["k", ["+", LENGTH, -1]]]), ["+", LENGTH, -1]),
    "a name of the checker's own": data(["inv", X], ["inv", X]),
    "a position with a name of the checker's own": data(1, 1, **{"for": [["_1", LENGTH]]}),
    "an exponential of two things": data(["exp", X, Y], ["exp", X, Y]),
}
"""Proofs that look like proofs, each of something that is not so, or without what it needs."""


def test_every_rule_has_a_valid_proof_and_every_side_condition_one_that_is_refused() -> None:
    assert {rule.partition(":")[0] for rule in VALID} | {*EQUATIONS} == {*RULES}
    for rule in RULES.values():
        violations = [name for name in REFUSED if name.startswith(f"{rule.name}:")]
        if rule.name not in EQUATIONS:
            assert len(violations) >= len(rule.conditions), rule.name


@pytest.mark.parametrize("rule", VALID)
def test_a_proof_by_every_rule_is_accepted(rule: str) -> None:
    assert check(VALID[rule]) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_a_violated_side_condition_is_refused(name: str) -> None:
    assert check(REFUSED[name]) != ""


WEAKER = {"not 0": [">= 0"], "> 0": ["not 0", ">= 0"], ">= 0": ["not 0"], "": []}


@pytest.mark.parametrize("rule", EQUATIONS)
def test_equations_ask_for_the_sign_that_they_need(rule: str) -> None:
    left, right, needed = EQUATIONS[rule]
    names = {"X": X, "Y": Y} if json.dumps(["var", "Y"]) in json.dumps([left, right]) else {"X": X}

    def proof_with(says: str, because: list[Any], instance: Mapping[str, Any] = names) -> dict[str, Any]:
        sides = [_put(side, instance) for side in (left, right)]
        premises = [premise(says, of=X)] if says else []
        return one(rule, *sides, {**instance, **({"because": because} if because else {})}, premises=premises)

    assert check(proof_with(needed, [ROW] if needed else [])) == ""
    for weaker in WEAKER[needed]:
        assert "not known to be" in check(proof_with(weaker, [ROW]))
    if needed:
        assert "not known to be" in check(proof_with(needed, []))
        assert "not known to be" in check(proof_with("", []))
        elsewhere = check(proof_with(needed, [ROW], {**names, "X": ["at", "X", ["+", LENGTH, -1, ["*", -1, V]]]}))
        assert "not known to be" in elsewhere, "it is known of another entry"
        assert "lie in" in check(proof_with(needed, [{"premise": 0, "with": {"i": NEXT}}]))


def _put(term: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(term, list):
        return names[term[1]] if term[0] == "var" else [_put(part, names) for part in term]
    return term


@pytest.mark.parametrize("rule", EQUATIONS)
def test_equations_hold_in_numbers(rule: str) -> None:
    """At numbers of every sign that the rule allows, 0 among them."""
    left, right, needed = EQUATIONS[rule]
    allowed = {"": lambda x: True, "not 0": bool, "> 0": lambda x: x > 0, ">= 0": lambda x: x >= 0}[needed]
    for x, y in product((-2.5, -1, 0, 0.4, 3), repeat=2):
        if allowed(x):
            world = World({"definitions": [], "tensors": {}}, random.Random(0))
            world.known = {("at", "X", (0,)): x, ("at", "Y", (0,)): y}
            names = {"X": ["at", "X", 0], "Y": ["at", "Y", 0]}
            one_side, other = (world.value(_put(side, names), {}) for side in (left, right))
            assert abs(one_side - other) < 1e-9, (rule, x, y)


@pytest.mark.parametrize("rule", [r for r in EQUATIONS if EQUATIONS[r][2]])
def test_equations_fail_in_numbers_where_they_are_not_allowed(rule: str) -> None:
    """No side condition is there for nothing."""
    left, right, _ = EQUATIONS[rule]
    differences = []
    for x, y in product((-2.5, 0), (-1, 2)):
        world = World({"definitions": [], "tensors": {}}, random.Random(0))
        world.known = {("at", "X", (0,)): x, ("at", "Y", (0,)): y}
        names = {"X": ["at", "X", 0], "Y": ["at", "Y", 0]}
        differences.append(abs(world.value(_put(left, names), {}) - world.value(_put(right, names), {})))
    assert max(differences) > 0.1


# Proofs of the catalogue.

PROGRAMS = ("attention", "rope_attention", "layer_norm", "rotary_embedding", "cross_entropy", "dual_chunk_attention")


ALTERED = 150
"""How many alterations of a program's proofs are tried; the largest program has 2,480, all of which are refused."""


@cache
def proofs(name: str) -> dict[str, dict[str, Any]]:
    """Its proved statements as they stand in a file."""
    found = (prove(identity) for identity in identities(program(name)) if identity.holds)
    return {str(p.data["name"]): json.loads(json.dumps(p.data)) for p in found if p.status == "proved"}


def proof(name: str, statement: str) -> dict[str, Any]:
    return proofs(name)[statement]


@pytest.mark.parametrize("name", PROGRAMS)
def test_proofs_of_the_catalogue_are_accepted_from_json(name: str) -> None:
    assert len(proofs(name)) >= 2
    for statement, whole in proofs(name).items():
        assert check(whole) == "", statement


def alterations(whole: Data) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step of every claim changed in all ways that make it another step; and claims changed under their proof."""
    for place, claim in enumerate(whole["claims"]):
        for part, change in (("right", ["+", 1, claim["right"]]), ("left", ["+", claim["left"], claim["left"], 1])):
            yield f"claim {place}: {part}", _with(whole, place, {**claim, part: change})
        for n, step in enumerate(claim["steps"]):
            rest = [claim["steps"][:n], claim["steps"][n + 1 :]]
            told = f"claim {place}, step {n} ({step['rule']}): "
            for what, steps in _altered_steps(step):
                yield told + what, _with(whole, place, {**claim, "steps": [*rest[0], *steps, *rest[1]]})


def _with(whole: Data, place: int, claim: Any) -> dict[str, Any]:
    return {**whole, "claims": [*whole["claims"][:place], claim, *whole["claims"][place + 1 :]]}


def _altered_steps(step: Any) -> Iterator[tuple[str, list[Any]]]:
    yield "left out", []
    for part in ("before", "after"):
        yield part, [{**step, part: ["+", 1, step[part]]}]
    yield "another rule", [{**step, "rule": "gate" if step["rule"] != "gate" else "ranges"}]
    if "by" in step:
        yield "by", [{**step, "by": ["+", 1, step["by"]]}]
    for k, instance in enumerate(step.get("instances", ())):
        around = [step["instances"][:k], step["instances"][k + 1 :]]

        def put(*changed: Any, around: Any = around) -> list[Any]:
            return [{**step, "instances": [*around[0], *changed, *around[1]]}]

        yield f"instance {k} left out", put()
        yield f"instance {k} twice", put(instance, instance)
        yield f"instance {k}: times", put({**instance, "times": ["*", 2, instance.get("times", 1)]})
        if "over" in instance:
            yield f"instance {k}: over", put({key: v for key, v in instance.items() if key != "over"})
            longer = [[x, ["+", size, 1]] for x, size in instance["over"]]
            yield f"instance {k}: over more", put({**instance, "over": longer})
        for key in ("X", "Y", "to"):
            if key in instance:
                yield f"instance {k}: {key}", put({**instance, key: ["+", 1, instance[key]]})
        if step["rule"] != "derivative" and "of" in instance:
            yield f"instance {k}: of", put({**instance, "of": ["*", 2, instance["of"]]})


@pytest.mark.parametrize("name", PROGRAMS)
def test_proofs_with_any_step_altered_are_refused(name: str) -> None:
    every = [(s, what, changed) for s, whole in proofs(name).items() for what, changed in alterations(whole)]
    assert len(every) > 50
    for statement, what, changed in random.Random(name).sample(every, min(len(every), ALTERED)):
        assert check(changed) != "", (statement, what)


@pytest.mark.parametrize("name", PROGRAMS)
def test_reasons_and_premises_that_are_left_out_are_missed(name: str) -> None:
    """A step's reasons are needed, and so are the premises and definitions that a proof mentions."""
    for statement, whole in proofs(name).items():
        text = json.dumps(whole["claims"])
        if '"because"' in text:
            assert check({**whole, "claims": _without(whole["claims"], "because")}) != "", statement
        if '"premise"' in text:
            assert check({**whole, "premises": []}) != "", statement
        if '"definition"' in text:
            assert check({**whole, "definitions": []}) != "", statement


def _without(thing: Any, key: str) -> Any:
    if isinstance(thing, dict):
        return {k: _without(v, key) for k, v in thing.items() if k != key}
    return [_without(part, key) for part in thing] if isinstance(thing, list) else thing


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_of_proofs_are_equal_in_numbers(name: str) -> None:
    """Where nothing is assumed: what stands before a step and after it is one number, by another evaluator."""
    looked = 0
    for statement, whole in proofs(name).items():
        if any(p["says"] == "equal" for p in whole["premises"]):
            continue
        for seed, claim in product(range(2), whole["claims"][:4]):
            world = World(whole, random.Random(f"{statement} {seed}"))
            at = {x: world.chance.randrange(world.size(n)) for x, n in whole["for"]}
            for step in claim["steps"]:
                before, after = (world.value(step[side], at) for side in ("before", "after"))
                if step["rule"] == "multiply":
                    before *= world.value(step["by"], at)
                assert abs(before - after) < 1e-5 * (1 + abs(before)), (statement, step["rule"])
                looked += 1
    assert looked


def test_no_statement_says_that_something_is_itself() -> None:
    """Both sides are kept as they are printed: none is settled before a proof begins."""
    for name in PROGRAMS:
        for statement, whole in proofs(name).items():
            for claim in whole["claims"]:
                assert claim["left"] != claim["right"], (name, statement)
                assert claim["left"] not in (0, 1, True), (name, statement)
