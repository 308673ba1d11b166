import asyncio
import time
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.redis.redis_cancels import RedisCancels, polling
from tests.stores import fresh_prefix

SESSION = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("key", [f"{SESSION}-cancel", f"{thread_of_session(SESSION)}-cancel"])
async def test_ragflows_own_flag_is_seen_within_600_ms(redis_url: str, key: str) -> None:
    told: list[float] = []
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        cancels = RedisCancels(client, fresh_prefix())
        async with cancels.watch(SESSION, lambda: told.append(time.monotonic())):
            await asyncio.sleep(0.1)
            began = time.monotonic()
            await client.set(key, "x")
            async with asyncio.timeout(3):
                while not told:
                    await asyncio.sleep(0.01)
        assert told[0] - began < 1.5
        assert await client.get(key) is None


async def test_word_of_a_request_comes_at_once(redis_url: str) -> None:
    told = asyncio.Event()
    async with Redis.from_url(redis_url) as client:  # type: ignore[no-untyped-call]
        cancels = RedisCancels(client, fresh_prefix())
        async with cancels.watch("anna", told.set):
            await asyncio.sleep(0.1)
            await cancels.request("anna")
            async with asyncio.timeout(0.45):  # sooner than the next look at the flag
                await told.wait()


async def test_a_server_that_is_gone_is_told() -> None:
    async with Redis.from_url("redis://127.0.0.1:1") as client:  # type: ignore[no-untyped-call]
        cancels = RedisCancels(client, "")
        with pytest.raises(CheckpointError, match="The session store failed"):
            await cancels.request("anna")
        with pytest.raises(CheckpointError, match="The session store failed"):
            async with cancels.watch("anna", lambda: None):
                pass


async def test_a_client_that_swallows_a_cancellation_keeps_nobody() -> None:
    async def nothing() -> None:
        pass

    async def told() -> bool:
        return False

    async def is_set() -> bool:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return False

    async with asyncio.timeout(5), polling(is_set, told, nothing, lambda: None):
        await asyncio.sleep(0.01)
