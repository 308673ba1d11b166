"""Plays a run of the queue, or continues the run of a dead worker."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Literal

from ragflow_lg.base.errors import (
    CompileError,
    RagflowLgError,
    RequestError,
    SettingsError,
    StreamError,
    StreamUnknownError,
)
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.runs.due_tasks import is_passing
from ragflow_lg.server.runs.failover import play_new
from ragflow_lg.server.runs.server_queue import run_owners
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.new_run import NewRun, decode_run

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.server.streaming.run_queue import RunQueue

LOOK_S = 0.1
MAX_LOOKS = 50
"""How often a worker looks whether the worker of a run reports again."""
PAUSE_S = 0.5
"""How long a worker waits before it gives a run back that it could not play."""
PATIENCE_S = 60.0
"""How long a run that a worker cannot play is left to workers of other versions."""

UNPLAYABLE = (
    "The run cannot be played: its session or agent has been deleted, or it cannot be continued. "
    "The log of the workers says more."
)

_Outcome = Literal["over", "again"]

logger = logging.getLogger(__name__)


class RunPlayer:
    """Plays the runs of the queue."""

    def __init__(self, app_state: AppState, queue: RunQueue, turns: Turns) -> None:
        self._app_state = app_state
        self._queue = queue
        self._turns = turns
        self._failures: dict[str, float] = {}
        """When this process first failed to play a run that is still in the queue."""

    async def play(self, run_id: str) -> bool:
        """Play a run. Return whether it is over; if not, another worker continues it.

        Raises:
            StreamError: If Redis fails.
        """
        if (data := await self._queue.read(run_id)) is None:
            return True
        with use_notes(RequestNotes(run=run_id)):
            is_over = await self._play_data(run_id, data) == "over"
            if is_over:
                self._failures.pop(run_id, None)
            return is_over

    async def _play_data(self, run_id: str, data: bytes) -> _Outcome:
        try:
            new = decode_run(data, run_id, self._app_state.store.keys)
        except StreamError as error:
            return await self._leave_to_others(run_id, f"{error}. Upgrade the workers before the servers.")
        with use_notes(RequestNotes(run=run_id, session=new.envelope.session_id, tenant=new.tenant)):
            try:
                outcome = await self._play(new)
            except RagflowLgError as error:
                if isinstance(error, CompileError | RequestError | SettingsError) and not is_passing(error):
                    return await self._leave_to_others(run_id, str(error))
                logger.warning("run %s could not be played here: %s", run_id, error)
                await asyncio.sleep(PAUSE_S)
                return "again"
            if outcome == "over":
                await self._queue.forget(run_id, run_owners(self._app_state.settings, new.tenant, new.page_key))
            return outcome

    async def _leave_to_others(self, run_id: str, error: str) -> _Outcome:
        """Return a run to the queue, for a worker of another version; end it if none has played it for a while."""
        now = time.monotonic()
        self._failures = {id_: since for id_, since in self._failures.items() if now - since < 2 * PATIENCE_S}
        since = self._failures.setdefault(run_id, now)
        logger.error("run %s cannot be played here: %s", run_id, error)
        try:
            if now - since < PATIENCE_S:
                await asyncio.sleep(PAUSE_S)
                return "again"
            head = await self._app_state.run_manager.head(run_id)
            new = NewRun(head.envelope, head.owner, "")
            await self._turns.end_unplayed(new, head.player, "failed", f"No worker can play the run: {error}")
            await self._queue.forget(run_id, run_owners(self._app_state.settings, head.owner, ""))
        except RagflowLgError as failure:
            logger.warning("run %s cannot be ended: %s", run_id, failure)
            await asyncio.sleep(PAUSE_S)
            return "over" if isinstance(failure, StreamUnknownError) else "again"
        return "over"

    async def _play(self, new: NewRun) -> _Outcome:
        run_id, run_manager, is_lost, looks = new.envelope.message_id, self._app_state.run_manager, False, 0
        while True:
            try:
                head, end = await run_manager.head(run_id), await run_manager.read_end(run_id)
            except StreamUnknownError:  # nobody has played or followed it for so long that its stream has expired
                await run_manager.order(new.envelope, new.tenant, new.request_hash, new.policy)
                is_lost = True
                continue
            if run_manager.is_draining:
                return "again"
            if end is not None and not end.is_interruption:
                return "over"
            if head.player == QUEUED:
                is_started = await self._begin(new, may_have_begun=is_lost)
                break
            if end is None and head.player != run_manager.player and await run_manager.is_alive(head.player):
                if (looks := looks + 1) > MAX_LOOKS:
                    return "again"  # its worker may have lost it, and receives it again sooner or later
                await asyncio.sleep(LOOK_S)  # it was only slow to report
                continue
            is_started = run_manager.has(run_id) or await self._turns.take(run_id, new)
            break
        if not is_started and not run_manager.is_draining:
            return await self._give_up(new)
        await run_manager.wait(run_id)
        end = await run_manager.read_end(run_id)  # a run that was stopped at once is cancelled, but not over
        return "over" if end is not None and not end.is_interruption else "again"

    async def _begin(self, new: NewRun, *, may_have_begun: bool) -> bool:
        """Play a run from its beginning. Return False if what it needs has been deleted, or it has ended.

        If it ``may_have_begun`` and has stored a step, it is continued.
        """
        database, tenant, run_id = self._app_state.database, new.tenant, new.envelope.message_id
        row = await RunRepository(database, tenant).get(run_id)
        session = await SessionRepository(database, tenant).get(new.envelope.session_id)
        agent = await AgentRepository(database, tenant).get(new.agent_id)
        if row is None or row.status not in ("running", "drained") or session is None or agent is None:
            return False
        runner = await self._turns.runner(agent, session, is_page=bool(new.page_key))
        if may_have_begun and await self._app_state.store.runs.get(run_id) is not None:
            return await self._turns.take(run_id, new)
        await self._turns.start_run(play_new(runner, new), new, previous=QUEUED)
        return True

    async def _give_up(self, new: NewRun) -> _Outcome:
        """End a run that no worker can play, unless another worker plays it."""
        run_id, run_manager = new.envelope.message_id, self._app_state.run_manager
        head = await run_manager.head(run_id)
        if head.player not in (QUEUED, run_manager.player) and await run_manager.is_alive(head.player):
            return "again"
        await self._turns.end_unplayed(new, head.player, "failed", UNPLAYABLE)
        return "over"
