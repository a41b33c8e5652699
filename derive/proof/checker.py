"""A checker of proofs: it reads what ``backprove prove --format json`` writes, and accepts it or says which step fails.

``python checker.py proofs.json`` needs this file and the standard library. A proof turns the difference of two sides
into 0. A step replaces instances of a rule below: *before − after = Σ over · times · (left − right)*, compared in the
normal form of a commutative ring with finite sums over named positions: orders and names do not count, Σ of what does
not depend on its position is its size times that, 0/1 factors are their own squares. Functions are total: 1/0 and roots
of negative numbers are 0, so that 1/(x y) = 1/x · 1/y for all x and y.

Terms are JSON: ``2``, ``"1/3"``; ``["var", i]`` a position, ``["size", n]``, ``["int", p]``, ``["real", s]``;
``["at", T, i, j]``; ``["+", …]``, ``["*", …]``, ``["^", x, "1/2"]``; ``["sum", [[k, n]], x]``; ``["delta", i, j]`` and
``["if", ["<=", i, j]]``, 1 or 0; ``["d", y, ["at", X, i]]``, definitions counting; any other head is a function.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import count, permutations, product
from pathlib import Path
from typing import Any

Data = Mapping[str, Any]
Atom = tuple[Any, ...]  # a head and arguments, names or normal forms: ("var", i), ("at", T, kind, i, j), ("inv", x) …
Factors = list[tuple[Atom, int]]  # atoms with their powers
Bound = Sequence[tuple[str, "Poly"]]  # summed positions with their sizes
Number = int | Fraction
Mono = tuple[tuple[tuple[str, "Poly"], ...], frozenset[tuple[Atom, int]]]  # Σ over positions "_1", "_2" … of a product
Scope = Mapping[str, "Poly"]  # the positions that may be mentioned, with their sizes
Sides = tuple["Poly", "Poly"]
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)
_serial = count()


class Refused(Exception):
    """What a proof, a step or a statement lacks."""

    __repr__ = Exception.__str__


def refuse_unless(holds: object, reason: str) -> None:
    """Refuse for a reason, unless something holds."""
    if not holds:
        raise Refused(reason)


@dataclass(frozen=True)
class Poly:
    """A normal form: monomials with their coefficients."""

    terms: frozenset[tuple[Mono, Number]]

    def __add__(self, other: Poly) -> Poly:
        return total([*self.terms, *other.terms])

    def __sub__(self, other: Poly) -> Poly:
        return total([*self.terms, *((m, -c) for m, c in other.terms)])

    def __mul__(self, other: Poly) -> Poly:
        if ONE in (self, other):
            return other if self == ONE else self
        both = [(*opened(m), *opened(n), c * d) for m, c in self.terms for n, d in other.terms]
        return total(t for x, a, y, b, c in both for t in _closed([*x, *y], [*a, *b], c).terms)

    def __pow__(self, exponent: int) -> Poly:
        return reduce(Poly.__mul__, [self if exponent > 0 else self.inverse()] * abs(exponent), ONE)

    def summed(self, bound: Bound) -> Poly:
        parts = ((*opened(m), c) for m, c in self.terms)
        return total(t for x, a, c in parts for t in _closed([*bound, *x], a, c).terms) if bound else self

    def put(self, names: Mapping[Atom, Poly]) -> Poly:
        if holds(self).isdisjoint(names):
            return self
        monos = ((*opened(m), c) for m, c in self.terms)
        parts = ((x, reduce(Poly.__mul__, (put(a, names) ** p for a, p in f), number(c))) for x, f, c in monos)
        return total(t for x, body in parts for t in body.summed([(y, n.put(names)) for y, n in x]).terms)

    @property
    def atom(self) -> Atom:
        ((bound, factors), scale), *more = self.terms or [(((), frozenset()), 0)]
        (atom, exponent), *others = factors or [((), 0)]
        refuse_unless(not (bound or more or others) and exponent == scale == 1, "a sum stands where it may not")
        return atom

    @property
    def number(self) -> Fraction | None:
        return Fraction(sum(c for _, c in self.terms)) if all(not m[1] for m, _ in self.terms) else None

    def inverse(self) -> Poly:  # of a product the product of those of its factors, of a sum an atom
        if len(self.terms) != 1:
            return part("inv", self) if self.terms else ZERO
        ((mono, scale),) = self.terms
        bound, factors = opened(mono)
        inner = [(a, p) for a, p in factors if any(("var", x) in holds(a) for x, _ in bound)]
        turned = [(a[1] if a[0] == "inv" else part("inv", part(*a))) ** p for a, p in factors if (a, p) not in inner]
        turned += [part("inv", _closed(bound, inner, 1))] if bound else []
        return reduce(Poly.__mul__, turned, number(1 / Fraction(scale)))

    def delta(self) -> Poly:  # 1 where an integer is 0, else 0; the sign of the integer does not count
        return part("delta", min(self, ZERO - self, key=text)) if self.number is None else number(self.number == 0)

    def condition(self, relation: str) -> Poly:  # 1 where it is >=, > or == 0, else 0; integers > 0 are at least 1
        if (known := self.number) is not None:
            return number(int(known >= 0 if relation == ">=" else known > 0 if relation == ">" else known == 0))
        whole = self.delta() if relation == "==" else part("if", ">=", self - number(int(relation == ">")))
        return whole if is_whole(self) else part("if", relation, self)

    def at_least_zero(self, scope: Scope) -> bool:  # for integers linear in positions, whose sizes are 1 or more
        value, live = self, set[Atom]()
        for x, size in scope.items():
            slope = (value.put({("var", x): part("var", x) + ONE}) - value).number
            if slope is None or not is_whole(value):
                return False
            live |= holds(size) if slope and len(size.terms) == 1 else set()
            value = value.put({("var", x): ZERO if slope >= 0 else size - ONE})
        value = value.put({a: part(*a) + ONE for a in live if a[0] == "size"})
        return all(c > 0 and not m[0] and all(a[0] == "size" for a, _ in m[1]) for m, c in value.terms)

    def sign(self, known: Mapping[Poly, str]) -> str:  # "> 0", ">= 0", "not 0" or "", by premises, squares, sums …
        signs = [_sign(m, c, known) for m, c in self.terms]
        own = signs[0] if len(signs) == 1 else "" if {*signs} - {"> 0", ">= 0"} else min(signs, default=">= 0")
        given = known.get(self, own)
        return "> 0" if {own, given} >= {">= 0", "not 0"} else given


def total(terms: Iterable[tuple[Mono, Number]]) -> Poly:
    """Like terms added up."""
    found: dict[Mono, Number] = {}
    for mono, scale in terms:
        found[mono] = found.get(mono, 0) + scale
    return Poly(frozenset(t for t in found.items() if t[1]))


def number(value: int | str | Fraction) -> Poly:
    """A rational number: a whole one, or a text with a fraction of two."""
    refuse_unless(not isinstance(value, str) or re.fullmatch("-?[0-9]{1,999}(/[0-9]{1,999})?", value), "no fraction")
    return total([(((), frozenset()), e.numerator if (e := Fraction(value)).denominator == 1 else e)])


def part(*atom: Any) -> Poly:
    """An atom by itself."""
    return Poly(frozenset({(((), frozenset({(atom, 1)})), 1)}))


ZERO, ONE = number(0), number(1)


@lru_cache(maxsize=2**18)
def text(thing: Any) -> str:
    """One text for one thing, by which things are put in order."""
    if isinstance(thing, (tuple, frozenset, Poly)):
        parts = map(text, thing.terms if isinstance(thing, Poly) else thing)
        return f"({' '.join(parts if isinstance(thing, tuple) else sorted(parts))})"
    return repr(thing) if isinstance(thing, str) else str(thing)


@lru_cache(maxsize=2**18)
def holds(thing: Poly | Atom) -> frozenset[Atom]:
    """The atoms in a normal form or an atom, positions among them."""
    if isinstance(thing, Poly):
        return frozenset().union(*(holds(a) for mono, _ in thing.terms for a, _ in mono[1]))
    return frozenset({thing}).union(*(holds(a) for a in thing if isinstance(a, Poly)))


def put(atom: Atom, names: Mapping[Atom, Poly]) -> Poly:
    """An atom with something else for some atoms."""
    if atom in names or holds(atom).isdisjoint(names):
        return names.get(atom, part(*atom))
    refuse_unless(atom[0] != "d" or all(a[0] != "at" for n in names for a in holds(n) | holds(names[n])), "it may move")
    return make(atom[0], *(a.put(names) if isinstance(a, Poly) else a for a in atom[1:]))


def _renamed(bound: Bound, factors: Iterable[tuple[Atom, int]], new: Iterable[str]) -> tuple[Bound, Factors]:
    named = [(x, y, size) for (x, size), y in zip(bound, new, strict=False)]
    names = {("var", x): part("var", y) for x, y, _ in named}
    return [(y, size) for _, y, size in named], [(put(a, names).atom if names else a, p) for a, p in factors]


def opened(mono: Mono) -> tuple[Bound, Factors]:
    """A monomial's summed positions under names that nothing else has, and its factors."""
    return _renamed(*mono, (f"~{n}" for n in _serial))


