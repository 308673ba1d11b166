"""Conversations of chat programs, such as Open WebUI and LibreChat.

These programs send all messages with each request and know no sessions. They can name the conversation, so its requests
can continue one session: an open form is answered, and variables keep their values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.dsl.chat_messages import merge_by_role
from ragflow_lg.server.http.shared.request_bodies import to_text

if TYPE_CHECKING:
    from ragflow_lg.server.database.session_repository import SessionRepository
    from ragflow_lg.server.database.tables import SessionRow

_HEADERS = ("x-openwebui-chat-id", "x-conversation-id")
"""Open WebUI sends the first one if it forwards user information. LibreChat's documentation suggests the other one."""
_METADATA = ("session_id", "chat_id", "conversation_id")
_FIELDS = ("chat_id", "conversation_id")
_TASK_HEADER = "x-openwebui-task"
_TASK_PROMPT = "### Task:"
"""The beginning of Open WebUI's prompts for titles, tags and suggestions, which it sends beside a chat."""


def read_conversation(headers: Mapping[str, str], body: Mapping[str, Any], query: str) -> str:
    """Return a key for the conversation that a request belongs to, or ``""``.

    A request for a title or for tags belongs to none: its answer is not part of the chat.
    """
    raw: Any = body.get("metadata")
    metadata: Mapping[str, Any] = cast("Mapping[str, Any]", raw) if isinstance(raw, dict) else {}
    if _value(headers.get(_TASK_HEADER)) or _value(metadata.get("task")) or query.lstrip().startswith(_TASK_PROMPT):
        return ""
    names = (
        *(headers.get(name) for name in _HEADERS),
        *(metadata.get(name) for name in _METADATA),
        *(body.get(name) for name in _FIELDS),
    )
    name = next((value for value in map(_value, names) if value), "")
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest() if name else ""


async def find_session(
    sessions: SessionRepository, candidates: Sequence[SessionRow], earlier: Sequence[Sequence[str]]
) -> SessionRow | None:
    """Return the session, of those of a conversation, with exactly the ``earlier`` messages of the user, or None.

    The name of the conversation alone is not enough: a program may give the temporary chats of all users one name.
    There is none for the first message, and none after the user has changed an earlier message or wants another answer
    to the last one: a session cannot forget a turn.
    """
    if not earlier:
        return None
    messages = await sessions.messages([session.id for session in candidates])
    wanted = _questions(earlier)
    for session in candidates:
        stored = merge_by_role((message.role, message.content) for message in messages[session.id])
        if _questions(stored) == wanted:
            return session
    return None


def _questions(messages: Iterable[Sequence[str]]) -> list[str]:
    return [text.strip() for role, text in messages if role == "user"]


def _value(value: Any) -> str:
    """Return a text, but not a placeholder that the program has not filled in."""
    text = to_text(value).strip()
    return "" if text.startswith("{{") or text in ("new", "null", "undefined") else text
