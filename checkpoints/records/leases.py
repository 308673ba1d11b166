"""One runner per session: leases with monotonically increasing fencing tokens.

A lease lasts 30 s and is renewed every 5 s. A runner that cannot renew its lease in time stops, and its outdated token
makes the store refuse later writes. If a process on this machine has died, its lease is replaced at once. A server that
takes over the runs of another one, which has stopped reporting, ends its leases.

The stores compare the token with each write (`ragflow_lg.checkpoints.steps.thread_tables`): databases in the
transaction of the write (`ragflow_lg.checkpoints.sql`), Redis in its script.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SessionBusyError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.failures import store_failure, translate_errors

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
    """Storage for leases, which expire by the store's clock. Each method is atomic."""

    lease_ms: int
    """How long a lease lasts."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that the methods raise when the store fails."""
        ...

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | LeaseHolder:
        """Return the new token, or the current holder. A lease whose token is ``dead_token`` is replaced.

        A token is larger than all before, also than those before `forget`, and clears the session's request to cancel.
        """
        ...

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease, or None if the lease has ended or expired."""
        ...

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease; return False if another owner has it."""
        ...

    async def free(self, session: str, token: int) -> None:
        """End the lease if its token is still this one, in the open transaction if any."""
        ...

    async def forget(self, session: str) -> None:
        """Delete what remains of the leases of a session that is not leased."""
        ...


class StoredLease:
    """A lease that belongs to this process. A task renews it."""

    def __init__(self, leases: StoredLeases, session: str, token: int, on_lost: Callable[[], None]) -> None:
        self._leases = leases
        self._session = session
        self.token = token
        """The fencing token."""
        self._on_lost = on_lost
        self._is_lost = False
        # In a context of its own, without the open transaction of the run.
        self._renewal = asyncio.create_task(self._renew(), context=Context())

    async def is_ours(self) -> bool:
        """Ask the store whether the lease is still ours. If the store fails, assume that it is."""
        with suppress(*self._leases.table.errors, TimeoutError):
            self._is_lost = self._is_lost or not await self._renew_once()
        return not self._is_lost

    async def release(self) -> None:
        """End the lease."""
        self._renewal.cancel()  # not awaited, so that a caller cancelled here does not keep the session
        if not self._is_lost:
            await self._leases.free(self._session, self.token)

    async def _renew_once(self) -> bool:
        async with asyncio.timeout(self._leases.renew_s):  # a store may stop answering
            return await self._leases.table.renew(self._session, self.token)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        renewed_s = loop.time()
        while True:
            await asyncio.sleep(self._leases.renew_s)
            requested_s = loop.time()
            try:
                is_ours = await self._renew_once()
            except (*self._leases.table.errors, TimeoutError):
                is_ours = loop.time() - renewed_s < self._leases.lease_s  # the store may recover in time
            else:
                renewed_s = requested_s
            if not is_ours:
                self._is_lost = True
                self._on_lost()
                return


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
        return StoredLease(self, session, result, on_lost)

    async def _take(self, session: str, dead_token: int) -> int | LeaseHolder:
        attempt = asyncio.create_task(self.table.take(session, this_process(), dead_token))
        try:
            return await asyncio.shield(attempt)
        except asyncio.CancelledError:
            # The store may still grant the lease, although nothing would use it.
            undoing = asyncio.create_task(self._undo(session, attempt))
            self._pending.add(undoing)
            undoing.add_done_callback(self._pending.discard)
            raise

    async def _undo(self, session: str, attempt: asyncio.Future[int | LeaseHolder]) -> None:
        with suppress(*self.table.errors):
            token = await attempt
            if not isinstance(token, LeaseHolder):
                await self.free(session, token)

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


_HIDDEN_START = "running"
"""Start time used for a process that exists but whose start time cannot be read."""


class Owner(Struct, frozen=True):
    """A process. ``machine`` also distinguishes containers that have their own process ids."""

    machine: str
    pid: int
    start_time: str

    def __str__(self) -> str:
        return f"{self.machine}|{self.pid}|{self.start_time}"

    @property
    def label(self) -> str:
        """A readable description of the process."""
        return f"process {self.pid} on {self.machine.partition('/')[0]}"

    @property
    def is_dead(self) -> bool:
        """Whether the process ran on this machine and has ended. Always False for other machines."""
        return self.machine == _machine() and _start_time(self.pid) not in (self.start_time, _HIDDEN_START)


def this_process() -> Owner:
    """Return this process as an owner."""
    return _process(os.getpid())  # differs after a fork


@cache
def _process(pid: int) -> Owner:
    return Owner(_machine(), pid, _start_time(pid))


def parse_owner(text: str) -> Owner | None:
    """Parse an owner; return None if the text is invalid."""
    machine, _, rest = text.rpartition("|")[0].rpartition("|")
    start_time = text.rpartition("|")[2]
    return Owner(machine, int(rest), start_time) if machine and rest.isascii() and rest.isdigit() else None


def _machine() -> str:
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    return "/".join(parts)


def _start_time(pid: int) -> str:
    """Return the start time of a process, or ``""`` if it has ended.

    The start time distinguishes the process from a later one with the same id.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _HIDDEN_START if _exists(pid) else ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _exists(pid: int) -> bool:
    """Check whether a process exists, where /proc is missing or hides it.

    On Windows, `os.kill` would end the process instead: every process is taken for alive there, so that the lease of a
    dead one has to expire.
    """
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
