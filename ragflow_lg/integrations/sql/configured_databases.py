"""The databases of a deployment: connections from the settings, and those that canvases name themselves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError, foreign_line
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.sql.database_kinds import build_url, find_kind, kind_name
from ragflow_lg.integrations.sql.read_only import NotSqlError
from ragflow_lg.integrations.sql.rows import RowLimits
from ragflow_lg.integrations.sql.servers import TOO_LARGE, Server, ServerConnection, open_connection
from ragflow_lg.integrations.sql.sql_settings import ConnectionSettings, SqlSection, SqlSettings
from ragflow_lg.integrations.sql.sqlite_file import file_uri, query_file
from ragflow_lg.integrations.sql.statements import Statement, clean, read_statements
from ragflow_lg.services.databases import SqlQuery, StatementResult, Target
from ragflow_lg.services.workers import NoWorkers, Workers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_ERROR_CHARS = 1_000
MAX_CONNECTIONS = 5
"""Maximum number of connections to one database with one account. Each query opens one."""
_ADDED = re.compile(
    r'DECLARE "[^"]+" CURSOR FOR (SELECT \* FROM \()?|\) AS ragflow_lg_row WHERE .*?(= 1|\.\.\.)'
    r"|\.\.\.([^()]*\*)? ?F?R?O?M? ?\(|\) (A?|AS ?|AS r\w*)\.\.\."  # PostgreSQL shows a part of a long line
    r"| *\(Background on this error at: [^)]*\)"
)
"""What is put before and after a query to read its rows one by one, and SQLAlchemy's address for help."""
_RAGFLOW_DATABASE = "rag_flow"


class ConfiguredDatabases:
    """The `ragflow_lg.services.databases.Databases` of the settings."""

    def __init__(self, settings: SqlSettings, guard: AddressGuard, workers: Workers | None = None) -> None:
        """Initialize. The guard checks the addresses that canvases name."""
        self._settings = settings
        self._guard = guard
        self._workers = workers or NoWorkers()
        self._slots = WeakValueDictionary[Any, asyncio.Semaphore]()
        """The free connections of the accounts that are in use."""

    def allows_writes(self, target: Target) -> bool:
        """Return whether statements may change the database."""
        if isinstance(target, str):
            connection = self._settings.connections.get(target)
            return connection is not None and connection.allow_writes
        return self._settings.allow_writes

    async def run(self, target: Target, query: SqlQuery) -> Sequence[StatementResult]:
        """Run the statements in order, up to the first read without rows. A failed statement does not stop them."""
        connection, address = await self._find(target)
        kind = find_kind(connection.account.kind)
        await asyncio.to_thread(__import__, "sqlglot")  # it is slow to load
        try:
            sql = clean(query.sql)
        except NotSqlError as error:
            return [StatementResult(query.sql, error=str(error))]
        entries = await self._workers.run(read_statements, sql, kind.dialect, query.values, kind.binds)
        statements = msgspec.convert(entries, list[Statement])
        refused = [_refused(statement, writes=connection.allow_writes) for statement in statements]
        to_run = [statement for statement, refusal in zip(statements, refused, strict=True) if refusal is None]
        limits = RowLimits(min(query.max_rows, self._settings.max_rows), self._settings.max_result_bytes)
        found = iter(await self._run_all(connection, address, to_run, limits) if to_run else [])
        results: list[StatementResult] = []
        for refusal in refused:
            result = refusal or next(found, None)
            if result is None:  # a read without rows has ended the batch
                break
            results.append(result)
        return results

    async def _run_all(
        self, connection: ConnectionSettings, address: str, statements: Sequence[Statement], limits: RowLimits
    ) -> Sequence[StatementResult]:
        account, timeout_s = connection.account, self._settings.timeout_s
        if not find_kind(account.kind).is_server:
            uri = file_uri(account.database, connection.options, writes=connection.allow_writes)
            try:
                found = await query_file(self._workers, uri, statements, limits, timeout_s)
            except ServiceError as error:
                raise ServiceError(_failed_connection(connection, error), is_retryable=True) from None
            return [replace(each, error=_describe(connection, each.error)) for each in found]
        slots = self._slots.setdefault(replace(account, password=""), asyncio.Semaphore(MAX_CONNECTIONS))
        async with slots:
            return await _Batch(connection, self._server(connection, address), limits).run(statements)

    def for_tenant(self, settings: Settings, services: Services) -> ConfiguredDatabases:
        """Return the databases and addresses of a tenant."""
        return make_databases(settings, services.workers)

    async def check(self, target: Target, *, timeout_s: float | None = None) -> None:
        """Connect to a database and run a query that reads no table.

        Raises:
            SettingsError: if the connection is not in the settings, or a package is missing.
            ServiceError: if the address is refused, or the database does not answer.
        """
        connection, _ = await self._find(target)
        settings = replace(self._settings, timeout_s=timeout_s or self._settings.timeout_s)
        databases = ConfiguredDatabases(settings, self._guard, self._workers)
        (result,) = await databases.run(target, SqlQuery(find_kind(connection.account.kind).probe))
        if result.error:
            raise ServiceError(result.error)

    async def _find(self, target: Target) -> tuple[ConnectionSettings, str]:
        """Return how to reach a database, and the address that was checked if a canvas names it."""
        if isinstance(target, str):
            connection = self._settings.connections.get(target)
            if connection is None:
                raise SettingsError(
                    f"There is no database connection {target[:80]!r}: add [sql.connections.{target[:80]}] to the "
                    "settings."
                )
            _require(connection.account.kind)
            return connection, ""
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
            address, _ = (await self._guard.resolve(target.host, target.port))[0]
        except ServiceError as error:
            raise ServiceError(f"Database host {target.host[:200]!r} is not allowed: {error}") from None
        return ConnectionSettings(target, {}, self._settings.allow_writes), address

    def _server(self, connection: ConnectionSettings, address: str) -> Server:
        account, kind = connection.account, find_kind(connection.account.kind)
        arguments = {"hostaddr": address} if address and kind.dialect == "postgres" else dict[str, Any]()
        if address and not arguments:
            account = replace(account, host=address)
        url = build_url(account, connection.options)
        return Server(kind, url, arguments, self._settings.timeout_s, connection.allow_writes)


