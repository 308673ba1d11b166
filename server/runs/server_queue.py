"""Runs that workers play: orders them, and looks after them in the processes that have followers of theirs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RunUnknownError, StreamError
from ragflow_lg.server.agents.quotas import find_limits
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.run_queue.run_order import RunOrder, encode_order

if TYPE_CHECKING:
    from ragflow_lg.runs.run import Run
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import RunRow
    from ragflow_lg.server.streaming.run_queue.open_queue import RunQueue
    from ragflow_lg.server.streaming.run_task import DisconnectPolicy

LOOK_S = 0.05
MAX_LOOK_S = 0.5
BACKGROUND_SOURCES = frozenset({"schedule", "webhook"})
"""The sources of sessions whose turns nobody waits for."""

logger = logging.getLogger(__name__)


class ServerQueue:
    """The queue of runs, as a server uses it."""

    def __init__(self, app_state: AppState, queue: RunQueue) -> None:
        self._app_state = app_state
        self._queue = queue
        self.line = queue.line
        """The runs that wait and those that are played."""

    async def require_room(self, tenant: str, page_key: str) -> None:
        """Refuse a request before anything is stored for it.

        Raises:
            BusyError: If the queue is full, or the tenant or the embedded page has too many runs.
            StreamError: If Redis fails.
        """
        settings = self._app_state.settings
        max_open = find_limits(settings, tenant).runs
        await self.line.require_room(tenant, max_open, page_key, settings.quotas.pages.runs)

    async def put(
        self,
        run: Run,
        row: RunRow,
        tenant: str,
        policy: DisconnectPolicy,
        request_hash: str,
        *,
        is_background: bool = False,
    ) -> None:
        """Order a run. Its events come from the worker that plays it.

        Raises:
            BusyError: See `require_room`.
            RequestError: If the request contains a value that JSON cannot express.
            StreamError: If Redis fails, or the server is shutting down.
        """
        settings, record = self._app_state.settings, run.record
        order = RunOrder(
            run.envelope,
            tenant,
            row.agent_id,
            run.intent,
            dict(run.request),
            row.asked or None,
            row.start_ms,
            record.parent_run,
            bool(record.tenant),
            str(policy),
            row.page_key,
            request_hash,
        )
        data = encode_order(order, self._app_state.store.keys)
        await self._app_state.run_manager.order(run.envelope, tenant, request_hash, str(policy))
        await self.line.put(
            row.id,
            tenant,
            data,
            row.start_ms,
            share=self._queue.find_share(tenant),
            max_open=find_limits(settings, tenant).runs,
            is_background=is_background,
            page_key=row.page_key,
            max_page=settings.quotas.pages.runs,
        )
        try:
            await self._queue.send(row.id)
        except StreamError as error:  # a worker that has nothing to do finds the run; see `TicketPlayer.sweep`
            logger.warning("run %s waits without a ticket: %s", row.id, error)

    async def wait_for_player(self, run_id: str) -> bool:
        """Wait until a run that is quiet or interrupted is played. Return False if nobody will, or the server stops.

        Raises:
            StreamError: If Redis fails.
        """
        run_manager, look_s = self._app_state.run_manager, LOOK_S
        try:
            player = (await run_manager.head(run_id)).player
            while not run_manager.is_draining:
                is_open, now = await self.line.has(run_id), (await run_manager.head(run_id)).player
                if now != player or await run_manager.is_played(run_id):
                    return True
                if not is_open:  # it has ended, or Redis has lost it
                    end = await run_manager.read_end(run_id)
                    return end is not None and not end.is_interruption
                if now == QUEUED:
                    return True
                await asyncio.sleep(look_s)
                look_s = min(look_s * 1.5, MAX_LOOK_S)
        except RunUnknownError:
            pass
        return False
