"""The runs of all tenants in one process: starts, follows, stops and stores them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import StreamError, StreamUnknownError
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.runs.continuation import EndedRun
from ragflow_lg.server.runs.run_end import Ending, do_not_release
from ragflow_lg.server.runs.run_voice import AnswerVoice
from ragflow_lg.server.runs.server_queue import ServerQueue
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.new_run import NewRun
from ragflow_lg.server.streaming.run_manager import each_event
from ragflow_lg.server.streaming.run_task import RunSpec, parse_policy

if TYPE_CHECKING:
    from ragflow_lg.server.agents.quotas import Quotas
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import RunRow
    from ragflow_lg.server.runs.continuation import Continuation
    from ragflow_lg.server.streaming.event_codec import StreamEvent
    from ragflow_lg.server.streaming.journal import RunHead
    from ragflow_lg.server.streaming.run_manager import EventPage


CANCEL_AGAIN_S = 0.05
CANCEL_S = 5.0
"""How long a run that is cancelled may take to lease its session."""


class PlayedRuns:
    """The runs that this process plays, or follows while others play them."""

    quotas: Quotas

    def __init__(self, app_state: AppState) -> None:
        self._app_state = app_state
        self._orders = ServerQueue(app_state, app_state.queue) if app_state.queue is not None else None

    async def start_run(
        self,
        run: Run | EndedRun,
        new: NewRun,
        *,
        previous: str = "",
        takeovers: int = 0,
        replay: Continuation | None = None,
        free_slot: Callable[[], None] = do_not_release,
    ) -> None:
        """Start a run. ``free_slot`` is called when its end is stored.

        ``previous``, ``takeovers`` and ``replay`` are the same as in `RunSpec`.

        Raises:
            SettingsError: If the policy is unknown.
            StreamError: If the journal refuses the run, or the server is shutting down.
        """
        voice, is_taken_over = AnswerVoice(run), previous not in ("", QUEUED)
        ending = Ending(self._app_state, self.quotas, run, voice, new, is_taken_over, replay, free_slot)
        identity = (new.tenant, new.request_hash, takeovers, previous)
        spec = RunSpec(run, parse_policy(new.policy), *identity, replay, ending.store, voice.open)
        await self._app_state.run_manager.start(spec)

    async def result(self, tenant: str, run_id: str) -> tuple[str, str]:
        """Return the stored status and error of a run."""
        row = await RunRepository(self._app_state.database, tenant).get(run_id)
        return (row.status, row.error) if row is not None else ("failed", "The run has been deleted.")

    async def head(self, tenant: str, run_id: str) -> RunHead:
        """Return the head of one of a tenant's runs, wherever it is running. Other tenants' runs are unknown.

        Raises:
            StreamUnknownError: If the tenant has no such run.
        """
        head = await self._app_state.run_manager.head(run_id)
        if head.owner != tenant:
            raise StreamUnknownError(f"There is no run {run_id[:64]!r}, or its events have been deleted.")
        return head

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent]]:
        """Yield a run's events after number ``after``, each with its number; see `RunManager.follow`.

        An interrupted run that another process continues goes on without its followers noticing.
        """
        return each_event(self.pages(run_id, after))

    def pages(self, run_id: str, after: int = 0, *, has_records: bool = True) -> AsyncGenerator[EventPage[StreamEvent]]:
        """Yield a run's events like `follow`, those together that are there."""
        wait = self._orders.wait_for_player if self._orders is not None else None
        return self._app_state.run_manager.pages(run_id, after, wait, has_records=has_records)

    async def is_played(self, run_id: str) -> bool:
        """Check whether a run is executed in any process, or waits for a worker."""
        if self._orders is not None and await self._orders.line.has(run_id):
            return True
        return await self._app_state.run_manager.is_played(run_id)

    async def is_lost(self, row: RunRow) -> bool:
        """Return whether a run's process has died before the run began or waited for a worker."""
        if row.status != "running" or await self.is_played(row.id):
            return False
        return await self._app_state.store.runs.get(row.id) is None

    async def cancel_run(self, tenant: str, run_id: str) -> bool:
        """Cancel a run, wherever it is executed or waits. Return whether there was one to cancel."""
        orders = self._orders
        if orders is not None and await orders.line.has(run_id) and await self._cancel_queued(tenant, run_id):
            return True
        is_cancelled = await self._app_state.run_manager.cancel(run_id)
        if is_cancelled and not self._app_state.run_manager.has(run_id):
            await self._cancel_again(run_id)
        return is_cancelled

    async def _cancel_again(self, run_id: str) -> None:
        """Repeat the request to cancel a run of another process until the run leases its session, which clears it."""
        store, until = self._app_state.store, time.monotonic() + CANCEL_S
        session_id = (await self._app_state.run_manager.head(run_id)).envelope.session_id
        while not (await store.leases.holder(session_id) and await store.cancels.is_requested(session_id)):
            await asyncio.sleep(CANCEL_AGAIN_S)
            if time.monotonic() > until or not await self.is_played(run_id):
                return
            await store.cancels.request(session_id)

    async def _cancel_queued(self, tenant: str, run_id: str) -> bool:
        """End a run that waits for a worker, also if one died before its first event. Return False if it has begun."""
        run_manager = self._app_state.run_manager
        row = await RunRepository(self._app_state.database, tenant).get(run_id)
        if row is None:
            return False
        envelope = Envelope(run_id, row.start_ms // 1000, row.session_id, row.session_id)
        try:
            player = (await run_manager.head(run_id)).player
        except StreamUnknownError:  # nobody has followed it for so long that its stream has expired
            player = QUEUED
        if player != QUEUED and await self._has_begun(run_id, player):
            return False
        try:
            await self.end_unplayed(NewRun(envelope, tenant, row.agent_id), player, "cancelled", "")
        except StreamError:
            if (await run_manager.head(run_id)).player == player:
                raise
            return False
        if self._orders is not None:
            await self._orders.forget(run_id, tenant, row.page_key)
        return True

    async def _has_begun(self, run_id: str, player: str) -> bool:
        """Return whether a run has begun in a process, or is about to begin there."""
        if await self._app_state.run_manager.is_alive(player) or await self._app_state.run_manager.has_events(run_id):
            return True
        return await self._app_state.store.runs.get(run_id) is not None

    async def end_unplayed(self, new: NewRun, player: str, status: str, error: str) -> None:
        """End a run of the queue. ``player`` is the run manager in its head.

        Raises:
            StreamError: If the journal refuses the run, or the process is shutting down.
        """
        run_id = new.envelope.message_id
        row = await RunRepository(self._app_state.database, new.tenant).get(run_id)
        if row is not None:
            new = replace(new, start_ms=row.start_ms, question=row.asked or None, page_key=row.page_key)
        await self.start_run(EndedRun(new.envelope, status, error), new, previous=player)
        await self._app_state.run_manager.wait(run_id)

    async def cancel(self, session_id: str, tenant: str) -> None:
        """Stop a session's turn, wherever it is running."""
        if self._orders is not None:
            newest = await RunRepository(self._app_state.database, tenant).newest(session_id)
            if newest is not None and await self.cancel_run(tenant, newest.id):
                return
        if not self._app_state.run_manager.cancel_session(session_id):
            await self._app_state.store.cancels.request(session_id)

    async def drain(self) -> None:
        """Stop every turn at a point where it can be continued, and wait until all have been stored."""
        run_manager, section = self._app_state.run_manager, self._app_state.settings.server
        handover_s = section.handover_s if self._orders is not None else math.inf
        await run_manager.drain(handover_s=handover_s)
