"""Cancelling a session's turn through Redis.

RAGFlow's key ``{task_id}-cancel`` is honoured; the task is the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.failures import told_plainly
from ragflow_lg.checkpoints.run_records import hex_session

__all__ = ["RedisCancels", "polling"]

REDIS_POLL_S = 0.5
FLAG_TTL_S = 3600


class RedisCancels:
    """By RAGFlow's key, looked at every 0.5 s, and a message that comes at once."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = cast("Any", client)
        self._prefix = prefix

    async def request(self, session: str) -> None:
        """Set the flag and tell those who listen."""
        with told_plainly(RedisError, OSError):
            await self._client.set(self._keys(session)[0], "x", ex=FLAG_TTL_S)
            await self._client.publish(self._channel(session), "x")

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once when somebody asks; a flag from before is stale."""
        keys = self._keys(session)

        async def is_set() -> bool:
            return any(await self._client.mget(keys))

        async def clear() -> None:
            await self._client.delete(*keys)

        listener = self._client.pubsub()

        async def told() -> bool:
            with suppress(RedisError, OSError):
                message = await listener.get_message(ignore_subscribe_messages=True, timeout=REDIS_POLL_S)
                return message is not None
            await asyncio.sleep(REDIS_POLL_S)
            return False

        try:
            with told_plainly(RedisError, OSError):
                await listener.subscribe(self._channel(session))
            async with polling(is_set, told, clear, on_cancel):
                yield
        finally:
            with suppress(RedisError, OSError):
                await listener.aclose()

    def _keys(self, session: str) -> list[str]:
        """RAGFlow's key, by the session as it was named and by its 32 digits, also without a deployment's prefix."""
        names = dict.fromkeys((hex_session(session), session, thread_of_session(session)))
        return list(dict.fromkeys(f"{prefix}{name}-cancel" for prefix in (self._prefix, "") for name in names))

    def _channel(self, session: str) -> str:
        return f"{self._prefix}agent:cancel:{hex_session(session)}"


@asynccontextmanager
async def polling(
    is_set: Callable[[], Awaitable[bool]],
    told: Callable[[], Awaitable[bool]],
    clear: Callable[[], Awaitable[None]],
    on_cancel: Callable[[], None],
) -> AsyncGenerator[None]:
    """Look at a flag until it is set; clear it before and after. ``told`` waits for word of it, for a while."""
    is_over = False

    async def watch() -> None:
        while not is_over:
            is_told = await told()
            with suppress(RedisError, OSError):  # the flag is looked at again
                if is_told or await is_set():
                    on_cancel()
                    return

    with told_plainly(RedisError, OSError):
        await clear()
    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        is_over = True
        while not watcher.done():  # a client may swallow a cancellation that comes while it answers
            watcher.cancel()
            # Unlike awaiting the task, this lets a cancellation of the caller through.
            await asyncio.wait([watcher], timeout=REDIS_POLL_S)
        with suppress(RedisError, OSError):
            await clear()
