"""Connections to databases: one pool for each account, closed when it is idle. Pools belong to one event loop."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from ragflow_lg.adapters.sql.database_kinds import CONNECT_S, DatabaseKind, set_up_statements
from ragflow_lg.base.errors import ServiceError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    AnyEngine: TypeAlias = "AsyncEngine | Engine"

_SET_OPTION = 0x1B
_MULTI_STATEMENTS_OFF = struct.pack("<H", 1)


class Pool:
    """An engine, with what it takes to know whether it is idle."""

    def __init__(self, engine: AnyEngine, kind: DatabaseKind, arguments: Mapping[str, Any], open_s: float) -> None:
        self.engine = engine
        self.kind = kind
        self.arguments = arguments
        """The driver's arguments that are not in the engine's URL."""
        self.open_s = open_s
        """How long a new session may take: waiting for a free connection, connecting, and setting it up."""
        self.users = 0
        self.closing: asyncio.TimerHandle | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self.closing is not None:
            self.closing.cancel()
        if self.kind.is_async:
            await self.engine.dispose()  # pyright: ignore[reportGeneralTypeIssues]
        else:
            await asyncio.to_thread(self.engine.dispose)


class Pools:
    """The pools of one process, by account."""

    def __init__(self, max_pools: int, idle_s: float) -> None:
        self._max_pools = max_pools
        self._idle_s = idle_s
        self._pools: dict[Hashable, Pool] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._pools)

    @asynccontextmanager
    async def use(self, key: Hashable, create: Callable[[], Pool]) -> AsyncGenerator[Pool]:
        """Yield the pool with a key, which stays open inside the block.

        Raises:
            ServiceError: if too many other pools are in use.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._pools, self._loop = {}, loop  # connections of a loop that has ended cannot be used any more
        pool = self._pools.pop(key, None)
        if pool is None:
            self._make_room()
            pool = create()
        self._pools[key] = pool  # ordered by last use
        pool.users += 1
        if pool.closing is not None:
            pool.closing.cancel()
        try:
            yield pool
        finally:
            pool.users -= 1
            if not pool.users and self._pools.get(key) is pool:
                pool.closing = loop.call_later(self._idle_s, self._close, key, pool)

    def _make_room(self) -> None:
        if len(self._pools) < self._max_pools:
            return
        idle = next((key for key, pool in self._pools.items() if not pool.users), None)
        if idle is None:
            raise ServiceError(
                f"{self._max_pools} databases are in use at the same time ([sql] max_pools).", is_retryable=True
            )
        self._close(idle, self._pools[idle])

    def _close(self, key: Hashable, pool: Pool) -> None:
        if pool.users or self._pools.get(key) is not pool:
            return
        del self._pools[key]
        task = asyncio.get_running_loop().create_task(pool.aclose())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._loop is not asyncio.get_running_loop():
            return
        pools, self._pools = list(self._pools.values()), {}
        await asyncio.gather(*(pool.aclose() for pool in pools), *self._tasks)


def create_pool(
    url: URL, kind: DatabaseKind, arguments: Mapping[str, Any], *, size: int, timeout_s: float, writes: bool
) -> Pool:
    """Create a pool. Each new session is limited in time and, unless it may write, read-only."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.ext.asyncio import create_async_engine

    options: dict[str, Any] = {
        "connect_args": {**kind.connect, **arguments},
        "pool_size": size,
        "max_overflow": 0,
        "pool_timeout": timeout_s,
        "hide_parameters": True,
    }
    if kind.is_async:
        engine = create_async_engine(url, **options)
        core = engine.sync_engine
    else:
        engine = core = create_engine(url, **options)

    def set_up(connection: Any, _: Any) -> None:
        dialect: Any = core.dialect
        _set_up(connection, kind, timeout_s, writes=writes, refusal=dialect.dbapi.Error)

    event.listen(core, "connect", set_up)
    if kind.dialect == "mysql" and not writes:
        event.listen(core, "begin", _begin_to_read)
    return Pool(engine, kind, options["connect_args"], timeout_s + CONNECT_S)


def _set_up(connection: Any, kind: DatabaseKind, timeout_s: float, *, writes: bool, refusal: type[Exception]) -> None:
    cursor = connection.cursor()
    try:
        for alternatives in set_up_statements(kind, timeout_s, writes=writes):
            for statement in alternatives:
                try:
                    cursor.execute(statement)
                except refusal:
                    if len(alternatives) == 1:
                        raise
                    connection.rollback()
                    continue
                break
    finally:
        cursor.close()
    connection.commit()
    if kind.dialect == "mysql":
        connection.run_async(_turn_off_multi_statements)


def _begin_to_read(connection: Connection) -> None:
    """Begin a transaction that stays read-only, even if a stored function has changed the default of the session."""
    connection.exec_driver_sql("START TRANSACTION READ ONLY")


async def _turn_off_multi_statements(connection: Any) -> None:
    """Make a MySQL server refuse texts of several statements, which asyncmy always asks for."""
    await connection._execute_command(_SET_OPTION, _MULTI_STATEMENTS_OFF)
    await connection.read_packet()
