"""A worker: plays runs of the queue until a signal arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.base.errors import SettingsError, StreamError
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.tasks import end_task, running, work_until
from ragflow_lg.server.agents.quotas import Quotas
from ragflow_lg.server.assembly.app_state import AppState, open_app_state
from ragflow_lg.server.assembly.unknown_names import report_unknown_names
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.observability.metrics import MetricsCallbacks
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.run_player import RunPlayer
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.server.streaming.run_queue import PAUSE_S, Delivery, RunQueue

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


class Worker:
    """Plays up to ``concurrency`` runs at the same time."""

    def __init__(self, app_state: AppState, queue: RunQueue, concurrency: int) -> None:
        section = app_state.settings.server
        self.operations = Operations(section, app_state.callbacks, app_state.settings.limits)
        self.app_state = replace(app_state, callbacks=(*app_state.callbacks, MetricsCallbacks(self.operations.metrics)))
        self._queue = queue
        self._concurrency = concurrency
        quotas = Quotas(self.app_state, self.operations.metrics.count_quota_refusal)
        self._turns = Turns(self.app_state, self.operations.slots, quotas)
        self._player = RunPlayer(self.app_state, queue, self._turns)

    async def work(self, announce: Callable[[], object]) -> None:
        """Play runs until SIGINT or SIGTERM. A second signal skips draining."""
        await asyncio.to_thread(load_turn_code)
        report_unknown_names(self.app_state.settings)
        stop, stop_now = on_stop_signals()
        playing: set[asyncio.Task[None]] = set()

        async def drain() -> None:
            await self._turns.drain()
            await asyncio.gather(*playing)

        async with running(self._queue.report_forever, "report the runs of the queue"):
            announce()
            await self._take_until(stop, playing)
            await work_until(drain(), stop_now, self.app_state.settings.server.drain_s)
            for task in list(playing):
                await end_task(task)

    async def _take_until(self, stop: asyncio.Event, playing: set[asyncio.Task[None]]) -> None:
        stopping = asyncio.create_task(stop.wait())
        while not stopping.done():
            if len(playing) >= self._concurrency:
                await asyncio.wait([stopping, *playing], return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                delivery = await self._queue.take()
            except StreamError as error:
                logger.warning("%s", error)
                await asyncio.sleep(PAUSE_S)
                continue
            if delivery is not None:
                playing.add(task := asyncio.create_task(self._play(delivery)))
                task.add_done_callback(playing.discard)

    async def _play(self, delivery: Delivery) -> None:
        """Play a run. Acknowledge its message when it is over; otherwise, another worker continues it."""
        try:
            if await self._player.play(delivery.run_id):
                await self._queue.acknowledge(delivery)
            else:
                await self._queue.release(delivery)
        except Exception as error:
            is_known = isinstance(error, StreamError)
            logger.warning("run %s is left to another worker: %s", delivery.run_id, error, exc_info=not is_known)
        finally:
            self._queue.leave(delivery)


@asynccontextmanager
async def open_worker(settings: Settings, model: str, concurrency: int) -> AsyncGenerator[Worker]:
    """Open a worker and everything that the settings describe.

    Raises:
        RagflowLgError: See `open_app_state`.
    """
    async with open_app_state(settings, model=model) as app_state:
        if (queue := app_state.queue) is None:
            raise SettingsError("A worker needs a queue: set url in the section [queue].")
        yield Worker(app_state, queue, concurrency)
