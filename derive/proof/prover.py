"""The prover: it looks for the steps by which the checker sees that two sides are equal for all sizes.

It works on the checker's normal forms. A rule is found where it applies, term by term; every instance is written down
as the checker reads it, and the normal form changes by it. When nothing applies any more and something is left, it is
multiplied by what divides. Whatever this module does wrong, nothing counts as proved that the checker does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

from derive.proof.checker import (
    ONE,
    ZERO,
    Atom,
    Mono,
    Number,
    Poly,
    Refused,
    Scope,
    Statement,
    holds,
    is_gate,
    make,
    number,
    opened,
    part,
    put,
    text,
)

Term = Any
Data = Mapping[str, Any]

ROUNDS = 40
"""How often the rules are tried on a form before the prover gives up; proofs of the catalogue take ten steps."""

MOST_TERMS = 50
"""A form of more terms is left as it is; the catalogue's have up to twelve."""

MOST_POSITIONS = 7
"""A term over more positions is not made: naming those that look alike takes all orders. The catalogue's have five."""

MOST_ANGLES = 4
"""The cosine of a sum of more terms is left as it is: every term doubles the number of products."""


@dataclass(frozen=True)
class Site:
    """A term of a normal form with its summed positions open, under names of their own."""

    scale: Number
    bound: tuple[tuple[str, Poly], ...]
    factors: tuple[tuple[Atom, int], ...]
    scope: Scope

    def without(self, *used: tuple[Atom, int]) -> Poly:
        """What stands beside some of the factors, or some of their powers."""
        taken = dict(used)
        rest = (part(*a) ** (p - taken.get(a, 0)) for a, p in self.factors)
        return reduce(Poly.__mul__, rest, number(self.scale))


@dataclass(frozen=True)
class Found:
    """An instance of a rule at a site: its data, what stands beside it, and the positions that are summed around it.

    sides: the two sides that it puts equal, where they need not be worked out from the data.
    """

    rule: str
    data: Data
    times: Poly
    over: tuple[tuple[str, Poly], ...]
    sides: tuple[Poly, Poly] | None = None


@dataclass(frozen=True)
class Step:
    """Instances of one rule, and the normal form before and after."""

    rule: str
    instances: tuple[Data, ...]
    before: Poly
    after: Poly
    more: Data

    def shifted(self, by: Poly, terms: Terms) -> dict[str, Any]:
        """The step as the checker reads it, of forms less some other."""
        before, after = (terms.of(p - by) for p in (self.before, self.after))
        given = {"instances": list(self.instances)} if self.instances else {}
        return {"rule": self.rule, **given, **self.more, "before": before, "after": after}


