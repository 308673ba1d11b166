"""The session store as the runner uses it: a saver, leases, run records, cancellation.

``checkpoints`` has the implementations, for memory, SQLite and Redis.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
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
"""The trace of a run's agents in RAGFlow's format: a list of
``{"component_id": id, "trace": [{"path", "tool_name", "arguments", "result", "elapsed_time"}]}``."""

RunStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "waiting"]
"""A ``waiting`` run has asked the user for input."""


class RunRecord(Struct, frozen=True):
    """The record of one run. Times are epoch milliseconds, 0 if the event has not happened."""

    run_id: str
    session: str
    """The session's 32 hexadecimal digits."""
    name: str = ""
    """The session's name for its user."""
    canvas_id: str = ""
    """Name or id of the canvas for the process that started the run."""
    canvas_hash: str = ""
    tenant: str = ""
    checkpoint: str = ""
    """Id of the checkpoint at which the run ended or waits."""
    parent_run: str = ""
    """The run that this one continues, repeats or forks."""
    status: RunStatus = "running"
    reason: str = ""
    """Why the run failed or was cancelled."""
    is_cancel_requested: bool = False
    started_ms: int = 0
    updated_ms: int = 0
    ended_ms: int = 0


class Lease(Protocol):
    """The right to write to one session. It renews itself until it is released or lost."""

    @property
    def token(self) -> int:
        """Fencing token; grows with every lease of the session. Writes with an older token are rejected."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether another runner has taken over the session."""
        ...

    async def is_ours(self) -> bool:
        """Ask the store whether this lease is still valid. Returns True if the store fails."""
        ...

    async def release(self) -> None:
        """Release the session."""
        ...


class Leases(Protocol):
    """Leases of sessions: one runner per session."""

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> Lease:
        """Acquire the session. ``on_lost`` is called once if another runner takes it over.

        The lease of a dead process on this machine is replaced at once, any other lease after it expires.

        Raises:
            SessionBusyError: if another live runner has the session; the text names it.
        """
        ...

    async def holder(self, session: str) -> str:
        """Return a description of the process that runs the session; ``""`` if none does, or it is dead."""
        ...


class Runs(Protocol):
    """The records of runs."""

    async def put(self, record: RunRecord) -> None:
        """Store a record; replaces an older record of the run."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record, or None."""
        ...

    def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Iterate over the records of a session, newest first."""
        ...

    def sessions(self) -> AsyncIterator[RunRecord]:
        """Iterate over the newest record of every session, newest first."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete all records of a session."""
        ...


class Cancels(Protocol):
    """Cancellation of a session's turn from any process.

    RAGFlow's key ``{task_id}-cancel`` is supported; the task is the session.
    """

    async def request(self, session: str) -> None:
        """Request that the current run of the session stops."""
        ...

    def watch(self, session: str, on_cancel: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call ``on_cancel`` once if a cancellation is requested inside the block.

        An earlier request is stale and cleared.
        """
        ...


class Traces(Protocol):
    """Traces of runs.

    On Redis under RAGFlow's key ``{task_id}-{message_id}-logs``, for 600 s.
    """

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store the trace of a run; replaces an older one. Traces of old runs of the session may be dropped."""
        ...

    async def get(self, run_id: str) -> Trace | None:
        """Return the trace of a run by its id, RAGFlow's ``message_id``; None if it does not exist or has expired."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete the traces of a session. Must be called before its run records are deleted."""
        ...


class Steps(Protocol):
    """Results of the steps within nodes, by key. A step is stored when ``put`` returns, not later."""

    async def put(self, key: str, value: JsonValue) -> None:
        """Store a result."""
        ...

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Return whether there is a result, and the result."""
        ...


class SessionStore(Protocol):
    """Everything about sessions, in one place."""

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

    async def newest_checkpoint(self, config: RunnableConfig) -> str:
        """Return the id of the newest checkpoint of a thread, ``""`` if it has none.

        Raises:
            CheckpointError: if the store fails.
        """
        ...

    @property
    def traces(self) -> Traces:
        """The traces of agents."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete checkpoints and records of a session."""
        ...


@asynccontextmanager
async def hold_lease(leases: Leases, session: str) -> AsyncGenerator[int]:
    """Hold the lease of a session inside the block. Yields the token.

    Raises:
        ConflictError: if another runner has the session.
    """
    lease = await leases.acquire(session, lambda: None)
    try:
        yield lease.token
    finally:
        await lease.release()


def with_lease_token(config: RunnableConfig, token: int) -> RunnableConfig:
    """Return a config with the token of a lease."""
    return {**config, "configurable": {**config.get("configurable", {}), LEASE_TOKEN: token}}
