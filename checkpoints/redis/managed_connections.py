"""Connections to a master that can change, which a Sentinel or a cluster names."""

from __future__ import annotations

from typing import Any

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.sentinel import SentinelConnectionPool, SentinelManagedConnection
from redis.exceptions import ClusterDownError, MovedError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError

_ELSEWHERE = (MovedError, ClusterDownError, TryAgainError)


class ManagedConnection(SentinelManagedConnection):
    """A connection that looks for the master each time it connects.

    redis-py's own asks only when it is taken from the pool, so a command that is repeated goes to the old master.
    """

    async def connect(self) -> None:
        """Connect, and try again while there is no master."""
        await self.retry.call_with_retry(self.connect_check_health, _ignore)

    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Connect once. The caller repeats it: otherwise, the retries would multiply."""
        if not self.is_connected:
            connection: Any = self
            connection.host, connection.port = await connection.connection_pool.get_master_address()
            await super().connect_check_health(check_health, retry_socket_connect=False)

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Read a response. One that comes from a node that is no longer the master is a broken connection."""
        parent: Any = super()
        try:
            return await parent.read_response(*args, **options)
        except _ELSEWHERE as error:
            await self.disconnect()
            raise RedisConnectionError(f"The master has changed: {error}") from error


class ManagedPool(SentinelConnectionPool, BlockingConnectionPool):
    """A pool of connections to a master that can change. It waits for a free connection."""


async def _ignore(_error: Exception) -> None:
    pass
