"""RAGFlow's routes for memories and what they contain. Memories of the settings cannot be changed by them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, cast, get_args

from fastapi import Query
from langgraph.store.base import Item
from msgspec.structs import replace
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.adapters.knowledge.embedders import KEYWORDS, LOCAL_MODEL
from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.integrations.memories.created_memories import CreatedMemories
from ragflow_lg.integrations.memories.memory_layout import created_at, message_number, read_remembered, users_prefix
from ragflow_lg.integrations.memories.memory_routes import find_memories
from ragflow_lg.integrations.memories.memory_settings import MemorySettings
from ragflow_lg.integrations.memories.memory_shelf import MemoryShelf
from ragflow_lg.integrations.memories.stored_memories import EXTRACTION_TEMPERATURE, StoredMemories
from ragflow_lg.models.prompt_texts import chosen_text
from ragflow_lg.server.assembly.tenant_settings import rights_in
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_routes import MAX_PAGE_SIZE, Fields, Pages, Text, make_router, with_examples
from ragflow_lg.server.http.shared.request_bodies import MAX_IDS, read_ids, to_text
from ragflow_lg.server.http.shared.responses import format_times, respond
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.services.memories import MAX_TEXT_CHARS as MAX_SAID_CHARS
from ragflow_lg.services.memories import MEMORY_TYPES, Exchange, MemorySearch, MemoryType, Remembered

router = make_router("RAGFlow: memories")

MAX_NAME_CHARS = 128
MAX_CHARS = {"description": 4_000, "avatar": 100_000}
"""Maximum length of a memory's texts."""
MAX_ID_CHARS = 255
"""Maximum length of the ids of agents and sessions."""
MESSAGES_PER_PAGE = 50

_PROMPT = "the prompt is `memory_extraction` in [prompts]"
_FIXED = {
    "memory_size": f"a memory keeps {MemorySettings('').max_entries:,} entries for each user, of any size",
    "forgetting_policy": "the oldest entries are forgotten first",
    "temperature": f"it is {EXTRACTION_TEMPERATURE}",
    "system_prompt": _PROMPT,
    "user_prompt": _PROMPT,
}
"""What cannot be set for a memory, and why."""


class NewMemory(Fields):
    """A memory to create."""

    model_config = with_examples({"name": "Notes", "memory_type": ["raw", "semantic"], "embd_id": "", "llm_id": ""})

    name: Text = ""
    memory_type: Annotated[Any, Field(description=f"A list: {', '.join(MEMORY_TYPES)}.")] = None
    embd_id: Annotated[Text, Field(description="The embedding model; the default one if it is empty.")] = ""
    llm_id: Annotated[Text, Field(description="The model that extracts; the default one if it is empty.")] = ""


class MemoryChange(NewMemory):
    """Changes of a memory."""

    description: Text = ""
    avatar: Text = ""
    permissions: Text = "me"


class MemoryFilters(Pages):
    """Which memories to list."""

    keywords: Annotated[str, Field(description="Only memories whose name contains this text.")] = ""
    storage_type: Annotated[str, Field(description="Only `table`.")] = ""


class NewMessage(Fields):
    """What a user and an agent have said."""

    memory_id: Annotated[Any, Field(description="An id, or a list of ids.")] = None
    agent_id: Text = ""
    session_id: Text = ""
    user_input: Text = ""
    agent_response: Text = ""
    user_id: Annotated[Text, Field(description="Whose memory it is; users without an id share one part.")] = ""


class MessageStatus(Fields):
    """Whether searches find a message."""

    status: Any = None


class MessageFilters(Pages):
    """Which messages to list."""

    keywords: Annotated[str, Field(description="Only messages of this session, or that contain this text.")] = ""


class _Found(NamedTuple):
    shelf: MemoryShelf
    item: Item
    remembered: Remembered
    number: int
    source: int
    """The number of the exchange that it was extracted from; 0 for an exchange."""


