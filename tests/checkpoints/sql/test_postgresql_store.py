import asyncio

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_items, open_store
from ragflow_lg.checkpoints.backends import probe_store, store_exists
from ragflow_lg.checkpoints.sql import postgresql_database
from ragflow_lg.services.sessions import RunRecord
from tests.stores import fresh_prefix

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("start", ["", "x" * 60])
async def test_each_deployment_has_a_schema_of_its_own(postgresql_url: str, start: str) -> None:
    prefix, other = start + fresh_prefix(), start + fresh_prefix()
    assert not await store_exists(postgresql_url, prefix=prefix)
    async with open_store(postgresql_url, prefix=prefix) as store:
        await store.runs.put(RunRecord("r", "anna", reason="a\0b"))
        record = await store.runs.get("r")
        assert record is not None
        assert record.reason == "a\ufffdb"
    async with open_store(postgresql_url, prefix=other) as store:
        assert await store.runs.get("r") is None
    assert await store_exists(postgresql_url, prefix=prefix)
    assert all(result.is_well for result in await probe_store(postgresql_url, ttl_s=60))


async def test_memories_lie_in_the_same_schema(postgresql_url: str) -> None:
    prefix = fresh_prefix()
    for expected in (0, 1):
        async with open_items(postgresql_url, prefix=prefix) as items:
            assert len(await items.asearch(("n",))) == expected
            await items.aput(("n", "m"), "k", {"a": 1})


@pytest.mark.usefixtures("postgresql_url")
async def test_an_unreachable_server_is_an_error() -> None:
    with pytest.raises(CheckpointError, match=r"postgresql://127\.0\.0\.1:1/x cannot be used"):
        async with open_store("postgresql://u:secret@127.0.0.1:1/x"):
            pass


async def test_a_query_that_waits_for_a_connection_ends_when_it_is_cancelled(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_database, "CONNECTIONS", 1)
    lost: list[int] = []
    async with postgresql_database.open_database(postgresql_url, fresh_prefix()) as database:
        for moment in range(60):
            async with database.pool.connection():
                reading = asyncio.create_task(database.read("SELECT 1"))
                await asyncio.sleep(0.002)
            for _ in range(moment % 20):
                await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])
                lost += [] if reading.cancelled() else [moment]
    assert lost == []
