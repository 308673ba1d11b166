"""Memories that tenants have created over HTTP. What they say about them lies beside what the memories contain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
from langgraph.store.base import Item

from ragflow_lg.base.errors import RequestError
from ragflow_lg.integrations.memories.memory_layout import definitions_namespace
from ragflow_lg.integrations.memories.memory_settings import MemorySettings, is_created

if TYPE_CHECKING:
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
    from ragflow_lg.integrations.memories.open_memories import Shelving

MAX_CREATED = 1_000
"""How many memories a tenant may create."""


class CreatedMemories:
    """The memories that tenants have created. The store is opened when somebody asks for one."""

    def __init__(self, open_shelving: Callable[[], Awaitable[Shelving]]) -> None:
        """Initialize."""
        self._open = open_shelving

    async def list(self, tenant: str) -> list[MemoryShelf]:
        """Return the memories of a tenant, newest first."""
        shelving = await self._open()
        items = await shelving.store.asearch(definitions_namespace(tenant), limit=MAX_CREATED)
        found = [memory for item in items if (memory := _read(item)) is not None]
        return [shelving.make(memory) for memory in sorted(found, key=lambda memory: -memory.create_ms)]

    async def find(self, tenant: str, id_: str) -> MemoryShelf | None:
        """Return a memory of a tenant, or None."""
        if not is_created(id_):
            return None
        shelving = await self._open()
        item = await shelving.store.aget(definitions_namespace(tenant), id_)
        memory = None if item is None else _read(item)
        return None if memory is None else shelving.make(memory)

    async def embedding_model(self, id_: str) -> str:
        """Return the id of an embedding model, or of the default one for ``""``.

        Raises:
            SettingsError: if the settings lack it.
        """
        return (await self._open()).embedding_model(id_)

    async def put(self, tenant: str, memory: MemorySettings) -> None:
        """Create or change a memory of a tenant.

        Raises:
            RequestError: if the tenant has too many.
        """
        shelving, namespace = await self._open(), definitions_namespace(tenant)
        others = await shelving.store.asearch(namespace, limit=MAX_CREATED)
        if len(others) >= MAX_CREATED and all(item.key != memory.id for item in others):
            raise RequestError(f"A tenant may create {MAX_CREATED:,} memories; delete some.")
        await shelving.store.aput(namespace, memory.id, msgspec.to_builtins(memory))

    async def delete(self, tenant: str, shelf: MemoryShelf) -> int:
        """Delete a memory of a tenant with everything in it. Return the number of its entries."""
        shelving = await self._open()
        await shelving.store.adelete(definitions_namespace(tenant), shelf.settings.id)
        return await shelf.delete_all(tenant)


def _read(item: Item) -> MemorySettings | None:
    try:
        return msgspec.convert(item.value, MemorySettings)
    except msgspec.ValidationError:  # another program has stored something else
        return None
