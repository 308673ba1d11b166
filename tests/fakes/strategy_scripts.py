"""One way of solving a task, told in the form of each strategy.

A *move* is ``{"think": text, "calls": [{"name", "arguments", "moves"?}]}``, or ``{"think": text, "answer": text}``;
``moves`` are those of an agent that is called. A last ``{"answer": text, "is_forced": true}`` is an answer that the
model gives because its rounds are used up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.services import Reply


def replies_of(moves: Sequence[Mapping[str, Any]], strategy: str) -> list[Reply]:
    """Give what a model says, in order."""
    return [*({"function_calling": _calling, "react": _writing, "plan_and_reflect": _planning}[strategy])(moves)]


def _inside(move: Mapping[str, Any], strategy: str) -> Iterator[Reply]:
    for call in move.get("calls", ()):
        yield from replies_of(call["moves"], strategy) if "moves" in call else ()


def _calling(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    for move in moves:
        yield Reply(move.get("answer", ""), calls=move.get("calls", ()))
        yield from _inside(move, "function_calling")


def _writing(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    for move in moves:
        thought = [f"Thought: {move['think']}"] if "think" in move else []
        answer = [f"Final Answer: {move['answer']}"] if "answer" in move else []
        calls = [
            f"Action: {call['name']}\nAction Input: {json.dumps(call['arguments'], ensure_ascii=False)}"
            for call in move.get("calls", ())
        ]
        yield Reply("\n".join([*thought, *calls, *answer]))
        yield from _inside(move, "react")


def _planning(moves: Sequence[Mapping[str, Any]]) -> Iterator[Reply]:
    yield Reply("The task is clear.")
    for move in moves:
        if "answer" in move:
            if not move.get("is_forced"):
                yield Reply('```json\n[{"name": "complete_task", "arguments": {}}]\n```')
            yield Reply(move["answer"])
            continue
        calls = [{"name": call["name"], "arguments": call["arguments"]} for call in move["calls"]]
        yield Reply(json.dumps(calls, ensure_ascii=False))
        yield from _inside(move, "plan_and_reflect")
        yield Reply("That helps.")