def _closed(bound: Bound, factors: Factors, scale: Number) -> Poly:  # like factors together, and canonical names
    powers: dict[Atom, int] = {}
    for atom, exponent in factors:
        powers[atom] = 1 if is_gate(atom) else powers.get(atom, 0) + exponent
    used = frozenset().union(*map(holds, powers))
    own = Poly(frozenset({(_named([b for b in bound if ("var", b[0]) in used], [*powers.items()]), scale)}))
    return reduce(Poly.__mul__, (size for x, size in bound if ("var", x) not in used), own)


def _named(bound: Bound, factors: Factors) -> Mono:  # parts that share no summed position by themselves, and in order
    if not bound:
        return (), frozenset(factors)
    inner = (int(a[1][1:]) for f, _ in factors for a in holds(f) if a[0] == "var" and a[1].startswith("_"))
    low, apart = max(inner, default=0), list[set[str]]()
    near = {f: {x for x, _ in bound if ("var", x) in holds(f[0])} for f in factors}
    for xs in near.values():
        apart = [xs.union(*(g for g in apart if g & xs)), *(g for g in apart if not g & xs)]
    groups = (([b for b in bound if b[0] in xs], [f for f in factors if near[f] & xs]) for xs in apart if xs)
    least = sorted((_least(*group, low) for group in groups), key=text)
    new = (f"_{k}" for k in count(low + 1))  # one after another: zip takes none beyond a part's last position
    named = [([], [f for f in factors if not near[f]]), *(_renamed(*mono, new) for mono in least)]
    return tuple(b for own, _ in named for b in own), frozenset(f for _, parts in named for f in parts)


