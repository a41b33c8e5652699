"""A proof line by line, as people read it: what is left after every step, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from derive.proof.rules import RULES
from derive.proof.text import written

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A line of a proof: what is equal to the line before it, and why; deeper lines are about a function's argument.

    sign: "" for what is to be shown 0, "=" for what a step makes of it, "0 where" for what a factor is put before.
    """

    depth: int
    sign: str
    text: str
    why: str = ""


def lines(statement: Data) -> Iterator[Line]:
    """The lines of a proved statement, claim after claim; each claim begins with what has to be 0."""
    for claim in statement["claims"]:
        steps = claim.get("steps", ())
        start = steps[0]["before"] if steps else ["+", claim["left"], ["*", -1, claim["right"]]]
        yield Line(0, "", written(start))
        if not steps:
            yield Line(0, "=", "0", "both sides have one normal form")
        yield from _lines(steps, statement, 0)


def _lines(steps: Sequence[Data], statement: Data, depth: int) -> Iterator[Line]:
    for step in steps:
        for instance in step.get("instances", ()):
            if step["rule"] == "inside":
                yield Line(depth + 1, "", written(instance["steps"][0]["before"]))
                yield from _lines(instance["steps"], statement, depth + 1)
        reasons = dict.fromkeys(_reason(step, instance, statement) for instance in step.get("instances", ({},)))
        yield Line(depth, "0 where" if step["rule"] == "multiply" else "=", written(step["after"]), "; ".join(reasons))


def _reason(step: Data, instance: Data, statement: Data) -> str:
    """A rule's title, with what it was used of."""
    rule = step["rule"]
    title = RULES[rule].title
    if rule == "multiply":
        return f"multiplied by {written(step['by'])}, which is not 0{_because(step, statement)}"
    if rule == "definition":
        return f"definition of {instance['tensor']}"
    if rule == "premise":
        return str(statement["premises"][instance["premise"]]["name"])
    if rule == "delta_sum":
        return f"{title}: {instance['var']} is {written(instance['at'])}"
    if rule == "delta_beside":
        return f"{title}: {instance['var']} is {written(instance['at'])}"
    if rule == "gate":
        return f"{written(instance['gate'])} is 0 or 1"
    if rule == "ranges":
        return f"{written(['if', ['<=', 0, instance['of']]])} is decided by ranges"
    if rule == "inside":
        return f"inside of {written(instance['of'])}"
    if "X" in instance:
        return f"{title}, X being {written(instance['X'])}{_because(instance, statement)}"
    return title


def _because(data: Data, statement: Data) -> str:
    names = dict.fromkeys(statement["premises"][use["premise"]]["name"] for use in data.get("because", ()))
    return f" ({'; '.join(names)})" if names else ""
