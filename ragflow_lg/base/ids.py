"""Typed names for ids, and the conversion between session ids and thread ids."""

from __future__ import annotations

import re
import uuid
from typing import NewType

NodeId = NewType("NodeId", str)
"""Id of a component exactly as the canvas writes it, for example ``Agent:ThreeWolves``."""

SessionId = NewType("SessionId", str)
"""Id of a conversation in RAGFlow's API: 32 hexadecimal digits, or any text a client chose."""

ThreadId = NewType("ThreadId", str)
"""Id of the same conversation in LangGraph: a UUID with dashes."""

RunId = NewType("RunId", str)
"""Id of one turn, 32 hexadecimal digits; RAGFlow's API calls it ``message_id``."""

_HEX32 = re.compile(r"[0-9a-fA-F]{32}")
_NAMESPACE = uuid.UUID("6f0a0f7e-54a4-5d1c-9d5e-6a1f2b7c3d90")


def thread_of_session(session: SessionId | str) -> ThreadId:
    """Return the thread of a session.

    A 32-digit id keeps its digits and gains dashes; a dashed UUID stays unchanged; any other text maps to a
    stable UUID version 5.
    """
    if _HEX32.fullmatch(session):
        return ThreadId(str(uuid.UUID(session)))
    try:
        return ThreadId(str(uuid.UUID(session))) if "-" in session else _thread_of_name(session)
    except ValueError:
        return _thread_of_name(session)


def session_of_thread(thread: ThreadId | str) -> SessionId:
    """Return the 32-digit session id that RAGFlow's API shows for a thread."""
    try:
        return SessionId(uuid.UUID(thread).hex)
    except ValueError:
        return SessionId(uuid.uuid5(_NAMESPACE, thread).hex)


def _thread_of_name(session: str) -> ThreadId:
    # A lone surrogate, which a shell produces for undecodable bytes, cannot be encoded.
    return ThreadId(str(uuid.uuid5(_NAMESPACE, session.encode("utf-8", "backslashreplace").decode())))
