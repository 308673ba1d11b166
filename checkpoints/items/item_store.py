"""LangGraph's ``BaseStore`` beside the checkpoints: what outlives sessions, such as memories.

LangGraph's own stores revive objects from what they read, and its SQLite store needs loadable extensions, which many
Pythons lack. Items here are plain JSON, and vectors are compared exactly.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import orjson
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)
from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.items.item_vectors import pack_vector
from ragflow_lg.checkpoints.steps.plain_serializer import check_plain
from ragflow_lg.services.services import Clock

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def is_match(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Return whether a value meets all conditions of a filter. Values of different types are only unequal.

    >>> is_match({"size": 3, "kind": "raw"}, {"kind": "raw", "size": {"$gt": 2}})
    True

    Raises:
        CheckpointError: if a condition has an unknown operator.
    """
    return all(_meets(value.get(name), condition) for name, condition in (conditions or {}).items())


def _meets(value: Any, condition: Any) -> bool:
    if not isinstance(condition, dict) or not any(str(key).startswith("$") for key in cast("Any", condition)):
        return bool(value == condition)
    for name, wanted in cast("dict[str, Any]", condition).items():
        if name not in _COMPARISONS:
            raise CheckpointError(f"Unknown operator {name!r:.40} in a filter: use {', '.join(_COMPARISONS)}.")
        try:
            if not _COMPARISONS[name](value, wanted):
                return False
        except TypeError:
            return False
    return True


def select_namespaces(namespaces: Sequence[tuple[str, ...]], operation: ListNamespacesOp) -> list[tuple[str, ...]]:
    """Return the sorted namespaces that an operation asks for, shortened to its depth and without duplicates."""
    conditions = operation.match_conditions or ()
    found = [namespace for namespace in namespaces if all(_matches(namespace, one) for one in conditions)]
    if operation.max_depth is not None:
        found = [namespace[: operation.max_depth] for namespace in found]
    return sorted(set(found))[operation.offset : operation.offset + operation.limit]


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", name) for name, wanted in zip(part, path, strict=True))


Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
"""The namespace and the key of an item."""

MAX_FOUND = 20_000
"""Maximum number of items that a search looks at."""

MAX_OUTDATED = 1_000
"""Maximum number of items that are deleted together because they are outdated."""

MAX_EMBEDDED = 64
"""Maximum number of items that are embedded again together."""

SAME_TIME_S = 1e-5
"""Times that differ less are the same: a `datetime` has no more digits."""

WHOLE = ("$",)
"""The path of a value that is embedded as a whole."""


class StoredItem(Struct, frozen=True):
    """An item as tables keep it. ``value`` is the text of a JSON object; times are in seconds."""

    namespace: Namespace
    key: str
    value: bytes
    created_at: float
    updated_at: float
    vector: bytes = b""
    """The vector of the indexed fields, as `ragflow_lg.checkpoints.items.item_vectors` packs it; empty without one."""
    model: str = ""
    """The name of the model that made the vector."""


class FoundItem(Struct, frozen=True):
    """A result of a search. ``score`` is the cosine, or None without a vector to compare with."""

    item: StoredItem
    score: float | None = None


class RequiredItem(NamedTuple):
    """An item that must exist when others are written."""

    namespace: Namespace
    key: str
    updated_at: float | None = None
    """When it was written last; None if that does not matter."""

    def is_met_by(self, updated_at: float) -> bool:
        """Return whether an item that was written at a time is the required one."""
        return self.updated_at is None or abs(self.updated_at - updated_at) < SAME_TIME_S


