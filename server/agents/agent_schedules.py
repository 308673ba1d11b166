"""Creates schedules, for the native API and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct, field

from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.agents.cron_times import find_times
from ragflow_lg.server.database.schedule_repository import ScheduleRepository
from ragflow_lg.server.database.tables import ScheduleRow
from ragflow_lg.server.observability.audit import audit

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow

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