def _least(bound: Bound, factors: Factors, low: int) -> Mono:  # over all orders of the positions that look alike
    looks, found = dict[str, list[tuple[str, Poly]]](), list[Mono]()
    for x, size in bound:
        mine = [(a, p) for a, p in factors if ("var", x) in holds(a)]
        seen = sorted(text((p, *(b if isinstance(b, str) else str(b == part("var", x)) for b in a))) for a, p in mine)
        looks.setdefault(text((size, *seen)), []).append((x, size))
    for groups in product(*(permutations(looks[look]) for look in sorted(looks))):
        new, parts = _renamed([b for group in groups for b in group], factors, (f"_{k}" for k in count(low + 1)))
        found.append((tuple(new), frozenset(parts)))
    return min(found, key=text) if len(found) > 1 else found[0]


def make(head: str, *args: Any) -> Poly:
    """An atom of a head, in its own normal form."""
    own: Poly = args[-1]
    if head in ("inv", "delta"):
        return own.inverse() if head == "inv" else own.delta()
    return own.condition(args[0]) if head == "if" else part(head, *args)


def is_gate(atom: Atom) -> bool:
    """Whether an atom is 0 or 1."""
    return atom[0] in ("delta", "if") or (atom[0] == "at" and atom[2] == "boolean")