class ItemTable(Protocol):
    """Where items are kept."""

    async def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return an item."""
        ...

    async def put(
        self, items: Sequence[StoredItem], deleted: Sequence[Place], *, required: RequiredItem | None = None
    ) -> bool:
        """Store and delete items in one transaction. An item that exists keeps its ``created_at``.

        If the ``required`` item does not exist or has changed, nothing is written. Return whether it was.
        """
        ...

    async def outdated(self, prefix: Namespace, before: float, kept: int, count: int) -> Sequence[Place]:
        """Return up to ``count`` items whose namespace begins with a prefix.

        They were written last before a time, or are not among the ``kept`` items that were written last.
        """
        ...

    async def find(self, prefix: Namespace, vector: bytes, count: int, model: str = "") -> Sequence[FoundItem]:
        """Return up to ``count`` items whose namespace begins with a prefix.

        With a vector, only items with one of the same model and length, most similar first; otherwise newest first.
        """
        ...

    async def foreign(self, prefix: Namespace, model: str, count: int) -> Sequence[StoredItem]:
        """Return up to ``count`` items whose namespace begins with a prefix and whose vector is another model's."""
        ...

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the namespaces of all items, sorted."""
        ...


class Embed(Protocol):
    """Returns one vector for each text, in order."""

    async def __call__(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return the vectors."""
        ...


