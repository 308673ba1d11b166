"""Routes for versions, and the routes of RAGFlow's Go server that run them: run, stream, publish, cancel."""

from __future__ import annotations

from typing import Any, Literal, cast

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import VersionRow
from ragflow_lg.server.http.ragflow.completion_routes import CompletionResponder, follow_turn
from ragflow_lg.server.http.ragflow.session_schemas import NewVersion, VersionItem, VersionShown
from ragflow_lg.server.http.ragflow.turn_schemas import RUN, CancelBody, PlayBody
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.described_routes import COMPAT, DescribedRoute, describe
from ragflow_lg.server.http.shared.event_stream import EVENT_IDS, StreamPosition, read_disconnect_policy, read_position
from ragflow_lg.server.http.shared.request_parsing import build_turn_request, parse_flag, read_body, to_text
from ragflow_lg.server.http.shared.responses import format_times
from ragflow_lg.server.http.shared.row_loading import load_agent, load_session
from ragflow_lg.server.http.shared.turn_sessions import open_turn_session
from ragflow_lg.server.runs.run_control import RunControl

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: versions"], route_class=DescribedRoute)


@router.get("/agents/{agent_id}/versions")
@describe(answer=list[VersionItem])
async def list_versions(agent_id: str, request: Request, caller: Authenticated) -> Any:
    """List versions, most recently changed first."""
    agent = await load_agent(request, caller, agent_id)
    rows = await AgentRepository(get_app_state(request).database, caller.tenant).all_versions(agent.id)
    return [_build_item(row) for row in rows]


@router.get("/agents/{agent_id}/versions/{version_id}")
@describe(answer=VersionShown)
async def get_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Any:
    """Return a version with its canvas."""
    agent = await load_agent(request, caller, agent_id)
    return build_version(await find_version(get_app_state(request).database, agent, version_id))


@router.post("/agents/{agent_id}/versions")
@router.post("/agents/{agent_id}/publish")
@describe(body=NewVersion, is_body_required=False, answer=VersionShown)
async def publish_version(agent_id: str, request: Request, caller: Authenticated) -> Any:
    """Publish the draft as a new version. With ``dsl``, that canvas replaces the draft first."""
    agent, body = await load_agent(request, caller, agent_id), await read_body(request, "canvas")
    async with get_turns(request).quotas.room(caller.tenant, "versions"):
        version = await publish(
            get_app_state(request),
            agent,
            title=to_text(body.get("title")),
            description=to_text(body.get("description")),
            dsl=body.get("dsl"),
        )
    return build_version(version)


@router.delete("/agents/{agent_id}/versions/{version_id}")
async def remove_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Literal[True]:
    """Delete a version. The draft and versions in use by sessions cannot be deleted."""
    agent, app_state = await load_agent(request, caller, agent_id), get_app_state(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version_id))
    return True


@router.post("/agents/{agent_id}/run")
@describe(EVENT_IDS, COMPAT, body=PlayBody, is_body_required=False, **RUN)
async def run_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Run a turn with ``version``, or continue from ``resume_from``. Waits for the end unless streamed."""
    fields = await _read_fields(request)
    accepts = request.headers.get("accept", "")
    is_streamed = parse_flag(fields.get("stream"), default="text/event-stream" in accepts)
    return await _run_turn(request, caller, agent_id, fields, is_streamed=is_streamed)


@router.post("/agents/{agent_id}/stream")
@describe(EVENT_IDS, COMPAT, body=PlayBody, is_body_required=False, **RUN)
async def stream_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Run a turn as ``run`` does, streamed."""
    return await _run_turn(request, caller, agent_id, await _read_fields(request), is_streamed=True)


@router.post("/agents/{agent_id}/cancel")
@describe(body=CancelBody)
async def cancel_agent(agent_id: str, request: Request, caller: Authenticated) -> Literal[True]:
    """Cancel the turn in the session ``session_id``; ``task_id`` is an alternative name for it."""
    agent, fields = await load_agent(request, caller, agent_id), await _read_fields(request)
    session_id = to_text(fields.get("session_id")) or to_text(fields.get("task_id"))
    if not session_id:
        raise RequestError("`session_id` is required.", 101)
    await get_turns(request).cancel((await load_session(request, agent, session_id)).id, agent.tenant)
    return True


async def _read_fields(request: Request) -> dict[str, Any]:
    return {**request.query_params, **await read_body(request, "turn")}


async def _run_turn(
    request: Request, caller: ApiCaller, agent_id: str, fields: dict[str, Any], *, is_streamed: bool
) -> Response:
    agent, turns = await load_agent(request, caller, agent_id), get_turns(request)
    query = fields.get("user_input") or fields.get("query") or fields.get("message") or ""
    body = {**fields, "query": query}
    policy = read_disconnect_policy(request, fields.get("on_disconnect"))
    if source := to_text(fields.get("resume_from")):
        control = RunControl(get_app_state(request), turns, agent, policy)
        run = await control.run(source)
        turn_request = build_turn_request(caller, await control.session(run.session_id), body)
        inputs = turn_request.get("inputs") or {}
        answers = {name: _unwrap(value) for name, value in inputs.items()}
        turn = await control.resume_from(run, turn_request, answers)
    else:
        user_id, version = to_text(fields.get("user_id")) or agent.tenant, to_text(fields.get("version"))
        session_id = to_text(fields.get("session_id"))
        session = await open_turn_session(request, agent, session_id, version, user_id=user_id, source="workflow")
        turn = await turns.begin(agent, session, build_turn_request(caller, session.row, body), policy)
    position, has_trace = StreamPosition(read_position(request).has_ids), parse_flag(body.get("return_trace"))
    responder = CompletionResponder("all", position, has_trace=has_trace, is_old=caller.is_old)
    return await responder.respond(request, caller, follow_turn(turn), is_streamed=is_streamed)


def _unwrap(value: Any) -> Any:
    """Return the value in RAGFlow's wrapper, or the value itself."""
    wrapper = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return wrapper.get("value", value)


def _build_item(row: VersionRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "user_canvas_id": row.agent_id,
        "release": row.is_released,
        **format_times(row.create_ms, row.update_ms),
    }


def build_version(row: VersionRow) -> dict[str, Any]:
    """Build RAGFlow's row of a version, with its canvas."""
    return {**_build_item(row), "description": row.description, "dsl": orjson.loads(row.dsl)}
