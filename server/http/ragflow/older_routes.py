"""RAGFlow's routes of 0.25.0 and older: `/v1/canvas/…` for its web pages, and lists in the shapes of that time.

Most of them are other names for current routes. The pages get the shapes that they read, whatever the key is for.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal, cast

import msgspec
from fastapi import Depends, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.compatibility import LONG_PAGES
from ragflow_lg.server.agents.retention import delete_session
from ragflow_lg.server.assembly.model_list import ListedModel, list_models
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.http.ragflow import (
    agent_routes,
    completion_routes,
    debug_routes,
    deployment_routes,
    embedded_routes,
    file_routes,
    session_routes,
    version_routes,
)
from ragflow_lg.server.http.ragflow.agent_routes import AgentChange, AgentFilters
from ragflow_lg.server.http.ragflow.completion_routes import CompletionBody
from ragflow_lg.server.http.ragflow.dataset_routes import read_metadata
from ragflow_lg.server.http.ragflow.session_routes import NewSession, SessionFilters
from ragflow_lg.server.http.shared.auth import (
    ApiCaller,
    Authenticated,
    WithAnyKey,
    choose_ragflow,
    get_app_state,
    get_turns,
)
from ragflow_lg.server.http.shared.event_stream import Options
from ragflow_lg.server.http.shared.ragflow_routes import MAX_LONG_PAGE_SIZE, Fields, Text, make_router
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import respond_plain
from ragflow_lg.server.http.shared.turn_sessions import load_agent
from ragflow_lg.server.runs.stored_sessions import cancel_and_delete

router = make_router("RAGFlow: 0.25.0 and older", "/v1")

_SETTINGS = ("description", "avatar")
_TYPES = {"chat": "chat", "vision": "image2text", "embedding": "embedding", "rerank": "rerank"}
_TAGS = {"chat": "LLM,CHAT", "vision": "IMAGE2TEXT", "embedding": "TEXT EMBEDDING", "rerank": "TEXT RE-RANK"}


class SavedAgent(AgentChange):
    """An agent to create, or with its ``id`` to change."""

    id: Text = ""


class AgentNamed(Fields):
    """An agent."""

    id: Text


class AgentIds(Fields):
    """Agents to delete."""

    canvas_ids: Any


class ComponentBody(debug_routes.DebugBody):
    """A component to run alone."""

    id: Text = ""
    component_id: Text = ""
    params: Any = None


class AgentBody(CompletionBody):
    """A turn with the agent ``id``; it is always streamed."""

    id: Text


class ServersWanted(Fields):
    """Which MCP servers to list; by default all of them."""

    mcp_ids: Annotated[Any, Field(description="List of ids.")] = None


async def _authenticate(caller: Authenticated) -> ApiCaller:
    choose_ragflow(LONG_PAGES)
    return caller


Caller = Annotated[ApiCaller, Depends(_authenticate)]


async def list_agents(request: Request, caller: Caller, filters: Annotated[AgentFilters, Query()]) -> Any:
    """List agents: all of them, unless the request has a page size."""
    return await agent_routes.find_agents(request, caller, filters, MAX_LONG_PAGE_SIZE)


async def save_agent(body: SavedAgent, request: Request, caller: Caller) -> Any:
    """Create an agent, or change the agent ``id``. Return the fields of the request, with the id."""
    body.require("dsl", "title")
    if not body.dsl:
        raise RequestError("No DSL data in request.", 101, data=False, has_data=True)
    agent_id = body.id
    if agent_id:
        await agent_routes.change_agent(request, caller, agent_id, body)
    else:
        agent, _ = await agent_routes.store_agent(request, caller, body)
        agent_id = agent.id
    canvas = msgspec.json.decode(body.dsl) if isinstance(body.dsl, str) else body.dsl
    return {**body.given(), "id": agent_id, "dsl": canvas, "release": body.release}


async def change_settings(body: SavedAgent, request: Request, caller: Caller) -> Literal[1]:
    """Change the title, description, permission and picture of the agent ``id``."""
    body.require("id", "title", "permission")
    fields = {name: value for name in (*_SETTINGS, "permission") if (value := getattr(body, name))}
    await agent_routes.change_agent(request, caller, body.id, AgentChange(title=body.title, **fields))
    return 1


async def delete_agents(body: AgentIds, request: Request, caller: Caller) -> Literal[True]:
    """Delete the agents ``canvas_ids``, each with its versions, sessions and files."""
    ids: Any = body.canvas_ids
    if not isinstance(ids, list):
        raise RequestError("`canvas_ids` must be a list of ids.", 101)
    for agent_id in cast("list[Any]", ids):
        await agent_routes.delete_agent(to_text(agent_id), request, caller)
    return True


async def get_agent_of_page(agent_id: str, request: Request, caller: embedded_routes.Page) -> Any:
    """Return an agent to an embedded page, without its canvas: visitors to the page can read its key."""
    return agent_routes.build_agent(await load_agent(request, caller, agent_id), None)


async def get_version(version_id: str, request: Request, caller: Caller) -> Any:
    """Return a version with its canvas."""
    versions = await AgentRepository(get_app_state(request).database, caller.tenant).versions([version_id])
    if version_id not in versions:
        raise RequestError("Version not found.", status=404)
    return version_routes.build_version(versions[version_id])


async def complete(body: AgentBody, request: Request, caller: Caller, options: Options) -> Response:
    """Run a turn with the agent ``id``, streamed. Without a session, it continues the user's last one until a reset."""
    return await completion_routes.complete_with(
        request, caller, body.id, _as_stream(body), options, conversation=_name_conversation(body.id), end=b""
    )


