"""Forward definitions: what a user writes, and all that a user writes. A family a file."""

from derive.forward.builder import Builder
from derive.forward.catalogue import from_file, names, program
from derive.forward.program import Definition, Input, Output, Parameter, Program, Writing

__all__ = [
    "Builder",
    "Definition",
    "Input",
    "Output",
    "Parameter",
    "Program",
    "Writing",
    "from_file",
    "names",
    "program",
]
