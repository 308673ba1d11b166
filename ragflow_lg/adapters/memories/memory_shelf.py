"""One memory of the settings, with its store: writing, searching, forgetting and deleting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, cast

from langgraph.store.base import BaseStore, Item, PutOp, SearchItem
from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.words import extract_question_words, split_words
from ragflow_lg.adapters.memories.memory_layout import FIELD, memory_namespace, read_remembered, users_prefix
from ragflow_lg.adapters.memories.memory_settings import MAX_ENTRIES, MemorySettings
from ragflow_lg.base.values import to_json
from ragflow_lg.services.memories import Remembered

Namespace: TypeAlias = tuple[str, ...]


class MemoryStore(Protocol):
    """What a memory needs beside LangGraph's store."""

    async def aput_if_kept(
        self, operations: Sequence[PutOp], namespace: Namespace, key: str, updated_at: datetime | None = None
    ) -> bool:
        """Execute operations in one transaction, unless the entry with the namespace and key was deleted meanwhile.

        With ``updated_at``, it must not have been written meanwhile either. Return whether it was done.
        """
        ...

    async def aembed_again(self, prefix: Namespace) -> int:
        """Embed the entries inside a namespace whose vectors are those of another model. Return their number."""
        ...

    async def adelete_outdated(self, prefix: Namespace, before: float, kept: int) -> int:
        """Delete entries that were written before a time, and all but the ``kept`` last ones. Return their number."""
        ...


_DAY_S = 86_400.0
_MIN_CANDIDATES = 64
_PAGE = 500
_MOST = 2 * MAX_ENTRIES
"""More than there are of one user: entries that are too many are not deleted at once."""


class MemoryShelf:
    """What a memory contains. Its store embeds the field `FIELD` of the items."""

    def __init__(
        self, settings: MemorySettings, store: BaseStore, operations: MemoryStore, *, compares_words: bool = False
    ) -> None:
        """Initialize. ``compares_words`` says that the vectors reflect only words."""
        self.settings = settings
        self.store = store
        self.operations = operations
        self._compares_words = compares_words

    def namespace(self, tenant: str, user: str) -> Namespace:
        """Return the namespace of what is kept about a user."""
        return memory_namespace(self.settings.id, tenant, user)

    async def search(
        self, namespace: Namespace, question: str, count: int, keywords_weight: float, now: float
    ) -> list[tuple[SearchItem, Remembered]]:
        """Return candidates with their similarity, the weighted sum of shared words and the vectors' cosine."""
        found = await self.store.asearch(namespace, query=question, limit=max(_MIN_CANDIDATES, 4 * count))
        words, weight = set(extract_question_words(question)), max(keywords_weight, 0.5 * self._compares_words)
        candidates: list[tuple[SearchItem, Remembered]] = []
        for item in found:
            remembered = read_remembered(self.settings.id, item)
            if remembered is None or remembered.type not in self.settings.types or self._is_expired(item, now):
                continue
            shared = len(words.intersection(split_words(remembered.content))) / len(words) if words else 0.0
            similarity = weight * shared + (1 - weight) * max(item.score or 0.0, 0.0)
            candidates.append((item, replace(remembered, similarity=similarity)))
        return candidates

    async def entries(self, namespace: Namespace) -> list[SearchItem]:
        """Return everything that is kept about a user, newest first."""
        return await self.store.asearch(namespace, limit=_MOST)

    async def forget(self, namespace: Namespace, entries: Sequence[SearchItem], now: float) -> int:
        """Delete entries that are too old or too many. Return their number."""
        kept = [entry for entry in entries if not self._is_expired(entry, now)][: self.settings.max_entries]
        keys = {entry.key for entry in kept}
        forgotten = [entry.key for entry in entries if entry.key not in keys]
        await self.delete(namespace, forgotten)
        return len(forgotten)

    async def forget_of_all(self, tenant: str, now: float) -> int:
        """Delete what is too old or too much, of all users of a tenant. Return the number of entries."""
        days = self.settings.max_age_days
        before = now - days * _DAY_S if days else 0.0
        place = users_prefix(self.settings.id, tenant)
        return await self.operations.adelete_outdated(place, before, self.settings.max_total_entries)

    async def embed_again(self, tenant: str, user: str | None = None) -> int:
        """Embed what another model has embedded, about a user or about all. Return the number of entries.

        Raises:
            RagflowLgError: if the model or the store fails.
        """
        place = users_prefix(self.settings.id, tenant) if user is None else self.namespace(tenant, user)
        return await self.operations.aembed_again(place)

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

    async def delete(self, namespace: Namespace, keys: Iterable[str]) -> None:
        """Delete entries."""
        operations = [PutOp(namespace, key, None) for key in keys]
        for start in range(0, len(operations), _PAGE):
            await self.store.abatch(operations[start : start + _PAGE])

    async def users(self, tenant: str) -> list[str]:
        """Return the users about whom something is kept, sorted."""
        users: set[str] = set()
        offset = 0
        while page := await self.store.alist_namespaces(
            prefix=users_prefix(self.settings.id, tenant), limit=_PAGE, offset=offset
        ):
            for namespace in page:
                if entries := await self.store.asearch(namespace, limit=1):
                    users.add(str(entries[0].value.get("user", "")))
            offset += len(page)
        return sorted(users)

    def remembered(self, entries: Iterable[Item]) -> list[Remembered]:
        """Return what entries contain."""
        return [found for entry in entries if (found := read_remembered(self.settings.id, entry)) is not None]

    def _is_expired(self, item: Item, now: float) -> bool:
        days = self.settings.max_age_days
        return days > 0 and item.created_at.timestamp() < now - days * _DAY_S


def put_value(namespace: Namespace, key: str, value: dict[str, Any], *, is_indexed: bool) -> PutOp:
    """Return the operation that stores an entry. Unpaired surrogates, which cannot be stored, become U+FFFD."""
    return PutOp(namespace, key, cast("dict[str, Any]", to_json(value)), [FIELD] if is_indexed else False)
