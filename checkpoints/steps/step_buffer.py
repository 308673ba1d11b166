"""Steps of one session that are stored together, because running them again would cost and change nothing.

A step is stored within `LATEST_S`, and within `SOON_S` if an effect has finished in it; with the durability ``steps``,
each is stored before the next one. Steps are written in order, in one transaction at a time: a crash loses only the
newest ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.langgraph_internals import NAMESPACE_SEPARATOR, TASK_SEPARATOR
from ragflow_lg.base.request_notes import request_context
from ragflow_lg.checkpoints.steps.result_buffer import TaskWrites
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, checkpoint_key
from ragflow_lg.services.sessions import StoreWork

LATEST_S = 0.1
"""How long a step waits."""
SOON_S = 0.005
"""How long the result of an effect waits: usually, the checkpoint after it follows at once."""
REST_S = 1.0
"""How long the task that writes is kept for the next write."""
MAX_PARTS = 128
"""Maximum number of checkpoints and results that wait."""


_STOPPED = CheckpointError("The process stopped before the latest steps of the session were stored.")


class NewCheckpoint(NamedTuple):
    """The arguments of `BaseCheckpointSaver.aput`."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: Mapping[str, Any]
    new_versions: ChannelVersions


def with_run(config: RunnableConfig, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a checkpoint, with the run that stores it."""
    run = config.get("metadata", {}).get("run_id")
    return {"run_id": run, **metadata} if run else metadata


Part: TypeAlias = "NewCheckpoint | TaskWrites | StoreWork"


class StepBuffer:
    """The steps of one run that are not stored yet. Implements `ragflow_lg.services.sessions.Gathering`.

    After a write has failed, every method that stores something raises its error.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Part]], Coroutine[Any, Any, None]],
        on_close: Callable[[], None],
        on_checkpoint: Callable[[CheckpointKey], None],
        *,
        is_volatile: bool = False,
        waits_for_each: bool = False,
    ) -> None:
        """``write`` stores parts in their order. ``on_close`` is called when the run has ended.

        ``on_checkpoint`` is called with the key of each checkpoint that is added, or whose writes are.
        ``is_volatile``: what is stored ends with the process as well, so that no step has to wait for it.
        ``waits_for_each``: each step is stored before the next one, unless the store is volatile.
        """
        self._write = write
        self._on_close = on_close
        self._on_checkpoint = on_checkpoint
        self._is_volatile = is_volatile
        self._waits_for_each = waits_for_each and not is_volatile
        self._context = request_context()
        """For writes, which must not use what a step has open, such as a transaction, but take the tenant's turns."""
        self._parts: list[Part] = []
        self._added = self._written = 0
        """How many parts have been added and written."""
        self._batch: Sequence[Part] = ()
        """What is written now."""
        self._writer: asyncio.Task[None] | None = None
        """Writes one batch after the other. A cancelled caller does not stop it."""
        self._next: asyncio.Future[None] | None = None
        """What the writer waits for between two batches."""
        self._waiting: list[asyncio.Future[None]] = []
        """Who waits for the end of the write."""
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        """When the timer ends. uvloop's handle does not know it if that is at once."""
        self._error: BaseException | None = None
        self._urgent_tasks: dict[str, bool] = {}
        """The tasks whose results are stored soon, and whether the user has seen them."""
        self._hidden = 0
        """How many parts had been added with the last result of an effect that the user has not seen."""
        self._required: dict[str, None] = {}
        """The namespaces whose next checkpoint must be stored before a step follows it."""
        self._is_urgent = self._is_closed = False

    def hurry(self, task: str, *, is_shown: bool = False) -> None:
        """Store the result of a task soon: an effect has finished in it. ``is_shown``: the user has seen the result."""
        if not self._is_volatile:
            self._urgent_tasks[task.rpartition(TASK_SEPARATOR)[2]] = is_shown

    def require(self, task: str) -> None:
        """Let no step follow the one of a task before it is stored."""
        if not self._is_volatile:
            self._required[task.rpartition(NAMESPACE_SEPARATOR)[0]] = None

    @property
    def has_steps(self) -> bool:
        """Whether there are steps that are not stored yet."""
        return bool(self._batch) or not all(map(callable, self._parts))

    async def attach(self, work: StoreWork) -> None:
        """Store something else in the transaction of the next steps. Nothing else begins that."""
        if self._is_volatile:
            await work()  # nobody would see it until the next steps are stored
        else:
            self._parts.append(work)
            self._added += 1

    def take_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: ChannelVersions,
    ) -> bool:
        """Add a checkpoint, and return whether nothing has to wait for the store. If not, call `flush`."""
        key = checkpoint_key(config)
        self._on_checkpoint(CheckpointKey(key.thread, key.namespace, checkpoint["id"]))
        if self._error is not None:
            return False
        self._parts.append(NewCheckpoint(config, checkpoint, with_run(config, metadata), new_versions))
        self._added += 1
        if self._waits_for_each:
            return False
        if key.namespace in self._required:
            del self._required[key.namespace]
            return False
        return self._write_soon()

    def take_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> bool | None:
        """Add a task's writes in the same way. None: they are added to nothing, since no checkpoint follows them.

        What a run begins with, such as the answers to a form, is added to its record.
        """
        part = TaskWrites(config, writes, task_id, task_path)
        are_result = part.are_result
        if not are_result and (self.has_steps or not self._parts):
            return None
        if self._error is not None:
            return False
        if not are_result:
            self._on_checkpoint(checkpoint_key(config))
        self._parts.append(part)
        self._added += 1
        self._is_urgent = self._is_urgent or self._waits_for_each
        if task_id in self._urgent_tasks:
            self._is_urgent = True
            if not self._urgent_tasks.pop(task_id):
                self._hidden = self._added
        return are_result and self._write_soon()

    def _write_soon(self) -> bool:
        if len(self._parts) < MAX_PARTS:
            self._schedule()
        elif not self._batch:
            self._start()
        else:
            return False
        return True

    async def settle(self) -> None:
        """Store what has been added before something has an effect; see `flush`."""
        if not self._is_volatile:
            await self.flush()

    async def settle_hidden(self) -> None:
        """Store what has been added if there is an effect among it whose result the user has not seen; see `flush`."""
        if self._error is not None or self._hidden > self._written:
            await self.settle()

    async def flush(self) -> None:
        """Store what has been added. If the caller is cancelled, the write goes on.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        until = self._added
        while self._written < until and self._error is None:
            self._start()
            if not self._batch:
                break  # what waited has been dropped
            self._waiting.append(end := asyncio.get_running_loop().create_future())
            await end
        if self._error is not None:
            raise self._error

    async def close(self, works: Sequence[StoreWork] = ()) -> None:
        """Store everything at the end of the run, with the works after it.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        try:
            self._parts += works
            self._added += len(works)
            await self.flush()
        finally:
            self._stop_timer()
            self._is_closed = True
            self._wake()
            self._on_close()

    def drop(self) -> None:
        """Forget what waits, as the end of the process does."""
        self._parts.clear()
        self._stop_timer()
        self._wake()

    def _schedule(self) -> None:
        """Start the timer, unless it ends early enough. The end of a write does so for what has been added since."""
        if self._batch:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + (SOON_S if self._is_urgent else LATEST_S)
        if self._timer is not None and self._due_s <= when:
            return
        self._stop_timer()
        self._timer, self._due_s = loop.call_at(when, self._start, context=self._context), when

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        """Begin to write, unless a write is running."""
        if self._batch or not self._parts:
            return
        self._stop_timer()
        self._batch, self._parts, self._is_urgent = self._parts, [], False
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_batches(), context=self._context)
            self._writer.add_done_callback(self._end, context=self._context)
        else:
            self._wake()

    def _wake(self) -> None:
        """Let the writer go on with the next batch, or end if there is none."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def _write_batches(self) -> None:
        """Write what `_start` takes, until it has taken nothing for a while or the run has ended."""
        loop = asyncio.get_running_loop()
        while self._batch:
            await self._write(self._batch)
            self._written += len(self._batch)
            self._batch = ()
            if self._parts:
                self._schedule()
            self._report()
            if not self._is_closed:
                self._next = loop.create_future()
                rest = loop.call_later(REST_S, self._wake)
                await self._next
                rest.cancel()
        self._writer = self._next = None

    def _end(self, writer: asyncio.Task[None]) -> None:
        """Keep the error of a write that has failed."""
        error = _STOPPED if writer.cancelled() else writer.exception()
        if error is not None:
            self._error, self._batch = error, ()
            self._parts.clear()
            self._report()

    def _report(self) -> None:
        """Wake those who wait for the end of the write."""
        waiting, self._waiting = self._waiting, []
        for end in waiting:
            if not end.done():
                end.set_result(None)
