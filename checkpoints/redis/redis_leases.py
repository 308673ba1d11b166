"""Leases in Redis, stored as RAGFlow's ``agent:active-session`` hashes. Each method is a single script or command.

`ragflow_lg.checkpoints.redis.redis_sessions` refuses writes with the token of an earlier lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints.lease_owner import Owner, parse_owner
from ragflow_lg.checkpoints.leases import LEASE_S, TOKEN_TTL_S, LeaseHolder
from ragflow_lg.checkpoints.redis.redis_cancels import cancel_keys, flag_prefixes
from ragflow_lg.checkpoints.redis.redis_client import Command, collect
from ragflow_lg.checkpoints.redis.redis_sessions import RedisSessions

_TAKE = """
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[2] then
    return {0, token, redis.call('HGET', KEYS[1], 'owner') or ''}
end
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[2]) or 0)
token = string.format('%.0f', math.max(time[1] * 1000000 + time[2], last + 1))
redis.call('SET', KEYS[2], token, 'EX', ARGV[5])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'session_id', ARGV[4], 'token', token, 'owner', ARGV[1], 'started_at', time[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('DEL', unpack(KEYS, 3))
return {1, token, ''}
"""
"""Takes a lease, and clears requests to cancel that are older than it.

Tokens are times in microseconds. A counter alone would issue a token twice if the server lost its latest data."""

_RENEW = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_FREE = "if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class RedisLeaseTable:
    """Leases stored as RAGFlow's ``agent:active-session`` hashes. They expire according to the server's clock."""

    errors: ClassVar[tuple[type[Exception], ...]] = (RedisError, OSError)

    def __init__(
        self,
        client: Redis,
        sessions: RedisSessions,
        prefix: str,
        lease_s: float = LEASE_S,
        *,
        has_one_slot: bool = False,
        read_command: Callable[[str], Command] | None = None,
    ) -> None:
        """Initialize. With ``has_one_slot``, keys without the prefix are in other slots, and are not used.

        ``read_command`` returns the command that reads what the holder of a lease asks for first.
        """
        self._read_command = read_command
        self._client = cast("Any", client)
        self._sessions = sessions
        self._prefix = prefix
        self._flags = flag_prefixes(prefix, has_one_slot=has_one_slot)
        self._lease_ms = int(lease_s * 1000)

    async def take(self, session: str, owner: Owner, dead_token: int) -> int | LeaseHolder:
        """Lease a session if it is free or the token of its lease is ``dead_token``, and read it in the same trip."""
        keys = (self._sessions.lease_key(session), self._counter_key(session), *cancel_keys(self._flags, session))
        arguments = (str(owner), dead_token or -1, self._lease_ms, session, TOKEN_TTL_S)
        pipeline = self._client.pipeline(transaction=False)
        pipeline.eval(_TAKE, len(keys), *keys, *arguments)
        thread = thread_of_session(session)
        if self._read_command is not None:
            pipeline.execute_command(*self._read_command(thread))
        taken, *reads = await pipeline.execute(raise_on_error=False)
        if isinstance(taken, Exception):
            raise taken
        is_ours, token, holder = taken
        if not is_ours:
            return _holder(token, holder)
        for read in reads:
            if not isinstance(read, Exception):  # it will be read again
                self._sessions.reads.remember(thread, int(token), read)
        return int(token)

    async def find(self, session: str) -> LeaseHolder | None:
        """Return the current holder of a session's lease. Expired leases no longer exist."""
        token, holder = await self._client.hmget(self._sessions.lease_key(session), "token", "owner")
        return None if token is None else _holder(token, holder or b"")

    async def renew(self, session: str, token: int) -> bool:
        """Extend a lease."""
        return bool(await self._client.eval(_RENEW, 1, self._sessions.lease_key(session), token, self._lease_ms))

    async def free(self, session: str, token: int) -> None:
        """End a lease, in the open transaction if any: it has the lease's token."""
        key = self._sessions.lease_key(session)
        self._sessions.reads.forget(thread_of_session(session))
        if not collect([("DEL", key)]):
            await self._client.eval(_FREE, 1, key, token)

    async def forget(self, session: str) -> None:
        """Delete the last token of a session."""
        await self._client.delete(self._counter_key(session))

    def _counter_key(self, session: str) -> str:
        return f"{self._prefix}agent:lease-token:{session}"


def _holder(token: bytes, holder: bytes) -> LeaseHolder:
    number = int(token) if token.isdigit() else 0  # RAGFlow's own tokens are not numbers
    return LeaseHolder(parse_owner(holder.decode("utf-8", "replace")), number)
