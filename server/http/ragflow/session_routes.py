"""RAGFlow's routes for the sessions of an agent: create, list, show, delete.

A session is shown with its canvas and its state in RAGFlow's form: history, variables, outputs, and where it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import orjson
from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import CANCELLED_TEXT, CompileError, ConflictError, RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.server.agents import retention
from ragflow_lg.server.agents.agent_versions import DRAFT, PUBLISHED, find_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import AgentRow, MessageRow, SessionRow
from ragflow_lg.server.database.turn_writer import Reference, list_chunks, read_reference
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_1 import list_reference, speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import (
    MAX_LONG_PAGE_SIZE,
    MAX_PAGE_SIZE,
    Fields,
    Flag,
    Pages,
    Text,
    make_router,
)
from ragflow_lg.server.http.shared.request_bodies import parse_flag
from ragflow_lg.server.http.shared.responses import format_times, respond, respond_page, respond_plain
from ragflow_lg.server.http.shared.turn_sessions import load_agent, load_session, name_ignored

if TYPE_CHECKING:
    from ragflow_lg.server.runs.turns import Turns


MAX_STATE_BYTES = 4 * 1024 * 1024
"""Maximum size of a canvas with its state; larger ones are shown without it."""


async def show_state(turns: Turns, agent: AgentRow, session: SessionRow, canvas: Any) -> Any:
    """Return a session's canvas with the state that its turns have left, if the canvas can still be compiled.

    Raises:
        CheckpointError: if the store of sessions fails.
    """
    document = as_map(canvas)
    if not document:
        return canvas
    try:
        runner = await turns.runner(agent, session)
    except (CompileError, RequestError):
        return document
    values = await runner.state(session.id)
    if not values:
        return document
    pauses = [pause.node for pause in await runner.pauses(session.id)]
    shown = add_state(document, values, pauses)
    return shown if len(orjson.dumps(shown, default=list)) <= MAX_STATE_BYTES else document


def add_state(canvas: Mapping[str, Any], values: Mapping[str, Any], pauses: Sequence[str]) -> dict[str, Any]:
    """Return a canvas with a thread's values. RAGFlow's path begins with the forms that wait.

    >>> add_state({"components": {}}, {"history": [("user", "Hi")]}, ["UserFillUp:0"])["path"]
    ['UserFillUp:0']
    >>> flat = {"components": {"m": {"component_name": "Message", "params": {}}}}
    >>> add_state(flat, {"outputs": {"m": {"content": "Hi"}}}, ())["components"]
    {'m': {'component_name': 'Message', 'params': {'outputs': {'content': {'value': 'Hi'}}}}}
    """
    outputs: Mapping[str, Any] = values.get("outputs", {})
    components = as_map(canvas.get("components"))
    return {
        **canvas,
        "components": {id_: _with_outputs(entry, as_map(outputs.get(id_))) for id_, entry in components.items()},
        "globals": {**as_map(canvas.get("globals")), **values.get("globals", {})},
        "history": [list(entry) for entry in values.get("history", [])],
        "path": list(pauses) or list(outputs),
    }


def _with_outputs(component: Any, outputs: Mapping[str, Any]) -> Any:
    entry = as_map(component)
    obj = as_map(entry.get("obj")) if "obj" in entry else entry  # 1.0 writes components without it
    if not outputs or not obj:
        return component
    params = as_map(obj.get("params"))
    shown = dict(as_map(params.get("outputs")))
    for name, value in outputs.items():
        shown[name] = {**as_map(shown.get(name)), "value": value}
    filled = {**obj, "params": {**params, "outputs": shown}}
    return {**entry, "obj": filled} if "obj" in entry else filled


class SessionFilters(Pages):
    """Which sessions to list."""

    id: Annotated[str, Field(description="Only the session with this id.")] = ""
    user_id: Annotated[str, Field(description="Only sessions of this user.")] = ""
    exp_user_id: Annotated[
        str, Field(description="Only sessions with this `exp_user_id`: all on one page, with ids and names only.")
    ] = ""
    keywords: Annotated[str, Field(description="Only sessions whose messages contain this text.")] = ""
    from_date: Annotated[
        str, Field(description="Only sessions from this time on, in ISO 8601; UTC without a zone.")
    ] = ""
    to_date: Annotated[str, Field(description="Only sessions up to this time.")] = ""
    dsl: Annotated[Flag, Field(description="Whether to include the canvas of each session.")] = True
    orderby: Annotated[str, Field(description="`create_time` or `update_time`.")] = "update_time"
    desc: Annotated[str, Field(description="`false`: sort in ascending order.")] = "true"


class NewSession(Fields):
    """A session to create."""

    may_be_query = True

    name: Text = ""
    user_id: Text = ""
    exp_user_id: Annotated[Text, Field(description="Id by which `GET` finds the session. Default: `user_id`.")] = ""
    release: Flag = False


class SessionIds(Fields):
    """Sessions to delete."""

    ids: Annotated[Any, Field(description="List of ids, or a text of ids with commas.")] = None
    delete_all: Flag = False


class NewVersion(Fields):
    """A version to publish."""

    title: Annotated[Text, Field(description="Default: the title of the agent.")] = ""
    description: Text = ""
    dsl: Annotated[Any, Field(description="Canvas that replaces the draft before it is published.")] = None


router = make_router("RAGFlow: sessions")

MAX_CANVAS_CHARS = 4 * 1024 * 1024
"""Maximum total length of the canvases in one response, in characters; larger responses omit the canvases."""


@router.post("/agents/{agent_id}/sessions")
async def create_session(agent_id: str, body: NewSession, request: Request, caller: Authenticated) -> Response:
    """Create a session. The fields of Begin belong to the turns."""
    agent = await _load_agent(request, caller, agent_id)
    turns = get_turns(request)
    name = PUBLISHED if body.release else DRAFT
    version = await find_version(get_app_state(request).database, agent, name)
    user_id = body.user_id or caller.tenant
    session, messages = await turns.open_session(
        agent,
        version,
        user_id=user_id,
        exp_user_id=body.exp_user_id or user_id,
        name=body.name or ("session" if speaks_1() else ""),
        source="agent",
        has_prologue=not speaks_1(),
    )
    row = build_row(session, messages, version.title, version.canvas)
    shown = {**_adapt_row(_build_item(row), caller), "dialog_id": agent_id}
    if speaks_1():
        shown["reference"] = {}
    return name_ignored(respond_plain(shown), body.model_extra or ())


@router.get("/agents/{agent_id}/sessions")
async def list_sessions(
    agent_id: str, request: Request, caller: Authenticated, filters: Annotated[SessionFilters, Query()]
) -> Response:
    """List sessions, page by page."""
    agent = await _load_agent(request, caller, agent_id)
    rows, total = await find_sessions(request, caller, agent, filters)
    if filters.exp_user_id:
        return respond_page(rows, total)
    return respond_page([_adapt_row(_build_item(row), caller) for row in rows], total)


async def find_sessions(
    request: Request, caller: ApiCaller, agent: AgentRow, filters: SessionFilters
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of an agent's sessions, and the number of sessions on all pages.

    With ``exp_user_id`` in the query, there is one page, whose rows have only ids and names.
    """
    (page, size), exp_user_id = filters.read(caller), filters.exp_user_id
    if exp_user_id:
        page, size = 1, MAX_LONG_PAGE_SIZE
    session_query = SessionQuery(
        id=filters.id,
        user_id=filters.user_id,
        exp_user_id=exp_user_id,
        keywords=filters.keywords,
        from_ms=_parse_date_ms(filters.from_date),
        until_ms=_parse_date_ms(filters.to_date),
        page=page,
        page_size=size,
        order="create" if exp_user_id or filters.orderby == "create_time" else "update",
        is_descending=filters.desc not in ("false", "False"),
    )
    sessions = SessionRepository(get_app_state(request).database, caller.tenant)
    rows, total = await sessions.find(agent.id, session_query)
    if exp_user_id:
        return [{"id": row.id, "name": row.name} for row in rows], total
    messages = await sessions.messages([row.id for row in rows])
    canvases: dict[str, Any] = {}
    version_ids = [row.version_id for row in rows]
    if filters.dsl and await _fits_response(request, agent, version_ids):
        canvases = await _load_canvases(request, agent, version_ids)
    titles = await AgentRepository(get_app_state(request).database, caller.tenant).version_titles(version_ids)
    draft = canvases.get(agent.version_id)
    return [
        build_row(row, messages[row.id], titles.get(row.version_id, ""), canvases.get(row.version_id) or draft)
        for row in rows
    ], total


