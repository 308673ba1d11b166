import asyncio
import os
from contextlib import ExitStack, suppress

import pytest

from ragflow_lg.base.errors import CheckpointError, ConflictError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.records.leases import Owner, StoredLeases, this_process
from ragflow_lg.checkpoints.sql.sql_records import SqlLeaseTable
from ragflow_lg.checkpoints.sql.sql_tables import SqlTables
from ragflow_lg.services.sessions import with_lease_token
from tests.fakes.python_process import python_process
from tests.stores import OpenStore, checkpoint_config, fresh_prefix, put_checkpoint, stored_leases


def nothing() -> None:
    pass


async def write(store: Store, session: str, token: int | None = None) -> None:
    """Write a checkpoint with the token of a lease, or without one."""
    config = checkpoint_config(thread_of_session(session))
    await put_checkpoint(store.saver, config if token is None else with_lease_token(config, token))


async def test_a_session_has_one_runner(reopen: OpenStore) -> None:
    async with reopen() as store:
        lease = await store.leases.acquire("anna", nothing)
        with pytest.raises(SessionBusyError, match="already running") as error:
            await store.leases.acquire("anna", nothing)
        assert f"process {os.getpid()}" in error.value.holder
        other = await store.leases.acquire("ben", nothing)
        assert f"process {os.getpid()}" in await store.leases.holder("anna")
        await lease.release()
        assert [await store.leases.holder(name) for name in ("anna", "nobody")] == ["", ""]
        again = await store.leases.acquire("anna", nothing)
        assert again.token > lease.token
        await again.release()
        await other.release()


