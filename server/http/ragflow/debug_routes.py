"""RAGFlow's routes for debugging an agent: reset, forms, running one component, traces; and for testing a database."""

from __future__ import annotations

from typing import Any, Literal, cast

from starlette.requests import Request

from ragflow_lg.base.errors import RequestError, ServiceError, SettingsError
from ragflow_lg.engine.single_visit import input_form
from ragflow_lg.server.agents.agent_versions import build_version, reset_canvas
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import await_while_connected
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import Fields, Text, make_router, with_examples
from ragflow_lg.server.http.shared.request_bodies import to_text
from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.server.http.shared.turn_sessions import load_agent
from ragflow_lg.server.runs.run_inspection import visit_counted
from ragflow_lg.services.databases import DatabaseAccount, Databases

router = make_router("RAGFlow: trying")
editor_router = make_router("RAGFlow: agents")
trace_router = make_router("RAGFlow: traces")

_FAILED = 100
_ANSWER_S = 5.0
"""How long a tested database may take to answer, in addition to the time for the connection."""


class DebugBody(Fields):
    """Values for a component's input form, by name."""

    model_config = with_examples({"params": {"sys.query": {"value": "Where is my parcel?"}}})

    params: Any


class DatabaseBody(Fields):
    """A database whose connection is tested."""

    db_type: Text
    database: Text
    username: Text
    host: Text
    port: Any
    password: Text


class RerunBody(Fields):
    """A pipeline to rerun; always refused."""

    id: Any
    dsl: Any
    component_id: Any


@router.post("/agents/{agent_id}/reset")
async def reset_agent(agent_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Remove everything that turns left in the draft, and return the canvas."""
    app_state, agent = get_app_state(request), await load_agent(request, caller, agent_id)
    draft = await get_turns(request).canvases.version(agent)
    canvas = reset_canvas(draft.canvas)
    dsl = encode_json(canvas).decode()
    if dsl != draft.dsl:
        now = app_state.now_ms()
        version = build_version(app_state.new_id(), agent_id, draft.title, dsl, now, is_released=False)
        version.description = draft.description
        await AgentRepository(app_state.database, caller.tenant).change(agent_id, {"update_ms": now}, version)
    return canvas


@router.get("/agents/{agent_id}/components/{component_id}/input-form")
async def get_input_form(agent_id: str, component_id: str, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Return the input form of a component in the draft."""
    agent = await load_agent(request, caller, agent_id)
    canvas = await get_turns(request).canvases.compile_version(agent)
    return input_form(canvas.plan, component_id)


@router.post("/agents/{agent_id}/components/{component_id}/debug")
async def debug_component(
    agent_id: str, component_id: str, body: DebugBody, request: Request, caller: Authenticated
) -> dict[str, Any]:
    """Run a single component from the draft in a run slot, and return its outputs."""
    agent, turns, values = await load_agent(request, caller, agent_id), get_turns(request), _read_values(body.params)
    canvas = await turns.canvases.compile_version(agent)
    services = tenant_services(get_app_state(request), caller.tenant, agent.id)
    visit = visit_counted(turns, caller.tenant, canvas.plan, component_id, values, services)
    return (await await_while_connected(request, visit)).outputs


def _read_values(params: Any) -> dict[str, Any]:
    """Read ``params``: ``{name: {"value": …}}``."""
    if params and not isinstance(params, dict):
        raise RequestError('`params` must be an object of fields: {NAME: {"value": …}}.', 101)
    fields = cast("dict[str, Any]", params or {})
    for name, field in fields.items():
        if not isinstance(field, dict) or "value" not in field:
            raise RequestError(f'`params.{name}` must be an object with a value: {{"value": …}}.', 101)
    return {name: field["value"] for name, field in fields.items()}


@trace_router.get("/agents/{agent_id}/logs/{message_id}")
async def get_trace(agent_id: str, message_id: str, request: Request, caller: Authenticated) -> Any:
    """Return a run's tool calls, even while it is running; ``{}`` if there are no calls."""
    return await find_trace(request, caller, agent_id, message_id)


async def find_trace(request: Request, caller: ApiCaller, agent_id: str, message_id: str) -> Any:
    """Return the tool calls of one of an agent's runs. Visitors to an embedded page receive none."""
    app_state = get_app_state(request)
    await load_agent(request, caller, agent_id)
    run = await RunRepository(app_state.database, caller.tenant).get(to_text(message_id))
    if run is None or run.agent_id != agent_id or caller.is_page:
        return {}
    return await app_state.store.traces.get(run.id) or {}


@editor_router.post("/agents/test_db_connection")
async def test_database(
    body: DatabaseBody, request: Request, caller: Authenticated
) -> Literal["Database Connection Successful!", True]:
    """Test the connection to a database."""
    account = DatabaseAccount(
        body.db_type, body.host.strip(), _read_port(body.port), body.database, body.username, body.password
    )
    services = get_app_state(request).services_of(caller.tenant)
    try:
        await services.of(Databases).check(account, timeout_s=_ANSWER_S)
    except (ServiceError, SettingsError) as error:
        raise RequestError(str(error), _FAILED, status=200) from error
    return True if speaks_1() else "Database Connection Successful!"


@editor_router.post("/agents/rerun")
async def rerun_pipeline(body: RerunBody, caller: Authenticated) -> Literal[True]:
    """Refuse to rerun an ingestion pipeline: ragflow-lg runs agents only."""
    raise RequestError("Document not found. ragflow-lg runs agents; run ingestion pipelines with RAGFlow.", status=404)


def _read_port(value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536):
        raise RequestError("`port` must be a number from 1 to 65535.", 101)
    return int(text)
