import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.lease_owner import this_process
from ragflow_lg.checkpoints.leases import StoredLeases
from ragflow_lg.checkpoints.memory import MemoryLeaseTable
from ragflow_lg.checkpoints.sqlite.sqlite_leases import SqliteLeaseTable
from ragflow_lg.services.sessions import with_lease_token
from tests.stores import OpenStore, fresh_prefix

ROOT = Path(__file__).parents[2]


def nothing() -> None:
    pass


async def write(store: Store, session: str, token: int | None = None) -> None:
    """Write as the holder of a lease, or as somebody without one."""
    place: Any = {"configurable": {"thread_id": thread_of_session(session), "checkpoint_ns": ""}}
    place = place if token is None else with_lease_token(place, token)
    await store.saver.aput(place, empty_checkpoint(), {"source": "loop", "step": 1}, {})


async def test_one_runner_a_session(reopen: OpenStore) -> None:
    async with reopen() as store:
        lease = await store.leases.acquire("anna", nothing)
        with pytest.raises(SessionBusyError, match="already running") as refused:
            await store.leases.acquire("anna", nothing)
        assert f"process {os.getpid()}" in refused.value.holder
        other = await store.leases.acquire("ben", nothing)
        assert f"process {os.getpid()}" in await store.leases.holder("anna")
        await lease.release()
        assert [await store.leases.holder(name) for name in ("anna", "nobody")] == ["", ""]
        again = await store.leases.acquire("anna", nothing)
        assert again.token > lease.token
        assert not again.is_lost
        await again.release()
        await other.release()


