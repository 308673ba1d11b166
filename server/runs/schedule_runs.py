"""Starts the turns of schedules. Every server looks for those that are due; one of them starts each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson

from ragflow_lg.base.errors import DatabaseError, RagflowLgError, RequestError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.agents.agent_schedules import find_times
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.due_rows import ScheduleRepository, claim, set_next
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import AgentRow, ScheduleRow
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.due_tasks import DueTasks, is_passing
from ragflow_lg.server.runs.turn_session import hash_request, question_text
from ragflow_lg.server.streaming.run_task import CONTINUE

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest

SCHEDULE_SOURCE = "schedule"
"""The source of sessions that schedules create."""
NEVER_MS = 2**62

logger = logging.getLogger(__name__)


class ScheduleStarts(DueTasks[ScheduleRow]):
    """Starts the turns of schedules that are due."""

    name = "schedule"
    table = ScheduleRow

    async def _claim(self, row: ScheduleRow, until_ms: int) -> bool:
        return await claim(self._database, row, until_ms, self._app_state.new_id())

    async def _start(self, row: ScheduleRow) -> None:
        """Start the run of a claimed schedule, unless a process before has, and set the next time."""
        with use_notes(RequestNotes(run=row.run_id, tenant=row.tenant)):
            error = ""
            try:
                agent = await AgentRepository(self._database, row.tenant).get(row.agent_id)
                if agent is None:
                    await ScheduleRepository(self._database, row.tenant).delete(row.id)
                    return
                run = await RunRepository(self._database, row.tenant).get(row.run_id)
                if run is not None and await self._turns.playing.is_lost(run):
                    await SessionRepository(self._database, row.tenant).delete(agent.id, run.session_id)
                    run = None
                if run is None:
                    await self._begin(agent, row)
            except RagflowLgError as failure:
                if is_passing(failure):
                    logger.warning("schedule %s is tried again later: %s", row.id, failure)
                    return
                error = str(failure)
                logger.warning("schedule %s has started no turn: %s", row.id, error)
            await self._finish(row, error)

    async def _finish(self, row: ScheduleRow, error: str) -> None:
        """Set the next time, after now: starts that were missed are not made up for."""
        claimed_ms = row.due_ms - self._claim_ms  # the clock may have been set back since
        try:
            due_ms = find_times(row.cron, row.time_zone, max(self._now_ms(), claimed_ms))[0]
        except RequestError as failure:  # for example, a zone that this machine does not know
            due_ms, error = NEVER_MS, str(failure)
        try:
            await set_next(self._database, row, due_ms, error)
        except DatabaseError as failure:  # the next process finds the run
            logger.warning("the next time of schedule %s is set later: %s", row.id, failure)

    async def _begin(self, agent: AgentRow, row: ScheduleRow) -> None:
        turns = self._turns
        version = await find_version(self._database, agent, row.version)
        fields = orjson.loads(row.request)
        inputs = {name: {"value": value} for name, value in fields["inputs"].items()}
        request: TurnRequest = {"query": fields["query"], "inputs": inputs, "user_id": agent.tenant}
        name = row.name or fields["query"]
        session = await turns.new_session(agent, version, user_id=agent.tenant, name=name, source=SCHEDULE_SOURCE)
        session_id = session.row.id
        runner = await turns.runner(agent, session.row, version)
        envelope = Envelope(row.run_id, self._app_state.now_ms() // 1000, session_id, session_id)
        run = runner.play(session_id, "start", request, envelope)
        await turns.play(agent, session, run, question_text(request), CONTINUE, hash_request(request))
        audit("schedule.started", tenant=row.tenant, agent=agent.id, schedule=row.id, run=row.run_id)
