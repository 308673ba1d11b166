"""The Redis keys of sessions, and the script that writes to them, so that a session's keys live and expire together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from redis.asyncio import Redis

from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints.redis.redis_client import Command, collect
from ragflow_lg.checkpoints.steps.thread_tables import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    PART_MISSING,
    Precondition,
)

_KEYS = """
local checkpoints, blobs, runs, index, lease, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[2]
local ttl_ms = tonumber(ARGV[1])
local function renew()
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local deadline = math.max(redis.call('PEXPIRETIME', checkpoints), redis.call('PEXPIRETIME', runs))
    if deadline >= now + ttl_ms then return deadline end
    deadline = now + math.ceil(ttl_ms * 1.01)
    for _, key in ipairs({checkpoints, blobs, runs}) do redis.call('PEXPIREAT', key, deadline) end
    for _, run in ipairs(redis.call('ZRANGE', runs, 0, -1)) do redis.call('PEXPIREAT', record .. run, deadline) end
    redis.call('PEXPIREAT', index, deadline, 'GT')
    return deadline
end
"""
"""Names the keys of a session, and extends their life unless that has just been done.

Otherwise, a run would take time in proportion to the square of the session's length."""

LIST, APPEND, NEWEST = "LIST", "APPEND_FIELD", "NEWEST"
"""Commands of the script.

`LIST` adds a session to the index, with its id and the start of its run. `APPEND` appends to a field of a hash.
`NEWEST` stores the greatest id that a namespace still has, or nothing: a thread that has blobs must have that hash."""

_WRITE = f"""
{_KEYS}
if ARGV[3] ~= '' then
    local token = redis.call('HGET', lease, 'token') or '{NO_LEASE}'
    if token ~= ARGV[3] then
        return redis.error_reply(token == '{NO_LEASE}' and '{LEASE_MISSING}' or '{LEASE_TAKEN}')
    end
end
if ARGV[4] ~= '' and redis.call('HEXISTS', checkpoints, ARGV[4]) == 0 then
    return redis.error_reply('{CHECKPOINT_MISSING}')
end
for i = 6, #ARGV do
    if redis.call('HEXISTS', blobs, ARGV[i]) == 0 then return redis.error_reply('{BLOB_MISSING}') end
end
local function list(session, started_ms)
    redis.call('ZADD', index, 'GT', started_ms, session)
    local start = string.sub(runs, 1, -#session - 1)
    for _, other in ipairs(redis.call('ZRANDMEMBER', index, 3)) do
        if redis.call('EXISTS', start .. other) == 0 then redis.call('ZREM', index, other) end
    end
    local life_ms = math.ceil(ttl_ms * 1.01)
    if redis.call('PTTL', index) < life_ms then redis.call('PEXPIRE', index, life_ms) end
end
local function newest(namespace)
    local start, id = 'c\\0' .. namespace .. '\\0', ''
    for _, field in ipairs(redis.call('HKEYS', checkpoints)) do
        if string.sub(field, 1, #start) == start then
            local other = string.sub(field, #start + 1)
            if other > id then id = other end
        end
    end
    redis.call('HSET', checkpoints, 'n\\0' .. namespace, id)
end
local written = {{}}
for _, command in ipairs(cmsgpack.unpack(ARGV[5])) do
    local name, key = command[1], command[2]
    if name == '{LIST}' then
        list(unpack(command, 2))
    elseif name == '{NEWEST}' then
        newest(key)
    elseif name == '{APPEND}' then
        redis.call('HSET', key, command[3], (redis.call('HGET', key, command[3]) or '') .. command[4])
    else
        redis.call(unpack(command))
    end
    if name == 'HSET' or name == 'ZADD' or name == '{APPEND}' then written[key] = true end
end
local deadline = renew()
for key in pairs(written) do redis.call('PEXPIREAT', key, deadline) end
return 1
"""
"""Checks the precondition, executes commands, and gives their keys the same time to live as the rest of the session."""

