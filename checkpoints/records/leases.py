"""One runner per session: leases with monotonically increasing fencing tokens.

A lease lasts 30 s and is renewed every 5 s. A runner that cannot renew its lease in time stops, and its outdated token
makes the store refuse later writes. If a process on this machine has died, its lease is replaced at once. A server that
takes over the runs of another one, which has stopped reporting, ends its leases.

The stores compare the token with each write (`ragflow_lg.checkpoints.steps.preconditions`): SQLite in the transaction
of the write (`ragflow_lg.checkpoints.sqlite.sqlite_saver`), and so does PostgreSQL
(`ragflow_lg.checkpoints.postgresql.postgresql_database`); Redis in a script
(`ragflow_lg.checkpoints.redis.redis_sessions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SessionBusyError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.failures import store_failure, translate_errors
from ragflow_lg.checkpoints.records.lease_owner import Owner, this_process

LEASE_S = 30.0
RENEW_S = 5.0
TOKEN_TTL_S = 90 * 24 * 3600
MAX_UNFREED = 10_000
"""How many leases are remembered that could not be ended."""


class LeaseHolder(Struct, frozen=True):
    """The current lease of a session."""

    owner: Owner | None
    token: int


class LeaseTable(Protocol):
    """Storage for leases. Each method is atomic."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """Exceptions that the methods raise when the store fails."""

    def take(self, session: str, owner: Owner, dead_token: int) -> Awaitable[int | LeaseHolder]:
        """Return the new token, or the current holder. A lease whose token is ``dead_token`` is replaced."""
        ...

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease, or None if the lease has ended or expired."""
        ...

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease; return False if another owner has it."""
        ...

    async def free(self, session: str, token: int) -> None:
        """End the lease if its token is still this one."""
        ...

    async def forget(self, session: str) -> None:
        """Delete what remains of the leases of a session that is not leased."""
        ...


class StoredLease:
    """A lease that belongs to this process."""

    def __init__(self, leases: StoredLeases, session: str, token: int, on_lost: Callable[[], None]) -> None:
        self._leases = leases
        self._session = session
        self.token = token
        """The fencing token."""
        self._on_lost = on_lost
        self._is_lost = self._is_released = False
        self.renewed_s = asyncio.get_running_loop().time()
        """When the lease was acquired or last renewed, by the event loop's clock."""
        self._renewal: asyncio.Task[None] | None = None

    async def is_ours(self) -> bool:
        """Ask the store whether the lease is still ours. If the store fails, assume that it is."""
        with suppress(*self._leases.table.errors, TimeoutError):
            async with asyncio.timeout(self._leases.renew_s):
                self._is_lost = self._is_lost or not await self._leases.table.renew(self._session, self.token)
        return not self._is_lost

    async def release(self) -> None:
        """End the lease."""
        self._is_released = True
        self._leases.stop_renewing(self)
        if self._renewal is not None:
            self._renewal.cancel()  # not awaited, so that a caller cancelled here does not keep the session
        if not self._is_lost:
            await self._leases.free(self._session, self.token)

    def begin_renewal(self) -> None:
        """Renew the lease in a task."""
        self._renewal = asyncio.create_task(self._renew(), context=Context())

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        requested_s = loop.time()
        try:
            async with asyncio.timeout(self._leases.renew_s):  # a store may stop answering
                is_ours = await self._leases.table.renew(self._session, self.token)
        except (*self._leases.table.errors, TimeoutError):
            is_ours = loop.time() - self.renewed_s < self._leases.lease_s  # the store may recover in time
        else:
            self.renewed_s = requested_s
        if self._is_released:
            return
        if is_ours:
            self._leases.renew_later(self)
        else:
            self._is_lost = True
            self._on_lost()


