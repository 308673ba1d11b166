"""The store in Redis: its leases, cancellation, and how it is opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.records.leases import LEASE_S, TOKEN_TTL_S, LeaseHolder, Owner, StoredLeases, parse_owner
from ragflow_lg.checkpoints.records.run_records import LocalCancels, RecordTexts, hex_session
from ragflow_lg.checkpoints.redis.redis_client import collect, open_redis
from ragflow_lg.checkpoints.redis.redis_records import RedisRecords, RedisTraces
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions
from ragflow_lg.checkpoints.redis.redis_tables import RedisTables
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.store import Store
from ragflow_lg.checkpoints.store_url import cluster_name, key_prefix

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing

_OPENED = "agent:store"
"""The key that says that there is a store."""
REDIS_POLL_S = 0.5
FLAG_TTL_S = 3600


class RedisCancels(LocalCancels):
    """RAGFlow's flags ``{task_id}-cancel``, polled every 0.5 s, and a channel for immediate delivery.

    The session is the task id. One connection and one poll serve all sessions in this process. It listens also between
    runs: it takes four trips to open a connection.
    """

    def __init__(self, sessions: RedisSessions) -> None:
        super().__init__(self._listen)
        self._client = sessions.client
        self._keys = sessions.cancel_keys
        self._channel = f"{sessions.prefix}agent:cancel"

    async def request(self, session: str) -> None:
        """Set the flag and publish a message."""
        with translate_errors(RedisError, OSError):
            await self._client.set(self._keys(session)[0], "x", ex=FLAG_TTL_S)
            await self._client.publish(self._channel, hex_session(session))

    async def is_requested(self, session: str) -> bool:
        """Return whether a flag is set."""
        with translate_errors(RedisError, OSError):
            return bool(await self._client.exists(*self._keys(session)))

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        next_poll = loop.time() + REDIS_POLL_S
        listener = self._client.pubsub()
        try:
            while self._listening.is_running:  # redis-py can swallow a cancellation
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
            self.cancel(message["data"].decode("utf-8", "replace"))

    async def _poll(self) -> None:
        sessions = [*self._watches]
        pipeline = self._client.pipeline(transaction=False)
        for session in sessions:
            pipeline.exists(*self._keys(session))
        for session, count in zip(sessions, await pipeline.execute(), strict=True):
            if count:
                self.cancel(session)


_TAKE = Path(__file__).with_name("take_lease.lua").read_text("utf-8")
_RENEW = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_FREE = "if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class RedisLeaseTable:
    """Leases stored as RAGFlow's ``agent:active-session`` hashes. They expire according to the server's clock.

    Each method is a single script or command. `RedisSessions` refuses writes with the token of an earlier lease.
    """

    errors: tuple[type[Exception], ...] = (RedisError, OSError)

    def __init__(self, client: Redis, sessions: RedisSessions) -> None:
        self._client = cast("Any", client)
        self._sessions = sessions
        self.lease_ms = int(LEASE_S * 1000)

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | LeaseHolder:
        """Lease a session if it is free or the token of its lease is ``dead_token``."""
        keys = (self._sessions.lease_key(session), self._counter_key(session), *self._sessions.cancel_keys(session))
        arguments = (str(owner), dead_token or -1, self.lease_ms, session, TOKEN_TTL_S)
        is_ours, token, holder = await self._client.eval(_TAKE, len(keys), *keys, *arguments)
        return int(token) if is_ours else _holder(token, holder)

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease. Expired leases no longer exist."""
        token, holder = await self._client.hmget(self._sessions.lease_key(session), "token", "owner")
        return None if token is None else _holder(token, holder or b"")

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease."""
        return bool(await self._client.eval(_RENEW, 1, self._sessions.lease_key(session), token, self.lease_ms))

    async def free(self, session: str, token: int) -> None:
        """End a lease, in the open transaction if any: it has the lease's token."""
        key = self._sessions.lease_key(session)
        if not collect([("DEL", key)]):
            await self._client.eval(_FREE, 1, key, token)

    async def forget(self, session: str) -> None:
        """Delete the last token of a session."""
        await self._client.delete(self._counter_key(session))

    def _counter_key(self, session: str) -> str:
        return f"{self._sessions.prefix}agent:lease-token:{session}"


def _holder(token: bytes, holder: bytes) -> LeaseHolder:
    number = int(token) if token.isdigit() else 0  # RAGFlow's own tokens are not numbers
    return LeaseHolder(parse_owner(holder.decode("utf-8", "replace")), number)


LEASE_CONNECTIONS = 4
"""Leases have connections of their own: if renewals waited for the writes of many runs, leases would expire."""


async def has_redis_store(url: str, prefix: str) -> bool:
    """Return whether a server has a store.

    Raises:
        CheckpointError: if the server does not respond.
    """
    async with open_redis(url) as client:
        with translate_errors(RedisError, OSError):
            return bool(await cast("Any", client).exists(key_prefix(url, prefix) + _OPENED))


@asynccontextmanager
async def open_redis_store(url: str, prefix: str, ttl_s: int, keys: KeyRing | None) -> AsyncGenerator[Store]:
    """Open a client and its store.

    Raises:
        CheckpointError: if the server does not respond.
    """
    prefix, is_cluster = key_prefix(url, prefix), bool(cluster_name(url))
    async with open_redis(url) as client, open_redis(url, LEASE_CONNECTIONS) as lease_client:
        with translate_errors(RedisError, OSError):
            await cast("Any", client).set(prefix + _OPENED, "1")
        sessions, texts = RedisSessions(client, prefix, ttl_s, is_cluster=is_cluster), RecordTexts(keys)
        leases = StoredLeases(RedisLeaseTable(lease_client, sessions))
        cancels = RedisCancels(sessions)
        try:
            traces, node_logs = RedisTraces(sessions, texts), RedisTraces(sessions, texts, "nodes")
            runs, saver = RedisRecords(sessions, texts), CanvasSaver(RedisTables(sessions), keys)
            yield Store(saver, leases, runs, cancels, traces, node_logs, keys=keys)
        finally:
            await cancels.aclose()
            await leases.settle()
