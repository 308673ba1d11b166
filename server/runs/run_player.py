"""Starts runs, or continues what other processes have left of them."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import (
    BusyError,
    CompileError,
    RagflowLgError,
    RequestError,
    SettingsError,
    StreamError,
    StreamUnknownError,
)
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.checkpoints.records.leases import parse_owner
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.runs.wire.wire_events import AnswerText, Envelope, UserInputs, WorkflowFinished
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import OPEN
from ragflow_lg.server.runs.continuation import Continuation, EndedRun, play_new
from ragflow_lg.server.runs.due_tasks import is_passing
from ragflow_lg.server.streaming.event_codec import LOST, RunEnd, encode_entry, store_error
from ragflow_lg.server.streaming.journal import LEFT, QUEUED, RunHead
from ragflow_lg.server.streaming.new_run import NewRun, decode_run
from ragflow_lg.server.streaming.run_task import interruption_error
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import RunRow
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.server.streaming.run_queue import RunQueue

FREE_S = 60.0
"""How long to wait for a stopped process's session; longer than its lease."""
FREE_LOOK_S = 0.1
PAUSE_S = 0.5
"""How long a worker waits before it gives a run back that it could not play."""

UNPLAYABLE = (
    "The run cannot be played: its session or agent has been deleted, or it cannot be continued. "
    "The log of the workers says more."
)

_GOES_ON = "run %s goes on here: %s %s"
logger = logging.getLogger(__name__)


