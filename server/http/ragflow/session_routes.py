"""RAGFlow's routes of an agent's sessions: make, list, show, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import ConflictError, RequestError
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import AgentRow, MessageRow, SessionRow
from ragflow_lg.server.http.shared.agent_lookup import load_agent
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.request_parsing import MAX_PAGE_SIZE, parse_flag, read_body, read_page, to_text
from ragflow_lg.server.http.shared.responses import format_times, respond, respond_page, respond_plain
from ragflow_lg.server.observability.audit import audit

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", tags=["RAGFlow: sessions"])

MAX_CANVAS_CHARS = 4 * 1024 * 1024
"""So much the canvases of a page of sessions have together at most; else its rows are without."""


@router.post("/agents/{agent_id}/sessions")
async def create_session(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Make a session."""
    given = {**request.query_params, **await read_body(request)}
    agent = await _agent(request, caller, agent_id)
    turns = get_turns(request)
    version = await turns.version(agent, is_released=parse_flag(given.get("release")))
    session, messages = await turns.open_session(
        agent,
        version,
        user_id=to_text(given.get("user_id")) or caller.tenant,
        exp_user_id=to_text(given.get("exp_user_id")),
        name=to_text(given.get("name")),
        source="agent",
    )
    row = _row(session, messages, orjson.loads(version.dsl))
    row["agent_id"] = row.pop("dialog_id")
    del row["reference"]
    return respond_plain(_as_asked(row, caller))


