"""URLs of session stores: which kinds there are, and what is wrong with one that names none."""

from __future__ import annotations

from pathlib import Path

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.redis.redis_url import SENTINEL, shown_url

__all__ = ["KINDS", "sqlite_path", "store_kind"]

KINDS = (
    "memory://, sqlite:///PATH, redis://HOST:PORT, rediss://HOST:PORT or redis+sentinel://HOST:PORT/SERVICE; "
    "Redis clusters are not supported"
)
"""What may be given, for people."""

_REDIS = ("redis", "rediss", SENTINEL)


def store_kind(url: str) -> str:
    """Give what a URL names: ``memory``, ``sqlite`` or ``redis``.

    Raises:
        CheckpointError: if it names no store; the text says how to write one.
    """
    scheme, separator, rest = url.partition("://")
    problem = f"give {KINDS}."
    if separator and scheme == "memory":
        if not rest:
            return "memory"
        problem = "write memory:// with nothing behind it."
    elif separator and scheme == "sqlite":
        if rest.startswith("/") and rest != "/":
            return "sqlite"
        example = rest.strip("/") or "PATH"
        problem = f"it names no file; write sqlite:///{example}."
        if rest.strip("/"):
            problem = f"write three slashes, sqlite:///{example}, or four before a path from the root."
    elif separator and scheme in _REDIS:
        if rest:
            return "redis"
        problem = f"it names no server; {problem}"
    raise CheckpointError(f"There is no session store {shown_url(url)!r}: {problem}")


def sqlite_path(url: str) -> Path:
    """Give the file that a URL of SQLite names."""
    return Path(url.partition("://")[2][1:]).expanduser()
