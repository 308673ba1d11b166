import asyncio
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.leases import Owner, StoredLeases
from ragflow_lg.checkpoints.sql.sql_records import SqlLeaseTable
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite


def nothing() -> None:
    pass


def _hex(session: str) -> str:
    return thread_of_session(session).replace("-", "")


async def test_a_lease_of_another_machine_expires(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        table = SqlLeaseTable(file)
        elsewhere = Owner("another-host", 1, "1")
        first = await table.take(_hex("anna"), elsewhere, 0)
        assert isinstance(first, int)
        with pytest.raises(SessionBusyError, match="already running") as error:
            await StoredLeases(table).acquire("anna", nothing)
        assert "another-host" in error.value.holder
        assert await StoredLeases(table).holder("anna") == "process 1 on another-host"
        await file.read("UPDATE leases SET expires_ms = expires_ms - 31000")
        assert await StoredLeases(table).holder("anna") == ""
        lease = await StoredLeases(table).acquire("anna", nothing)
        assert lease.token > first
        await lease.release()


async def test_a_lease_that_cannot_be_renewed_is_lost(tmp_path: Path) -> None:
    lost: list[int] = []
    async with open_sqlite(tmp_path / "s.db") as file:
        leases = StoredLeases(SqlLeaseTable(file), lease_s=0.2, renew_s=0.05)
        await leases.acquire("anna", lambda: lost.append(1))
        await file.read("ALTER TABLE leases RENAME TO gone")
        async with asyncio.timeout(60):
            while not lost:
                await asyncio.sleep(0.01)
        with pytest.raises(CheckpointError, match="cannot be leased"):
            await leases.acquire("ben", nothing)
        with pytest.raises(CheckpointError, match="cannot be read"):
            await leases.holder("ben")


async def test_a_lease_in_a_deleted_file_is_lost(tmp_path: Path) -> None:
    lost: list[int] = []
    async with open_sqlite(tmp_path / "s.db") as file:
        table = SqlLeaseTable(file)
        await StoredLeases(table, lease_s=2.0, renew_s=0.02).acquire("anna", lambda: lost.append(1))
        await asyncio.sleep(0.1)
        assert not lost
        (tmp_path / "s.db").unlink()
        async with asyncio.timeout(60):
            while not lost:
                await asyncio.sleep(0.01)


async def test_a_deleted_or_replaced_file_grants_no_lease(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(f"sqlite:///{path}") as store:
        path.unlink()
        with pytest.raises(CheckpointError, match="has been deleted or replaced"):
            await store.leases.acquire("anna", nothing)
        async with open_store(f"sqlite:///{path}") as other:
            await (await other.leases.acquire("anna", nothing)).release()
            with pytest.raises(CheckpointError, match="has been deleted or replaced"):
                await store.leases.acquire("anna", nothing)
