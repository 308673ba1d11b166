"""Stores pulled agents and sessions in the server's database, under the ids that clients know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import build_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.stored_reference import write_reference
from ragflow_lg.server.database.tables import ID_CHARS, TITLE_CHARS, AgentRow, MessageRow, SessionRow
from ragflow_lg.server.migration.transcripts import is_behind, transcript_of

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteSession
    from ragflow_lg.server.database.database import Database

TENANT = "default"
"""The tenant of the first API key of a new server."""


class MovingAgent(NamedTuple):
    """An agent to store: its file as an object, and the published versions by id, each with its title and time."""

    document: Mapping[str, Any]
    hash: str
    previous_hash: str
    """The hash of the file at the pull before, or ``""``."""
    versions: Sequence[tuple[str, str, int, Mapping[str, Any]]]


def draft_id(agent_id: str, hash_: str) -> str:
    """Return the id of an imported draft, by which an edited one is recognized."""
    return sha256(f"{agent_id}:{hash_}".encode()).hexdigest()[:ID_CHARS]


async def store_agent(database: Database, moving: MovingAgent, now_ms: int) -> str:
    """Store an agent with its versions, or update it. Return why it was not, or ``""``.

    An agent whose draft has been edited on this server is left alone.

    Raises:
        DatabaseError: if the database fails.
    """
    document, agents = moving.document, AgentRepository(database, TENANT)
    id_ = str(document.get("id", ""))
    if len(id_) > ID_CHARS:
        return f"its id has more than {ID_CHARS} characters"
    title = str(document.get("title", ""))[:TITLE_CHARS]
    draft = build_version(draft_id(id_, moving.hash), id_, title, _dump(document.get("dsl")), now_ms, is_released=False)
    known = await agents.get(id_)
    if known is None:
        row = AgentRow(id=id_, create_ms=now_ms, update_ms=now_ms, version_id=draft.id)
        row.canvas_category = str(document.get("canvas_category") or "agent_canvas")[:32]
        row.canvas_type = str(document.get("canvas_type", ""))[:64]
        row.description, row.avatar = str(document.get("description", "")), str(document.get("avatar", ""))
        row.title, row.title_key = title, title.casefold()[:TITLE_CHARS]
        try:
            await agents.add(row, draft)
        except RequestError:  # RAGFlow's titles need not be unique
            row.title = f"{title[: TITLE_CHARS - 11]} ({id_[:8]})"
            row.title_key = row.title.casefold()[:TITLE_CHARS]
            await agents.add(row, draft)
    elif known.version_id != draft.id:
        if known.version_id != draft_id(id_, moving.previous_hash):
            return "its draft was edited on this server, and is kept"
        if await agents.version(id_, draft.id) is None:
            await agents.change(id_, {"update_ms": now_ms}, draft)
        else:  # the file is as it was before another change
            await agents.change(id_, {"update_ms": now_ms, "version_id": draft.id}, None)
    for version_id, version_title, update_ms, dsl in moving.versions:
        if len(version_id) <= ID_CHARS and await agents.version(id_, version_id) is None:
            time = update_ms or now_ms
            row = build_version(version_id, id_, version_title, _dump(dsl), time, is_released=True)
            await agents.add_version(row)
    return ""


async def store_session(database: Database, session: RemoteSession, version_id: str) -> bool:
    """Store a session with its messages and their sources, or what it has gone on there.

    Return False if it is here already, or its id is too long.

    Raises:
        DatabaseError: if the database fails.
    """
    sessions = SessionRepository(database, TENANT)
    if len(session.id) > ID_CHARS:
        return False
    if (known := await sessions.get(session.id)) is not None:
        rows = (await sessions.messages([session.id]))[session.id]
        if not is_behind([(row.role, row.content) for row in rows], transcript_of(session.messages)):
            return False
        await sessions.delete(known.agent_id, session.id)
    row = SessionRow(
        id=session.id,
        agent_id=session.agent_id,
        version_id=version_id,
        user_id=session.user_id,
        exp_user_id=session.exp_user_id,
        name=session.name,
        source=session.source if session.source in ("agent", "workflow") else "agent",
        tokens=session.tokens,
        rounds=min(session.round, 2**31 - 1),
        errors=session.errors,
        create_ms=session.create_ms,
        update_ms=session.update_ms,
    )
    messages: list[MessageRow] = []
    for number, message in enumerate(session.messages):
        stored = MessageRow(session_id=session.id, number=number, role=message.role, content=message.content)
        stored.run_id = message.id if len(message.id) <= ID_CHARS else ""
        stored.reference = write_reference({"chunks": message.chunks, "doc_aggs": message.documents})
        stored.create_ms = int(message.created_at * 1000) or session.create_ms
        messages.append(stored)
    await sessions.add(row, messages)
    return True


def _dump(dsl: Any) -> str:
    return json.dumps(dsl, ensure_ascii=False)