@router.get("/agents/{agent_id}/sessions/{session_id}")
async def get_session(agent_id: str, session_id: str, request: Request, caller: Authenticated) -> Any:
    """Return a session with its messages. Its canvas contains the state: history, variables, outputs and path."""
    agent = await _load_agent(request, caller, agent_id)
    session = await load_session(request, agent, session_id)
    sessions = SessionRepository(get_app_state(request).database, caller.tenant)
    canvases = await _load_canvases(request, agent, [session.version_id])
    canvas = canvases.get(session.version_id) or canvases.get(agent.version_id)
    canvas = await show_state(get_turns(request), agent, session, canvas)
    agents = AgentRepository(get_app_state(request).database, caller.tenant)
    title = (await agents.version_titles([session.version_id])).get(session.version_id, "")
    row = build_row(session, (await sessions.messages([session_id]))[session_id], title, canvas)
    return {**row, "reference": [list_reference(each) for each in row["reference"]]} if speaks_1() else row


@router.delete("/agents/{agent_id}/sessions/{session_id}")
async def delete_session(agent_id: str, session_id: str, request: Request, caller: Authenticated) -> Literal[True, 1]:
    """Delete a session. Return the number of deleted sessions; for clients of 1.0, true."""
    session = await load_session(request, await _load_agent(request, caller, agent_id), session_id)
    if problem := await _delete_one(request, caller, agent_id, session.id):
        raise RequestError(problem)
    return True if speaks_1() else 1


