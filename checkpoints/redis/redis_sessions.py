"""The Redis keys of sessions, and the script that writes to them, so that a session's keys live and expire together."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from ragflow_lg.base.ids import session_of_thread
from ragflow_lg.checkpoints.redis.redis_client import Command, collect
from ragflow_lg.checkpoints.redis.redis_documents import CHECKPOINTS
from ragflow_lg.checkpoints.steps.preconditions import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    NO_LEASE,
    PART_MISSING,
    Precondition,
)

_ENTRY = """
local function entry(key, documents)
    if string.sub(key, 1, #documents) ~= documents then return nil end
    local id = string.match(key, '[^:]*$')
    return id .. '\\0' .. string.sub(key, #documents + 1, -#id - 2)
end
"""
"""Returns the entry of a checkpoint in the sorted set of its thread, by its key; nil for other keys."""

_RENEW = """
local function renew(keys, index, ttl_ms)
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local deadline = redis.call('PEXPIRETIME', keys)
    if deadline >= now + ttl_ms then return deadline end
    deadline = now + math.ceil(ttl_ms * 1.01)
    for _, key in ipairs(redis.call('SMEMBERS', keys)) do redis.call('PEXPIREAT', key, deadline) end
    redis.call('PEXPIREAT', keys, deadline)
    redis.call('PEXPIREAT', index, deadline, 'GT')
    return deadline
end
"""
"""Extends the life of all keys of a session, unless that has just been done: otherwise a run would take time in
proportion to the square of the session's length."""

_LIST = """
local function list(index, ttl_ms, session, started_ms, record_key)
    redis.call('ZADD', index, 'GT', started_ms, session)
    local before, after = string.match(record_key, '^(.*)%*(.*)$')
    for _, other in ipairs(redis.call('ZRANDMEMBER', index, 3)) do
        if redis.call('EXISTS', before .. other .. after) == 0 then redis.call('ZREM', index, other) end
    end
    ttl_ms = math.ceil(ttl_ms * 1.01)
    if redis.call('PTTL', index) < ttl_ms then redis.call('PEXPIRE', index, ttl_ms) end
end
"""
"""Adds a session to the index, which expires with its last session, and drops a few sessions that have expired."""

LIST = "LIST"
"""The name of a command of the script: add a session to the index. It has the session's id, the start of its run, and
the key of its records, with a ``*`` for the id."""

_WRITE = f"""
local lease, blobs, keys, index, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ttl_ms, is_checkpoint, token, checkpoint = tonumber(ARGV[1]), ARGV[3] == '1', ARGV[4], ARGV[5]
{_RENEW}
{_ENTRY}
{_LIST}
local at = 7 + tonumber(ARGV[6])
if is_checkpoint then
    local current = redis.call('HGET', lease, 'token') or '{NO_LEASE}'
    if current ~= token then
        return redis.error_reply(current == '{NO_LEASE}' and '{LEASE_MISSING}' or '{LEASE_TAKEN}')
    end
    if checkpoint ~= '' and redis.call('EXISTS', checkpoint) == 0 then
        return redis.error_reply('{CHECKPOINT_MISSING}')
    end
    for i = 7, at - 1 do
        if redis.call('HEXISTS', blobs, ARGV[i]) == 0 then return redis.error_reply('{BLOB_MISSING}') end
    end
end
local is_shrunk, written, others = false, {{}}, {{HDEL = true, ZREM = true, SETEX = true, {LIST} = true}}
for _, command in ipairs(cmsgpack.unpack(ARGV[at])) do
    if command[1] == '{LIST}' then
        list(index, ttl_ms, unpack(command, 2))
    else
        redis.call(unpack(command))
    end
    is_shrunk = is_shrunk or command[1] == 'DEL' or command[1] == 'HDEL'
    if command[1] == 'DEL' then
        for i = 2, #command do
            redis.call('SREM', keys, command[i])
            local erased = entry(command[i], ARGV[2])
            if erased then redis.call('ZREM', order, erased) end
        end
    elseif not others[command[1]] then
        written[command[2]] = true
    end
end
if is_shrunk then
    for _, key in ipairs({{blobs, order}}) do
        if redis.call('EXISTS', key) == 0 then redis.call('SREM', keys, key) end
    end
end
local has_order = false
for key in pairs(written) do
    redis.call('SADD', keys, key)
    local added = entry(key, ARGV[2])
    if added then has_order = redis.call('ZADD', order, 0, added) and true end
end
if has_order then
    redis.call('SADD', keys, order)
    written[order] = true
end
local deadline = renew(keys, index, ttl_ms)
for key in pairs(written) do redis.call('PEXPIREAT', key, deadline) end
return 1
"""
"""Checks the precondition, executes commands, and gives their keys the same time to live as the rest of the session.

The key of SETEX keeps its own. `LIST` is a command of this script."""

_READ = f"""
local blobs, keys, index, order, pointer, checkpoint = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[3]
{_RENEW}
local function is_gone(key) return redis.call('SISMEMBER', keys, key) == 1 and redis.call('EXISTS', key) == 0 end
if redis.call('EXISTS', keys) == 1 then
    renew(keys, index, tonumber(ARGV[1]))
elseif redis.call('EXISTS', blobs, pointer) > 0 then
    return false
end
if checkpoint == '' then
    if is_gone(pointer) then return false end
    checkpoint = redis.call('GET', pointer)
    if not checkpoint then return {{}} end
end
local writes = ARGV[2] .. string.match(checkpoint, '[^:]*$')
if is_gone(blobs) or is_gone(order) or is_gone(checkpoint) or is_gone(writes) then return false end
local document = redis.call(ARGV[4], checkpoint)
if not document then return {{}} end
local found = {{document}}
for _, key in ipairs(redis.call('ZRANGE', writes, 0, -1)) do
    local write = redis.call(ARGV[4], key)
    if not write then return false end
    found[#found + 1] = write
end
return found
"""
"""Renews a session. Returns a checkpoint and its pending writes, nothing if it does not exist, or false if a part is
missing."""

_LIST_CHECKPOINTS = """
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('SISMEMBER', KEYS[1], KEYS[2]) == 1 then return false end
return redis.call('ZREVRANGEBYLEX', KEYS[2], ARGV[1], '-', 'LIMIT', 0, ARGV[2])
"""
"""Returns a page of a thread's checkpoints, newest first, or false if the server has lost them."""

_DELETE = """
local prefix, rest = ARGV[1], {}
for _, key in ipairs(redis.call('SMEMBERS', KEYS[2])) do
    if string.sub(key, 1, #prefix) ~= prefix then
        redis.call('UNLINK', key)
        redis.call('SREM', KEYS[2], key)
    end
end
redis.call('UNLINK', KEYS[1])
"""
"""Deletes a thread. Run records remain, because they belong to the session."""


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

    def __init__(self, client: Redis, prefix: str, ttl_s: int, *, has_json: bool = False) -> None:
        """Initialize. ``has_json``: checkpoints are JSON documents, which need modules, and otherwise texts."""
        self._client = cast("Any", client)
        self._set, self._get = (("JSON.SET", "$"), "JSON.GET") if has_json else (("SET",), "GET")
        self._prefix = prefix
        self._ttl_ms = ttl_s * 1000
        self.index = f"{prefix}agent:sessions"
        """The key of the sorted set of all sessions."""

    def lease_key(self, session: str) -> str:
        """Return the key of a session's lease."""
        return f"{self._prefix}agent:active-session:{session}"

    def blobs_key(self, thread: str) -> str:
        """Return the key of the hash of a thread's blobs."""
        return f"{self._prefix}checkpoint_blobs:{thread}"

    def set_document(self, key: str, text: bytes) -> Command:
        """Return the command that stores a document."""
        return (self._set[0], key, *self._set[1:], text)

    def get_document(self, key: str) -> Command:
        """Return the command that reads a document."""
        return (self._get, key)

    async def write(self, thread: str, commands: Sequence[Command]) -> None:
        """Execute commands in the open transaction, or by themselves.

        The second part of each must be its key, which becomes a key of the session.
        """
        if not collect(commands):
            await self._write(thread, commands, [0, NO_LEASE, "", 0])

    async def write_checked(self, precondition: Precondition, commands: Sequence[Command], checkpoint: str) -> None:
        """Execute commands if the precondition holds. ``checkpoint`` is the key of its checkpoint, or ``""``.

        Raises:
            ResponseError: if it does not hold.
        """
        blobs: Collection[str] = precondition.blobs
        await self._write(precondition.thread, commands, [1, precondition.token, checkpoint, len(blobs), *blobs])

    async def _write(self, thread: str, commands: Sequence[Command], claims: Sequence[Any]) -> None:
        arguments = [self._ttl_ms, self._documents(thread), *claims, _pack(commands)]
        lease = self.lease_key(session_of_thread(thread))
        keys = (lease, self.blobs_key(thread), self._keys_key(thread), self.index, self._order_key(thread))
        await self._client.eval(_WRITE, len(keys), *keys, *arguments)

    async def read(self, thread: str, pointer: str, checkpoint: str, writes_prefix: str) -> Sequence[bytes] | None:
        """Renew a thread. Return the JSON texts of a checkpoint and its pending writes, in the order of their storage.

        ``pointer`` is the key that names the newest checkpoint, ``checkpoint`` the key of another one, or ``""``.
        Return nothing if there is no such checkpoint, and None if the server has lost a part of it.
        """
        keys = (self.blobs_key(thread), self._keys_key(thread), self.index, self._order_key(thread), pointer)
        return await self._client.eval(_READ, len(keys), *keys, self._ttl_ms, writes_prefix, checkpoint, self._get)

    async def list_checkpoints(self, thread: str, bound: bytes, count: int) -> Sequence[bytes]:
        r"""Return entries ``id\0namespace`` of a thread's checkpoints, newest first.

        ``bound`` is an entry, or an id: only older ones are returned; ``b""`` for the newest.

        Raises:
            ResponseError: if the server has lost them.
        """
        start = b"(" + bound if bound else b"+"
        keys = self._keys_key(thread), self._order_key(thread)
        found = await self._client.eval(_LIST_CHECKPOINTS, 2, *keys, start, count)
        if found is None:
            raise ResponseError(PART_MISSING)
        return found

    async def threads(self) -> list[str]:
        """Return all threads with checkpoints, by looking at all keys of the server."""
        start = self._order_key("")
        pattern = re.sub(r"[*?\[\]\\^-]", r"\\\g<0>", start) + "*"
        return [key.decode()[len(start) :] async for key in self._client.scan_iter(match=pattern, count=1000)]

    async def delete_thread(self, thread: str) -> None:
        """Delete a thread's checkpoints and blobs."""
        keys = (self.blobs_key(thread), self._keys_key(thread))
        await self._client.eval(_DELETE, 2, *keys, f"{self._prefix}agent:")

    def _documents(self, thread: str) -> str:
        """Return how the keys of a thread's checkpoints begin."""
        return f"{self._prefix}{CHECKPOINTS}:{thread}:"

    def _keys_key(self, thread: str) -> str:
        return f"{self._prefix}checkpoint_keys:{thread}"

    def _order_key(self, thread: str) -> str:
        return f"{self._prefix}checkpoint_order:{thread}"
