"""What is refused before it is shown or written: a derivation that its own checks refute.

Each check shares nothing with what it holds a derivation against: the bare chain rule knows no rule of the compact
form, dual numbers know no reverse mode, and the definitions know no schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from derive.calculus import Derivation, backward
from derive.errors import AlgebraError, ProofError
from derive.forward.program import Program
from derive.lower import Kernel
from derive.proof.checks import (
    compacting_changed_nothing,
    forward_mode_agrees,
    schedule_differs,
    tangents_agree,
)

Check = tuple[str, Callable[[], list[str]]]
"""What a derivation is held against, in words, and where it differs from that."""


def vet(source: Program, mode: str, derivation: Derivation, kernel: Kernel | None = None) -> list[str]:
    """Hold what was derived from a program in a mode against its definitions, at random points.

    Parameters
    ----------
    source: the program; its gradients are held against it first where the mode goes on from them.
    mode: "backward" or one of :data:`derive.modes.MODES`.
    derivation: what :func:`derive.modes.derivation_in` gives for them.
    kernel: the schedule that a module is printed from, where one is.

    Returns
    -------
    What could not be asked, and why: a program need not have a random point at which all of it is defined.

    Raises
    ------
    ProofError: a check refutes the derivation.
    """
    asked = list(_checks(derivation, mode))
    if mode in ("double-backward", "hessian-vector"):
        asked = [*_checks(backward(source), "backward"), *asked]
    if kernel is not None:
        asked.append(("the definitions, in the order of generated code", partial(schedule_differs, kernel)))
    left_open = []
    for against, differences in asked:
        try:
            wrong = differences()
        except ProofError:
            raise
        except AlgebraError as reason:
            left_open.append(f"{source.name}: not held against {against}: {reason}")
            continue
        if wrong:
            raise ProofError(
                f"{source.name}: what was derived is wrong: at a random point {', '.join(wrong)} differs from "
                f"{against}. The fault is backprove's, not the definitions': please report them. Nothing was written"
            )
    return left_open


def _checks(derivation: Derivation, mode: str) -> Iterator[Check]:
    if mode in ("tangent", "hessian-vector"):
        yield "dual numbers", partial(tangents_agree, derivation)
        return
    if not derivation.derived.outputs:
        return
    yield "the bare chain rule", partial(compacting_changed_nothing, derivation)
    yield "dual numbers", lambda: [] if forward_mode_agrees(derivation) else ["the gradient along a random tangent"]
