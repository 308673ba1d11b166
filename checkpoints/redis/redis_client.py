"""The Redis client: a pool that waits for a free connection, and commands that are collected for one script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.redis.managed_connections import ManagedPool, WaitingPool
from ragflow_lg.checkpoints.redis.redis_url import Pools, create_client, has_failover
from ragflow_lg.checkpoints.store_url import redact_url

TIMEOUT_S = 5.0
"""Timeout of a response."""
CONNECT_S = 3.0
RETRIES = 3
"""Retries after a refused or broken connection."""
FAILOVER_RETRIES = 30
"""Retries if another server can become the master: for about 14 s, less than a lease lasts."""
CONNECTIONS = 64
"""Maximum number of connections, however many runs there are. The URL's ``max_connections`` takes precedence."""
POOL_WAIT_S = 30.0
"""How long a command waits for a free connection."""
START_ADVICE = "Start the server, or correct the URL, user and password."

Command: TypeAlias = "tuple[Any, ...]"

_collected: ContextVar[list[Command] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting_writes() -> Generator[list[Command]]:
    """Collect the commands that the block passes to `collect`."""
    commands: list[Command] = []
    mark = _collected.set(commands)
    try:
        yield commands
    finally:
        _collected.reset(mark)


def collect(commands: Iterable[Command]) -> bool:
    """Add commands to those that are being collected. Return False outside `collecting_writes`."""
    collected = _collected.get()
    if collected is not None:
        collected += commands
    return collected is not None


def create_waiting_client(url: str, connections: int = CONNECTIONS) -> Any:
    """Create a client whose commands wait for a free connection, and for a new master if there can be one.

    Raises:
        CheckpointError: if the URL is invalid.
    """
    # Timeouts are not retried, so that a request waits for an unresponsive server only once.
    count = FAILOVER_RETRIES if has_failover(url) else RETRIES
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": CONNECT_S, "retry": _retry(count)}
    pools = Pools(WaitingPool, ManagedPool, {"max_connections": connections, "timeout": POOL_WAIT_S})
    return create_client(url, pools, **options)


def _retry(count: int) -> Retry:
    return Retry(ExponentialBackoff(cap=0.5, base=0.05), count, supported_errors=(RedisConnectionError,))


@asynccontextmanager
async def open_redis(url: str, connections: int = CONNECTIONS) -> AsyncGenerator[Redis]:
    """Open a client after asking the server. ``connections`` is its maximum number of connections.

    Raises:
        CheckpointError: if the server does not respond.
    """
    await check_server(url)
    async with create_waiting_client(url, connections) as client:
        yield client


async def check_server(url: str) -> None:
    """Check that a server answers and is no node of a cluster that the URL does not name.

    Raises:
        CheckpointError: if it does not.
    """
    options: Any = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": CONNECT_S, "retry": _retry(RETRIES)}
    try:
        async with create_client(url, **options) as client:
            facts: dict[str, Any] = await client.info("cluster")
    except (RedisError, OSError) as error:
        reason = plain_reason(error).rstrip(".")
        raise CheckpointError(
            f"The Redis server at {redact_url(url)} does not answer: {reason}. {START_ADVICE}"
        ) from error
    if facts.get("cluster_enabled") and not has_failover(url):
        raise CheckpointError("The Redis server is part of a cluster: write redis+cluster://HOST:PORT/NAME.")
