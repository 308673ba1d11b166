"""One memory of the settings, with its store: writing, searching, forgetting and deleting."""

from __future__ import annotations

import asyncio
import hashlib
import os
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from math import hypot, isfinite
from typing import Any, Protocol, TypeAlias, cast

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem
from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.words import extract_question_words, split_words
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import to_json
from ragflow_lg.integrations.memories.memory_layout import (
    ACTIVE,
    FIELD,
    VECTOR,
    created_at,
    memory_namespace,
    pending_exchange,
    read_remembered,
    users_prefix,
)
from ragflow_lg.integrations.memories.memory_settings import MAX_ENTRIES, MemorySettings
from ragflow_lg.services.memories import Remembered

Namespace: TypeAlias = tuple[str, ...]


class Embed(Protocol):
    """Returns one vector for each text, in order."""

    async def __call__(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return the vectors."""
        ...


MARK_S = 3600.0
"""How long it is known that an entry has been deleted, at least: longer than a process takes to write one."""

CLAIM_S = 1.0
"""Longer than reading and writing an entry take: after that time, the claim of only one process is left."""

_DAY_S = 86_400.0
_TEXTS = (FIELD, "question", "answer")
_EMBEDDED = 64
"""Number of texts that are embedded together."""
_PAGE = 500
_MOST = 2 * MAX_ENTRIES
"""More than there are of one user: entries that are too many are not deleted at once."""


class MemoryShelf:
    """What a memory contains. An entry keeps the vector of its content, with the name of the model that made it.

    LangGraph's stores can compare vectors as well, but the one for SQLite needs loadable extensions, which many Pythons
    lack, and a search looks at the entries of one user only.
    """

    def __init__(
        self, settings: MemorySettings, store: BaseStore, embed: Embed, model: str, *, lock: asyncio.Lock | None = None
    ) -> None:
        """Initialize. ``model`` names the vectors of ``embed``; ``lock`` is shared by all shelves of a memory."""
        self.settings = settings
        self.store = store
        self._embed = embed
        self._model = model
        self._lock = lock or asyncio.Lock()

    def namespace(self, tenant: str, user: str) -> Namespace:
        """Return the namespace of what is kept about a user."""
        return memory_namespace(self.settings.id, tenant, user)

    async def write(self, namespace: Namespace, values: Mapping[str, Mapping[str, Any]], kept: str = "") -> None:
        """Store entries by their keys, in one transaction, unless the entry ``kept`` has been deleted meanwhile.

        Unpaired surrogates, which cannot be stored, and NUL, which PostgreSQL refuses, become U+FFFD in texts.

        Raises:
            RagflowLgError: if the embedding model or the store fails.
        """
        entries = {key: cast("dict[str, Any]", to_json(dict(value))) for key, value in values.items()}
        for entry in entries.values():
            texts = {name: entry[name] for name in _TEXTS if isinstance(entry.get(name), str)}
            entry.update({name: text.replace("\0", "\ufffd") for name, text in texts.items()})
        found = [value for value in entries.values() if FIELD in value and value.get("extraction") != "pending"]
        await self._add_vectors(found)
        if kept:
            await self._put_unless_deleted(namespace, kept, entries)
            return
        async with self._lock:
            marks = [PutOp(*_deletion_mark(namespace, key), None) for key in entries]
            await self.store.abatch([*marks, *(PutOp(namespace, key, value) for key, value in entries.items())])

    async def _put_unless_deleted(self, namespace: Namespace, kept: str, entries: Mapping[str, dict[str, Any]]) -> None:
        """Store entries unless the entry ``kept`` has been deleted, also by another process at the same time."""
        async with self._lock:
            if (stored := await self.store.aget(namespace, kept)) is None:
                return
            if ACTIVE in stored.value and kept in entries:
                entries = {**entries, kept: {**entries[kept], ACTIVE: stored.value[ACTIVE]}}
            await self._put(namespace, kept, entries)

    async def _put(self, namespace: Namespace, kept: str, entries: Mapping[str, dict[str, Any]]) -> None:
        """Store entries, and take them back if the entry ``kept`` was deleted after it was read."""
        await self.store.abatch([PutOp(namespace, key, value) for key, value in entries.items()])
        if await self.store.aget(*_deletion_mark(namespace, kept)) is not None:
            await self.store.abatch([PutOp(namespace, key, None) for key in entries])

    async def activate(self, namespace: Namespace, key: str, *, is_active: bool) -> None:
        """Show an entry to searches, or hide it."""
        async with self._lock:
            item = await self.store.aget(namespace, key)
            if item is not None:
                await self._put(namespace, key, {key: {**item.value, ACTIVE: is_active}})

    async def claim(self, namespace: Namespace, key: str, since: float, now: float) -> bool:
        """Return whether this process may extract an exchange that was tried last at a time. Only one may."""
        item = await self.store.aget(namespace, key)
        pending = pending_exchange(item) if item is not None else None
        if pending is None or pending.since != since:
            return False
        mark = os.urandom(16).hex()
        await self.write(namespace, {key: {**pending.value, "tried_at": now, "claim": mark}}, key)
        await asyncio.sleep(CLAIM_S)
        item = await self.store.aget(namespace, key)
        return item is not None and item.value.get("claim") == mark

    async def search(
        self, namespace: Namespace, question: str, keywords_weight: float, now: float
    ) -> list[tuple[SearchItem, Remembered]]:
        """Return entries with their similarity, the weighted sum of shared words and the vectors' cosine."""
        vector = (await self._vectors([question]))[0]
        words, weight = set(extract_question_words(question)), keywords_weight if vector else 1.0
        found: list[tuple[SearchItem, Remembered, str]] = []
        for item in await self.entries(namespace):
            remembered = read_remembered(self.settings.id, item)
            stored = self._vector_of(item.value)
            is_found = remembered and remembered.is_active and not self._is_expired(item, now)
            if stored is not None and remembered and is_found and remembered.type in self.settings.types:
                found.append((item, remembered, stored))

        def score() -> list[tuple[SearchItem, Remembered]]:
            cosines = _cosines(vector, [stored for _, _, stored in found])
            candidates: list[tuple[SearchItem, Remembered]] = []
            for (item, remembered, _), cosine in zip(found, cosines, strict=True):
                similarity = (1 - weight) * max(cosine, 0.0)
                if words and weight:
                    similarity += weight * len(words.intersection(split_words(remembered.content))) / len(words)
                candidates.append((item, replace(remembered, similarity=similarity)))
            return candidates

        return await asyncio.to_thread(score)

    async def entries(self, namespace: Namespace) -> list[SearchItem]:
        """Return everything that is kept about a user, or in a memory by `users_prefix`, newest first."""
        return sorted(await self.store.asearch(namespace, limit=_MOST), key=created_at, reverse=True)

    async def forget(self, namespace: Namespace, entries: Sequence[SearchItem], now: float) -> int:
        """Delete entries that are too old or too many. Return their number."""
        kept = [entry for entry in entries if not self._is_expired(entry, now)][: self.settings.max_entries]
        keys = {entry.key for entry in kept}
        forgotten = [entry.key for entry in entries if entry.key not in keys]
        await self.delete(namespace, forgotten)
        return len(forgotten)

    async def forget_of_all(self, tenant: str, now: float) -> int:
        """Delete what is too old or too much, of all users of a tenant. Return the number of entries."""
        found: list[tuple[bool, float, Namespace, str]] = []
        for namespace in await self._namespaces(tenant):
            entries = await self.entries(namespace)
            found += [(not self._is_expired(entry, now), created_at(entry), namespace, entry.key) for entry in entries]
        found.sort()
        expired = sum(not is_kept for is_kept, *_ in found)
        forgotten = found[: max(expired, len(found) - self.settings.max_total_entries)]
        for _, _, namespace, key in forgotten:
            await self.delete(namespace, [key])
        marks = _marks_of(users_prefix(self.settings.id, tenant))
        found_marks = await self.store.asearch(marks, limit=_MOST)
        old = [mark for mark in found_marks if mark.updated_at.timestamp() < now - MARK_S]
        await self.store.abatch([PutOp(marks, mark.key, None) for mark in old])
        return len(forgotten)

    async def embed_again(self, tenant: str) -> int:
        """Embed what another model has embedded, about all users. Return the number of entries.

        Raises:
            RagflowLgError: if the model or the store fails.
        """
        return sum([await self.embed_user_again(namespace) for namespace in await self._namespaces(tenant)])

    async def embed_user_again(self, namespace: Namespace) -> int:
        """Embed what another model has embedded about a user. Return the number of entries.

        Raises:
            RagflowLgError: if the model or the store fails. What was embedded before is kept.
        """
        entries = await self.entries(namespace)
        foreign = [e for e in entries if VECTOR in e.value and self._vector_of(e.value) is None]
        for start in range(0, len(foreign), _EMBEDDED):
            values = {entry.key: entry.value for entry in foreign[start : start + _EMBEDDED]}
            await self._add_vectors(list(values.values()))
            for key, value in values.items():
                item = await self.store.aget(namespace, key)
                if item is not None and item.value.get(FIELD) == value[FIELD]:
                    await self._put_unless_deleted(namespace, key, {key: {**item.value, VECTOR: value[VECTOR]}})
        return len(foreign)

    async def delete_with_extracted(self, namespace: Namespace, keys: Iterable[str]) -> int:
        """Delete entries, and what was extracted from them. Return the number of entries."""
        wanted = set(keys)
        found = [
            entry.key
            for entry in await self.entries(namespace)
            if entry.key in wanted or entry.value.get("source") in wanted
        ]
        await self.delete(namespace, found)
        return len(found)

    async def delete_user(self, namespace: Namespace) -> int:
        """Delete everything that is kept about a user. Return the number of entries."""
        deleted, earlier = 0, None
        while (entries := await self.entries(namespace)) and entries != earlier:
            await self.delete(namespace, [entry.key for entry in entries])
            deleted, earlier = deleted + len(self.remembered(entries)), entries
        return deleted

    async def delete_all(self, tenant: str) -> int:
        """Delete everything that is kept about the users of a tenant. Return the number of entries."""
        return sum([await self.delete_user(namespace) for namespace in await self._namespaces(tenant)])

    async def delete(self, namespace: Namespace, keys: Iterable[str]) -> None:
        """Delete entries. A mark tells another process that is writing one of them."""
        wanted = list(keys)
        async with self._lock:
            await self.store.abatch([PutOp(*_deletion_mark(namespace, key), {}) for key in wanted])
            await self.store.abatch([PutOp(namespace, key, None) for key in wanted])

    async def users(self, tenant: str) -> list[str]:
        """Return the users about whom something is kept, sorted."""
        users: set[str] = set()
        for namespace in await self._namespaces(tenant):
            if entries := await self.store.asearch(namespace, limit=1):
                users.add(str(entries[0].value.get("user", "")))
        return sorted(users)

    def remembered(self, entries: Iterable[Item]) -> list[Remembered]:
        """Return what entries contain."""
        return [found for entry in entries if (found := read_remembered(self.settings.id, entry)) is not None]

    async def _namespaces(self, tenant: str) -> list[Namespace]:
        found: list[Namespace] = []
        while page := await self.store.alist_namespaces(
            prefix=users_prefix(self.settings.id, tenant), limit=_PAGE, offset=len(found)
        ):
            found += page
        return found

    async def _add_vectors(self, values: Sequence[dict[str, Any]]) -> None:
        if not values:
            return
        vectors = await self._vectors([str(value[FIELD]) for value in values])
        for value, vector in zip(values, vectors, strict=True):
            value[VECTOR] = {"model": self._model, "numbers": b64encode(vector).decode()}

    async def _vectors(self, texts: list[str]) -> list[bytes]:
        """Return a vector of length 1 for each text, as 32-bit numbers."""
        vectors = await self._embed(texts)
        if len(vectors) != len(texts):
            raise ServiceError(f"The embedding model returned {len(vectors)} vectors for {len(texts)} texts.")
        return [_pack_vector(vector) for vector in vectors]

    def _vector_of(self, value: Mapping[str, Any]) -> str | None:
        """Return the vector of an entry if the current model made it, or None."""
        vector = as_map(value.get(VECTOR))
        return str(vector.get("numbers", "")) if vector.get("model") == self._model else None

    def _is_expired(self, item: Item, now: float) -> bool:
        days = self.settings.max_age_days
        return days > 0 and created_at(item) < now - days * _DAY_S


def _marks_of(namespace: Namespace) -> Namespace:
    return f"deleted-{namespace[0]}", *namespace[1:3]


def _deletion_mark(namespace: Namespace, key: str) -> tuple[Namespace, str]:
    """Return the place of the mark that an entry has been deleted. It does not name the user."""
    return _marks_of(namespace), hashlib.sha256("\0".join((*namespace, key)).encode()).hexdigest()


def _pack_vector(vector: Sequence[float]) -> bytes:
    try:
        length = hypot(*vector)
        if not isfinite(length):
            raise OverflowError("a number is infinite or not a number")
        return array("f", [number / (length or 1.0) for number in vector]).tobytes()
    except (OverflowError, TypeError) as error:
        raise ServiceError(f"The embedding model returned an unusable vector: {error}.") from None


def _cosines(wanted: bytes, stored: Sequence[str]) -> list[float]:
    """Return the cosines of vectors of length 1; 0 for one that has another number of numbers."""
    require("knowledge", "A search in memories")
    import numpy as np

    rows = [b64decode(text) for text in stored]
    question = np.frombuffer(wanted, np.float32)
    return [float(np.frombuffer(row, np.float32) @ question) if len(row) == len(wanted) else 0.0 for row in rows]
