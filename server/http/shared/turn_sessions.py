"""The sessions of the turns that requests begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from typing_extensions import Unpack

from ragflow_lg.server.agents.agent_versions import DRAFT, find_version
from ragflow_lg.server.http.shared.auth import get_app_state, get_turns
from ragflow_lg.server.http.shared.row_loading import load_session, require_session
from ragflow_lg.server.runs.turn_session import SessionFields, TurnSession

if TYPE_CHECKING:
    from starlette.requests import Request

    from ragflow_lg.server.database.tables import AgentRow, SessionRow, VersionRow
    from ragflow_lg.server.database.turn_rows import TurnRows


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