def is_whole(thing: Poly | Atom) -> bool:
    """Whether a normal form or an atom is known to be an integer."""
    if isinstance(thing, Poly):
        return all(c.denominator == 1 and all(is_whole(a) for a, _ in m[1]) for m, c in thing.terms)
    whole = thing[0] in ("var", "size", "int", "delta", "if", "floor", "ceiling")
    whole = whole or (thing[0] == "at" and thing[2] in ("integer", "boolean"))
    return whole or (thing[0] in ("Max", "Min", "Mod", "Abs") and all(map(is_whole, thing[1:])))


def _sign(mono: Mono, scale: Number, known: Mapping[Poly, str]) -> str:
    signs = set()
    for atom, p in mono[1]:
        own = ">= 0" if is_gate(atom) or atom[0] in ("size", "var", "Abs") else "> 0" if atom[0] == "exp" else ""
        if atom[0] in ("inv", "root"):
            inner = atom[-1].sign(known)
            own = inner if atom[0] == "inv" or inner == "> 0" else ">= 0"
        own = known.get(part(*atom), own)
        signs.add(own if p % 2 else "> 0" if own in ("not 0", "> 0") else ">= 0")
    if not mono[0] and signs <= {"> 0", "not 0"}:
        return "> 0" if scale > 0 and "not 0" not in signs else "not 0"
    return ">= 0" if scale > 0 and signs <= {"> 0", ">= 0"} else ""  # a sum may be over no position at all


X, Y = ["var", "X"], ["var", "Y"]
EQUATIONS: dict[str, tuple[Any, Any, str]] = {  # between real numbers: left side, right side, what X has to be
    "x · 1/x": (["*", X, ["^", X, -1]], 1, "not 0"),
    "exp of a sum": (["exp", ["+", X, Y]], ["*", ["exp", X], ["exp", Y]], ""),
    "exp of a negative": (["exp", ["*", -1, X]], ["^", ["exp", X], -1], ""),
    "exp of a log": (["exp", ["log", X]], X, "> 0"),
    "log of an exp": (["log", ["exp", X]], X, ""),
    "square of a root": (["^", ["^", X, "1/2"], 2], X, ">= 0"),
    "root of a square": (["^", ["^", X, 2], "1/2"], X, ">= 0"),
    "root of a product": (["^", ["*", X, Y], "1/2"], ["*", ["^", X, "1/2"], ["^", Y, "1/2"]], "> 0"),
    "circle": (["^", ["sin", X], 2], ["+", 1, ["*", -1, ["^", ["cos", X], 2]]], ""),
    "cos of a sum": (["cos", ["+", X, Y]], ["+", ["*", ["cos", X], ["cos", Y]], ["*", -1, ["sin", X], ["sin", Y]]], ""),
    "sin of a sum": (["sin", ["+", X, Y]], ["+", ["*", ["sin", X], ["cos", Y]], ["*", ["cos", X], ["sin", Y]]], ""),
    "cos of a negative": (["cos", ["*", -1, X]], ["cos", X], ""),
    "sin of a negative": (["sin", ["*", -1, X]], ["*", -1, ["sin", X]], ""),
}


