"""One runner per session: leases with fencing tokens that only grow.

A lease lasts 15 s and is renewed every 5 s. A runner that cannot renew in time stops; what it may still try to write
is refused by its token. A dead owner on this machine is replaced at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from msgspec import Struct

from ragflow_lg.base.errors import SessionBusyError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints.failures import store_failure
from ragflow_lg.checkpoints.lease_owner import Owner, parse_owner, this_process
from ragflow_lg.services.services import Clock

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.sqlite.sqlite_file import SqliteFile

__all__ = ["LeaseTable", "MemoryTable", "SqliteTable", "StoredLease", "StoredLeases", "Taken"]

LEASE_S = 15.0
RENEW_S = 5.0
TOKEN_TTL_S = 90 * 24 * 3600


class Taken(Struct, frozen=True):
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

    async def find(self, session: str) -> Taken | None:
        """Give who has the session: nobody if the lease has ended or run out."""
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

    async def is_ours(self) -> bool:
        """Ask the store whether nobody else holds the session; a store that fails says nothing against it."""
        with suppress(*self._leases.table.errors, TimeoutError):
            async with asyncio.timeout(self._leases.renew_s):
                self._is_lost = self._is_lost or not await self._leases.table.renew(self._session, self._token)
        return not self._is_lost

    async def release(self) -> None:
        """Give the session back."""
        self._renewing.cancel()  # not awaited: whoever is cancelled here must not keep the session
        if not self._is_lost:
            await self._leases.free(self._session, self._token)

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
        self._pending: set[asyncio.Future[Any]] = set()
        """What nobody waits for any more and has to end all the same."""

    async def acquire(self, session: str, on_lost: Callable[[], None]) -> StoredLease:
        """Take a session.

        Raises:
            SessionBusyError: if another live runner has it.
            CheckpointError: if the store fails.
        """
        session = session_of_thread(thread_of_session(session))
        taking = asyncio.create_task(self._take(session))
        try:
            taken = await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The store may give the session all the same; nobody would have it then.
            self._keep(asyncio.create_task(self._give_back(session, taking)))
            raise
        except self.table.errors as error:
            raise store_failure("The session cannot be leased", error) from error
        if isinstance(taken, Taken):
            told = "The session is being run already. Wait until its turn ends, or cancel it."
            raise SessionBusyError(told, _shown(taken))
        return StoredLease(self, session, taken, on_lost)

    async def _take(self, session: str) -> int | Taken:
        owner = this_process()
        taken = await self.table.take(session, owner, 0)
        if isinstance(taken, Taken) and taken.owner is not None and taken.owner.is_dead:
            taken = await self.table.take(session, owner, taken.token)
        return taken

    async def _give_back(self, session: str, taking: asyncio.Task[int | Taken]) -> None:
        with suppress(*self.table.errors):
            token = await taking
            if not isinstance(token, Taken):
                await self.free(session, token)

    def _keep(self, pending: asyncio.Future[Any]) -> None:
        self._pending.add(pending)
        pending.add_done_callback(self._pending.discard)

    async def settle(self) -> None:
        """Wait for what is still to be given back, before the store is closed."""
        while self._pending:
            await asyncio.wait(self._pending)

    async def free(self, session: str, token: int) -> None:
        """End a lease, as far as the store lets us: else it runs out by itself."""
        with suppress(*self.table.errors, TimeoutError):
            async with asyncio.timeout(self.renew_s):
                await self.table.free(session, token)

    async def holder(self, session: str) -> str:
        """Name who runs a session, for people; ``""`` if nobody does, or whoever did is dead.

        Raises:
            CheckpointError: if the store fails.
        """
        try:
            taken = await self.table.find(session_of_thread(thread_of_session(session)))
        except self.table.errors as error:
            raise store_failure("The lease of the session cannot be read", error) from error
        return "" if taken is None or (taken.owner is not None and taken.owner.is_dead) else _shown(taken)


def _shown(taken: Taken) -> str:
    return taken.owner.shown if taken.owner else "another runner"


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

    async def find(self, session: str) -> Taken | None:
        """Give who has the session."""
        return Taken(self._owners[session], self._tokens[session]) if session in self._owners else None

    async def renew(self, session: str, token: int) -> bool:
        """A lease in memory does not run out."""
        return self._tokens.get(session) == token

    async def free(self, session: str, token: int) -> None:
        """End a lease."""
        if self._tokens.get(session) == token:
            self._owners.pop(session, None)


_WHOLE = (
    "typeof(owner) = 'text' AND typeof(token) = 'integer' AND token < 1 << 62"
    " AND typeof(expires_ms) = 'integer' AND typeof(expires_uptime_ms) = 'integer'"
)
"""What holds of a row of ``leases`` that nobody has damaged. A damaged one is free to take."""


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


class SqliteTable:
    """Leases in the table ``leases``.

    A lease of this machine runs out by the time since it was started, which no change of the clock can move; one of
    another machine by the clock.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)

    def __init__(self, file: SqliteFile, clock: Clock, path: Path, lease_s: float = LEASE_S) -> None:
        """``path`` is where the file lies."""
        self._rows = file.rows
        self._clock = clock
        self._lease_ms = int(lease_s * 1000)
        self._path = path
        self._place = _file_at(path)

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | Taken:
        """Take a session that is free, whose lease has run out, or whose owner is dead."""
        if not self._is_in_place():
            raise sqlite3.OperationalError("its file has been deleted or replaced; start again")
        thread, (now, uptime), here = thread_of_session(session), self._times(), f"{owner.machine}|"
        until = (now + self._lease_ms, uptime + self._lease_ms)
        taken = await self._rows(
            "INSERT INTO leases VALUES (?, 1, ?, ?, ?) ON CONFLICT (thread_id) DO UPDATE SET"
            f" token = CASE WHEN {_WHOLE} THEN token + 1 ELSE 1 END,"
            " owner = excluded.owner, expires_ms = excluded.expires_ms,"
            " expires_uptime_ms = excluded.expires_uptime_ms"
            f" WHERE NOT ({_WHOLE}) OR owner = '' OR token = ? OR CASE WHEN substr(owner, 1, ?) = ?"
            " THEN expires_uptime_ms < ? ELSE expires_ms < ? END RETURNING token",
            (thread, str(owner), *until, dead_token, len(here), here, uptime, now),
        )
        if taken:
            return int(taken[0][0])
        held = await self._rows("SELECT token, owner FROM leases WHERE thread_id = ?", (thread,))
        return Taken(parse_owner(held[0][1]), int(held[0][0])) if held else Taken(None, 0)

    async def find(self, session: str) -> Taken | None:
        """Give who has the session: nobody if the lease has ended or run out."""
        query = f"SELECT token, owner, expires_ms, expires_uptime_ms FROM leases WHERE thread_id = ? AND {_WHOLE}"
        found = await self._rows(query, (thread_of_session(session),))
        if not found or not found[0][1]:
            return None
        row = found[0]
        (now, uptime), is_here = self._times(), row[1].startswith(f"{this_process().machine}|")
        has_run_out = row[3] < uptime if is_here else row[2] < now
        return None if has_run_out else Taken(parse_owner(row[1]), int(row[0]))

    async def renew(self, session: str, token: int) -> bool:
        """Lengthen a lease."""
        if not self._is_in_place():
            return False
        until = [time + self._lease_ms for time in self._times()]
        return await self._change(session, token, "expires_ms = ?, expires_uptime_ms = ?", *until)

    async def free(self, session: str, token: int) -> None:
        """End a lease; the token stays, so that the next one is larger."""
        await self._change(session, token, "owner = ?", "")

    def _is_in_place(self) -> bool:
        """Whether the file is not deleted, nor another one by now, in which somebody else may have the session."""
        return _file_at(self._path) == self._place

    async def _change(self, session: str, token: int, what: str, *values: Any) -> bool:
        query = f"UPDATE leases SET {what} WHERE thread_id = ? AND token = ? AND owner <> '' RETURNING 1"
        return bool(await self._rows(query, (*values, thread_of_session(session), token)))

    def _times(self) -> tuple[int, int]:
        return int(self._clock.now() * 1000), int(self._clock.monotonic() * 1000)
