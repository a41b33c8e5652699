"""Errors of the symbolic layer: one class a stage, all under :class:`DeriveError`."""


class DeriveError(Exception):
    """Base of every error that the symbolic layer raises on purpose."""


class AlgebraError(DeriveError):
    """An expression is outside the algebra: a wrong rank, a size clash, an unknown node."""


class DefinitionError(DeriveError):
    """A forward definition is not well formed; the message points at the definition."""


class DerivationError(DeriveError):
    """A definition cannot be differentiated."""


class LoweringError(DeriveError):
    """A program cannot be scheduled as array code."""


class PrintingError(DeriveError):
    """A printer met a node that an earlier pass should have removed."""


class ProofError(DeriveError):
    """A statement is not of a form that the prover accepts."""


class DocumentError(DeriveError):
    """The user's input for a document is not usable."""
