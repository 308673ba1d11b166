"""Running one statement on a connection: rows up to the limits, and an end of the statement when time is up."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from ragflow_lg.adapters.sql.pools import Pool
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.values import JsonValue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sqlalchemy import Connection


class DriverError(Exception):
    """An exception of a driver, or of SQLAlchemy: ``original``."""

    def __init__(self, original: Exception) -> None:
        super().__init__(str(original))
        self.original = original


@contextmanager
def converting_errors() -> Generator[None]:
    """Convert a driver's exceptions to `DriverError`. For odd answers, drivers raise even UnboundLocalError."""
    try:
        yield
    except (RagflowLgError, DriverError):
        raise
    except Exception as error:
        raise DriverError(error) from error


T = TypeVar("T")

KILL_S = 5.0
"""Time limit for telling a server to stop a statement."""
GRACE_S = 2.0
"""How much longer we wait than the server, whose own limit leaves the connection usable."""


class RowLimits(Struct, frozen=True):
    """How much of a result is read."""

    rows: int
    bytes: int


class Rows(Struct, frozen=True):
    """The result of a statement. ``columns`` is None if it returns no rows."""

    columns: tuple[str, ...] | None
    rows: list[dict[str, JsonValue]]
    changed: int = -1
    is_cut: bool = False
    """Whether there are more rows. The result is then still open, because closing it may read all of them."""


class StatementTimeoutError(Exception):
    """The statement took too long."""


class Session:
    """A connection of a pool, used by one task. ``driver`` is the driver's connection."""

    def __init__(self, pool: Pool, connection: Any, driver: Any) -> None:
        self._pool = pool
        self._connection = connection
        self._driver = driver
        self.is_broken = False

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

    async def drop(self) -> None:
        """Drop the connection, whatever it is still sending."""
        self.is_broken = True
        if self._pool.kind.is_async:
            await self._connection.invalidate()

    async def _call(self, work: Callable[[Connection], T]) -> T:
        if self._pool.kind.is_async:
            return await self._connection.run_sync(work)
        return await asyncio.to_thread(work, self._connection)

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        """Stop the statement in the server, and drop the connection.

        Only then is the task cancelled: some drivers would wait for the end of the statement to close the connection.
        """
        kill = _KILLERS.get(self._pool.kind.dialect)
        with suppress(DriverError), converting_errors():  # the connection is dropped in any case
            async with asyncio.timeout(KILL_S):
                if kill is not None:
                    await kill(self._pool, self._driver)
        if not self._pool.kind.is_async:
            task.add_done_callback(lambda _: _start(asyncio.to_thread(self._connection.close)))
            return  # a thread cannot be stopped
        await asyncio.wait({task}, timeout=KILL_S)
        task.cancel()
        with suppress(DriverError), converting_errors():
            async with asyncio.timeout(KILL_S):
                await self._connection.invalidate()


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


async def _kill_in_mysql(pool: Pool, driver: Any) -> None:
    import asyncmy

    engine: Any = pool.engine
    arguments = {**engine.url.translate_connect_args(username="user", database="db"), **pool.arguments}
    killer: Any = await asyncmy.connect(**arguments)  # pyright: ignore[reportUnknownMemberType]
    try:
        async with killer.cursor() as cursor:
            await cursor.execute(f"KILL QUERY {int(driver.thread_id())}")
    finally:
        killer.close()


_KILLERS: dict[str, Callable[[Pool, Any], Awaitable[None]]] = {
    "mysql": _kill_in_mysql,
    "postgres": lambda pool, driver: driver.cancel_safe(timeout=KILL_S),
}


@asynccontextmanager
async def open_session(pool: Pool, *, is_kept: bool) -> AsyncGenerator[Session]:
    """Yield a session. Its transaction is rolled back at the end; unless ``is_kept``, the connection is dropped.

    Raises:
        DriverError: if the database cannot be reached, or the connection breaks.
    """
    opened = _open_async_session(pool, is_kept=is_kept) if pool.kind.is_async else _open_thread_session(pool)
    with converting_errors():
        async with opened as session:
            yield session


@asynccontextmanager
async def _open_async_session(pool: Pool, *, is_kept: bool) -> AsyncGenerator[Session]:
    engine: Any = pool.engine
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(pool.open_s):  # asyncmy would wait for a greeting without end
                connection = await stack.enter_async_context(engine.connect())
        except TimeoutError:
            raise TimeoutError(f"It did not answer within {pool.open_s:g} s.") from None
        raw = await connection.get_raw_connection()
        session = Session(pool, connection, raw.driver_connection)
        try:
            yield session
        finally:
            if not is_kept and not session.is_broken:
                await connection.invalidate()