@router.get("/agents/{agent_id}/sessions")
async def list_sessions(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """List sessions."""
    agent = await _agent(request, caller, agent_id)
    query = request.query_params
    page, size = read_page(request)
    wanted = SessionQuery(
        id=query.get("id", ""),
        user_id=query.get("user_id", ""),
        exp_user_id=query.get("exp_user_id", ""),
        keywords=query.get("keywords", ""),
        from_ms=_date_ms(query.get("from_date", "")),
        until_ms=_date_ms(query.get("to_date", "")),
        page=page,
        page_size=size,
        order="create" if query.get("orderby") == "create_time" else "update",
        is_descending=query.get("desc", "true") not in ("false", "False"),
    )
    sessions = SessionRepository(get_app_state(request).database, caller.tenant)
    rows, total = await sessions.find(agent_id, wanted)
    if wanted.exp_user_id:
        return respond_page([{"id": row.id, "name": row.name} for row in rows], total)
    said = await sessions.messages([row.id for row in rows])
    canvases: dict[str, Any] = {}
    version_ids = [row.version_id for row in rows]
    if parse_flag(query.get("dsl"), default=True) and await _is_small(request, agent, version_ids):
        canvases = await _canvases(request, agent, version_ids)
    listed: list[Any] = []
    for found in rows:
        row = _row(found, said[found.id], canvases.get(found.version_id) or canvases.get(agent.version_id))
        row["agent_id"] = row.pop("dialog_id")
        del row["reference"]
        for message, stored in list(zip(row["message"], said[found.id], strict=True))[1:]:
            if stored.role == "assistant":
                message["reference"] = _chunks(stored)
        listed.append(_as_asked(row, caller))
    return respond_page(listed, total)


@router.get("/agents/{agent_id}/sessions/{session_id}")
async def get_session(agent_id: str, session_id: str, request: Request, caller: Authenticated) -> Response:
    """Show a session."""
    agent = await _agent(request, caller, agent_id)
    sessions = SessionRepository(get_app_state(request).database, caller.tenant)
    session = await sessions.get(session_id)
    if session is None or session.agent_id != agent_id:
        raise RequestError("Session not found!", status=404)
    canvases = await _canvases(request, agent, [session.version_id])
    canvas = canvases.get(session.version_id) or canvases.get(agent.version_id)
    return respond(_row(session, (await sessions.messages([session_id]))[session_id], canvas))


@router.delete("/agents/{agent_id}/sessions/{session_id}")
async def delete_session(agent_id: str, session_id: str, request: Request, caller: Authenticated) -> Response:
    """Delete a session."""
    await _agent(request, caller, agent_id)
    if problem := await _delete(request, caller, agent_id, session_id):
        raise RequestError(problem)
    return respond_plain(True)


@router.delete("/agents/{agent_id}/sessions")
async def delete_sessions(agent_id: str, request: Request, caller: Authenticated) -> Response:
    """Delete sessions by id, or all with ``delete_all``."""
    await _agent(request, caller, agent_id)
    body = await read_body(request)
    ids = _ids(body.get("ids") or request.query_params.getlist("ids"))
    if not ids and parse_flag(body.get("delete_all", request.query_params.get("delete_all"))):
        ids = await SessionRepository(get_app_state(request).database, caller.tenant).ids(agent_id)
    elif len(ids) > MAX_PAGE_SIZE:
        raise RequestError(f"At most {MAX_PAGE_SIZE} sessions are deleted at once.", 101)
    once = list(dict.fromkeys(ids))
    errors = [f"Duplicate session ids: {id_}" for id_ in once if ids.count(id_) > 1]
    failed = [problem for id_ in once if (problem := await _delete(request, caller, agent_id, id_))]
    if failed and len(failed) == len(once):
        raise RequestError("; ".join([*failed, *errors]))
    if failed or errors:
        return respond_plain({"success_count": len(once) - len(failed), "errors": [*failed, *errors]})
    return respond_plain()


async def _agent(request: Request, caller: ApiCaller, agent_id: str) -> AgentRow:
    try:
        return await load_agent(request, caller, agent_id)
    except RequestError:
        raise RequestError("Agent not found.", status=404) from None


async def _is_small(request: Request, agent: AgentRow, version_ids: Sequence[str]) -> bool:
    """Tell whether an answer may hold the canvases of all its rows, each with its own."""
    agents = AgentRepository(get_app_state(request).database, agent.tenant)
    sizes = await agents.canvas_sizes(sorted({*version_ids, agent.version_id}))
    draft = sizes.get(agent.version_id, 0)
    return sum(sizes.get(id_, draft) for id_ in version_ids) <= MAX_CANVAS_CHARS


async def _canvases(request: Request, agent: AgentRow, version_ids: Sequence[str]) -> dict[str, Any]:
    """Give canvases by the id of their version, the draft's too: it stands for versions that have been dropped."""
    agents = AgentRepository(get_app_state(request).database, agent.tenant)
    found = await agents.versions(sorted({*version_ids, agent.version_id}))
    return {id_: orjson.loads(version.dsl) for id_, version in found.items()}


async def _delete(request: Request, caller: ApiCaller, agent_id: str, session_id: str) -> str:
    """Delete a session; say what was wrong, ``""`` if nothing."""
    app_state = get_app_state(request)
    sessions = SessionRepository(app_state.database, caller.tenant)
    session = await sessions.get(session_id)
    if session is None or session.agent_id != agent_id:
        return f"The agent doesn't own the session {session_id}"
    try:
        await app_state.store.delete_session(session_id)
    except ConflictError as error:
        return f"The session {session_id} is being run: {error}"
    await sessions.delete(agent_id, session_id)
    audit("session.deleted", agent=agent_id, session=session_id)
    return ""


def _ids(given: Any) -> list[str]:
    values = cast("list[Any]", given) if isinstance(given, list) else []
    return [part for value in values if isinstance(value, str) for part in value.split(",") if part]


def _date_ms(text: str) -> int:
    """Read a date or a time; one without a zone is UTC. Nonsense counts as not given."""
    try:
        read = datetime.fromisoformat(text.strip())
        return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _row(session: SessionRow, messages: Sequence[MessageRow], canvas: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": session.id,
        "name": session.name,
        "dialog_id": session.agent_id,
        "user_id": session.user_id,
        "exp_user_id": session.exp_user_id,
        "message": [_message(message) for message in messages],
        "reference": [_chunks(message) for message in messages[1:] if message.role == "assistant"],
        "tokens": session.tokens or 0,
        "source": session.source,
        "duration": session.duration_s or 0.0,
        "round": session.rounds or 0,
        "thumb_up": 0,
        "errors": session.errors or "",
        "version_title": "",
        **format_times(session.create_ms, session.update_ms),
    }
    return row if canvas is None else {**row, "dsl": canvas}


def _message(message: MessageRow) -> dict[str, Any]:
    shown = {"role": message.role, "content": message.content}
    return {**shown, "id": message.run_id, "created_at": message.create_ms / 1000} if message.run_id else shown


def _chunks(message: MessageRow) -> list[Any]:
    return orjson.loads(message.reference) if message.reference else []


def _as_asked(row: dict[str, Any], caller: ApiCaller) -> dict[str, Any]:
    """Name the messages as older clients read them; the present name stays."""
    return {**row, "messages": row["message"]} if caller.is_old else row