async def test_who_has_no_lease_cannot_write_beside_one(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as owner, reopen_shared() as stranger:
        lease = await owner.leases.acquire("anna", nothing)
        await write(owner, "anna", lease.token)
        with pytest.raises(ConflictError, match="Another runner"):
            await write(stranger, "anna")
        await write(stranger, "ben")
        await lease.release()
        await write(stranger, "anna")


async def test_a_stale_runner_cannot_write(reopen_shared: OpenStore) -> None:
    """The owner is taken for dead and replaced; what it still tries to write is refused, its lease is lost."""
    lost: list[str] = []
    async with reopen_shared() as old, reopen_shared() as new:
        old.leases.renew_s = 0.05  # type: ignore[attr-defined]
        lease = await old.leases.acquire("anna", lambda: lost.append("anna"))
        table = new.leases.table  # type: ignore[attr-defined]
        if isinstance(table, SqliteLeaseTable):
            await table._rows("UPDATE leases SET owner = 'other|1|1'")  # pyright: ignore[reportPrivateUsage]
        taken = await table.take(_hex("anna"), this_process(), lease.token)
        assert taken == lease.token + 1
        with pytest.raises(ConflictError):
            await write(old, "anna", lease.token)
        async with asyncio.timeout(5):
            while not lost:
                await asyncio.sleep(0.01)
        assert lease.is_lost
        await lease.release()
        assert await table.renew(_hex("anna"), taken)
        await table.free(_hex("anna"), taken)
        with pytest.raises(ConflictError):  # though by now nobody has it
            await write(old, "anna", lease.token)
        await write(old, "anna")


def _hex(session: str) -> str:
    return thread_of_session(session).replace("-", "")


HOLDER = """
import asyncio, sys
from ragflow_lg.checkpoints import open_store
from ragflow_lg.adapters.system_services import SystemClock

async def hold():
    async with open_store(sys.argv[1], SystemClock(), prefix=sys.argv[2]) as store:
        await store.leases.acquire("anna", lambda: None)
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


@asynccontextmanager
async def holder(url: str, prefix: str) -> AsyncGenerator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, url, prefix], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_killed_owner_is_replaced_at_once(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("redis_url") if kind == "redis" else f"sqlite:///{tmp_path}/s.db"
    prefix = fresh_prefix()
    async with holder(url, prefix) as process, open_store(url, SystemClock(), prefix=prefix) as store:
        with pytest.raises(SessionBusyError, match="already running") as refused:
            await store.leases.acquire("anna", nothing)
        assert f"process {process.pid}" in refused.value.holder
        assert f"process {process.pid}" in await store.leases.holder("anna")
        process.kill()
        process.wait()
        assert await store.leases.holder("anna") == ""
        async with asyncio.timeout(2):
            lease = await store.leases.acquire("anna", nothing)
        await write(store, "anna", lease.token)
        await lease.release()


async def test_a_lease_that_has_run_out_is_given_away_though_its_process_lives(reopen_shared: OpenStore) -> None:
    """As when giving it back has failed, or whoever took it was cancelled."""
    async with reopen_shared() as store:
        table = store.leases.table  # type: ignore[attr-defined]
        table._lease_ms = 200
        assert await table.take(_hex("anna"), this_process(), 0) == 1
        with pytest.raises(ConflictError):
            await store.leases.acquire("anna", nothing)
        await asyncio.sleep(0.3)
        lease = await store.leases.acquire("anna", nothing)
        assert lease.token == 2
        await lease.release()


class Silent(MemoryLeaseTable):
    """A store that no longer answers."""

    async def renew(self, session: str, token: int) -> bool:
        await asyncio.sleep(3600)
        return True

    async def free(self, session: str, token: int) -> None:
        await asyncio.sleep(3600)


async def test_a_lease_is_lost_once_where_the_store_falls_silent() -> None:
    lost: list[int] = []
    lease = await StoredLeases(Silent(), lease_s=0.2, renew_s=0.05).acquire("anna", lambda: lost.append(1))
    async with asyncio.timeout(5):
        while not lost:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert (lost, lease.is_lost) == ([1], True)
    await lease.release()


async def test_giving_back_to_a_silent_store_does_not_hang() -> None:
    lease = await StoredLeases(Silent(), renew_s=0.05).acquire("anna", nothing)
    async with asyncio.timeout(5):
        await lease.release()


async def test_a_cancelled_runner_gives_its_session_back(reopen: OpenStore) -> None:
    async with reopen() as store:
        has_it = asyncio.Event()

        async def run() -> None:
            lease = await store.leases.acquire("anna", nothing)
            has_it.set()
            try:
                await asyncio.sleep(60)
            finally:
                await lease.release()

        runner = asyncio.create_task(run())
        await has_it.wait()
        runner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await runner
        await (await store.leases.acquire("anna", nothing)).release()


RACER = """
import asyncio, sys
from ragflow_lg.checkpoints import open_store
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError

async def race():
    async with open_store(sys.argv[1], SystemClock(), prefix=sys.argv[2]) as store:
        print("ready", flush=True)
        for line in sys.stdin:
            try:
                lease = await store.leases.acquire(line.strip(), lambda: None)
            except ConflictError:
                print("refused", flush=True)
            else:
                print(lease.token, flush=True)

asyncio.run(race())
"""


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_of_processes_that_race_one_gets_the_session(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("redis_url") if kind == "redis" else f"sqlite:///{tmp_path}/s.db"
    command = [sys.executable, "-c", RACER, url, fresh_prefix()]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(2)]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 2
        for number in range(50):
            for racer in racers:
                racer.stdin.write(f"session {number}\n")
                racer.stdin.flush()
            assert sorted(racer.stdout.readline() for racer in racers) == ["1\n", "refused\n"]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


async def test_who_is_cancelled_while_it_asks_does_not_keep_the_session(reopen: OpenStore) -> None:
    async with reopen() as store:
        for ticks in range(8):
            asking = asyncio.create_task(store.leases.acquire(f"s{ticks}", nothing))
            for _ in range(ticks):
                await asyncio.sleep(0)
            if not asking.cancel():
                continue
            with suppress(asyncio.CancelledError):
                await asking
            async with asyncio.timeout(2):
                while True:
                    with suppress(ConflictError):
                        await (await store.leases.acquire(f"s{ticks}", nothing)).release()
                        break
                    await asyncio.sleep(0.01)
