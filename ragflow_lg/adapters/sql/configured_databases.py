"""The databases of a deployment: connections from the settings, and those that canvases name themselves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.adapters.sql.database_kinds import (
    CONNECT_S,
    DatabaseKind,
    address_arguments,
    build_url,
    find_kind,
    kind_name,
)
from ragflow_lg.adapters.sql.read_only import NotSqlError
from ragflow_lg.adapters.sql.rows import RowLimits, Rows, read_rows
from ragflow_lg.adapters.sql.servers import DriverError, Server, Session, StatementTimeoutError, open_session
from ragflow_lg.adapters.sql.sql_settings import ConnectionSettings, SqlSettings
from ragflow_lg.adapters.sql.sqlite_file import file_uri, query_file
from ragflow_lg.adapters.sql.statements import Statement, bind, clean, read_statements
from ragflow_lg.base.errors import ServiceError, SettingsError, foreign_line
from ragflow_lg.base.extras import require
from ragflow_lg.services.databases import SqlQuery, StatementResult, Target
from ragflow_lg.services.workers import NoWorkers, Workers

MAX_ERROR_CHARS = 1_000
_STREAMED = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_TOO_LARGE = "this row is too large"
_ROW_CHECK = (
    "SELECT * FROM ({query}) AS ragflow_lg_row WHERE "
    "CAST(CASE WHEN pg_column_size(ragflow_lg_row) > {limit} THEN '{mark}' ELSE '1' END AS int) = 1"
)
"""A query that PostgreSQL ends before it sends a row above the limit: the driver would read the whole row."""
_ADDED = re.compile(
    r'DECLARE "[^"]+" CURSOR FOR (SELECT \* FROM \()?|\) AS ragflow_lg_row WHERE .*?= 1'
    r"| *\(Background on this error at: [^)]*\)"
)
"""What is put before and after a query to read its rows one by one, and SQLAlchemy's address for help."""
_RAGFLOW_DATABASE = "rag_flow"


class _Access(Struct, frozen=True):
    """How to reach a database."""

    connection: ConnectionSettings
    address: str
    """The address that was checked; ``""`` for the connections in the settings."""
    port: int

    @property
    def kind(self) -> DatabaseKind:
        """The kind of the database."""
        return find_kind(self.connection.account.kind)


