import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from ragflow_lg.base.errors import BusyError, QuotaError, StreamError
from ragflow_lg.base.tasks import running
from ragflow_lg.server.streaming import run_queue
from ragflow_lg.server.streaming.run_queue import (
    GROUP,
    KEPT_S,
    RESERVED_S,
    Delivery,
    Owner,
    QueueState,
    RunQueue,
    open_queue,
)
from tests.stores import fresh_prefix

SILENCE_S = 0.5
STREAM = "agent:queue:stream"


@asynccontextmanager
async def opened(url: str, prefix: str, worker: str = "w", *, reports: bool = True) -> AsyncGenerator[RunQueue]:
    async with AsyncExitStack() as stack:
        options: Any = {"prefix": prefix, "silence_s": SILENCE_S, "max_waiting": 2}
        queue = await stack.enter_async_context(open_queue(url, worker, **options))
        if reports:
            await stack.enter_async_context(running(queue.report_forever, "report"))
        yield queue


async def receive(queue: RunQueue, patience_s: float = 5.0) -> Delivery:
    async with asyncio.timeout(patience_s):
        while (delivery := await queue.take()) is None:
            pass
    return delivery


async def test_a_run_is_taken_played_and_forgotten(redis_url: str) -> None:
    prefix, owners = fresh_prefix(), [Owner("tenant", "t", 1)]
    async with opened(redis_url, prefix) as queue:
        assert await queue.state() == QueueState([], 0, 0)
        await queue.reserve("r1", owners, 1)
        await queue.put("r1", b"data")
        state = await queue.state()
        assert (state.waiting, state.open, state.played, state.oldest_ms > 0) == (["r1"], 1, 0, True)
        delivery = await receive(queue)
        assert (delivery.run_id, await queue.read("r1"), await queue.has("r1")) == ("r1", b"data", True)
        assert await queue.state() == QueueState([], 1, 0)
        await queue.forget("r1", owners)
        await queue.acknowledge(delivery)
        assert (await queue.read("r1"), await queue.has("r1")) == (None, False)
        redis: Any = Redis.from_url(redis_url)  # pyright: ignore[reportUnknownMemberType]
        async with redis as client:
            assert await client.xlen(f"{prefix}{STREAM}") == 0
            assert (await client.xpending(f"{prefix}{STREAM}", GROUP))["pending"] == 0
            assert [key async for key in client.scan_iter(f"{prefix}*")] == [f"{prefix}{STREAM}".encode()]


async def test_a_silent_workers_run_is_claimed_and_one_that_reports_keeps_its_own(redis_url: str) -> None:
    """Also those of more than ten workers: Redis looks at ten messages at a time."""
    prefix = fresh_prefix()
    async with opened(redis_url, prefix, "alive") as alive, opened(redis_url, prefix, "other") as other:
        kept: list[Delivery] = []
        for number in range(22):
            await alive.put(f"kept{number}", b"")
            kept.append(await receive(alive))
        assert (await alive.state()).waiting == []
        async with opened(redis_url, prefix, "dead", reports=False) as dead:
            await dead.put("lost", b"")
            assert (await receive(dead)).run_id == "lost"
        assert (await receive(other)).run_id == "lost"
        with pytest.raises(TimeoutError):
            await receive(other, 3 * SILENCE_S)
        alive.leave(kept[3])
        assert (await receive(other)).run_id == "kept3"


async def test_a_run_that_is_given_back_is_the_next_one(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_queue, "LOOK_S", 0.0)
    prefix = fresh_prefix()
    async with opened(redis_url, prefix, "one") as one, opened(redis_url, prefix, "two") as two:
        await one.put("r1", b"")
        delivery = await receive(one)
        assert await one.position("r1") == 0
        await one.put("r2", b"")
        await one.release(delivery)
        assert [await one.position(run) for run in ("r1", "r2", "r3")] == [1, 2, 0]
        assert (await receive(two)).run_id == "r1"