class Statement:
    """What a proof is about: positions, kinds of tensors, definitions and premises; and its rules."""

    def __init__(self, data: Data) -> None:
        self.kinds: Mapping[str, str] = data.get("tensors", {})
        self.premises: Sequence[Data] = data.get("premises", [])
        self.scope = self.sized(data.get("for", []))
        self.definitions: dict[str, Data] = {}
        for known in reversed(data.get("definitions", [])):  # none may mention itself or one that comes after it
            name, value = known["tensor"], self.here(known["value"], self.sized(known["for"]))
            kind, fresh, self.definitions[name] = self.kinds.get(name, "real"), name not in self.definitions, known
            free = fresh and self.definitions.keys().isdisjoint(a[1] for a in holds(value) if a[0] == "at")
            fits = kind == "real" or (is_whole(value) and (kind == "integer" or value**2 == value))
            refuse_unless(free and fits, f"{name} is not defined by what was there before, or is not {kind}")

    def here(self, term: Any, scope: Scope) -> Poly:
        return self.normal(term, {x: part("var", x) for x in scope})

    def normal(self, term: Any, names: Mapping[str, Poly]) -> Poly:  # names: what stands at positions
        if isinstance(term, (int, str)):
            return number(term)
        head, *args = term
        if head == "sum":
            new = [(x, f"~{next(_serial)}", size) for x, size in self.sized(args[0]).items()]
            body = self.normal(args[1], {**names, **{x: part("var", y) for x, y, _ in new}})
            return body.summed([(y, n) for _, y, n in new])
        if head == "if":
            left, right = (self.normal(a, names) for a in args[0][1:])
            return (right - left).condition({"<=": ">=", "<": ">", "==": "=="}[args[0][0]])
        if head in ("var", "size", "int", "real"):
            (name,) = args
            return names[name] if head == "var" else part(head, str(name))
        if head == "^":
            base, e = self.normal(args[0], names), Fraction(number(args[1]).number or 0)
            refuse_unless(len(args) == 2 and abs(e) < 99, f"{args[1:]} is no exponent from −98 to 98")
            return (base if e.denominator == 1 else part("root", str(e.denominator), base)) ** e.numerator
        parts = [self.normal(a, names) for a in args[head == "at" :]]
        whole = all(map(is_whole, parts))
        refuse_unless(whole or head not in ("at", "delta"), f"an index of {args[0]} is not known to be an integer")
        if head == "at":
            return part("at", str(args[0]), self.kinds.get(str(args[0]), "real"), *parts)
        if head in ("+", "*"):
            return reduce(Poly.__add__, parts, ZERO) if head == "+" else reduce(Poly.__mul__, parts, ONE)
        arity = {"inv": -1, "root": -1, "d": 2, "delta": 2, "Mod": 2, "power": 2}.get(head, 1)
        refuse_unless(head in ("Max", "Min") or len(parts) == arity, f"{head} has {len(parts)} arguments")
        return (parts[0] - parts[1]).delta() if head == "delta" else part(head, *parts)

    def sized(self, bound: Sequence[tuple[str, Any]]) -> dict[str, Poly]:  # positions and sizes, which are at least 0
        sizes = {x: self.normal(size, {}) for x, size in bound}
        fits = (x[0] not in "_~" and n.at_least_zero({}) and is_whole(n) for x, n in sizes.items())
        refuse_unless(all(fits) and len(sizes) == len(bound), f"{bound} are no positions and sizes")
        return sizes

    def places(self, where: Sequence[Any], given: Mapping[str, Poly], scope: Scope) -> Mapping[str, Poly]:
        for x, size in self.sized(where).items():
            here = given[x]
            inside = any(here == part("var", y) and n == size for y, n in scope.items())
            inside = inside or (here.at_least_zero(scope) and (size - here - ONE).at_least_zero(scope))
            refuse_unless(inside and is_whole(here), f"what stands for {x} is not known to lie in its range")
        return given

    def chosen(self, premise: Data, data: Data, scope: Scope) -> Mapping[str, Poly]:
        return self.places(w := premise.get("for", []), {x: self.here(data["with"][x], scope) for x, _ in w}, scope)

    def signs(self, data: Data, scope: Scope) -> Mapping[Poly, str]:
        uses = [(self.premises[use["premise"]], use) for use in data.get("because", [])]
        return {self.normal(p["of"], self.chosen(p, use, scope)): p["says"] for p, use in uses}

    def rule_definition(self, data: Data, scope: Scope) -> Sides:
        entry = self.here(["at", data["tensor"], *data["at"]], scope)
        return entry, self.unfolded(entry.atom, scope)

    def unfolded(self, entry: Atom, scope: Scope) -> Poly:
        known = self.definitions[entry[1]]
        given = {x: at for (x, _), at in zip(known["for"], entry[3:], strict=True)}
        return self.normal(known["value"], self.places(known["for"], given, scope))

    def rule_premise(self, data: Data, scope: Scope) -> Sides:
        premise = self.premises[data["premise"]]
        refuse_unless(premise["says"] == "equal", "the premise is no equation")
        names = self.chosen(premise, data, scope)
        return self.normal(premise["left"], names), self.normal(premise["right"], names)

    def rule_derivative(self, data: Data, scope: Scope) -> Sides:
        of, by = self.here(data["of"], scope), self.here(data["by"], scope)
        refuse_unless(by.atom[:3:2] == ("at", "real") and by.atom[1] not in self.definitions, "it is by no real input")
        return part("d", of, by), self.derivative(of, by.atom, scope, self.signs(data, scope))

    def derivative(self, value: Poly, by: Atom, scope: Scope, known: Mapping[Poly, str]) -> Poly:  # definitions count
        terms: list[tuple[Mono, Number]] = []
        for mono, scale in value.terms:
            bound, factors = opened(mono)
            for k, (atom, p) in enumerate(factors):
                rest = (part(*a) ** (q - (n == k)) for n, (a, q) in enumerate(factors))
                own = number(scale * p) * self._slope(atom, by, {**scope, **dict(bound)}, known)
                terms += reduce(Poly.__mul__, rest, own).summed(bound).terms
        return total(terms)

    def _slope(self, atom: Atom, by: Atom, scope: Scope, known: Mapping[Poly, str]) -> Poly:
        head, x = atom[0], atom[-1]
        moves = any(a[0] == "at" and a[1] in (by[1], *self.definitions) for a in holds(atom) - {atom})
        refuse_unless(head in ("exp", "log", "inv") or not moves, f"{head} has no slope that is known, or moves along")
        if head == "at" and atom[1] == by[1]:
            return reduce(Poly.__mul__, ((a - b).delta() for a, b in zip(atom[3:], by[3:], strict=True)), ONE)
        if head == "at" and atom[1] in self.definitions:
            return self.derivative(self.unfolded(atom, scope), by, scope, known)
        if head not in ("exp", "log", "inv"):
            return ZERO
        slopes: dict[str, Poly] = {"exp": part(*atom), "log": x.inverse(), "inv": ZERO - part(*atom) ** 2}
        refuse_unless(head == "exp" or x.sign(known) in ("> 0", "not 0")[: 1 + (head == "inv")], "it may have no slope")
        return slopes[head] * self.derivative(x, by, scope, known)

    def rule_gate(self, data: Data, scope: Scope) -> Sides:
        gate, of = self.here(data["gate"], scope), self.here(data["of"], scope)
        refuse_unless(is_gate(gate.atom), f"{data['gate']} is not known to be 0 or 1")
        return gate * of, gate * of.put({gate.atom: ONE})

    def rule_delta_sum(self, data: Data, scope: Scope) -> Sides:
        x, size = data["var"], self.sized([(data["var"], data["size"])])
        at, of = self.here(data["at"], scope), self.here(data["of"], {**scope, **size})
        refuse_unless(is_whole(at) and x not in scope, f"{data['at']} is no integer, or {x} is in use")
        inside = at.condition(">=") * (size[x] - at - ONE).condition(">=")
        return ((part("var", x) - at).delta() * of).summed([*size.items()]), inside * of.put({("var", x): at})

    def rule_delta_beside(self, data: Data, scope: Scope) -> Sides:
        x, at, of = data["var"], self.here(data["at"], scope), self.here(data["of"], scope)
        here = (self.here(["var", x], scope) - at).delta()
        return here * of, here * of.put({("var", x): at})

    def rule_ranges(self, data: Data, scope: Scope) -> Sides:
        value = self.here(data["of"], scope)
        never = (ZERO - value - ONE).at_least_zero(scope)
        always = value.at_least_zero(scope) or value.sign(self.signs(data, scope)) in ("> 0", ">= 0")
        refuse_unless(is_whole(value) and (never or always), "ranges do not decide it")
        return value.condition(">="), ZERO if never else ONE

    def rule_inside(self, data: Data, scope: Scope) -> Sides:
        atom, place, after = self.here(data["of"], scope).atom, int(data["argument"]), self.here(data["to"], scope)
        refuse_unless(atom[0] != "d" and place > 0 and isinstance(atom[place], Poly), "nothing is replaced there")
        self.follow(atom[place] - after, data["steps"], scope, top=False)
        return part(*atom), make(*atom[:place], after, *atom[place + 1 :])

    def sides(self, rule: str, data: Data, scope: Scope) -> Sides:
        if rule not in EQUATIONS:
            return getattr(self, f"rule_{rule}")(data, scope)  # type: ignore[no-any-return]
        left, right, needed = EQUATIONS[rule]
        names = {x: self.here(data[x], scope) for x in ("X", "Y") if x in data}
        found = names["X"].sign(self.signs(data, scope))
        refuse_unless(needed in ("", found) or found == "> 0", f"{data['X']} is not known to be {needed}")
        return self.normal(left, names), self.normal(right, names)

    def follow(self, here: Poly, steps: Sequence[Data], scope: Scope, *, top: bool = True) -> None:  # from a form to 0
        for place, step in enumerate(steps, 1):
            try:
                same = place > 1 and step["before"] == steps[place - 2]["after"]  # as it is written, and so in all
                after = self.here(step["after"], scope)
                refuse_unless(same or self.here(step["before"], scope) == here, "it does not start where another ends")
                if step["rule"] == "multiply":  # what is 0 after multiplication by what is not 0 was 0 before
                    by = self.here(step["by"], scope)
                    fits = top and by * here == after and by.sign(self.signs(step, scope)) in ("> 0", "not 0")
                    refuse_unless(fits, "it may be by 0, or does not end in the product")
                else:
                    changes: list[tuple[Mono, Number]] = []
                    for data in step["instances"]:
                        over = self.sized(data.get("over", []))
                        refuse_unless(scope.keys().isdisjoint(over), "positions of the statement are summed over")
                        left, right = self.sides(step["rule"], data, at := {**scope, **over})
                        changes += (self.here(data.get("times", 1), at) * (left - right)).summed([*over.items()]).terms
                    refuse_unless(total(changes) == here - after, "its instances change something else")
                here = after
            except (Refused, *MALFORMED) as reason:
                raise Refused(f"step {place} ({step['rule']}): {reason!r}") from None
        refuse_unless(here == ZERO, "the last step does not end in 0")

    def _at_least_zero(self, term: Any, claim: Data, scope: Scope) -> bool:
        head, *args = term if isinstance(term, list) else [term]
        if head == "sum":
            return self._at_least_zero(args[1], claim, {**scope, **self.sized(args[0])})
        parts = head in ("+", "*") and all(self._at_least_zero(a, claim, scope) for a in args)
        square = head == "^" and number(args[1]) in map(number, range(0, 99, 2))
        return parts or square or self.here(term, scope).sign(self.signs(claim, scope)) in ("> 0", ">= 0")

    def accept(self, claim: Data) -> None:  # two sides are equal, or the left one is larger by a witness that is >= 0
        witness = {"=": 0, ">=": claim.get("witness")}[claim["says"]]
        refuse_unless(self._at_least_zero(witness, claim, self.scope), "the witness may be negative")
        left, right, more = (self.here(term, self.scope) for term in (claim["left"], claim["right"], witness))
        self.follow(left - right - more, claim["steps"], self.scope)


