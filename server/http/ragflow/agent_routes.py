"""RAGFlow's routes for agents: list, create, show, change, delete; tags and templates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import Query
from pydantic import Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.models.prompt_texts import chosen_text
from ragflow_lg.server.agents.agent_versions import build_version, load_templates
from ragflow_lg.server.agents.drafts import check_draft, check_release
from ragflow_lg.server.agents.file_store import file_store
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, AgentRow, VersionRow
from ragflow_lg.server.database.webhook_repository import WebhookTests
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state
from ragflow_lg.server.http.shared.ragflow_1 import drop_nulls
from ragflow_lg.server.http.shared.ragflow_routes import (
    PAGE_SIZE,
    Fields,
    Flag,
    Pages,
    Text,
    make_router,
    with_examples,
)
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import format_times
from ragflow_lg.server.http.shared.turn_sessions import load_agent
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.stored_sessions import cancel_and_delete

_SAMPLE_CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:0"]},
        "Message:0": {
            "obj": {"component_name": "Message", "params": {"content": ["You said {sys.query}"]}},
            "downstream": [],
        },
    }
}
"""The smallest canvas that answers."""


class AgentFilters(Pages):
    """Which agents to list."""

    id: Annotated[str, Field(description="Only the agent with this id.")] = ""
    title: Annotated[str, Field(description="Only agents with this title.")] = ""
    keywords: Annotated[str, Field(description="Only agents whose title or tags contain this text.")] = ""
    canvas_category: Annotated[str, Field(description="Only these categories, separated by commas.")] = ""
    canvas_type: Annotated[str, Field(description="Only agents of this type.")] = ""
    tags: Annotated[Text, Field(description="Only agents with one of these tags, separated by commas.")] = ""
    owner_ids: Annotated[str, Field(description="Tenants, separated by commas; only your own is allowed.")] = ""
    type: Annotated[str, Field(description="`filter`: return the filter values instead of a list.")] = ""
    orderby: Annotated[str, Field(description="`create_time`, `update_time` or `title`.")] = "create_time"
    desc: Annotated[str, Field(description="`false`: sort in ascending order.")] = "true"


class AgentChange(Fields):
    """Changes to an agent."""

    model_config = with_examples({"title": "Parcels", "dsl": _SAMPLE_CANVAS})

    title: Annotated[Text, Field(description=f"1 to {TITLE_CHARS} characters.")] = ""
    dsl: Annotated[Any, Field(description="Canvas, as an object or as JSON text.")] = None
    compat: Annotated[Any, Field(description="Behaviours of RAGFlow, beside `dsl` as in a file.")] = None
    description: Text = ""
    avatar: Annotated[Text, Field(description="Picture as a `data:` URI.")] = ""
    canvas_type: Annotated[Text, Field(description="At most 64 characters.")] = ""
    canvas_category: Annotated[Text, Field(description="At most 32 characters.")] = ""
    permission: Annotated[Text, Field(description="Stored only: agents are always private to their tenant.")] = ""
    release: Annotated[Flag, Field(description="Whether to publish the draft.")] = False

    @property
    def canvas(self) -> Any:
        """The canvas, as a template if ``compat`` is beside it."""
        return self.dsl if self.compat is None else {"compat": self.compat, "dsl": self.dsl}


class TagsBody(Fields):
    """All of an agent's tags."""

    model_config = with_examples({"tags": ["parcels", "shop"]})

    tags: Annotated[Any, Field(description="List of tags, or a text separated by commas.")] = None


router = make_router("RAGFlow: agents")
template_router = make_router("RAGFlow: templates")

_PROMPTS = ("task_analysis", "plan_generation", "reflection", "citation_guidelines")
MAX_TAG_CHARS = 64
MAX_TAGS_CHARS = 512

_CATEGORY = "agent_canvas"
MAX_TAGS = 32
"""Maximum number of tags in a list filter."""

