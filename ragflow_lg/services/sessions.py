"""What the runner asks of the place where sessions live: a saver, one lease a session, records of runs, cancelling.

``checkpoints`` has the real ones, for memory, SQLite and Redis.
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

__all__ = [
    "LEASE_TOKEN",
    "Cancels",
    "Lease",
    "Leases",
    "RunRecord",
    "RunStatus",
    "Runs",
    "SessionStore",
    "Steps",
    "Trace",
    "Traces",
    "hold_lease",
    "with_lease_token",
]

LEASE_TOKEN = "__lease_token"
"""Under this key of LangGraph's ``configurable`` a run tells the saver the token of its lease."""

Trace: TypeAlias = list[dict[str, JsonValue]]
"""What the agents of a run did, in RAGFlow's form: a list of
``{"component_id": id, "trace": [{"path", "tool_name", "arguments", "result", "elapsed_time"}]}``."""

RunStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "waiting"]
"""``waiting`` runs have asked the user something."""


class RunRecord(Struct, frozen=True):
    """What is known of one run. Times are epoch milliseconds, 0 where it has not happened."""

    run_id: str
    session: str
    """The session's 32 digits."""
    name: str = ""
    """The session as whoever runs it calls it."""
    canvas_id: str = ""
    """Name or id under which the canvas is known to whoever started the run."""
    canvas_hash: str = ""
    tenant: str = ""
    checkpoint: str = ""
    """Id of the checkpoint that the run ended or waits at."""
    parent_run: str = ""
    """The run that this one continues, reruns or forks."""
    status: RunStatus = "running"
    reason: str = ""
    """Why it failed or was cancelled."""
    is_cancel_requested: bool = False
    started_ms: int = 0
    updated_ms: int = 0
    ended_ms: int = 0


class Lease(Protocol):
    """The right to write to one session. It renews itself until it is released or lost."""

    @property
    def token(self) -> int:
        """Fencing token: grows with every lease of the session. A writer with an older one is refused."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether somebody else holds the session now."""
        ...

    async def is_ours(self) -> bool:
        """Ask the store whether nobody else holds the session; a store that fails says nothing against it."""
        ...

    async def release(self) -> None:
        """Give the session back."""
        ...


class Leases(Protocol):
    """One runner per session."""

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> Lease:
        """Take the session. ``on_lost`` is called once should another runner have taken it over.

        A dead owner on this machine is replaced at once, any other one when its lease has run out.

        Raises:
            SessionBusyError: if another live runner has it; the text names it.
        """
        ...

    async def holder(self, session: str) -> str:
        """Name who runs the session, for people; ``""`` if nobody does, or whoever did is dead."""
        ...


class Runs(Protocol):
    """Records of runs."""

    async def put(self, record: RunRecord) -> None:
        """Store a record in place of an older one of the same run."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """Give a record, or None."""
        ...

    def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Give the records of a session, newest first."""
        ...

    def sessions(self) -> AsyncIterator[RunRecord]:
        """Give the newest record of every session, newest first."""
        ...

    async def delete_session(self, session: str) -> None:
        """Forget all runs of a session."""
        ...


class Cancels(Protocol):
    """Cancelling a session's turn from any process.

    RAGFlow's key ``{task_id}-cancel`` is honoured; the task is the session.
    """

    async def request(self, session: str) -> None:
        """Ask whoever runs the session to stop."""
        ...

    def watch(self, session: str, on_cancel: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Call ``on_cancel`` once when somebody asks, while inside. A request from before is stale and cleared."""
        ...


class Traces(Protocol):
    """What the agents of runs did. On Redis under RAGFlow's key ``{task_id}-{message_id}-logs``, for 600 s."""

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store the trace of a run in place of an older one. Of old runs of a session some may be dropped."""
        ...

    async def get(self, run_id: str) -> Trace | None:
        """Give the trace of a run by its id, RAGFlow's ``message_id``; None if there is none, or no more."""
        ...

    async def delete_session(self, session: str) -> None:
        """Forget the traces of a session. Comes before its runs are forgotten."""
        ...


class Steps(Protocol):
    """Results of the steps within nodes, by key. A step is stored when ``put`` returns, not some time later."""

    async def put(self, key: str, value: JsonValue) -> None:
        """Store a result."""
        ...

    async def find(self, key: str) -> tuple[bool, JsonValue]:
        """Give whether there is a result, and the result."""
        ...


class SessionStore(Protocol):
    """Everything about sessions, in one place."""

    @property
    def saver(self) -> BaseCheckpointSaver[Any]:
        """The LangGraph checkpointer."""
        ...

    @property
    def leases(self) -> Leases:
        """Who may write."""
        ...

    @property
    def runs(self) -> Runs:
        """What ran."""
        ...

    @property
    def cancels(self) -> Cancels:
        """Who is to stop."""
        ...

    async def newest_checkpoint(self, config: RunnableConfig) -> str:
        """Give the id of the newest checkpoint of a thread, ``""`` if it has none.

        Raises:
            CheckpointError: if the store fails.
        """
        ...

    @property
    def traces(self) -> Traces:
        """What agents did."""
        ...

    async def delete_session(self, session: str) -> None:
        """Delete checkpoints and records of a session."""
        ...


@asynccontextmanager
async def hold_lease(leases: Leases, session: str) -> AsyncGenerator[int]:
    """Hold a session for a short while. Gives the token.

    Raises:
        ConflictError: if another runner has it.
    """
    lease = await leases.acquire(session, lambda: None)
    try:
        yield lease.token
    finally:
        await lease.release()


def with_lease_token(config: RunnableConfig, token: int) -> RunnableConfig:
    """Give a config whose writes are those of a lease."""
    return {**config, "configurable": {**config.get("configurable", {}), LEASE_TOKEN: token}}