class ConfiguredDatabases:
    """The `ragflow_lg.services.databases.Databases` of the settings."""

    def __init__(self, settings: SqlSettings, guard: AddressGuard, workers: Workers | None = None) -> None:
        """Initialize. The guard checks the addresses that canvases name."""
        self._settings = settings
        self._guard = guard
        self._workers = workers or NoWorkers()
        self._slots: dict[Any, tuple[asyncio.Semaphore, int]] = {}
        """The free connections by account and address, with the number of their users."""

    def allows_writes(self, target: Target) -> bool:
        """Return whether statements may change the database."""
        if isinstance(target, str):
            connection = self._settings.connections.get(target)
            return connection is not None and connection.allow_writes
        return self._settings.allow_writes

    async def run(self, target: Target, query: SqlQuery) -> Sequence[StatementResult]:
        """Run the statements in order, up to the first read without rows. A failed statement does not stop them."""
        access = await self._find(target)
        await asyncio.to_thread(__import__, "sqlglot")  # it is slow to load
        try:
            sql = clean(query.sql)
        except NotSqlError as error:
            return [StatementResult(query.sql, error=str(error))]
        entries = await self._workers.run(read_statements, sql, access.kind.dialect, list(query.values))
        statements = [Statement(**entry) for entry in entries]
        batch = _Batch(self._settings, access, query)
        if not any(batch.may_run(statement) for statement in statements):
            return [batch.refuse(statement) for statement in statements]
        if not access.kind.is_server:
            return await batch.run_on_file(self._workers, statements)
        async with self._slot(access):
            return await batch.run(self._server(access), statements)

    @asynccontextmanager
    async def _slot(self, access: _Access) -> AsyncGenerator[None]:
        """Wait until the account may have one more connection."""
        account = access.connection.account
        key = (asyncio.get_running_loop(), account.kind, account.host, account.port, account.username, account.database)
        slots, users = self._slots.get(key, (asyncio.Semaphore(self._settings.max_connections), 0))
        self._slots[key] = (slots, users + 1)
        try:
            async with slots:
                yield
        finally:
            slots, users = self._slots.pop(key)
            if users > 1:
                self._slots[key] = (slots, users - 1)

    async def check(self, target: Target) -> None:
        """Connect to a database and run a query that reads no table.

        Raises:
            SettingsError: if the connection is not in the settings, or a package is missing.
            ServiceError: if the address is refused, or the database does not answer.
        """
        access = await self._find(target)
        (result,) = await self.run(target, SqlQuery(access.kind.probe))
        if result.error:
            raise ServiceError(result.error)

    async def _find(self, target: Target) -> _Access:
        if isinstance(target, str):
            connection = self._settings.connections.get(target)
            if connection is None:
                raise SettingsError(
                    f"There is no database connection {target[:80]!r}: add [sql.connections.{target[:80]}] to the "
                    "settings."
                )
            _require(connection.account.kind)
            return _Access(connection, "", connection.account.port)
        _require(target.kind)
        if not find_kind(target.kind).is_server:
            raise ServiceError(
                f"A canvas cannot name a {target.kind} file. Add it to the settings as [sql.connections.NAME], and set "
                "connection to its name."
            )
        if target.database == _RAGFLOW_DATABASE and (
            target.host == "ragflow-mysql" or target.password == "infini_rag_flow"
        ):
            raise ServiceError("For the security reason, it does not support database named rag_flow.")
        try:
            address, port = (await self._guard.resolve(target.host, target.port))[0]
        except ServiceError as error:
            raise ServiceError(f"Database host {target.host[:200]!r} is not allowed: {error}") from None
        return _Access(ConnectionSettings(target, {}, self._settings.allow_writes), address, port)

    def _server(self, access: _Access) -> Server:
        connection = access.connection
        account, arguments = connection.account, dict[str, Any]()
        if access.address:
            arguments = address_arguments(access.kind, access.address)
            if "host" in arguments:
                account, arguments = replace(account, host=access.address), {}
        url = build_url(account, connection.options)
        return Server(access.kind, url, arguments, self._settings.timeout_s, connection.allow_writes)


def _require(kind: str) -> None:
    """Raise SettingsError if a package is missing."""
    require("sql", "ExeSQL")
    found = find_kind(kind)
    if found.module and find_spec(found.module) is None:
        raise SettingsError(
            f"A connection to {kind_name(kind)} needs the package {found.package}. Install it with: "
            f"pip install '{found.package}'"
        )


