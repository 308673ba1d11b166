"""Copies of sessions in the database, for reruns and forks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragflow_lg.server.database.tables import TITLE_CHARS, MessageRow, SessionRow
from ragflow_lg.server.runs.turns import NAME_CHARS

if TYPE_CHECKING:
    from ragflow_lg.server.database.tables import VersionRow


def copy_session(session: SessionRow, id_: str, name: str, version: VersionRow | None, now_ms: int) -> SessionRow:
    """Return a copy of a session under a new id, which may have another name and use another version."""
    return SessionRow(
        id=id_,
        agent_id=session.agent_id,
        version_id=version.id if version is not None else session.version_id,
        user_id=session.user_id,
        exp_user_id=session.exp_user_id,
        name=(name or session.name)[: min(NAME_CHARS, TITLE_CHARS)],
        source="workflow"
        if session.source in ("schedule", "webhook")
        else session.source,  # a copy is used by a person
        create_ms=now_ms,
        update_ms=now_ms,
    )


def copy_messages(messages: Sequence[MessageRow], session_id: str) -> list[MessageRow]:
    """Return copies of messages, numbered from 0, for another session."""
    return [
        MessageRow(
            session_id=session_id,
            number=number,
            role=row.role,
            content=row.content,
            run_id=row.run_id,
            reference=row.reference,
            create_ms=row.create_ms,
        )
        for number, row in enumerate(messages)
    ]


def messages_before(messages: Sequence[MessageRow], users: int, *, is_open: bool) -> list[MessageRow]:
    """Return the messages up to the user's ``users``-th one, without the answer if that turn is still open."""
    rows: list[MessageRow] = []
    for row in messages:
        if row.role == "user":
            if not users:
                break
            users -= 1
        elif is_open and not users and any(one.role == "user" for one in rows):
            break
        rows.append(row)
    return rows