class Terms:
    """Normal forms as terms; letters for summed positions by their sizes."""

    def __init__(self, letters: Mapping[str, Sequence[str]], scope: Scope) -> None:
        self.letters, self.scope = letters, scope
        self.known: dict[tuple[Poly, frozenset[str]], Term] = {}

    def letter(self, size: Poly, taken: set[str]) -> str:
        """A letter for a position of some size that is not taken; it is taken then."""
        known = list(self.letters.get(text(size), ())) or ["k"]
        stems = (*known, *(f"{known[0]}{mark}" for mark in ("′", "″", *range(3, len(taken) + 5))))
        found = next(stem for stem in stems if stem not in taken)
        taken.add(found)
        return found

    def of(self, poly: Poly, taken: set[str] | None = None) -> Term:
        """A normal form as a term."""
        key = poly, frozenset(self.scope if taken is None else taken)
        if key not in self.known:
            parts = [self._mono(m, c, set(key[1])) for m, c in sorted(poly.terms, key=_order)]
            self.known[key] = 0 if not parts else parts[0] if len(parts) == 1 else ["+", *parts]
        return self.known[key]

    def _mono(self, mono: Mono, scale: Number, taken: set[str]) -> Term:
        bound, factors = opened(mono)
        names = {("var", x): part("var", self.letter(size, taken)) for x, size in bound}
        placed = [(x.atom[1], self.of(size)) for (_, size), x in zip(bound, names.values(), strict=True)]
        renamed = sorted(((put(a, names).atom, p) for a, p in factors), key=text)
        parts = [self.atom(a, p, taken) for a, p in renamed]
        number_ = [] if scale == 1 and parts else [int(scale) if scale.denominator == 1 else str(scale)]
        body = [*number_, *parts] if not bound else parts
        made = body[0] if len(body) == 1 else ["*", *body]
        if not bound:
            return made
        total = ["sum", [list(p) for p in placed], made]
        return total if scale == 1 else ["*", *number_, total]

    def atom(self, atom: Atom, power: int, taken: set[str]) -> Term:
        """A power of an atom as a term."""
        head, *args = atom
        if head in ("var", "size", "int", "real"):
            made: Term = list(atom)
        elif head == "at":
            made = ["at", args[0], *(self.of(a, taken) for a in args[2:])]
        elif head == "inv":
            return ["^", self.of(args[0], taken), -power]
        elif head == "root":
            return (
                ["^", self.of(args[1], taken), f"{power}/{args[0]}"]
                if power % int(args[0])
                else ["^", ["^", self.of(args[1], taken), f"1/{args[0]}"], power]
            )
        elif head == "delta":
            made = ["delta", *self._sides(args[0], taken)]
        elif head == "if":
            relation, value = args
            made = ["if", [{">=": "<=", ">": "<", "==": "=="}[relation], *self._sides(value, taken)]]
        else:
            made = [head, *(self.of(a, taken) for a in args)]
        return made if power == 1 else ["^", made, power]

    def _sides(self, value: Poly, taken: set[str]) -> tuple[Term, Term]:
        """Two terms whose difference is a value: what is subtracted, and the rest."""
        below = Poly(frozenset((m, -c) for m, c in value.terms if c < 0))
        return self.of(below, taken), self.of(value + below, taken)


def _positions(poly: Poly) -> int:
    """The most positions that one of its terms is summed over."""
    return max((len(bound) for (bound, _), _ in poly.terms), default=0)


def _order(term: tuple[Mono, Number]) -> tuple[bool, str]:
    return term[1] < 0, text(term[0])


Rule = Callable[["Search", Site], Iterator[Found]]


