"""Facts about the current request, available to everything that the request starts.

Log lines, audit lines and error messages name the request and its tenant. The event loop of a server finds the tenant
of a call here, so that tenants take turns.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import Context, ContextVar

from msgspec import Struct

from ragflow_lg.base.shared_resources import is_undelayed


class RequestNotes(Struct):
    """Facts about the current request, which its run keeps after the request has ended."""

    request_id: str = ""
    address: str = ""
    tenant: str = ""
    key: str = ""
    """The id of the API key, not the key itself."""
    session: str = ""
    run: str = ""
    queue: str = ""
    """Whose calls the event loop queues this request with until its tenant is known; ``""`` for nobody's."""


_NOTES: ContextVar[RequestNotes | None] = ContextVar("request_notes", default=None)


def current_notes() -> RequestNotes:
    """Return the current request's notes. Outside of requests, return new empty notes that are never read."""
    return _NOTES.get() or RequestNotes()


def find_tenant(context: Context | None) -> str:
    """Return the tenant of the request in a context, or in the current one; ``""`` if there is none.

    Until a request is authenticated, it is the tenant that has used its key before, or else its address.
    """
    notes = _NOTES.get() if context is None else context.get(_NOTES)
    return "" if notes is None or is_undelayed(context) else notes.tenant or notes.queue


def request_context() -> Context:
    """Return a new context that contains the current request's notes, and nothing else."""
    context, notes = Context(), _NOTES.get()
    if notes is not None:
        context.run(_NOTES.set, notes)
    return context


def use_notes(notes: RequestNotes) -> AbstractContextManager[None]:
    """Attribute all log lines in the block to a request."""
    return _Use(notes)


class _Use(AbstractContextManager[None]):
    """A block of `use_notes`. Every open stream keeps one, and a generator takes more memory."""

    __slots__ = ("_notes", "_token")

    def __init__(self, notes: RequestNotes) -> None:
        self._notes = notes

    def __enter__(self) -> None:
        """Begin the block."""
        self._token = _NOTES.set(self._notes)

    def __exit__(self, *error: object) -> None:
        """End the block."""
        _NOTES.reset(self._token)
