"""Starts the turns of schedules. Every server looks for those that are due; one of them starts each."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import orjson

from ragflow_lg.base.errors import BusyError, DatabaseError, QuotaError, RagflowLgError, RequestError, StreamError
from ragflow_lg.server.agents.agent_versions import find_version
from ragflow_lg.server.agents.cron_times import find_times
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.schedule_repository import ScheduleRepository, claim, find_due, set_next
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.observability.logs import RequestNotes, use_notes
from ragflow_lg.server.runs.turn_requests import question_text
from ragflow_lg.server.streaming import CONTINUE
from ragflow_lg.wire.wire_events import Envelope

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, ScheduleRow
    from ragflow_lg.server.runs.turns import Turns

SCHEDULE_SOURCE = "schedule"
"""The source of sessions that schedules create."""
LOOK_S = 1.0
"""How often a process looks, give or take half of it, so that servers do not look all at once."""
MAX_STARTS = 20
"""How many turns a process starts at the same time."""
MAX_TENANT_STARTS = 5
"""How many of them may belong to one tenant, because a start may have to wait for a place of its tenant."""
CLAIM_MS = 60_000
"""How long another process waits before it tries again what a process has begun, beyond the time to wait for a place.
"""
NEVER_MS = 2**62

logger = logging.getLogger(__name__)


class ScheduleRuns:
    """The starts of one process. ``now_ms`` is the clock."""

    def __init__(self, app_state: AppState, turns: Turns, now_ms: Callable[[], int] | None = None) -> None:
        self._app_state = app_state
        self._database = app_state.database
        self._turns = turns
        self._now_ms = now_ms or app_state.now_ms
        self._claim_ms = CLAIM_MS + int(2000 * app_state.settings.server.run_wait_s)
        self._starts: dict[asyncio.Task[None], str] = {}
        """The starts in progress, with their tenants."""

    @property
    def starts_in_progress(self) -> int:
        """The number of turns that are being started."""
        return len(self._starts)

    async def look(self) -> bool:
        """Begin to start what is due, as far as there is room. Return whether more may be due.

        Raises:
            DatabaseError: If the database fails.
        """
        room = MAX_STARTS - len(self._starts)
        if room <= 0 or self._app_state.run_manager.is_draining:
            return room <= 0
        counts = Counter(self._starts.values())
        without = [tenant for tenant, count in counts.items() if count >= MAX_TENANT_STARTS]
        due = await find_due(self._database, self._now_ms(), room, without)
        for row in due:
            if counts[row.tenant] >= MAX_TENANT_STARTS:
                continue
            until_ms = self._now_ms() + self._claim_ms
            if await claim(self._database, row, until_ms, self._app_state.new_id()):
                counts[row.tenant] += 1
                task = asyncio.create_task(self._start(row), name="start a schedule")
                self._starts[task] = row.tenant
                task.add_done_callback(self._note_end)
        return len(due) == room or bool(without)

    async def wait_for_room(self, timeout_s: float) -> None:
        """Wait until a start that `look` has begun has ended."""
        if self._starts:
            await asyncio.wait(self._starts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def aclose(self) -> None:
        """Stop what has not been started. Another process tries it again."""
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._starts[task]
        if not task.cancelled() and (error := task.exception()):
            logger.error("a schedule could not be started", exc_info=error)

    async def _start(self, row: ScheduleRow) -> None:
        """Start the run of a claimed schedule, unless a process before has, and set the next time."""
        with use_notes(RequestNotes(run=row.run_id, tenant=row.tenant)):
            error = ""
            try:
                agent = await AgentRepository(self._database, row.tenant).get(row.agent_id)
                if agent is None:
                    await ScheduleRepository(self._database, row.tenant).delete(row.id)
                    return
                if await RunRepository(self._database, row.tenant).get(row.run_id) is None:
                    await self._begin(agent, row)
            except RagflowLgError as failure:
                if _is_passing(failure):
                    logger.warning("schedule %s is tried again later: %s", row.id, failure)
                    return
                error = str(failure)
                logger.warning("schedule %s has started no turn: %s", row.id, error)
            await self._finish(row, error)

    async def _finish(self, row: ScheduleRow, error: str) -> None:
        """Set the next time, after now: starts that were missed are not made up for."""
        try:
            due_ms = find_times(row.cron, row.time_zone, self._now_ms())[0]
        except RequestError as failure:  # for example, a zone that this machine does not know
            due_ms, error = NEVER_MS, str(failure)
        try:
            await set_next(self._database, row, due_ms, error)
        except DatabaseError as failure:  # the next process finds the run
            logger.warning("the next time of schedule %s is set later: %s", row.id, failure)

    async def _begin(self, agent: AgentRow, row: ScheduleRow) -> None:
        turns = self._turns
        version = await find_version(self._database, agent, row.version)
        await turns.canvases.compile(version)  # an invalid canvas must not create a session
        fields = orjson.loads(row.request)
        inputs = {name: {"value": value} for name, value in fields["inputs"].items()}
        request: TurnRequest = {"query": fields["query"], "inputs": inputs, "user_id": agent.tenant}
        name = row.name or fields["query"]
        new = await turns.new_session(agent, version, user_id=agent.tenant, name=name, source=SCHEDULE_SOURCE)
        session_id = new.row.id
        runner = await turns.runner(agent, new.row, version)
        envelope = Envelope(row.run_id, self._app_state.now_ms() // 1000, session_id, session_id)
        run = runner.play(session_id, "start", request, envelope)
        await turns.play(agent, new.row, run, question_text(request), CONTINUE, request, new=new)
        audit("schedule.started", tenant=row.tenant, agent=agent.id, schedule=row.id, run=row.run_id)


def _is_passing(error: RagflowLgError) -> bool:
    """Return whether the same start may succeed soon. A quota of a day, for example, will not."""
    is_busy = isinstance(error, BusyError) and not isinstance(error, QuotaError)
    return is_busy or isinstance(error, DatabaseError | StreamError)


@asynccontextmanager
async def starting_schedules(app_state: AppState, turns: Turns) -> AsyncGenerator[None]:
    """Start the turns of schedules inside the context."""
    runs = ScheduleRuns(app_state, turns)
    task = asyncio.create_task(_look_forever(runs), name="look for schedules")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runs.aclose()


async def _look_forever(runs: ScheduleRuns) -> None:
    while True:
        has_more = False
        try:
            has_more = await runs.look()
        except RagflowLgError as error:
            logger.warning("schedules cannot be read: %s", error)
        pause_s = LOOK_S * random.uniform(0.5, 1.5)
        await (runs.wait_for_room(pause_s) if has_more else asyncio.sleep(pause_s))
