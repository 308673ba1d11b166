"""The conversation as plain message maps, in the format that LangGraph chat UIs send and show.

A message is ``{"type": "human" | "ai", "content": text, "id": text}``: always plain data, never a message object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.base.values import JsonValue, to_text

MAX_MESSAGES = 10_000
"""Maximum number of messages in a request."""

_HUMAN = ("human", "user")


def question_message(text: str, seed: int, position: int) -> dict[str, JsonValue]:
    """Return the user's message, given the turn's ``seed`` and the ``position`` in the history."""
    return {"type": "human", "content": text, "id": question_id(seed, position)}


def question_id(seed: int, position: int) -> str:
    """Return the id of the user's message, given the turn's ``seed`` and the ``position`` in the history."""
    return f"question-{seed:x}-{position}"


def answer_id(seed: int, number: int) -> str:
    """Return the id of a turn's last message, given the turn's ``seed`` and ``number``."""
    return f"answer-{seed:x}-{number}"


def answer_message(text: str, seed: int, number: int) -> dict[str, JsonValue]:
    """Return a turn's last message, given the turn's ``seed`` and ``number``."""
    return {"type": "ai", "content": text, "id": answer_id(seed, number)}


def parse_question(messages: Any) -> dict[str, JsonValue]:
    """Return the last message in a request, which must be a user message.

    Earlier messages are ignored, because the session already contains them. Accepts LangChain (``type``) and OpenAI
    (``role``) message maps, with text or a list of text parts, and plain text.

    Raises:
        InputRefusedError: if there is no user message, or it is not text.
    """
    if isinstance(messages, Mapping | str):
        messages = [messages]
    if not isinstance(messages, Sequence) or not messages or len(cast("Sequence[Any]", messages)) > MAX_MESSAGES:
        raise InputRefusedError(f'"messages" should contain 1 to {MAX_MESSAGES:,} messages, the last from the user.')
    last = _as_map(cast("Sequence[Any]", messages)[-1])
    kind = last.get("type") if last.get("type") not in (None, "message") else last.get("role")
    if kind not in _HUMAN:
        expected = 'a user message (type "human" or role "user")'
        raise InputRefusedError(f'The last of "messages" should be {expected}, not {kind!r:.40}.')
    message: dict[str, JsonValue] = {"type": "human", "content": _text_of(last.get("content"))}
    if last.get("id"):
        message["id"] = to_text(last["id"])
    return message


def _as_map(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message)
    if isinstance(message, str):
        return {"type": "human", "content": message}
    if isinstance(message, list | tuple):
        role, content, *_ = (*cast("Sequence[Any]", message), None, None)
        return {"role": role, "content": content}
    return {key: getattr(message, key, None) for key in ("type", "content", "id")}  # a LangChain message object


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else _part_text(part) for part in parts]
    if any(text is None for text in texts) or not texts:
        reason = 'A message should contain text, or parts of type "text"; send images and files as "files".'
        raise InputRefusedError(reason)
    return "\n".join(text for text in texts if text is not None)


def _part_text(part: Any) -> str | None:
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}
    text: Any = fields.get("text")
    return text if fields.get("type") == "text" and isinstance(text, str) else None


MAX_PRIOR_ENTRIES = 200
"""Maximum number of entries at the start of a session; the newest ones are kept."""


def merge_by_role(messages: Iterable[tuple[str, str]]) -> list[list[str]]:
    r"""Return the newest ``[role, text]`` entries; consecutive messages with the same role become one entry.

    Empty texts and roles other than ``user`` and ``assistant`` are omitted.

    >>> merge_by_role([("system", "Be kind."), ("user", "Hi"), ("user", "there"), ("assistant", "Hello")])
    [['user', 'Hi\nthere'], ['assistant', 'Hello']]
    """
    entries: list[tuple[str, list[str]]] = []
    for role, text in messages:
        if role not in ("user", "assistant") or not text.strip():
            continue
        if entries and entries[-1][0] == role:
            entries[-1][1].append(text)
        else:
            entries.append((role, [text]))
    return [[role, "\n".join(texts)] for role, texts in entries[-MAX_PRIOR_ENTRIES:]]


def prior_history(prior: Sequence[Sequence[str]]) -> list[list[Any]]:
    """Return the ``history`` entries that the first turn of a session adds before its own."""
    return [[role, text if role == "user" else {"content": text}] for role, text in prior]


def history_lines(history: Iterable[Sequence[Any]]) -> list[str]:
    """Return history entries as lines for ``sys.history``."""
    return [f"{role}: {_text(payload)}" for role, payload in history]


def prior_messages(history: Iterable[Sequence[Any]], seed: int) -> list[dict[str, JsonValue]]:
    """Return history entries as messages; ``seed`` is the seed of the turn."""
    messages: list[dict[str, JsonValue]] = []
    questions = 0
    for position, (role, payload) in enumerate(history):
        if role == "user":
            questions += 1
            messages.append(question_message(_text(payload), seed, position))
        else:
            messages.append(answer_message(_text(payload), seed, questions))
    return messages


def _text(payload: Any) -> str:
    return to_text(cast("Mapping[str, Any]", payload)["content"] if isinstance(payload, Mapping) else payload)
