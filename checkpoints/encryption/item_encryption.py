"""The values of items, such as memories, encrypted in their table.

Namespaces, keys, times and vectors stay plain: an item is found by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.checkpoints.items.item_store import FoundItem, ItemTable, Namespace, Place, RequiredItem, StoredItem
from ragflow_lg.checkpoints.key_ring import KeyRing, require_plain


class EncryptedItems(Struct, frozen=True):
    """A `ragflow_lg.checkpoints.items.item_store.ItemTable` over another one. Without keys, all items are plain.

    Reading raises SessionKeyError for an item that cannot be decrypted.
    """

    inner: ItemTable
    keys: KeyRing | None

    async def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        """Return an item."""
        item = await self.inner.get(namespace, key)
        return item and self._decrypt(item)

    async def put(
        self, items: Sequence[StoredItem], deleted: Sequence[Place], *, required: RequiredItem | None = None
    ) -> bool:
        """Store and delete items in one transaction, unless the required one does not exist."""
        return await self.inner.put([self._encrypt(item) for item in items], deleted, required=required)

    async def find(self, prefix: Namespace, vector: bytes, count: int, model: str = "") -> Sequence[FoundItem]:
        """Return items, most similar or newest first."""
        found = await self.inner.find(prefix, vector, count, model)
        return [FoundItem(self._decrypt(each.item), each.score) for each in found]

    async def foreign(self, prefix: Namespace, model: str, count: int) -> Sequence[StoredItem]:
        """Return items with a vector of another model."""
        return [self._decrypt(item) for item in await self.inner.foreign(prefix, model, count)]

    async def outdated(self, prefix: Namespace, before: float, kept: int, count: int) -> Sequence[Place]:
        """Return items that were written before a time, or that are too many."""
        return await self.inner.outdated(prefix, before, kept, count)

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the namespaces of all items."""
        return await self.inner.namespaces()

    def _encrypt(self, item: StoredItem) -> StoredItem:
        if self.keys is None:
            return item
        return replace(item, value=self.keys.encrypt(_domain(item.namespace), [item.key], item.value))

    def _decrypt(self, item: StoredItem) -> StoredItem:
        if self.keys is None:
            require_plain(item.value)
            return item
        return replace(item, value=self.keys.decrypt(_domain(item.namespace), [item.key], item.value))


def _domain(namespace: Namespace) -> str:
    return orjson.dumps(["items", *namespace]).decode()
