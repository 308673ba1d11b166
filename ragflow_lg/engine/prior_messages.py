"""What was said before the first turn of a session: some callers keep the conversation, and send it along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.dsl.chat_messages import answer_message, question_message

__all__ = ["MAX_PRIOR_ENTRIES", "prior_history", "history_lines", "prior_messages", "merge_by_role"]

MAX_PRIOR_ENTRIES = 200
"""Most entries that a session begins with; of more the last ones count."""


def merge_by_role(said: Iterable[tuple[str, str]]) -> list[list[str]]:
    r"""Give the last ``[role, text]`` entries of what was said; what a side said in several pieces is one of them.

    Empty texts, and roles other than ``user`` and ``assistant``, are left out.

    >>> merge_by_role([("system", "Be kind."), ("user", "Hi"), ("user", "there"), ("assistant", "Hello")])
    [['user', 'Hi\nthere'], ['assistant', 'Hello']]
    """
    entries: list[tuple[str, list[str]]] = []
    for role, text in said:
        if role not in ("user", "assistant") or not text.strip():
            continue
        if entries and entries[-1][0] == role:
            entries[-1][1].append(text)
        else:
            entries.append((role, [text]))
    return [[role, "\n".join(texts)] for role, texts in entries[-MAX_PRIOR_ENTRIES:]]


def prior_history(state: Mapping[str, Any], earlier: Sequence[Sequence[str]] | None) -> list[list[Any]]:
    """Give the entries of ``history`` that a turn puts before its own; none where the session has a history."""
    if state.get("history") or not earlier:
        return []
    return [[role, text if role == "user" else {"content": text}] for role, text in earlier]


def history_lines(history: Iterable[Sequence[Any]]) -> list[str]:
    """Give such entries as lines of ``sys.history``."""
    return [f"{role}: {_text(payload)}" for role, payload in history]


def prior_messages(history: Iterable[Sequence[Any]], seed: int) -> list[dict[str, JsonValue]]:
    """Give such entries as messages; ``seed`` is that of the turn."""
    messages: list[dict[str, JsonValue]] = []
    asked = 0
    for position, (role, payload) in enumerate(history):
        if role == "user":
            asked += 1
            messages.append(question_message(_text(payload), seed, position))
        else:
            messages.append(answer_message(_text(payload), seed, asked))
    return messages


def _text(payload: Any) -> str:
    return to_text(cast("Mapping[str, Any]", payload)["content"] if isinstance(payload, Mapping) else payload)