def _require(kind: str) -> None:
    """Raise SettingsError if a package is missing."""
    require("sql", "ExeSQL")
    found = find_kind(kind)
    if found.module and find_spec(found.module) is None:
        raise SettingsError(
            f"A connection to {kind_name(kind)} needs the package {found.package}. Install it with: "
            f"pip install '{found.package}'"
        )


def _refused(statement: Statement, *, writes: bool) -> StatementResult | None:
    """Return the result of a statement that may not run, or cannot be read."""
    if statement.error or (statement.refusal and not writes):
        is_refused = statement.is_sql and not statement.error
        return StatementResult(statement.text, error=statement.error or statement.refusal, is_refused=is_refused)
    return None


class _Batch:
    """The statements of one query, on a server."""

    def __init__(self, settings: ConnectionSettings, server: Server, limits: RowLimits) -> None:
        self._settings = settings
        self._server = server
        self._limits = limits

    async def run(self, statements: Sequence[Statement]) -> Sequence[StatementResult]:
        """Run the statements. If the connection breaks, the next statement gets another one.

        If there is none, the statements that have run keep their results: they may have changed the database.
        """
        results: list[StatementResult] = []
        while len(results) < len(statements):
            try:
                async with open_connection(self._server) as connection:
                    while connection.is_usable and len(results) < len(statements):
                        results.append(await self._run_one(connection, statements[len(results)]))
                        if results[-1].ends_batch:
                            return results
            except Exception as error:  # noqa: BLE001 - for odd answers, drivers raise even UnboundLocalError
                reason = _failed_connection(self._settings, error)
                if not results:
                    raise ServiceError(reason, is_retryable=True) from None
                rest = statements[len(results) :]
                return results + [StatementResult(statement.text, error=reason) for statement in rest]
        return results

    async def _run_one(self, connection: ServerConnection, statement: Statement) -> StatementResult:
        try:
            return await connection.read(statement, self._limits)
        except TimeoutError:
            seconds = f"{self._server.timeout_s:g} s"
            reason = f"It took longer than {seconds} and was stopped ([sql] timeout_s)."
        except Exception as error:  # noqa: BLE001 - a driver's
            reason = _describe(self._settings, error)
            reason = self._limits.error if TOO_LARGE in reason else reason
        return StatementResult(statement.text, error=reason)


def _failed_connection(connection: ConnectionSettings, error: Exception) -> str:
    return f"Database Connection Failed! {_describe(connection, error)}"


def _describe(connection: ConnectionSettings, error: Exception | str) -> str:
    """Return the driver's message, without the password and what SQLAlchemy adds."""
    text = str(getattr(error, "orig", None) or error) or (error and type(error).__name__)
    secrets = [connection.account.password, *connection.options.values()]
    return _ADDED.sub("", foreign_line(text, secrets, 2 * MAX_ERROR_CHARS))[:MAX_ERROR_CHARS]


def make_databases(settings: Settings, workers: Workers) -> ConfiguredDatabases:
    """Return databases, which connect whenever they are used."""
    return ConfiguredDatabases(settings.section(SqlSection).settings(), AddressGuard(settings.http.allow), workers)


@asynccontextmanager
async def open_databases(settings: Settings, services: Services) -> AsyncGenerator[ConfiguredDatabases]:
    """Open the databases that the settings describe."""
    yield make_databases(settings, services.workers)


async def probe_databases(settings: Settings) -> list[CheckResult]:
    """Query each database."""
    connections = settings.section(SqlSection).connections
    databases = make_databases(settings, NoWorkers())
    return await asyncio.gather(*(_probe(databases, name) for name in connections))


async def _probe(databases: ConfiguredDatabases, name: str) -> CheckResult:
    where = f"the database [sql.connections.{name}]"
    try:
        await databases.check(name)
    except RagflowLgError as error:
        return CheckResult(False, f"{where} cannot be reached", str(error))
    access = "may be changed" if databases.allows_writes(name) else "read-only"
    return CheckResult(True, f"{where} answers ({access})")
