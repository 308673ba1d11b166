"""The native API's routes for what agents remember about the tenant's users: list, search, export and delete it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from msgspec.structs import asdict
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.integrations.memories.memory_settings import MAX_ENTRIES
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
from ragflow_lg.integrations.memories.stored_memories import StoredMemories
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import make_native_router
from ragflow_lg.server.http.shared.auth import Authenticated, get_app_state
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.services.memories import Memories, MemorySearch, MemoryType, Remembered

router = make_native_router("memories")

User = Annotated[
    str, Query(max_length=1000, description="The user: `sys.user_id`, or what the canvas names.", examples=["anna"])
]


class MemoryAnswer(BaseModel):
    """A memory of the settings, or one that the tenant has created."""

    id: str
    name: str
    types: list[MemoryType]
    max_entries: Annotated[int, Field(description="Most entries about one user.")]
    max_age_days: Annotated[float | None, Field(description="When entries are forgotten; null for never.")]


class MemoryListAnswer(BaseModel):
    """The memories that the tenant may use."""

    memories: list[MemoryAnswer]


class MemoryUsersAnswer(BaseModel):
    """The users about whom a memory contains something."""

    users: list[str]


class MemoryEntryAnswer(BaseModel):
    """Something that is remembered. Times are in ISO 8601, or empty."""

    key: str
    memory: Annotated[str, Field(description="Id of the memory.")]
    user: str
    type: MemoryType
    content: str
    agent: Annotated[str, Field(description="Id of the agent.")]
    valid_at: Annotated[str, Field(description="Since when it is true, or when it happened.")]
    invalid_at: Annotated[str, Field(description="Since when it is no longer true.")]
    source: Annotated[str, Field(description="Key of the exchange that it was extracted from; empty for an exchange.")]
    similarity: Annotated[float, Field(description="Similarity to the question; 0 in lists.")]
    session: Annotated[str, Field(description="Id of the session of the exchange.")]
    is_active: Annotated[bool, Field(description="Whether searches find it.")]


class MemoryEntryListAnswer(BaseModel):
    """Entries of memories."""

    entries: list[MemoryEntryAnswer]
    total: Annotated[int, Field(description="Number of all entries; of those returned, in a search.")]


class MemoryDeletionAnswer(BaseModel):
    """How much was deleted."""

    deleted: Annotated[int, Field(description="Number of entries.")]


@router.get("/memories", summary="List memories")
async def list_memories(request: Request, caller: Authenticated) -> MemoryListAnswer:
    """List the memories that the tenant may use."""
    answers = [
        build_answer(
            MemoryAnswer,
            shelf.settings,
            types=list(shelf.settings.types),
            max_age_days=shelf.settings.max_age_days or None,
        )
        for shelf, _ in await _find_parts(request, caller.tenant, "")
    ]
    return MemoryListAnswer(memories=answers)


@router.get("/memories/entries", summary="Export what is remembered about a user")
async def export_entries(request: Request, caller: Authenticated, user_id: User) -> MemoryEntryListAnswer:
    """Return everything that all memories contain about a user."""
    entries: list[Remembered] = []
    for shelf, namespace in await _find_parts(request, caller.tenant, user_id):
        entries += shelf.remembered(await shelf.entries(namespace))
    return _build_list(entries, len(entries))


@router.delete("/memories/entries", summary="Delete what is remembered about a user")
async def delete_user(request: Request, caller: Authenticated, user_id: User) -> MemoryDeletionAnswer:
    """Delete everything that all memories contain about a user."""
    deleted = 0
    for shelf, namespace in await _find_parts(request, caller.tenant, user_id):
        deleted += await shelf.delete_user(namespace)
    audit("memory.deleted", entries=str(deleted))
    return MemoryDeletionAnswer(deleted=deleted)


@router.get("/memories/{memory_id}/users", summary="List the users of a memory")
async def list_users(memory_id: str, request: Request, caller: Authenticated) -> MemoryUsersAnswer:
    """List the users about whom a memory contains something, sorted."""
    memories, shelf = await _find_shelf(request, caller.tenant, memory_id)
    return MemoryUsersAnswer(users=await shelf.users(memories.tenant))


@router.get("/memories/{memory_id}/entries", summary="List or search a memory")
async def list_entries(
    memory_id: str,
    request: Request,
    caller: Authenticated,
    user_id: User,
    question: Annotated[str, Query(max_length=10_000, description="Return what is similar to it.")] = "",
    page: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="Number of the page, from 1.")] = 1,
    page_size: Annotated[int, Query(ge=1, le=100, description="Entries per page.")] = 30,
) -> MemoryEntryListAnswer:
    """List what a memory contains about a user, newest first, or search it."""
    memories, shelf = await _find_shelf(request, caller.tenant, memory_id)
    if question:
        search = MemorySearch(question, (memory_id,), user_id, top_n=page * page_size)
        found = (await memories.search(search)).entries[(page - 1) * page_size :]
        return _build_list(found, len(found))
    entries = shelf.remembered(await shelf.entries(shelf.namespace(memories.tenant, user_id)))
    return _build_list(entries[(page - 1) * page_size : page * page_size], len(entries))


@router.delete("/memories/{memory_id}/entries/{key}", summary="Delete an entry of a memory")
async def delete_entry(
    memory_id: str, key: str, request: Request, caller: Authenticated, user_id: User
) -> MemoryDeletionAnswer:
    """Delete an entry, and what was extracted from it."""
    memories, shelf = await _find_shelf(request, caller.tenant, memory_id)
    deleted = await shelf.delete_with_extracted(shelf.namespace(memories.tenant, user_id), [key])
    if not deleted:
        raise RequestError("Entry not found.", status=404)
    audit("memory.deleted", memory=memory_id, entries=str(deleted))
    return MemoryDeletionAnswer(deleted=deleted)


def find_memories(request: Request, tenant: str) -> StoredMemories | None:
    """Return the memories of a tenant, or None if there are none."""
    memories = get_app_state(request).services_of(tenant).find(Memories)
    return memories if isinstance(memories, StoredMemories) else None


async def _find_parts(request: Request, tenant: str, user_id: str) -> list[tuple[MemoryShelf, tuple[str, ...]]]:
    """Return the memories, each with the part of it that is about a user."""
    memories = find_memories(request, tenant)
    if memories is None:
        return []
    return [(shelf, shelf.namespace(memories.tenant, user_id)) for shelf in await memories.list_shelves()]


async def _find_shelf(request: Request, tenant: str, memory_id: str) -> tuple[StoredMemories, MemoryShelf]:
    memories = find_memories(request, tenant)
    shelf = None if memories is None else await memories.find_shelf(memory_id)
    if memories is None or shelf is None:
        raise RequestError("Memory not found.", status=404)
    return memories, shelf


def _build_list(entries: list[Remembered] | tuple[Remembered, ...], total: int) -> MemoryEntryListAnswer:
    answers = [MemoryEntryAnswer(**asdict(entry)) for entry in entries]
    return MemoryEntryListAnswer(entries=answers, total=total)
