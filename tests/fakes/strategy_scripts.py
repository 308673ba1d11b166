"""One solution of a task as the model replies of each strategy.

A *move* is ``{"think": text, "calls": [{"name", "arguments", "moves"?}]}``, or ``{"think": text, "answer": text}``;
``moves`` are those of a nested agent. A last ``{"answer": text, "is_forced": true}`` is an answer that the model gives
because its rounds are used up.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.services import Reply


def replies_of(moves: Sequence[Mapping[str, Any]], strategy: str) -> list[Reply]:
    """Return the replies of a model, in order."""
    writers = {"function_calling": _function_calling, "react": _react, "plan_and_reflect": _plan_and_reflect}
    return [*writers[strategy](moves)]


def _nested_replies(move: Mapping[str, Any], strategy: str) -> Iterator[Reply]:
    for call in move.get("calls", ()):
        yield from replies_of(call["moves"], strategy) if "moves" in call else ()


def _function_calling(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    for move in moves:
        yield Reply(move.get("answer", ""), calls=move.get("calls", ()))
        yield from _nested_replies(move, "function_calling")


def _react(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    for move in moves:
        calls = [{"name": call["name"], "arguments": call["arguments"]} for call in move.get("calls", ())]
        written = [f"<tool_call>{json.dumps(call, ensure_ascii=False)}</tool_call>" for call in calls]
        yield Reply("\n".join([*written, *([move["answer"]] if "answer" in move else [])]))
        yield from _nested_replies(move, "react")


def _plan_and_reflect(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    yield Reply("The task is clear.")
    for move in moves:
        if "answer" in move:
            if not move.get("is_forced"):
                yield Reply('```json\n[{"name": "complete_task", "arguments": {}}]\n```')
            yield Reply(move["answer"])
            continue
        calls = [{"name": call["name"], "arguments": call["arguments"]} for call in move["calls"]]
        yield Reply(json.dumps(calls, ensure_ascii=False))
        yield from _nested_replies(move, "plan_and_reflect")
        yield Reply("That helps.")
