"""The border with database drivers, which raise exceptions of any class."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.base.errors import RagflowLgError


class DriverError(Exception):
    """An exception of a driver, or of SQLAlchemy: ``original``."""

    def __init__(self, original: Exception) -> None:
        super().__init__(str(original))
        self.original = original


@contextmanager
def converting_errors() -> Generator[None]:
    """Convert a driver's exceptions to `DriverError`. For odd answers, drivers raise even UnboundLocalError."""
    try:
        yield
    except (RagflowLgError, DriverError):
        raise
    except Exception as error:
        raise DriverError(error) from error
