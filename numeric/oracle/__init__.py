"""The oracle: what a call of a program should give, and how well that can be known.

Everything comes from the forward definitions, evaluated on whole arrays, and the bare chain rule back through them; no
derivation, no schedule and no printer has a part in it. Values are long doubles with an exponent range of their own,
digits on demand, or rigorous balls.

>>> import numpy as np
>>> from numeric.oracle import exact_run, scaled_error
>>> x = np.random.default_rng(0).normal(size=(3, 4))
>>> exact = exact_run("attention", {"Q": x, "K": x, "V": x}, {"O": np.ones((3, 4))})
>>> bool(scaled_error(exact.gradients["Q"].value.astype(float), exact.gradients["Q"]) < 1)
True

Errors are told in units of what rounding alone may do to an entry under a rounding model
(:mod:`numeric.oracle.rounding`): the entry's conditioning, from random perturbations that are carried through both
passes (:mod:`numeric.oracle.units`). Nothing of the formula that is tested enters.

This package loads SymPy, and nothing that runs kernels imports it.
"""

from numeric.oracle.enclosures import BallRun, Enclosure, ball_run, enclosures
from numeric.oracle.labelled import Host
from numeric.oracle.results import Exact, ExactRun, Worst, ratios, scaled_error, together, worst, worst_entry
from numeric.oracle.rounding import DEFAULT, MODELS, Rounding, roundoff, underflow
from numeric.oracle.runs import ORACLE, Oracle, definitions_of, exact_run, pushed_forward

__all__ = [
    "DEFAULT",
    "MODELS",
    "ORACLE",
    "BallRun",
    "Enclosure",
    "Exact",
    "ExactRun",
    "Host",
    "Oracle",
    "Rounding",
    "Worst",
    "ball_run",
    "definitions_of",
    "enclosures",
    "exact_run",
    "pushed_forward",
    "ratios",
    "roundoff",
    "scaled_error",
    "together",
    "underflow",
    "worst",
    "worst_entry",
]
