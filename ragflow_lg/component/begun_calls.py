"""Calls that must not start twice: which of them a node of the session's canvas has begun, at any depth.

An agent's tools, the tools of agents that are tools, and the nodes of canvases that it runs all belong to one node of
the session's canvas. Only this node can ask the user, so it keeps one list of the calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ragflow_lg.base.values import JsonValue, to_json

if TYPE_CHECKING:
    from ragflow_lg.services.sessions import Steps


def step_key(task: str, position: str, name: str, arguments: object) -> str:
    """Return the key of a step: 32 hexadecimal digits."""
    text = json.dumps([task, position, name, arguments], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


class BegunCall(NamedTuple):
    """A call that has begun."""

    mark: str
    """Identifies the call; a repeated call has the same mark."""
    result: str
    """The key of the step with its result."""
    title: str
    arguments: JsonValue = None
    """The arguments from the model; None if a node was begun."""


class BegunCalls:
    """The calls that one node of the session's canvas has begun."""

    def __init__(self, steps: Steps, task: str) -> None:
        self._steps = steps
        self._task = task
        self._count = 0
        self._marks: set[str] = set()
        self._lock = asyncio.Lock()

    async def load(self) -> list[BegunCall]:
        """Read the calls that began before a crash; none of them may start again."""
        calls: list[BegunCall] = []
        while (entry := await self.find("begun call", len(calls))) is not None:
            calls.append(BegunCall(*cast("list[Any]", entry)))
        self._count, self._marks = len(calls), {call.mark for call in calls}
        return calls

    async def add(self, call: BegunCall) -> None:
        """Store that a call begins. It must not start before this method returns."""
        async with self._lock:  # a gap in the numbers would hide the calls after it
            await self.put("begun call", self._count, to_json(list(call)))
            self._count += 1
        self._marks.add(call.mark)

    def contain(self, mark: str) -> bool:
        """Return whether a call with this mark has begun and must not be repeated."""
        return mark in self._marks

    def allow_repeat(self, mark: str) -> None:
        """Let an interrupted call start once more."""
        self._marks.discard(mark)

    async def has_result(self, call: BegunCall) -> bool:
        """Return whether the result of a call was stored."""
        return (await self._steps.find(call.result))[0]

    async def find(self, what: str, number: int) -> JsonValue:
        """Return an entry of one of the node's lists, or None."""
        return (await self._steps.find(step_key(self._task, what, "", number)))[1]

    async def put(self, what: str, number: int, value: JsonValue) -> None:
        """Store an entry of one of the node's lists."""
        await self._steps.put(step_key(self._task, what, "", number), value)
