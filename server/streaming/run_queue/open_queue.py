"""Opens the queue of runs at a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from redis.exceptions import RedisError
from taskiq.exceptions import TaskiqError

from ragflow_lg.base.errors import CheckpointError, SettingsError, StreamError
from ragflow_lg.checkpoints.redis.redis_client import create_waiting_client
from ragflow_lg.checkpoints.store_url import REDIS_SCHEMES, key_prefix, redact_url
from ragflow_lg.server.streaming.run_queue.fair_queue import (
    FairQueue,
    QueueLimits,
    QueueState,
    ask_queue,
    queue_failure,
)
from ragflow_lg.server.streaming.run_queue.run_broker import RunBroker


class RunQueue(Struct, frozen=True):
    """The queue as servers and workers use it."""

    line: FairQueue
    broker: RunBroker
    find_share: Callable[[str], int]
    """Returns the share of a tenant."""

    async def send(self, ticket: str) -> None:
        """Send a ticket to the workers.

        Raises:
            StreamError: If Redis fails.
        """
        try:
            await self.broker.play.kiq(ticket=ticket)
        except (TaskiqError, RedisError, OSError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise queue_failure("The queue of runs failed", cause) from error

    async def undelivered(self) -> int:
        """Return how many tickets no worker has received yet.

        Raises:
            StreamError: If Redis fails.
        """
        return await ask_queue(self.broker.undelivered)

    async def has_worker(self) -> bool:
        """Return whether any worker is there.

        Raises:
            StreamError: If Redis fails.
        """
        return await ask_queue(self.broker.has_worker)


async def refuse(ticket: str) -> None:
    """Refuse to play a run: this process is not a worker."""
    raise StreamError("This process plays no runs of the queue.")


async def probe_queue(url: str, prefix: str = "") -> QueueState:
    """Return how long the queue at a URL is, and change nothing.

    Raises:
        SettingsError: If the URL is not one of a Redis server.
        StreamError: If Redis cannot be reached.
    """
    prefix, client = _open_client(url, prefix)
    async with client:
        try:
            return await FairQueue(client, prefix).state()
        except StreamError as error:
            raise _opening_error(url, error) from error


def _open_client(url: str, prefix: str) -> tuple[str, Any]:
    """Return the prefix of the keys, and a client.

    Raises:
        SettingsError: If the URL is not one of a Redis server.
    """
    if not url.startswith(tuple(f"{scheme}://" for scheme in REDIS_SCHEMES)):
        *others, last = REDIS_SCHEMES
        raise SettingsError(f"The URL of the queue must begin with {'://, '.join(others)}:// or {last}://.")
    try:
        return key_prefix(url, prefix), create_waiting_client(url)
    except CheckpointError as error:
        raise SettingsError(f"[queue] url: {error}") from None


def _opening_error(url: str, error: StreamError) -> StreamError:
    """Add for operators, who know it, the URL to an error, and what to do."""
    reason = str(error).partition(": ")[2]
    return StreamError(
        f"The queue of runs at {redact_url(url)} does not answer: {reason} "
        "Start that server, or correct --queue or `url` of [queue]."
    )


@asynccontextmanager
async def open_queue(
    url: str,
    find_share: Callable[[str], int],
    *,
    prefix: str = "",
    silence_s: float = 1.5,
    limits: QueueLimits | None = None,
) -> AsyncGenerator[RunQueue]:
    """Open a queue. A worker defines what it does with a ticket; see `RunBroker.define`.

    Raises:
        SettingsError: If the URL is not one of a Redis server.
        StreamError: If Redis cannot be reached.
    """
    prefix, client = _open_client(url, prefix)
    broker = RunBroker(create_waiting_client(url).connection_pool, prefix, silence_s=silence_s)
    broker.define(refuse)
    async with client:
        try:
            await ask_queue(broker.startup)
        except StreamError as error:
            raise _opening_error(url, error) from error
        try:
            yield RunQueue(FairQueue(client, prefix, limits), broker, find_share)
        finally:
            await broker.shutdown()
