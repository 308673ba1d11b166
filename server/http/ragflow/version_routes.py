"""Routes of versions, and those of RAGFlow's Go server that play one: run, stream, publish, cancel."""

from __future__ import annotations

from typing import Annotated, Any, cast

import orjson
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow
from ragflow_lg.server.http.ragflow.completion_routes import answer_turn
from ragflow_lg.server.http.shared.agent_lookup import agent_of
from ragflow_lg.server.http.shared.auth import Caller, app_state_of, authenticated, turns_of
from ragflow_lg.server.http.shared.event_following import policy_of
from ragflow_lg.server.http.shared.request_parsing import body_of, flag, text_of
from ragflow_lg.server.http.shared.responses import answer, dated
from ragflow_lg.server.http.shared.turn_request import asked_of
from ragflow_lg.server.runs.run_control import RunControl

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: versions"])

Authenticated = Annotated[Caller, Depends(authenticated)]


@router.get("/agents/{agent_id}/versions")
async def list_versions(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """List versions, the one that was changed last first."""
    agent = await agent_of(request, caller, agent_id)
    rows = await AgentRepository(app_state_of(request).database, caller.tenant).all_versions(agent.id)
    return answer([_item(row) for row in rows])


@router.get("/agents/{agent_id}/versions/{version_id}")
async def get_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Response:
    """Show a version with its canvas."""
    agent = await agent_of(request, caller, agent_id)
    return answer(_whole(await find_version(app_state_of(request).database, agent, version_id)))


@router.post("/agents/{agent_id}/versions")
@router.post("/agents/{agent_id}/publish")
async def publish_version(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Publish the draft, or the ``dsl`` that is given, which becomes the draft, as a new version."""
    agent, body = await agent_of(request, caller, agent_id), await body_of(request)
    made = await publish(
        app_state_of(request),
        agent,
        title=text_of(body.get("title")),
        description=text_of(body.get("description")),
        dsl=body.get("dsl"),
    )
    return answer(_whole(made))


@router.delete("/agents/{agent_id}/versions/{version_id}")
async def remove_version(agent_id: str, version_id: str, request: Request, caller: Authenticated) -> Response:
    """Delete a version; the draft, and what sessions keep to, stay."""
    agent, app_state = await agent_of(request, caller, agent_id), app_state_of(request)
    await delete_version(app_state, agent, await find_version(app_state.database, agent, version_id))
    return answer(True)


@router.post("/agents/{agent_id}/run")
async def run_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Play a turn of ``version`` and wait for it, unless a stream is asked for; or go on from ``resume_from``."""
    given = await _given(request)
    accepts = request.headers.get("accept", "")
    is_streamed = flag(given.get("stream"), default="text/event-stream" in accepts)
    return await _play(request, caller, agent_id, given, is_streamed=is_streamed)


@router.post("/agents/{agent_id}/stream")
async def stream_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Play a turn as ``run`` does, streamed."""
    return await _play(request, caller, agent_id, await _given(request), is_streamed=True)


@router.post("/agents/{agent_id}/cancel")
async def cancel_agent(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Stop the turn of the session ``session_id``, or ``task_id``, which is the same."""
    agent, given = await agent_of(request, caller, agent_id), await _given(request)
    session_id = text_of(given.get("session_id")) or text_of(given.get("task_id"))
    if not session_id:
        raise RequestError("`session_id` is required.", 101)
    await turns_of(request).cancel((await _session(request, agent, session_id)).id)
    return answer(True)


async def _given(request: Request) -> dict[str, Any]:
    return {**request.query_params, **await body_of(request)}


async def _play(
    request: Request, caller: Caller, agent_id: str, given: dict[str, Any], *, is_streamed: bool
) -> Response:
    agent, turns = await agent_of(request, caller, agent_id), turns_of(request)
    query = given.get("user_input") or given.get("query") or given.get("message") or ""
    body = {**given, "query": query}
    policy = policy_of(request, given.get("on_disconnect"))
    if source := text_of(given.get("resume_from")):
        control = RunControl(app_state_of(request), turns, agent, policy)
        run = await control.run(source)
        asked = asked_of(caller, await control.session(run.session_id), body)
        inputs = asked.get("inputs") or {}
        answers = {name: _plain(value) for name, value in inputs.items()}
        turn = await control.resume_from(run, asked, answers)
    else:
        session = await _session_for(request, agent, given, query)
        turn = await turns.begin(agent, session, asked_of(caller, session, body), policy)
    return await answer_turn(request, caller, turn, body, is_streamed=is_streamed)


def _plain(value: Any) -> Any:
    """Take a value out of RAGFlow's wrapper."""
    wrapper = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return wrapper.get("value", value)


async def _session_for(request: Request, agent: AgentRow, given: dict[str, Any], query: Any) -> SessionRow:
    """Give the session that is named, or a new one of the version that is."""
    if session_id := text_of(given.get("session_id")):
        return await _session(request, agent, session_id)
    version = await find_version(app_state_of(request).database, agent, text_of(given.get("version")))
    session, _ = await turns_of(request).open_session(
        agent,
        version,
        user_id=text_of(given.get("user_id")) or agent.tenant,
        name=query if isinstance(query, str) else "",
        source="workflow",
    )
    return session


async def _session(request: Request, agent: AgentRow, session_id: str) -> SessionRow:
    found = await SessionRepository(app_state_of(request).database, agent.tenant).get(session_id)
    if found is None or found.agent_id != agent.id:
        raise RequestError("Session not found!", status=404)
    return found


def _item(row: VersionRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "title": row.title,
        "user_canvas_id": row.agent_id,
        "release": row.is_released,
        **dated(row.create_ms, row.update_ms),
    }


def _whole(row: VersionRow) -> dict[str, Any]:
    return {**_item(row), "description": row.description, "dsl": orjson.loads(row.dsl)}
