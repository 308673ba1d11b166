"""A worker: receives tickets of the queue with taskiq, and plays their runs, until a signal arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace
from taskiq import Context, TaskiqDepends
from taskiq.acks import AcknowledgeType
from taskiq.receiver.receiver import Receiver

from ragflow_lg.base.errors import SettingsError, StreamError
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.tasks import running, work_until
from ragflow_lg.server.agents.quotas import Quotas
from ragflow_lg.server.assembly.app_state import AppState, open_app_state
from ragflow_lg.server.assembly.unknown_names import report_unknown_names
from ragflow_lg.server.assembly.warm_up import load_turn_code
from ragflow_lg.server.observability.metrics import RunMetrics
from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.runs.ticket_player import SWEEP_S, TicketPlayer
from ragflow_lg.server.runs.turns import Turns
from ragflow_lg.server.streaming.run_queue.open_queue import RunQueue

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


class Worker:
    """Plays up to ``concurrency`` runs at the same time."""

    def __init__(self, app_state: AppState, queue: RunQueue, concurrency: int) -> None:
        section = app_state.settings.server
        self.operations = Operations(section, app_state.callbacks, app_state.settings.limits)
        self.app_state = replace(app_state, callbacks=(*app_state.callbacks, RunMetrics(self.operations.metrics)))
        self._queue = queue
        self._concurrency = concurrency
        self._playing = 0
        quotas = Quotas(self.app_state, self.operations.metrics.count_quota_refusal)
        self._turns = Turns(self.app_state, self.operations.slots, quotas)
        self._player = TicketPlayer(self.app_state, queue, self._turns)

    async def play(self, ticket: str, acknowledge: Callable[[], Awaitable[None]]) -> None:
        """Play the run of a ticket, and acknowledge the message when the run has ended or is in the queue again."""
        self._playing += 1
        try:
            if await self._player.play(ticket):
                await acknowledge()
        except StreamError as error:
            logger.warning("a ticket is left to another worker: %s", error)
        finally:
            self._playing -= 1
            self._queue.broker.release(ticket)

    async def work(self, announce: Callable[[], object]) -> None:
        """Play runs until SIGINT or SIGTERM. A second signal skips draining."""
        await asyncio.to_thread(load_turn_code)
        report_unknown_names(self.app_state.settings)
        stop, stop_now = on_stop_signals()
        receiver = Receiver(
            self._queue.broker,
            max_async_tasks=self._concurrency,
            run_startup=False,
            ack_type=AcknowledgeType.MANUAL,
        )
        listening = asyncio.create_task(receiver.listen(stop))
        async with running(self._sweep_forever, "sweep"):
            announce()
            await asyncio.wait([listening, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await self._drain(listening, stop_now)

    async def _drain(self, listening: asyncio.Task[None], stop_now: asyncio.Event) -> None:
        """Stop the runs at a point where other workers can continue them, and give their tickets back."""

        async def drain() -> None:
            await self._turns.drain()
            await listening

        await work_until(drain(), stop_now, self.app_state.settings.server.drain_s)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            if not self._playing:
                with suppress(StreamError):
                    await self._player.sweep()


@asynccontextmanager
async def open_worker(settings: Settings, model: str, concurrency: int) -> AsyncGenerator[Worker]:
    """Open a worker and everything that the settings describe.

    Raises:
        RagflowLgError: See `open_app_state`.
    """
    async with open_app_state(settings, model=model) as app_state:
        if (queue := app_state.queue) is None:
            raise SettingsError("A worker needs a queue: set url in the section [queue].")
        worker = Worker(app_state, queue, concurrency)

        async def play(ticket: str, context: Annotated[Context, TaskiqDepends()]) -> None:
            await worker.play(ticket, context.ack)

        queue.broker.define(play)
        yield worker
