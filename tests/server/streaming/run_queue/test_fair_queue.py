from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.asyncio import Redis

from ragflow_lg.base.errors import BusyError, QuotaError, StreamError
from ragflow_lg.server.streaming.run_queue.fair_queue import FairQueue, QueueLimits, QueueState
from tests.stores import fresh_prefix


@pytest.fixture
async def client(redis_url: str) -> AsyncGenerator[Redis]:
    async with Redis.from_url(redis_url) as opened:  # pyright: ignore[reportUnknownMemberType]
        yield opened


@pytest.fixture
def queue(client: Redis) -> FairQueue:
    return FairQueue(client, fresh_prefix(), QueueLimits(waiting=20, order_bytes=100))


async def take_all(queue: FairQueue) -> list[str]:
    runs: list[str] = []
    while taken := await queue.take(f"ticket{len(runs)}"):
        runs.append(taken[0])
    return runs


async def test_tenants_take_turns(queue: FairQueue) -> None:
    for number in range(4):
        await queue.put(f"a{number}", "a", b"x", number)
    await queue.put("b0", "b", b"x", 9)
    await queue.put("b1", "b", b"x", 9)
    order = ["a0", "b0", "a1", "b1", "a2", "a3"]
    assert [await queue.position(run) for run in order] == [1, 2, 3, 4, 5, 6]
    assert await take_all(queue) == order
    assert await queue.position("a0") == 0


async def test_a_tenant_with_a_larger_share_is_played_more_often(queue: FairQueue) -> None:
    for number in range(4):
        await queue.put(f"a{number}", "a", b"x", 0)
        await queue.put(f"b{number}", "b", b"x", 0, share=3)
    runs = await take_all(queue)
    assert [run[0] for run in runs[:4]].count("b") == 3


async def test_runs_in_the_background_come_after_those_of_people(queue: FairQueue) -> None:
    for number in range(2):
        await queue.put(f"hook{number}", "a", b"x", 0, is_background=True)
        await queue.put(f"chat{number}", "a", b"x", 0)
    assert await take_all(queue) == ["chat0", "chat1", "hook0", "hook1"]


async def test_a_tenant_that_comes_later_has_no_credit_for_the_time_before(queue: FairQueue) -> None:
    for number in range(6):
        await queue.put(f"a{number}", "a", b"x", 0)
    taken = [await queue.take(f"t{number}") for number in range(3)]
    assert [run[0] for run in taken if run] == ["a0", "a1", "a2"]
    for number in range(3):
        await queue.put(f"b{number}", "b", b"x", 0)
    assert await take_all(queue) == ["a3", "b0", "a4", "b1", "a5", "b2"]


async def test_a_ticket_returns_the_same_run_until_it_has_ended(queue: FairQueue) -> None:
    await queue.put("a", "t", b"order", 5)
    await queue.put("b", "t", b"other", 6)
    assert await queue.take("1") == await queue.take("1") == ("a", b"order")
    assert await queue.state() == QueueState(waiting=1, open=2, oldest_ms=6)
    await queue.finish("a", "1")
    assert await queue.take("1") == ("b", b"other")
    await queue.finish("b", "1")
    assert (await queue.state()) == QueueState()
    assert await queue.take("1") is None


async def test_a_run_that_a_worker_gives_back_waits_for_its_ticket_after_those_sent_before(queue: FairQueue) -> None:
    await queue.put("a", "t", b"order", 5)
    await queue.take("1")
    assert (await queue.state(), await queue.position("a")) == (QueueState(waiting=0, open=1), 0)
    await queue.put("b", "t", b"other", 6)
    await queue.give_back("a", 7)
    assert await queue.state() == QueueState(waiting=2, open=2, oldest_ms=6)
    assert [await queue.position(run) for run in "ba"] == [1, 2]
    assert await queue.take("2") == ("b", b"other")
    assert (await queue.state(), await queue.position("a")) == (QueueState(waiting=1, open=2, oldest_ms=7), 1)
    assert await queue.take("1") == ("a", b"order")
    assert (await queue.state(), await queue.position("a")) == (QueueState(waiting=0, open=2), 0)
    for run_id, ticket in (("b", "2"), ("a", "1")):
        await queue.finish(run_id, ticket)
    await queue.give_back("a", 9)
    assert await queue.state() == QueueState()


