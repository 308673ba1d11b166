import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis
from taskiq import AckableMessage

from ragflow_lg.base.tasks import end_task
from ragflow_lg.checkpoints.redis.redis_client import create_waiting_client
from ragflow_lg.server.streaming.run_queue import run_broker
from ragflow_lg.server.streaming.run_queue.run_broker import GROUP, RunBroker, read_ticket
from tests.stores import fresh_prefix

SILENCE_S = 0.5


@asynccontextmanager
async def opened(url: str, prefix: str) -> AsyncGenerator[RunBroker]:
    broker = RunBroker(create_waiting_client(url).connection_pool, prefix, silence_s=SILENCE_S)

    async def play(ticket: str) -> None:
        pass

    broker.define(play)
    await broker.startup()
    try:
        yield broker
    finally:
        await broker.shutdown()


async def receive(listening: AsyncGenerator[AckableMessage], patience_s: float = 5.0) -> AckableMessage:
    async with asyncio.timeout(patience_s):
        return await anext(listening)


async def test_a_silent_workers_message_is_claimed_although_no_other_arrives(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as server, opened(redis_url, prefix) as other:
        await server.play.kiq(ticket="r1")
        async with opened(redis_url, prefix) as dead:
            await receive(dead.listen())
        message = await receive(other.listen())
        assert read_ticket(message.data) == "r1"


async def test_a_worker_is_there_while_it_asks_for_messages(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_broker, "WORKER_S", 0.0)
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as server:
        assert not await server.has_worker()
        async with opened(redis_url, prefix) as worker:
            asking = asyncio.create_task(receive(worker.listen(), 60.0))
            async with asyncio.timeout(5):
                while not await server.has_worker():
                    await asyncio.sleep(0.01)
            await asyncio.sleep(3 * SILENCE_S)
            assert await server.has_worker()
            await end_task(asking)
        async with asyncio.timeout(5):
            while await server.has_worker():
                await asyncio.sleep(0.01)


async def test_there_is_no_worker_if_redis_has_lost_the_queue(redis_url: str) -> None:
    async with opened(redis_url, fresh_prefix()) as server:
        async with Redis(connection_pool=server.connection_pool) as client:
            await client.delete(server.queue_name)
        assert not await server.has_worker()


async def test_a_workers_message_stays_its_own_while_it_reports(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as alive, opened(redis_url, prefix) as other:
        await alive.play.kiq(ticket="r1")
        message = await receive(alive.listen())
        listening = other.listen()
        with pytest.raises(TimeoutError):
            await receive(listening, 3 * SILENCE_S)
        alive.release("r1")
        again = await receive(other.listen())
        assert again.data == message.data


async def test_a_repeated_ticket_does_not_stop_the_reports_of_the_first(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as alive, opened(redis_url, prefix) as other:
        listening = alive.listen()
        for _ in range(2):
            await alive.play.kiq(ticket="r1")
            await receive(listening)
        with pytest.raises(TimeoutError):
            await receive(other.listen(), 3 * SILENCE_S)


async def test_an_acknowledged_message_leaves_nothing(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with opened(redis_url, prefix) as broker:
        await broker.play.kiq(ticket="r1")
        assert await broker.undelivered() == 1
        acknowledge: Any = (await receive(broker.listen())).ack
        assert await broker.undelivered() == 0
        await acknowledge()
        async with Redis.from_url(redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
            assert await client.xlen(broker.queue_name) == 0
            assert (await client.xpending(broker.queue_name, GROUP))["pending"] == 0


async def test_messages_are_kept_from_before_the_first_worker(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with Redis.from_url(redis_url) as client, opened(redis_url, prefix) as broker:  # pyright: ignore[reportUnknownMemberType]
        await client.xgroup_destroy(broker.queue_name, GROUP)
        await broker.play.kiq(ticket="early")
        await broker.startup()
        assert read_ticket((await receive(broker.listen())).data) == "early"


def payload(**changes: Any) -> bytes:
    task: dict[str, Any] = {
        "task_id": "1",
        "task_name": "play",
        "labels": {},
        "args": [],
        "kwargs": {"ticket": "r1"},
        **changes,
    }
    return json.dumps(task).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04N.",
        b"[" * 100_000,
        payload(task_name="os.system"),
        payload(labels_types="junk"),
        payload(labels_types={"a": "x"}),
        payload(labels={"ack_type": "nonsense"}),
        payload(args=["r1"]),
        payload(kwargs={}),
        payload(kwargs={"ticket": "r1", "context": {}}),
        payload(kwargs={"ticket": "../r1"}),
        payload(kwargs={"ticket": 7}),
        payload(kwargs={"ticket": "x" * 65}),
    ],
)
def test_a_hostile_message_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="it is not a ticket"):
        read_ticket(data)


async def test_a_hostile_message_is_removed_and_the_next_one_played(redis_url: str) -> None:
    async with (
        opened(redis_url, fresh_prefix()) as broker,
        Redis.from_url(redis_url) as client,  # pyright: ignore[reportUnknownMemberType]
    ):
        await client.xadd(broker.queue_name, {"data": payload(task_name="os.system")})
        await client.xadd(broker.queue_name, {"other": "x"})
        await broker.play.kiq(ticket="r1")
        assert read_ticket((await receive(broker.listen())).data) == "r1"
        assert await client.xlen(broker.queue_name) == 1


async def test_listening_survives_the_loss_of_the_group(redis_url: str) -> None:
    async with (
        opened(redis_url, fresh_prefix()) as broker,
        Redis.from_url(redis_url) as client,  # pyright: ignore[reportUnknownMemberType]
    ):
        receiving = asyncio.create_task(receive(broker.listen()))
        await asyncio.sleep(0.05)
        await client.delete(broker.queue_name)
        await broker.play.kiq(ticket="r1")
        assert read_ticket((await receiving).data) == "r1"
