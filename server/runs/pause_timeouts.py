"""Answers forms that nobody has answered in time, or cancels their turns. Every server looks; one acts on each."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import AnswerError, QuotaError, RagflowLgError, RequestError, SessionBusyError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.base.tasks import running
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.pause_rows import claim, delete_expired, find_due
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.agent_runs import default_answer
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.runs.run_player import is_passing
from ragflow_lg.server.streaming.run_task import CONTINUE

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, PauseTimeoutRow, RunRow
    from ragflow_lg.server.runs.turns import Turns

LOOK_S = 1.0
"""How often a process looks, give or take half of it, so that servers do not look all at once."""
MAX_STARTS = 20
"""How many forms a process works on at the same time."""
CLAIM_MS = 60_000
"""How long another process waits before it tries again what a process has begun, beyond the time to wait for a place.
"""

CANCELLED = "Nobody answered the form in time, so the turn was cancelled."
NO_DEFAULT = "Nobody answered the form in time, and it has no valid default answer, so the turn was cancelled: "
"""Followed by what is wrong with the values of the fields."""

logger = logging.getLogger(__name__)


class PauseTimeouts:
    """Ends the pauses whose time has passed. ``now_ms`` is the clock."""

    def __init__(self, app_state: AppState, turns: Turns, now_ms: Callable[[], int] | None = None) -> None:
        self._app_state = app_state
        self._turns = turns
        self._database = app_state.database
        self._now_ms = now_ms or app_state.now_ms
        self._claim_ms = CLAIM_MS + int(2000 * app_state.settings.server.run_wait_s)
        self._starts: set[asyncio.Task[None]] = set()

    async def look(self) -> bool:
        """Begin with what is due, as far as there is room. Return whether more may be due.

        Raises:
            DatabaseError: If the database fails.
        """
        room = MAX_STARTS - len(self._starts)
        if room <= 0 or self._app_state.run_manager.is_draining:
            return room <= 0
        due = await find_due(self._database, self._now_ms(), room)
        for row in due:
            if await claim(self._database, row, self._now_ms() + self._claim_ms):
                task = asyncio.create_task(self._start(row), name="look after a form that nobody answers")
                self._starts.add(task)
                task.add_done_callback(self._note_end)
        return len(due) == room

    async def wait_for_room(self, timeout_s: float) -> None:
        """Wait until a task that `look` has begun has ended."""
        if self._starts:
            await asyncio.wait(self._starts, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    @asynccontextmanager
    async def looking(self) -> AsyncGenerator[None]:
        """End pauses inside the context. Another process tries again what is stopped at its end."""
        try:
            async with running(self._look_forever, "look for forms that nobody answers"):
                yield
        finally:
            for task in self._starts:
                task.cancel()
            await asyncio.gather(*self._starts, return_exceptions=True)

    async def _look_forever(self) -> None:
        while True:
            has_more = False
            try:
                has_more = await self.look()
            except RagflowLgError as error:
                logger.warning("the database cannot be asked for forms that nobody answers: %s", error)
            pause_s = LOOK_S * random.uniform(0.5, 1.5)
            await (self.wait_for_room(pause_s) if has_more else asyncio.sleep(pause_s))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._starts.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("a form that nobody answers has failed", exc_info=error)

    async def _start(self, row: PauseTimeoutRow) -> None:
        """End a claimed pause. What is not done when the claim ends, a process tries again."""
        with use_notes(RequestNotes(run=row.run_id, session=row.session_id, tenant=row.tenant)):
            try:
                error = await self._end_pause(row)
            except RagflowLgError as failure:
                if is_passing(failure) or _can_be_repeated(failure):
                    logger.warning("the form of run %s is answered later: %s", row.run_id, failure)
                    return
                error = f"The form cannot get its default answer: {failure}"
                logger.error("the form of run %s waits for ever: %s", row.run_id, failure)
            if error is not None:
                await delete_expired(self._database, row, error)

    async def _end_pause(self, row: PauseTimeoutRow) -> str | None:
        """Return the error of the run that waits, or None if another process is about to answer the form.

        A process that died may have answered it before. Then the session no longer waits, or the second answer is
        refused, because it names the pause.
        """
        agent = await AgentRepository(self._database, row.tenant).get(row.agent_id)
        runs = RunRepository(self._database, row.tenant)
        run, newest = await runs.get(row.run_id), await runs.newest(row.session_id)
        if agent is None or run is None or newest is None:
            return ""
        if newest.id != run.id and newest.status == "running" and await self._turns.playing.is_played(newest.id):
            return None  # a client has been faster, and its answer may still wait in the queue
        control = RunControl(self._app_state, self._turns, agent, CONTINUE)
        reason = CANCELLED
        try:
            if await control.state(run) == "waiting" and control.expired_answer == "defaults":
                if not (problem := await self._answer(control, agent, run)):
                    return ""
                reason = NO_DEFAULT + problem
        except RagflowLgError:
            if await control.state(run) == "waiting":
                raise
        if await control.state(run) != "waiting":  # a client has been faster
            return ""
        await control.cancel(run)
        audit("pause.expired", tenant=row.tenant, agent=agent.id, run=run.id, answer="cancel")
        return reason

    async def _answer(self, control: RunControl, agent: AgentRow, run: RunRow) -> str:
        """Answer with the values of the fields. Return what is wrong with them; a required field may have none."""
        runner = await self._turns.runner(agent, await control.session(run.session_id))
        pauses = await runner.pauses(run.session_id)
        answers = {pause.id: default_answer(runner.plan, pause) for pause in pauses}
        try:
            turn = await control.resume(run, answers)
        except AnswerError as error:
            logger.warning("the form of run %s has no default answer: %s", run.id, error)
            return str(error)
        next_run = turn.envelope.message_id
        audit("pause.expired", tenant=agent.tenant, agent=agent.id, run=run.id, answer="defaults", next=next_run)
        return ""


def _can_be_repeated(error: RagflowLgError) -> bool:
    """Return whether the session is in use, or a quota is used up, which may be renewed or raised."""
    is_busy = isinstance(error, RequestError) and error.reason == "session-busy"
    return is_busy or isinstance(error, QuotaError | SessionBusyError)
