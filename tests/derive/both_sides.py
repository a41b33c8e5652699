"""Both sides of a statement in numbers, by the exact interpreter: a judge that shares nothing with the prover."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

from derive.algebra import Axis, Entry, Tensor, free_axes
from derive.calculus import backward
from derive.forward import Definition, Input, Output, Program
from derive.proof import Decimals, interpret
from derive.proof.statements import Claim, Identity, spelled

SIZES = {"n": 3, "m": 4, "d": 2, "d_v": 5}


def sides(claim: Claim, identity: Identity, source: Program) -> tuple[list[Any], list[Any]]:
    """Both sides of a claim in numbers, from the definitions of a program and of its gradients.

    Definitions that the identity unfolds take the place of those of the same name; tensors that nobody
    defines are given at random; every query sees the first key.
    """
    ordered = {d.name: d for d in source.definitions}
    ordered |= {d.name: d for d in identity.unfold if d.name not in ordered and not d.name.startswith(("d", "r"))}
    ordered |= {d.name: d for d in backward(source.returning("O")).derived.definitions}
    ordered |= {d.name: d for d in identity.unfold}
    left, right = (spelled(side, tuple(ordered.values())) for side in (claim.left, claim.right))
    axes = tuple(sorted(free_axes(left) | free_axes(right), key=str))
    both = [Definition(Tensor(n, *axes)[axes], x) for n, x in (("left", left), ("right", right))]
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
