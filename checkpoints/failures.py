"""What a store of sessions raises when it fails, told in one way: without addresses, as clients read it, too."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.base.errors import CheckpointError

__all__ = ["plain_reason", "store_failure", "told_plainly"]

_ADDRESSES = re.compile(
    r"\(?'?\b(?:\d{1,3}\.){3}\d{1,3}\b'?(?:(?::|, )\d+\)?)?"  # 10.0.0.1:6379, ('10.0.0.1', 6379)
    r"|\[[0-9A-Fa-f:]+\](?::\d+)?"  # [::1]:6379
    r"|(?<= )[\w.-]+:\d{2,5}\b"  # host:6379
)

logger = logging.getLogger(__name__)


@contextmanager
def told_plainly(*errors: type[Exception]) -> Generator[None]:
    """Turn the errors of a client into CheckpointError."""
    try:
        yield
    except errors as error:
        raise store_failure("The session store fails", error) from error


def store_failure(what: str, error: Exception) -> CheckpointError:
    """Give the error that says what cannot be done; the log has all that the client of the store says."""
    logger.warning("%s: %s", what, error)
    return CheckpointError(f"{what}: {plain_reason(error)}")


def plain_reason(error: Exception) -> str:
    """Say why a store fails, without an address.

    The text of a Sentinel which finds no master shows Python's objects, too; they are left out.
    """
    what, is_long, _ = str(error).partition(" : <redis.")
    if is_long:
        return f"{what}: none of its Sentinels answers, or none knows the service"
    # By name: the client of Redis is an extra.
    if isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError":
        return "it did not answer in time."
    if isinstance(error, ConnectionError | socket.gaierror) or type(error).__name__ == "ConnectionError":
        return "it cannot be reached."
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # not the path that it may name
    return _ADDRESSES.sub("…", str(error))
