"""A run that yields scripted events."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ragflow_lg.runs.wire.wire_events import Envelope, Message

_numbers = itertools.count(1)


def words(count: int, first: int = 1) -> list[Any]:
    """Return messages ``w1``, ``w2``, …"""
    return [Message(f"w{number}") for number in range(first, first + count)]


class ScriptedRun:
    """A run with a script of events; it waits for an ``asyncio.Event`` in it and raises an exception in it."""

    def __init__(self, script: Sequence[Any], run_id: str = "") -> None:
        self.envelope = Envelope(run_id or f"{next(_numbers):032x}", 1_700_000_000, "e" * 32, "e" * 32)
        self.status = "running"
        self.event_count = 0
        self.is_closed = False
        self._script = script
        self._stop = asyncio.Event()
        self._end = "succeeded"

    def cancel(self) -> None:
        self._end = "cancelled"
        self._stop.set()

    def drain(self) -> None:
        self._end = "drained"
        self._stop.set()

    def interrupt(self) -> None:
        self.drain()

    async def batches(self, *, publishes: bool = False) -> AsyncGenerator[list[Any]]:
        try:
            for step in self._script:
                if isinstance(step, asyncio.Event):
                    await self._until(step)
                if self._stop.is_set():
                    break
                if isinstance(step, Exception):
                    self._end = "failed"
                    raise step
                if not isinstance(step, asyncio.Event):
                    self.event_count += 1
                    yield [step]
            self.status = self._end
        finally:
            self.is_closed = True
            if self.status == "running":
                self.status = "cancelled" if self._end == "succeeded" else self._end

    async def _until(self, step: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (step, self._stop)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