@router.post("/memories")
async def create_memory(body: NewMemory, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Create a memory, which canvases name by its id."""
    body.require("name", "memory_type", "embd_id", "llm_id")
    memories, created = _find_created(request, caller)
    taken = {shelf.settings.name for shelf in await memories.list_shelves()}
    name = base = _check_name(body.name)
    count = 0
    while name in taken:
        count += 1
        name = f"{base}({count})"
    app_state = get_app_state(request)
    memory = MemorySettings(
        app_state.new_id(), name, create_ms=app_state.now_ms(), types=_check_types(body.memory_type)
    )
    memory = replace(memory, embedding_model=body.embd_id, llm_id=body.llm_id)
    answer = await _put(request, caller, memories, created, memory)
    audit("memory.created", memory=memory.id)
    return answer


@router.get("/memories")
async def list_memories(
    request: Request, caller: Authenticated, filters: Annotated[MemoryFilters, Query()]
) -> dict[str, Any]:
    """List the memories of the settings that the tenant may use, and those that it has created."""
    memories, (page, size) = find_memories(request, caller.tenant), filters.read(caller)
    owners = [*read_ids(request, "tenant_id"), *read_ids(request, "owner_ids")]
    ids, types = read_ids(request, "ids"), read_ids(request, "memory_type")
    if memories is None or (owners and caller.tenant not in owners) or filters.storage_type not in ("", "table"):
        return {"memory_list": [], "total_count": 0}
    found = [
        memory
        for memory in (shelf.settings for shelf in await memories.list_shelves())
        if filters.keywords.casefold() in (memory.name or memory.id).casefold()
        and (not ids or memory.id in ids)
        and (not types or any(type_ in types for type_ in memory.types))
    ]
    shown = [_describe(request, caller, memory) for memory in found[(page - 1) * size : page * size]]
    return {"memory_list": shown, "total_count": len(found)}


@router.get("/memories/{memory_id}/config")
async def get_memory(memory_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Describe a memory."""
    _, shelf = await _find(request, caller, memory_id)
    return _describe(request, caller, shelf.settings)


@router.put("/memories/{memory_id}")
async def change_memory(memory_id: str, body: MemoryChange, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Change a memory that was created over HTTP. If its embedding model changes, its entries are embedded again."""
    memories, created, shelf = await _find_own(request, caller, memory_id)
    given, shown = body.given(), _describe(request, caller, shelf.settings)
    for name, reason in _FIXED.items():
        if given.get(name) not in (None, "", shown[name]):
            raise RequestError(f"`{name}` cannot be changed: {reason}.", 101)
    if body.permissions not in ("me", "team"):
        raise RequestError(f"Unknown permission '{body.permissions[:20]}'.", 101)
    changes: dict[str, Any] = {key: given[key] for key in ("description", "avatar", "permissions") if key in given}
    for key, most in MAX_CHARS.items():
        if len(changes.get(key, "")) > most:
            raise RequestError(f"`{key}` has more than {most:,} characters.", 101)
    changes |= {
        own: given[key] for own, key in (("embedding_model", "embd_id"), ("llm_id", "llm_id")) if given.get(key)
    }
    if "name" in given:
        changes["name"] = _check_name(body.name)
    if given.get("memory_type"):
        changes["types"] = _check_types(body.memory_type)
    answer = await _put(request, caller, memories, created, replace(shelf.settings, **changes))
    if answer["embd_id"] != shelf.settings.embedding_model:
        await memories.embed_again(memory_id)
    return answer


@router.delete("/memories/{memory_id}")
async def delete_memory(memory_id: str, request: Request, caller: Authenticated) -> None:
    """Delete a memory that was created over HTTP, with everything in it."""
    memories, created, shelf = await _find_own(request, caller, memory_id)
    deleted = await created.delete(memories.tenant, shelf)
    audit("memory.deleted", memory=memory_id, entries=str(deleted))


@router.get("/memories/{memory_id}")
async def list_messages(
    memory_id: str, request: Request, caller: Authenticated, filters: Annotated[MessageFilters, Query()]
) -> dict[str, Any]:
    """List what a memory contains, newest first: exchanges, each with what was extracted from it."""
    memories, shelf = await _find(request, caller, memory_id)
    (page, size), agents = filters.read(caller, MESSAGES_PER_PAGE), read_ids(request, "agent_id")
    entries, word = await _read(memories, [shelf]), filters.keywords.strip()
    size, numbers = min(size, MAX_PAGE_SIZE), {entry.number for entry in entries}
    extracted: defaultdict[int, list[_Found]] = defaultdict(list)
    for entry in entries:
        extracted[entry.source].append(entry)
    chosen = [
        entry
        for entry in entries
        if entry.source not in numbers
        and (not agents or entry.remembered.agent in agents)
        and (entry.remembered.session == word or word.casefold() in entry.remembered.content.casefold())
    ]
    shown = chosen[(page - 1) * size : page * size]
    titles = await _read_titles(request, caller, {entry.remembered.agent for entry in shown})
    rows: list[dict[str, Any]] = [
        {**_show(entry, titles), "task": {}, "extract": [_show(each, titles) for each in extracted[entry.number]]}
        for entry in shown
    ]
    return {"messages": {"message_list": rows, "total_count": len(chosen)}, "storage_type": "table"}


@router.post("/messages")
async def add_message(body: NewMessage, request: Request, caller: Authenticated) -> Response:
    """Store an exchange in memories. What it says is extracted in the background."""
    body.require("memory_id", "agent_id", "session_id", "user_input", "agent_response")
    for name, id_ in (("agent_id", body.agent_id), ("session_id", body.session_id)):
        if len(id_) > MAX_ID_CHARS:
            raise RequestError(f"`{name}` has more than {MAX_ID_CHARS} characters.", 101)
    sent: Any = body.memory_id
    listed = cast("list[Any]", sent) if isinstance(sent, list) else to_text(sent).split(",")
    ids = [id_ for each in listed if (id_ := to_text(each).strip())]
    if len(ids) > MAX_IDS:
        raise RequestError(f"`memory_id` names more than {MAX_IDS} memories.", 101)
    memories, missing, quotas = find_memories(request, caller.tenant), ids, get_turns(request).quotas
    app_state = get_app_state(request)
    view = RedactedView(Redactor(app_state.services_of(caller.tenant).all_secrets))
    question, answer = (view.text(text, MAX_SAID_CHARS) for text in (body.user_input, body.agent_response))
    exchange = Exchange(app_state.new_id(), body.user_id, question, answer, session=body.session_id)
    if memories is not None and ids:
        await quotas.begin_turn(caller.tenant)
        memories = memories.for_agent(body.agent_id, charge=partial(quotas.add_usage, caller.tenant))
    try:
        if memories is not None and ids:
            missing = await memories.remember(ids, exchange)
    except ServiceError as error:
        raise RequestError(f"Some messages failed to add. Detail:{error}", 500) from error
    if missing or not ids:
        detail = f"Memory {', '.join(map(repr, missing))[:500]} not found." if ids else "Memory not found."
        raise RequestError(f"Some messages failed to add. Detail:{detail}", 500)
    return respond(message="All add to task.")


@router.get("/messages/search")
async def search_messages(
    request: Request,
    caller: Authenticated,
    query: Annotated[str, Query(max_length=10_000, description="What to search for.")],
    agent_id: str = "",
    session_id: str = "",
    user_id: Annotated[str, Query(description="Only what is remembered about this user.")] = "",
    similarity_threshold: Annotated[float, Query(ge=0, le=1)] = 0.2,
    keywords_similarity_weight: Annotated[float, Query(ge=0, le=1)] = 0.7,
    top_n: Annotated[int, Query(ge=1, le=100)] = 5,
) -> list[dict[str, Any]]:
    """Search memories, named by `memory_id`, with what they contain about all users or about one."""
    memories, shelves = await _choose(request, caller)
    if memories is None:
        return []
    search = MemorySearch(query, (), user_id, top_n, similarity_threshold, keywords_similarity_weight)
    places = [
        (shelf, shelf.namespace(memories.tenant, user_id) if user_id else _whole(memories, shelf)) for shelf in shelves
    ]
    by_id = {shelf.settings.id: shelf for shelf in shelves}
    try:
        found = await memories.find_similar(places, search, lambda each: _is_of(each, agent_id, session_id))
    except (ServiceError, SettingsError) as error:
        raise RequestError(f"The memories cannot be searched: {error}", 500) from error
    return [_show_content(_number(by_id[each.memory], item, each)) for item, each in found]


@router.get("/messages")
async def list_recent(
    request: Request,
    caller: Authenticated,
    agent_id: str = "",
    session_id: str = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> list[dict[str, Any]]:
    """List what memories, named by `memory_id`, contain, newest first."""
    if not read_ids(request, "memory_id"):
        raise RequestError("memory_ids is required.", 101)
    memories, shelves = await _choose(request, caller)
    entries = [] if memories is None else await _read(memories, shelves)
    return [_show_content(each) for each in entries if _is_of(each.remembered, agent_id, session_id)][:limit]


@router.get("/messages/{memory_id}:{message_id}/content")
async def get_message(memory_id: str, message_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Return an entry with its text."""
    return _show_content(await _find_message(request, caller, memory_id, message_id))


@router.put("/messages/{memory_id}:{message_id}")
async def change_message(
    memory_id: str, message_id: str, body: MessageStatus, request: Request, caller: Authenticated
) -> None:
    """Show an entry to searches, or hide it."""
    body.require("status")
    if not isinstance(body.status, bool):
        raise RequestError("Status must be a boolean.", 101)
    found = await _find_message(request, caller, memory_id, message_id)
    await found.shelf.activate(found.item.namespace, found.item.key, is_active=body.status)


@router.delete("/messages/{memory_id}:{message_id}")
async def forget_message(memory_id: str, message_id: str, request: Request, caller: Authenticated) -> None:
    """Delete an entry, and what was extracted from it."""
    found = await _find_message(request, caller, memory_id, message_id)
    deleted = await found.shelf.delete_with_extracted(found.item.namespace, [found.item.key])
    audit("memory.deleted", memory=memory_id, entries=str(deleted))


def _find_created(request: Request, caller: ApiCaller) -> tuple[StoredMemories, CreatedMemories]:
    memories = find_memories(request, caller.tenant)
    if memories is None or memories.created is None:
        raise RequestError("This server keeps no memories.")
    return memories, memories.created


async def _find(request: Request, caller: ApiCaller, memory_id: str) -> tuple[StoredMemories, MemoryShelf]:
    memories = find_memories(request, caller.tenant)
    shelf = None if memories is None else await memories.find_shelf(memory_id)
    if memories is None or shelf is None:
        raise RequestError(f"Memory '{memory_id[:80]}' not found.", 404)
    return memories, shelf


async def _find_own(
    request: Request, caller: ApiCaller, memory_id: str
) -> tuple[StoredMemories, CreatedMemories, MemoryShelf]:
    """Find a memory that the tenant has created."""
    _, shelf = await _find(request, caller, memory_id)
    if not shelf.settings.create_ms:
        raise RequestError(f'The memory comes from the server\'s settings ([memories."{memory_id}"]); change it there.')
    return *_find_created(request, caller), shelf


async def _choose(request: Request, caller: ApiCaller) -> tuple[StoredMemories | None, list[MemoryShelf]]:
    """Return the memories that `memory_id` names. Unknown ones contain nothing, as in RAGFlow."""
    memories = find_memories(request, caller.tenant)
    if memories is None:
        return None, []
    shelves = [await memories.find_shelf(id_) for id_ in dict.fromkeys(read_ids(request, "memory_id"))]
    return memories, [shelf for shelf in shelves if shelf is not None]


async def _find_message(request: Request, caller: ApiCaller, memory_id: str, message_id: str) -> _Found:
    memories, shelf = await _find(request, caller, memory_id)
    if not message_id.isascii() or not message_id.isdigit():
        raise RequestError("The id of a message is a number.", 101)
    for entry in await _read(memories, [shelf]):
        if str(entry.number) == message_id:
            return entry
    raise RequestError(f"Message '{message_id[:20]}' in memory '{memory_id}' not found.", 404)


async def _read(memories: StoredMemories, shelves: Sequence[MemoryShelf]) -> list[_Found]:
    """Return what memories contain about all users, newest first."""
    found = [
        _number(shelf, item, remembered)
        for shelf in shelves
        for item in await shelf.entries(_whole(memories, shelf))
        if (remembered := read_remembered(shelf.settings.id, item)) is not None
    ]
    return sorted(found, key=lambda entry: -created_at(entry.item))


def _number(shelf: MemoryShelf, item: Item, remembered: Remembered) -> _Found:
    source = message_number(item.namespace, remembered.source) if remembered.source else 0
    return _Found(shelf, item, remembered, message_number(item.namespace, item.key), source)


def _whole(memories: StoredMemories, shelf: MemoryShelf) -> tuple[str, ...]:
    return users_prefix(shelf.settings.id, memories.tenant)


async def _put(
    request: Request, caller: ApiCaller, memories: StoredMemories, created: CreatedMemories, memory: MemorySettings
) -> dict[str, Any]:
    """Store and describe a memory whose models the tenant may use."""
    app_state = get_app_state(request)
    try:
        if memory.llm_id or memory.extracted_types:
            app_state.services_of(caller.tenant).models.model(memory.llm_id)
        embedding = await created.embedding_model(memory.embedding_model)
    except SettingsError as error:
        raise RequestError(str(error)) from error
    rights = rights_in(app_state.settings_of(caller.tenant))
    if embedding not in (KEYWORDS, LOCAL_MODEL) and not rights.has_model(embedding):
        raise RequestError(f"The tenant may not use the embedding model {embedding!r:.200}.")
    memory = replace(memory, embedding_model=embedding, update_ms=app_state.now_ms())
    await created.put(memories.tenant, memory)
    return _describe(request, caller, memory)


def _check_name(name: str) -> str:
    name = name.strip()
    if not name:
        raise RequestError("Memory name cannot be empty or whitespace.", 101)
    if len(name) > MAX_NAME_CHARS:
        raise RequestError(f"Memory name '{name[:MAX_NAME_CHARS]}…' exceeds limit of {MAX_NAME_CHARS}.", 101)
    return name


def _check_types(types: Any) -> tuple[MemoryType, ...]:
    if not isinstance(types, list) or not types:
        raise RequestError(f"Memory type must be a list of {', '.join(MEMORY_TYPES)}.", 101)
    known = get_args(MemoryType)
    if wrong := [type_ for type_ in cast("list[Any]", types) if type_ not in known]:
        raise RequestError(f"Memory type {wrong[0]!r:.80} is not supported.", 101)
    return tuple(type_ for type_ in MEMORY_TYPES if type_ in types)


def _describe(request: Request, caller: ApiCaller, memory: MemorySettings) -> dict[str, Any]:
    prompts = get_app_state(request).services_of(caller.tenant).prompts
    return {
        "id": memory.id,
        "name": memory.name or memory.id,
        "avatar": memory.avatar or None,
        "tenant_id": caller.tenant,
        "owner_name": caller.tenant,
        "memory_type": list(memory.types),
        "storage_type": "table",
        "embd_id": memory.embedding_model,
        "embd_name": memory.embedding_model,
        "llm_id": memory.llm_id,
        "permissions": memory.permissions,
        "description": memory.description,
        "memory_size": 0,
        "forgetting_policy": "FIFO",
        "temperature": EXTRACTION_TEMPERATURE,
        "system_prompt": chosen_text(prompts, "memory_extraction"),
        "user_prompt": "",
        **format_times(memory.create_ms, memory.update_ms),
    }


def _show(entry: _Found, titles: dict[str, str] | None = None) -> dict[str, Any]:
    each = entry.remembered
    shown = {
        "message_id": entry.number,
        "message_type": each.type,
        "source_id": entry.source,
        "memory_id": each.memory,
        "user_id": each.user,
        "agent_id": each.agent,
        "session_id": each.session,
        "valid_at": each.valid_at.replace("T", " "),
        "invalid_at": each.invalid_at.replace("T", " ") or None,
        "forget_at": None,
        "status": each.is_active,
    }
    return shown if titles is None else {**shown, "agent_name": titles.get(each.agent, "Unknown")}


def _show_content(entry: _Found) -> dict[str, Any]:
    return {**_show(entry), "content": entry.remembered.content}


async def _read_titles(request: Request, caller: ApiCaller, agents: set[str]) -> dict[str, str]:
    repository = AgentRepository(get_app_state(request).database, caller.tenant)
    rows = [await repository.get(id_) for id_ in agents if id_]
    return {row.id: row.title for row in rows if row is not None}


def _is_of(remembered: Remembered, agent: str, session: str) -> bool:
    return agent in ("", remembered.agent) and session in ("", remembered.session)
