"""Messages from before a session's first turn. Some clients keep the conversation and send it with each request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.dsl.chat_messages import answer_message, question_message

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
