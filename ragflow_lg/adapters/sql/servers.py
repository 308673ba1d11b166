"""Connections to database servers, on which statements are limited in time, and killed if they are late."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ragflow_lg.adapters.sql.database_kinds import CONNECT_S, DatabaseKind, set_up_statements
from ragflow_lg.base.errors import RagflowLgError

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

T = TypeVar("T")

KILL_S = 5.0
"""Time limit for telling a server to stop a statement."""
GRACE_S = 2.0
"""How much longer we wait than the server, whose own limit leaves the connection usable."""
_SET_OPTION = 0x1B
_MULTI_STATEMENTS_OFF = struct.pack("<H", 1)


class DriverError(Exception):
    """An exception of a driver, or of SQLAlchemy: ``original``."""

    def __init__(self, original: Exception) -> None:
        super().__init__(str(original))
        self.original = original


class StatementTimeoutError(Exception):
    """The statement took too long."""


@contextmanager
def converting_errors() -> Generator[None]:
    """Convert a driver's exceptions to `DriverError`. For odd answers, drivers raise even UnboundLocalError."""
    try:
        yield
    except (RagflowLgError, DriverError):
        raise
    except Exception as error:
        raise DriverError(error) from error


class Server(Struct, frozen=True):
    """A database server, and an account for it."""

    kind: DatabaseKind
    url: URL
    arguments: Mapping[str, Any]
    """The driver's arguments that are not in the URL."""
    timeout_s: float
    """Time limit for a statement."""
    writes: bool

    @property
    def open_s(self) -> float:
        """How long a new session may take: connecting, and setting it up."""
        return self.timeout_s + CONNECT_S


class Session:
    """A connection that one task uses. ``driver`` is the driver's connection."""

    def __init__(self, server: Server, connection: Any, driver: Any) -> None:
        self._server = server
        self._connection = connection
        self._driver = driver
        self.is_broken = False
        self.is_sending = False
        """Whether the server still sends rows that nobody reads."""

    async def run(self, work: Callable[[Connection], T], timeout_s: float) -> T:
        """Run a function with the connection. If it takes too long or is cancelled, the statement is killed.

        Raises:
            DriverError: if it fails.
            StatementTimeoutError: if it takes too long.
        """
        task = _start(self._call(work))
        try:
            await asyncio.wait({task}, timeout=timeout_s + GRACE_S)
        except asyncio.CancelledError:
            self.is_broken = True
            await asyncio.shield(_start(self._stop(task)))
            raise
        if not task.done():
            self.is_broken = True
            await asyncio.shield(_start(self._stop(task)))
            raise StatementTimeoutError
        with converting_errors():
            return task.result()

    async def close(self) -> None:
        """Close the connection, and drop one that is broken or still sending."""
        if not self._server.kind.is_async:
            await asyncio.to_thread(self._connection.close)
            return
        with suppress(DriverError), converting_errors():
            async with asyncio.timeout(KILL_S):
                if self.is_broken or self.is_sending:
                    await self._connection.invalidate()
                await self._connection.close()

    async def _call(self, work: Callable[[Connection], T]) -> T:
        if self._server.kind.is_async:
            return await self._connection.run_sync(work)
        return await asyncio.to_thread(self._work_in_thread, work)

    def _work_in_thread(self, work: Callable[[Connection], T]) -> T:
        try:
            return work(self._connection)
        finally:
            if self.is_broken:  # nobody waits for it any more, and only this thread may use the connection
                self._connection.close()

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        """Stop the statement in the server, and drop the connection.

        Only then is the task cancelled: some drivers would wait for the end of the statement to close the connection.
        """
        kill = _KILLERS.get(self._server.kind.dialect)
        with suppress(DriverError), converting_errors():  # the connection is dropped in any case
            async with asyncio.timeout(KILL_S):
                if kill is not None:
                    await kill(self._server, self._driver)
        if not self._server.kind.is_async:
            return  # a thread cannot be stopped
        await asyncio.wait({task}, timeout=KILL_S)
        task.cancel()
        await self.close()


_tasks: set[asyncio.Task[Any]] = set()


def _start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work that must end even if its caller is cancelled."""
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_forget)
    return task


def _forget(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()  # of a statement that was stopped


async def _kill_in_mysql(server: Server, driver: Any) -> None:
    import asyncmy

    arguments = {**server.url.translate_connect_args(username="user", database="db"), **server.arguments}
    killer: Any = await asyncmy.connect(**arguments)  # pyright: ignore[reportUnknownMemberType]
    try:
        async with killer.cursor() as cursor:
            await cursor.execute(f"KILL QUERY {int(driver.thread_id())}")
    finally:
        killer.close()


_KILLERS: dict[str, Callable[[Server, Any], Awaitable[None]]] = {
    "mysql": _kill_in_mysql,
    "postgres": lambda server, driver: driver.cancel_safe(timeout=KILL_S),
}


@asynccontextmanager
async def open_session(server: Server) -> AsyncGenerator[Session]:
    """Yield a session. Its transaction is rolled back at the end.

    Raises:
        DriverError: if the server cannot be reached, or the connection breaks.
    """
    with converting_errors():
        engine = _create_engine(server)
        if server.kind.is_async:
            try:
                async with asyncio.timeout(server.open_s):  # asyncmy would wait for a greeting without end
                    connection = await engine.connect()
            except TimeoutError:
                raise TimeoutError(f"It did not answer within {server.open_s:g} s.") from None
            driver = (await connection.get_raw_connection()).driver_connection
        else:
            connection, driver = await asyncio.to_thread(engine.connect), None
        session = Session(server, connection, driver)
        try:
            yield session
        finally:
            if not session.is_broken:  # otherwise it is closed, or a thread still uses it
                await asyncio.shield(_start(session.close()))


def _create_engine(server: Server) -> Any:
    """Create an engine. Each session is limited in time and, unless it may write, read-only."""
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.ext.asyncio import create_async_engine

    kind = server.kind
    create: Any = create_async_engine if kind.is_async else create_engine
    arguments = {**kind.connect, **server.arguments}
    engine = create(server.url, connect_args=arguments, poolclass=NullPool, hide_parameters=True)
    core = engine.sync_engine if kind.is_async else engine

    def set_up(connection: Any, _: Any) -> None:
        _set_up(connection, server, core.dialect.dbapi.Error)

    event.listen(core, "connect", set_up)
    if kind.dialect == "mysql" and not server.writes:
        event.listen(core, "begin", _begin_to_read)
    return engine


def _set_up(connection: Any, server: Server, refusal: type[Exception]) -> None:
    cursor = connection.cursor()
    try:
        for alternatives in set_up_statements(server.kind, server.timeout_s, writes=server.writes):
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
    if server.kind.dialect == "mysql":
        connection.run_async(_turn_off_multi_statements)


def _begin_to_read(connection: Connection) -> None:
    """Begin a transaction that stays read-only, even if a stored function has changed the default of the session."""
    connection.exec_driver_sql("START TRANSACTION READ ONLY")


async def _turn_off_multi_statements(connection: Any) -> None:
    """Make a MySQL server refuse texts of several statements, which asyncmy always asks for."""
    await connection._execute_command(_SET_OPTION, _MULTI_STATEMENTS_OFF)
    await connection.read_packet()
