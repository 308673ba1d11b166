"""What a store of sessions raises when it fails, told in one way."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.errors import CheckpointError

__all__ = ["plain_reason", "told_plainly"]


@contextmanager
def told_plainly(*errors: type[Exception]) -> Generator[None]:
    """Turn the errors of a client into CheckpointError."""
    try:
        yield
    except errors as error:
        raise CheckpointError(f"The session store fails: {plain_reason(error)}") from error


def plain_reason(error: Exception) -> str:
    """Give the text of an error. That of a Sentinel which finds no master shows Python's objects; they are left out."""
    what, is_long, _ = str(error).partition(" : <redis.")
    return f"{what}: none of its Sentinels answers, or none knows the service" if is_long else str(error)
