"""The agents and sessions that requests name, and the turns that they begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from typing_extensions import Unpack

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.runs.graph_input import unknown_inputs
from ragflow_lg.runs.pauses import is_question_field
from ragflow_lg.server.agents.agent_versions import DRAFT, find_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import NO_SESSION, SessionRepository, TurnRows, read_turn_rows
from ragflow_lg.server.database.tables import AgentRow, SessionRow
from ragflow_lg.server.http.shared.auth import ApiCaller, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.ragflow_routes import Fields, Flag, Text
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.turn_session import SessionFields, TurnSession

if TYPE_CHECKING:
    from starlette.responses import Response

    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.database.tables import VersionRow


NO_ACCESS = "Make sure you have permission to access the agent."
NO_OWNER = "Only the owner of the agent is authorized for this operation."
NO_ACCESS_BEFORE = "Only owner of canvas authorized for this operation."
"""RAGFlow's text up to 0.25.1. Clients of 0.25.1 to 0.25.6 have keys of one kind, so they get both texts."""


async def load_agent(request: Request, caller: ApiCaller, agent_id: str, *, is_owned: bool = False) -> AgentRow:
    """Load one of the caller's agents; those of other tenants look like missing ones.

    ``is_owned`` selects RAGFlow's message for operations of owners.
    """
    agent = await AgentRepository(get_app_state(request).database, caller.tenant).get(agent_id)
    if agent is None or not caller.opens(agent.id):
        raise _refuse_agent(caller, agent_id, NO_OWNER if is_owned else NO_ACCESS)
    return agent


async def load_turn_rows(request: Request, caller: ApiCaller, agent_id: str, session_id: str) -> TurnRows:
    """Load one of the caller's agents together with what a turn in the session, or in a new one, needs."""
    rows = await read_turn_rows(get_app_state(request).database, caller.tenant, agent_id, session_id)
    if rows is None or not caller.opens(rows.agent.id):
        raise _refuse_agent(caller, agent_id, NO_ACCESS)
    return rows


def _refuse_agent(caller: ApiCaller, agent_id: str, message: str) -> RequestError:
    audit("agent.refused", agent=agent_id)
    if caller.is_old:
        message = NO_ACCESS_BEFORE
    elif caller.has_long_pages:
        message = f"{NO_ACCESS_BEFORE} {message}"
    return RequestError(message, 103, status=404, data=False, has_data=True)


async def load_session(request: Request, agent: AgentRow, session_id: str, *, foreign: str = "") -> SessionRow:
    """Load one of an agent's sessions.

    ``foreign`` is the message for the session of another agent of the same tenant. Without it, such a session counts as
    missing.
    """
    session = await SessionRepository(get_app_state(request).database, agent.tenant).get(session_id)
    return require_session(agent, session, foreign=foreign)


def require_session(agent: AgentRow, session: SessionRow | None, *, foreign: str = "") -> SessionRow:
    """Return a session if it belongs to the agent; see `load_session`."""
    if session is not None and session.agent_id == agent.id:
        return session
    if session is not None and foreign:
        raise RequestError(foreign, 103, status=404, data=False, has_data=True)
    raise RequestError(NO_SESSION, status=404)


def require_own(caller: ApiCaller, session: SessionRow) -> SessionRow:
    """Return a session if the caller may use it. For visitors of embedded pages, only their own sessions exist."""
    if caller.reaches(session):
        return session
    audit("session.refused", session=session.id)
    raise RequestError(NO_SESSION, status=404)


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

    begins_turn = True

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
    """Return the session that a request names, else one that it continues (``find_continued``), else a new one.

    ``version`` and ``fields`` are those of a new session; see `find_version`. ``foreign`` is as in `load_session`;
    ``rows`` are what has been read with the agent.
    """
    if session_id and rows is not None:
        session = require_session(agent, rows.session, foreign=foreign)
        await follow_canvas(request, agent, rows.version or session.version_id)
        return TurnSession(session, rows.version, rows.newest_run)
    if session_id:
        session = await load_session(request, agent, session_id, foreign=foreign)
        await follow_canvas(request, agent, session.version_id)
        return TurnSession(session)
    draft = rows.version if rows is not None and version == DRAFT else None
    row = draft or await find_version(get_app_state(request).database, agent, version)
    await follow_canvas(request, agent, row)
    if speaks_1() and fields["source"] == "workflow":
        fields["source"] = "agent"
    if find_continued is not None and (session := await find_continued(row)) is not None:
        return TurnSession(session)
    return await get_turns(request).new_session(agent, row, **fields)


async def follow_canvas(request: Request, agent: AgentRow, version: VersionRow | str) -> None:
    """Answer as the version of RAGFlow that the canvas of a turn chooses, unless the client has chosen one.

    ``version`` is the canvas, or the id of its version.
    """
    notes, canvases = current_notes(), get_turns(request).canvases
    if notes.has_ragflow:
        return
    row = await canvases.version(agent, version) if isinstance(version, str) else version
    if '"compat"' in row.dsl:  # compiling asks for settings, even if it is cached
        notes.ragflow = (await canvases.compile(row)).plan.compatibility.ragflow or notes.ragflow


HEADER = "X-Ignored-Fields"
MAX_NAMED = 20
"""Maximum number of fields that are named."""
_SHOWN_CHARS = 64


def unread_inputs(plan: Plan, inputs: Any) -> list[str]:
    """Return the names of the inputs that neither Begin nor any form has, and no node reads, as paths."""
    forms = [node.params for node in plan.nodes.values() if node.spec.kind == "interrupt"]
    known = {name for form in forms for name in getattr(form, "inputs", {})}
    names = (name for name in unknown_inputs(plan, as_map(inputs)) if not is_question_field(name))
    return [f"inputs.{name}" for name in names if name not in known]


def name_ignored(response: Response, names: Iterable[str]) -> Response:
    """Name the fields that were ignored in a header of the response. Return the response."""
    shown = [quote(name[:_SHOWN_CHARS], safe=" ") for name in islice(names, MAX_NAMED)]
    if shown:
        response.headers[HEADER] = ", ".join(shown)
    return response