class _Batch:
    """The statements of one query, on one database."""

    def __init__(self, settings: SqlSettings, access: _Access, query: SqlQuery) -> None:
        self._settings = settings
        self._access = access
        self._query = query
        self._writes = access.connection.allow_writes
        self._limits = RowLimits(min(query.max_rows, settings.max_rows), settings.max_result_bytes)

    def may_run(self, statement: Statement) -> bool:
        """Return whether a statement can be read and is allowed."""
        return not statement.error and (self._writes or not statement.refusal)

    def refuse(self, statement: Statement) -> StatementResult:
        """Return the result of a statement that may not run."""
        error = statement.error or statement.refusal
        return StatementResult(statement.text, error=error, is_refused=statement.is_sql and not statement.error)

    async def run(self, server: Server, statements: Sequence[Statement]) -> list[StatementResult]:
        """Run the statements on a server. If the connection breaks, the next statement gets another one.

        If there is none, the statements that have run keep their results: they may have changed the database.
        """
        results: list[StatementResult] = []
        pending = list(statements)
        while pending:
            try:
                async with open_session(server) as session:
                    while pending and not (session.is_broken or session.is_sending):
                        results.append(await self._run_one(session, pending.pop(0)))
                        last = results[-1]
                        if last.columns and not last.rows:
                            return results
            except DriverError as error:
                reason = f"Database Connection Failed! {self._describe(error.original)}"
                if not results:
                    raise ServiceError(reason, is_retryable=True) from None
                return results + [
                    self._failure(each, reason) if self.may_run(each) else self.refuse(each) for each in pending
                ]
        return results

    async def run_on_file(self, workers: Workers, statements: Sequence[Statement]) -> list[StatementResult]:
        """Run the statements on an SQLite file."""
        account, options = self._access.connection.account, self._access.connection.options
        uri = file_uri(account.database, options, writes=self._writes)
        runnable: list[dict[str, Any]] = []
        for statement in filter(self.may_run, statements):
            text, values = bind(statement.parts, self._query.values, "?")
            runnable.append({"text": text, "values": list(values), "is_read": not statement.refusal})
        try:
            found = iter(await query_file(workers, uri, runnable, self._limits, self._settings.timeout_s))
        except ServiceError as error:
            raise ServiceError(f"Database Connection Failed! {self._describe(error)}", is_retryable=True) from None
        results: list[StatementResult] = []
        for statement in statements:
            if not self.may_run(statement):
                results.append(self.refuse(statement))
                continue
            fields: dict[str, Any] | None = next(found, None)
            if fields is None:
                break  # a read without rows has ended the batch
            results.append(self._file_result(statement, fields))
        return results

    def _file_result(self, statement: Statement, fields: Mapping[str, Any]) -> StatementResult:
        if fields.get("is_late"):
            return self._failure(statement, self._late)
        if error := fields.get("error"):
            return self._failure(statement, self._describe(ServiceError(error)))
        columns = fields["columns"]
        rows = Rows(None if columns is None else tuple(columns), *list(fields.values())[1:])
        return self._result(statement, rows)

    @property
    def _late(self) -> str:
        return f"It took longer than {self._settings.timeout_s:g} s and was stopped ([sql] timeout_s)."

    @property
    def _too_large(self) -> str:
        limit = self._settings.max_result_bytes
        return f"Its result is larger than {limit:,} bytes. Select less."

    def _result(self, statement: Statement, rows: Rows) -> StatementResult:
        if rows.columns is None and rows.is_cut:
            return self._failure(statement, self._too_large)
        if rows.columns is None:
            return StatementResult(statement.text, changed=rows.changed)
        return StatementResult(statement.text, rows.columns, rows.rows, has_more=rows.is_cut)

    async def _run_one(self, session: Session, statement: Statement) -> StatementResult:
        if not self.may_run(statement):
            return self.refuse(statement)
        kind = self._access.kind
        text, values = bind(statement.parts, self._query.values, kind.binds)
        is_read = not statement.refusal
        first = statement.parts[0] if statement.parts and isinstance(statement.parts[0], str) else ""
        streams = kind.is_async and is_read and first.upper().startswith(_STREAMED)
        if streams and kind.dialect == "postgres":
            text = _ROW_CHECK.format(query=text, limit=self._settings.max_result_bytes, mark=_TOO_LARGE)
        work = partial(
            read_rows,
            text=text,
            values=values,
            limits=self._limits,
            is_read=is_read,
            streams=streams,
            chunk_rows=kind.chunk_rows,
        )
        try:
            rows = await session.run(work, self._settings.timeout_s)
        except StatementTimeoutError:
            return self._failure(statement, self._late)
        except DriverError as error:
            await self._roll_back(session)
            reason = self._describe(error.original)
            return self._failure(statement, self._too_large if _TOO_LARGE in reason else reason)
        session.is_sending = rows.is_cut
        return self._result(statement, rows)

    async def _roll_back(self, session: Session) -> None:
        try:
            await session.run(lambda connection: connection.rollback(), CONNECT_S)
        except (DriverError, StatementTimeoutError):  # the connection is of no more use
            session.is_broken = True

    def _failure(self, statement: Statement, reason: str) -> StatementResult:
        return StatementResult(statement.text, error=reason)

    def _describe(self, error: Exception) -> str:
        """Return the driver's message, without the password and what SQLAlchemy adds."""
        text = str(getattr(error, "orig", None) or error) or type(error).__name__
        secrets = [self._access.connection.account.password, *self._access.connection.options.values()]
        line = foreign_line(text, secrets, 2 * MAX_ERROR_CHARS)
        return _ADDED.sub("", line)[:MAX_ERROR_CHARS]