async def complete_of_agent(
    agent_id: str, body: CompletionBody, request: Request, caller: Caller, options: Options
) -> Response:
    """Run a turn in a session, streamed, for the page on which users try an agent."""
    return await completion_routes.complete_with(request, caller, agent_id, _as_stream(body), options, source="agent")


async def reset(body: AgentNamed, request: Request, caller: Caller) -> dict[str, Any]:
    """Reset the draft of the agent ``id``, and delete the session that ``completion`` continues."""
    app_state = get_app_state(request)
    canvas = await debug_routes.reset_agent(body.id, request, caller)
    sessions = SessionRepository(app_state.database, caller.tenant)
    delete = partial(delete_session, app_state, caller.tenant, body.id)
    for session in await sessions.of_conversation(body.id, caller.tenant, _name_conversation(body.id)):
        await cancel_and_delete(app_state.store, session.id, delete)
    return canvas


async def get_form(request: Request, caller: Caller, id: str = "", component_id: str = "") -> dict[str, Any]:
    """Return the input form of the component ``component_id`` in the draft of the agent ``id``."""
    return await debug_routes.get_input_form(id, component_id, request, caller)


async def debug(body: ComponentBody, request: Request, caller: Caller) -> dict[str, Any]:
    """Run the component ``component_id`` from the draft of the agent ``id``."""
    body.require("id", "component_id", "params")
    return await debug_routes.debug_component(body.id, body.component_id, body, request, caller)


async def get_trace(request: Request, caller: WithAnyKey, canvas_id: str = "", message_id: str = "") -> Any:
    """Return the tool calls of the run ``message_id``."""
    return await debug_routes.find_trace(request, caller, canvas_id, message_id)


async def list_sessions(
    agent_id: str, request: Request, caller: Caller, filters: Annotated[SessionFilters, Query()]
) -> Any:
    """List the sessions of an agent, page by page."""
    agent = await load_agent(request, caller, agent_id)
    rows, total = await session_routes.find_sessions(request, caller, agent, filters)
    return {"total": total, "sessions": rows}


async def create_session(agent_id: str, body: NewSession, request: Request, caller: Caller) -> Any:
    """Create a session without messages."""
    agent, turns = await load_agent(request, caller, agent_id), get_turns(request)
    version, user = await turns.canvases.version(agent), caller.tenant
    session, messages = await turns.open_session(
        agent, version, user_id=user, exp_user_id=user, name=body.name, source="agent"
    )
    return session_routes.build_row(session, messages, version.title, version.canvas)


