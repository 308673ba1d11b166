"""What the agents of a run did, as RAGFlow's trace view reads it.

Source: RAGFlow's ``agent/canvas.py`` (``tool_use_callback``). As there, a call of a tool that was reached stands in it,
well or not, and work around the rounds by a name of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from contextlib import suppress
from typing import Any

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.component.plan import Plan
from ragflow_lg.services.sessions import RunRecord, Trace, Traces

__all__ = ["TraceKeeper", "TraceLog"]

logger = logging.getLogger(__name__)

MAX_ENTRIES = 500
MAX_CHARS = 1_000_000
"""Most that a trace holds; the oldest entries give way."""

PAUSE_S = 1.0
"""Shortest time between two writes; RAGFlow's page looks every 3 s."""


class TraceLog:
    """Grows with the records of a run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entries: deque[tuple[str, dict[str, Any], int]] = deque()
        self._chars = 0

    def add(self, record: AgentRecord) -> bool:
        """Take a record; tell whether the trace has grown."""
        entry = self._entry(record)
        if entry is None:
            return False
        size = len(json.dumps(entry, ensure_ascii=False))
        self._entries.append((record.node, entry, size))
        self._chars += size
        while len(self._entries) > MAX_ENTRIES or (self._chars > MAX_CHARS and len(self._entries) > 1):
            self._chars -= self._entries.popleft()[2]
        return True

    @property
    def blocks(self) -> Trace:
        """The trace: entries of one component that follow each other share a block."""
        blocks: Trace = []
        for node, entry, _ in self._entries:
            if not blocks or blocks[-1]["component_id"] != node:
                blocks.append({"component_id": node, "trace": []})
            blocks[-1]["trace"].append(entry)
        return blocks

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
        return {**entry, "is_replayed": True} if record.is_replayed else entry

    def _path(self, record: AgentRecord) -> str:
        """Give the display name of the component, and the names of agents within it."""
        node = self._plan.nodes.get(record.node)
        return (node.title if node else "") + record.path.removeprefix(record.node)


class TraceKeeper:
    """Writes the trace of a run down while it grows, now and then, and at the end. A store that fails harms nothing."""

    def __init__(self, traces: Traces, record: RunRecord, log: TraceLog) -> None:
        self._traces = traces
        self._record = record
        self._log = log
        self._is_stale = False
        self._is_broken = False
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Have what is new written soon."""
        self._is_stale = True
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def close(self, *, is_lost: bool = False) -> None:
        """Write what is left, unless another runner has taken the session over."""
        self._closing.set()
        self._is_broken = self._is_broken or is_lost
        if self._writing is not None:
            await self._writing
        await self._put()

    async def _write(self) -> None:
        while self._is_stale and not self._closing.is_set():
            await self._put()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PAUSE_S)

    async def _put(self) -> None:
        if not self._is_stale or self._is_broken:
            return
        self._is_stale = False
        try:
            await self._traces.put(self._record, self._log.blocks)
        except CheckpointError as error:
            self._is_broken = True
            logger.warning("The trace of run %s is not kept: %s", self._record.run_id, error)
