"""Row and column conventions: the derivation of a transposed program is the transposed derivation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sympy as sp

from derive.algebra import Entry, Tensor
from derive.algebra.binders import rewrite
from derive.calculus import backward
from derive.forward.program import Definition, Program
from derive.proof.identities.known import Known
from derive.proof.statements import Identity, equation


def transposed(program: Program) -> Program:
    """The same program in the other convention: every matrix is given, and computed, with its axes exchanged."""

    def columns(expr: sp.Expr) -> sp.Expr:
        return rewrite(expr, lambda e: _flipped(e) if isinstance(e, Entry) else e)

    return replace(
        program,
        inputs=tuple(replace(i, tensor=_flipped(i.entry).base, axes=i.axes[::-1], dims=()) for i in program.inputs),
        definitions=tuple(Definition(_flipped(d.target), columns(d.value)) for d in program.definitions),
        outputs=tuple(replace(o, tensor=_flipped(o.entry).base, axes=o.axes[::-1], dims=()) for o in program.outputs),
    )


def _flipped(entry: Entry) -> Entry:
    """X[j, i] of the transposed tensor for X[i, j]."""
    label, shape, *bounds = entry.tensor.args
    flipped: Entry = Tensor(label, sp.Tuple(*shape[::-1]), *bounds)[entry.indices[::-1]]
    return flipped


def transposition_identities(program: Program) -> Iterator[Identity]:
    """Each gradient of the column form, transposed, is that of the row form."""
    rows, columns = Known(program), backward(transposed(program)).derived
    for definition in columns.definitions:
        if definition.name not in rows.backward:
            continue
        row = rows.backward[definition.name]
        value = rewrite(definition.value, lambda e: _flipped(e) if isinstance(e, Entry) else e)
        yield rows.stated(
            equation(
                f"{row.name} in columns is {row.name} in rows",
                value.xreplace(dict(zip(definition.axes[::-1], row.axes, strict=True))),
                row.target,
                (row,),
                setting=f"on the left what the derivation with positions as columns gives, {row.name}ᵀ there",
                relied_on="the matrix guide (rows) and the lecture notes (columns) say one thing",
            )
        )
