"""Opening the memories that the settings declare, and those that tenants have created."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.integrations.memories.memory_settings import MemorySections
from ragflow_lg.server.assembly.search_models import SearchModels

if TYPE_CHECKING:
    from ragflow_lg.integrations.memories.created_memories import CreatedMemories, Shelving
    from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.memories import Memories
    from ragflow_lg.services.services import Services


class OpenShelves(NamedTuple):
    """The memories of the settings by id, and those that tenants have created."""

    declared: Mapping[str, MemoryShelf]
    created: CreatedMemories


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
    from ragflow_lg.integrations.memories.created_memories import Shelving

    options = settings.store_options
    search = await stack.enter_async_context(aclosing(SearchModels(settings)))
    items = open_items(settings.checkpoints, prefix=options["prefix"], keys=options["keys"])
    return Shelving(await stack.enter_async_context(items), search.embedders)