@router.delete("/agents/{agent_id}/sessions")
async def delete_sessions(agent_id: str, body: SessionIds, request: Request, caller: Authenticated) -> Response:
    """Delete sessions by id, or all sessions with ``delete_all``. Both may be in the query instead."""
    await _load_agent(request, caller, agent_id)
    given = body.ids or request.query_params.getlist("ids")
    ids = _split_ids(given)
    if not ids and (body.delete_all or parse_flag(request.query_params.get("delete_all"))):
        ids = await SessionRepository(get_app_state(request).database, caller.tenant).ids(agent_id)
    elif given and not ids:
        raise RequestError("`ids` must be a list of ids.", 101)
    elif len(ids) > MAX_PAGE_SIZE:
        raise RequestError(f"At most {MAX_PAGE_SIZE} sessions can be deleted at once.", 101)
    unique_ids = list(dict.fromkeys(ids))
    errors = [f"Duplicate session ids: {id_}" for id_ in unique_ids if ids.count(id_) > 1]
    failed = [problem for id_ in unique_ids if (problem := await _delete_one(request, caller, agent_id, id_))]
    if failed and len(failed) == len(unique_ids):
        raise RequestError("; ".join([*failed, *errors]))
    if problems := [*failed, *errors]:
        count = len(unique_ids) - len(failed)
        message = f"Partially deleted {count} sessions with {len(problems)} errors"
        return respond({"success_count": count, "errors": problems}, message=message)
    return respond_plain()


async def _load_agent(request: Request, caller: ApiCaller, agent_id: str) -> AgentRow:
    try:
        return await load_agent(request, caller, agent_id)
    except RequestError:
        if not caller.is_old:
            raise
        raise RequestError("Agent not found.", status=404) from None


