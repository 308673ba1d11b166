"""taskiq's broker on Redis Streams, with what runs need: a dead worker's messages are claimed within seconds.

taskiq-redis looks for such messages only after a new one has arrived, and reads up to 100 at once, which no other
worker can then play. This broker looks at regular intervals and reads one message at a time. The messages of a worker
that is alive stay its own, because it reports them as in progress.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from taskiq import AckableMessage
from taskiq_redis import RedisStreamBroker

from ragflow_lg.base.tasks import SharedTask

PLAY = "play"
"""The name of the only task. Its argument is the id of a ticket."""
GROUP = "workers"
REPORTS = 5
"""How often a worker reports its messages in the time after which they are claimed."""
PAUSE_S = 0.5
WORKER_S = 3.0
"""How long, at least, a worker must be silent before it counts as gone."""
_TICKET = re.compile(r"[0-9A-Za-z_-]{1,64}")

logger = logging.getLogger(__name__)


class _Payload(Struct, frozen=True):
    """The part of taskiq's message that is checked before taskiq reads it."""

    task_id: str
    task_name: str
    labels: dict[str, Any]
    args: list[Any]
    kwargs: dict[str, Any]
    labels_types: dict[str, int] | None = None


_DECODER = msgspec.json.Decoder(_Payload)


def read_ticket(data: bytes) -> str:
    """Return the ticket in a message of the stream.

    Raises:
        ValueError: If the message is not one that a server sends.
    """
    try:
        payload = _DECODER.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"it is not a ticket: {error}") from error
    if payload.task_name != PLAY or payload.labels or payload.args or set(payload.kwargs) != {"ticket"}:
        raise ValueError("it is not a ticket: servers of ragflow-lg do not send such a task")
    ticket = payload.kwargs["ticket"]
    if not isinstance(ticket, str) or not _TICKET.fullmatch(ticket):
        raise ValueError("it is not a ticket: its argument is not an id")
    return ticket


class RunBroker(RedisStreamBroker):
    """A stream of tickets. A message stays in it until it is acknowledged."""

    def __init__(self, pool: Any, prefix: str = "", *, silence_s: float = 1.5) -> None:
        """Initialize with a pool of connections, which `shutdown` closes.

        The messages of a worker that is silent for ``silence_s`` are claimed by others.
        """
        super().__init__(
            "redis://",  # it makes a pool that connects to nothing, in place of which the given one is used
            queue_name=f"{prefix}agent:queue:stream",
            consumer_group_name=GROUP,
            consumer_id="0",
            xread_block=max(50, int(silence_s * 1000 / REPORTS)),
            xread_count=1,
            idle_timeout=int(silence_s * 1000),
            unacknowledged_batch_size=1,
        )
        self.connection_pool = pool
        self._silence_s = silence_s
        self._held: dict[str, set[Any]] = {}
        """The ids in the stream of the messages in progress, by ticket: a message can be sent twice."""
        self._reporting = SharedTask(self._report_forever)
        self.play: Any = None

    def define(self, play: Callable[..., Awaitable[None]]) -> None:
        """Define what a worker does with a ticket."""
        self.play = self.register_task(play, task_name=PLAY)

    def release(self, ticket: str) -> None:
        """Stop reporting the messages of a ticket. What has not been acknowledged, another worker receives."""
        self._held.pop(ticket, None)

    async def undelivered(self) -> int:
        """Return how many messages no worker has received yet."""
        async with Redis(connection_pool=self.connection_pool) as client:
            length = await client.xlen(self.queue_name)
            pending: Any = await client.xpending(self.queue_name, self.consumer_group_name)
        return length - int(pending["pending"])

    async def has_worker(self) -> bool:
        """Return whether a worker has asked for messages or reported any lately."""
        async with Redis(connection_pool=self.connection_pool) as client:
            try:
                workers: Any = await client.xinfo_consumers(self.queue_name, self.consumer_group_name)
            except ResponseError:  # Redis has lost the queue
                return False
        return any(worker["idle"] < max(WORKER_S, 2 * self._silence_s) * 1000 for worker in workers)

    async def shutdown(self) -> None:
        """Stop reporting and close the connections."""
        await self._reporting.aclose()
        await super().shutdown()

    def _ack_generator(self, id: str, queue_name: str) -> Callable[[], Awaitable[None]]:
        async def acknowledge() -> None:
            async with (
                Redis(connection_pool=self.connection_pool) as client,
                client.pipeline(transaction=True) as together,
            ):
                together.xack(queue_name, self.consumer_group_name, id)
                together.xdel(queue_name, id)
                await together.execute()

        return acknowledge

    async def listen(self) -> AsyncGenerator[AckableMessage]:
        """Yield messages: new ones, and those of workers that have become silent."""
        self._reporting.start()
        async with Redis(connection_pool=self.connection_pool) as client:
            while True:
                try:
                    messages = await self._claim(client) or await self._read(client)
                except (RedisError, OSError) as error:
                    logger.warning("the queue of runs failed: %s", error)
                    await asyncio.sleep(PAUSE_S)
                    with suppress(RedisError, OSError):
                        await self._declare_consumer_group()  # Redis may have lost it
                    continue
                for id_, fields in messages:
                    if (message := await self._accept(id_, fields)) is not None:
                        yield message

    async def _accept(self, id_: Any, fields: dict[bytes, bytes] | None) -> AckableMessage | None:
        """Return a message. One that no server has sent is removed, because it would come again and again."""
        data = (fields or {}).get(b"data", b"")
        acknowledge = self._ack_generator(id_, self.queue_name)
        try:
            self._held.setdefault(read_ticket(data), set()).add(id_)
        except ValueError as error:
            logger.error("a message in the queue of runs is ignored: %s", error)
            with suppress(RedisError, OSError):
                await acknowledge()
            return None
        return AckableMessage(data=data, ack=acknowledge)

    async def _read(self, client: Any) -> list[Any]:
        group, consumer = self.consumer_group_name, self.consumer_name
        found = await client.xreadgroup(group, consumer, {self.queue_name: ">"}, count=1, block=self.block)
        return found[0][1] if found else []

    async def _claim(self, client: Any) -> list[Any]:
        found = await client.xautoclaim(
            self.queue_name, self.consumer_group_name, self.consumer_name, self.idle_timeout, count=1
        )
        return found[1]

    async def _report_forever(self) -> None:
        """Reset the time for which the messages in progress have been idle, and own them."""
        while True:
            await asyncio.sleep(self._silence_s / REPORTS)
            if not self._held:
                continue
            with suppress(RedisError, OSError):
                async with Redis(connection_pool=self.connection_pool) as client:
                    await client.xclaim(
                        self.queue_name,
                        self.consumer_group_name,
                        self.consumer_name,
                        0,
                        [id_ for ids in self._held.values() for id_ in ids],
                        justid=True,
                    )
