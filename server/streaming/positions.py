"""Where a client wants to go on reading."""

from __future__ import annotations

from ragflow_lg.base.errors import StreamPositionError

__all__ = ["event_id", "parse_event_position", "parse_event_number"]

MAX_DIGITS = 15


def parse_event_number(last_event_id: str | None = None, first_event: str | None = None) -> int:
    """Give the number of the event behind which to read, 0 for all.

    ``last_event_id`` is the header ``Last-Event-ID``, the last event that came; ``first_event`` is ``?from=``, the
    first that is wanted. A browser that connects again repeats the URL and adds the header, so the header counts.

    Raises:
        StreamPositionError: if it is no whole number.

    >>> parse_event_number("7"), parse_event_number(None, "7"), parse_event_number("9", "1"), parse_event_number("")
    (7, 6, 9, 0)
    """
    if last_event_id:
        return _number(last_event_id, "Last-Event-ID")
    if first_event:
        return max(_number(first_event, "from") - 1, 0)
    return 0


def event_id(run_id: str, number: int) -> str:
    """Name an event so that whoever comes back with the name alone can be told what follows.

    >>> event_id("5f0c", 7)
    '5f0c:7'
    """
    return f"{run_id}:{number}"


def parse_event_position(
    last_event_id: str | None, first_event: str | None = None, run_id: str = ""
) -> tuple[str, int]:
    """Give the run and the number of the event behind which to read; no run if none is named.

    A ``Last-Event-ID`` may name the run with the number, as `event_id` does; one without goes with ``run_id``.

    Raises:
        StreamPositionError: if it is no place, or a number comes without a run.

    >>> parse_event_position("5f0c:7"), parse_event_position(None, "3", "5f0c"), parse_event_position(None)
    (('5f0c', 7), ('5f0c', 2), ('', 0))
    """
    named, colon, number = (last_event_id or "").strip().rpartition(":")
    if colon:
        return named, parse_event_number(number or "?")
    after = parse_event_number(last_event_id, first_event)
    if (last_event_id or first_event) and not run_id:
        raise StreamPositionError(
            "It is not said of which run. Send the id of the last event as it came, RUN:NUMBER, or add run_id."
        )
    return run_id, after


def _number(text: str, name: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise StreamPositionError(f"{name} has to be the number of an event, not {text[:40]!r}.")
    return int(text)
