"""The worked example: attention forward and backward on small matrices, with every number and its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import get_args

from derive.calculus import backward
from derive.document.example import Example
from derive.document.inputs import checked, default_cotangent
from derive.document.model import Document, paragraph
from derive.document.passes import forward_pass, queries_and_keys, through_softmax, values_and_weights
from derive.document.practice import practice
from derive.document.run import run
from derive.document.summary import in_short, why
from derive.document.working import is_product
from derive.document.wrong import mistakes
from derive.errors import DocumentError
from derive.forward import Program, names
from derive.forward import program as named
from derive.lower.tensorise import Layout

DEFAULT: Mapping[str, Sequence[Sequence[int]]] = {
    "Q": [[1, 1, 1, 1], [1, -1, 0, 0]],
    "K": [[1, 1, 0, 0], [0, 0, 1, -1]],
    "V": [[1, 0], [0, 2]],
    "G": [[1, -1], [0, 1]],
}
"""Two queries and two keys of width 4, so that 1/√d is 1/2, with one row of equal scores."""


def worked_example(
    inputs: Mapping[str, Sequence[Sequence[Fraction | int]]] | None = None,
    notation: Layout = "row",
    program: str = "attention",
    *,
    scale: Fraction | None = None,
) -> Document:
    """Write a program's derivation and what it does to given matrices.

    Parameters
    ----------
    inputs: ``Q``, ``K``, ``V`` and, if wanted, ``G`` (the gradient that arrives for O), a position a row in both
        notations; :data:`DEFAULT` if not given. :func:`derive.document.inputs.parse_inputs` reads them from JSON.
    notation: ``"row"``: positions are rows; ``"column"``: positions are columns.
    program: a program of the catalogue that takes Q, K and V.
    scale: what multiplies the scores; 1/√d if not given.

    Raises
    ------
    DocumentError: the matrices do not fit together or on a page, or the program or notation is not offered.
    """
    if notation not in get_args(Layout):
        raise DocumentError(f"there is no notation {notation!r} for documents; there are {', '.join(get_args(Layout))}")
    source = _program(program)
    given = checked(DEFAULT if inputs is None else inputs, scale)
    matrices = {name: given.matrices[name] for name in "QKV"}
    cotangent = given.matrices.get("G") or default_cotangent(len(matrices["Q"]), len(matrices["V"][0]))
    example = Example(run(backward(source), matrices, cotangent, given.scale), notation, given.scale is None)
    title = source.name.replace("_", " ")
    opening = (
        paragraph(
            f"Everything on this page comes out of the definition of {title}: the formulas are its derivation, "
            "the reasons are the derivation's steps, and the numbers are computed exactly. Only what is shown is "
            r"rounded, to four places: $\approx$ says so, and a rounded number stands for the exact one behind it."
        ),
        paragraph(
            rf"Positions are {example.row}s. $\mathcal L$ is the loss, and its gradient with respect to $X$, "
            r"$\nabla_X\mathcal L$, has the shape of $X$."
        ),
    )
    return Document(
        f"{title.capitalize()}, forward and backward",
        f"{source.summary} Forward and backward on small matrices, with every formula, number and reason.",
        opening,
        (
            in_short(example),
            why(example),
            forward_pass(example),
            values_and_weights(example, given="G" in given.matrices),
            through_softmax(example),
            queries_and_keys(example),
            mistakes(example),
            practice(example),
        ),
    )


def _program(name: str) -> Program:
    """A catalogue program without its optional inputs, if it is attention on Q, K and V."""
    if name in names() and _is_attention(source := named(name).plain()):
        return source
    offered = [known for known in names() if _is_attention(named(known).plain())]
    raise DocumentError(f"there is no worked example of {name!r}: expected one of {', '.join(offered)}")


def _is_attention(source: Program) -> bool:
    inputs = {i.name: len(i.axes) for i in source.inputs}
    defined = {d.name: d for d in source.definitions}
    return inputs == {"Q": 2, "K": 2, "V": 2} and defined.keys() - {"M"} == {"S", "A", "O"} and is_product(defined["S"])
