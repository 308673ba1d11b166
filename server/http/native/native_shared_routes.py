"""Routes for links to sessions: make, revoke, and read with one, which is all that anybody with a link can do."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository, find_shared_session
from ragflow_lg.server.database.turn_writer import read_chunks
from ragflow_lg.server.http.native.native_routing import Agent, Control, make_agent_router, make_native_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import MessageRow, SessionRow

router = make_agent_router("sessions")
shared_router = make_native_router("shared sessions")

TOKEN_BYTES = 24
_TOKEN = re.compile(r"share-[A-Za-z0-9_-]{32}")


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
    content: str
    reference: Annotated[list[SharedSource], Field(description="Names of the sources, without their texts.")]
    create_ms: int


class SharedSession(BaseModel):
    """A session as others read it: no ids, thinking, calls, values and files."""

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
    session = await find_shared(app_state, token)
    agent = await AgentRepository(app_state.database, session.tenant).get(session.agent_id) if session else None
    if session is None or agent is None:
        raise RequestError("There is no such link, or it has been revoked.", status=404)
    messages = await SessionRepository(app_state.database, session.tenant).messages([session.id])
    return SharedSession(
        title=agent.title, name=session.name or "", messages=[_build_message(row) for row in messages[session.id]]
    )


async def find_shared(app_state: AppState, token: str) -> SessionRow | None:
    """Return the session that a token opens, or None."""
    if not app_state.settings.server.shared_links or not _TOKEN.fullmatch(token):
        return None
    return await find_shared_session(app_state.database, _digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _build_message(row: MessageRow) -> SharedMessage:
    sources = [
        SharedSource(citation_id=str(chunk["citation_id"]), document_name=str(chunk.get("document_name") or ""))
        for chunk in read_chunks(row.reference)
    ]
    content = split_thoughts(row.content)[1] if row.role == "assistant" else row.content
    return SharedMessage(role=row.role, content=content, reference=sources, create_ms=row.create_ms)
