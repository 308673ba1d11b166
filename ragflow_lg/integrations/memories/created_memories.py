"""Memories that tenants have created over HTTP. What they say about them lies beside what the memories contain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec
from langgraph.store.base import BaseStore, Item

from ragflow_lg.adapters.knowledge.embedders import MAX_QUESTION_CHARS
from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.integrations.memories.memory_layout import definitions_namespace
from ragflow_lg.integrations.memories.memory_settings import MemorySettings, is_created
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf

if TYPE_CHECKING:
    from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
    from ragflow_lg.services.knowledge import Embedders

MAX_CREATED = 100
"""How many memories a tenant may create."""


class Shelving:
    """An open store, and what makes memories in it."""

    def __init__(self, store: BaseStore, embedders: ConfiguredEmbedders) -> None:
        """Initialize."""
        self.store = store
        self._embedders = embedders
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def make(self, memory: MemorySettings) -> MemoryShelf:
        """Return a memory in the store."""

        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            return await self._embedders.embedder(memory.embedding_model).embed_chunks(
                [text[:MAX_QUESTION_CHARS] for text in texts]
            )

        vectors = vector_model(self._embedders, memory.embedding_model)
        lock = self._locks.setdefault(memory.id, asyncio.Lock())
        return MemoryShelf(memory, self.store, embed, vectors, lock=lock)

    def embedding_model(self, id_: str) -> str:
        """Return the id of an embedding model; see `CreatedMemories.embedding_model`."""
        id_ = id_ or self._embedders.default
        self._embedders.embedder(id_)
        return id_


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


def vector_model(embedders: Embedders, embedding: str) -> str:
    """Return the name of an embedding model's vectors; one that the settings lack fails when it is used."""
    try:
        return embedders.embedder(embedding).vector_model
    except SettingsError:
        return embedding
