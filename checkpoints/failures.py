"""What a store of sessions raises when it fails, told in one way."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.errors import CheckpointError

__all__ = ["told_plainly"]


@contextmanager
def told_plainly(*errors: type[Exception]) -> Generator[None]:
    """Turn the errors of a client into CheckpointError."""
    try:
        yield
    except errors as error:
        raise CheckpointError(f"The session store fails: {error}") from error
