import asyncio
import time
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

import pytest

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.redis.redis_store import RedisCancels
from tests.stores import fresh_prefix, redis_client

SESSION = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("prefix", ["", "{a}"])
@pytest.mark.parametrize("key", [f"{SESSION}-cancel", f"{thread_of_session(SESSION)}-cancel"])
async def test_the_flag_of_ragflow_cancels_a_run_soon(redis_url: str, key: str, prefix: str) -> None:
    cancelled_at: list[float] = []
    async with redis_client(redis_url) as client:
        cancels = RedisCancels(RedisSessions(client, prefix + fresh_prefix(), 60))
        async with aclosing(cancels), cancels.watch(SESSION, lambda: cancelled_at.append(time.monotonic())):
            await asyncio.sleep(0.1)
            start_s = time.monotonic()
            await client.set(key, "x")
            async with asyncio.timeout(60):
                while not cancelled_at:
                    await asyncio.sleep(0.01)
        assert cancelled_at[0] - start_s < 20


async def test_a_client_that_suppresses_a_cancellation_does_not_block_the_end(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with redis_client(redis_url) as client:
        cancels = RedisCancels(RedisSessions(client, fresh_prefix(), 60))

        async def receive(listener: object, timeout_s: float) -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

        monkeypatch.setattr(cancels, "_receive", receive)
        async with asyncio.timeout(60):
            async with cancels.watch("anna", lambda: None):
                await asyncio.sleep(0.01)
            await cancels.aclose()


async def test_many_watched_sessions_share_one_connection(redis_url: str) -> None:
    cancelled: list[str] = []
    async with redis_client(redis_url) as client, AsyncExitStack() as stack:
        cancels = await stack.enter_async_context(aclosing(RedisCancels(RedisSessions(client, fresh_prefix(), 60))))
        untyped: Any = client
        before = (await untyped.info("clients"))["connected_clients"]
        for number in range(50):
            name = f"session {number}"
            await stack.enter_async_context(cancels.watch(name, lambda name=name: cancelled.append(name)))
        await cancels.request("session 7")
        async with asyncio.timeout(60):
            while not cancelled:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.6)
        assert cancelled == ["session 7"]
        assert (await untyped.info("clients"))["connected_clients"] - before <= 3
