"""Where a client wants to go on reading."""

from __future__ import annotations

from ragflow_lg.errors import StreamPositionError

__all__ = ["position_of"]

MAX_DIGITS = 15


def position_of(last_event_id: str | None = None, first_event: str | None = None) -> int:
    """Give the number of the event behind which to read, 0 for all.

    ``last_event_id`` is the header ``Last-Event-ID``, the last event that came; ``first_event`` is ``?from=``, the
    first that is wanted. A browser that connects again repeats the URL and adds the header, so the header counts.

    Raises:
        StreamPositionError: if it is no whole number.

    >>> position_of("7"), position_of(None, "7"), position_of("9", "1"), position_of("", None)
    (7, 6, 9, 0)
    """
    if last_event_id:
        return _number(last_event_id, "Last-Event-ID")
    if first_event:
        return max(_number(first_event, "from") - 1, 0)
    return 0


def _number(text: str, name: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise StreamPositionError(f"{name} has to be the number of an event, not {text[:40]!r}.")
    return int(text)