async def test_the_lease_of_a_stopped_process_is_ended(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as owner, reopen_shared() as other:
        lease = await owner.leases.acquire("anna", nothing)
        await other.leases.expire("anna", "another|1|2")
        assert await other.leases.holder("anna")
        await other.leases.expire("anna", str(this_process()))
        assert not await other.leases.holder("anna")
        with pytest.raises(CheckpointError, match="no longer holds"):
            await write(owner, "anna", lease.token)


async def test_a_writer_without_a_lease_is_rejected_while_a_lease_exists(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as owner, reopen_shared() as stranger:
        lease = await owner.leases.acquire("anna", nothing)
        await write(owner, "anna", lease.token)
        with pytest.raises(ConflictError, match="Another runner"):
            await write(stranger, "anna")
        await write(stranger, "ben")
        await lease.release()
        await write(stranger, "anna")


async def test_a_stale_runner_cannot_write(reopen_shared: OpenStore) -> None:
    """The owner counts as dead and is replaced: its later writes are rejected and its lease is lost."""
    lost: list[str] = []
    async with reopen_shared() as old, reopen_shared() as new:
        stored_leases(old).renew_s = 0.05
        lease = await old.leases.acquire("anna", lambda: lost.append("anna"))
        table = stored_leases(new).table
        if isinstance(table, SqlLeaseTable) and isinstance(new.saver.tables, SqlTables):
            await new.saver.tables.database.read("UPDATE leases SET owner = 'other|1|1'")
        new_token = await table.take(_hex("anna"), this_process(), lease.token)
        assert isinstance(new_token, int)
        assert new_token > lease.token
        with pytest.raises(ConflictError):
            await write(old, "anna", lease.token)
        async with asyncio.timeout(60):
            while not lost:
                await asyncio.sleep(0.01)
        await lease.release()
        assert await table.renew(_hex("anna"), new_token)
        await table.free(_hex("anna"), new_token)
        with pytest.raises(ConflictError):  # although the session is free now
            await write(old, "anna", lease.token)
        await write(old, "anna")


def _hex(session: str) -> str:
    return thread_of_session(session).replace("-", "")


OWNER = """
import asyncio, sys
from ragflow_lg.checkpoints import open_store
from ragflow_lg.adapters.system_services import SystemClock

async def own():
    async with open_store(sys.argv[1], prefix=sys.argv[2]) as store:
        await store.leases.acquire("anna", lambda: None)
        print("ready", flush=True)
        await asyncio.sleep(60)

asyncio.run(own())
"""


async def test_a_killed_owner_is_replaced_immediately(shared_url: str) -> None:
    prefix = fresh_prefix()
    with python_process(OWNER, shared_url, prefix) as process:
        assert process.read_line() == "ready"
        async with open_store(shared_url, prefix=prefix) as store:
            with pytest.raises(SessionBusyError, match="already running") as error:
                await store.leases.acquire("anna", nothing)
            assert f"process {process.pid}" in error.value.holder
            assert f"process {process.pid}" in await store.leases.holder("anna")
            process.kill()
            assert await store.leases.holder("anna") == ""
            async with asyncio.timeout(20):
                lease = await store.leases.acquire("anna", nothing)
            await write(store, "anna", lease.token)
            await lease.release()


async def test_an_expired_lease_is_replaced_although_its_process_lives(reopen_shared: OpenStore) -> None:
    """This happens if a release fails or its owner is cancelled."""
    async with reopen_shared() as store:
        table = stored_leases(store).table
        table.lease_ms = 200
        first = await table.take(_hex("anna"), this_process(), 0)
        assert isinstance(first, int)
        with pytest.raises(ConflictError):
            await store.leases.acquire("anna", nothing)
        await asyncio.sleep(0.3)
        lease = await store.leases.acquire("anna", nothing)
        assert lease.token > first
        await lease.release()


class SilentLeaseTable:
    """A lease table that grants every lease, and then never answers."""

    errors: tuple[type[Exception], ...] = ()
    lease_ms = 0

    async def take(self, session: str, owner: Owner, dead_token: int) -> int:
        return 1

    async def find(self, session: str) -> None:
        return None

    async def renew(self, session: str, token: int) -> bool:
        await asyncio.sleep(3600)
        return True

    async def free(self, session: str, token: int) -> None:
        await asyncio.sleep(3600)

    async def forget(self, session: str) -> None:
        pass


async def test_a_lease_is_lost_once_if_the_store_stops_answering() -> None:
    lost: list[int] = []
    lease = await StoredLeases(SilentLeaseTable(), lease_s=0.2, renew_s=0.05).acquire("anna", lambda: lost.append(1))
    async with asyncio.timeout(60):
        while not lost:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert lost == [1]
    await lease.release()


async def test_a_release_to_a_silent_store_does_not_hang() -> None:
    lease = await StoredLeases(SilentLeaseTable(), renew_s=0.05).acquire("anna", nothing)
    async with asyncio.timeout(60):
        await lease.release()


async def test_a_session_whose_lease_could_not_be_ended_is_free_for_its_process(
    reopen_shared: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        leases = stored_leases(store)

        async def fail(session: str, token: int) -> None:
            raise leases.table.errors[0]("the disk is full")

        lease = await leases.acquire("anna", nothing)
        with monkeypatch.context() as patch:
            patch.setattr(leases.table, "free", fail)
            await lease.release()
        assert await leases.holder("anna") == ""
        assert await other.leases.holder("anna")
        with pytest.raises(SessionBusyError):
            await other.leases.acquire("anna", nothing)
        again = await leases.acquire("anna", nothing)
        assert again.token > lease.token
        assert await leases.holder("anna")
        with pytest.raises(SessionBusyError):
            await leases.acquire("anna", nothing)
        await again.release()
        await (await other.leases.acquire("anna", nothing)).release()


RACER = """
import asyncio, sys
from ragflow_lg.checkpoints import open_store
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError

async def race():
    async with open_store(sys.argv[1], prefix=sys.argv[2]) as store:
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                lease = await store.leases.acquire(line.strip(), lambda: None)
            except ConflictError:
                print("busy", flush=True)
            else:
                print(lease.token, flush=True)

asyncio.run(race())
"""


def test_one_of_two_racing_processes_gets_the_session(shared_url: str) -> None:
    prefix = fresh_prefix()
    with ExitStack() as processes:
        racers = [processes.enter_context(python_process(RACER, shared_url, prefix)) for _ in range(2)]
        assert [racer.read_line() for racer in racers] == ["ready"] * 2
        for number in range(50):
            for racer in racers:
                racer.write_line(f"session {number}")
            token, busy = sorted(racer.read_line() for racer in racers)
            assert token.isdigit()
            assert busy == "busy"


async def test_an_acquisition_cancelled_at_any_point_leaves_the_session_free(reopen: OpenStore) -> None:
    async with reopen() as store:
        for ticks in range(8):
            attempt = asyncio.create_task(store.leases.acquire(f"s{ticks}", nothing))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if not attempt.cancel():
                continue
            with suppress(asyncio.CancelledError):
                await attempt
            async with asyncio.timeout(60):
                while True:
                    with suppress(ConflictError):
                        await (await store.leases.acquire(f"s{ticks}", nothing)).release()
                        break
                    await asyncio.sleep(0.01)
