"""Routes for links to sessions: make, revoke, and read with one, which is all that anybody with a link can do."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import DatabaseError, RequestError
from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository, find_shared_session
from ragflow_lg.server.database.turn_writer import read_chunks
from ragflow_lg.server.http.native.native_routing import Agent, Control, make_agent_router, make_native_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.runs.run_control import BRANCH
from ragflow_lg.server.runs.turn_session import NAME_CHARS

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import MessageRow, SessionRow

router = make_agent_router("sessions")
shared_router = make_native_router("shared sessions")

TOKEN_BYTES = 24
_TOKEN = re.compile(r"share-[A-Za-z0-9_-]{32}")
_LINE = re.compile(r"[^\n:]{1,255}: ")
"""How the text of a form begins: the label of a field, and its value."""

logger = logging.getLogger(__name__)


class LinkAnswer(BaseModel):
    """A link to a session."""

    url: Annotated[
        str, Field(description="Its place on this server, which is not shown again.", examples=["/shared/share-Zq3…"])
    ]


class SharedSource(BaseModel):
    """A source that an answer cites."""

    citation_id: Annotated[str, Field(description="Its number in the text: `[ID:0]`.")]
    document_name: str


class SharedMessage(BaseModel):
    """A message as others read it."""

    role: Annotated[str, Field(examples=["user", "assistant"])]
    content: Annotated[str, Field(description="Its text; empty if it is the answer to a form.")]
    is_form: Annotated[bool, Field(description="Whether it is the answer to a form, whose values are left out.")]
    status: Annotated[
        Literal["failed", "cancelled", ""], Field(description="How the answer has ended, if it is not complete.")
    ]
    reference: Annotated[list[SharedSource], Field(description="Names of the sources, without their texts.")]
    create_ms: int


class SharedSession(BaseModel):
    """A session as others read it: no ids, thinking, calls, values, answers to forms and files."""

    title: Annotated[str, Field(description="Title of the agent.")]
    name: Annotated[str, Field(description="Name of the session.")]
    messages: list[SharedMessage]


@router.post(
    "/sessions/{session_id}/share", status_code=201, responses=describe_problems(403), summary="Share a session"
)
async def share_session(session_id: str, request: Request, agent: Agent, control: Control) -> LinkAnswer:
    """Make a link with which anybody reads the messages of a session, also later ones. It replaces an earlier link."""
    app_state = get_app_state(request)
    if not app_state.settings.server.shared_links:
        raise RequestError("This server has no links to sessions: see `[server] shared_links`.", status=403)
    session = await control.session(session_id)
    token = f"share-{secrets.token_urlsafe(TOKEN_BYTES)}"
    await SessionRepository(app_state.database, agent.tenant).set(session.id, share_digest=_digest(token))
    audit("session.shared", agent=agent.id, session=session.id)
    return LinkAnswer(url=f"/shared/{token}")


@router.delete("/sessions/{session_id}/share", summary="Revoke a link")
async def revoke_link(session_id: str, request: Request, agent: Agent, control: Control) -> None:
    """Revoke the link to a session, if there is one."""
    session = await control.session(session_id)
    await SessionRepository(get_app_state(request).database, agent.tenant).set(session.id, share_digest=None)
    audit("session.unshared", agent=agent.id, session=session.id)


@shared_router.get("/shared/{token}", summary="Read a shared session")
async def read_shared_session(token: str, request: Request) -> SharedSession:
    """Return the messages of the session that a link names. No key is needed."""
    app_state = get_app_state(request)
    try:
        session = await find_shared(app_state, token)
        shared = await _read(app_state.database, session) if session is not None else None
    except DatabaseError as error:
        logger.error("a shared session cannot be read: %s", error)  # anybody may read the answer
        raise RequestError("Internal server error; see the server log.", status=503) from None
    if shared is None:
        raise RequestError("There is no such link, or it has been revoked.", status=404)
    return shared


async def _read(database: Database, session: SessionRow) -> SharedSession | None:
    agent = await AgentRepository(database, session.tenant).get(session.agent_id)
    if agent is None:
        return None
    rows = (await SessionRepository(database, session.tenant).messages([session.id]))[session.id]
    statuses = await RunRepository(database, session.tenant).statuses({row.run_id for row in rows})
    messages = [_build_message(row, statuses.get(row.run_id, "")) for row in rows]
    for message, following in pairwise(messages):
        if following.role == "assistant":
            message.status = ""  # the answer goes on
    return SharedSession(title=agent.title, name=_name(session.name or "", rows), messages=messages)


def _name(name: str, rows: Sequence[MessageRow]) -> str:
    """Return the name of a session; the first question, if it says where a copy begins, or shows values of a form."""
    forms = [row.content for row in rows if _is_form(row)]
    if not name.startswith(BRANCH) and not any(name and form.startswith(name) for form in forms):
        return name
    questions = (row.content for row in rows if row.role == "user" and not _is_form(row))
    return next(questions, "")[:NAME_CHARS]


async def find_shared(app_state: AppState, token: str) -> SessionRow | None:
    """Return the session that a token opens, or None."""
    if not app_state.settings.server.shared_links or not _TOKEN.fullmatch(token):
        return None
    return await find_shared_session(app_state.database, _digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_form(row: MessageRow) -> bool:
    """Return whether a message is the answer to a form; of older ones, whether it looks so."""
    is_form = bool(_LINE.match(row.content)) if row.is_form is None else row.is_form
    return row.role == "user" and is_form


def _build_message(row: MessageRow, status: str) -> SharedMessage:
    sources = [
        SharedSource(citation_id=str(chunk["citation_id"]), document_name=str(chunk.get("document_name") or ""))
        for chunk in read_chunks(row.reference)
    ]
    is_answer, is_form = row.role == "assistant", _is_form(row)
    content = split_thoughts(row.content)[1] if is_answer else "" if is_form else row.content
    return SharedMessage(
        role=row.role,
        content=content,
        is_form=is_form,
        status=status if is_answer and (status == "failed" or status == "cancelled") else "",
        reference=sources,
        create_ms=row.create_ms,
    )
