"""Plays the run that a ticket of the queue stands for, or continues the run of a dead worker."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Literal

from ragflow_lg.base.errors import (
    CompileError,
    RagflowLgError,
    RequestError,
    RunUnknownError,
    SettingsError,
    StreamError,
)
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.runs.due_tasks import is_passing
from ragflow_lg.server.runs.failover import play_order
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.run_queue.run_order import RunOrder, decode_order
from ragflow_lg.server.streaming.run_task import parse_policy

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.runs.turns import Turns
    from ragflow_lg.server.streaming.run_queue.open_queue import RunQueue

LOOK_S = 0.1
MAX_LOOKS = 50
"""How often a worker looks whether the worker of a run reports again."""
PAUSE_S = 0.5
"""How long a worker waits before it gives a run back that it could not play."""
SWEEP_S = 2.0
PATIENCE_S = 60.0
"""How long a run that a worker cannot play is left to workers of other versions."""

UNPLAYABLE = (
    "The run cannot be played: its session or agent has been deleted, or it cannot be continued. "
    "The log of the workers says more."
)

_Outcome = Literal["over", "again"]

logger = logging.getLogger(__name__)


class TicketPlayer:
    """Plays the runs of the queue, each for one ticket."""

    def __init__(self, app_state: AppState, queue: RunQueue, turns: Turns) -> None:
        self._app_state = app_state
        self._queue = queue
        self._turns = turns
        self._tickets: set[str] = set()
        """The tickets in use in this process."""
        self._failures: dict[str, float] = {}
        """When this process first failed to play a run that is still in the queue."""

    async def play(self, ticket: str) -> bool:
        """Play the run of a ticket. Return whether its message is to be acknowledged.

        Raises:
            StreamError: If Redis fails. Another worker receives the message again.
        """
        if ticket in self._tickets:
            return False  # this process was slow to report, and has claimed its own message
        self._tickets.add(ticket)
        try:
            taken = await self._queue.line.take(ticket)
            if taken is None:
                return True  # the run has been withdrawn
            run_id, data = taken
            with use_notes(RequestNotes(run=run_id)):
                if await self._play_order(run_id, data) == "over":
                    self._failures.pop(run_id, None)
                    await self._queue.line.finish(run_id, ticket)
                else:
                    await self._queue.line.give_back(run_id, self._app_state.now_ms())
                    await self._queue.send(ticket)
            return True
        finally:
            self._tickets.discard(ticket)

    async def sweep(self) -> None:
        """Send a ticket for a run that waits without one, because its server died before it sent it.

        A worker calls this while it has nothing to do: then all tickets have been delivered.

        Raises:
            StreamError: If Redis fails.
        """
        if (await self._queue.line.state()).waiting and not await self._queue.undelivered():
            await self._queue.send(self._app_state.new_id())

    async def _play_order(self, run_id: str, data: bytes) -> _Outcome:
        try:
            order = decode_order(data, run_id, self._app_state.store.keys)
        except StreamError as error:
            return await self._leave_to_others(run_id, f"{error}. Upgrade the workers before the servers.")
        with use_notes(RequestNotes(run=run_id, session=order.envelope.session_id, tenant=order.tenant)):
            try:
                return await self._play(order)
            except RagflowLgError as error:
                if isinstance(error, CompileError | RequestError | SettingsError) and not is_passing(error):
                    return await self._leave_to_others(run_id, str(error))
                logger.warning("run %s could not be played here: %s", run_id, error)
                await asyncio.sleep(PAUSE_S)
                return "again"

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
            await self._turns.end_unplayed(
                head.envelope, head.owner, head.player, "failed", f"No worker can play the run: {error}"
            )
        except RagflowLgError as failure:
            logger.warning("run %s cannot be ended: %s", run_id, failure)
            await asyncio.sleep(PAUSE_S)
            return "over" if isinstance(failure, RunUnknownError) else "again"
        return "over"

    async def _play(self, order: RunOrder) -> _Outcome:
        run_id, run_manager, is_lost, looks = order.envelope.message_id, self._app_state.run_manager, False, 0
        while True:
            try:
                head, end = await run_manager.head(run_id), await run_manager.read_end(run_id)
            except RunUnknownError:  # nobody has played or followed it for so long that its stream has expired
                await run_manager.order(order.envelope, order.tenant, order.request_hash, order.policy)
                is_lost = True
                continue
            if run_manager.is_draining:
                return "again"
            if end is not None and not end.is_interruption:
                return "over"
            if head.player == QUEUED:
                is_started = await self._begin(order, may_have_begun=is_lost)
                break
            if end is None and head.player != run_manager.player and await run_manager.is_alive(head.player):
                if (looks := looks + 1) > MAX_LOOKS:
                    return "again"  # its worker may have lost it, and receives it again sooner or later
                await asyncio.sleep(LOOK_S)  # it was only slow to report
                continue
            is_started = run_manager.has(run_id) or await self._turns.take(run_id, order)
            break
        if not is_started and not run_manager.is_draining:
            return await self._give_up(order)
        await run_manager.wait(run_id)
        end = await run_manager.read_end(run_id)  # a run that was stopped at once is cancelled, but not over
        return "over" if end is not None and not end.is_interruption else "again"

    async def _begin(self, order: RunOrder, *, may_have_begun: bool) -> bool:
        """Play a run from its beginning. Return False if what it needs has been deleted, or it has ended.

        If it ``may_have_begun`` and has stored a step, it is continued.
        """
        database, tenant, run_id = self._app_state.database, order.tenant, order.envelope.message_id
        row = await RunRepository(database, tenant).get(run_id)
        session = await SessionRepository(database, tenant).get(order.envelope.session_id)
        agent = await AgentRepository(database, tenant).get(order.agent_id)
        if row is None or row.status not in ("running", "drained") or session is None or agent is None:
            return False
        runner = await self._turns.runner(agent, session, is_page=bool(order.page_key))
        if may_have_begun and await self._app_state.store.runs.get(run_id) is not None:
            return await self._turns.take(run_id, order)
        await self._turns.start_run(
            play_order(runner, order),
            tenant,
            order.question,
            order.start_ms,
            parse_policy(order.policy),
            previous=QUEUED,
            request_hash=order.request_hash,
        )
        return True

    async def _give_up(self, order: RunOrder) -> _Outcome:
        """End a run that no worker can play, unless another worker plays it."""
        run_id, run_manager = order.envelope.message_id, self._app_state.run_manager
        head = await run_manager.head(run_id)
        if head.player not in (QUEUED, run_manager.player) and await run_manager.is_alive(head.player):
            return "again"
        await self._turns.end_unplayed(order.envelope, order.tenant, head.player, "failed", UNPLAYABLE)
        return "over"