async def test_nothing_is_left_of_runs_that_have_ended(client: Any) -> None:
    prefix = fresh_prefix()
    queue = FairQueue(client, prefix)
    await queue.put("a", "t", b"x", 1, page_key="p", max_page=5)
    await queue.put("b", "t", b"x", 1)
    await queue.take("1")
    await queue.finish("a", "1")
    await queue.finish("b")
    left = {key async for key in client.scan_iter(match=f"{prefix}*")}
    assert left == {f"{prefix}agent:queue:bytes".encode()}
    assert await client.get(f"{prefix}agent:queue:bytes") == b"0"


async def test_a_run_that_has_ended_while_it_waits_is_not_played(queue: FairQueue) -> None:
    await queue.put("a", "t", b"x", 1)
    await queue.put("b", "t", b"x", 1)
    await queue.take("1")
    for run_id in ("a", "b", "unknown"):
        await queue.finish(run_id)
    assert [await queue.take("1"), await queue.take("2")] == [None, None]
    assert await queue.state() == QueueState()


async def test_adding_a_run_again_changes_nothing(queue: FairQueue) -> None:
    await queue.put("a", "t", b"x", 1)
    await queue.put("a", "t", b"x", 1)
    assert await take_all(queue) == ["a"]


async def test_a_full_queue_refuses_with_the_time_to_wait(queue: FairQueue) -> None:
    for number in range(20):
        await queue.put(f"a{number}", "t", b"x", 1)
    with pytest.raises(BusyError, match="waiting for a worker") as caught:
        await queue.put("b", "u", b"x", 1)
    assert caught.value.status == 429
    assert caught.value.retry_s > 0
    with pytest.raises(BusyError, match="waiting for a worker"):
        await queue.require_room("u", 0)


async def test_the_requests_of_all_runs_are_bounded_together(queue: FairQueue) -> None:
    await queue.put("a", "t", b"x" * 60, 1)
    await queue.take("1")
    with pytest.raises(BusyError, match="too long together"):
        await queue.put("b", "t", b"x" * 60, 1)
    await queue.finish("a", "1")
    await queue.put("b", "t", b"x" * 60, 1)


async def test_runs_in_play_count_for_the_quota_of_a_tenant(queue: FairQueue) -> None:
    await queue.put("a", "t", b"x", 1, max_open=1)
    await queue.take("1")
    with pytest.raises(QuotaError, match="runs"):
        await queue.put("b", "t", b"x", 1, max_open=1)
    with pytest.raises(QuotaError):
        await queue.require_room("t", 1)
    await queue.put("c", "u", b"x", 1, max_open=1)
    await queue.finish("a", "1")
    await queue.put("b", "t", b"x", 1, max_open=1)


async def test_an_embedded_page_has_a_quota_of_its_own(queue: FairQueue) -> None:
    await queue.put("a", "t", b"x", 1, page_key="p", max_page=1)
    with pytest.raises(QuotaError):
        await queue.put("b", "t", b"x", 1, page_key="p", max_page=1)
    with pytest.raises(QuotaError):
        await queue.require_room("t", 0, "p", 1)
    await queue.put("b", "t", b"x", 1, page_key="q", max_page=1)


async def test_a_redis_that_cannot_be_reached_is_an_error_of_the_stream() -> None:
    async with Redis.from_url("redis://127.0.0.1:1") as client:  # pyright: ignore[reportUnknownMemberType]
        queue = FairQueue(client)
        with pytest.raises(StreamError, match=r"^The queue of runs failed: its Redis server cannot be reached\.$"):
            await queue.state()
        with pytest.raises(StreamError):
            await queue.take("1")
