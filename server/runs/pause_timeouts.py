"""Answers forms that nobody has answered in time, or cancels their turns. Every server looks; one acts on each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import AnswerError, QuotaError, RagflowLgError, RequestError, SessionBusyError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.due_rows import change_due_row, delete_expired
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import PauseTimeoutRow
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.agent_runs import default_answer
from ragflow_lg.server.runs.due_tasks import DueTasks, is_passing
from ragflow_lg.server.runs.run_control import RunControl
from ragflow_lg.server.streaming.run_task import CONTINUE

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import AgentRow, RunRow

CANCELLED = "Nobody answered the form in time, so the turn was cancelled."
NO_DEFAULT = "Nobody answered the form in time, and it has no valid default answer, so the turn was cancelled: "
"""Followed by what is wrong with the values of the fields."""

logger = logging.getLogger(__name__)


class PauseTimeouts(DueTasks[PauseTimeoutRow]):
    """Ends the pauses whose time has passed."""

    name = "form that nobody answers"
    table = PauseTimeoutRow

    async def _claim(self, row: PauseTimeoutRow, until_ms: int) -> bool:
        return await change_due_row(self._database, row, due_ms=until_ms)

    async def _start(self, row: PauseTimeoutRow) -> None:
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