class ItemStore(BaseStore):
    """A store over a table. Several stores with different embedding models can share a table.

    With ``embed``, a query compares meanings: the texts of an item's ``fields`` have one vector together. Without it,
    a query is ignored, as in LangGraph's stores. ``model`` names the model of ``embed``: the vectors of two
    models are never compared. Items do not expire.
    """

    supports_ttl = False

    def __init__(
        self,
        table: ItemTable,
        clock: Clock,
        embed: Embed | None = None,
        *,
        fields: Sequence[str] = WHOLE,
        model: str = "",
    ) -> None:
        """Initialize, inside the event loop to which the table belongs."""
        self._table = table
        self._clock = clock
        self._embed = embed
        self._fields = tuple(fields)
        self._model = model
        self._loop = asyncio.get_running_loop()

    def indexed(self, embed: Embed, fields: Sequence[str], model: str = "") -> ItemStore:
        """Return a store of the same items that embeds these fields of new ones with a model."""
        return ItemStore(self._table, self._clock, embed, fields=fields, model=model)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations from another thread.

        Raises:
            CheckpointError: in the thread of the event loop, which would wait for itself; use `abatch` there.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            raise CheckpointError("The store is asynchronous: call aput, aget, asearch or adelete, and await them.")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations: first everything that reads, then everything that writes, in one transaction."""
        operations = list(ops)
        results: list[Result] = [None] * len(operations)
        writes: dict[tuple[Namespace, str], PutOp] = {}
        for index, operation in enumerate(operations):
            match operation:
                case GetOp():
                    stored = await self._table.get(operation.namespace, operation.key)
                    results[index] = None if stored is None else _item(stored)
                case SearchOp():
                    results[index] = await self._search(operation)
                case ListNamespacesOp():
                    results[index] = select_namespaces(await self._table.namespaces(), operation)
                case PutOp():
                    writes[operation.namespace, operation.key] = operation
        if writes:
            await self._write(list(writes.values()))
        return results

    async def aput_if_kept(
        self, operations: Sequence[PutOp], namespace: Namespace, key: str, updated_at: datetime | None = None
    ) -> bool:
        """Store and delete items in one transaction, unless another item was deleted. Return whether it was done.

        With ``updated_at``, that item must not have been written again either.
        """
        since = None if updated_at is None else updated_at.timestamp()
        return await self._write(operations, RequiredItem(namespace, key, since))

    async def adelete_outdated(self, prefix: Namespace, before: float, kept: int) -> int:
        """Delete items inside a namespace that were written last before a time, and all but the ``kept`` last ones.

        ``before`` is in epoch seconds. Return the number of deleted items.
        """
        deleted, earlier = 0, None
        # Redis finds an item that another program has stored under another key again and again.
        while (places := await self._table.outdated(prefix, before, kept, MAX_OUTDATED)) and places != earlier:
            await self._table.put((), places)
            deleted, earlier = deleted + len(places), places
        return deleted

    async def aembed_again(self, prefix: Namespace) -> int:
        """Embed the items inside a namespace whose vectors are those of another model. Return their number.

        Their times stay. An item that is changed or deleted meanwhile is left alone.

        Raises:
            RagflowLgError: if the model fails. What was embedded before is kept.
        """
        embedded, earlier = 0, None
        while (items := await self._table.foreign(prefix, self._model, MAX_EMBEDDED)) and items != earlier:
            puts = [PutOp(item.namespace, item.key, _decode(item)) for item in items]
            vectors = await self._vectors(puts)
            for index, item in enumerate(items):
                renewed = replace(item, vector=vectors.get(index, b""), model=self._model)
                required = RequiredItem(item.namespace, item.key, item.updated_at)
                embedded += await self._table.put([renewed], (), required=required)
            earlier = items
        return embedded

    async def _write(self, operations: Sequence[PutOp], required: RequiredItem | None = None) -> bool:
        now = self._clock.now()
        kept = [operation for operation in operations if operation.value is not None]
        values = [_encode(operation) for operation in kept]
        vectors = await self._vectors(kept)
        items = [
            StoredItem(operation.namespace, operation.key, value, now, now, vectors.get(index, b""), self._model)
            for index, (operation, value) in enumerate(zip(kept, values, strict=True))
        ]
        deleted = [(operation.namespace, operation.key) for operation in operations if operation.value is None]
        return await self._table.put(items, deleted, required=required)

    async def _vectors(self, operations: Sequence[PutOp]) -> dict[int, bytes]:
        """Return the vectors of the operations that are indexed, by position."""
        if self._embed is None:
            return {}
        texts: dict[int, str] = {}
        for index, operation in enumerate(operations):
            if operation.index is not False:
                fields = operation.index or self._fields
                parts = [part for field in fields for part in _texts_at(operation.value, field)]
                if text := "\n".join(part for part in parts if part.strip()):
                    texts[index] = text
        if not texts:
            return {}
        vectors = await _embed_all(self._embed, list(texts.values()))
        return {index: pack_vector(vector) for index, vector in zip(texts, vectors, strict=True)}

    async def _search(self, operation: SearchOp) -> list[SearchItem]:
        vector = b""
        if operation.query and self._embed is not None:
            vector = pack_vector((await _embed_all(self._embed, [operation.query]))[0])
        wanted = operation.offset + operation.limit
        count = min(wanted, MAX_FOUND)
        while True:
            found = await self._table.find(operation.namespace_prefix, vector, count, self._model)
            matches = [entry for entry in map(_search_item, found) if is_match(entry.value, operation.filter)]
            if len(matches) >= wanted or len(found) < count or count >= MAX_FOUND:
                return matches[operation.offset : wanted]
            count = min(count * 8, MAX_FOUND)


async def _embed_all(embed: Embed, texts: list[str]) -> Sequence[Sequence[float]]:
    """Return one vector for each text.

    Raises:
        CheckpointError: if the number of vectors is another one.
    """
    vectors = await embed(texts)
    if len(vectors) != len(texts):
        raise CheckpointError(f"The embedding model returned {len(vectors)} vectors for {len(texts)} texts.")
    return vectors


def _texts_at(value: Any, field: str) -> list[str]:
    return get_text_at_path(value, "$" if field == "$" else tokenize_path(field))


def _encode(operation: PutOp) -> bytes:
    try:
        return orjson.dumps(check_plain(operation.value))
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"The value of {operation.key!r:.80} cannot be stored as JSON: {error}") from None


def _decode(stored: StoredItem) -> dict[str, Any]:
    """Return a value. What another program has damaged reads as empty, so that one item does not hide the others."""
    try:
        value: Any = orjson.loads(stored.value)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _times(stored: StoredItem) -> Mapping[str, datetime]:
    return {
        "created_at": datetime.fromtimestamp(stored.created_at, UTC),
        "updated_at": datetime.fromtimestamp(stored.updated_at, UTC),
    }


def _item(stored: StoredItem) -> Item:
    return Item(value=_decode(stored), key=stored.key, namespace=stored.namespace, **_times(stored))


def _search_item(found: FoundItem) -> SearchItem:
    stored = found.item
    return SearchItem(
        namespace=stored.namespace, key=stored.key, value=_decode(stored), score=found.score, **_times(stored)
    )
