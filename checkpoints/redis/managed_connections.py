"""Pools that wait for a free connection: to a server, or to a master that can change.

A Sentinel or a cluster names the master.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import BlockingConnectionPool, Connection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import SentinelConnectionPool, SentinelManagedConnection
from redis.exceptions import ClusterDownError, MovedError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError

from ragflow_lg.base.tasks import keep_cancellation

_ELSEWHERE = (MovedError, ClusterDownError, TryAgainError)


class _Cancellable(AbstractConnection):
    """A connection that loses no cancellation."""

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        """Send a command. If the task is cancelled meanwhile, disconnect: the answer is that of no later command."""
        try:
            with keep_cancellation():
                await super().send_packed_command(*args, **options)
        except asyncio.CancelledError:
            await self.disconnect(nowait=True)
            raise


class WaitingPool(BlockingConnectionPool):
    """A pool of connections to a server."""

    def __init__(self, connection_class: type[Any] = Connection, **options: Any) -> None:
        """Initialize with a class of connections, such as that for TLS, and the options of redis-py."""
        kind = type(connection_class.__name__, (_Cancellable, connection_class), {})
        parent: Any = super()
        parent.__init__(connection_class=kind, **options)


class ManagedConnection(_Cancellable, SentinelManagedConnection):
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