_MAX_CHARS = {"canvas_type": 64, "canvas_category": 32, "permission": 16}
"""Columns with a limited number of characters."""


@router.get("/agents/tags")
async def list_tags(request: Request, caller: Authenticated, canvas_category: str = "") -> list[dict[str, Any]]:
    """List all tags with their agent counts, most used first."""
    counts = await AgentRepository(get_app_state(request).database, caller.tenant).count_tags(to_text(canvas_category))
    items = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"tag": tag, "count": count} for tag, count in items]


@router.put("/agents/{agent_id}/tags")
async def set_tags(agent_id: str, body: TagsBody, request: Request, caller: Authenticated) -> Literal[True]:
    """Replace the tags of an agent."""
    if not body.is_empty():  # a misspelt field must not remove all tags
        body.require("tags")
    await load_agent(request, caller, agent_id)
    tags = _read_tags(body.tags)
    await AgentRepository(get_app_state(request).database, caller.tenant).set(agent_id, tags=",".join(tags))
    return True


def _read_tags(value: Any) -> list[str]:
    """Read tags from a list or a comma-separated string. Tags that differ only in case are counted once."""
    if value is None or isinstance(value, str):
        parts = to_text(value).split(",")
    elif isinstance(value, list):
        parts = [to_text(tag).replace(",", " ") for tag in cast("list[Any]", value)]
    else:
        raise RequestError("`tags` must be a list of texts, or one text separated by commas.", 101)
    tags_by_key: dict[str, str] = {}
    for part in parts:
        tag = " ".join(part.split())[:MAX_TAG_CHARS].strip()
        if tag:
            tags_by_key.setdefault(tag.casefold(), tag)
    if len(",".join(tags_by_key.values())) > MAX_TAGS_CHARS:
        raise RequestError(f"The tags of an agent must have at most {MAX_TAGS_CHARS} characters in total.", 101)
    return list(tags_by_key.values())


@template_router.get("/agents/templates")
async def list_templates(request: Request, caller: Authenticated) -> Any:
    """List the agent templates."""
    return await asyncio.to_thread(load_templates, get_app_state(request).settings.server.templates)


@template_router.get("/agents/prompts")
async def get_prompts(request: Request, caller: Authenticated) -> dict[str, str]:
    """Return the deployment's agent prompts, which a canvas can replace."""
    chosen = get_app_state(request).settings.prompts
    return {name: chosen_text(chosen, name) for name in _PROMPTS}


@router.get("/agents")
async def list_agents(request: Request, caller: Authenticated, filters: Annotated[AgentFilters, Query()]) -> Any:
    """List agents, page by page."""
    return await find_agents(request, caller, filters)


async def find_agents(request: Request, caller: ApiCaller, filters: AgentFilters, default_size: int = PAGE_SIZE) -> Any:
    """Return a page of agents, or the values by which they can be filtered."""
    page, size = filters.read(caller, default_size)
    order = {"update_time": "update", "title": "title"}.get(filters.orderby, "create")
    agent_query = AgentQuery(
        id=filters.id,
        title=filters.title,
        keywords=filters.keywords,
        categories=[part for part in filters.canvas_category.split(",") if part],
        canvas_type=filters.canvas_type,
        tags=[tag.strip() for tag in filters.tags.split(",") if tag.strip()][:MAX_TAGS],
        page=page,
        page_size=size,
        order=cast("Any", order),
        is_descending=filters.desc not in ("false", "False"),
    )
    if any(owner not in ("", caller.tenant) for owner in filters.owner_ids.split(",")):
        raise RequestError("Only authorized owner_ids can be queried.", 103, data=False, has_data=True)
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    if filters.type == "filter":
        categories = await agents.categories()
        total = sum(categories.values())
        owners = [{"id": caller.tenant, "label": caller.tenant, "count": total}] if total else []
        counted = [{"id": category, "count": count} for category, count in categories.items()]
        return {"filter": {"owner": owners, "canvas_category": counted}, "total": total}
    rows, total = await agents.find(agent_query)
    versions = await agents.versions([row.version_id for row in rows]) if caller.is_old else {}
    times = await agents.release_times([row.id for row in rows])
    if caller.is_old:
        if not rows and (agent_query.id or agent_query.title) and agent_query.page == 1:
            raise RequestError("The agent doesn't exist.", status=404)
        return [{**_build_item(row, times), **build_agent(row, versions.get(row.version_id))} for row in rows]
    return {"canvas": [_build_item(row, times) for row in rows], "total": total}


