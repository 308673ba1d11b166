"""Items in Redis: one hash for each, found with the search module. Vectors are compared by the server."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import isnan
from typing import Any, cast

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ragflow_lg.checkpoints.failures import translate_errors
from ragflow_lg.checkpoints.items.item_store import SAME_TIME_S, FoundItem, Namespace, Place, RequiredItem, StoredItem
from ragflow_lg.checkpoints.items.item_vectors import NUMBER_BYTES
from ragflow_lg.checkpoints.redis.redis_client import lacks_index

_FIELDS = ("namespace", "key", "value", "created_at", "updated_at")
_EXACT = "written_at"
"""The field with ``updated_at``, which is rounded in the results of searches because they sort by it."""

_PAGE = 1000
_NO_MODEL = "none"
"""The tag of items without a vector."""

_IF_KEPT = f"""
if KEYS[2] then
    local updated = redis.call('HGET', KEYS[2], 'updated_at')
    if not updated then return 0 end
    if ARGV[1] ~= '' and math.abs(updated - ARGV[1]) >= {SAME_TIME_S} then return 0 end
end
"""

_PUT = f"""
{_IF_KEPT}
local created = redis.call('HGET', KEYS[1], 'created_at')
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
if created then redis.call('HSET', KEYS[1], 'created_at', created) end
return 1
"""
"""Replaces an item, whose vector may have another number of numbers than before, if a second key exists."""

_DELETE = f"""
{_IF_KEPT}
redis.call('DEL', KEYS[1])
return 1
"""


class RedisItems:
    """A `ragflow_lg.checkpoints.items.item_store.ItemTable` in hashes with a common index."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._client = cast("Any", client)
        self._prefix = f"{prefix}item:"
        self._index = f"{prefix}items"
        self._known: set[str] = set()
        """The fields of vectors that the index knows."""

    async def create(self) -> None:
        """Create the index if it does not exist."""
        schema = ("SCHEMA", "within", "TAG", "updated_at", "NUMERIC", "SORTABLE")
        with translate_errors(RedisError, OSError, ValueError):
            await self._unless_exists("FT.CREATE", self._index, "ON", "HASH", "PREFIX", 1, self._prefix, *schema)
            # an index of an earlier version lacks the field
            await self._unless_exists("FT.ALTER", self._index, "SCHEMA", "ADD", "model", "TAG")

    async def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return an item."""
        with translate_errors(RedisError, OSError, ValueError):
            values = await self._client.hmget(self._key(namespace, key), _FIELDS)
        return None if values[0] is None else _item(dict(zip(_FIELDS, values, strict=True)))

    async def put(
        self, items: Sequence[StoredItem], deleted: Sequence[Place], *, required: RequiredItem | None = None
    ) -> bool:
        """Store and delete items in one transaction, unless the required one does not exist."""
        condition = () if required is None else (self._key(required.namespace, required.key),)
        since = "" if required is None or required.updated_at is None else repr(required.updated_at)
        with translate_errors(RedisError, OSError, ValueError):
            for field, size in {
                _vector_field(i.model, len(i.vector)): len(i.vector) for i in items if i.vector
            }.items():
                if field not in self._known:
                    await self._with_index(lambda field=field, size=size: self._add_vectors(field, size))
            async with self._client.pipeline(transaction=True) as pipeline:
                for item in items:
                    keys = self._key(item.namespace, item.key), *condition
                    pipeline.eval(_PUT, len(keys), *keys, since, *_fields_of(item))
                for place in deleted:
                    keys = self._key(*place), *condition
                    pipeline.eval(_DELETE, len(keys), *keys, since)
                return all(await pipeline.execute())

    async def find(self, prefix: Namespace, vector: bytes, count: int, model: str = "") -> Sequence[FoundItem]:
        """Return items, most similar or newest first."""
        inside = f"(@within:{{{_token(prefix)}}})"
        if not vector:
            with translate_errors(RedisError, OSError, ValueError):
                return await self._query(inside, count, "updated_at", "DESC")
        field = _vector_field(model, len(vector))
        query = f"{inside}=>[KNN $count @{field} $vector AS distance]"
        params = ("PARAMS", 4, "count", count, "vector", vector)
        with translate_errors(RedisError, OSError, ValueError):
            try:
                return await self._query(query, count, "distance", "ASC", *params)
            except ResponseError:
                if not await self._has_vectors(field):
                    return []
                # another process has just added the field to the index
                return await self._query(query, count, "distance", "ASC", *params)

    async def foreign(self, prefix: Namespace, model: str, count: int) -> Sequence[StoredItem]:
        """Return items with a vector of another model."""
        query = f"(@within:{{{_token(prefix)}}}) -@model:{{{_model_tag(model)}|{_NO_MODEL}}}"
        with translate_errors(RedisError, OSError, ValueError):
            earlier: list[FoundItem] = []
            while (found := await self._query(query, count, "updated_at", "DESC")) and found != earlier:
                if with_vectors := [row.item for row in found if await self._has_vector(row.item)]:
                    return with_vectors
                earlier = found
        return []

    async def _has_vector(self, item: StoredItem) -> bool:
        """Return whether an item has a vector. One of an earlier version that has none is marked."""
        key = self._key(item.namespace, item.key)
        fields: list[bytes] = await self._client.hkeys(key)
        if any(field.startswith((b"unit_", b"vector_")) for field in fields):
            return True
        if fields:
            await self._client.hset(key, "model", _NO_MODEL)
        return False

    async def outdated(self, prefix: Namespace, before: float, kept: int, count: int) -> Sequence[Place]:
        """Return items that were written before a time, or that are too many."""
        with translate_errors(RedisError, OSError, ValueError):
            inside = f"(@within:{{{_token(prefix)}}})"
            excess = await self._count(inside) - kept
            oldest = [found.item for found in await self._query(inside, count, "updated_at", "ASC")]
        return [(i.namespace, i.key) for n, i in enumerate(oldest) if n < excess or i.updated_at < before]

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the namespaces of all items."""
        found: set[Namespace] = set()
        with translate_errors(RedisError, OSError, ValueError):
            async for key in self._client.scan_iter(match=f"{_escape(self._prefix)}*", count=_PAGE):
                if text := await self._client.hget(key, "namespace"):
                    found.add(tuple(orjson.loads(text)))
        return sorted(found)

    async def _count(self, query: str) -> int:
        command = "FT.SEARCH", self._index, query, "LIMIT", 0, 0
        answer: Any = await self._with_index(lambda: self._client.execute_command(*command))
        total: Any = answer[b"total_results" if isinstance(answer, dict) else 0]
        return int(total)

    async def _query(self, query: str, count: int, order: str, direction: str, *params: Any) -> list[FoundItem]:
        fields = (*_FIELDS, _EXACT, "distance")
        command: tuple[Any, ...] = ("FT.SEARCH", self._index, query, "RETURN", len(fields), *fields)
        command = (*command, "SORTBY", order, direction, "LIMIT", 0, count, *params, "DIALECT", 2)
        rows = _rows(await self._with_index(lambda: self._client.execute_command(*command)))
        return [FoundItem(_item(row), _score(row)) for row in rows if all(name in row for name in _FIELDS)]

    async def _add_vectors(self, field: str, size: int) -> None:
        """Let the index know vectors of another model or of another length in bytes.

        The vectors have length 1, so their product is the cosine. Redis's own cosine is no number for a vector of
        zeros, and such an item is not found.
        """
        vector = ("VECTOR", "FLAT", 6, "TYPE", "FLOAT32", "DIM", size // NUMBER_BYTES, "DISTANCE_METRIC", "IP")
        await self._unless_exists("FT.ALTER", self._index, "SCHEMA", "ADD", field, *vector)
        self._known.add(field)

    async def _has_vectors(self, field: str) -> bool:
        answer: Any = await self._client.execute_command("FT.INFO", self._index)
        return field.encode() in repr(answer).encode()

    async def _with_index(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do something, again with a new index if a Redis that has lost its data has none."""
        try:
            return await work()
        except ResponseError as error:
            if not lacks_index(error):
                raise
        self._known.clear()
        await self.create()
        return await work()

    async def _unless_exists(self, *command: Any) -> None:
        try:
            await self._client.execute_command(*command)
        except ResponseError as error:
            if not any(text in str(error).lower() for text in ("already exists", "duplicate field")):
                raise

    def _key(self, namespace: Namespace, key: str) -> str:
        return f"{self._prefix}{_digest([list(namespace), key])}"


def _fields_of(item: StoredItem) -> list[Any]:
    prefixes = [item.namespace[:length] for length in range(len(item.namespace) + 1)]
    fields: list[Any] = ["namespace", orjson.dumps(list(item.namespace)), "key", item.key, "value", item.value]
    fields += ["created_at", repr(item.created_at), "updated_at", repr(item.updated_at), _EXACT, repr(item.updated_at)]
    fields += ["within", ",".join(_token(prefix) for prefix in prefixes)]
    fields += ["model", _model_tag(item.model) if item.vector else _NO_MODEL]
    if item.vector:
        fields += [_vector_field(item.model, len(item.vector)), item.vector]
    return fields


def _vector_field(model: str, size: int) -> str:
    return f"unit_{size // NUMBER_BYTES}_{_model_tag(model)}"


def _model_tag(model: str) -> str:
    return _digest(model)[:16]


def _token(prefix: Namespace) -> str:
    """Return a tag for all items inside a namespace, whatever characters its labels contain."""
    return _digest(list(prefix))


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()[:40]


def _escape(text: str) -> str:
    """Return a text that matches only itself as a pattern of SCAN."""
    return "".join(f"\\{character}" if character in "*?[]\\^-" else character for character in text)


def _rows(answer: Any) -> list[dict[str, Any]]:
    """Return the found hashes: maps in version 3 of Redis's protocol, lists of names and values in version 2."""
    if isinstance(answer, dict):
        found: list[Any] = cast("Any", answer)[b"results"]
        return [{name.decode(): value for name, value in row[b"extra_attributes"].items()} for row in found]
    lists: list[list[Any]] = answer[2::2]
    return [{name.decode(): value for name, value in zip(row[::2], row[1::2], strict=True)} for row in lists]


def _score(row: Mapping[str, Any]) -> float | None:
    """Return the cosine, or None without a vector. That of a vector of zeros is no number for Redis."""
    if "distance" not in row:
        return None
    distance = float(row["distance"])
    return 0.0 if isnan(distance) else 1.0 - distance


def _item(fields: Mapping[str, Any]) -> StoredItem:
    return StoredItem(
        tuple(orjson.loads(fields["namespace"])),
        fields["key"].decode("utf-8", "replace"),
        bytes(fields["value"]),
        float(fields["created_at"]),
        float(fields.get(_EXACT) or fields["updated_at"]),
    )
