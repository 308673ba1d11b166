"""Cancellation through Redis.

RAGFlow's key ``{task_id}-cancel`` is honoured, with the session as the task id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.run_records import hex_session

REDIS_POLL_S = 0.5
FLAG_TTL_S = 3600


class RedisCancels:
    """RAGFlow's flag, polled every 0.5 s, and a channel for immediate delivery."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix

    async def request(self, session: str) -> None:
        """Set the flag and publish a message."""
        with translate_errors(RedisError, OSError):
            await self._client.set(self._keys(session)[0], "x", ex=FLAG_TTL_S)
            await self._client.publish(self._channel(session), "x")

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once, on the next cancel request. A flag that already exists is stale."""
        keys = self._keys(session)

        async def is_set() -> bool:
            return any(await self._client.mget(keys))

        async def clear() -> None:
            await self._client.delete(*keys)

        listener = self._client.pubsub()

        async def wait_for_message() -> bool:
            with suppress(RedisError, OSError):
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=REDIS_POLL_S)
                return message is not None
            await asyncio.sleep(REDIS_POLL_S)
            return False

        try:
            with translate_errors(RedisError, OSError):
                await listener.subscribe(self._channel(session))
            async with polling(is_set, wait_for_message, clear, on_cancel):
                yield
        finally:
            with suppress(RedisError, OSError):
                await listener.aclose()

    def _keys(self, session: str) -> list[str]:
        """Return RAGFlow's keys for the session's name and for both of its UUID forms, with and without the prefix."""
        names = dict.fromkeys((hex_session(session), session, thread_of_session(session)))
        return list(dict.fromkeys(f"{prefix}{name}-cancel" for prefix in (self._prefix, "") for name in names))

    def _channel(self, session: str) -> str:
        return f"{self._prefix}agent:cancel:{hex_session(session)}"


@asynccontextmanager
async def polling(
    is_set: Callable[[], Awaitable[bool]],
    wait_for_message: Callable[[], Awaitable[bool]],
    clear: Callable[[], Awaitable[None]],
    on_cancel: Callable[[], None],
) -> AsyncGenerator[None]:
    """Poll a flag until it is set, and clear it on entry and exit.

    ``wait_for_message`` waits briefly and returns whether a message has arrived.
    """
    is_over = False

    async def watch() -> None:
        while not is_over:
            has_message = await wait_for_message()
            with suppress(RedisError, OSError):  # the next poll retries
                if has_message or await is_set():
                    on_cancel()
                    return

    with translate_errors(RedisError, OSError):
        await clear()
    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        is_over = True
        while not watcher.done():  # redis-py can swallow a cancellation that arrives during a response
            watcher.cancel()
            # Unlike awaiting the task, this propagates a cancellation of the caller.
            await asyncio.wait([watcher], timeout=REDIS_POLL_S)
        with suppress(RedisError, OSError):
            await clear()
