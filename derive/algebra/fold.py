"""Folding: replace sub-expressions by the earlier definitions that they spell out.

Differentiation unfolds a definition at its use; folding puts the name back. It works on the flat
sum-of-products form, where Σ_j dA[i,j]·e^S[i,j]/Z[i] shows A[i,j] although Z stands outside the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sympy as sp

from derive.algebra.axes import Axis, free_axes, is_bound
from derive.algebra.binders import Binder, Total
from derive.algebra.terms import Powers, Term, from_terms, merge, powers_of, terms_of
from derive.memory import remembered

Equation = tuple[sp.Indexed, sp.Expr]
"""A definition as folding sees it: the target entry and its value."""


Pattern = tuple[sp.Indexed, Term]


def fold(expr: sp.Expr, equations: Iterable[Equation]) -> sp.Expr:
    """Write an expression with the names of the given equations wherever their values occur in it."""
    return Equations(equations).fold(expr)


class Equations:
    """Definitions to fold into, found by the tensors that they mention: a fold looks only at what could occur.

    Every replacement puts one name for at least two factors, or for one compound factor, so folding ends;
    it is repeated until nothing changes, because a name may complete the value of another.
    """

    def __init__(self, equations: Iterable[Equation] = ()) -> None:
        self._equations: list[tuple[Equation, frozenset[sp.Basic]]] = []
        self._with: dict[sp.Basic | None, list[int]] = {}
        self._named: dict[sp.Expr, list[sp.Indexed]] = {}
        for target, value in equations:
            self.add(target, value)

    def add(self, target: sp.Indexed, value: sp.Expr) -> None:
        """One more equation, tried after those that are there."""
        self._named.setdefault(value, []).append(target)
        pattern = _pattern(value)
        if pattern is None or not free_axes(target) <= free_axes(from_terms([pattern])):
            return  # Σ_k δ(k, c) is 1: what is left does not say at which c the name is meant
        tensors = frozenset(entry.base for entry in _entries(pattern.powers))
        key = min(tensors, key=lambda t: (len(self._with.get(t, ())), str(t)), default=None)
        self._with.setdefault(key, []).append(len(self._equations))
        self._equations.append(((target, value), tensors))

    def fold(self, expr: sp.Expr) -> sp.Expr:
        """The expression in terms of the equations' names."""
        while (folded := _folded(expr, self._candidates(expr))) != expr:
            expr = folded
        return expr

    def name_of(self, value: sp.Expr) -> sp.Indexed | None:
        """The entry that was defined as exactly this value, over all its axes."""
        named = self._named.get(value, ())
        return next((entry for entry in named if free_axes(entry) == free_axes(value)), None)

    def spelled_in(self, expr: sp.Expr) -> list[str]:
        """The names of the equations whose values occur in an expression as it stands."""
        return [str(e[0].base.name) for e in self._candidates(expr) if Equations([e]).fold(expr) != expr]

    def _candidates(self, expr: sp.Expr) -> tuple[Equation, ...]:
        present = {entry.base for entry in expr.atoms(sp.Indexed)}
        places = sorted(place for key in (*present, None) for place in self._with.get(key, ()))
        return tuple(self._equations[place][0] for place in places if self._equations[place][1] <= present)


@remembered
def _folded(expr: sp.Expr, equations: tuple[Equation, ...]) -> sp.Expr:
    """One pass over an expression; remembered, because derivations of programs that are much alike fold much alike."""
    return _fold_all(expr, [(target, pattern) for target, value in equations if (pattern := _pattern(value))])


@remembered
def _pattern(value: sp.Expr) -> Term | None:
    """A value that is one product of at least two factors, or one compound factor, can be folded."""
    terms = terms_of(value)
    if len(terms) != 1 or not terms[0].powers:
        return None
    only = terms[0]
    plain = len(only.powers) == 1 and not only.bound and isinstance(next(iter(only.powers)), (sp.Indexed, sp.Symbol))
    return None if plain else only


def _fold_all(expr: sp.Expr, patterns: list[Pattern]) -> sp.Expr:
    return from_terms(_fold_term(term, patterns) for term in terms_of(expr))


def _fold_term(term: Term, patterns: list[Pattern]) -> Term:
    for target, pattern in patterns:
        while (folded := _fold_once(term, target, pattern)) is not None:
            term = folded
    powers: Powers = {}
    for base, power in term.powers.items():
        powers = merge(powers, {_fold_inside(base, patterns): power})
    return Term(term.coefficient, powers, term.bound)


def _fold_inside(base: sp.Expr, patterns: list[Pattern]) -> sp.Expr:
    """Fold within the arguments of functions, in divisors and in closed binders, which keep their form.

    Multiplied out, exp(−(X − Z)²/2) would lose all its digits where X and Z are large and close to one another.
    """
    if isinstance(base, (sp.Indexed, sp.Symbol)) or base.is_number:
        return base
    if isinstance(base, Total) and not isinstance(base.body, sp.Add):
        return _fold_as_written(base, patterns)
    if isinstance(base, Binder):
        body, axes = base.open()
        folded = _fold_as_written(body, patterns)
        return base if folded == body else base.func(folded, *axes)
    args = [_fold_as_written(arg, patterns) if isinstance(arg, sp.Expr) else arg for arg in base.args]
    return base.func(*args) if args != list(base.args) else base


