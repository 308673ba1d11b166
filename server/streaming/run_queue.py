"""The queue of runs: a Redis stream of their ids, which workers read as one group.

A message stays in the stream until its run has ended. A worker reports the messages of its runs again and again; those
of a worker that has become silent are claimed by others. So Redis decides which worker starts or continues a run.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import RedisError, ResponseError

from ragflow_lg.base.errors import BusyError, CheckpointError, QuotaError, SettingsError, StreamError
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.redis.redis_client import create_waiting_client
from ragflow_lg.checkpoints.store_url import REDIS_SCHEMES, key_prefix, redact_url
from ragflow_lg.server.streaming.new_run import Owner

GROUP = "workers"
REPORTS = 5
"""How often a worker reports its messages in the time after which they are claimed."""
PAUSE_S = 0.5
"""How long to wait after a failure of Redis."""
WORKER_S = 3.0
"""How long, at least, a worker must be silent before it counts as gone."""
LOOK_S = 0.5
"""How long a state of the queue is used: many clients may ask for their places."""
RETRY_S = 5.0
MAX_PENDING = 10_000
"""Of how many messages that workers have it is read how long these have been silent; others count as waiting."""
RESERVED_S = 60
"""How long a run may take from the decision that there is a place for it until it is put."""
KEPT_S = 24 * 3600
"""How long a run may wait or be played, at most."""
_RUN_ID = re.compile(rb"[0-9A-Za-z_-]{1,64}")

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class Delivery(NamedTuple):
    """A message of the queue that this process has received."""

    id: bytes
    run_id: str


class QueueState(NamedTuple):
    """How long the queue is."""

    waiting: Sequence[str] = ()
    """The runs that no worker plays, in their order: first those that a worker has given back or left."""
    open: int = 0
    """How many runs wait or are played."""
    oldest_ms: int = 0
    """The time since which the run that waits longest has waited, or 0."""

    @property
    def played(self) -> int:
        """How many runs workers play."""
        return self.open - len(self.waiting)


class RunQueue:
    """The runs that wait for a worker or are played by one, in Redis."""

    def __init__(
        self, client: Any, prefix: str, worker: str, *, silence_s: float = 1.5, max_waiting: int = 1000
    ) -> None:
        """Initialize. The caller closes the client, which returns bytes.

        The messages of a worker that is silent for ``silence_s`` are claimed by others. ``worker`` is the name of this
        process in the group.
        """
        self._client = client
        self._prefix = f"{prefix}agent:queue:"
        self._stream = f"{self._prefix}stream"
        self._worker = worker
        self._silence_s = silence_s
        self._silence_ms = int(silence_s * 1000)
        self._max_waiting = max_waiting
        self._held: set[bytes] = set()
        """The ids of the messages of this process, which it reports."""
        self._state, self._state_s = QueueState(), -math.inf

    async def reserve(self, run_id: str, owners: Sequence[Owner], now_ms: int) -> None:
        """Count a run that is about to be put for its owners. `forget` it, or wait `RESERVED_S`, if it is not put.

        Raises:
            BusyError: If the queue is too long, or an owner has too many runs.
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=True) as together:
                together.xlen(self._stream)
                together.xpending(self._stream, GROUP)
                for owner in owners:
                    key = self._owner_key(owner)
                    together.zremrangebyscore(key, 0, now_ms)
                    together.zadd(key, {run_id: now_ms + RESERVED_S * 1000})
                    together.expire(key, KEPT_S)
                    together.zcard(key)
                return await together.execute()

        length, pending, *counts = await self._ask(ask)
        refusal: BusyError | None = None
        if length - pending["pending"] >= self._max_waiting:
            refusal = BusyError("Too many runs are waiting for a worker. Try again later.", RETRY_S)
        for owner, count in zip(owners, counts[3::4], strict=True):
            if 0 < owner.limit < count:
                refusal = QuotaError("runs", owner.limit, owner.kind, "Try again later.", renews_s=RETRY_S)
        if refusal is not None:
            await self.forget(run_id, owners)
            raise refusal

    async def put(self, run_id: str, data: bytes, owners: Sequence[Owner] = (), now_ms: int = 0) -> None:
        """Add a run, with what it takes to start it, and keep its places. A run that is sent twice is played once.

        Raises:
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=True) as together:
                together.set(self._run_key(run_id), data, ex=KEPT_S)
                together.xadd(self._stream, {"run": run_id})
                for owner in owners:
                    together.zadd(self._owner_key(owner), {run_id: now_ms + KEPT_S * 1000})
                return await together.execute()

        await self._ask(ask)
        self._state_s = -math.inf

    async def read(self, run_id: str) -> bytes | None:
        """Return the data of a run, or None if it neither waits nor is played.

        Raises:
            StreamError: If Redis fails.
        """
        return await self._ask(lambda: self._client.get(self._run_key(run_id)))

    async def has(self, run_id: str) -> bool:
        """Return whether a run waits or is played.

        Raises:
            StreamError: If Redis fails.
        """
        return bool(await self._ask(lambda: self._client.exists(self._run_key(run_id))))

    async def forget(self, run_id: str, owners: Sequence[Owner]) -> None:
        """Remove a run that has ended or is not put. Its messages are then worth nothing.

        Raises:
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=True) as together:
                together.delete(self._run_key(run_id))
                for owner in owners:
                    together.zrem(self._owner_key(owner), run_id)
                return await together.execute()

        await self._ask(ask)

    async def take(self) -> Delivery | None:
        """Return the next message: one of a worker that has become silent, or else a new one. Wait for it a moment.

        Raises:
            StreamError: If Redis fails.
        """
        for id_, fields in await self._ask(self._claim) or await self._ask(self._read):
            run_id: bytes = fields.get(b"run", b"") if fields else b""
            if id_ in self._held:
                continue  # this process was slow to report, and has claimed its own message
            if _RUN_ID.fullmatch(run_id):
                self._held.add(id_)
                return Delivery(id_, run_id.decode())
            logger.error("a message in the queue of runs is ignored: it names no run")
            await self.acknowledge(Delivery(id_, ""))
        return None

    async def acknowledge(self, delivery: Delivery) -> None:
        """Remove a message.

        Raises:
            StreamError: If Redis fails.
        """
        self._held.discard(delivery.id)

        async def ask() -> Any:
            async with self._client.pipeline(transaction=True) as together:
                together.xack(self._stream, GROUP, delivery.id)
                together.xdel(self._stream, delivery.id)
                return await together.execute()

        await self._ask(ask)

    async def release(self, delivery: Delivery) -> None:
        """Release a message, so that another worker receives it immediately.

        Raises:
            StreamError: If Redis fails.
        """
        self._held.discard(delivery.id)
        ids = [delivery.id]
        await self._ask(
            lambda: self._client.xclaim(self._stream, GROUP, self._worker, 0, ids, idle=self._silence_ms, justid=True)
        )

    def leave(self, delivery: Delivery) -> None:
        """Report a message no more. After a while, another worker receives it."""
        self._held.discard(delivery.id)

    async def resign(self) -> None:
        """Leave the group, unless a message of this process waits for another worker.

        Raises:
            StreamError: If Redis fails.
        """
        workers = await self._ask(lambda: self._client.xinfo_consumers(self._stream, GROUP))
        if any(worker["name"] == self._worker.encode() and not worker["pending"] for worker in workers):
            await self._ask(lambda: self._client.xgroup_delconsumer(self._stream, GROUP, self._worker))

    async def report_forever(self) -> None:
        """Reset the time for which the messages of this process have been idle, and own them."""
        while True:
            await asyncio.sleep(self._silence_s / REPORTS)
            if held := list(self._held):
                with suppress(RedisError, OSError):
                    await self._client.xclaim(self._stream, GROUP, self._worker, 0, held, justid=True)

    async def has_worker(self) -> bool:
        """Return whether a worker has asked for messages or reported any lately.

        Raises:
            StreamError: If Redis fails.
        """
        workers = await self._ask(lambda: self._client.xinfo_consumers(self._stream, GROUP))
        return any(worker["idle"] < max(WORKER_S, 2 * self._silence_s) * 1000 for worker in workers)

    async def position(self, run_id: str) -> int:
        """Return the place of a run in the line, from 1, or 0 if it does not wait. A moment ago counts as now.

        Raises:
            StreamError: If Redis fails.
        """
        if time.monotonic() - self._state_s > LOOK_S:
            self._state, self._state_s = await self.state(), time.monotonic()
        waiting = self._state.waiting
        return waiting.index(run_id) + 1 if run_id in waiting else 0

    async def state(self) -> QueueState:
        """Return how long the queue is.

        Raises:
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=True) as together:
                together.time()
                together.xrange(self._stream)
                together.xpending_range(self._stream, GROUP, "-", "+", MAX_PENDING)
                return await together.execute()

        (now_s, now_us), messages, pending = await self._ask(ask)
        now_ms = now_s * 1000 + now_us // 1000
        idle_ms = {each["message_id"]: each["time_since_delivered"] for each in pending}
        since_ms: dict[str, int] = {}
        for id_, fields in messages:
            idle = idle_ms.get(id_)
            if idle is None or idle >= self._silence_ms:
                since = int(id_.partition(b"-")[0]) if idle is None else now_ms - idle
                since_ms.setdefault(fields.get(b"run", b"").decode(errors="replace"), since)
        return QueueState(list(since_ms), len(messages), min(since_ms.values(), default=0))

    async def _claim(self) -> Any:
        """Return the message of a worker that has become silent, if there is one."""
        found = await self._client.xpending_range(self._stream, GROUP, "-", "+", 1, idle=self._silence_ms)
        if not found:
            return []
        ids = [found[0]["message_id"]]
        return await self._client.xclaim(self._stream, GROUP, self._worker, self._silence_ms, ids)

    async def _read(self) -> Any:
        block_ms = max(50, self._silence_ms // REPORTS)
        found = await self._client.xreadgroup(GROUP, self._worker, {self._stream: ">"}, count=1, block=block_ms)
        return found[0][1] if found else []

    async def _ask(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Return what Redis answers. If it has lost the queue, there is an empty one again."""
        try:
            try:
                return await call()
            except ResponseError as error:
                if "NOGROUP" not in str(error) and "no such key" not in str(error):
                    raise
                with suppress(ResponseError):  # another process was faster
                    await self._client.xgroup_create(self._stream, GROUP, "0", mkstream=True)
                return await call()
        except (RedisError, OSError) as error:
            reason = plain_reason(error)
            text = f"its Redis server {reason[3:]}" if reason.startswith("it ") else reason
            raise StreamError(f"The queue of runs failed: {text}") from error

    def _run_key(self, run_id: str) -> str:
        return f"{self._prefix}run:{run_id}"

    def _owner_key(self, owner: Owner) -> str:
        return f"{self._prefix}open:{owner.kind}:{owner.id}"


@asynccontextmanager
async def open_queue(
    url: str, worker: str = "", *, prefix: str = "", silence_s: float = 1.5, max_waiting: int = 1000
) -> AsyncGenerator[RunQueue]:
    """Open the queue at a URL for the process with a name.

    Raises:
        SettingsError: If the URL is not one of a Redis server.
        StreamError: If Redis cannot be reached.
    """
    if not url.startswith(tuple(f"{scheme}://" for scheme in REDIS_SCHEMES)):
        *others, last = REDIS_SCHEMES
        raise SettingsError(f"The URL of the queue must begin with {'://, '.join(others)}:// or {last}://.")
    try:
        prefix, client = key_prefix(url, prefix), create_waiting_client(url)
    except CheckpointError as error:
        raise SettingsError(f"[queue] url: {error}") from None
    async with client:
        queue = RunQueue(client, prefix, worker, silence_s=silence_s, max_waiting=max_waiting)
        try:
            await queue.state()
        except StreamError as error:
            reason = str(error).partition(": ")[2]
            raise StreamError(  # operators know the URL
                f"The queue of runs at {redact_url(url)} does not answer: {reason} "
                "Start that server, or correct --queue or `url` of [queue]."
            ) from error
        yield queue
