"""Runs that workers play: orders them, and looks after them in the processes that have followers of theirs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import StreamUnknownError
from ragflow_lg.server.agents.quotas import find_limits
from ragflow_lg.server.streaming.journal import QUEUED
from ragflow_lg.server.streaming.new_run import NewRun, encode_run
from ragflow_lg.server.streaming.run_queue import Owner

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.streaming.run_queue import RunQueue

LOOK_S = 0.05
MAX_LOOK_S = 0.5


def run_owners(settings: Settings, tenant: str, page_key: str) -> list[Owner]:
    """Return whose runs a run is counted among."""
    owners = [Owner("tenant", tenant, find_limits(settings, tenant).runs)]
    return [*owners, Owner("key of the page", page_key, settings.quotas.pages.runs)] if page_key else owners


class ServerQueue:
    """The queue of runs, as a server uses it."""

    def __init__(self, app_state: AppState, queue: RunQueue) -> None:
        self._app_state = app_state
        self.line = queue

    async def reserve(self, run_id: str, tenant: str, page_key: str) -> None:
        """Refuse a run before anything is stored for it, or else count it.

        Raises:
            BusyError: If the queue is full, or the tenant or the embedded page has too many runs.
            StreamError: If Redis fails.
        """
        owners = run_owners(self._app_state.settings, tenant, page_key)
        await self.line.reserve(run_id, owners, self._app_state.now_ms())

    async def put(self, new: NewRun) -> None:
        """Hand a run over. Its events come from the worker that plays it.

        Raises:
            RequestError: If the request contains a value that JSON cannot express.
            StreamError: If Redis fails, or the server is shutting down.
        """
        data = encode_run(new, self._app_state.store.keys)
        await self._app_state.run_manager.order(new.envelope, new.tenant, new.request_hash, new.policy)
        owners = run_owners(self._app_state.settings, new.tenant, new.page_key)
        await self.line.put(new.envelope.message_id, data, owners, self._app_state.now_ms())

    async def forget(self, run_id: str, tenant: str, page_key: str) -> None:
        """Remove a run that has ended.

        Raises:
            StreamError: If Redis fails.
        """
        await self.line.forget(run_id, run_owners(self._app_state.settings, tenant, page_key))

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
        except StreamUnknownError:
            pass
        return False
