"""RAGFlow's routes of 0.25.0 and older for its web pages: `/v1/canvas/…`.

Most of them are other names for current routes. Answers have the shapes that those pages read, whatever the key is for.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import orjson
from fastapi import APIRouter, Depends
from msgspec.structs import replace
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import TITLE_CHARS
from ragflow_lg.server.http.ragflow import (
    agent_routes,
    completion_routes,
    debug_routes,
    embedded_routes,
    file_routes,
    session_routes,
    version_routes,
)
from ragflow_lg.server.http.ragflow.agent_schemas import AGENT_FILTERS, AgentPage, AgentsFilter, AgentShown, NewAgent
from ragflow_lg.server.http.ragflow.session_schemas import (
    SESSION_FILTERS,
    NewSession,
    SessionNamed,
    SessionShown,
    VersionShown,
)
from ragflow_lg.server.http.ragflow.turn_schemas import COMPLETION, EmbeddedBody
from ragflow_lg.server.http.shared.auth import (
    LONG_PAGES,
    ApiCaller,
    Authenticated,
    WithAnyKey,
    get_app_state,
    get_turns,
)
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import (
    MAX_LONG_PAGE_SIZE,
    parse_flag,
    read_body,
    require_fields,
    to_text,
)
from ragflow_lg.server.http.shared.route_schemas import LazyModel, Refusal, with_examples
from ragflow_lg.server.http.shared.row_loading import load_agent
from ragflow_lg.server.runs.stored_sessions import cancel_and_delete

router = APIRouter(prefix="/v1/canvas", tags=["RAGFlow: 0.25.0 and older"], route_class=DescribedRoute)

_SAME = (
    ("GET", "/templates", agent_routes.list_templates),
    ("GET", "/prompts", agent_routes.get_prompts),
    ("GET", "/get/{agent_id}", agent_routes.get_agent),
    ("GET", "/getlistversion/{agent_id}", version_routes.list_versions),
    ("POST", "/upload/{agent_id}", file_routes.upload),
    ("GET", "/download", file_routes.download_upload),
    ("PUT", "/cancel/{task_id}", completion_routes.cancel_task),
    ("POST", "/test_db_connect", debug_routes.test_database),
    ("POST", "/rerun", debug_routes.rerun_pipeline),
    ("GET", "/{agent_id}/sessions/{session_id}", session_routes.get_session),
    ("DELETE", "/{agent_id}/sessions/{session_id}", session_routes.delete_session),
)
"""Other names for current routes."""

_ID = describe_query("id", "Id of the agent.")
_TURN: dict[str, Any] = COMPLETION | {"surface": "none", "answer": Refusal, "more": {}}
_SETTINGS = ("title", "description", "permission", "avatar")


AgentId = Annotated[str, Field(description="Id of the agent.")]


class SavedAgent(NewAgent):
    """An agent to create, or with its ``id`` to change."""

    id: AgentId = ""


class AgentSaved(LazyModel):
    """The fields of the request; the canvas is an object, and ``id`` is that of the agent."""

    id: str
    title: str
    dsl: dict[str, Any]
    release: bool


class AgentSettings(LazyModel):
    """Changes to an agent other than its canvas."""

    model_config = with_examples({"id": "0c7f4a1e2b5d11f0", "title": "Parcels", "permission": "me"})

    id: AgentId
    title: Annotated[str, Field(min_length=1, max_length=TITLE_CHARS)]
    permission: Annotated[str, Field(max_length=16, description="Stored only.")]
    description: str = ""
    avatar: Annotated[str, Field(description="Picture as a `data:` URI.")] = ""


class AgentNamed(LazyModel):
    """An agent."""

    id: AgentId


class AgentIds(LazyModel):
    """Agents to delete."""

    canvas_ids: list[str]


class ComponentBody(debug_routes.DebugBody):
    """A component to run alone."""

    model_config = with_examples(
        {"id": "0c7f4a1e2b5d11f0", "component_id": "LLM:0", "params": {"sys.query": {"value": "Hi"}}}
    )

    id: AgentId
    component_id: str


class EditorBody(EmbeddedBody):
    """A turn; it is always streamed."""


class AgentBody(EditorBody):
    """A turn with the agent ``id``; it is always streamed."""

    model_config = with_examples({"id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?"})

    id: AgentId


class SessionsPage(LazyModel):
    """A page of sessions."""

    total: int
    sessions: list[SessionShown] | list[SessionNamed]


async def _authenticate(caller: Authenticated) -> ApiCaller:
    return replace(caller, compat=LONG_PAGES)


Caller = Annotated[ApiCaller, Depends(_authenticate)]

for method, path, handler in _SAME:
    router.add_api_route(path, handler, methods=[method])


@router.get("/list")
@router.get("/listteam")
@describe(*AGENT_FILTERS, answer=AgentPage | AgentsFilter)
async def list_agents(request: Request, caller: Caller) -> Any:
    """List agents: all of them, unless the request has a page size."""
    return await agent_routes.find_agents(request, caller, MAX_LONG_PAGE_SIZE)


@router.post("/set")
@describe(body=SavedAgent, answer=AgentSaved)
async def save_agent(request: Request, caller: Caller) -> Any:
    """Create an agent, or change the agent ``id``. Return the fields of the request, with the id."""
    body = await read_body(request, "canvas")
    require_fields(body, "dsl", "title")
    if not body["dsl"]:
        raise RequestError("No DSL data in request.", 101, data=False, has_data=True)
    agent_id = to_text(body.get("id"))
    if agent_id:
        await agent_routes.change_agent(request, caller, agent_id, body)
    else:
        agent, _ = await agent_routes.store_agent(request, caller, body)
        agent_id = agent.id
    canvas = orjson.loads(body["dsl"]) if isinstance(body["dsl"], str) else body["dsl"]
    return {**body, "id": agent_id, "dsl": canvas, "release": parse_flag(body.get("release"))}


@router.post("/setting")
@describe(body=AgentSettings)
async def change_settings(request: Request, caller: Caller) -> Literal[1]:
    """Change the title, description, permission and picture of the agent ``id``."""
    body = await read_body(request, "canvas")
    require_fields(body, "id", "title", "permission")
    fields = {name: body[name] for name in _SETTINGS if body.get(name)}
    await agent_routes.change_agent(request, caller, to_text(body["id"]), {**fields, "title": body["title"]})
    return 1


@router.post("/rm")
@describe(body=AgentIds)
async def delete_agents(request: Request, caller: Caller) -> Literal[True]:
    """Delete the agents ``canvas_ids``, each with its versions, sessions and files."""
    body = await read_body(request)
    require_fields(body, "canvas_ids")
    if not isinstance(body["canvas_ids"], list):
        raise RequestError("`canvas_ids` must be a list of ids.", 101)
    for agent_id in cast("list[Any]", body["canvas_ids"]):
        await agent_routes.delete_agent(to_text(agent_id), request, caller)
    return True


@router.get("/getsse/{agent_id}")
@describe(answer=AgentShown)
async def get_agent_of_page(agent_id: str, request: Request, caller: embedded_routes.Page) -> Any:
    """Return an agent to an embedded page, without its canvas: visitors to the page can read its key."""
    return agent_routes.build_agent(await load_agent(request, caller, agent_id), None)


@router.get("/getversion/{version_id}")
@describe(answer=VersionShown)
async def get_version(version_id: str, request: Request, caller: Caller) -> Any:
    """Return a version with its canvas."""
    versions = await AgentRepository(get_app_state(request).database, caller.tenant).versions([version_id])
    if version_id not in versions:
        raise RequestError("Version not found.", status=404)
    return version_routes.build_version(versions[version_id])


@router.post("/completion")
@describe(*completion_routes.PARAMETERS, body=AgentBody, **_TURN)
async def complete(request: Request, caller: Caller) -> Response:
    """Run a turn with the agent ``id``, streamed. Without a session, it continues the user's last one until a reset."""
    body = await _read_turn(request)
    require_fields(body, "id")
    agent_id = to_text(body["id"])
    return await completion_routes.complete_with(
        request,
        caller,
        agent_id,
        body,
        conversation=_name_conversation(agent_id),
        end=b"",
        models=[AgentBody],
    )