@router.post("/agents")
async def create_agent(body: AgentChange, request: Request, caller: Authenticated) -> Any:
    """Create an agent from a canvas. It needs a title and a canvas."""
    agent, version = await store_agent(request, caller, body)
    return True if caller.is_old else await _build_shown_agent(request, caller, agent, version)


async def store_agent(request: Request, caller: ApiCaller, body: AgentChange) -> tuple[AgentRow, VersionRow]:
    """Create an agent with its first version."""
    app_state, is_released = get_app_state(request), body.release
    if not body.dsl:
        raise RequestError("No DSL data in request.", 101, data=False, has_data=True)
    settings, workers = app_state.settings_of(caller.tenant), app_state.services.workers
    dsl = await check_draft(settings, workers, body.canvas, is_released=is_released)
    if not body.title.strip():
        raise RequestError("No title in request.", 101, data=False, has_data=True)
    now = app_state.now_ms()
    agent = AgentRow(id=app_state.new_id(), create_ms=now, update_ms=now, canvas_category=_CATEGORY)
    for name, value in _build_columns(body.given()).items():
        setattr(agent, name, value)
    version = build_version(app_state.new_id(), agent.id, agent.title, dsl, now, is_released=is_released)
    agent.version_id = version.id
    await AgentRepository(app_state.database, caller.tenant).create(agent, version)
    audit("agent.created", agent=agent.id)
    return agent, version


@router.get("/agents/{agent_id}")
async def get_agent(agent_id: str, request: Request, caller: Authenticated, dsl_version: Literal["", "v1"] = "") -> Any:
    """Return an agent with its draft."""
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    agent = await agents.get(agent_id)
    version = await agents.version(agent_id, agent.version_id) if agent is not None else None
    if agent is None or version is None:
        audit("agent.refused", agent=agent_id)
        raise RequestError("canvas not found.", status=404)
    row = await _build_shown_agent(request, caller, agent, version)
    return {**row, "dsl": version.canvas}


@router.put("/agents/{agent_id}")
@router.patch("/agents/{agent_id}")
async def update_agent(agent_id: str, body: AgentChange, request: Request, caller: Authenticated) -> Any:
    """Change the given fields of an agent. A different canvas becomes the draft, as a new version."""
    now = await change_agent(request, caller, agent_id, body)
    return True if caller.is_old else {"update_time": now}


async def change_agent(request: Request, caller: ApiCaller, agent_id: str, body: AgentChange) -> int:
    """Change the fields of an agent that a body has. Return the time of the change in epoch milliseconds."""
    app_state, changes, is_released = get_app_state(request), body.given(), body.release
    agent = await load_agent(request, caller, agent_id)
    agents = AgentRepository(app_state.database, caller.tenant)
    now, version = app_state.now_ms(), None
    values: dict[str, Any] = {**_build_columns(changes), "update_ms": now}
    if agent.translations:
        values["translations"] = _keep_translations(agent, values)
    draft = await agents.version(agent_id, agent.version_id)
    settings, workers = app_state.settings_of(caller.tenant), app_state.services.workers
    if body.dsl:
        dsl = await check_draft(settings, workers, body.canvas, is_released=is_released)
        if draft is None or draft.dsl != dsl:
            title = values.get("title", agent.title)
            version = build_version(app_state.new_id(), agent_id, title, dsl, now, is_released=is_released)
    elif is_released and draft is not None:
        await check_release(settings, workers, draft.dsl)
    await agents.change(agent_id, values, version)
    if version is None and is_released:
        await agents.release(agent_id, agent.version_id, now)
    audit("agent.changed", agent=agent_id, what=", ".join(sorted(changes)))
    return now


