"""The W3C trace context (``traceparent``) for outgoing requests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")


def current_traceparent() -> str:
    """Return the current trace's ``traceparent`` header, or ``""`` outside a trace."""
    return _TRACEPARENT.get()


@contextmanager
def use_traceparent(header: str) -> Generator[None]:
    """Set the trace for outgoing requests inside the block, including requests from tasks started there.

    >>> with use_traceparent("00-aa-bb-01"):
    ...     current_traceparent()
    '00-aa-bb-01'
    """
    token = _TRACEPARENT.set(header)
    try:
        yield
    finally:
        _TRACEPARENT.reset(token)
