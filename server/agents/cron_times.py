"""The times that a cron expression stands for, in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tables import CRON_CHARS, TIME_ZONE_CHARS

_FIELDS = 5

_RANGES = {
    "Bad minute": "the minute is a number from 0 to 59",
    "Bad hour": "the hour is a number from 0 to 23",
    "Bad day-of-month": "the day of the month is a number from 1 to 31, L or LW",
    "Bad month": "the month is a number from 1 to 12, or JAN to DEC",
    "Bad day-of-week": "the day of the week is a number from 0 to 7, or MON to SUN",
}
"""What a field may contain, by CronSim's error."""


def find_times(cron: str, time_zone: str, after_ms: int, count: int = 1) -> list[int]:
    """Return the next times after a time, in epoch milliseconds: up to ``count``, fewer if there are no more.

    When clocks go forward, a time that does not exist becomes the first one after the gap; when they go back, a time
    that exists twice counts once. Expressions with ``*`` or ``*/N`` as minute or hour follow elapsed time instead.

    Raises:
        RequestError: If the expression or the time zone is invalid, or the expression stands for no time.

    >>> find_times("0 9 * * MON", "UTC", 0)
    [378000000]
    """
    zone = find_zone(time_zone)
    parts = cron.split()
    if len(cron) > CRON_CHARS or len(parts) != _FIELDS or not cron.isascii():
        fields = "minute, hour, day of the month, month, day of the week"
        raise _invalid(cron, f"write five fields ({fields}), such as '0 9 * * MON' for Mondays at nine")
    try:
        times = (
            round(time.timestamp() * 1000) for time in CronSim(cron, datetime.fromtimestamp(after_ms / 1000, zone))
        )
        # In the second of two hours with the same name, CronSim begins with what has been in the first one.
        found = list(islice((time_ms for time_ms in times if time_ms > after_ms), count))
    except CronSimError as error:
        reason = str(error).rstrip(".")
        raise _invalid(cron, _RANGES.get(reason, reason)) from None
    except OverflowError:
        found = []
    if not found:
        raise _invalid(cron, "it stands for no time in the next 50 years")
    return found


def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name in the IANA database.

    Raises:
        RequestError: If there is no such zone.
    """
    if name == "UTC":
        return UTC
    try:
        if len(name) <= TIME_ZONE_CHARS:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a missing zone, a path, a folder
        pass
    text = f"There is no time zone {name[:TIME_ZONE_CHARS]!r}; use a name such as 'Europe/Berlin' or 'UTC'."
    raise RequestError(text, 101, status=422)


def format_times(times_ms: list[int], time_zone: str) -> list[str]:
    """Return times as people of a zone write them, with the offset from UTC."""
    zone = find_zone(time_zone)
    return [f"{datetime.fromtimestamp(time_ms / 1000, zone):%a %Y-%m-%d %H:%M %z}" for time_ms in times_ms]


def _invalid(cron: str, reason: str) -> RequestError:
    return RequestError(f"The cron expression {cron[:CRON_CHARS]!r} is invalid: {reason}.", 101, status=422)