class Search:
    """One search for a proof: a statement, the definitions that may be written out, and letters."""

    def __init__(self, statement: Statement, unfold: Sequence[str], letters: Mapping[str, Sequence[str]]) -> None:
        self.statement, self.unfold = statement, list(unfold)
        self.letters = letters
        self._terms: dict[frozenset[str], Terms] = {}
        self._signs: dict[frozenset[str], dict[Poly, tuple[str, Data]]] = {}
        self._reduced: dict[tuple[Poly, frozenset[str]], tuple[list[Step], Poly]] = {}
        self._sites: dict[tuple[Mono, Number, frozenset[str]], Site] = {}

    def steps(self, start: Poly, scope: Scope) -> list[dict[str, Any]] | None:
        """The steps from a form to 0, or None."""
        done, here = self.reduced(start, scope)
        while here != ZERO:
            more = self._multiplied(here, scope)
            if more is None:
                return None
            reduced, after = self.reduced(more[-1].after, scope)
            if len(done) > ROUNDS or after == here:
                return None
            done, here = [*done, *more, *reduced], after
        terms = self.terms(scope)
        return [step.shifted(ZERO, terms) for step in done]

    def remainder(self, start: Poly, scope: Scope) -> Poly:
        """What is left of a form when no rule applies any more."""
        return self.reduced(start, scope)[1]

    def terms(self, scope: Scope) -> Terms:
        return self._terms.setdefault(frozenset(scope), Terms(self.letters, scope))

    def reduced(self, here: Poly, scope: Scope) -> tuple[list[Step], Poly]:
        """A form rewritten until no rule applies, and the steps; remembered, as a form stands in many terms."""
        key = here, frozenset(scope)
        if key not in self._reduced:
            self._reduced[key] = self._rewritten(here, scope)
        return self._reduced[key]

    def _rewritten(self, here: Poly, scope: Scope) -> tuple[list[Step], Poly]:
        done: list[Step] = []
        for _ in range(ROUNDS):
            before = here
            for rule in RULES:
                while len(done) < ROUNDS and len(here.terms) <= MOST_TERMS:
                    step = self._applied(rule, here, scope)
                    if step is None:
                        break
                    done.append(step)
                    here = step.after
            if here == before:
                break
        return done, here

    def _applied(self, rule: Rule, here: Poly, scope: Scope) -> Step | None:
        """A rule applied once to every term in which it is found."""
        instances, name, after = [], "", here
        for mono, scale in sorted(here.terms, key=_order):
            site = self._site(mono, scale, scope)
            for found in rule(self, site):
                try:
                    scope_here = {**scope, **dict(found.over)}
                    left, right = found.sides or self.statement.sides(found.rule, found.data, scope_here)
                except (Refused, KeyError):
                    continue
                difference = left - right
                if _positions(found.times) + _positions(difference) + len(found.over) > MOST_POSITIONS:
                    continue
                change = (found.times * difference).summed(found.over)
                if change == ZERO or (name and found.rule != name):
                    continue
                name, after = found.rule, after - change
                instances.append(self._data(found, scope))
                break
        return Step(name, tuple(instances), here, after, {}) if instances else None

    def _data(self, found: Found, scope: Scope) -> Data:
        terms = self.terms({**scope, **dict(found.over)})
        over = {"over": [[x, self.terms({}).of(size)] for x, size in found.over]} if found.over else {}
        times = {} if found.times == ONE else {"times": terms.of(found.times)}
        return {**over, **times, **found.data}

    def _site(self, mono: Mono, scale: Number, scope: Scope) -> Site:
        key = mono, scale, frozenset(scope)
        if key not in self._sites:
            self._sites[key] = self._open(mono, scale, scope)
        return self._sites[key]

    def _open(self, mono: Mono, scale: Number, scope: Scope) -> Site:
        bound, factors = opened(mono)
        taken, terms = set(scope), self.terms(scope)
        letters = [(x, terms.letter(size, taken), size) for x, size in bound]
        names = {("var", x): part("var", y) for x, y, _ in letters}
        renamed = sorted(((put(a, names).atom, p) for a, p in factors), key=text)
        own = tuple((y, size) for _, y, size in letters)
        return Site(scale, own, tuple(renamed), {**scope, **dict(own)})

    # What is known of signs.

    def why(self, value: Poly, scope: Scope, *signs: str) -> Data | None:
        """The premises from which a value has one of some signs, as data of a step; None where none is known."""
        if value.sign({}) in signs:
            return {}
        known = self.known(scope)
        if value.sign({v: s for v, (s, _) in known.items()}) not in signs:
            return None
        needed = list(known.items())
        for pair in list(needed):  # those that are not needed are left out, one after another
            fewer = [p for p in needed if p is not pair]
            if value.sign({v: s for v, (s, _) in fewer}) in signs:
                needed = fewer
        return {"because": [use for _, (_, use) in needed]}

    def fits(self, found: Found, scope: Scope, uses: Sequence[Data]) -> bool:
        """Whether the checker takes an instance with some premises."""
        try:
            self.statement.sides(found.rule, {**found.data, "because": uses}, scope)
        except (Refused, LookupError):
            return False
        return True

    def known(self, scope: Scope) -> dict[Poly, tuple[str, Data]]:
        """What the premises say at all positions of a scope."""
        key = frozenset(scope)
        if key not in self._signs:
            found: dict[Poly, tuple[str, Data]] = {}
            for place, premise in enumerate(self.statement.premises):
                if premise["says"] in ("not 0", "> 0", ">= 0"):
                    for given in self._positions(premise.get("for", []), scope):
                        use = {"premise": place, **({"with": given} if given else {})}
                        names = self.statement.chosen(premise, use, scope)
                        found[self.statement.normal(premise["of"], names)] = premise["says"], use
            self._signs[key] = found
        return self._signs[key]

    def _positions(self, where: Sequence[Any], scope: Scope) -> Iterator[dict[str, Term]]:
        """All ways to put positions of a scope where others stand, each of the same size."""
        sizes = [self.statement.sized([(x, size)])[x] for x, size in where]
        fitting = [[["var", y] for y, n in scope.items() if n == size] for size in sizes]
        for chosen in product(*fitting):
            yield dict(zip((x for x, _ in where), chosen, strict=True))

    def why_at_least_zero(self, claim: Data) -> Data:
        """The premises from which the witness of a claim is at least 0, if it has one and needs them."""
        if claim["says"] != ">=":
            return {}
        witness = self.statement.here(claim["witness"], self.statement.scope)
        return self.why(witness, self.statement.scope, "> 0", ">= 0") or {}

    # Dividing.

    def _multiplied(self, here: Poly, scope: Scope) -> list[Step] | None:
        """A form times what divides its terms, and the divisors cancelled; None where nothing divides."""
        for divisor in self._divisors(here, scope):
            why = self.why(divisor, scope, "not 0", "> 0")
            if why is None:
                continue
            most = max(_power_of(m, divisor) for m, _ in here.terms)
            by, terms = divisor**most, self.terms(scope)
            steps = [Step("multiply", (), here, by * here, {"by": terms.of(by), **why})]
            instances, after = [], by * here
            data = {"X": terms.of(divisor), **why}
            left, right = self.statement.sides("x · 1/x", data, scope)
            for mono, scale in sorted(here.terms, key=_order):
                site = self._site(mono, scale, scope)
                inv, have = ("inv", divisor), _power_of(mono, divisor)
                for k in range(have):
                    beside = site.without((inv, k + 1)) * divisor ** (most - 1 - k)
                    after = after - (beside * (left - right)).summed(site.bound)
                    instances.append(self._data(Found("x · 1/x", data, beside, site.bound), scope))
            return [*steps, Step("x · 1/x", tuple(instances), by * here, after, {})]
        return None

    @staticmethod
    def _divisors(here: Poly, scope: Scope) -> list[Poly]:
        """What divides terms and depends on no summed position, the largest first."""
        found: dict[Poly, None] = {}
        for mono, _ in sorted(here.terms, key=_order):
            own = {("var", x) for x, _ in mono[0]}
            for atom, _ in sorted(mono[1], key=text):
                if atom[0] == "inv" and own.isdisjoint(holds(atom)):
                    found.setdefault(atom[1])
        return sorted(found, key=lambda p: (-len(text(p)), text(p)))


