"""Converts session store errors to CheckpointError. Clients see the messages, so they contain no addresses."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError

_ADDRESS = re.compile(
    r"\(?'?\b(?:\d{1,3}\.){3}\d{1,3}\b'?(?:(?::|, )\d+\)?)?"  # 10.0.0.1:6379, ('10.0.0.1', 6379)
    r"|\[[0-9A-Fa-f:]+\](?::\d+)?"  # [::1]:6379
    r"|(?<= )[\w.-]+:\d{2,5}\b"  # host:6379
)
_WRONG_KIND = ("WRONGTYPE", "wrong Redis type")
"""Parts of Redis's errors for a key whose value has another type."""
_DAMAGED_FILE = ("malformed", "file is not a database")
"""Parts of SQLite's errors for a file that was truncated or overwritten."""

logger = logging.getLogger(__name__)


@contextmanager
def translate_errors(*errors: type[Exception]) -> Generator[None]:
    """Turn the exceptions of a store's client into CheckpointError."""
    try:
        yield
    except errors as error:
        raise store_failure("The session store failed", error) from error


def store_failure(text: str, error: Exception) -> CheckpointError:
    """Return an error with a safe message; the client's full message is logged for operators."""
    logger.info("%s: %s", text, error)
    if any(part in str(error) for part in _WRONG_KIND):
        return DamagedSessionError(f"{text}: something else has replaced a part of it. Delete the session.")
    return CheckpointError(f"{text}: {plain_reason(error)}")


def plain_reason(error: Exception) -> str:
    """Return the reason why a store failed, without addresses.

    If a Sentinel finds no master, redis-py's message contains reprs of Python objects; these are removed.
    """
    reason, has_repr, _ = str(error).partition(" : <redis.")
    if has_repr:
        return f"{reason}: no Sentinel answers, or none knows the service"
    # Checked by name, because redis-py is an optional dependency.
    if isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError":
        return "it did not answer in time."
    if isinstance(error, ConnectionError | socket.gaierror) or type(error).__name__ == "ConnectionError":
        return "it cannot be reached."
    if isinstance(error, OSError) and error.strerror:
        return error.strerror  # without the path
    # PostgreSQL's full message may quote the values of a row.
    message = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    reason = _ADDRESS.sub("…", message)
    if any(part in reason for part in _DAMAGED_FILE):
        return f"its file is damaged ({reason}). `ragflow-lg doctor` shows how to save what can be read."
    return reason
