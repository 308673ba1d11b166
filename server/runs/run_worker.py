"""Plays the runs of the queue, beside a server or in a process of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError, StreamError
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.tasks import end_task, running, work_until
from ragflow_lg.server.assembly.app_state import AppState, open_app_state
from ragflow_lg.server.assembly.unknown_names import report_unknown_names
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.run_player import RunPlayer
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.server.streaming.run_queue import PAUSE_S, Delivery, RunQueue

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


class QueueWorker:
    """Plays up to ``concurrency`` runs of the queue at the same time."""

    def __init__(self, app_state: AppState, queue: RunQueue, turns: Turns, concurrency: int) -> None:
        self._queue = queue
        self._turns = turns
        self._concurrency = concurrency
        self._player = RunPlayer(app_state, turns, queue)
        self._playing: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        """Play runs inside the context, until `drain`. What has not ended then, others continue."""
        async with running(self._queue.report_forever, "report the runs of the queue"):
            taking = asyncio.create_task(self._take())
            try:
                yield
            finally:
                self._stopping.set()
                await taking
                for task in list(self._playing):
                    await end_task(task)
        with suppress(StreamError):
            await self._queue.resign()

    async def drain(self) -> None:
        """Stop taking runs, and stop the current ones where others can continue them."""
        self._stopping.set()
        await self._turns.playing.drain()
        await asyncio.gather(*self._playing)

    async def _take(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        while not stopping.done():
            if len(self._playing) >= self._concurrency:
                await asyncio.wait([stopping, *self._playing], return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                delivery = await self._queue.take()
            except Exception as error:  # whatever fails, the process must go on to take runs
                logger.warning("no run can be taken: %s", error, exc_info=not isinstance(error, StreamError))
                await asyncio.sleep(PAUSE_S)
                continue
            if delivery is not None:
                self._playing.add(task := asyncio.create_task(self._play(delivery)))
                task.add_done_callback(self._playing.discard)

    async def _play(self, delivery: Delivery) -> None:
        """Play a run. Acknowledge its message when it is over; otherwise, another worker continues it."""
        try:
            if await self._player.play(delivery.run_id):
                await self._queue.acknowledge(delivery)
            else:
                await self._queue.release(delivery)
        except Exception as error:  # the border of a run: another worker continues it
            is_known = isinstance(error, StreamError)
            logger.warning("run %s is left to another worker: %s", delivery.run_id, error, exc_info=not is_known)
        finally:
            self._queue.leave(delivery)


class Worker:
    """A process that only plays runs."""

    def __init__(self, app_state: AppState, queue: RunQueue, concurrency: int) -> None:
        self.app_state = app_state
        self.operations = Operations(app_state.settings.server, app_state.callbacks)
        self._worker = QueueWorker(app_state, queue, Turns(app_state, self.operations), concurrency)

    async def work(self, announce: Callable[[], object]) -> None:
        """Play runs until SIGINT or SIGTERM. A second signal skips draining."""
        await asyncio.to_thread(load_turn_code)
        report_unknown_names(self.app_state.settings)
        stop, stop_now = on_stop_signals()
        async with self._worker.working():
            announce()
            await stop.wait()
            await work_until(self._worker.drain(), stop_now, self.app_state.settings.server.drain_s)


@asynccontextmanager
async def open_worker(settings: Settings, model: str, concurrency: int) -> AsyncGenerator[Worker]:
    """Open a worker and everything that the settings describe.

    Raises:
        RagflowLgError: See `open_app_state`.
    """
    async with open_app_state(settings, model=model) as app_state:
        if (queue := app_state.queue) is None:
            raise SettingsError(
                "A worker needs a queue: set `checkpoints` to redis://…, or url in the section [queue]."
            )
        yield Worker(app_state, queue, concurrency)