@router.post("/{agent_id}/completion")
@describe(*completion_routes.PARAMETERS, body=EditorBody, **_TURN)
async def complete_of_agent(agent_id: str, request: Request, caller: Caller) -> Response:
    """Run a turn in a session, streamed, for the page on which users try an agent."""
    return await completion_routes.complete_with(request, caller, agent_id, await _read_turn(request), source="agent")


@router.post("/reset")
@describe(body=AgentNamed)
async def reset(request: Request, caller: Caller) -> dict[str, Any]:
    """Reset the draft of the agent ``id``, and delete the session that ``completion`` continues."""
    body = await read_body(request)
    require_fields(body, "id")
    app_state, agent_id = get_app_state(request), to_text(body["id"])
    canvas = await debug_routes.reset_agent(agent_id, request, caller)
    sessions = SessionRepository(app_state.database, caller.tenant)
    for session in await sessions.of_conversation(agent_id, caller.tenant, _name_conversation(agent_id)):
        await cancel_and_delete(app_state.store, session.id)
        await sessions.delete(agent_id, session.id)
    return canvas


@router.get("/input_form")
@describe(_ID, describe_query("component_id", "Id of the component."))
async def get_form(request: Request, caller: Caller) -> dict[str, Any]:
    """Return the input form of the component ``component_id`` in the draft of the agent ``id``."""
    query = request.query_params
    return await debug_routes.get_input_form(query.get("id", ""), query.get("component_id", ""), request, caller)