async def list_factories(request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """List the providers of the models."""
    return [
        {
            "name": name,
            "logo": "",
            "status": "1",
            "tags": _join_tags(models),
            "model_types": sorted({_TYPES[kind] for model in models for kind in model.kinds}),
        }
        for name, models in _group(request, caller).items()
    ]


async def list_own_models(request: Request, caller: Authenticated) -> dict[str, Any]:
    """List the models by provider, without keys and addresses."""
    grouped = _group(request, caller).items()
    return {
        name: {"tags": _join_tags(models), "llm": [_describe_own(each) for each in models]} for name, models in grouped
    }


async def list_offered_models(request: Request, caller: Authenticated, model_type: str = "") -> dict[str, Any]:
    """List the models that forms offer, by provider. `llm_name@fid` is the model's id in a canvas."""
    listed = {
        name: [_describe_offered(model, name) for model in models if model_type.lower() in _TYPES[model.kinds[0]]]
        for name, models in _group(request, caller).items()
    }
    return {name: models for name, models in listed.items() if models}


async def list_plugins(caller: Authenticated) -> list[dict[str, Any]]:
    """List RAGFlow's plug-ins: none. Tools of this server are components."""
    return []


async def list_servers(
    body: ServersWanted,
    request: Request,
    caller: Authenticated,
    filters: Annotated[deployment_routes.ServerFilters, Query()],
) -> dict[str, Any]:
    """List the MCP servers of the settings: all of them, unless the request has a page and its size."""
    ids: Any = body.mcp_ids
    wanted = [to_text(id_) for id_ in cast("list[Any]", ids)] if isinstance(ids, list) else []
    page = filters.read(caller) if all(request.query_params.get(name) for name in ("page", "page_size")) else None
    return await deployment_routes.find_servers(request, caller, wanted, filters.keywords, page)


async def get_server(request: Request, caller: Authenticated, mcp_id: str = "") -> dict[str, Any]:
    """Describe an MCP server, with its tools."""
    return await deployment_routes.get_mcp_server(mcp_id, request, caller)


async def get_metadata(request: Request, caller: Authenticated, kb_ids: str = "") -> Response:
    """Return the metadata of the documents in some datasets: values by key, and ids of documents by value."""
    return respond_plain(await read_metadata(request, caller, [id_ for id_ in kb_ids.split(",") if id_]))


OLDER_ROUTES = (
    ("GET", "/canvas/templates", agent_routes.list_templates),
    ("GET", "/canvas/prompts", agent_routes.get_prompts),
    ("GET", "/canvas/get/{agent_id}", agent_routes.get_agent),
    ("GET", "/canvas/getlistversion/{agent_id}", version_routes.list_versions),
    ("POST", "/canvas/upload/{agent_id}", file_routes.upload),
    ("GET", "/canvas/download", file_routes.download_upload),
    ("PUT", "/canvas/cancel/{task_id}", completion_routes.cancel_task),
    ("POST", "/canvas/test_db_connect", debug_routes.test_database),
    ("POST", "/canvas/rerun", debug_routes.rerun_pipeline),
    ("GET", "/canvas/{agent_id}/sessions/{session_id}", session_routes.get_session),
    ("DELETE", "/canvas/{agent_id}/sessions/{session_id}", session_routes.delete_session),
    ("GET", "/canvas/list", list_agents),
    ("GET", "/canvas/listteam", list_agents),
    ("POST", "/canvas/set", save_agent),
    ("POST", "/canvas/setting", change_settings),
    ("POST", "/canvas/rm", delete_agents),
    ("GET", "/canvas/getsse/{agent_id}", get_agent_of_page),
    ("GET", "/canvas/getversion/{version_id}", get_version),
    ("POST", "/canvas/completion", complete),
    ("POST", "/canvas/{agent_id}/completion", complete_of_agent),
    ("POST", "/canvas/reset", reset),
    ("GET", "/canvas/input_form", get_form),
    ("POST", "/canvas/debug", debug),
    ("GET", "/canvas/trace", get_trace),
    ("GET", "/canvas/{agent_id}/sessions", list_sessions),
    ("PUT", "/canvas/{agent_id}/sessions", create_session),
    ("GET", "/llm/factories", list_factories),
    ("GET", "/llm/my_llms", list_own_models),
    ("GET", "/llm/list", list_offered_models),
    ("GET", "/plugin/llm_tools", list_plugins),
    ("POST", "/mcp_server/list", list_servers),
    ("GET", "/mcp_server/detail", get_server),
    ("GET", "/kb/get_meta", get_metadata),
    ("GET", "/document/thumbnails", deployment_routes.list_thumbnails),
    ("POST", "/document/upload_info", file_routes.upload_without_agent),
)
"""The older paths. They are not in the OpenAPI document: nobody writes a new client for them."""

for method, path, handler in OLDER_ROUTES:
    router.add_api_route(path, handler, methods=[method], include_in_schema=False)


def _as_stream(body: CompletionBody) -> CompletionBody:
    return body.model_copy(update={"stream": True, "openai_compatible": False})


def _name_conversation(agent_id: str) -> str:
    """Return the key of the conversation that the editor has with an agent."""
    return f"canvas:{agent_id}"


def _group(request: Request, caller: ApiCaller) -> dict[str, list[ListedModel]]:
    """Return the models by provider. A model without a provider could not be named by these lists."""
    grouped: dict[str, list[ListedModel]] = {}
    for model in list_models(get_app_state(request).settings_of(caller.tenant)):
        if model.provider:
            grouped.setdefault(model.provider, []).append(model)
    return grouped


def _join_tags(models: list[ListedModel]) -> str:
    return ",".join(dict.fromkeys(_TAGS[kind] for model in models for kind in model.kinds))


def _name(model: ListedModel) -> str:
    """Return the part of a model's id before its provider, with its instance."""
    return model.id.rpartition("@")[0] or model.name


def _describe_own(model: ListedModel) -> dict[str, Any]:
    return {
        "id": model.id,
        "type": _TYPES[model.kinds[0]],
        "name": _name(model),
        "used_token": 0,
        "api_base": "",
        "max_tokens": model.context_tokens,
        "status": "1",
    }


def _describe_offered(model: ListedModel, provider: str) -> dict[str, Any]:
    return {
        "id": model.id,
        "llm_name": _name(model),
        "fid": provider,
        "model_type": _TYPES[model.kinds[0]],
        "tags": _join_tags([model]),
        "max_tokens": model.context_tokens,
        "is_tools": model.has_tools,
        "available": True,
        "status": "1",
    }
