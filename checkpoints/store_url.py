"""Session store URLs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qsl, unquote

from ragflow_lg.base.errors import CheckpointError

SENTINEL = "redis+sentinel"
CLUSTER = "redis+cluster"
CLUSTER_NAME = "ragflow-lg"
"""The name of a deployment in a cluster whose URL has none."""

STORE_URLS = (
    "memory://, sqlite:///PATH, postgresql://HOST:PORT/DATABASE, redis://HOST:PORT, rediss://HOST:PORT, "
    "redis+sentinel://HOST:PORT/SERVICE or redis+cluster://HOST:PORT/NAME"
)
"""Supported URLs, for error messages."""

StoreKind: TypeAlias = Literal["memory", "sqlite", "postgresql", "redis"]

REDIS_SCHEMES = ("redis", "rediss", SENTINEL, CLUSTER)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def store_kind(url: str) -> StoreKind:
    """Return the kind of store that a URL refers to.

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
    elif separator and scheme in (*REDIS_SCHEMES, "postgresql"):
        if rest:
            return "postgresql" if scheme == "postgresql" else "redis"
        problem = f"it has no host; {problem}"
    raise CheckpointError(f"Invalid session store URL {redact_url(url)!r}: {problem}")


def cluster_name(url: str) -> str:
    """Return the name of the deployment in the URL of a cluster, or ``""`` for other URLs.

    Raises:
        ValueError: if the name is invalid.
    """
    scheme, _, rest = url.partition("://")
    if scheme != CLUSTER:
        return ""
    name = rest.rpartition("@")[2].partition("/")[2].rstrip("/") or CLUSTER_NAME
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name {name!r} may have up to 64 letters, digits, dots, hyphens and underscores")
    return name


def key_prefix(url: str, prefix: str) -> str:
    """Return the prefix of all keys of a deployment: in a cluster, it begins with the hash tag of the deployment.

    Raises:
        CheckpointError: if the name of the deployment is invalid.
    """
    try:
        name = cluster_name(url)
    except ValueError as error:
        raise CheckpointError(f"Invalid session store URL {redact_url(url)!r}: {error}.") from None
    return f"{{{name}}}{prefix}" if name else prefix


def sqlite_path(url: str) -> Path:
    """Return the file that an SQLite URL refers to."""
    return Path(url.partition("://")[2][1:]).expanduser()


def redact_url(url: str) -> str:
    """Return the URL without its password, and without its options, which may contain one."""
    scheme, separator, rest = url.partition("://")
    place, _, options = rest.partition("?")
    place = "..." if "@" in options else place.rpartition("@")[2]  # the password may contain a question mark
    return f"{scheme}{separator}{place}"


def find_passwords(url: str) -> list[str]:
    """Return the passwords in a URL: that of its user, and those among its options.

    >>> find_passwords("redis://anna:a%2Fb@host?password=c&db=1")
    ['a/b', 'c']
    """
    place = url.partition("://")[2]
    password = unquote(place.rpartition("@")[0].partition(":")[2])
    return [password, *(value for name, value in parse_qsl(place.partition("?")[2]) if "pass" in name)]
