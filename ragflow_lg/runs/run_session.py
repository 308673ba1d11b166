"""The session of a run: its lease, how much of it is read, and how the run is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, ConflictError, RagflowLgError, SessionBusyError
from ragflow_lg.component.events import TurnFinished
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.callbacks import CallbackSet
from ragflow_lg.runs.run_observer import CallObserver
from ragflow_lg.services.services import Clock
from ragflow_lg.services.sessions import (
    Lease,
    Leases,
    RunRecord,
    Runs,
    RunStatus,
    SessionStore,
    Steps,
    with_lease_token,
)

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

    from ragflow_lg.services.services import Services


class PlayOptions(Struct, frozen=True):
    """What a runner gives to each of its runs."""

    canvas: CompiledCanvas
    services: Services
    store: SessionStore | None
    canvas_id: str
    model: str
    event_limit: int
    callbacks: CallbackSet
    busy_s: float
    running: set[RunControl]
    """The controls of the runs that are being iterated."""
    answers_questions: bool = True
    """Whether the client sees and answers questions about calls, besides the forms of the canvas."""


EndStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "waiting", "drained"]
"""``running`` until the end; ``waiting`` if an answer is needed; ``drained`` if the run can continue elsewhere."""

BUSY_POLL_S = 0.05
"""The interval between attempts to acquire a busy session."""

AWAY_S = 3.0
"""How long the end of a run waits for a store that has failed. What is left to do then goes on beside it."""
_EXITING: set[asyncio.Task[None]] = set()

_DURABLE_STATUSES = ("succeeded", "waiting", "drained")
"""Statuses whose last checkpoint was stored, which proves that the lease was current."""


class HeldSession(AbstractAsyncContextManager[None]):
    """A block that holds the session of a run and, at its end, records how the run has ended.

    Without a store, there is nothing to hold.
    """

    def __init__(
        self, options: PlayOptions, id_: str, run_id: str, config: Any, turn: TurnContext, observer: CallObserver
    ) -> None:
        self._options = options
        self._run_id = run_id
        self._turn = turn
        self._observer = observer
        self._lease: Lease | None = None
        self._watches: AsyncExitStack | None = None
        self._ended: RunRecord | None = None
        self.id = id_
        self.config = config
        """LangGraph's config for the session. Inside the block, it contains the token of the lease."""
        self.lease_token = 0
        self.is_lost = False
        """Whether another runner has taken over the session."""
        self.record: RunRecord | None = None
        """The record of the run, if it has begun."""
        self.status: EndStatus = "running"
        self.error: str | None = None

    async def __aenter__(self) -> None:
        """Acquire the session, and watch for cancellation."""
        store = self._options.store
        if store is None:
            return
        clock, busy_s = self._options.services.clock, self._options.busy_s
        lease, has_waited = await acquire_lease(store.leases, self.id, self.lose, clock, busy_s)
        self._lease = lease
        try:
            self.lease_token = lease.token
            self.config = with_lease_token(self.config, lease.token)
            self._turn.steps = step_store(self._options.canvas, self.config)
            self._observer.hold(partial(store.leased, self.config))
            self._watches = AsyncExitStack()
            for name in (self.id, self._run_id):
                await self._watches.enter_async_context(store.cancels.watch(name, self._turn.cancel))
            if has_waited and await store.cancels.is_requested(self._run_id):
                self._turn.cancel()
        except BaseException:
            if self._watches is not None:
                await self._watches.aclose()
            await self._leave(store, has_failed=True)
            raise

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Store the record of the run, which ``error`` has ended if any, and release the session.

        If the store has failed, it may be away: each command would wait for it as long as the one that has failed.
        """
        store = self._options.store
        if store is None or self._watches is None:
            return
        if not isinstance(error, CheckpointError):
            await self._exit(store, self._watches, error)
            return
        exiting = asyncio.create_task(self._exit(store, self._watches, error))
        _EXITING.add(exiting)
        exiting.add_done_callback(_EXITING.discard)
        if (await asyncio.wait([exiting], timeout=AWAY_S))[0]:
            exiting.result()

    async def _exit(self, store: SessionStore, watches: AsyncExitStack, error: BaseException | None) -> None:
        has_failed = True
        try:
            if isinstance(error, RagflowLgError):
                self.fail(error)
            try:  # report only the first error
                with suppress(CheckpointError) if error is not None else nullcontext():
                    await self._end_record(store)
            finally:
                await watches.aclose()
            has_failed = error is not None
        finally:
            await self._leave(store, has_failed=has_failed)

    async def begin(self, record: RunRecord) -> None:
        """Store the record of the run with its first step: there is none of a run that nothing can continue."""
        self.record, store = record, self._options.store
        if store is not None:
            store.attach(self.config, partial(store.runs.put, record))

    def fail(self, error: RagflowLgError) -> None:
        """Set the status of a run that an error has ended, unless it has ended before."""
        if self.status == "running":
            self.status, self.error = "failed", str(error)

    def lose(self) -> None:
        """Stop without further writes: another runner has taken over the session."""
        self.is_lost = True
        self._turn.cancel()

    async def require_newest(self, run_id: str) -> None:
        """Check that no other run has followed this one.

        Raises:
            ConflictError: If the session has gone on.
        """
        store = self._options.store
        newest = await newest_run(store, self.id) if store is not None else None
        if newest is not None and newest.run_id != run_id:
            raise ConflictError("Another turn has followed the one that this request continues.")

    async def is_unrecorded(self) -> bool:
        """Return whether the process of the last run has stored steps of it, but died before it recorded its end."""
        store = self._options.store
        if store is None:
            return False
        is_newest, newest_step = True, await store.newest_checkpoint(self.config)
        async for record in store.runs.of_session(self.id):
            if is_newest and record.status != "running":
                return False
            if record.checkpoint:
                return record.checkpoint != newest_step
            is_newest = False
        return not is_newest

    async def store_success(self, end: TurnFinished) -> None:
        """Store the end of a turn and release the session, in one transaction."""
        store, lease = self._options.store, self._lease
        if store is None or lease is None or self.record is None:
            return
        ended = await self._ended_record(store, self.record, end.status, end.error)
        works = await self._observer.last_works()
        try:
            async with store.leased(self.config):
                for work in (*works, partial(store.runs.put, ended), lease.release):
                    await work()
        except CheckpointError:
            if not await is_recorded(store.runs, ended):
                raise
        self._lease = None

    async def _end_record(self, store: SessionStore) -> None:
        """Find out what is recorded of the end, if it has not been recorded yet."""
        lease = self._lease
        if lease is None:
            return
        # A suspended process notices a lost lease late.
        is_stored = self.status in _DURABLE_STATUSES and not self._turn.is_stopping
        if not is_stored and not await lease.is_ours():
            self.is_lost = True
        await self._observer.flush_trace(is_lost=self.is_lost)
        if self.record is not None and not self.is_lost:
            self._ended = await self._ended_record(store, self.record, self.status, self.error)

    async def _ended_record(
        self, store: SessionStore, record: RunRecord, end: EndStatus, error: str | None
    ) -> RunRecord:
        """Return the record of a run that has ended. A drained run is still running."""
        statuses: dict[EndStatus, RunStatus] = {
            "succeeded": "succeeded",
            "failed": "failed",
            "waiting": "waiting",
            "drained": "running",
        }
        status = statuses.get(end, "cancelled")
        checkpoint = await store.newest_checkpoint(self.config)
        now_ms = int(self._options.services.clock.now() * 1000)
        return replace(
            record,
            status=status,
            reason=error or "",
            checkpoint=checkpoint,
            is_cancel_requested=status == "cancelled",
            updated_ms=now_ms,
            ended_ms=now_ms if status in ("succeeded", "failed", "cancelled") else 0,
        )

    async def _leave(self, store: SessionStore, *, has_failed: bool) -> None:
        """Store the record, unless the run has not begun, and release the session. Report only the first error."""
        lease = self._lease
        if lease is None:
            return
        with suppress(CheckpointError) if has_failed else nullcontext():
            if self._ended is None:
                await lease.release()
            else:  # if the caller is cancelled, the end is stored nevertheless
                await asyncio.shield(self._store_end(store, self._ended, lease))

    async def _store_end(self, store: SessionStore, ended: RunRecord, lease: Lease) -> None:
        try:
            async with store.leased(self.config):
                await store.runs.put(ended)
                await lease.release()
        except CheckpointError:  # a store that is full, for example, may still end a lease
            await lease.release()
            raise


async def acquire_lease(
    leases: Leases, session: str, on_lost: Callable[[], None], clock: Clock, busy_s: float
) -> tuple[Lease, bool]:
    """Acquire a session's lease, retrying for ``busy_s`` seconds. Return it, and whether it was not free at once.

    Clients receive the end of a turn slightly before its lease is released.
    """
    deadline, has_waited = clock.monotonic() + busy_s, False
    while True:
        try:
            return await leases.acquire(session, on_lost), has_waited
        except SessionBusyError:
            if clock.monotonic() >= deadline:
                raise
            has_waited = True
            await asyncio.sleep(BUSY_POLL_S)


async def is_recorded(runs: Runs, ended: RunRecord) -> bool:
    """Return whether the store has the end of a run, although its answer was lost: a second attempt has no lease."""
    with suppress(CheckpointError):
        record = await runs.get(ended.run_id)
        return record is not None and record.status == ended.status
    return False


async def newest_run(store: SessionStore, session: str) -> RunRecord | None:
    """Return the record of the last run in a session, if the store has one."""
    async for record in store.runs.of_session(session):
        return record
    return None


def step_store(canvas: CompiledCanvas, config: Any) -> Steps | None:
    """Return the store for steps, which only `CanvasSaver` has."""
    graph: Any = canvas.graph
    saver = graph.checkpointer
    return saver.steps(config) if hasattr(saver, "steps") else None
