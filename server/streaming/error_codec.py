"""Errors of runs as JSON, and back, so that every follower gets the same one wherever it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.errors import RagflowLgError, RunError
from ragflow_lg.base.values import JsonValue

__all__ = ["StoredError", "revive_error", "store_error"]

_FIELDS = frozenset({"first", "is_retryable", "limit_s", "node", "problems", "retry_after_s", "target"})
"""Attributes of our errors that are kept; all plain JSON."""


class StoredError(Struct, frozen=True):
    """An error: the ``code`` of its class, its text, its attributes."""

    code: str
    text: str
    fields: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


def store_error(error: RagflowLgError) -> StoredError:
    """Give what is kept of an error."""
    return StoredError(error.code, str(error), {key: vars(error)[key] for key in sorted(_FIELDS & vars(error).keys())})


def revive_error(stored: StoredError) -> RagflowLgError:
    """Make the error anew: of the same class, with the same text and attributes; RunError for an unknown code."""
    kind = next((kind for kind in _tree(RagflowLgError) if kind.code == stored.code), RunError)
    # As pickling does: constructors take other things than the text.
    made: Any = kind.__new__(kind, stored.text)
    Exception.__init__(made, stored.text)
    given = {key: value for key, value in stored.fields.items() if key in _FIELDS}
    made.__dict__.update({"node": "", **given} if issubclass(kind, RunError) else given)
    return made


def _tree(base: type[RagflowLgError]) -> Iterator[type[RagflowLgError]]:
    yield base
    for child in base.__subclasses__():
        yield from _tree(child)
