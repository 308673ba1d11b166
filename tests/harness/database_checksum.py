"""A checksum of a whole database: its rows, its schema, and what statements can change beside them.

An observer keeps one connection, so that a statement that ends other connections is noticed as well.
"""

import hashlib
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragflow_lg.services.databases import DatabaseAccount
from tests.fakes.databases import connect

_CATALOGS = (
    *("proc", "type", "namespace", "constraint", "index", "trigger", "rewrite", "attrdef", "description", "policy"),
    *("largeobject", "largeobject_metadata", "extension", "default_acl", "event_trigger", "foreign_server", "sequence"),
)
_POSTGRES = (
    "SELECT count(*), sum(xmin::text::bigint), max(oid) FROM pg_class WHERE oid >= 16384",
    "SELECT count(*), sum(xmin::text::bigint) FROM pg_attribute WHERE attrelid >= 16384",
    *(f"SELECT count(*), sum(xmin::text::bigint) FROM pg_{name}" for name in _CATALOGS),
    "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles ORDER BY 1",
    "SELECT setconfig::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase "
    "WHERE datname = current_database()",
    "SELECT name, setting FROM pg_file_settings ORDER BY 1",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())",
)
_MARIADB = (
    "SELECT table_name, table_type, engine, table_comment FROM information_schema.tables "
    "WHERE table_schema = DATABASE() ORDER BY 1",
    "SELECT table_name, column_name, column_type FROM information_schema.columns "
    "WHERE table_schema = DATABASE() ORDER BY 1, 2",
    "SELECT table_name, index_name FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1, 2",
    "SELECT routine_name, routine_definition FROM information_schema.routines "
    "WHERE routine_schema = DATABASE() ORDER BY 1",
    "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1",
    "SELECT event_name FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 1",
    "CHECKSUM TABLE mysql.global_priv, mysql.func, mysql.plugin, mysql.servers",
    "SELECT @@global.max_connections, @@global.sql_mode, @@global.read_only, @@global.general_log",
    "SELECT IS_USED_LOCK('held')",
)
_TABLES = {
    "postgres": "SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'S', 'm') AND nspname !~ '^(pg_|information_schema)' ORDER BY 1",
    "mariadb": "SELECT concat('`', table_name, '`') FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE', 'SEQUENCE') ORDER BY 1",
}


def file_of(account: DatabaseAccount) -> Path:
    """Return the file that hostile statements try to write in the server."""
    return Path(tempfile.gettempdir()) / f"{Path(account.database).stem}_written"


class Observer:
    """An open connection that reads everything."""

    def __init__(self, account: DatabaseAccount, connection: Any) -> None:
        self._account = account
        self._cursor = connection.cursor()

    def checksum(self) -> str:
        """Return the SHA-256 of everything that a statement could change."""
        digest = hashlib.sha256(str(file_of(self._account).exists()).encode())
        for part in self._parts():
            digest.update(part)
        return digest.hexdigest()

    def _parts(self) -> Iterator[bytes]:
        if self._account.kind == "sqlite":  # a database is a file; journals and attached files are beside it
            for path in sorted(Path(self._account.database).parent.iterdir()):
                yield path.name.encode() + (path.read_bytes() if path.is_file() else b"")
            return
        for query in _POSTGRES if self._account.kind == "postgres" else _MARIADB:
            yield repr(self._rows(query)).encode()
        for (table,) in self._rows(_TABLES[self._account.kind]):
            yield repr((table, sorted(map(repr, self._rows(f"SELECT * FROM {table}"))))).encode()

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        self._cursor.execute(query)
        return [tuple(row) for row in self._cursor.fetchall()]


@contextmanager
def observed(account: DatabaseAccount) -> Generator[Observer]:
    """Yield an observer of a database."""
    connection = connect(account)
    try:
        yield Observer(account, connection)
    finally:
        connection.close()
        file_of(account).unlink(missing_ok=True)