class StoredLeases:
    """Leases stored in any `LeaseTable`. All methods raise CheckpointError if the store fails."""

    def __init__(self, table: LeaseTable, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S) -> None:
        self.table = table
        self.lease_s = lease_s
        self.renew_s = renew_s
        self._pending: set[asyncio.Future[Any]] = set()
        """Tasks that must finish although no caller is waiting for them."""
        self._unfreed: dict[str, int] = {}
        """The tokens of leases that this process has released, but the store has not ended, by session."""
        self._due: dict[StoredLease, float] = {}
        """When leases are to be renewed, the next one first."""
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> StoredLease:
        """Acquire a session's lease.

        Raises:
            SessionBusyError: if another live runner holds it.
            CheckpointError: if the store fails.
        """
        session = session_of_thread(thread_of_session(session))
        try:
            result = await self._take(session, self._unfreed.get(session, 0))
            if isinstance(result, LeaseHolder) and result.owner is not None and result.owner.is_dead:
                result = await self._take(session, result.token)
        except self.table.errors as error:
            raise store_failure("The session cannot be leased", error) from error
        if isinstance(result, LeaseHolder):
            text = "The session is already running. Wait until its turn ends, or cancel it."
            raise SessionBusyError(text, _describe(result))
        self._unfreed.pop(session, None)
        lease = StoredLease(self, session, result, on_lost)
        self.renew_later(lease)
        return lease

    def renew_later(self, lease: StoredLease) -> None:
        """Renew a lease after `renew_s`. All leases share a timer."""
        loop = asyncio.get_running_loop()
        self._due[lease] = loop.time() + self.renew_s
        if self._timer is None:
            self._timer = loop.call_later(self.renew_s, self._begin_renewals, context=Context())

    def stop_renewing(self, lease: StoredLease) -> None:
        """Do not renew a lease any more."""
        self._due.pop(lease, None)
        if not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_renewals(self) -> None:
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        for lease, due_s in list(self._due.items()):
            if due_s > now:
                self._timer = loop.call_at(due_s, self._begin_renewals, context=Context())
                return
            del self._due[lease]
            lease.begin_renewal()

    async def _take(self, session: str, dead_token: int) -> int | LeaseHolder:
        attempt = asyncio.ensure_future(self.table.take(session, this_process(), dead_token))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            # The store may still grant the lease, although nothing would use it.
            self._track(asyncio.create_task(self._undo(session, attempt)))
            raise

    async def _undo(self, session: str, attempt: asyncio.Future[int | LeaseHolder]) -> None:
        with suppress(*self.table.errors):
            token = await attempt
            if not isinstance(token, LeaseHolder):
                await self.free(session, token)

    def _track(self, pending: asyncio.Future[Any]) -> None:
        self._pending.add(pending)
        pending.add_done_callback(self._pending.discard)

    async def settle(self) -> None:
        """Wait until all abandoned leases have been released. Call this before closing the store."""
        while self._pending:
            await asyncio.wait(self._pending)

    async def free(self, session: str, token: int) -> None:
        """End a lease. If the store fails, only this process can lease the session before the lease expires."""
        self._unfreed[session] = token
        if len(self._unfreed) > MAX_UNFREED:
            del self._unfreed[next(iter(self._unfreed))]
        with suppress(*self.table.errors, TimeoutError):
            async with asyncio.timeout(self.renew_s):
                await self.table.free(session, token)
            self._unfreed.pop(session, None)

    async def expire(self, session: str, owner: str) -> None:
        """End the session's lease if this process has it. The store then refuses the writes of the process."""
        session = session_of_thread(thread_of_session(session))
        with translate_errors(*self.table.errors):
            holder = await self.table.find(session)
            if holder is not None and str(holder.owner) == owner:
                await self.table.free(session, holder.token)

    async def forget(self, session: str) -> None:
        """Delete what remains of a deleted session's leases."""
        with translate_errors(*self.table.errors):
            await self.table.forget(session_of_thread(thread_of_session(session)))

    async def holder(self, session: str) -> str:
        """Describe the process that is running a session. Returns ``""`` if there is no such process or it is dead."""
        session = session_of_thread(thread_of_session(session))
        try:
            holder = await self.table.find(session)
        except self.table.errors as error:
            raise store_failure("The session's lease cannot be read", error) from error
        if holder is None or (holder.owner is not None and holder.owner.is_dead):
            return ""
        return "" if holder.token == self._unfreed.get(session) else _describe(holder)


def _describe(holder: LeaseHolder) -> str:
    return holder.owner.label if holder.owner else "another runner"
