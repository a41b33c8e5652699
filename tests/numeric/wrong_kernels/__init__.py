"""Kernels as people write them, right and wrong: each wrong one passes somebody's tests.

A kernel is a class with a ``forward`` and a ``backward`` in NumPy; a wrong one overrides the step at which its author
went wrong, and its docstring says what he did. :data:`WRONG` and :data:`RIGHT` hold them all.
"""

from tests.numeric.wrong_kernels import attention, calls, heads, layers, masks, tiles
from tests.numeric.wrong_kernels.written import Written

_MODULES = (tiles, attention, masks, heads, layers, calls)

WRONG: tuple[type[Written], ...] = tuple(kernel for module in _MODULES for kernel in module.WRONG)

RIGHT: tuple[type[Written], ...] = tuple(kernel for module in _MODULES for kernel in module.RIGHT)
