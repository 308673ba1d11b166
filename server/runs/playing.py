"""What this process does with runs that have been accepted: plays, follows, cancels and stores them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import StreamError, StreamUnknownError
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.agents.quotas import PAGE_RUNS, find_limits
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import OPEN
from ragflow_lg.server.runs.continuation import EndedRun
from ragflow_lg.server.runs.run_end import Ending, do_not_release
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.new_run import NewRun, Owner
from ragflow_lg.server.streaming.run_task import PlaySpec
from ragflow_lg.services.chat import NO_USAGE, Usage

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import RunRow
    from ragflow_lg.server.observability.operations import Metrics
    from ragflow_lg.server.runs.continuation import Continuation
    from ragflow_lg.server.streaming.journal import RunHead

HANDOVER_S = 0.1
"""How long, at shutdown, to wait for models if there is a queue. Others continue the runs and call them again."""


class Playing:
    """The runs that this process plays, or follows while others play them."""

    def __init__(self, app_state: AppState, metrics: Metrics) -> None:
        self._app_state = app_state
        self._metrics = metrics
        self._manager = app_state.run_manager
        self._queue = app_state.queue

    async def start(
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

        ``previous``, ``takeovers`` and ``replay`` are the same as in `PlaySpec`.

        Raises:
            SettingsError: If the policy is unknown.
            StreamError: If the journal refuses the run, or the server is shutting down.
        """
        is_taken_over = previous not in ("", QUEUED)
        ending = Ending(self._app_state, self._metrics, run, new, is_taken_over, replay, free_slot)
        identity = (new.tenant, takeovers, previous)
        spec = PlaySpec(run, new.policy, *identity, replay, ending.store, ending.open_voice)
        await self._manager.start(spec)

    async def end_unplayed(self, new: NewRun, player: str, status: str, error: str) -> None:
        """End a run of the queue. ``player`` is the run manager in its head.

        Raises:
            StreamError: If the journal refuses the run, or the process is shutting down.
        """
        run_id = new.envelope.message_id
        row = await RunRepository(self._app_state.database, new.tenant).get(run_id)
        if row is not None:
            new = replace(new, start_ms=row.start_ms, question=row.asked or None, page_key=row.page_key)
        await self.start(EndedRun(new.envelope, status, error), new, previous=player)
        await self._manager.wait(run_id)

    async def result(self, tenant: str, run_id: str) -> tuple[str, str]:
        """Return the stored status and error of a run."""
        row = await RunRepository(self._app_state.database, tenant).get(run_id)
        return (row.status, row.error) if row is not None else ("failed", "The run has been deleted.")

    async def usage(self, tenant: str, run_id: str) -> Usage:
        """Return the stored usage of a run."""
        row = await RunRepository(self._app_state.database, tenant).get(run_id)
        return Usage(row.prompt_tokens, row.completion_tokens) if row is not None else NO_USAGE

    async def head(self, tenant: str, run_id: str) -> RunHead:
        """Return the head of one of a tenant's runs, wherever it is running. Other tenants' runs are unknown.

        Raises:
            StreamUnknownError: If the tenant has no such run.
        """
        head = await self._manager.head(run_id)
        if head.owner != tenant:
            raise StreamUnknownError(f"There is no run {run_id[:64]!r}, or its events have been deleted.")
        return head

    async def is_played(self, run_id: str) -> bool:
        """Check whether a run is executed in any process, or waits for a worker."""
        return await self._manager.is_queued(run_id) or await self._manager.is_played(run_id)

    async def is_lost(self, row: RunRow) -> bool:
        """Return whether a run's process has died before the run began or waited for a worker."""
        if row.status not in OPEN or await self.is_played(row.id):
            return False
        return await self._app_state.store.runs.get(row.id) is None

    async def cancel(self, tenant: str, run_id: str) -> bool:
        """Cancel a run, wherever it is executed or waits. Return whether there was one to cancel.

        The request is stored first: it holds for anyone who plays or continues the run.
        """
        if not await self.is_played(run_id):
            return False
        await self._app_state.store.cancels.request(run_id)
        if not self._manager.cancel(run_id) and await self._manager.is_queued(run_id):
            await self._end_queued(tenant, run_id)
        return True

    async def _end_queued(self, tenant: str, run_id: str) -> None:
        """End a run that no worker has begun."""
        row = await RunRepository(self._app_state.database, tenant).get(run_id)
        if row is None:
            return
        try:
            player = (await self._manager.head(run_id)).player
        except StreamUnknownError:  # what the queue has of it cannot be read, or its stream is lost
            player = QUEUED
        if player != QUEUED:
            return
        envelope = Envelope(run_id, row.start_ms // 1000, row.session_id, row.session_id)
        try:
            await self.end_unplayed(NewRun(envelope, tenant, row.agent_id), player, "cancelled", "")
        except StreamError:
            if (await self._manager.head(run_id)).player == player:
                raise
            return  # a worker has begun it meanwhile, and finds the request
        await self.forget(run_id, tenant, row.page_key)

    async def cancel_session(self, session_id: str, tenant: str) -> None:
        """Stop a session's turn, wherever it is running."""
        runs = await RunRepository(self._app_state.database, tenant).open_ids(session_id)
        is_cancelled, cancels = False, self._app_state.store.cancels
        for run_id in runs:
            if await self.cancel(tenant, run_id):
                is_cancelled = True
            else:  # for the process that continues it
                await cancels.request(run_id)
        if not is_cancelled:  # it may be one of the command
            await cancels.request(session_id)

    def owners(self, tenant: str, page_key: str) -> list[Owner]:
        """Return whose runs a run of the queue is counted among."""
        settings = self._app_state.settings
        owners = [Owner("tenant", tenant, find_limits(settings, tenant).runs)]
        return [*owners, Owner("key of the page", page_key, PAGE_RUNS)] if page_key else owners

    async def forget(self, run_id: str, tenant: str, page_key: str = "") -> None:
        """Remove a run that has ended from the queue, if there is one.

        Raises:
            StreamError: If Redis fails.
        """
        if self._queue is not None:
            await self._queue.forget(run_id, self.owners(tenant, page_key))

    async def drain(self) -> None:
        """Stop every turn at a point where it can be continued, and wait until all have been stored."""
        handover_s = HANDOVER_S if self._queue is not None else math.inf
        await self._manager.drain(handover_s=handover_s)
