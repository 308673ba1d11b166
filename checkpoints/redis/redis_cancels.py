"""Cancellation through Redis.

RAGFlow's key ``{task_id}-cancel`` is honoured, with the session as the task id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.memory.memory_store import MemoryCancels
from ragflow_lg.checkpoints.run_records import hex_session

REDIS_POLL_S = 0.5
FLAG_TTL_S = 3600


class RedisCancels:
    """RAGFlow's flags, polled every 0.5 s, and a channel for immediate delivery.

    One connection and one poll serve all sessions in this process.
    """

    def __init__(self, client: Redis, prefix: str, *, has_one_slot: bool = False) -> None:
        """Initialize. With ``has_one_slot``, keys without the prefix are in other slots, and are not read."""
        self._client = cast("Any", client)
        self._prefixes = flag_prefixes(prefix, has_one_slot=has_one_slot)
        self._channel = f"{prefix}agent:cancel"
        self._local = MemoryCancels()
        self._watched: list[str] = []
        self._listening: asyncio.Task[None] | None = None

    async def request(self, session: str) -> None:
        """Set the flag and publish a message."""
        with translate_errors(RedisError, OSError):
            await self._client.set(cancel_keys(self._prefixes, session)[0], "x", ex=FLAG_TTL_S)
            await self._client.publish(self._channel, hex_session(session))

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once, on the next cancel request.

        A flag that is set at the end, but has not been seen, remains until the session is leased again.
        """
        is_seen = False

        def cancel() -> None:
            nonlocal is_seen
            is_seen = True
            on_cancel()

        async with self._local.watch(session, cancel):
            self._watched.append(session)
            if self._listening is None or self._listening.done():
                self._listening = asyncio.create_task(self._listen(), context=Context())
            try:
                yield
            finally:
                self._watched.remove(session)
                if is_seen:
                    with suppress(RedisError, OSError):
                        await self._client.delete(*cancel_keys(self._prefixes, session))

    async def aclose(self) -> None:
        """Stop listening. Until then, one connection listens also between runs: it takes four trips to open one."""
        task, self._listening = self._listening, None
        if task is None:
            return
        while not task.done():
            task.cancel()  # redis-py can swallow a cancellation that arrives during a response
            # Unlike awaiting the task, this propagates a cancellation of the caller.
            await asyncio.wait([task], timeout=REDIS_POLL_S)

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        next_poll = loop.time() + REDIS_POLL_S
        listener = self._client.pubsub()
        try:
            while self._listening is asyncio.current_task():
                await self._receive(listener, next_poll - loop.time())
                if loop.time() >= next_poll:
                    next_poll = loop.time() + REDIS_POLL_S
                    with suppress(RedisError, OSError):  # the next poll retries
                        await self._poll()
        finally:
            with suppress(RedisError, OSError):
                await listener.aclose()

    async def _receive(self, listener: Any, timeout_s: float) -> None:
        """Wait for a message and deliver it. While the server cannot be reached, only wait."""
        try:
            if not listener.subscribed:
                await listener.subscribe(self._channel)
            message = await listener.get_message(ignore_subscribe_messages=True, timeout=max(timeout_s, 0.0))
        except (RedisError, OSError):
            await asyncio.sleep(REDIS_POLL_S)
            return
        if message is not None:
            await self._local.request(message["data"].decode("utf-8", "replace"))

    async def _poll(self) -> None:
        sessions = list(dict.fromkeys(self._watched))
        pipeline = self._client.pipeline(transaction=False)
        for session in sessions:
            pipeline.exists(*cancel_keys(self._prefixes, session))
        for session, count in zip(sessions, await pipeline.execute(), strict=True):
            if count:
                await self._local.request(session)


def flag_prefixes(prefix: str, *, has_one_slot: bool) -> tuple[str, ...]:
    """Return the beginnings of the keys of flags. RAGFlow's own have none, which is in another slot of a cluster."""
    return (prefix,) if has_one_slot else (prefix, "")


def cancel_keys(prefixes: Sequence[str], session: str) -> list[str]:
    """Return RAGFlow's keys for the session's name and for both of its UUID forms, with each prefix."""
    names = dict.fromkeys((hex_session(session), session, thread_of_session(session)))
    return list(dict.fromkeys(f"{prefix}{name}-cancel" for prefix in prefixes for name in names))
