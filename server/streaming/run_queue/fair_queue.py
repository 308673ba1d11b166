"""Which run is played next: tenants take turns, by shares.

The broker's messages are *tickets*: each entitles a worker to the run that is next when the worker reads it, not to the
run that it was sent with. A ticket remembers its run, so that the next worker that receives it continues the same run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct
from redis.exceptions import RedisError

from ragflow_lg.base.errors import BusyError, QuotaError, StreamError
from ragflow_lg.checkpoints.failures import plain_reason

_T = TypeVar("_T")

_PUT = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'ok' end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then return 'full' end
local size = #ARGV[5]
if tonumber(redis.call('GET', KEYS[8]) or '0') + size > tonumber(ARGV[8]) then return 'large' end
local owner = 'tenant:' .. ARGV[2]
local open = tonumber(redis.call('HGET', KEYS[6], owner) or '0')
if tonumber(ARGV[7]) > 0 and open >= tonumber(ARGV[7]) then return 'tenant' end
local page = 'page:' .. ARGV[10]
if ARGV[10] ~= '' then
    local pages = tonumber(redis.call('HGET', KEYS[6], page) or '0')
    if tonumber(ARGV[11]) > 0 and pages >= tonumber(ARGV[11]) then return 'page' end
    redis.call('HSET', KEYS[7], 'page:' .. ARGV[1], page)
    redis.call('HINCRBY', KEYS[6], page, 1)
end
local now = tonumber(redis.call('GET', KEYS[5]) or '0')
local last = tonumber(redis.call('HGET', KEYS[4], ARGV[9]) or '0')
local tag = math.max(now, last) + tonumber(ARGV[3])
redis.call('HSET', KEYS[4], ARGV[9], string.format('%.6f', tag))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
redis.call('HSET', KEYS[7], 'tenant:' .. ARGV[1], owner)
redis.call('INCRBY', KEYS[8], size)
redis.call('HINCRBY', KEYS[6], owner, 1)
redis.call('ZADD', KEYS[2], string.format('%.6f', tag), ARGV[1])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
return 'ok'
"""
"""Adds a run. Each flow has the time at which its last run would end if all flows had their share of one worker; the
run with the earliest such time is next (start-time fair queuing). `KEYS[5]` is the time of the run taken last.
"""

_TAKE = """
local run = redis.call('HGET', KEYS[9], ARGV[1])
if run then
    local order = redis.call('HGET', KEYS[1], run)
    if order then
        redis.call('ZREM', KEYS[3], run)
        return {run, order}
    end
    redis.call('HDEL', KEYS[9], ARGV[1])
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if #first == 0 then return false end
run = first[1]
redis.call('ZREM', KEYS[2], run)
redis.call('ZREM', KEYS[3], run)
if redis.call('ZCARD', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[4], KEYS[5])
else
    redis.call('SET', KEYS[5], first[2])
end
redis.call('HSET', KEYS[9], ARGV[1], run)
return {run, redis.call('HGET', KEYS[1], run)}
"""

_GIVE_BACK = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1]) end
"""
"""Lets a run wait again. It keeps its ticket, so only `KEYS[3]` names it, not the line of runs without one."""

_REMOVE = """
if redis.call('ZREM', KEYS[2], ARGV[1]) == 1 and redis.call('ZCARD', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[4], KEYS[5])
end
redis.call('ZREM', KEYS[3], ARGV[1])
if ARGV[2] ~= '' then redis.call('HDEL', KEYS[9], ARGV[2]) end
local size = redis.call('HSTRLEN', KEYS[1], ARGV[1])
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return end
redis.call('DECRBY', KEYS[8], size)
for _, kind in ipairs({'tenant:', 'page:'}) do
    local owner = redis.call('HGET', KEYS[7], kind .. ARGV[1])
    redis.call('HDEL', KEYS[7], kind .. ARGV[1])
    if owner and redis.call('HINCRBY', KEYS[6], owner, -1) <= 0 then redis.call('HDEL', KEYS[6], owner) end