@router.delete("/agents/{agent_id}")
async def delete_agent(agent_id: str, request: Request, caller: Authenticated) -> Literal[True]:
    """Delete an agent and its versions, sessions and files."""
    app_state = get_app_state(request)
    await load_agent(request, caller, agent_id, is_owned=True)
    agents = AgentRepository(app_state.database, caller.tenant)
    # The agent is deleted last, so that nothing is orphaned and the request can be repeated after an error.
    for session_id in await SessionRepository(app_state.database, caller.tenant).ids(agent_id):
        await cancel_and_delete(app_state.store, session_id)
    await file_store(app_state, caller.tenant).delete_of_agent(agent_id)
    await WebhookTests(app_state.database, caller.tenant, agent_id).delete_all()
    await agents.delete(agent_id)
    audit("agent.deleted", agent=agent_id)
    return True


def _build_columns(fields: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in ("description", "avatar", *_MAX_CHARS):
        if name in fields:
            columns[name] = fields[name]
            if len(columns[name]) > _MAX_CHARS.get(name, len(columns[name])):
                raise RequestError(f"{name} must have at most {_MAX_CHARS[name]} characters.", 101)
    columns["canvas_category"] = columns.get("canvas_category") or _CATEGORY
    if "canvas_category" not in fields:
        del columns["canvas_category"]
    if "title" in fields:
        title = fields["title"].strip()
        if not 0 < len(title) <= TITLE_CHARS:
            raise RequestError(f"The title must have 1 to {TITLE_CHARS} characters.", 101)
        columns |= {"title": title, "title_key": title.casefold()[:TITLE_CHARS]}
    return columns


def _keep_translations(agent: AgentRow, values: Mapping[str, Any]) -> str:
    """Return an agent's translations without those of texts that are changed: they say what it was."""
    kept = [name for name in ("title", "description") if values.get(name, old := getattr(agent, name)) == old]
    translations = {
        language: {name: text if name in kept else "" for name, text in texts.items()}
        for language, texts in agent.texts.items()
    }
    return orjson.dumps(translations).decode()


async def _build_shown_agent(
    request: Request, caller: ApiCaller, agent: AgentRow, version: VersionRow
) -> dict[str, Any]:
    released = await AgentRepository(get_app_state(request).database, caller.tenant).released(agent.id)
    return drop_nulls({**build_agent(agent, version), "last_publish_time": released.update_ms if released else None})


def _build_item(agent: AgentRow, release_times: Mapping[str, int]) -> dict[str, Any]:
    fields = {"tenant_id": agent.tenant, "release_time": release_times.get(agent.id)}
    return drop_nulls({**_build_common(agent), **fields, "type": "agent"})


def build_agent(agent: AgentRow, version: VersionRow | None) -> dict[str, Any]:
    """Build RAGFlow's row of an agent; without a version, its canvas is empty."""
    canvas: Any = version.canvas if version else {}
    is_released = version is not None and version.is_released
    times = format_times(agent.create_ms, agent.update_ms)
    return {**_build_common(agent), "dsl": canvas, "release": is_released, **times}


def _build_common(agent: AgentRow) -> dict[str, Any]:
    return {
        "id": agent.id,
        "avatar": agent.avatar,
        "title": agent.title,
        "description": agent.description,
        "permission": agent.permission,
        "tags": agent.tags,
        "user_id": agent.tenant,
        "nickname": agent.tenant,
        "tenant_avatar": None,
        "create_time": agent.create_ms,
        "update_time": agent.update_ms,
        "canvas_type": agent.canvas_type,
        "canvas_category": agent.canvas_category,
    }
