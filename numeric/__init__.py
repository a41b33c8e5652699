"""The numeric layer: generated kernels, and the code that runs and checks them.

Importing it and running a kernel loads NumPy and no SymPy.
"""

from numeric.errors import BackendError, InputError, NumericError, UnknownProgramError
from numeric.kernels import Kernel, Result, load, programs

__all__ = [
    "BackendError",
    "InputError",
    "Kernel",
    "NumericError",
    "Result",
    "UnknownProgramError",
    "load",
    "programs",
]
