"""Documents: a derivation with numbers, as Markdown and as a page, every word of it from the definitions."""

from derive.document.html import to_html
from derive.document.inputs import Inputs, parse_inputs
from derive.document.markdown import to_markdown
from derive.document.model import Document
from derive.document.worked_example import worked_example
from derive.document.write import write_documents, write_programs

__all__ = [
    "Document",
    "Inputs",
    "parse_inputs",
    "to_html",
    "to_markdown",
    "worked_example",
    "write_documents",
    "write_programs",
]
