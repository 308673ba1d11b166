"""Typed names for ids, and the conversion between session ids and thread ids."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import NewType

NodeId = NewType("NodeId", str)
"""A component id exactly as it appears in the canvas, for example ``Agent:ThreeWolves``."""

SessionId = NewType("SessionId", str)
"""A conversation id in RAGFlow's API: 32 hexadecimal digits, or any text that a client has chosen."""

ThreadId = NewType("ThreadId", str)
"""The id of the same conversation in LangGraph: a UUID with dashes."""

RunId = NewType("RunId", str)
"""The id of one turn: 32 hexadecimal digits. RAGFlow's API calls it ``message_id``."""

_HEX32 = re.compile(r"[0-9a-fA-F]{32}")
_NAMESPACE = uuid.UUID("6f0a0f7e-54a4-5d1c-9d5e-6a1f2b7c3d90")


@lru_cache(maxsize=1024)
def thread_of_session(session: SessionId | str) -> ThreadId:
    """Return the thread id for a session id.

    Dashes are added to a 32-digit id, a UUID with dashes is unchanged, and any other text is mapped to a stable version
    5 UUID.
    """
    if _HEX32.fullmatch(session):
        return ThreadId(str(uuid.UUID(session)))
    try:
        return ThreadId(str(uuid.UUID(session))) if "-" in session else _thread_of_name(session)
    except ValueError:
        return _thread_of_name(session)


@lru_cache(maxsize=1024)
def session_of_thread(thread: ThreadId | str) -> SessionId:
    """Return the 32-digit session id that RAGFlow's API shows for a thread."""
    try:
        return SessionId(uuid.UUID(thread).hex)
    except ValueError:
        return SessionId(uuid.uuid5(_NAMESPACE, thread).hex)


def _thread_of_name(session: str) -> ThreadId:
    # Lone surrogates, which shells produce for undecodable bytes, cannot be encoded.
    return ThreadId(str(uuid.uuid5(_NAMESPACE, session.encode("utf-8", "backslashreplace").decode())))