def _fold_as_written(expr: sp.Expr, patterns: list[Pattern]) -> sp.Expr:
    """Fold each product of an expression as it stands: nothing is multiplied out."""
    if isinstance(expr, sp.Add):
        return sp.Add(*(_fold_as_written(term, patterns) for term in expr.args))
    product = _as_product(expr)
    folded = _fold_term(product, patterns)
    return expr if folded == product else from_terms([folded])


def _as_product(expr: sp.Expr) -> Term:
    """An expression as one term; only sums of products are opened."""
    product = Term(sp.S.One, {})
    for factor in sp.Mul.make_args(expr):
        if factor.is_Rational:
            product *= Term(factor, {})
        elif isinstance(factor, Total) and not isinstance(factor.body, sp.Add):
            body, axes = factor.open()
            inner = _as_product(body)
            product *= Term(inner.coefficient, inner.powers, (*axes, *inner.bound))
        else:
            product *= Term(sp.S.One, powers_of(factor))
    return product


def _fold_once(term: Term, target: sp.Indexed, pattern: Term) -> Term | None:
    """The term with one instance of the pattern replaced by the target, or None."""
    implied = _implied(term, target, pattern)
    for names in _matches(pattern, term):
        used = pattern.renamed(names)
        if not used.powers.keys() - implied.keys():
            continue  # at these indices the value is 1, or made of 0/1 factors that are there anyway
        bound = {names[axis] for axis in pattern.bound if getattr(names[axis], "size", None) == axis.size}
        rest = _without(merge(term.powers, implied), used.powers)
        if rest is None or not bound <= set(term.bound) or len(bound) < len(pattern.bound):
            continue
        rest = {base: power for base, power in rest.items() if base not in implied or base in term.powers}
        entry = target.xreplace(names)
        if any(bound & free_axes(part) for part in (entry, *(base**power for base, power in rest.items()))):
            continue
        kept = tuple(a for a in term.bound if a not in bound)
        return Term(term.coefficient / used.coefficient, merge(rest, {entry: sp.S.One}), kept)
    return None


def _implied(term: Term, target: sp.Indexed, pattern: Term) -> Powers:
    """The 0/1 factors that entries of the target already hold: where A = M·e/Z stands, M may be used again."""
    implied: Powers = {}
    for entry in term.powers:
        if isinstance(entry, sp.Indexed) and entry.base == target.base:
            names = dict(zip(target.indices, entry.indices, strict=True))
            gates = (base.xreplace(names) for base in pattern.powers if base**2 == base)
            implied |= {gate: sp.S.One for gate in gates if gate not in term.powers}
    return implied


def _without(powers: Powers, used: Powers) -> Powers | None:
    """The powers left when the used ones are divided out, or None where they are not all there."""
    rest = dict(powers)
    for base, power in used.items():
        have = rest.pop(base, None)
        if have is None:
            return None
        if (left := have - power) != 0:
            if not (left.is_number and power.is_number) or left * power < 0:
                return None
            rest[base] = left
    return rest


def _matches(pattern: Term, term: Term) -> Iterator[dict[Axis, Axis]]:
    """Candidate renamings of the pattern's axes, read off entries of the same tensors."""
    wanted = sorted(_entries(pattern.powers), key=sp.default_sort_key)
    offered = sorted(_entries(term.powers), key=sp.default_sort_key)
    axes = set(pattern.bound).union(*map(free_axes, pattern.powers)) if pattern.powers else set()
    seen = []
    for names in _assign(wanted, offered, axes, {}):
        if names not in seen:
            seen.append(names)
            yield names


def _assign(
    wanted: list[sp.Indexed], offered: list[sp.Indexed], axes: set[Axis], names: dict[Axis, Axis]
) -> Iterator[dict[Axis, Axis]]:
    missing = axes - names.keys()
    if not missing:
        yield names
        return
    for entry in wanted:
        if not missing & set(entry.indices):
            continue  # an axis is read off a place where it stands alone; what is computed from it has to agree then
        for other in offered:
            extended = _unify(entry, other, names)
            if extended is not None:
                yield from _assign(wanted, offered, axes, extended)
        return


def _unify(entry: sp.Indexed, other: sp.Indexed, names: dict[Axis, Axis]) -> dict[Axis, Axis] | None:
    if entry.base != other.base:
        return None
    extended = dict(names)
    for index, value in zip(entry.indices, other.indices, strict=True):
        if not isinstance(index, Axis) or is_bound(index):  # bound names are canonical: equal sums, equal names
            if free_axes(index) <= extended.keys() and index.xreplace(extended) != value:
                return None
        elif extended.setdefault(index, value) != value:
            return None
    return extended


def _entries(powers: Powers) -> set[sp.Indexed]:
    """All entries in a product, those under closed sums too."""
    return {entry for base, power in powers.items() for entry in (base**power).atoms(sp.Indexed)}
