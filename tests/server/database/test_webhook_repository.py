import asyncio

import pytest

from ragflow_lg.server.database.database import Database
from ragflow_lg.server.database.webhook_repository import TEST_TTL_MS, WebhookRepository, WebhookTests


async def test_a_bucket_refills_up_to_its_limit(database: Database) -> None:
    rate = WebhookRepository(database, "us", "a1")
    assert [await rate.take(2, 60, 1000) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert await rate.take(2, 60, 1000 + 15_000) == pytest.approx(15.0)
    assert await rate.take(2, 60, 1000 + 30_000) == 0.0
    assert await rate.take(2, 60, 0) > 0  # a clock that goes back yields no tokens
    assert [await rate.take(2, 60, 10_000_000) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert await WebhookRepository(database, "us", "a2").take(1, 1, 1) == 0.0


async def test_concurrent_calls_are_all_counted(database: Database) -> None:
    takes = (WebhookRepository(database, "us", "a1").take(3, 60, 1000) for _ in range(8))
    assert sorted(wait > 0 for wait in await asyncio.gather(*takes)) == [False] * 3 + [True] * 5


async def test_a_call_is_new_once_until_it_expires(database: Database) -> None:
    calls = WebhookRepository(database, "us", "a1")
    digest, other = "0" * 64, "1" * 64
    assert [await calls.remember(digest, 2000, now_ms) for now_ms in (1000, 1500, 2000, 2001)] == [
        True,
        False,
        False,
        True,
    ]
    assert await calls.remember(other, 5000, 1000)
    assert await WebhookRepository(database, "us", "a2").remember(other, 5000, 1000)
    await calls.forget(other)
    assert await calls.remember(other, 5000, 1000)
    await WebhookTests(database, "us", "a1").delete_all()
    assert await calls.remember(other, 5000, 1000)
    assert not await WebhookRepository(database, "us", "a2").remember(other, 5000, 1000)


async def test_of_concurrent_calls_one_is_new(database: Database) -> None:
    calls = (WebhookRepository(database, "us", "a1").remember("0" * 64, 2000, 1000) for _ in range(8))
    assert sum(await asyncio.gather(*calls)) == 1


async def test_tests_are_read_by_time_and_expire(database: Database) -> None:
    ours, theirs = WebhookTests(database, "us", "a1"), WebhookTests(database, "them", "a1")
    await ours.begin("t1", 100)
    await ours.add_events("t1", [(101, "{}"), (102, "[]")])
    await ours.add_events("t1", [(103, "3")])
    await ours.begin("t2", 200)
    first, second = await ours.next(0), await ours.next(100)
    assert (first and first.id, second and second.id, await ours.next(200)) == ("t1", "t2", None)
    assert [row.event for row in await ours.events("t1", 101, 9)] == ["[]", "3"]
    assert [row.event for row in await ours.events("t1", 0, 1)] == ["{}"]
    for other in (theirs, WebhookTests(database, "us", "a2")):
        assert (await other.get("t1"), await other.next(0)) == (None, None)
    assert await theirs.events("t1", 0, 9) == []
    await theirs.delete_all()
    await ours.begin("t3", 150 + TEST_TTL_MS * 1000)
    assert (await ours.get("t1"), await ours.events("t1", 0, 9)) == (None, [])
    assert await ours.get("t2") is not None
    await ours.delete_all()
    assert await ours.next(0) is None