_READ = f"""
{_KEYS}
renew()
local namespace, id = ARGV[3], ARGV[4]
if redis.call('EXISTS', checkpoints) == 0 then
    if redis.call('EXISTS', blobs) == 1 then return redis.error_reply('{PART_MISSING}') end
    return {{}}
end
if id == '' then id = redis.call('HGET', checkpoints, 'n\\0' .. namespace) end
if not id then return {{}} end
local checkpoint = redis.call('HGET', checkpoints, 'c\\0' .. namespace .. '\\0' .. id)
if not checkpoint then return {{}} end
return {{id, checkpoint, redis.call('HGET', checkpoints, 'w\\0' .. namespace .. '\\0' .. id) or ''}}
"""
"""Renews a session. Returns the id of a checkpoint, the checkpoint and its pending writes, or nothing."""


def _pack(commands: Sequence[Command]) -> bytes:
    """Return commands as one argument of the script: the client takes long for each argument."""
    return msgspec.msgpack.encode([list(map(_as_text, command)) for command in commands])


def _as_text(part: Any) -> Any:
    """Return a part of a command as text. The script's decoder does not know MessagePack's type for bytes."""
    if isinstance(part, bytes):
        return msgspec.Raw(b"\xdb" + len(part).to_bytes(4, "big") + part)
    return part if isinstance(part, str) else str(part)


class RedisSessions:
    """The keys of all sessions of a deployment."""

    def __init__(self, client: Redis, prefix: str, ttl_s: int) -> None:
        self.client = cast("Any", client)
        self.prefix = prefix
        self._ttl_ms = ttl_s * 1000
        self.index = f"{prefix}agent:sessions"
        """The key of the sorted set of all sessions."""

    def lease_key(self, session: str) -> str:
        """Return the key of a session's lease."""
        return f"{self.prefix}agent:active-session:{session}"

    def runs_key(self, session: str) -> str:
        """Return the key of the sorted set of a session's runs."""
        return f"{self.prefix}agent:runs-of-session:{session}"

    def record_key(self, run_id: str) -> str:
        """Return the key of a run's record."""
        return f"{self.prefix}agent:run:{run_id}"

    def checkpoints_key(self, thread: str) -> str:
        """Return the key of the hash of a thread's checkpoints and pending writes."""
        return f"{self.prefix}checkpoints:{thread}"

    def blobs_key(self, thread: str) -> str:
        """Return the key of the hash of a thread's blobs."""
        return f"{self.prefix}checkpoint_blobs:{thread}"

    async def write(self, thread: str, commands: Sequence[Command]) -> None:
        """Execute commands in the open transaction, or by themselves. The second part of each must be its key."""
        if not collect(commands):
            await self._eval(_WRITE, thread, "", "", _pack(commands))

    async def write_checked(self, precondition: Precondition, commands: Sequence[Command]) -> None:
        """Execute commands if the precondition holds.

        Raises:
            ResponseError: if it does not.
        """
        key = precondition.checkpoint
        checkpoint = f"c\0{key.namespace}\0{key.checkpoint}" if key is not None else ""
        claims = (precondition.token, checkpoint, _pack(commands), *precondition.blobs)
        await self._eval(_WRITE, precondition.thread, *claims)

    async def read(self, thread: str, namespace: str, checkpoint: str) -> Sequence[bytes]:
        """Renew a thread. Return the id of a checkpoint, or of the newest one for ``""``, its text and its writes.

        Return nothing if there is no such checkpoint.

        Raises:
            ResponseError: if the server has lost a part of the thread.
        """
        return await self._eval(_READ, thread, namespace, checkpoint)

    async def _eval(self, script: str, thread: str, *arguments: Any) -> Any:
        session = session_of_thread(thread)
        hashes = (self.checkpoints_key(thread), self.blobs_key(thread))
        keys = (*hashes, self.runs_key(session), self.index, self.lease_key(session))
        return await self.client.eval(script, len(keys), *keys, self._ttl_ms, self.record_key(""), *arguments)
