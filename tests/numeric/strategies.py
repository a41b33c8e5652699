"""Hypothesis draws shapes, options and a seed; arrays come from a generator with that seed."""

from __future__ import annotations

from hypothesis import strategies as st

from numeric.samples import Sample, Values
from numeric.signature import Signature

MAIN_SIZES = st.permutations((3, 4, 5, 6))
"""Pairwise distinct and at least 3, so that swapped axes and degenerate sizes cannot hide a mistake."""


@st.composite
def samples(draw: st.DrawFn, signature: Signature, dtypes: tuple[str, ...]) -> Sample:
    """A sample of a program: any dtype, leading axes, optional inputs, parameters and cotangents."""
    optional = [s.name for s in signature.inputs if s.optional]
    outputs = [o.name for o in signature.outputs]
    parameters = {}
    for spec in signature.parameters:
        value = draw(st.integers(-3, 4) if spec.kind == "integer" else st.sampled_from((0.25, 0.5, 1.5)))
        if draw(st.booleans()):
            parameters[spec.name] = value
    return Sample(
        program=signature.program,
        sizes=dict(zip(signature.sizes, draw(MAIN_SIZES), strict=False)),
        leading=draw(st.sampled_from(((), (2,), (1, 2)))),
        dtype=draw(st.sampled_from(dtypes)),
        seed=draw(st.integers(0, 2**32 - 1)),
        given=tuple(draw(st.lists(st.sampled_from(optional), unique=True))) if optional else (),
        parameters=parameters,
        cotangents=tuple(draw(st.lists(st.sampled_from(outputs), unique=True, min_size=1))),
        values=Values(visible=draw(st.sampled_from((0.3, 0.7))), spread=draw(st.sampled_from((0.1, 1.0, 8.0)))),
    )
