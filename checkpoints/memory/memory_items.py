"""Items in this process, as with ``memory://``."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from ragflow_lg.checkpoints.items.item_store import FoundItem, Namespace, Place, RequiredItem, StoredItem
from ragflow_lg.checkpoints.items.item_vectors import join_vectors


class MemoryItems:
    """A `ragflow_lg.checkpoints.items.item_store.ItemTable` in a map."""

    def __init__(self) -> None:
        self._items: dict[Place, StoredItem] = {}

    async def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return an item."""
        return self._items.get((namespace, key))

    async def put(
        self, items: Sequence[StoredItem], deleted: Sequence[Place], *, required: RequiredItem | None = None
    ) -> bool:
        """Store and delete items, unless the required one does not exist."""
        if required is not None:
            known = self._items.get((required.namespace, required.key))
            if known is None or not required.is_met_by(known.updated_at):
                return False
        for item in items:
            place = item.namespace, item.key
            earlier = self._items.get(place)
            self._items[place] = item if earlier is None else replace(item, created_at=earlier.created_at)
        for place in deleted:
            self._items.pop(place, None)
        return True

    async def find(self, prefix: Namespace, vector: bytes, count: int, model: str = "") -> Sequence[FoundItem]:
        """Return items, most similar or newest first."""
        inside = [item for item in self._items.values() if item.namespace[: len(prefix)] == prefix]
        if not vector:
            newest = heapq.nsmallest(count, inside, key=lambda item: (-item.updated_at, item.key))
            return [FoundItem(item) for item in newest]
        inside = [item for item in inside if len(item.vector) == len(vector) and item.model == model]
        table = join_vectors(range(len(inside)), [item.vector for item in inside], len(vector))
        return [FoundItem(inside[index], score) for index, score in table.most_similar(vector, count)]

    async def foreign(self, prefix: Namespace, model: str, count: int) -> Sequence[StoredItem]:
        """Return items with a vector of another model."""
        inside = (item for item in self._items.values() if item.namespace[: len(prefix)] == prefix)
        return list(islice((item for item in inside if item.vector and item.model != model), count))

    async def outdated(self, prefix: Namespace, before: float, kept: int, count: int) -> Sequence[Place]:
        """Return items that were written before a time, or that are too many."""
        inside = sorted((item for item in self._items.values() if item.namespace[: len(prefix)] == prefix), key=_age)
        excess = len(inside) - kept
        found = [item for index, item in enumerate(inside) if index < excess or item.updated_at < before]
        return [(item.namespace, item.key) for item in found[:count]]

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the namespaces of all items."""
        return sorted({namespace for namespace, _ in self._items})


def _age(item: StoredItem) -> float:
    return item.updated_at