def _power_of(mono: Mono, divisor: Poly) -> int:
    return dict(mono[1]).get(("inv", divisor), 0)


# Rules, in the order in which they are tried. Each gives the instances that it finds at a site.


def _definitions(s: Search, site: Site) -> Iterator[Found]:
    for tensor in reversed(s.unfold):
        for atom, _ in site.factors:
            if atom[0] == "at" and atom[1] == tensor:
                terms = s.terms(site.scope)
                data = {"tensor": tensor, "at": [terms.of(a) for a in atom[3:]]}
                yield Found("definition", data, site.without((atom, 1)), site.bound)


def _derivatives(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        if atom[0] == "d":
            terms = s.terms(site.scope)
            data = {"of": terms.of(atom[1]), "by": terms.of(atom[2])}
            yield from _with_reasons(s, Found("derivative", data, site.without((atom, 1)), site.bound), site.scope)


def _with_reasons(s: Search, found: Found, scope: Scope) -> Iterator[Found]:
    """An instance with the premises without which the checker refuses it, if there are such."""
    uses = [use for _, use in s.known(scope).values()]
    if not s.fits(found, scope, uses):
        return
    for use in list(uses):
        fewer = [u for u in uses if u is not use]
        uses = fewer if s.fits(found, scope, fewer) else uses
    yield replace(found, data={**found.data, **({"because": uses} if uses else {})})


def _insides(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        if atom[0] in ("d", "var", "size", "int", "real", "at"):
            continue
        for place, inner in enumerate(atom):
            if not isinstance(inner, Poly):
                continue
            steps, after = s.reduced(inner, site.scope)
            if after != inner:
                terms = s.terms(site.scope)
                data = {
                    "of": terms.of(part(*atom)),
                    "argument": place,
                    "to": terms.of(after),
                    "steps": [step.shifted(after, terms) for step in steps],
                }
                sides = part(*atom), make(*atom[:place], after, *atom[place + 1 :])
                yield Found("inside", data, site.without((atom, 1)), site.bound, sides)


def _exponentials(s: Search, site: Site) -> Iterator[Found]:
    terms = s.terms(site.scope)
    for atom, _ in site.factors:
        if atom[0] != "exp" or not atom[1].terms:
            continue
        (mono, scale), *more = sorted(atom[1].terms, key=_order)
        beside = site.without((atom, 1))
        if more or scale > 1:
            first = Poly(frozenset({(mono, min(scale, Fraction(1)))}))
            data = {"X": terms.of(first), "Y": terms.of(atom[1] - first)}
            yield Found("exp of a sum", data, beside, site.bound)
        elif scale < 0:
            yield Found("exp of a negative", {"X": terms.of(ZERO - atom[1])}, beside, site.bound)
        elif (log := _single(atom[1])) is not None and log[0] == "log":
            why = s.why(log[1], site.scope, "> 0")
            if why is not None:
                yield Found("exp of a log", {"X": terms.of(log[1]), **why}, beside, site.bound)


def _logarithms(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        inner = _single(atom[1]) if atom[0] == "log" else None
        if inner is not None and inner[0] == "exp":
            data = {"X": s.terms(site.scope).of(inner[1])}
            yield Found("log of an exp", data, site.without((atom, 1)), site.bound)


def _angles(s: Search, site: Site) -> Iterator[Found]:
    terms = s.terms(site.scope)
    for atom, power in site.factors:
        if atom[0] not in ("cos", "sin"):
            continue
        (mono, scale), *more = sorted(atom[1].terms, key=_order) or [((), 0)]
        if len(more) >= MOST_ANGLES:
            continue
        if more:
            first = Poly(frozenset({(mono, scale)}))
            data = {"X": terms.of(first), "Y": terms.of(atom[1] - first)}
            yield Found(f"{atom[0]} of a sum", data, site.without((atom, 1)), site.bound)
        elif scale < 0:
            data = {"X": terms.of(ZERO - atom[1])}
            yield Found(f"{atom[0]} of a negative", data, site.without((atom, 1)), site.bound)
        elif atom[0] == "sin" and power > 1:
            yield Found("circle", {"X": terms.of(atom[1])}, site.without((atom, 2)), site.bound)


def _roots(s: Search, site: Site) -> Iterator[Found]:
    terms = s.terms(site.scope)
    for atom, power in site.factors:
        if atom[:2] != ("root", "2"):
            continue
        of = atom[2]
        if power > 1 and (why := s.why(of, site.scope, "> 0", ">= 0")) is not None:
            yield Found("square of a root", {"X": terms.of(of), **why}, site.without((atom, 2)), site.bound)
        common = _common(of)
        for factor, exponent in common:
            one = part(*factor)
            why = s.why(one, site.scope, "> 0")
            if why is None:
                continue
            if exponent > 1 and of == one**2:
                yield Found("root of a square", {"X": terms.of(one), **why}, site.without((atom, 1)), site.bound)
            taken = one**2 if exponent > 1 else one
            rest = _divided(of, factor, 2 if exponent > 1 else 1)
            if rest != ONE:
                data = {"X": terms.of(taken), "Y": terms.of(rest), **why}
                yield Found("root of a product", data, site.without((atom, 1)), site.bound)


def _ranges(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        if atom[:2] == ("if", ">="):
            data = {"of": s.terms(site.scope).of(atom[2]), **(s.why(atom[2], site.scope, "> 0", ">= 0") or {})}
            yield Found("ranges", data, site.without((atom, 1)), site.bound)


def _gates(s: Search, site: Site) -> Iterator[Found]:
    for gate, _ in site.factors:
        beside = [(a, p) for a, p in site.factors if a != gate and gate in holds(a)]
        if is_gate(gate) and beside:
            of = reduce(Poly.__mul__, (part(*a) ** p for a, p in beside), ONE)
            terms = s.terms(site.scope)
            data = {"gate": terms.of(part(*gate)), "of": terms.of(of)}
            yield Found("gate", data, site.without((gate, 1), *beside), site.bound)


def _delta_sums(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        for x, size in site.bound if atom[0] == "delta" else ():
            at = _solved(atom[1], x)
            if at is not None:
                inner = [(a, p) for a, p in site.factors if a != atom and ("var", x) in holds(a)]
                outer = tuple((y, n) for y, n in site.bound if y != x)
                of = reduce(Poly.__mul__, (part(*a) ** p for a, p in inner), ONE)
                around = {y: n for y, n in site.scope.items() if y != x}
                data = {
                    "var": x,
                    "size": s.terms({}).of(size),
                    "at": s.terms(around).of(at),
                    "of": s.terms(site.scope).of(of),
                }
                yield Found("delta_sum", data, site.without((atom, 1), *inner), outer)


def _beside_deltas(s: Search, site: Site) -> Iterator[Found]:
    for atom, _ in site.factors:
        if atom[0] != "delta":
            continue
        names = sorted((a[1] for a in holds(atom) if a[0] == "var" and a[1] in site.scope), reverse=True)
        for x in [x for x in names if _solved(atom[1], x) is not None][:1]:  # one of the two gives way, always the same
            at = _solved(atom[1], x)
            beside = [(a, p) for a, p in site.factors if a != atom and ("var", x) in holds(a)]
            if at is not None and beside:
                of, terms = reduce(Poly.__mul__, (part(*a) ** p for a, p in beside), ONE), s.terms(site.scope)
                data = {"var": x, "at": terms.of(at), "of": terms.of(of)}
                yield Found("delta_beside", data, site.without((atom, 1), *beside), site.bound)


def _premises(s: Search, site: Site) -> Iterator[Found]:
    for place, premise in enumerate(s.statement.premises):
        if premise["says"] != "equal":
            continue
        where = premise.get("for", [])
        holes = {x: part("var", f"~{x}") for x, _ in where}
        pattern = s.statement.normal(premise["left"], holes)
        if len(pattern.terms) != 1:
            continue
        for given, used, gone in _matches(pattern, site, {f"~{x}" for x, _ in where}):
            terms = s.terms({y: n for y, n in site.scope.items() if y not in gone})
            chosen = {x: terms.of(given[f"~{x}"]) for x, _ in where}
            outer = tuple((y, n) for y, n in site.bound if y not in gone)
            data = {"premise": place, **({"with": chosen} if chosen else {})}
            yield Found("premise", data, site.without(*used), outer)


def _cancelled(s: Search, site: Site) -> Iterator[Found]:
    """X · 1/x where all of x stands beside 1/x."""
    for atom, _ in site.factors:
        if atom[0] != "inv" or len(atom[1].terms) != 1:
            continue
        rest = Site(site.scale, site.bound, tuple((a, p) for a, p in site.factors if a != atom), site.scope)
        for _, used, gone in _matches(atom[1], rest, set()):
            outer = tuple((y, n) for y, n in site.bound if y not in gone)
            scope = {y: n for y, n in site.scope.items() if y not in gone}
            why = s.why(atom[1], scope, "not 0", "> 0")
            if why is not None:
                scale = number(1 / Fraction(next(iter(atom[1].terms))[1]))
                data = {"X": s.terms(scope).of(atom[1]), **why}
                yield Found("x · 1/x", data, scale * site.without((atom, 1), *used), outer)


RULES: tuple[Rule, ...] = (
    *(_definitions, _derivatives, _ranges, _delta_sums, _premises, _cancelled, _insides, _exponentials, _logarithms),
    *(_angles, _roots, _gates, _beside_deltas),
)
"""In the order in which they are tried; each takes factors away, or puts simpler ones in their place."""


# Matching.


def _single(poly: Poly) -> Atom | None:
    """The atom that a form is, or None."""
    try:
        return poly.atom
    except Refused:
        return None


def _solved(difference: Poly, x: str) -> Poly | None:
    """The one value of a position at which a difference, linear in it, is 0."""
    here: Atom = ("var", x)
    slope = (difference.put({here: part(*here) + ONE}) - difference).number
    if slope not in (1, -1):
        return None
    rest = difference.put({here: ZERO})
    return None if here in holds(rest) else rest * number(-slope)


def _common(poly: Poly) -> list[tuple[Atom, int]]:
    """The factors that all terms share outside of sums, with their least powers."""
    shared: dict[Atom, int] | None = None
    for (bound, factors), _ in poly.terms:
        own = {a: p for a, p in factors if {("var", x) for x, _ in bound}.isdisjoint(holds(a))}
        shared = own if shared is None else {a: min(p, own[a]) for a, p in shared.items() if a in own}
    return sorted((shared or {}).items(), key=text)


def _divided(poly: Poly, factor: Atom, power: int) -> Poly:
    """A form without some powers of a factor of all its terms."""
    terms = []
    for (bound, factors), scale in poly.terms:
        left = {a: p - power * (a == factor) for a, p in factors}
        terms.append(((bound, frozenset((a, p) for a, p in left.items() if p)), scale))
    return Poly(frozenset(terms))


Match = tuple[dict[str, Poly], list[tuple[Atom, int]], set[str]]
"""What stands for the holes of a pattern, the factors that it takes, and the summed positions that go with them."""


def _matches(pattern: Poly, site: Site, holes: set[str]) -> Iterator[Match]:
    """The ways in which a pattern, one summed product, stands in a site.

    Its summed positions have to be summed in the site, and to stand nowhere else in it.
    """
    ((mono, _),) = pattern.terms
    bound, factors = opened(mono)
    sizes = dict(bound)
    open_names = holes | sizes.keys()
    for names, used in _assigned(sorted(factors, key=text), dict(site.factors), {}, [], open_names):
        if not holes <= names.keys() or not sizes.keys() <= names.keys():
            continue
        gone: dict[str, None] = {}
        for x, size in bound:
            target = _single(names[x])
            own = target[1] if target is not None and target[0] == "var" else ""
            if dict(site.bound).get(own) != size:
                break
            gone[own] = None
        else:
            left = site.without(*used)
            apart = all(("var", x) not in holds(left) for x in gone)
            elsewhere = any(("var", x) in holds(names[h]) for x in gone for h in holes)
            if len(gone) == len(bound) and apart and not elsewhere:
                yield {h: names[h] for h in holes}, used, set(gone)


def _assigned(
    wanted: Sequence[tuple[Atom, int]],
    offered: Mapping[Atom, int],
    names: dict[str, Poly],
    used: list[tuple[Atom, int]],
    holes: set[str],
) -> Iterator[tuple[dict[str, Poly], list[tuple[Atom, int]]]]:
    if not wanted:
        yield names, used
        return
    (atom, power), *rest = wanted
    for other, have in offered.items():
        if have >= power and (more := _unified(atom, other, names, holes)) is not None:
            left = {**offered, other: have - power}
            yield from _assigned(rest, left, more, [*used, (other, power)], holes)


def _unified(atom: Any, other: Any, names: dict[str, Poly], holes: set[str]) -> dict[str, Poly] | None:
    """What holes have to stand for so that an atom is another."""
    if isinstance(atom, Poly):
        single = _single(atom)
        if single is not None and single[0] == "var" and single[1] in holes:
            known = names.get(single[1])
            return {**names, single[1]: other} if known is None else names if known == other else None
        filled = atom.put({("var", x): p for x, p in names.items()})
        if filled == other:
            return names
        inner = _single(other) if isinstance(other, Poly) else None
        return None if single is None or inner is None else _unified(single, inner, names, holes)
    if not isinstance(atom, tuple) or not isinstance(other, tuple) or len(atom) != len(other):
        return names if atom == other else None
    for one, two in zip(atom, other, strict=True):
        found = _unified(one, two, names, holes)
        if found is None:
            return None
        names = found
    return names
