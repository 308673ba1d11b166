import asyncio
import sqlite3
from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.lease_owner import Owner
from ragflow_lg.checkpoints.records.leases import LEASE_S, StoredLeases
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.sqlite.sqlite_store import SqliteLeaseTable


def nothing() -> None:
    pass


def _hex(session: str) -> str:
    return thread_of_session(session).replace("-", "")


class AdjustableClock:
    """The system clock, plus a shift of the time of day."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def now(self) -> float:
        return SystemClock().now() + self.shift_s

    def monotonic(self) -> float:
        return SystemClock().monotonic()

    def local_time(self) -> str:
        return ""


async def test_a_clock_change_does_not_end_the_lease_of_a_live_process(tmp_path: Path) -> None:
    clock = AdjustableClock()
    async with open_sqlite(tmp_path / "s.db") as file:
        table = SqliteLeaseTable(file, clock)
        first = StoredLeases(table)
        lease = await first.acquire("anna", nothing)
        for jump in (86_400.0, -86_400.0):
            clock.shift_s = jump
            with pytest.raises(ConflictError):
                await StoredLeases(table).acquire("anna", nothing)
            assert await first.holder("anna")
            assert await table.renew(_hex("anna"), lease.token)
        await lease.release()


async def test_a_lease_of_another_machine_expires(tmp_path: Path) -> None:
    clock = AdjustableClock()
    async with open_sqlite(tmp_path / "s.db") as file:
        table = SqliteLeaseTable(file, clock)
        elsewhere = Owner("another-host", 1, "1")
        first = await table.take(_hex("anna"), elsewhere, 0)
        assert isinstance(first, int)
        with pytest.raises(SessionBusyError, match="already running") as error:
            await StoredLeases(table).acquire("anna", nothing)
        assert "another-host" in error.value.holder
        assert await StoredLeases(table).holder("anna") == "process 1 on another-host"
        clock.shift_s = LEASE_S + 1
        assert await StoredLeases(table).holder("anna") == ""
        lease = await StoredLeases(table).acquire("anna", nothing)
        assert lease.token > first
        await lease.release()


async def test_a_lease_that_cannot_be_renewed_is_lost(tmp_path: Path) -> None:
    lost: list[int] = []
    async with open_sqlite(tmp_path / "s.db") as file:
        leases = StoredLeases(SqliteLeaseTable(file, SystemClock()), lease_s=0.2, renew_s=0.05)
        await leases.acquire("anna", lambda: lost.append(1))
        await file.rows("ALTER TABLE leases RENAME TO gone")
        async with asyncio.timeout(60):
            while not lost:
                await asyncio.sleep(0.01)
        with pytest.raises(CheckpointError, match="cannot be leased"):
            await leases.acquire("ben", nothing)
        with pytest.raises(CheckpointError, match="cannot be read"):
            await leases.holder("ben")


@pytest.mark.parametrize(
    "damage",
    [
        "owner = x'ff'",
        "token = 'abc'",
        "expires_ms = 'x', expires_uptime_ms = x'00'",
        "token = 1 << 62",
    ],
)
async def test_a_damaged_lease_counts_as_free(tmp_path: Path, damage: str) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        await store.leases.acquire("anna", nothing)
        with sqlite3.connect(tmp_path / "s.db") as connection:
            connection.execute(f"UPDATE leases SET {damage}")
        assert await store.leases.holder("anna") == ""
        await store.delete_session("anna")
        assert (await store.leases.acquire("anna", nothing)).token > 0


async def test_a_lease_in_a_deleted_file_is_lost(tmp_path: Path) -> None:
    lost: list[int] = []
    async with open_sqlite(tmp_path / "s.db") as file:
        table = SqliteLeaseTable(file, SystemClock())
        await StoredLeases(table, renew_s=0.02).acquire("anna", lambda: lost.append(1))
        await asyncio.sleep(0.1)
        assert not lost
        (tmp_path / "s.db").unlink()
        async with asyncio.timeout(60):
            while not lost:
                await asyncio.sleep(0.01)


async def test_a_deleted_or_replaced_file_grants_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(f"sqlite:///{path}", SystemClock()) as store:
        path.unlink()
        with pytest.raises(CheckpointError, match="has been deleted or replaced"):
            await store.leases.acquire("anna", nothing)
        async with open_store(f"sqlite:///{path}", SystemClock()) as other:
            await (await other.leases.acquire("anna", nothing)).release()
            with pytest.raises(CheckpointError, match="has been deleted or replaced"):
                await store.leases.acquire("anna", nothing)
