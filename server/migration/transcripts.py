"""The file of a pulled session, and what a thread begins with: history, messages and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteMessage, RemoteSession
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import to_json, to_text
from ragflow_lg.dsl.chat_messages import answer_message, question_message

Transcript = list[tuple[str, str]]
"""Pairs of role and text."""


def write_session(session: RemoteSession) -> bytes:
    """Return the file of a session: JSON.

    Raises:
        ServiceError: if it is nested too deeply.
    """
    try:
        return msgspec.json.format(msgspec.json.encode(session), indent=1) + b"\n"
    except RecursionError:
        raise ServiceError("The session is nested too deeply.") from None


def read_session_file(content: bytes, name: str) -> RemoteSession:
    """Return the session in a file.

    Raises:
        SettingsError: if the file is not one.
    """
    try:
        return msgspec.json.decode(content, type=RemoteSession)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name} is damaged: {error}. Delete it and pull again.") from None


def transcript_of(messages: Sequence[RemoteMessage]) -> Transcript:
    """Return the messages of a session as pairs."""
    return [(message.role, message.content) for message in messages]


def is_behind(here: Transcript, there: Transcript) -> bool:
    """Return whether a conversation has only gone on there.

    >>> is_behind([("user", "a")], [("user", "a"), ("assistant", "b")])
    True
    >>> is_behind([("user", "a"), ("user", "c")], [("user", "a"), ("assistant", "b"), ("user", "d")])
    False
    """
    return len(here) < len(there) and there[: len(here)] == here


def thread_messages(transcript: Transcript, seed: int) -> list[dict[str, Any]]:
    """Return a transcript as the messages of a thread."""
    messages: list[dict[str, Any]] = []
    for position, (role, text) in enumerate(transcript):
        is_question = role == "user"
        messages.append(question_message(text, seed, position) if is_question else answer_message(text, seed, position))
    return messages


def transcript_of_thread(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Return the messages of a thread as pairs."""
    return [
        ("user" if message["type"] == "human" else "assistant", to_text(message["content"])) for message in messages
    ]


def build_history(session: RemoteSession) -> list[list[Any]]:
    """Return the history of a thread: RAGFlow's own, or else the messages after the opening words."""
    if session.state.history:
        return [[role, _payload(role, to_json(value))] for role, value in session.state.history]
    messages = session.messages
    first = 1 if messages and messages[0].role == "assistant" else 0
    return [[message.role, _payload(message.role, message.content)] for message in messages[first:]]


def _payload(role: str, value: Any) -> Any:
    """Return an entry's value as this engine stores it: a question, or the outputs of the last component."""
    return cast("Any", value) if role == "user" or isinstance(value, Mapping) else {"content": to_text(value)}


def build_globals(
    session: RemoteSession, defaults: Mapping[str, Any], history: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """Return the variables of a thread: those of the canvas, with the session's own values."""
    own = {key: to_json(value) for key, value in session.state.globals.items() if key.startswith(("sys.", "env."))}
    values: dict[str, Any] = {**defaults, **own}
    turns = sum(role == "user" for role, _ in history)
    if not isinstance(values.get("sys.conversation_turns"), int) or not values["sys.conversation_turns"]:
        values["sys.conversation_turns"] = turns
    lines = values.get("sys.history")
    if not isinstance(lines, list) or not lines:
        values["sys.history"] = [f"{role}: {_line(value)}" for role, value in history]
    values.setdefault("sys.user_id", session.user_id)
    return values


def _line(value: Any) -> str:
    return to_text(cast("Mapping[str, Any]", value).get("content", value) if isinstance(value, Mapping) else value)
