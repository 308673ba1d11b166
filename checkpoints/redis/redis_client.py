"""The Redis client: a pool that waits for a free connection, and write commands that are collected for one script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.redis.managed_connections import ManagedPool
from ragflow_lg.checkpoints.redis.redis_modules import missing_modules
from ragflow_lg.checkpoints.redis.redis_url import Pools, create_client, describe_database, has_failover

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

Command: TypeAlias = "tuple[Any, ...]"

_WRITE_COMMANDS = {"SET", "JSON.SET", "ZADD", "DEL", "HSET", "HDEL"}
_collected: ContextVar[list[Command] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting_writes() -> Generator[list[Command]]:
    """Collect the write commands of the block in a list instead of executing them."""
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


class CollectingPipeline(Pipeline):
    """A pipeline whose commands are collected if it writes."""

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Execute all commands, or collect them."""
        commands, stack = _collected.get(), cast("list[Any]", self.command_stack)
        if commands is None or not any(command[0] in _WRITE_COMMANDS for command, _ in stack):
            return await super().execute(raise_on_error)
        commands += [command for command, _ in stack]
        await self.reset()
        return [True] * len(stack)


class CollectingRedis(Redis):
    """A client whose write commands are collected inside `collecting_writes`."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command, or collect it."""
        commands = _collected.get()
        if commands is None or args[0] not in _WRITE_COMMANDS:
            return await cast("Any", super()).execute_command(*args, **options)
        commands.append(args)
        return True

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a pipeline."""
        return CollectingPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


def create_waiting_client(
    url: str, client: type[Redis] = Redis, connections: int = CONNECTIONS, retries: int = RETRIES
) -> Any:
    """Create a client whose commands wait for a free connection, and for a new master if there can be one.

    Raises:
        CheckpointError: if the URL is invalid.
    """
    # Timeouts are not retried, so that a request waits for an unresponsive server only once.
    count = FAILOVER_RETRIES if has_failover(url) else retries
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), count, supported_errors=(RedisConnectionError,))
    options = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": CONNECT_S, "retry": retry}
    pools = Pools(BlockingConnectionPool, ManagedPool, {"max_connections": connections, "timeout": POOL_WAIT_S})
    return create_client(url, client, pools, **options)


@asynccontextmanager
async def open_redis(url: str, connections: int = CONNECTIONS) -> AsyncGenerator[CollectingRedis]:
    """Open a client after checking the server's modules. ``connections`` is its maximum number of connections.

    Raises:
        CheckpointError: if the server does not respond or lacks a module, or the URL names another database than 0.
    """
    if missing := missing_modules(url):
        raise CheckpointError(
            f"The Redis server lacks these modules: {', '.join(missing)}. Use redis:8, which includes them."
        )
    client = cast("CollectingRedis", create_waiting_client(url, CollectingRedis, connections))
    try:
        if problem := describe_database(client):
            raise CheckpointError(problem)
        if not has_failover(url):
            await _refuse_cluster(client)
        yield client
    finally:
        await client.aclose()


async def _refuse_cluster(client: CollectingRedis) -> None:
    try:
        facts: dict[str, Any] = await cast("Any", client).info("cluster")
    except (RedisError, OSError) as error:
        raise CheckpointError(f"The Redis server fails: {plain_reason(error)}") from error
    if facts.get("cluster_enabled"):
        raise CheckpointError("The Redis server is part of a cluster: write redis+cluster://HOST:PORT/NAME.")


def lacks_index(error: ResponseError) -> bool:
    """Return whether a command has failed because its index does not exist. Versions of Redis say it differently."""
    return any(text in str(error).lower() for text in ("no such index", "unknown index name"))
