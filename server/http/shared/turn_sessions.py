"""The turns that requests begin: the fields that all of them have, and their sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BeforeValidator, Field
from typing_extensions import Unpack

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import DRAFT, find_version
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.route_schemas import Fields, Flag, Text
from ragflow_lg.server.http.shared.row_loading import load_session, require_session
from ragflow_lg.server.runs.turn_session import SessionFields, TurnSession

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow
    from ragflow_lg.server.database.turn_rows import TurnRows
    from ragflow_lg.server.http.shared.auth import ApiCaller


def _read_inputs(value: Any) -> Any:
    if value and not isinstance(value, dict):
        raise RequestError("`inputs` must be an object of fields.", 101)
    return cast("Any", value or {})


def _read_files(value: Any) -> Any:
    if value and not isinstance(value, list):
        raise RequestError("`files` must be a list of uploads.", 101)
    files = cast("list[Any]", value or [])
    first: Any = files[0] if files else None
    return cast("Any", first) if isinstance(first, list) else files


class QuestionFields(Fields):
    """Fields that every turn has."""

    inputs: Annotated[
        dict[str, Any],
        BeforeValidator(_read_inputs),
        Field(description="Values of Begin's form or of open forms, by field.", examples=[{"size": {"value": 42}}]),
    ] = Field(default={})
    files: Annotated[
        list[Any],
        BeforeValidator(_read_files),
        Field(description="Files, as the upload route returned them; they may be nested in a second list."),
    ] = Field(default=[])
    session_id: Annotated[Text, Field(description="Session to continue. Default: a new session.")] = ""
    user_id: Annotated[Text, Field(description="Id of the user; used for a new session only.")] = ""
    stream: Annotated[Flag, Field(description="Whether to stream the events.")] = False
    release: Annotated[
        Flag, Field(description="Whether a new session uses the published version instead of the draft.")
    ] = False
    chat_template_kwargs: Annotated[Any, Field(description="Passed to models that accept it.")] = None


def build_turn_request(
    caller: ApiCaller, session: SessionRow, query: str | dict[str, Any], body: QuestionFields
) -> TurnRequest:
    """Build a turn request. Its query is a string, or an object that maps field names to values."""
    request: TurnRequest = {"query": query, "user_id": session.user_id or caller.tenant}
    if body.inputs:
        request["inputs"] = body.inputs
    if body.files:
        request["files"] = body.files
    if body.chat_template_kwargs:
        request["chat_template_kwargs"] = body.chat_template_kwargs
    return request


async def open_turn_session(
    request: Request,
    agent: AgentRow,
    session_id: str,
    version: str,
    *,
    foreign: str = "",
    rows: TurnRows | None = None,
    find_continued: Callable[[VersionRow], Awaitable[SessionRow | None]] | None = None,
    **fields: Unpack[SessionFields],
) -> TurnSession:
    """Return the session that a request names, else one that it continues, else a new one.

    Args:
        request: The request.
        agent: Its agent.
        session_id: The session that it names, or ``""``.
        version: The version of a new session; see `find_version`.
        foreign: See `load_session`.
        rows: What has been read with the agent.
        find_continued: Finds a session that the request continues without its name.
        fields: What it says about a new session.

    Raises:
        RequestError: if there is no such session or version.
    """
    if session_id and rows is not None:
        return TurnSession(require_session(agent, rows.session, foreign=foreign), rows.version, rows.newest_run)
    if session_id:
        return TurnSession(await load_session(request, agent, session_id, foreign=foreign))
    draft = rows.version if rows is not None and version == DRAFT else None
    row = draft or await find_version(get_app_state(request).database, agent, version)
    if find_continued is not None and (session := await find_continued(row)) is not None:
        return TurnSession(session)
    return await get_turns(request).new_session(agent, row, **fields)
