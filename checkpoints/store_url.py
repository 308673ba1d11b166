"""Session store URLs."""

from __future__ import annotations

from pathlib import Path

from ragflow_lg.base.errors import CheckpointError

SENTINEL = "redis+sentinel"

STORE_URLS = (
    "memory://, sqlite:///PATH, redis://HOST:PORT, rediss://HOST:PORT or redis+sentinel://HOST:PORT/SERVICE; "
    "Redis clusters are not supported"
)
"""Supported URLs, for error messages."""

_REDIS = ("redis", "rediss", SENTINEL)


def store_kind(url: str) -> str:
    """Return the kind of store that a URL refers to: ``memory``, ``sqlite`` or ``redis``.

    Raises:
        CheckpointError: if the URL is invalid. The message explains how to write one.
    """
    scheme, separator, rest = url.partition("://")
    problem = f"use {STORE_URLS}."
    if separator and scheme == "memory":
        if not rest:
            return "memory"
        problem = "write memory:// with nothing after it."
    elif separator and scheme == "sqlite":
        if rest.startswith("/") and rest != "/":
            return "sqlite"
        example = rest.strip("/") or "PATH"
        problem = f"it has no file name; write sqlite:///{example}."
        if rest.strip("/"):
            problem = f"write three slashes, sqlite:///{example}, or four for an absolute path."
    elif separator and scheme in _REDIS:
        if rest:
            return "redis"
        problem = f"it has no host; {problem}"
    raise CheckpointError(f"Invalid session store URL {redact_url(url)!r}: {problem}")


def sqlite_path(url: str) -> Path:
    """Return the file that an SQLite URL refers to."""
    return Path(url.partition("://")[2][1:]).expanduser()


def redact_url(url: str) -> str:
    """Return the URL without its password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