def check(data: Data) -> str:
    """Nothing if all claims of a statement are proved, else what its proof lacks."""
    try:
        statement = Statement(data)
        refuse_unless(data["claims"], "nothing is claimed")
        for claim in data["claims"]:
            statement.accept(claim)
    except (Refused, *MALFORMED) as reason:
        return repr(reason)
    return ""


def main(paths: Sequence[str]) -> int:
    """Check the statements in files, lists by program; 1 where one is refused, or there is none."""
    found = []
    for path in paths:
        try:
            programs = json.loads(
                Path(path).read_text(encoding="utf-8"),
                object_pairs_hook=lambda p: dict(p) if len(dict(p)) == len(p) else refuse_unless(0, "a key twice"),
            )
            listed = [(f"{program}, {data.get('name')}", data) for program in programs for data in programs[program]]
            found += [(name, check(data)) for name, data in listed if data.get("evidence", "proved") == "proved"]
        except (Refused, OSError, *MALFORMED) as reason:
            found.append((path, repr(reason)))
    lines = [" ".join(f"{name}: {reason}".split()) for name, reason in found if reason]
    told = "\n".join([*lines, f"{len(found) - len(lines)} of {len(found)} proofs accepted"])
    print(told.encode("utf-8", "backslashreplace").decode())
    return int(bool(lines) or not found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
