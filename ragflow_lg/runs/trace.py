"""A run's agent trace, in the format of RAGFlow's trace view, and the log of its nodes.

Source: RAGFlow's ``agent/canvas.py`` (``tool_use_callback``). As in RAGFlow, every call that reached its tool is
included, whether it succeeded or not, and an agent's other work is listed under its own name.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from itertools import groupby
from typing import Any, TypeAlias

import orjson

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import AgentRecord, EngineEvent, ModelCalled, NodeFinished
from ragflow_lg.component.plan import Plan
from ragflow_lg.services.sessions import RunRecord, Trace, Traces

Leased: TypeAlias = "Callable[[], AbstractAsyncContextManager[None]]"

logger = logging.getLogger(__name__)

MAX_ENTRIES = 500
MAX_CHARS = 1_000_000
"""Maximum size of a trace; the oldest entries are dropped."""

PAUSE_S = 1.0
"""Minimum time between two writes; RAGFlow's page polls every 3 s."""


class TraceLog:
    """Collects a run's records."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entries: list[tuple[str, dict[str, Any], int]] = []
        self._chars = 0

    def add(self, record: AgentRecord) -> bool:
        """Add a record; return whether the trace has grown."""
        entry = self._entry(record)
        if entry is None:
            return False
        size = count_chars(entry)
        self._entries.append((record.node, entry, size))
        self._chars += size
        while len(self._entries) > MAX_ENTRIES or (self._chars > MAX_CHARS and len(self._entries) > 1):
            self._chars -= self._entries.pop(0)[2]
        return True

    @property
    def blocks(self) -> Trace:
        """The trace; consecutive entries of one component share a block."""
        groups = groupby(self._entries, key=lambda entry: entry[0])
        return [{"component_id": node, "trace": [entry for _, entry, _ in group]} for node, group in groups]

    def _entry(self, record: AgentRecord) -> dict[str, Any] | None:
        details = record.details
        match record.kind:
            case "tool_finished":
                name, arguments, result = details["tool"], details["arguments"], details["result"]
            case "tool_failed" if details["was_called"]:
                name, arguments, result = details["tool"], details["arguments"], details["error"]
            case "note":
                name, arguments, result = details["title"], dict[str, JsonValue](), details["result"]
            case _:
                return None
        entry: dict[str, JsonValue] = {
            "path": self._path(record),
            "tool_name": name,
            "arguments": arguments,
            "result": result,
            "elapsed_time": details["seconds"],
        }
        if details["title"] not in ("", name):
            entry["title"] = details["title"]
        if not isinstance(result, Mapping) and (files := details.get("files")):
            entry["files"] = files  # the results of components name their files
        return {**entry, "is_replayed": True} if record.is_replayed else entry

    def _path(self, record: AgentRecord) -> str:
        """Return the component's display name, followed by the names of agents within it."""
        node = self._plan.nodes.get(record.node)
        return (node.title if node else "") + record.path.removeprefix(record.node)


class TraceWriter:
    """Stores a run's trace periodically and at the end. If the store fails, the run is not affected."""

    def __init__(self, traces: Traces, record: RunRecord, log: TraceLog | NodeLog, *, delay_s: float = 0.0) -> None:
        """Create a writer. It waits ``delay_s`` seconds before it stores the first entry."""
        self._delay_s = delay_s
        self._traces = traces
        self._record = record
        self._log = log
        self.leased: Leased = nullcontext
        """Opens a block in which only a run that holds its session can store something."""
        self._is_stale = False
        self._is_broken = self._is_closed = False
        self._earliest_s = 0.0
        """When the next write may begin."""
        self._writing: asyncio.TimerHandle | asyncio.Task[None] | None = None
        """The next write, or the current one."""

    def touch(self) -> None:
        """Schedule a write."""
        self._is_stale = True
        if self._writing is None:
            loop = asyncio.get_running_loop()
            wait_s = max(self._delay_s, self._earliest_s - loop.time())
            self._delay_s = 0.0
            if wait_s > 0:
                self._writing = loop.call_later(wait_s, self._begin_write)
            else:
                self._begin_write()

    def _begin_write(self) -> None:
        self._writing = asyncio.create_task(self._put_alone())
        self._writing.add_done_callback(self._end_write)

    def _end_write(self, _: asyncio.Task[None]) -> None:
        self._writing, self._earliest_s = None, asyncio.get_running_loop().time() + PAUSE_S
        if self._is_stale and not self._is_closed:
            self.touch()

    async def close(self, *, is_lost: bool = False) -> None:
        """Write the remaining entries, unless another runner has taken over the session."""
        self._is_broken = self._is_broken or is_lost
        if await self.stop():
            await self._put_alone()

    async def stop(self) -> bool:
        """Write no more by itself. Return whether `put` has to store something."""
        self._is_closed = True
        if isinstance(self._writing, asyncio.Task):
            await self._writing
        elif self._writing is not None:
            self._writing.cancel()
        return self._is_stale and not self._is_broken

    async def put(self) -> None:
        """Store the trace as it is now, in the open transaction."""
        if self._is_broken:
            return
        self._is_stale = False
        with self._note_failure():
            await self._traces.put(self._record, self._log.blocks)

    async def _put_alone(self) -> None:
        with self._note_failure():
            async with self.leased():
                await self.put()

    @contextmanager
    def _note_failure(self) -> Generator[None]:
        try:
            yield
        except CheckpointError as error:
            self._is_broken = True
            logger.warning("The trace of run %s cannot be stored: %s", self._record.run_id, error)


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
