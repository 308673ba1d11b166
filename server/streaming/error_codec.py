"""Run errors as JSON and back, so that every follower in any process receives the same error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.errors import RagflowLgError, RunError
from ragflow_lg.base.values import JsonValue

__all__ = ["StoredError", "revive_error", "store_error"]

_FIELDS = frozenset({"first", "is_retryable", "limit_s", "node", "problems", "retry_after_s", "target"})
"""The error attributes that are stored; all are plain JSON."""


class StoredError(Struct, frozen=True):
    """An error: the ``code`` of its class, its text and its attributes."""

    code: str
    text: str
    fields: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


def store_error(error: RagflowLgError) -> StoredError:
    """Convert an error to its stored form."""
    return StoredError(error.code, str(error), {key: vars(error)[key] for key in sorted(_FIELDS & vars(error).keys())})


def revive_error(stored: StoredError) -> RagflowLgError:
    """Rebuild the error with its class, text and attributes; an unknown code becomes a RunError."""
    kind = next((kind for kind in _iter_subclasses(RagflowLgError) if kind.code == stored.code), RunError)
    # Bypass __init__, as pickling does: constructors take other arguments than the text.
    error: Any = kind.__new__(kind, stored.text)
    Exception.__init__(error, stored.text)
    fields = {key: value for key, value in stored.fields.items() if key in _FIELDS}
    error.__dict__.update({"node": "", **fields} if issubclass(kind, RunError) else fields)
    return error


def _iter_subclasses(base: type[RagflowLgError]) -> Iterator[type[RagflowLgError]]:
    yield base
    for child in base.__subclasses__():
        yield from _iter_subclasses(child)
