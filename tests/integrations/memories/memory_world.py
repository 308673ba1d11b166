"""Memories with a scripted model, over stores of every kind."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.checkpoints import open_items
from ragflow_lg.integrations.memories.background_tasks import BackgroundTasks
from ragflow_lg.integrations.memories.memory_settings import MemorySettings
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
from ragflow_lg.integrations.memories.stored_memories import StoredMemories
from ragflow_lg.services.memories import Exchange, MemorySearch, Remembered
from tests.fakes.knowledge_models import HashingEmbedder
from tests.fakes.services import MovingClock, OneModel, Reply, ScriptedModel, fake_services
from tests.stores import fresh_prefix

FACTS = json.dumps(
    {
        "semantic": [{"content": "The user's name is Anna.", "valid_at": "2026-01-01"}],
        "episodic": [{"content": "The user flew to Oslo.", "valid_at": "2025-12-24T10:00:00", "invalid_at": "no date"}],
        "unknown": [{"content": "left out"}],
    }
)


class World:
    """Memories with a scripted model, over a store that survives `reopened`."""

    def __init__(self, url: str, replies: Sequence[Reply] = (), **settings: Any) -> None:
        self.prefix = fresh_prefix()
        self.url = url + self.prefix.strip(":") if url.startswith("sqlite:") else url
        self.model = ScriptedModel(list(replies))
        self.clock = MovingClock()
        self.settings = MemorySettings("m1", **settings)
        self.embed_error = ""
        self.vector_model = "hashing"
        self.prompts: dict[str, str] = {}
        self.tasks = BackgroundTasks()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[StoredMemories]:
        async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
            if self.embed_error:
                raise ServiceError(self.embed_error)
            return await HashingEmbedder().embed_chunks(texts)

        async with open_items(self.url, prefix=self.prefix) as items:
            self.tasks = BackgroundTasks()
            shelves = {
                id_: MemoryShelf(replace(self.settings, id=id_), items, embed, self.vector_model)
                for id_ in ("m1", "m2")
            }
            services = fake_services(models=OneModel(self.model), clock=self.clock, prompts=self.prompts)
            yield StoredMemories(shelves, self.tasks, services)
            await self.tasks.aclose()

    async def remember(self, memories: StoredMemories, *exchanges: Exchange) -> None:
        """Store exchanges in ``m1``, and wait until all is extracted."""
        for each in exchanges or (exchange(),):
            await memories.remember(["m1"], each)
        await self.tasks.settle()

    async def entries(self, memories: StoredMemories, user: str = "anna") -> list[Remembered]:
        """Return what ``m1`` has of a user, found or not."""
        shelf = memories.shelves["m1"]
        return [*shelf.remembered(await shelf.entries(shelf.namespace("default", user)))]


def exchange(key: str = "k1", user: str = "anna", question: str = "I am Anna.", answer: str = "Hello!") -> Exchange:
    return Exchange(key, user, question, answer)


async def find(memories: StoredMemories, question: str, user: str = "anna", **more: Any) -> list[Remembered]:
    return [*(await memories.search(MemorySearch(question, more.pop("ids", ("m1",)), user, **more))).entries]


def contents(found: Sequence[Remembered]) -> set[str]:
    return {entry.content for entry in found}
