"""Reverse mode: from a forward program to the program of its cotangents.

For ``Y[y] := f`` the cotangent of each tensor X that f mentions gains

    dX[p] += Σ_y dY[y] · ∂f/∂X[p],

where ∂X[q]/∂X[p] is a product of Kronecker deltas, contracted at once. Sub-expressions that spell an
earlier definition are folded back into its name, what all terms share is factored out, and sums over
fewer axes than their surroundings get a name of their own. Definitions are never expanded, so the
compact form appears by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import sympy as sp

from derive.algebra import (
    Axis,
    Delta,
    Entry,
    Tensor,
    Total,
    canonical,
    compacted,
    equal,
    factor_common,
    free_axes,
    fresh,
    from_terms,
    is_bound,
    terms_of,
)
from derive.algebra.fold import Equations
from derive.calculus.flow import Flow
from derive.calculus.partials import partials_of
from derive.calculus.parts import name_parts
from derive.calculus.rules import Rule, reason_for_reduction, rule_for
from derive.calculus.steps import Derivation, Step, marked
from derive.calculus.unseen import guarded
from derive.forward.naming import unused
from derive.forward.program import Definition, Input, Output, Program, unfolded
from derive.memory import remembered


def backward(program: Program) -> Derivation:
    """Derive the cotangents of all differentiable inputs from the cotangents of the outputs.

    The derived program's inputs are the cotangents ``dO`` of the outputs, each optional (missing
    means zero), and the forward tensors that the gradients use. Its outputs are ``dX`` for every
    differentiable input X, in the order in which the inputs were declared.

    Raises
    ------
    DerivationError: where a definition holds something that has no derivative.
    """
    return _Reverse(name_parts(program)).derive()


class _Reverse:
    """The state of one derivation: cotangents gathered so far, definitions and steps made so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.axes: dict[str, tuple[Axis, ...]] = {i.name: i.axes for i in program.inputs}
        self.axes |= {d.name: d.axes for d in program.definitions}
        self.flow = Flow(program)
        self.names = marked(program, "d")
        self.cotangents = {name: Tensor(self.names[name], *axes) for name, axes in self.axes.items()}
        self.equations = Equations((d.target, d.value) for d in program.definitions)
        self.known = {d.target.base: d for d in program.definitions}
        self.unnamed: dict[Tensor, Definition] = {}
        self.gathered: dict[str, list[sp.Expr]] = {}
        self.pending: dict[str, list[Step]] = {}
        self.definitions: list[Definition] = []
        self.defined: set[Tensor] = set()
        self.steps: list[Step] = []
        self.seeds: list[Input] = []
        self.reductions: list[tuple[Entry, sp.Expr]] = []

    def derive(self) -> Derivation:
        for output in self.program.outputs:
            self._seed(output)
        for definition in reversed(self.program.definitions):
            if definition.name in self.gathered:
                self._define_cotangent(definition.name)
            if self._has_cotangent(definition.name):
                for tensor in self.flow.mentioned[definition.name]:
                    self._differentiate(definition, tensor, self.axes[str(tensor.name)])
            for name in self.flow.first_used_in(definition.name):
                if name in self.gathered:
                    self._define_cotangent(name)
        for given in self.program.inputs:
            target = self.cotangents[given.name][given.axes]
            if given.differentiable and not self._is_defined(target.tensor):
                self._define(target, sp.S.Zero)  # no output depends on this input
        return Derivation(self.program, self._program(), tuple(self.steps), self.names)

    def _seed(self, output: Output) -> None:
        """The cotangent of an output is an input; where the program also uses the output, it is one term of a sum."""
        tensor = self.cotangents[output.name]
        self.seeds.append(Input(tensor, output.axes, f"cotangent of {output.name}", 0, output.dims))
        if any(d.mentions(output.tensor) for d in self.program.definitions):
            taken = self.program.names | set(self.names.values())
            entry, total = tensor[output.axes], Tensor(unused(f"{tensor.name}_total", taken), *output.axes)
            self.cotangents[output.name] = total
            self.gathered[output.name] = [entry]
            rule = Rule("output", f"{output.name} is an output, so its own cotangent is one of the terms")
            source = self.program.definition(output.name)
            self.pending[output.name] = [_step(rule, total[output.axes], entry, entry, source)]

    def _is_defined(self, cotangent: Tensor) -> bool:
        return cotangent in self.defined

    def _has_cotangent(self, name: str) -> bool:
        tensor = self.cotangents[name]
        return tensor in self.unnamed or self._is_defined(tensor) or any(s.tensor == tensor for s in self.seeds)

    def _differentiate(self, definition: Definition, tensor: Tensor, axes: tuple[Axis, ...]) -> None:
        """Add what one definition contributes to the cotangent of a tensor it mentions."""
        name = str(tensor.name)
        cotangent = self.cotangents[definition.name]
        raw, contracted = _contribution(self.program.name, definition, cotangent, tensor, axes)
        if contracted == 0:
            return
        rule = rule_for(definition, tensor, self.program)
        target = self.cotangents[name][axes]
        self.pending.setdefault(name, []).append(_step(rule, target, raw, contracted, definition))
        self.gathered.setdefault(name, []).append(contracted)

    def _define_cotangent(self, name: str) -> None:
        """Close a cotangent: sum its contributions, fold, factor, and name inner reductions."""
        contributions = self.gathered.pop(name)
        target = self.cotangents[name][self.axes[name]]
        self.steps += self.pending.pop(name, [])
        total = sp.Add(*contributions)
        if len(contributions) > 1:
            reason = f"{name} is used in {len(contributions)} places, and the cotangents of all uses add up"
            self.steps.append(_step(Rule("sum over uses", reason), target, total, total))
        total = self._written_out(total, target)
        folded = self.equations.fold(total)
        if folded != total:
            multiplied = Rule("multiply out", "products over sums are multiplied out")
            rule = multiplied if equal(total, folded) else self._folding(total)
            self.steps.append(_step(rule, target, total, folded))
        for vanishing, summed in self._vanishing(folded):
            rest = from_terms(terms_of(folded.xreplace({vanishing: sp.S.Zero})))
            rule = Rule("vanishing sum", f"{summed} is centred: by its definition it sums to 0")
            self.steps.append(_step(rule, target, folded, rest))
            folded = rest
        compact = compacted(folded)
        if compact != folded:
            whole = compact == factor_common(folded)
            reason = "every term has this factor in common" if whole else "some terms have a factor in common"
            self.steps.append(_step(Rule("factor", reason), target, folded, compact))
        seen = guarded(compact, self.known)
        if seen != compact:
            reason = "a row that sees nothing is 0, also where its divisor is 0"
            self.steps.append(_step(Rule("nothing seen", reason), target, compact, seen))
            compact = seen
        if name in self.flow.unnamed:
            self.unnamed[target.base] = Definition(target, compact)
        else:
            self._define(target, self._name_reductions(compact, target))

    def _written_out(self, total: sp.Expr, target: Entry) -> sp.Expr:
        """The value with the cotangents of statistics and shifts in place of their names."""
        used = [self.unnamed[t] for t in {e.base for e in total.atoms(Entry)} if t in self.unnamed]
        if not used:
            return total
        written = from_terms(terms_of(unfolded(total, used)))
        names = ", ".join(sorted(d.name for d in used))
        reason = f"{names} is used here alone, so it is written out: it meets factors with which it is shorter"
        self.steps.append(_step(Rule("write out", reason), target, total, written))
        return written

    def _vanishing(self, value: sp.Expr) -> Iterator[tuple[Total, str]]:
        """The sums in a value that are 0 by definition, such as Σ (x − mean), and what they sum.

        One that depends on the axis of a sum around it is not taken out of that.
        """
        whole = (total for total in value.atoms(Total) if not any(map(is_bound, free_axes(total))))
        for total in sorted(whole, key=sp.default_sort_key):
            body, axes = total.open()
            if isinstance(body, Entry) and self._sums_to_zero(body, axes):
                yield total, str(body.tensor.name)

    def _sums_to_zero(self, entry: Entry, axes: tuple[Axis, ...]) -> bool:
        """Whether a sum vanishes once the shifts and statistics that the entry is made of are written out."""
        own = {str(entry.tensor.name), *self.flow.unnamed}
        known = [d for d in self.program.definitions if d.name in own]
        value: sp.Expr = entry
        while (written_out := unfolded(value, known)) != value:
            value = written_out
            if canonical(Total(value, *axes)) == 0:
                return True
        return False

    def _folding(self, total: sp.Expr) -> Rule:
        back = self.equations.spelled_in(total)
        return Rule("fold", f"what spells {', '.join(back)} is written by name again")

    def _name_reductions(self, value: sp.Expr, target: Entry) -> sp.Expr:
        """Name what a value holds over fewer axes than its target: an inner sum, with all that is added to it.

        A·(dA − Σ_j A·dA + dL) becomes A·(dA − r) with r = Σ_j A·dA − dL: one number a row, computed once.
        """
        if isinstance(value, sp.Add):
            return sp.Add(*(self._name_reductions(term, target) for term in value.args))
        if not isinstance(value, sp.Mul):
            return value
        own = set(target.indices)

        def named(reduced: sp.Expr) -> sp.Expr:
            axes = tuple(a for a in target.indices if a in free_axes(reduced))
            return self._reduction(reduced, axes)

        def inner(factor: sp.Expr) -> sp.Expr:
            if not isinstance(factor, sp.Add):
                return named(factor) if isinstance(factor, Total) and free_axes(factor) < own else factor
            factor = rest = self._with_known_reductions(factor)
            if not isinstance(factor, sp.Add):
                return factor
            for part in factor.args:
                axes = free_axes(part)
                if part.has(Total) and axes < own and part in sp.Add.make_args(rest):
                    group = sp.Add(*(p for p in sp.Add.make_args(rest) if free_axes(p) == axes))
                    sign = -1 if part.could_extract_minus_sign() else 1
                    rest = rest - group + sign * named(sp.expand(sign * group))
            return self._name_reductions(rest, target)

        totals = [f for f in value.args if isinstance(f, Total) and free_axes(f) < own]
        scalars = [f for f in value.args if not f.is_number and not f.atoms(Entry, Total)]
        if scalars and totals:  # a mean has one name: its sum with what it is divided by
            rest = [f for f in value.args if f not in scalars and f is not totals[0]]
            return sp.Mul(named(sp.Mul(*scalars, totals[0])), *map(inner, rest))
        return sp.Mul(*map(inner, value.args))

    def _with_known_reductions(self, total: sp.Expr) -> sp.Expr:
        """A sum with the names of reductions for those of its terms that make one up, or the negative of one."""
        for entry, value in self.reductions:
            for sign in (1, -1):
                terms = {sign * term for term in sp.Add.make_args(value)}
                if terms <= set(sp.Add.make_args(total)):
                    total = total - sign * value + sign * entry
        return total

    def _reduction(self, value: sp.Expr, axes: tuple[Axis, ...]) -> Entry:
        """The name of a reduced value, defined on first use."""
        known = self.equations.name_of(value)
        if isinstance(known, Entry):
            return known
        taken = self.program.names | set(self.names.values()) | {str(t.name) for t in self.defined}
        entry = Tensor(unused("r", taken), *axes)[axes]
        rule = Rule("name a reduction", reason_for_reduction(axes, self.program))
        self.steps.append(_step(rule, entry, value, value))
        self._define(entry, value)
        self.reductions.append((entry, value))
        return entry

    def _define(self, target: Entry, value: sp.Expr) -> None:
        self.definitions.append(Definition(target, value))
        self.defined.add(target.base)
        self.equations.add(target, value)

    def _program(self) -> Program:
        """The backward program, with the forward tensors that it uses as further inputs."""
        defined = {d.target.base for d in self.definitions}
        used = {e.base for d in self.definitions for e in d.value.atoms(Entry)} - defined
        forward = [i for i in self.program.inputs if i.tensor in used]
        kept = [d.as_input() for d in self.program.definitions]
        inputs = (*self.seeds, *forward, *(i for i in kept if i.tensor in used))
        outputs = tuple(
            Output(self.cotangents[i.name], i.axes, f"gradient with respect to {i.name}", dims=i.dims)
            for i in self.program.inputs
            if self.cotangents[i.name] in defined
        )
        return Program(
            f"{self.program.name}_backward",
            f"Gradients of {self.program.name}, derived from its definitions.",
            inputs,
            self.program.parameters,
            tuple(self.definitions),
            outputs,
            self.program.axis_meaning,
            self.program.writing,
        )


@remembered
def _contribution(
    program: str, definition: Definition, cotangent: Tensor, tensor: Tensor, axes: tuple[Axis, ...]
) -> tuple[sp.Expr, sp.Expr]:
    """What a definition adds to the cotangent of a tensor: as the chain rule gives it, and with deltas contracted.

    Remembered, because nothing else of the program counts: programs that differ in one definition share the rest.
    """
    own = tuple(fresh(a) for a in definition.axes)
    raw, contracted = sp.S.Zero, sp.S.Zero
    for part in partials_of(program, definition, own, tensor):
        deltas = [Delta(p, q) for p, q in zip(axes, part.indices, strict=True)]
        piece = Total(sp.Mul(cotangent[own], part.weight, *deltas), *own, *part.bound)
        raw += piece
        contracted += from_terms(terms_of(piece))
    return raw, contracted


def _step(rule: Rule, target: Entry, before: sp.Expr, after: sp.Expr, *forward: Definition) -> Step:
    return Step(str(target.tensor.name), rule.name, target, before, after, rule.reason, forward)