class RunPlayer:
    """Plays the runs of the queue, and those that an earlier process has left."""

    def __init__(self, app_state: AppState, turns: Turns, queue: RunQueue | None = None) -> None:
        self._app_state = app_state
        self._queue = queue
        self._turns = turns
        self._playing = turns.playing

    async def play(self, run_id: str) -> bool:
        """Play a run. Return whether it is over; if not, another worker continues it.

        Raises:
            StreamError: If Redis fails.
        """
        if self._queue is None or (data := await self._queue.read(run_id)) is None:
            return True
        with use_notes(RequestNotes(run=run_id)):
            return await self._play_data(run_id, data)

    async def _play_data(self, run_id: str, data: bytes) -> bool:
        try:
            new = decode_run(data, run_id, self._app_state.store.keys)
        except StreamError as error:
            return await self._refuse(run_id, f"{error}. Servers and workers must have the same version.")
        with use_notes(RequestNotes(run=run_id, session=new.envelope.session_id, tenant=new.tenant)):
            try:
                is_over = await self._play(new)
            except RagflowLgError as error:
                if isinstance(error, CompileError | RequestError | SettingsError) and not is_passing(error):
                    return await self._refuse(run_id, str(error))
                logger.warning("run %s could not be played here: %s", run_id, error)
                await asyncio.sleep(PAUSE_S)
                return False
            if is_over:
                await self._playing.forget(run_id, new.tenant, new.page_key)
            return is_over

    async def announce(self, row: RunRow) -> bool:
        """Create the stream of a run that an earlier process of this server has left, if a step of it is stored.

        Its followers, and clients that repeat its request, then wait until it is continued. Return whether it is there.

        Raises:
            RagflowLgError: If a store fails.
        """
        newest = await newest_run(self._app_state.store, row.session_id)
        if newest is None or newest.run_id != row.id:
            return False
        envelope = Envelope(row.id, row.start_ms // 1000, row.session_id, row.session_id)
        head = RunHead(envelope, LEFT, row.tenant, takeovers=row.restarts)
        await self._app_state.run_manager.journal.begin(head, is_elsewhere=True)
        return True

    async def can_restart(self, row: RunRow) -> bool:
        """Return whether an announced run can be continued. Wait for its session.

        Only its row and what the session store has are left of it: without a step, nothing is known of the request.

        Raises:
            RagflowLgError: If that cannot be found out, or the session does not become free.
        """
        await self._wait_until_free(row.session_id)
        fresh = await RunRepository(self._app_state.database, row.tenant).get(row.id)
        newest = await newest_run(self._app_state.store, row.session_id)
        return fresh is not None and fresh.status in OPEN and newest is not None and newest.run_id == row.id

    async def restart(self, row: RunRow) -> None:
        """Continue such a run to its end. Followers of the earlier process cannot go on where they were.

        Raises:
            RagflowLgError: If that is not possible.
        """
        head, asked = await self._app_state.run_manager.head(row.id), (row.asked or None, row.start_ms)
        new = NewRun(head.envelope, row.tenant, row.agent_id, "continue", {}, *asked, page_key=row.page_key)
        with use_notes(RequestNotes(run=row.id, session=row.session_id, tenant=row.tenant)):
            await self._start(new, head, has_died=True)
            await self._app_state.run_manager.wait(row.id)

    async def give_up(self, row: RunRow) -> None:
        """End the stream of an announced run that is not continued, if nobody else has."""
        run_manager = self._app_state.run_manager
        if (await run_manager.head(row.id)).player == LEFT:
            end = RunEnd("drained", store_error(interruption_error(row.id)), LEFT)
            await run_manager.journal.append(row.id, [encode_entry(end)], is_last=True)

    async def _refuse(self, run_id: str, error: str) -> bool:
        """End a run that cannot be played, unless another process plays it. Return whether it is over."""
        run_manager = self._app_state.run_manager
        logger.error("run %s cannot be played: %s", run_id, error)
        try:
            head, end = await run_manager.head(run_id), await run_manager.read_end(run_id)
            if await self._is_elsewhere(head, end):
                await asyncio.sleep(PAUSE_S)
                return False
            row = await RunRepository(self._app_state.database, head.owner).get(run_id)
            if end is None or end.is_interruption:
                new = NewRun(head.envelope, head.owner, "")
                await self._playing.end_unplayed(new, head.player, "failed", f"The run cannot be played: {error}")
            await self._playing.forget(run_id, head.owner, row.page_key if row is not None else "")
        except StreamUnknownError as failure:  # its stream has expired, which also named its owner
            logger.warning("run %s is removed: %s", run_id, failure)
            await self._playing.forget(run_id, "")
        except RagflowLgError as failure:
            logger.warning("run %s cannot be ended: %s", run_id, failure)
            await asyncio.sleep(PAUSE_S)
            return False
        return True

    async def _is_elsewhere(self, head: RunHead, end: RunEnd | None) -> bool:
        """Return whether another process that is alive plays a run."""
        run_manager = self._app_state.run_manager
        is_elsewhere = end is None and head.player not in (QUEUED, run_manager.player)
        return is_elsewhere and await run_manager.is_alive(head.player)

    async def _play(self, new: NewRun) -> bool:
        run_id, run_manager = new.envelope.message_id, self._app_state.run_manager
        head, end = await run_manager.head(run_id), await run_manager.read_end(run_id)
        if run_manager.is_draining:
            return False
        if end is not None and not end.is_interruption:
            return True
        if not run_manager.has(run_id):
            if await self._is_elsewhere(head, end):
                await asyncio.sleep(PAUSE_S)  # its worker was only slow to report, or it was sent twice
                return False
            is_left = end is None or end.status == LOST or end.player != head.player
            await self._start(new, head, has_died=head.player != QUEUED and is_left)
        await run_manager.wait(run_id)
        end = await run_manager.read_end(run_id)  # a run that was stopped at once is cancelled, but not over
        return end is not None and not end.is_interruption

    async def _start(self, new: NewRun, head: RunHead, *, has_died: bool) -> None:
        """Start or continue a run, or only end it."""
        app_state, run_id = self._app_state, head.run_id
        row = await RunRepository(app_state.database, new.tenant).get(run_id)
        session = await SessionRepository(app_state.database, new.tenant).get(new.envelope.session_id)
        agent = await AgentRepository(app_state.database, new.tenant).get(new.agent_id)
        if row is None or session is None or agent is None:
            return await self._end(new, head, "failed", UNPLAYABLE)
        is_new, takeovers = head.player == QUEUED, head.takeovers + has_died
        if (is_new or has_died) and await self._is_over(row, is_new=is_new):
            is_silent = row.status == "cancelled" or not (is_new or row.status == "refused")
            return await self._end(new, head, row.status, "" if is_silent else row.error or UNPLAYABLE)
        if not is_new:
            await app_state.store.leases.expire(session.id, head.process)
        if takeovers > app_state.settings.limits.takeovers:
            return await self._abandon(new, head, takeovers)
        if not is_new:
            await self._wait_until_free(session.id)
        record = await app_state.store.runs.get(run_id)  # stored with the first step
        # A run that its server has stopped by force has a cancelled record as well, but its row says "drained".
        was_cancelled = record is not None and record.status == "cancelled" and row.status == "running"
        if was_cancelled or await app_state.store.cancels.is_requested(run_id):
            return await self._end_cancelled(new, head, row)
        runner, replay = await self._turns.runner(agent, session, is_page=bool(new.page_key)), None
        if record is None:
            run, progress = play_new(runner, new), Progress(runner.plan)
        else:
            progress = await runner.progress(session.id)
            run = runner.take_over(session.id, head.envelope, progress)
            run.record = replace(
                run.record, parent_run=record.parent_run, tenant=record.tenant, started_ms=record.started_ms
            )
        if not is_new or record is not None:
            read = partial(app_state.run_manager.events_so_far, run_id)
            replay = Continuation(run, progress, read, is_restart=head.player == LEFT)
        await self._playing.start(run, new, previous=head.player, takeovers=takeovers, replay=replay)
        if not is_new:
            owner = parse_owner(head.process)
            reason = "has not reported" if has_died else "has stopped"
            player = owner.label if owner is not None else "its process"
            logger.log(logging.WARNING if has_died else logging.INFO, _GOES_ON, run_id, player, reason)

    async def _is_over(self, row: RunRow, *, is_new: bool) -> bool:
        """Return whether the end of a run is stored, and its followers lack nothing but the end of its stream."""
        if row.status in OPEN:
            return False
        if is_new or row.status in ("cancelled", "refused"):
            return True
        events = await self._app_state.run_manager.events_so_far(row.id)
        return bool(events) and isinstance(events[-1], WorkflowFinished | UserInputs)

    async def _abandon(self, new: NewRun, head: RunHead, deaths: int) -> None:
        """End a run as failed."""
        answer = AnswerText()
        for event in await self._app_state.run_manager.events_so_far(head.run_id):
            if not isinstance(event, AgentRecord):
                answer.feed(event)
        session_id = head.envelope.session_id
        # The lease is later than that of the process, which may only be stuck, so that it cannot write any more.
        async with hold_lease(self._app_state.store.leases, session_id) as token:
            error = (
                f"The run was not continued, because {deaths} servers died or lost its session while they executed it. "
                "Continue the session to try again."
            )
            logger.error("run %s in session %s has failed: %s", head.run_id, session_id, error)
            await self._end(new, head, "failed", error, answer, token)

    async def _end(
        self,
        new: NewRun,
        head: RunHead,
        status: str,
        error: str,
        answer: AnswerText | None = None,
        lease_token: int = 0,
    ) -> None:
        """End a run that is not played any more."""
        run = EndedRun(head.envelope, status, error, answer, lease_token)
        await self._playing.start(run, new, previous=head.player, takeovers=head.takeovers)

    async def _end_cancelled(self, new: NewRun, head: RunHead, row: RunRow) -> None:
        """End a run that somebody has cancelled, with what it has used so far."""
        run = EndedRun(head.envelope, "cancelled", "", lease_token=row.lease_token)
        run.usage = Usage(row.prompt_tokens, row.completion_tokens)
        await self._playing.start(run, new, previous=head.player, takeovers=head.takeovers)

    async def _wait_until_free(self, session_id: str) -> None:
        """Wait until no run has leased a session."""
        until = time.monotonic() + FREE_S
        while await self._app_state.store.leases.holder(session_id):
            if time.monotonic() > until or self._app_state.run_manager.is_draining:
                raise BusyError(f"The session {session_id!r} is still leased.", FREE_S)
            await asyncio.sleep(FREE_LOOK_S)
