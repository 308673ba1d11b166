"""One runner per session: leases with fencing tokens that only grow.

A lease lasts 15 s and is renewed every 5 s. A runner that cannot renew in time stops; what it may still try to write
is refused by its token. A dead owner on this machine is replaced at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import aiosqlite

from checkpoints.owner import Owner, parse_owner, this_process
from ragflow_lg.errors import CheckpointError, ConflictError
from ragflow_lg.ids import session_of_thread, thread_of_session
from ragflow_lg.services import Clock

__all__ = ["LeaseTable", "MemoryTable", "SqliteTable", "StoredLease", "StoredLeases", "Taken"]

LEASE_S = 15.0
RENEW_S = 5.0
TOKEN_TTL_S = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody has the session."""

    owner: Owner | None
    token: int


class LeaseTable(Protocol):
    """Where leases are kept. Each method is one step."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What the methods raise when the store fails."""

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | Taken:
        """Give the new token, or who has the session. ``dead_token`` is that of a lease which may be replaced."""
        ...

    async def renew(self, session: str, token: int) -> bool:
        """Lengthen a lease; false if it is somebody else's by now."""
        ...

    async def free(self, session: str, token: int) -> None:
        """End a lease, if it still is this one."""
        ...


class StoredLease:
    """A lease that this process holds."""

    def __init__(self, leases: StoredLeases, session: str, token: int, on_lost: Callable[[], None]) -> None:
        self._leases = leases
        self._session = session
        self._token = token
        self._on_lost = on_lost
        self._is_lost = False
        self._renewing = asyncio.create_task(self._renew())

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._token

    @property
    def is_lost(self) -> bool:
        """Whether somebody else holds the session now."""
        return self._is_lost

    async def release(self) -> None:
        """Give the session back."""
        self._renewing.cancel()  # not awaited: whoever is cancelled here must not keep the session
        if not self._is_lost:
            with suppress(*self._leases.table.errors, TimeoutError):  # it runs out by itself
                async with asyncio.timeout(self._leases.renew_s):
                    await self._leases.table.free(self._session, self._token)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(self._leases.renew_s)
            asked = loop.time()
            try:
                async with asyncio.timeout(self._leases.renew_s):  # a store may fall silent
                    is_ours = await self._leases.table.renew(self._session, self._token)
            except (*self._leases.table.errors, TimeoutError):
                is_ours = loop.time() - renewed < self._leases.lease_s  # it may come back in time
            else:
                renewed = asked
            if not is_ours:
                self._is_lost = True
                self._on_lost()
                return


class StoredLeases:
    """Gives out leases."""

    def __init__(self, table: LeaseTable, *, lease_s: float = LEASE_S, renew_s: float = RENEW_S) -> None:
        self.table = table
        self.lease_s = lease_s
        self.renew_s = renew_s

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> StoredLease:
        """Take a session.

        Raises:
            ConflictError: if another live runner has it.
            CheckpointError: if the store fails.
        """
        session = session_of_thread(thread_of_session(session))
        owner = this_process()
        try:
            taken = await self.table.take(session, owner, 0)
            if isinstance(taken, Taken) and taken.owner is not None and taken.owner.is_dead:
                taken = await self.table.take(session, owner, taken.token)
        except self.table.errors as error:
            raise CheckpointError(f"The session cannot be leased: {error}") from error
        if isinstance(taken, Taken):
            who = taken.owner.shown if taken.owner else "another runner"
            raise ConflictError(f"The session is being run by {who}. Wait until it ends, or cancel it.")
        return StoredLease(self, session, taken, on_lost)


class MemoryTable:
    """Leases of one process."""

    errors: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        self._owners: dict[str, Owner] = {}

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | Taken:
        """Take a session that nobody has."""
        token = self._tokens.get(session, 0)
        if session in self._owners and token != dead_token:
            return Taken(self._owners[session], token)
        self._tokens[session], self._owners[session] = token + 1, owner
        return token + 1

    async def renew(self, session: str, token: int) -> bool:
        """A lease in memory does not run out."""
        return self._tokens.get(session) == token

    async def free(self, session: str, token: int) -> None:
        """End a lease."""
        if self._tokens.get(session) == token:
            self._owners.pop(session, None)


class SqliteTable:
    """Leases in the table ``leases``.

    A lease of this machine runs out by the time since it was started, which no change of the clock can move; one of
    another machine by the clock.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    def __init__(self, connection: aiosqlite.Connection, clock: Clock, lease_s: float = LEASE_S) -> None:
        """``connection`` commits every statement by itself."""
        self._connection = connection
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | Taken:
        """Take a session that is free, whose lease has run out, or whose owner is dead."""
        thread, (now, uptime), here = thread_of_session(session), self._times(), f"{owner.machine}|"
        async with self._connection.execute(
            "INSERT INTO leases VALUES (?, 1, ?, ?, ?) ON CONFLICT (thread_id) DO UPDATE SET token = token + 1,"
            " owner = excluded.owner, expires_ms = excluded.expires_ms,"
            " expires_uptime_ms = excluded.expires_uptime_ms"
            " WHERE owner = '' OR token = ? OR CASE WHEN substr(owner, 1, ?) = ?"
            " THEN expires_uptime_ms < ? ELSE expires_ms < ? END RETURNING token",
            (
                *(thread, str(owner), now + self._lease_ms, uptime + self._lease_ms),
                *(dead_token, len(here), here, uptime, now),
            ),
        ) as rows:
            taken = await rows.fetchone()
        if taken is not None:
            return int(taken[0])
        async with self._connection.execute("SELECT token, owner FROM leases WHERE thread_id = ?", (thread,)) as rows:
            row = await rows.fetchone()
        return Taken(parse_owner(row[1]) if row else None, int(row[0]) if row else 0)

    async def renew(self, session: str, token: int) -> bool:
        """Lengthen a lease."""
        until = [time + self._lease_ms for time in self._times()]
        return await self._change(session, token, "expires_ms = ?, expires_uptime_ms = ?", *until)

    async def free(self, session: str, token: int) -> None:
        """End a lease; the token stays, so that the next one is larger."""
        await self._change(session, token, "owner = ?", "")

    async def _change(self, session: str, token: int, what: str, *values: Any) -> bool:
        query = f"UPDATE leases SET {what} WHERE thread_id = ? AND token = ? AND owner <> ''"
        async with self._connection.execute(query, (*values, thread_of_session(session), token)) as cursor:
            return cursor.rowcount == 1

    def _times(self) -> tuple[int, int]:
        return int(self._clock.now() * 1000), int(self._clock.monotonic() * 1000)
