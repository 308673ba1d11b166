"""Facts about the current request, available to everything that the request starts.

Log lines, audit lines and error messages name the request and its tenant.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar

from msgspec import Struct


class RequestNotes(Struct):
    """Facts about the current request, which its run keeps after the request has ended."""

    request_id: str = ""
    address: str = ""
    tenant: str = ""
    key: str = ""
    """The id of the API key, not the key itself."""
    visitor: str = ""
    """The visitor of an embedded page, or ``""``."""
    session: str = ""
    run: str = ""
    ragflow: str = ""
    """The version of RAGFlow whose responses the client gets; ``""`` if its API is not used."""
    has_ragflow: bool = False
    """Whether the request or its key names that version, so that no canvas chooses another one."""
    is_openai: bool = False
    """Whether the client expects OpenAI's form of errors, although the path is not OpenAI's."""
    request_key: str = ""
    """The hash of its ``Idempotency-Key``, or ``""``."""
    request_hash: str = ""
    """The hash of what was sent with that key."""


_NOTES: ContextVar[RequestNotes | None] = ContextVar("request_notes", default=None)


def current_notes() -> RequestNotes:
    """Return the current request's notes. Outside of requests, return new empty notes that are never read."""
    return _NOTES.get() or RequestNotes()


def request_context() -> Context:
    """Return a new context that contains the current request's notes, and nothing else."""
    context, notes = Context(), _NOTES.get()
    if notes is not None:
        context.run(_NOTES.set, notes)
    return context


@contextmanager
def use_notes(notes: RequestNotes) -> Generator[None]:
    """Attribute all log lines in the block to a request."""
    token = _NOTES.set(notes)
    try:
        yield
    finally:
        _NOTES.reset(token)
