"""The session store as used by the runner: a saver, leases, run records and cancellation.

``checkpoints`` contains the implementations for memory, SQLite, PostgreSQL and Redis.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.base.values import JsonValue

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

LEASE_TOKEN = "__lease_token"
"""The key in LangGraph's ``configurable`` under which a run passes its lease token to the saver."""

Trace: TypeAlias = list[dict[str, JsonValue]]
"""The trace of a run's agents, in RAGFlow's format: a list of ``{"component_id": id, "trace": [{"path", "tool_name",
"arguments", "result", "elapsed_time"}]}``."""

Durability: TypeAlias = Literal["effects", "steps"]
"""What a stored step of a run is: with ``effects``, nodes without effects that follow each other alone share one; with
``steps``, each node has its own."""

StoreWork: TypeAlias = Callable[[], Awaitable[None]]
"""Stores a record or a trace, or releases a lease. If that fails, it may be called again."""

RunStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "waiting"]
"""A ``waiting`` run is waiting for the user's input."""


class RunRecord(Struct, frozen=True):
    """The record of one run. Times are in epoch milliseconds, or 0 if the event has not happened."""

    run_id: str
    session: str
    """The session id: 32 hexadecimal digits."""
    name: str = ""
    """The session's name, as its user knows it."""
    canvas_id: str = ""
    """The name or id of the canvas in the process that started the run."""
    canvas_hash: str = ""
    tenant: str = ""
    checkpoint: str = ""
    """The id of the checkpoint at which the run ended or is waiting."""
    parent_run: str = ""
    """The id of the run that this run continues, repeats or forks."""
    status: RunStatus = "running"
    reason: str = ""
    """Why the run failed or was cancelled."""
    is_cancel_requested: bool = False
    started_ms: int = 0
    updated_ms: int = 0
    ended_ms: int = 0
    model: str = ""
    """The model that replaced those of the canvas, or ``""``."""


class Lease(Protocol):
    """The right to write to one session. A lease renews itself until it is released or lost."""

    @property
    def token(self) -> int:
        """The fencing token. It increases with every lease of the session; writes with an older token are rejected."""
        ...

    async def is_ours(self) -> bool:
        """Ask the store whether this lease is still valid. Return True if the store fails."""
        ...

    async def release(self) -> None:
        """Release the session."""
        ...


class Leases(Protocol):
    """Session leases: one runner per session."""

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> Lease:
        """Acquire the session. ``on_lost`` is called once if another runner takes it over.

        A lease of a dead process on this machine is replaced at once, any other lease after it expires.

        Raises:
            SessionBusyError: if another live runner has the session; the message names it.
        """
        ...

    async def expire(self, session: str, owner: str) -> None:
        """End the lease of a process that has stopped on another machine. ``owner`` is the text of its `Owner`."""
        ...

    async def forget(self, session: str) -> None:
        """Delete what remains of a deleted session's leases."""
        ...

    async def holder(self, session: str) -> str:
        """Return a description of the process that runs the session; ``""`` if none does, or it is dead."""
        ...


class Runs(Protocol):
    """Run records."""

    async def put(self, record: RunRecord) -> None:
        """Store a record, replacing any older record of the run, in the open transaction if any."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a run's record, or None."""
        ...

    def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Iterate over the records of a session, newest first."""
        ...

    def sessions(self) -> AsyncIterator[RunRecord]:
        """Iterate over the newest record of every session, newest first."""
        ...

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete all records of a session."""
        ...


class Cancels(Protocol):
    """Cancellation requests for a session's turn, or for the run with an id, from any process.

    RAGFlow's key ``{task_id}-cancel`` is supported; the task id is the session id. A request for a run remains, for
    anyone who begins or continues the run.
    """

    async def request(self, session: str) -> None:
        """Request that the session's current run, or the run with this id, be stopped."""
        ...

    async def is_requested(self, session: str) -> bool:
        """Return whether there has been a request since the session was last leased, if that outlives its process."""
        ...

    def watch(self, session: str, on_cancel: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call ``on_cancel`` once if a cancellation is requested inside the block.

        A request from before the session was leased is stale: it is cleared with the lease, or ignored.
        """
        ...


class Traces(Protocol):
    """Run traces.

    Redis stores them under RAGFlow's key ``{task_id}-{message_id}-logs`` for 600 s.
    """

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace, replacing an older one, in the open transaction if any.

        Traces of the session's old runs may be dropped.
        """
        ...

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace by its id (RAGFlow's ``message_id``), or None if it does not exist or has expired."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces. This must be called before its run records are deleted."""
        ...


class Steps(Protocol):
    """Results of steps within nodes, by key. When ``put`` returns, the result is already stored."""

    async def put(self, key: str, value: JsonValue) -> None:
        """Store a result."""
        ...

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Return whether there is a stored result, and the result."""
        ...


class SessionStore(Protocol):
    """All stored data about sessions."""

    @property
    def saver(self) -> BaseCheckpointSaver[Any]:
        """The LangGraph checkpointer."""
        ...

    @property
    def leases(self) -> Leases:
        """The leases."""
        ...

    @property
    def runs(self) -> Runs:
        """The run records."""
        ...

    @property
    def cancels(self) -> Cancels:
        """The cancellation requests."""
        ...

    @property
    def durability(self) -> Durability:
        """Which nodes share a step."""
        ...

    def leased(self, config: RunnableConfig) -> AbstractAsyncContextManager[None]:
        """Store what is put in the block, and release the lease if the block does, at its end and in one transaction.

        ``config`` contains the token of the lease.

        Raises:
            SessionBusyError: if another runner holds the session. Nothing is stored in that case.
            CheckpointError: if the store fails.
        """
        ...

    async def newest_checkpoint(self, config: RunnableConfig) -> str:
        """Return the id of a thread's newest checkpoint, or ``""`` if it has none. The caller must hold its lease.

        Raises:
            CheckpointError: if the store fails.
        """
        ...

    def attach(self, config: RunnableConfig, work: StoreWork) -> None:
        """Do something else in the transaction of what a run stores next. ``config`` contains its lease's token."""
        ...

    @property
    def traces(self) -> Traces:
        """The agent traces."""
        ...

    @property
    def node_logs(self) -> Traces:
        """What runs store about their nodes: see `ragflow_lg.runs.trace.NodeLog`."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete a session's checkpoints and records."""
        ...


@asynccontextmanager
async def hold_lease(leases: Leases, session: str) -> AsyncGenerator[int]:
    """Keep a session's lease while inside the block. Yield the token.

    Raises:
        ConflictError: if another runner has the session.
    """
    lease = await leases.acquire(session, lambda: None)
    try:
        yield lease.token
    finally:
        await lease.release()


def with_lease_token(config: RunnableConfig, token: int) -> RunnableConfig:
    """Return a config that contains a lease's token."""
    return {**config, "configurable": {**config.get("configurable", {}), LEASE_TOKEN: token}}
