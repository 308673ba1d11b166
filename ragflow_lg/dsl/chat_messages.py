"""The conversation as plain message maps: what chat pages of LangGraph send, and what they show.

A message is ``{"type": "human" | "ai", "content": text, "id": text}``. It is data, never a message object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.base.values import JsonValue, to_text

__all__ = ["answer_id", "answer_message", "question_message", "parse_question"]

MAX_GIVEN = 10_000
"""Most messages that a request may hold."""

_HUMAN = ("human", "user")


def question_message(text: str, seed: int, position: int) -> dict[str, JsonValue]:
    """Give the message of a user; ``seed`` is the turn's, ``position`` the place in the history."""
    return {"type": "human", "content": text, "id": f"question-{seed:x}-{position}"}


def answer_id(seed: int, number: int) -> str:
    """Give the id of the message with which a turn ends; ``seed`` and ``number`` are the turn's."""
    return f"answer-{seed:x}-{number}"


def answer_message(text: str, seed: int, number: int) -> dict[str, JsonValue]:
    """Give the message with which a turn ends; ``seed`` and ``number`` are the turn's."""
    return {"type": "ai", "content": text, "id": answer_id(seed, number)}


def parse_question(messages: Any) -> dict[str, JsonValue]:
    """Give the last message of a request, which has to be the user's; those before it are the session's already.

    Message maps of LangChain (``type``) and OpenAI (``role``) are read, with a text or a list of text parts, and a text
    alone.

    Raises:
        InputRefusedError: if there is none, or it is no text.
    """
    if isinstance(messages, Mapping | str):
        messages = [messages]
    if not isinstance(messages, Sequence) or not messages or len(cast("Sequence[Any]", messages)) > MAX_GIVEN:
        raise InputRefusedError(f'"messages" should be 1 to {MAX_GIVEN:,} messages, the last one of the user.')
    held = _as_map(cast("Sequence[Any]", messages)[-1])
    kind = held.get("type") if held.get("type") not in (None, "message") else held.get("role")
    if kind not in _HUMAN:
        wanted = 'of the user (type "human" or role "user")'
        raise InputRefusedError(f'The last of "messages" should be {wanted}, not {kind!r:.40}.')
    message: dict[str, JsonValue] = {"type": "human", "content": _text_of(held.get("content"))}
    if held.get("id"):
        message["id"] = to_text(held["id"])
    return message


def _as_map(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message)
    if isinstance(message, str):
        return {"type": "human", "content": message}
    if isinstance(message, list | tuple):
        role, content, *_ = (*cast("Sequence[Any]", message), None, None)
        return {"role": role, "content": content}
    return {key: getattr(message, key, None) for key in ("type", "content", "id")}  # a message object of LangChain


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else _part_text(part) for part in parts]
    if any(text is None for text in texts) or not texts:
        reason = 'A message should hold text, or parts of type "text"; send pictures and files as "files".'
        raise InputRefusedError(reason)
    return "\n".join(text for text in texts if text is not None)


def _part_text(part: Any) -> str | None:
    held: Mapping[str, Any] = cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}
    text: Any = held.get("text")
    return text if held.get("type") == "text" and isinstance(text, str) else None
