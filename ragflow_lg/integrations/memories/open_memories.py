"""Opening the memories that the settings declare."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.memories.memory_settings import MemorySections
from ragflow_lg.server.assembly.search_models import SearchModels
from ragflow_lg.services.memories import MemoryResult

if TYPE_CHECKING:
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.knowledge import Embedders
    from ragflow_lg.services.memories import Exchange, Memories, MemorySearch
    from ragflow_lg.services.services import Services


class NoMemories:
    """The `Memories` of settings without any, which need not be opened."""

    def of_tenant(self, tenant: str) -> NoMemories:
        """Return this."""
        return self

    def for_agent(self, agent: str, realm: str = "") -> NoMemories:
        """Return this."""
        return self

    async def remember(self, memories: Sequence[str], exchange: Exchange) -> Sequence[str]:
        """Store nothing."""
        return memories

    async def search(self, search: MemorySearch) -> MemoryResult:
        """Return nothing."""
        return MemoryResult()


@asynccontextmanager
async def open_memories(settings: Settings, services: Services) -> AsyncGenerator[Memories]:
    """Open the memories, which are kept at the URL of the session store. Extractions end before they are closed.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    if not settings.section(MemorySections):
        yield NoMemories()
        return
    from ragflow_lg.integrations.memories.background_tasks import BackgroundTasks
    from ragflow_lg.integrations.memories.stored_memories import StoredMemories

    async with open_shelves(settings) as shelves, aclosing(BackgroundTasks()) as tasks:
        yield StoredMemories(shelves, tasks, services)


@asynccontextmanager
async def open_shelves(settings: Settings) -> AsyncGenerator[Mapping[str, MemoryShelf]]:
    """Open the memories by id, for reading and deleting.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    from ragflow_lg.checkpoints import open_items
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf

    def shelf(id_: str) -> MemoryShelf:
        memory = sections[id_].settings(id_)

        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            return await embedders.embedder(memory.embedding_model).embed_chunks(
                [text[:MAX_QUESTION_CHARS] for text in texts]
            )

        model = memory.embedding_model or embedders.default
        vectors = vector_model(embedders, memory.embedding_model)
        return MemoryShelf(memory, items, embed, vectors, compares_words=model == HASHING_MODEL)

    from ragflow_lg.adapters.knowledge.embedders import HASHING_MODEL, MAX_QUESTION_CHARS

    options, sections = settings.store_options, settings.section(MemorySections)
    async with (
        aclosing(SearchModels(settings)) as search,
        open_items(settings.checkpoints, prefix=options["prefix"], keys=options["keys"]) as items,
    ):
        embedders = search.embedders
        yield {id_: shelf(id_) for id_ in sections}


def vector_model(embedders: Embedders, embedding: str) -> str:
    """Return the name of an embedding model's vectors; one that the settings lack fails when it is used."""
    try:
        return embedders.embedder(embedding).vector_model
    except SettingsError:
        return embedding
