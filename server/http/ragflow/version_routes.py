"""Routes for versions, and the routes of RAGFlow's Go server that run them: run, stream, publish, cancel."""

from __future__ import annotations

from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import VersionRow
from ragflow_lg.server.http.ragflow.completion_routes import (
    STREAM,
    CancelBody,
    CompletionResponder,
    PlayBody,
    follow_turn,
)
from ragflow_lg.server.http.ragflow.session_routes import MAX_CANVAS_CHARS, NewVersion
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.event_stream import Options, StreamOptions, StreamPosition, read_policy
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import make_router
from ragflow_lg.server.http.shared.responses import format_times
from ragflow_lg.server.http.shared.turn_sessions import (
    build_turn_request,
    follow_canvas,
    load_agent,
    load_session,
    open_turn_session,
)
from ragflow_lg.server.runs.run_control import RunControl

router = make_router("RAGFlow: versions")


@router.get("/agents/{agent_id}/versions")
async def list_versions(agent_id: str, request: Request, caller: Authenticated) -> Any:
    """List versions, most recently changed first: with their canvases, unless these are large."""
    agent = await load_agent(request, caller, agent_id)
    rows = await AgentRepository(get_app_state(request).database, caller.tenant).all_versions(agent.id)
    is_small = sum(len(row.dsl) for row in rows) <= MAX_CANVAS_CHARS
    return [(build_version if is_small else _build_item)(row) for row in rows]


@router.get("/agents/{agent_id}/versions/{version_id}")
async def get_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Any:
    """Return a version with its canvas."""
    agent = await load_agent(request, caller, agent_id)
    return build_version(await find_version(get_app_state(request).database, agent, version_id))


@router.post("/agents/{agent_id}/versions")
@router.post("/agents/{agent_id}/publish")
async def publish_version(agent_id: str, body: NewVersion, request: Request, caller: Authenticated) -> Any:
    """Publish the draft as a new version. With ``dsl``, that canvas replaces the draft first."""
    agent = await load_agent(request, caller, agent_id)
    version = await publish(get_app_state(request), agent, title=body.title, description=body.description, dsl=body.dsl)
    return build_version(version)


@router.delete("/agents/{agent_id}/versions/{version_id}")
async def remove_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Literal[True]:
    """Delete a version. The draft and versions in use by sessions cannot be deleted."""
    agent, app_state = await load_agent(request, caller, agent_id), get_app_state(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version_id))
    return True


@router.post("/agents/{agent_id}/run", responses=STREAM)
async def run_agent(
    agent_id: str, body: PlayBody, request: Request, caller: Authenticated, options: Options
) -> Response:
    """Run a turn with ``version``, or continue from ``resume_from``. Waits for the end unless streamed.

    For clients of RAGFlow 1.0, the turn is streamed unless they say otherwise.
    """
    return await _run_turn(request, caller, agent_id, body, options)


@router.post("/agents/{agent_id}/stream", responses=STREAM)
async def stream_agent(
    agent_id: str, body: PlayBody, request: Request, caller: Authenticated, options: Options
) -> Response:
    """Run a turn as ``run`` does, streamed."""
    return await _run_turn(request, caller, agent_id, body, options, is_streamed=True)


@router.post("/agents/{agent_id}/cancel")
async def cancel_agent(agent_id: str, body: CancelBody, request: Request, caller: Authenticated) -> Literal[True]:
    """Cancel the turn in the session ``session_id``; ``task_id`` is an alternative name for it."""
    agent, session_id = await load_agent(request, caller, agent_id), body.session_id or body.task_id
    if not session_id:
        raise RequestError("`session_id` is required.", 101)
    await get_turns(request).playing.cancel_session((await load_session(request, agent, session_id)).id, agent.tenant)
    return True


async def _run_turn(
    request: Request,
    caller: ApiCaller,
    agent_id: str,
    body: PlayBody,
    options: StreamOptions,
    *,
    is_streamed: bool = False,
) -> Response:
    agent, turns = await load_agent(request, caller, agent_id), get_turns(request)
    query = body.user_input or body.query or body.message or body.question
    policy = read_policy(body.on_disconnect) if body.on_disconnect is not None else options.policy
    if body.resume_from:
        control = RunControl(get_app_state(request), turns, agent, policy)
        run = await control.run(body.resume_from)
        resumed = await control.session(run.session_id)
        await follow_canvas(request, agent, resumed.version_id)
        turn_request = build_turn_request(caller, resumed, query, body)
        answers = {name: as_map(value).get("value", value) for name, value in body.inputs.items()}
        turn = await control.resume_from(run, turn_request, answers)
    else:
        user_id = body.user_id or agent.tenant
        session = await open_turn_session(
            request, agent, body.session_id, body.version, user_id=user_id, source="workflow"
        )
        turn = await turns.begin(agent, session, build_turn_request(caller, session.row, query, body), policy)
    position = StreamPosition(options.position.has_ids)
    if not is_streamed:
        accepts = "text/event-stream" in request.headers.get("accept", "")
        is_streamed = body.stream if "stream" in body.model_fields_set else accepts or speaks_1()
    responder = CompletionResponder(
        "all",
        position,
        get_app_state(request).now_ms,
        query or body.inputs,
        has_trace=body.return_trace,
        is_old=caller.is_old,
    )
    return await responder.respond(request, caller, follow_turn(turn), is_streamed=is_streamed)


def _build_item(row: VersionRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "user_canvas_id": row.agent_id,
        "release": row.is_released,
        "description": row.description,
        **format_times(row.create_ms, row.update_ms),
    }


def build_version(row: VersionRow) -> dict[str, Any]:
    """Build RAGFlow's row of a version, with its canvas."""
    return {**_build_item(row), "dsl": row.canvas}
