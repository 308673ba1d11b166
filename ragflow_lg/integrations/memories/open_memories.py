"""Opening the memories that the settings declare, and those that tenants have created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.memories.memory_settings import MemorySections
from ragflow_lg.server.assembly.search_models import SearchModels

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

    from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
    from ragflow_lg.integrations.memories.created_memories import CreatedMemories
    from ragflow_lg.integrations.memories.memory_settings import MemorySettings
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.knowledge import Embedders
    from ragflow_lg.services.memories import Memories
    from ragflow_lg.services.services import Services


class OpenShelves(NamedTuple):
    """The memories of the settings by id, and those that tenants have created."""

    declared: Mapping[str, MemoryShelf]
    created: CreatedMemories


class Shelving:
    """An open store, and what makes memories in it."""

    def __init__(self, store: BaseStore, embedders: ConfiguredEmbedders) -> None:
        """Initialize."""
        self.store = store
        self._embedders = embedders

    def make(self, memory: MemorySettings) -> MemoryShelf:
        """Return a memory in the store."""
        from ragflow_lg.adapters.knowledge.embedders import HASHING_MODEL, MAX_QUESTION_CHARS
        from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf

        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            return await self._embedders.embedder(memory.embedding_model).embed_chunks(
                [text[:MAX_QUESTION_CHARS] for text in texts]
            )

        is_hashing = (memory.embedding_model or self._embedders.default) == HASHING_MODEL
        vectors = vector_model(self._embedders, memory.embedding_model)
        return MemoryShelf(memory, self.store, embed, vectors, compares_words=is_hashing)

    def embedding_model(self, id_: str) -> str:
        """Return the id of an embedding model; see `CreatedMemories.embedding_model`."""
        id_ = id_ or self._embedders.default
        self._embedders.embedder(id_)
        return id_


@asynccontextmanager
async def open_memories(settings: Settings, services: Services) -> AsyncGenerator[Memories]:
    """Open the memories, which are kept at the URL of the session store. Extractions end before they are closed.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    from ragflow_lg.integrations.memories.background_tasks import BackgroundTasks
    from ragflow_lg.integrations.memories.stored_memories import StoredMemories

    async with open_shelves(settings) as shelves, aclosing(BackgroundTasks()) as tasks:
        yield StoredMemories(shelves.declared, tasks, services, created=shelves.created)


@asynccontextmanager
async def open_shelves(settings: Settings) -> AsyncGenerator[OpenShelves]:
    """Open the memories. The store of settings that declare none is opened by the first look for a created one.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    from ragflow_lg.integrations.memories.created_memories import CreatedMemories

    sections, opening = settings.section(MemorySections), asyncio.Lock()
    opened: list[Shelving] = []
    async with AsyncExitStack() as stack:

        async def shelving() -> Shelving:
            async with opening:
                if not opened:
                    opened.append(await _open_shelving(settings, stack))
                return opened[0]

        declared = {id_: (await shelving()).make(section.settings(id_)) for id_, section in sections.items()}
        yield OpenShelves(declared, CreatedMemories(shelving))


async def _open_shelving(settings: Settings, stack: AsyncExitStack) -> Shelving:
    from ragflow_lg.checkpoints import open_items

    options = settings.store_options
    search = await stack.enter_async_context(aclosing(SearchModels(settings)))
    items = open_items(settings.checkpoints, prefix=options["prefix"], keys=options["keys"])
    return Shelving(await stack.enter_async_context(items), search.embedders)


def vector_model(embedders: Embedders, embedding: str) -> str:
    """Return the name of an embedding model's vectors; one that the settings lack fails when it is used."""
    try:
        return embedders.embedder(embedding).vector_model
    except SettingsError:
        return embedding
