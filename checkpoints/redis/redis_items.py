"""LangGraph's ``BaseStore`` in a hash for each namespace. LangGraph's own needs modules, and keys of several slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import orjson
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore
from redis.asyncio import Redis

_PUT = r"""
local time = redis.call('TIME')
local now = string.format('%d.%06d', time[1], time[2])
local old = redis.call('HGET', KEYS[1], ARGV[2])
local created = old and string.match(old, '^%S+') or now
redis.call('HSET', KEYS[1], ARGV[2], created .. ' ' .. now .. ' ' .. ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
"""
_DELETE = """
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[1]) end
"""

_Namespace = tuple[str, ...]


class RedisItems(BaseStore):
    """Each field of a hash is an item: the times of its creation and its last change, and its value as JSON."""

    def __init__(self, client: Redis, prefix: str) -> None:
        """Initialize. ``prefix`` begins all keys."""
        self._client = cast("Any", client)
        self._prefix = f"{prefix}items:"
        self._names = f"{prefix}item-namespaces"

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Raise NotImplementedError: the store is asynchronous."""
        raise NotImplementedError("use abatch")

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: first everything that reads, then everything that writes, in one transaction."""
        operations = list(ops)
        for op in operations:
            validate_op_namespace(op)
        results = [await self._read(op) for op in operations]
        async with self._client.pipeline(transaction=True) as pipeline:
            for op in operations:
                if isinstance(op, PutOp):
                    script, value = (_DELETE, b"") if op.value is None else (_PUT, orjson.dumps(op.value))
                    place = ".".join(op.namespace)
                    pipeline.eval(script, 2, self._prefix + place, self._names, f"{place}.", op.key, value)
            await pipeline.execute()
        return results

    async def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                stored = await self._client.hget(self._prefix + ".".join(op.namespace), op.key)
                return None if stored is None else _item(op.namespace, op.key, stored)
            case SearchOp():
                items = {(item.namespace, item.key): item for item in await self._items(op.namespace_prefix)}
                puts = [PutOp(*place, item.value) for place, item in items.items()]
                found: Any = _answer(puts, op._replace(query=None))
                return [items[item.namespace, item.key] for item in found]
            case ListNamespacesOp():
                return _answer([PutOp(name, "item", {}) for name in await self._namespaces(())], op)
            case _:
                return None

    async def _items(self, prefix: _Namespace) -> Sequence[SearchItem]:
        """Return the items inside a namespace, newest first."""
        names = await self._namespaces(prefix)
        async with self._client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.hgetall(self._prefix + ".".join(name))
            hashes = await pipeline.execute()
        found = [_item(name, *field) for name, fields in zip(names, hashes, strict=True) for field in fields.items()]
        return sorted(found, key=lambda item: item.updated_at, reverse=True)

    async def _namespaces(self, prefix: _Namespace) -> Sequence[_Namespace]:
        """Return the namespaces inside one, sorted."""
        first = "".join(f"{label}." for label in prefix).encode()
        found: list[bytes] = await self._client.zrangebylex(self._names, b"[" + first, b"[" + first + b"\xff")
        return [tuple(name.decode().removesuffix(".").split(".")) for name in found]


def _answer(puts: Sequence[PutOp], op: Op) -> Result:
    """Return the answer of LangGraph's store in memory, which keeps the order of the items."""
    store = InMemoryStore()
    store.batch(puts)
    return store.batch([op])[0]


def _item(namespace: _Namespace, key: str | bytes, stored: bytes) -> SearchItem:
    created, updated, value = stored.split(b" ", 2)
    key = key.decode() if isinstance(key, bytes) else key
    times: Any = {"created_at": _time(created), "updated_at": _time(updated)}
    return SearchItem(namespace=namespace, key=key, value=orjson.loads(value), **times)


def _time(seconds: bytes) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