end
"""

_KEYS = ("orders", "waiting", "since", "flows", "now", "open", "owners", "bytes", "tickets")
RETRY_S = 5.0
MIN_SHARE, MAX_SHARE = 1, 1000
BACKGROUND_COST = 4


class QueueLimits(Struct, frozen=True):
    """How long the queue may get."""

    waiting: int = 1000
    """Runs that wait."""
    order_bytes: int = 256 * 1024 * 1024
    """The total size of the requests of all runs that wait or are played."""


class QueueState(NamedTuple):
    """How long the queue is. ``oldest_ms`` is the time since which the run that waits longest has waited, or 0."""

    waiting: int = 0
    """Runs that no worker plays, with those that a worker has given back."""
    open: int = 0
    """Runs that wait or are played."""
    oldest_ms: int = 0


class FairQueue:
    """The runs that wait for a worker or are played by one, in Redis."""

    def __init__(self, client: Any, prefix: str = "", limits: QueueLimits | None = None) -> None:
        """Initialize. The caller closes the client, which returns bytes."""
        self._client = client
        self._limits = limits or QueueLimits()
        self._keys = [f"{prefix}agent:queue:{name}" for name in _KEYS]
        self._put, self._take = client.register_script(_PUT), client.register_script(_TAKE)
        self._give_back, self._remove = client.register_script(_GIVE_BACK), client.register_script(_REMOVE)

    async def put(
        self,
        run_id: str,
        tenant: str,
        order: bytes,
        now_ms: int,
        *,
        share: int = 1,
        max_open: int = 0,
        is_background: bool = False,
        page_key: str = "",
        max_page: int = 0,
    ) -> None:
        """Add a run.

        ``max_open`` and ``max_page`` are the numbers of runs that the tenant and the key of an embedded page may have
        in the queue and in play; 0 for any. Runs in the background, for which nobody waits, have a place of their own
        in the line, and a quarter of the tenant's share.

        Raises:
            BusyError: If the queue is too long, or the tenant has too many runs.
            StreamError: If Redis fails.
        """
        cost = (BACKGROUND_COST if is_background else 1) / min(max(share, MIN_SHARE), MAX_SHARE)
        limits, flow = self._limits, f"{'background' if is_background else 'people'}:{tenant}"
        places = (limits.waiting, max_open, limits.order_bytes, flow, page_key, max_page)
        arguments = (run_id, tenant, f"{cost:.6f}", now_ms, order, *places)
        _refuse((await ask_queue(lambda: self._put(keys=self._keys, args=arguments))).decode(), max_open, max_page)

    async def require_room(self, tenant: str, max_open: int, page_key: str = "", max_page: int = 0) -> None:
        """Check that a run may be added. `put` decides, because others may be faster.

        Raises:
            BusyError: See `put`.
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=False) as together:
                together.zcard(self._keys[1])
                together.hmget(self._keys[5], [f"tenant:{tenant}", f"page:{page_key}"])
                return await together.execute()

        waiting, (of_tenant, of_page) = await ask_queue(ask)
        if waiting >= self._limits.waiting:
            _refuse("full", max_open, max_page)
        if 0 < max_open <= int(of_tenant or 0):
            _refuse("tenant", max_open, max_page)
        if page_key and 0 < max_page <= int(of_page or 0):
            _refuse("page", max_open, max_page)

    async def take(self, ticket: str) -> tuple[str, bytes] | None:
        """Return the run of a ticket and its order: the one that it was used for before, or else the next run.

        Returns None if no run is waiting.

        Raises:
            StreamError: If Redis fails.
        """
        answer: Any = await ask_queue(lambda: self._take(keys=self._keys, args=(ticket,)))
        return (answer[0].decode(), answer[1]) if answer else None

    async def give_back(self, run_id: str, now_ms: int) -> None:
        """Let a run that a worker has taken wait again, for the next worker that receives its ticket.

        Raises:
            StreamError: If Redis fails.
        """
        await ask_queue(lambda: self._give_back(keys=self._keys, args=(run_id, now_ms)))

    async def finish(self, run_id: str, ticket: str = "") -> None:
        """Remove a run that has ended, and its ticket.

        Raises:
            StreamError: If Redis fails.
        """
        await ask_queue(lambda: self._remove(keys=self._keys, args=(run_id, ticket)))

    async def has(self, run_id: str) -> bool:
        """Return whether a run waits or is played.

        Raises:
            StreamError: If Redis fails.
        """
        return bool(await ask_queue(lambda: self._client.hexists(self._keys[0], run_id)))

    async def position(self, run_id: str) -> int:
        """Return the place of a run in the line, from 1, or 0 if it does not wait.

        Raises:
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=False) as together:
                together.zrank(self._keys[1], run_id)
                together.zrank(self._keys[2], run_id)  # the tickets of runs that were given back come last
                return await together.execute()

        return next((int(rank) + 1 for rank in await ask_queue(ask) if rank is not None), 0)

    async def state(self) -> QueueState:
        """Return how long the queue is.

        Raises:
            StreamError: If Redis fails.
        """

        async def ask() -> Any:
            async with self._client.pipeline(transaction=False) as together:
                together.zcard(self._keys[2])
                together.hlen(self._keys[0])
                together.zrange(self._keys[2], 0, 0, withscores=True)
                return await together.execute()

        waiting, open_, oldest = await ask_queue(ask)
        return QueueState(int(waiting), int(open_), int(oldest[0][1]) if oldest else 0)


def _refuse(reason: str, max_open: int, max_page: int) -> None:
    """Raise the error for a run that may not be added."""
    if reason in ("tenant", "page"):
        owner, limit = ("tenant", max_open) if reason == "tenant" else ("key of the page", max_page)
        raise QuotaError("runs", limit, owner, "Try again later.", renews_s=RETRY_S)
    if reason == "large":
        raise BusyError("The inputs of the runs in the queue are too long together. Try again later.", RETRY_S)
    if reason == "full":
        raise BusyError("Too many runs are waiting for a worker. Try again later.", RETRY_S)


async def ask_queue(call: Callable[[], Awaitable[_T]]) -> _T:
    """Return what Redis answers.

    Raises:
        StreamError: if Redis fails.
    """
    try:
        return await call()
    except (RedisError, OSError) as error:
        raise queue_failure("The queue of runs failed", error) from error


def queue_failure(text: str, error: Exception) -> StreamError:
    """Return an error with a reason that contains no address."""
    reason = plain_reason(error)
    return StreamError(f"{text}: its Redis server {reason[3:]}" if reason.startswith("it ") else f"{text}: {reason}")