async def _fits_response(request: Request, agent: AgentRow, version_ids: Sequence[str]) -> bool:
    agents = AgentRepository(get_app_state(request).database, agent.tenant)
    sizes = await agents.canvas_sizes(sorted({*version_ids, agent.version_id}))
    draft = sizes.get(agent.version_id, 0)
    return sum(sizes.get(id_, draft) for id_ in version_ids) <= MAX_CANVAS_CHARS


async def _load_canvases(request: Request, agent: AgentRow, version_ids: Sequence[str]) -> dict[str, Any]:
    """Load canvases by version id; the draft's canvas replaces the canvases of deleted versions."""
    agents = AgentRepository(get_app_state(request).database, agent.tenant)
    versions = await agents.versions(sorted({*version_ids, agent.version_id}))
    return {id_: version.canvas for id_, version in versions.items()}


async def _delete_one(request: Request, caller: ApiCaller, agent_id: str, session_id: str) -> str:
    """Delete a session. Return the reason if that fails, else ``""``."""
    app_state = get_app_state(request)
    session = await SessionRepository(app_state.database, caller.tenant).get(session_id)
    if session is None or session.agent_id != agent_id:
        return f"The agent doesn't own the session {session_id}"
    try:
        await retention.delete_session(app_state, caller.tenant, agent_id, session_id)
    except ConflictError as error:
        return f"The session {session_id} has a run in progress: {error}"
    return ""


def _split_ids(value: Any) -> list[str]:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [part for value in values if isinstance(value, str) for part in value.split(",") if part]


def _parse_date_ms(text: str) -> int:
    """Parse a date or a time, in UTC if it has no time zone. Invalid text is treated as missing."""
    try:
        date = datetime.fromisoformat(text.strip())
        return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def build_row(session: SessionRow, messages: Sequence[MessageRow], version_title: str, canvas: Any) -> dict[str, Any]:
    """Build RAGFlow's row of a session."""
    shown = [_build_message(message) for message in messages]
    has_failed = session.errors and session.errors != CANCELLED_TEXT
    if has_failed and messages and messages[-1].role == "assistant" and not messages[-1].content:
        shown[-1]["content"] = f"**ERROR**: {session.errors}"  # as its client received it
    row: dict[str, Any] = {
        "id": session.id,
        "name": session.name,
        "dialog_id": session.agent_id,
        "user_id": session.user_id,
        "exp_user_id": session.exp_user_id,
        "message": shown,
        "reference": [read_reference(message.reference) for message in messages[1:] if message.role == "assistant"],
        "tokens": session.tokens or 0,
        "source": session.source,
        "duration": session.duration_s or 0.0,
        "round": session.rounds or 0,
        "thumb_up": 0,
        "errors": session.errors or "",
        "version_title": version_title,
        **format_times(session.create_ms, session.update_ms),
    }
    return row if canvas is None else {**row, "dsl": canvas}


def _build_item(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as in lists: with ``agent_id``, and with the cited chunks at their messages."""
    references = iter(cast("list[Reference]", row["reference"]))
    messages = [
        {**message, "reference": list_chunks(next(references))}
        if number and message["role"] == "assistant"
        else message
        for number, message in enumerate(cast("list[dict[str, Any]]", row["message"]))
    ]
    fields = {name: value for name, value in row.items() if name not in ("dialog_id", "reference")}
    return {**fields, "message": messages, "agent_id": row["dialog_id"]}


def _build_message(message: MessageRow) -> dict[str, Any]:
    fields = {"role": message.role, "content": message.content}
    created_at = message.create_ms // 1000 if speaks_1() else message.create_ms / 1000
    return {**fields, "id": message.run_id, "created_at": created_at} if message.run_id else fields


def _adapt_row(row: dict[str, Any], caller: ApiCaller) -> dict[str, Any]:
    """Add the messages under the name that older clients expect."""
    return {**row, "messages": row["message"]} if caller.is_old else row
