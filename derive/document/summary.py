"""The short answer, and why it holds: formulas and reasons straight from the derivation."""

from __future__ import annotations

import sympy as sp

from derive.calculus import Step
from derive.document.evidence import proved, proved_with_masks
from derive.document.example import Example
from derive.document.model import Line, Section, Work, line, paragraph, points
from derive.forward.program import unfolded

LONGEST_STEP = 150
"""Characters of LaTeX beyond which a step is told by its reason alone."""


def in_short(example: Example) -> Section:
    """All formulas, each with its shape, and what they have in common."""
    forward = [line(example.equation(d), _shape(example, d.name)) for d in example.forward.definitions]
    backward = [line(example.equation(d), _shape(example, d.name)) for d in example.backward.definitions]
    arrives = f"{example.name('dO')} = {_plain(example, 'dO')}"
    if example.name("dO") == _plain(example, "dO"):
        arrives = example.name("dO")
    return Section(
        "In short",
        (
            paragraph(f"The forward pass, with a {example.row} for every position:"),
            Work(tuple(forward)),
            paragraph(f"On the way back ${arrives}$ arrives, with the shape of $O$. Then"),
            Work(tuple(backward)),
            points(*_facts(example)),
        ),
    )


def why(example: Example) -> Section:
    """Every step of the derivation with its reason, and what the softmax's invariance means."""
    steps = example.run.derivation.steps
    shift = proved(example, "shift invariance")
    proved(example, "score gradients sum to zero")
    dS, r = example.name("dS"), example.name("r")
    A = example.definition("A").target

    def weights(side: sp.Expr) -> str:
        return example.writer.value(A, unfolded(side, shift.unfold))

    return Section(
        "Why it works",
        (
            paragraph(
                "Each gradient is the chain rule applied to one definition of the forward pass. "
                "These are the steps of the derivation, in its own order."
            ),
            Work(tuple(_step(example, s) for s in steps)),
            paragraph(
                f"The softmax costs one number for each query: with ${r}$ in hand, no Jacobian of keys by keys is ever "
                "written down. And a softmax does not notice when all scores of a query move by the same amount:"
            ),
            Work((line(f"{weights(shift.left)} = {weights(shift.right)}"),)),
            paragraph(
                "A direction that changes nothing carries no gradient, which is why the numbers of "
                f"every {example.row} of ${dS}$ cancel."
            ),
        ),
    )


def _facts(example: Example) -> list[str]:
    proved(example, "score gradients sum to zero")
    proved_with_masks(example, "a hidden score has gradient zero")
    scale = next(p for p in example.forward.parameters if p.name == "scale")
    scaled = [d for d in example.backward.definitions if d.value.has(scale.symbol)]
    names = " and ".join(f"${example.name(d.name)}$" for d in scaled)
    factor = f"${example.parameter('scale')}$"
    return [
        f"Every {example.row} of ${example.name('dS')}$ sums to 0. This is proved for all sizes: "
        "a kernel that breaks it is wrong.",
        "A score that a mask hides has weight 0, and its gradient is exactly 0.",
        f"The factor {factor} stands in {names}, and in no other gradient.",
    ]


def _shape(example: Example, name: str) -> str:
    """What a formula's result looks like."""
    definition = example.definition(name)
    shape = example.shape(definition)
    if len(definition.axes) == 1:
        return f"${definition.axes[0].size}$ numbers, one for each of the {_meaning(example, name)}."
    return f"${shape}$, as ${example.name(name[1:])}$." if name.startswith("d") else f"${shape}$."


def _meaning(example: Example, name: str) -> str:
    axis = example.definition(name).axes[0]
    return example.forward.axis_meaning.get(axis.name, str(axis.name))


def _step(example: Example, step: Step) -> Line:
    left, after = example.writer.left(step.target), example.writer.value(step.target, step.after)
    label, reason = step.rule.capitalize(), example.reason(step)
    if not step.forward:
        return line(f"{left} = {after}", reason, label=label)
    before = "; ".join(example.equation(d) for d in step.forward)
    whole = rf"{before} \quad\Longrightarrow\quad {left} = {after}"
    # The raw derivative of a softmax is spelled with exponentials; the fold after it says the same by name.
    return line(whole if len(whole) <= LONGEST_STEP else before, reason, label=label)


def _plain(example: Example, tensor: str) -> str:
    return example.writer.plain_name(tensor)
