"""What a run stores about its nodes, beside their results: attempts, time, tokens, and the calls of models."""

from __future__ import annotations

import json
from typing import Any

import orjson

from ragflow_lg.component.events import EngineEvent, ModelCalled, NodeFinished
from ragflow_lg.services.sessions import Trace

MAX_VISITS = 1_000
MAX_CALLS = 200
MAX_CALL_CHARS = 1_000_000
"""Maximum size of all calls; the oldest are dropped."""


class NodeLog:
    """Collects how the nodes of one run went."""

    def __init__(self) -> None:
        self._visits: list[dict[str, Any]] = []
        self._calls: list[tuple[dict[str, Any], int]] = []
        self._chars = 0
        self._dropped_calls = 0

    def add(self, event: EngineEvent) -> bool:
        """Add an event; return whether the log has grown."""
        if isinstance(event, ModelCalled):
            self._add_call(event)
        elif isinstance(event, NodeFinished):
            self._visits.append(_describe_visit(event))
            del self._visits[:-MAX_VISITS]
        else:
            return False
        return True

    @property
    def blocks(self) -> Trace:
        """The log: a block of node executions and a block of model calls, both oldest first."""
        calls = [call for call, _ in self._calls]
        return [
            {"kind": "visits", "trace": [*self._visits]},
            {"kind": "calls", "dropped": self._dropped_calls, "trace": [*calls]},
        ]

    def _add_call(self, event: ModelCalled) -> None:
        prompt_tokens, completion_tokens, _, cost = event.usage
        call: dict[str, Any] = {
            "node": event.node,
            "path": event.path,
            "visit": event.visit,
            "place": event.place,
            "created_at": event.created_at,
            "seconds": event.seconds,
            "usage": [prompt_tokens, completion_tokens, cost],
            **event.details,
        }
        size = count_chars(call)
        self._calls.append((call, size))
        self._chars += size
        while len(self._calls) > MAX_CALLS or (self._chars > MAX_CALL_CHARS and len(self._calls) > 1):
            self._chars -= self._calls.pop(0)[1]
            self._dropped_calls += 1


def count_chars(entry: dict[str, Any]) -> int:
    """Return about how many characters an entry takes as JSON."""
    try:
        return len(orjson.dumps(entry).decode())
    except TypeError:  # a lone surrogate or a long number
        return len(json.dumps(entry, ensure_ascii=False))


def _describe_visit(event: NodeFinished) -> dict[str, Any]:
    usage = event.usage
    return {
        "node": event.node,
        "visit": event.visit,
        "place": event.place,
        "created_at": event.created_at,
        "seconds": event.elapsed_s,
        "attempts": event.attempts,
        "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cost] if usage is not None else [0, 0, 0.0],
        "failed": event.error is not None,
        **({"notices": [*event.notices]} if event.notices else {}),
    }
