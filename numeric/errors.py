"""Errors of the numeric layer: what was given, what was expected, what to do."""


class NumericError(Exception):
    """Base of every error that the numeric layer raises on purpose."""


class UnknownProgramError(NumericError, KeyError):
    """No generated kernel has that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class BackendError(NumericError, RuntimeError):
    """A backend is unknown, not installed, or has no device."""


class InputError(NumericError, ValueError):
    """An input or cotangent has the wrong name, type, dtype or shape."""


class KernelError(NumericError, RuntimeError):
    """A kernel that is examined raises an exception, or returns arrays whose shapes do not fit."""