async def test_a_process_does_not_play_its_own_run_twice(redis_url: str) -> None:
    async with opened(redis_url, fresh_prefix(), reports=False) as queue:
        await queue.put("r1", b"")
        await receive(queue)
        with pytest.raises(TimeoutError):
            await receive(queue, 2 * SILENCE_S)


async def test_the_length_of_the_queue_and_the_runs_of_an_owner_are_limited(redis_url: str) -> None:
    async with opened(redis_url, fresh_prefix()) as queue:
        tenant, page = Owner("tenant", "t", 2), Owner("key of the page", "p", 1)
        await queue.reserve("r1", [tenant, page], 1)
        with pytest.raises(QuotaError, match="key of the page"):
            await queue.reserve("r2", [tenant, page], 1)
        await queue.reserve("r2", [tenant], 1)
        with pytest.raises(QuotaError, match="tenant"):
            await queue.reserve("r3", [tenant], 1)
        await queue.reserve("r3", [Owner("tenant", "any", 0)], 1)
        await queue.forget("r1", [tenant, page])
        await queue.reserve("r4", [tenant, page], 1)
        lost = RESERVED_S * 1000 + 2
        await queue.reserve("r5", [tenant], lost)  # the others have not been put
        for run in ("r6", "r7"):
            await queue.put(run, b"", [tenant], lost)
        with pytest.raises(QuotaError, match="tenant"):
            await queue.reserve("r9", [tenant], lost + KEPT_S * 1000 - 1)
        with pytest.raises(BusyError, match="Too many runs are waiting"):
            await queue.reserve("r8", [Owner("tenant", "u", 0)], 1)


async def test_a_worker_is_there_while_it_asks_or_reports(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_queue, "WORKER_S", 0.0)
    prefix = fresh_prefix()
    async with opened(redis_url, prefix, "server") as server:
        assert not await server.has_worker()
        async with opened(redis_url, prefix, "worker") as worker:
            await server.put("r1", b"")
            await receive(worker)
            await asyncio.sleep(3 * SILENCE_S)
            assert await server.has_worker()
        async with asyncio.timeout(60):
            while await server.has_worker():
                await asyncio.sleep(0.01)


async def test_a_worker_that_stops_leaves_the_group_when_its_runs_have_ended(redis_url: str) -> None:
    """The list of workers grew with each that had ever been there."""
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as queue, Redis.from_url(redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
        await queue.put("r1", b"")
        delivery = await receive(queue)
        await queue.release(delivery)
        await queue.resign()
        assert (await queue.state()).waiting == ["r1"]
        assert len(await client.xinfo_consumers(f"{prefix}{STREAM}", GROUP)) == 1
        await queue.acknowledge(delivery)
        await queue.resign()
        assert await client.xinfo_consumers(f"{prefix}{STREAM}", GROUP) == []


async def test_a_message_that_names_no_run_is_removed_and_the_next_one_taken(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as queue, Redis.from_url(redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
        messages: list[dict[Any, Any]] = [{"run": "../r1"}, {"other": "x"}, {"run": "x" * 65}]
        for fields in messages:
            await client.xadd(f"{prefix}{STREAM}", fields)
        await queue.put("r1", b"")
        assert ((await receive(queue)).run_id, await client.xlen(f"{prefix}{STREAM}")) == ("r1", 1)


async def test_the_queue_is_there_again_after_redis_has_lost_it(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as queue, Redis.from_url(redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
        receiving = asyncio.create_task(receive(queue))
        await client.delete(f"{prefix}{STREAM}")
        await queue.put("r1", b"")
        assert (await receiving).run_id == "r1"


async def test_a_queue_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(StreamError) as raised:
        async with open_queue("redis://u:secret@127.0.0.1:1"):
            pass
    assert str(raised.value) == (
        "The queue of runs at redis://127.0.0.1:1 does not answer: its Redis server cannot be reached. "
        "Start that server, or correct --queue or `url` of [queue]."
    )
