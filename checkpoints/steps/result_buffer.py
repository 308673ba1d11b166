"""Results of tasks that wait for the checkpoint after them, so that one write to the store contains both."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.types import TASKS

from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey

PATIENCE_S = 0.005
"""How long a result waits. The checkpoint follows at once, unless other tasks are still running beside this one."""


class TaskWrites(NamedTuple):
    """The arguments of `BaseCheckpointSaver.aput_writes`."""

    config: RunnableConfig
    writes: Sequence[tuple[str, Any]]
    task_id: str
    task_path: str

    @property
    def are_result(self) -> bool:
        """Whether a checkpoint follows.

        None follows a pause, and a caller other than LangGraph (without a path) does not store one.
        """
        channels = (channel for channel, _ in self.writes)
        return bool(self.task_path) and all(name == TASKS or not name.startswith("__") for name in channels)


class _Entry(NamedTuple):
    writes: TaskWrites
    is_stored: asyncio.Future[bool]


class ResultBuffer:
    """Results that are not stored yet, by the checkpoint to which they belong."""

    def __init__(self) -> None:
        self._waiting: dict[CheckpointKey, list[_Entry]] = {}

    async def wait(self, key: CheckpointKey, writes: TaskWrites) -> bool:
        """Wait for the next checkpoint. Return whether the result was stored with it."""
        loop = asyncio.get_running_loop()
        entry = _Entry(writes, loop.create_future())
        self._waiting.setdefault(key, []).append(entry)
        timer = loop.call_later(PATIENCE_S, self._give_up, key, entry)
        try:
            return await entry.is_stored
        finally:
            timer.cancel()
            self._give_up(key, entry)

    def _give_up(self, key: CheckpointKey, entry: _Entry) -> None:
        """Let a result be stored by itself, unless it is being stored."""
        entries = self._waiting.get(key, [])
        if entry not in entries:
            return
        entries.remove(entry)
        if not entries:
            del self._waiting[key]
        _finish(entry, is_stored=False)

    @contextmanager
    def taken(self, key: CheckpointKey) -> Generator[list[TaskWrites]]:
        """Yield the results that wait for the checkpoint after this one. They are stored if the block succeeds."""
        entries = self._waiting.pop(key, [])
        is_stored = False
        try:
            yield [entry.writes for entry in entries]
            is_stored = True
        finally:
            for entry in entries:
                _finish(entry, is_stored=is_stored)


def _finish(entry: _Entry, *, is_stored: bool) -> None:
    if not entry.is_stored.done():  # the task that waits may have been cancelled
        entry.is_stored.set_result(is_stored)
