"""Schedules: the times of a cron expression in a time zone, and their creation for the native API and the command."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import orjson
from cronsim import CronSim, CronSimError
from msgspec import Struct, field

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.database.due_rows import ScheduleRepository
from ragflow_lg.server.database.tables import CRON_CHARS, TIME_ZONE_CHARS, ScheduleRow
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow


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


SHOWN_TIMES = 3
"""How many of the next times are shown."""


class NewSchedule(Struct, frozen=True):
    """When turns start, and with what. ``version`` is as in `find_version`."""

    cron: str
    time_zone: str = "UTC"
    query: str = ""
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    version: str = ""


async def create_schedule(database: Database, agent: AgentRow, id_: str, new: NewSchedule, now_ms: int) -> ScheduleRow:
    """Store a schedule of an agent. The caller has checked the quota.

    Raises:
        RequestError: If the cron expression or the time zone is invalid, or there is no such version.
    """
    cron = " ".join(new.cron.split())
    due_ms = find_times(cron, new.time_zone, now_ms)[0]
    if new.version:
        await find_version(database, agent, new.version)
    row = ScheduleRow(
        id=id_,
        agent_id=agent.id,
        cron=cron,
        time_zone=new.time_zone,
        name=new.name,
        version=new.version,
        request=orjson.dumps({"query": new.query, "inputs": new.inputs}).decode(),
        due_ms=due_ms,
        create_ms=now_ms,
    )
    await ScheduleRepository(database, agent.tenant).add(row)
    audit("schedule.created", tenant=agent.tenant, agent=agent.id, schedule=id_)
    return row


async def delete_schedule(database: Database, tenant: str, schedule_id: str, agent_id: str = "") -> bool:
    """Delete a schedule, of an agent if one is given. Return whether it existed."""
    is_deleted = await ScheduleRepository(database, tenant).delete(schedule_id, agent_id)
    if is_deleted:
        audit("schedule.deleted", tenant=tenant, schedule=schedule_id)
    return is_deleted


def find_next_times(row: ScheduleRow, now_ms: int, count: int = SHOWN_TIMES) -> list[int]:
    """Return the next times of a schedule, in epoch milliseconds. They begin with one that is overdue.

    Raises:
        RequestError: If this machine does not know the time zone.
    """
    times = find_times(row.cron, row.time_zone, now_ms, count)
    is_overdue = row.due_ms <= now_ms or bool(row.run_id)
    return [row.due_ms, *times][:count] if is_overdue else times
