"""The kinds of databases: their drivers, dialects, and how a connection becomes read-only and limited in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.databases import DatabaseAccount

if TYPE_CHECKING:
    from sqlalchemy import URL

CONNECT_S = 10
"""Time limit for a connection."""
LONGEST_MS = 2**31 - 1
_OTHER_QUOTES = ("NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI", "ORACLE", "MSSQL", "DB2", "MAXDB", "POSTGRESQL")
"""SQL modes in which quotes or backslashes do not have MySQL's default meaning, with which the check reads them.

MariaDB's modes for other databases include ``ANSI_QUOTES``.
"""


class DatabaseKind(Struct, frozen=True):
    """One kind of database."""

    driver: str
    """SQLAlchemy's name for dialect and driver; ``""`` for files, which Python reads itself."""
    dialect: str
    """sqlglot's name for the dialect."""
    package: str = ""
    """The package with the driver, as pip spells it, if it is not part of the extra ``sql``."""
    module: str = ""
    """The top-level module of that package."""
    is_async: bool = True
    """Whether the driver is asynchronous; others run in threads."""
    is_server: bool = True
    port: int = 0
    """The port of its servers, unless an account names another."""
    probe: str = "SELECT 1"
    """A query that reads no table."""
    binds: str = "?"
    """How the driver marks a bound value."""
    connect: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments for the driver."""
    chunk_rows: int = 16
    """How many rows are read at once, and so are in memory whatever their size."""
    begin_to_read: Sequence[str] = ()
    """What makes a transaction read-only, if anything does."""


_MYSQL = DatabaseKind(
    "mysql+asyncmy",
    "mysql",
    port=3306,
    binds="%s",
    connect={"connect_timeout": CONNECT_S},
    chunk_rows=1,
    begin_to_read=("SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"),  # the first is for DROP TABLE
)

KINDS: Mapping[str, DatabaseKind] = {
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "oceanbase": _MYSQL,
    "postgres": DatabaseKind(
        "postgresql+psycopg",
        "postgres",
        port=5432,
        binds="%s",
        # A prepared statement is a single statement, whatever its text contains.
        connect={"connect_timeout": CONNECT_S, "prepare_threshold": 0},
        begin_to_read=("SET TRANSACTION READ ONLY",),
    ),
    "mssql": DatabaseKind("mssql+aioodbc", "tsql", "aioodbc", "aioodbc", port=1433, connect={"timeout": CONNECT_S}),
    "sqlite": DatabaseKind("", "sqlite", is_server=False),
    "ibm db2": DatabaseKind(
        "db2+ibm_db", "", "ibm-db-sa", "ibm_db_sa", is_async=False, port=50000, probe="SELECT 1 FROM sysibm.sysdummy1"
    ),
    "trino": DatabaseKind("trino", "trino", "trino[sqlalchemy]", "trino", is_async=False, port=8080),
}
"""The kinds by the lower-case name that RAGFlow's editor uses."""

ALIASES = {"postgresql": "postgres", "db2": "ibm db2", "sqlserver": "mssql"}


def kind_name(name: str) -> str:
    """Return the name of a kind under which `KINDS` has it.

    >>> [kind_name(name) for name in ("PostgreSQL", "IBM DB2", "mysql")]
    ['postgres', 'ibm db2', 'mysql']
    """
    key = " ".join(name.lower().split())
    return ALIASES.get(key, key)


def find_kind(name: str) -> DatabaseKind:
    """Return a kind by the name that canvases use.

    Raises:
        ServiceError: if there is no such kind.
    """
    kind = KINDS.get(kind_name(name))
    if kind is None:
        raise ServiceError(f"There is no database type {name[:40]!r}. The types are {', '.join(KINDS)}.")
    return kind


def build_url(account: DatabaseAccount, options: Mapping[str, str]) -> URL:
    """Return SQLAlchemy's URL for an account on a server."""
    from sqlalchemy import URL

    kind = find_kind(account.kind)
    database = account.database
    if kind.dialect == "trino":
        catalog, _, schema = database.replace(".", "/", 1).partition("/")
        database = f"{catalog}/{schema or 'default'}"
    query = {"driver": "ODBC Driver 18 for SQL Server", **options} if kind.dialect == "tsql" else dict(options)
    return URL.create(
        kind.driver, account.username, account.password or None, account.host, account.port, database, query
    )


def set_up_statements(kind: DatabaseKind, timeout_s: float) -> Iterable[tuple[str, ...]]:
    """Yield what a new connection runs first: groups of which the first statement that the server knows is enough."""
    limit_ms = min(int(timeout_s * 1000) or 1, LONGEST_MS)
    if kind.dialect == "postgres":
        yield (f"SET statement_timeout = {limit_ms}",)
        yield ("SET standard_conforming_strings = on",)
    elif kind.dialect == "mysql":
        yield (
            f"SET SESSION max_statement_time = {limit_ms / 1000:g}",  # MariaDB, seconds
            f"SET SESSION ob_query_timeout = {limit_ms * 1000}",  # OceanBase, microseconds
            f"SET SESSION max_execution_time = {limit_ms}",  # MySQL, milliseconds
        )
        modes = "@@sql_mode"
        for mode in _OTHER_QUOTES:
            modes = f"REPLACE({modes}, '{mode}', '')"
        yield (f"SET SESSION sql_mode = {modes}",)
    elif kind.dialect == "tsql":
        yield (f"SET LOCK_TIMEOUT {limit_ms}",)