@asynccontextmanager
async def _open_thread_session(pool: Pool) -> AsyncGenerator[Session]:
    engine: Any = pool.engine
    connection = await asyncio.to_thread(engine.connect)
    session = Session(pool, connection, None)
    try:
        yield session
    finally:
        if not session.is_broken:  # otherwise a thread still uses it
            await asyncio.to_thread(connection.close)


def read_rows(
    connection: Connection,
    text: str,
    values: tuple[Any, ...],
    limits: RowLimits,
    *,
    is_read: bool,
    streams: bool,
    chunk_rows: int,
) -> Rows:
    """Run a statement and read its rows. What does not merely read is committed.

    A result that is larger than the limit has no columns and is cut.
    """
    options: dict[str, Any] = {"stream_results": streams}
    if not values:
        options["no_parameters"] = True  # some drivers would look for marks
    result = connection.exec_driver_sql(text, values or None, execution_options=options)
    if not result.returns_rows:
        if not is_read:
            connection.commit()
        return Rows(None, [], result.rowcount)
    rows = rows_of(list(result.keys()), result.fetchmany, limits, chunk_rows=chunk_rows)
    if not rows.is_cut:
        result.close()
        if not is_read:
            connection.commit()
    return rows


def rows_of(
    titles: Sequence[str], fetch: Callable[[int], Sequence[Sequence[Any]]], limits: RowLimits, *, chunk_rows: int
) -> Rows:
    """Return rows up to the limits. ``fetch`` returns the next rows, of which ``chunk_rows`` are in memory at once."""
    columns = tuple(map(str, titles))
    names = distinct_names(columns)
    rows: list[dict[str, JsonValue]] = []
    size = 0
    while chunk := fetch(min(chunk_rows, limits.rows + 1 - len(rows))):
        for row in chunk:
            entries = [to_json_value(value) for value in row]
            size += sum(map(size_of_value, entries))
            rows.append(dict(zip(names, entries, strict=True)))
        if size > limits.bytes:
            return Rows(None, [], is_cut=True)
        if len(rows) > limits.rows:
            return Rows(columns, rows[: limits.rows], is_cut=True)
    return Rows(columns, rows)


def distinct_names(columns: Sequence[str]) -> list[str]:
    """Return a name for each column: its title, with a number if an earlier column has the same one.

    >>> distinct_names(["id", "name", "id", "id_2", "id"])
    ['id', 'name', 'id_3', 'id_2', 'id_4']
    """
    taken, counts, names = set(columns), dict[str, int](), list[str]()
    for column in columns:
        name, number = column, counts.get(column, 0) + 1
        while number > 1 and (name := f"{column}_{number}") in taken:
            number += 1
        counts[column] = number
        taken.add(name)
        names.append(name)
    return names


def to_json_value(value: Any) -> JsonValue:
    """Return a column's value as JSON: points in time as ``YYYY-MM-DD``, decimals as numbers, other types as text.

    Source: RAGFlow's ``agent/tools/exesql.py``.

    >>> to_json_value(datetime(2026, 5, 4, 3, 2)), to_json_value(Decimal("1.50")), to_json_value(float("nan"))
    ('2026-05-04', 1.5, None)
    >>> to_json_value(b"abc"), to_json_value(bytes([255])), to_json_value(timedelta(hours=1))
    ('abc', 'ff', '1:00:00')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            number = float(value)
            return number if math.isfinite(number) else None
        case datetime() | date():
            return value.strftime("%Y-%m-%d")
        case time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return _text_of(bytes(cast("bytes", value)))
        case Mapping():
            entries = cast("Mapping[Any, Any]", value)
            return {str(key): to_json_value(entry) for key, entry in entries.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_value(entry) for entry in cast("list[Any]", value)]
        case _:
            return str(value)


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()


def size_of_value(value: JsonValue) -> int:
    """Return about how many bytes a value takes."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, Mapping | list):
        entries: Any = cast("Any", value).items() if isinstance(value, Mapping) else value
        return 2 + sum(size_of_value(entry) for entry in entries)
    if isinstance(value, tuple):
        return sum(size_of_value(entry) for entry in cast("tuple[Any, ...]", value))
    return 8
