"""The parts that every backend provides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.services.sessions import Cancels, Durability, Leases, Runs, StoreWork, Traces, hold_lease

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from langchain_core.runnables import RunnableConfig

    from ragflow_lg.checkpoints.key_ring import KeyRing


class Store(Struct, frozen=True):
    """Session storage. Implements `ragflow_lg.services.sessions.SessionStore`."""

    saver: CanvasSaver
    leases: Leases
    runs: Runs
    cancels: Cancels
    traces: Traces
    node_logs: Traces
    durability: Durability = "effects"
    keys: KeyRing | None = None
    """Encrypts what is stored; None if nothing is encrypted."""

    def leased(self, config: RunnableConfig) -> AbstractAsyncContextManager[None]:
        """Store what is put in the block in one transaction, if the run of the config holds its session."""
        return self.saver.leased(config)

    async def newest_checkpoint(self, config: RunnableConfig) -> str:
        """Return the id of a thread's newest checkpoint, or ``""`` if it has none. The caller must hold its lease."""
        return await self.saver.newest_id(config)

    def attach(self, config: RunnableConfig, work: StoreWork) -> None:
        """Do something else in the transaction of what the run of a config stores next, such as storing its record."""
        self.saver.attach(config, work)

    def take_written_bytes(self, session: str) -> int:
        """Return how many bytes this process has written for a session since it was last asked, before compression."""
        return self.saver.values.take_written_bytes(thread_of_session(session))

    async def delete_session(self, session: str) -> None:
        """Delete a session's checkpoints and records.

        Raises:
            ConflictError: if the session is running.
        """
        async with hold_lease(self.leases, session):
            await self.saver.adelete_thread(thread_of_session(session))
            await self.traces.delete_session(session)
            await self.node_logs.delete_session(session)
            await self.runs.delete_session(session)
        await self.leases.forget(session)
