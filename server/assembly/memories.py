"""Opening the memories that the settings declare."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.memories import NoMemories

if TYPE_CHECKING:
    from ragflow_lg.adapters.memories.memory_shelf import MemoryShelf
    from ragflow_lg.server.assembly.search_models import SearchModels
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.chat import ChatModels
    from ragflow_lg.services.knowledge import Embedders
    from ragflow_lg.services.memories import Memories
    from ragflow_lg.services.services import Clock
    from ragflow_lg.services.workers import Workers


@asynccontextmanager
async def open_memories(
    settings: Settings, search: SearchModels, models: ChatModels, clock: Clock, workers: Workers
) -> AsyncGenerator[Memories]:
    """Open the memories, which are kept at the URL of the session store. Extractions end before they are closed.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    if not settings.memories:
        yield NoMemories()
        return
    from ragflow_lg.adapters.memories.background_tasks import BackgroundTasks
    from ragflow_lg.adapters.memories.stored_memories import StoredMemories
    from ragflow_lg.models.prompt_texts import PROMPTS

    prompt = settings.prompts.get("memory_extraction") or PROMPTS["memory_extraction"].text
    async with open_shelves(settings, search) as shelves, aclosing(BackgroundTasks()) as tasks:
        yield StoredMemories(shelves, tasks, models, clock, prompt, workers=workers)


@asynccontextmanager
async def open_shelves(settings: Settings, search: SearchModels) -> AsyncGenerator[Mapping[str, MemoryShelf]]:
    """Open the memories by id, for reading and deleting.

    Raises:
        CheckpointError: if the store cannot be opened.
    """
    from ragflow_lg.adapters.memories.memory_shelf import MemoryShelf
    from ragflow_lg.checkpoints import open_items

    embedders = search.embedders

    def shelf(id_: str) -> MemoryShelf:
        memory = settings.memories[id_].settings(id_)

        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            return await embedders.embedder(memory.embedding_model).embed_chunks(
                [text[:MAX_QUESTION_CHARS] for text in texts]
            )

        model = memory.embedding_model or embedders.default
        vectors = vector_model(embedders, memory.embedding_model)
        return MemoryShelf(memory, items, embed, vectors, compares_words=model == HASHING_MODEL)

    from ragflow_lg.adapters.knowledge.embedders import HASHING_MODEL, MAX_QUESTION_CHARS

    options = settings.store_options
    async with open_items(settings.checkpoints, prefix=options["prefix"], keys=options["keys"]) as items:
        yield {id_: shelf(id_) for id_ in settings.memories}


def vector_model(embedders: Embedders, embedding: str) -> str:
    """Return the name of an embedding model's vectors; one that the settings lack fails when it is used."""
    try:
        return embedders.embedder(embedding).vector_model
    except SettingsError:
        return embedding


def restrict_memories(
    memories: Memories, settings: Settings, tenant: str, models: ChatModels, workers: Workers
) -> Memories:
    """Return the memories of a tenant, with the connections of all."""
    from ragflow_lg.adapters.memories.stored_memories import StoredMemories

    if not isinstance(memories, StoredMemories):
        return memories
    return memories.restrict(tenant, list(settings.memories), models, workers)
