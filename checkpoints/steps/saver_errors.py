"""What becomes of the exceptions that a LangGraph saver raises if its store fails or its data is damaged."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.checkpoints.failures import store_failure
from ragflow_lg.checkpoints.steps.preconditions import describe_violation

DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions that a saver raises if its stored data was modified by something else."""


class SaverErrors:
    """The exceptions of one backend. They become CheckpointError, or SessionBusyError if the lease has been lost."""

    def __init__(self, kinds: tuple[type[Exception], ...]) -> None:
        """Name the exceptions that the backend raises if its store fails."""
        self.kinds = kinds

    @contextmanager
    def translate(self, participle: str) -> Generator[None]:
        """Raise CheckpointError if the store fails. ``participle`` says what cannot be done: ``read``, ``deleted``."""
        try:
            yield
        except self.kinds as error:
            raise self.describe(participle, error) from error

    @contextmanager
    def translate_read(self) -> Generator[None]:
        """Raise CheckpointError if the store fails, or DamagedSessionError if the data in it is damaged."""
        try:
            yield
        except self.kinds as error:
            raise self.describe("read", error) from error
        except DAMAGE as error:
            text = f"The session is damaged in its store ({type(error).__name__}: {error})."
            raise DamagedSessionError(text) from error

    def describe(self, participle: str, error: Exception) -> CheckpointError:
        """Return the error for the user."""
        return describe_violation(error) or store_failure(f"The session cannot be {participle}", error)