@router.post("/debug")
@describe(body=ComponentBody)
async def debug(request: Request, caller: Caller) -> dict[str, Any]:
    """Run the component ``component_id`` from the draft of the agent ``id``."""
    body = await read_body(request, "turn")
    require_fields(body, "id", "component_id", "params")
    return await debug_routes.debug_component(to_text(body["id"]), to_text(body["component_id"]), request, caller)


@router.get("/trace")
@describe(
    describe_query("canvas_id", "Id of the agent."),
    describe_query("message_id", "Id of the run: the `message_id` of its frames."),
    answer=list[debug_routes.Traced] | dict[str, Any],
)
async def get_trace(request: Request, caller: WithAnyKey) -> Any:
    """Return the tool calls of the run ``message_id``."""
    query = request.query_params
    return await debug_routes.find_trace(request, caller, query.get("canvas_id", ""), query.get("message_id", ""))


@router.get("/{agent_id}/sessions")
@describe(*SESSION_FILTERS, answer=SessionsPage)
async def list_sessions(agent_id: str, request: Request, caller: Caller) -> Any:
    """List the sessions of an agent, page by page."""
    rows, total = await session_routes.find_sessions(request, caller, await load_agent(request, caller, agent_id))
    return {"total": total, "sessions": rows}


@router.put("/{agent_id}/sessions")
@describe(body=NewSession, is_body_required=False, answer=SessionShown)
async def create_session(agent_id: str, request: Request, caller: Caller) -> Any:
    """Create a session without messages."""
    body = await read_body(request)
    agent, turns = await load_agent(request, caller, agent_id), get_turns(request)
    version = await turns.canvases.version(agent)
    session, messages = await turns.open_session(
        agent,
        version,
        user_id=caller.tenant,
        exp_user_id=caller.tenant,
        name=to_text(body.get("name")),
        source="agent",
    )
    return session_routes.build_row(session, messages, version.title, orjson.loads(version.dsl))


async def _read_turn(request: Request) -> dict[str, Any]:
    body = await read_body(request, "turn")
    return {**{name: value for name, value in body.items() if name != "openai-compatible"}, "stream": True}


def _name_conversation(agent_id: str) -> str:
    """Return the key of the conversation that the editor has with an agent."""
    return f"canvas:{agent_id}"
