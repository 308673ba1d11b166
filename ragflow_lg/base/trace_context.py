"""Which trace the work at hand belongs to, for requests that leave: W3C's ``traceparent``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["current_traceparent", "use_traceparent"]

_TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")


def current_traceparent() -> str:
    """Give the header of the trace at hand, ``""`` if there is none."""
    return _TRACEPARENT.get()


@contextmanager
def use_traceparent(header: str) -> Generator[None]:
    """Let requests that leave meanwhile belong to a trace, also those of tasks that begin meanwhile.

    >>> with tracing_as("00-aa-bb-01"):
    ...     traceparent()
    '00-aa-bb-01'
    """
    token = _TRACEPARENT.set(header)
    try:
        yield
    finally:
        _TRACEPARENT.reset(token)
