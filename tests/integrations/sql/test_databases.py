import asyncio
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.sql import configured_databases
from ragflow_lg.integrations.sql.database_kinds import DatabaseKind
from ragflow_lg.services.databases import DatabaseAccount, StatementResult
from tests.fakes.databases import SHOP, ask, execute, new_database, open_databases
from tests.harness.rows import each_row

ENDLESS = {
    "sqlite": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "postgres": "SELECT pg_sleep(30)",
    "mariadb": "SELECT SLEEP(30)",
}
LARGE = {
    **dict.fromkeys(("sqlite", "postgres"), ENDLESS["sqlite"].replace("count(*)", "x AS n")),
    "mariadb": "SELECT seq AS n FROM seq_1_to_1000000000",
}
RUNNING = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%sleep(30)' || ''",
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE CONCAT('SELECT SLEEP(3', '0)')",
}


async def test_a_connection_of_the_settings_that_may_write_commits(shop: DatabaseAccount) -> None:
    databases = open_databases(shop)
    assert (databases.allows_writes("reader"), databases.allows_writes("writer")) == (False, True)
    sql = "UPDATE goods SET name = 'cup' WHERE id < 3; CREATE TABLE more (a int); SELECT name FROM goods WHERE id = 1"
    results = await ask(databases, sql, "writer")
    assert results[0].changed == 2
    assert list(results[2].rows) == [{"name": "cup"}]
    assert execute(shop, ["SELECT count(*) FROM more"]) == [(0,)]
    assert [tuple(row) for row in execute(shop, ["SELECT count(*) FROM goods WHERE name = 'cup'"])] == [(2,)]


CHANGES = (
    "WITH a AS (SELECT 7 AS id) INSERT INTO goods (id) SELECT id FROM a",
    "WITH a AS (SELECT 7 AS id) DELETE FROM goods WHERE id IN (SELECT id FROM a)",
    "WITH a AS (INSERT INTO goods (id) VALUES (8) RETURNING id) SELECT id FROM a",
    "SELECT id INTO copied FROM goods",
)


@pytest.mark.slow
async def test_changes_that_begin_like_queries_run_where_writes_are_allowed(tmp_path: Path) -> None:
    with new_database("postgres", tmp_path) as account:
        execute(account, SHOP)
        results = await ask(open_databases(account), "; ".join(CHANGES), "writer")
        assert [(result.error, result.changed, len(result.rows)) for result in results] == [
            ("", 1, 0),
            ("", 1, 0),
            ("", None, 1),
            ("", 4, 0),
        ]
        assert execute(account, ["SELECT count(*) FROM copied"]) == [(4,)]


async def test_a_change_is_kept_although_it_returns_more_rows_than_the_limit(shop: DatabaseAccount) -> None:
    databases = open_databases(shop)
    sql = "INSERT INTO goods (id) VALUES (7), (8), (9) RETURNING id; SELECT 1 AS a"
    first, second = await ask(databases, sql, "writer", max_rows=2)
    assert (first.error, first.rows, first.has_more) == ("", [{"id": 7}, {"id": 8}], True)
    assert second.rows == [{"a": 1}]
    assert [tuple(row) for row in execute(shop, ["SELECT count(*) FROM goods WHERE id > 6"])] == [(3,)]


async def test_values_are_bound_and_not_read_as_sql(shop: DatabaseAccount) -> None:
    values = {"v0_": "x' OR '1'='1", "v1_": [1, 3], "v2_": "% off"}
    databases = open_databases(shop)
    (none,) = await ask(databases, "SELECT id FROM goods WHERE name = v0_ OR name = 'v0_'", values=values)
    (two,) = await ask(databases, "SELECT id FROM goods WHERE id IN (v1_) ORDER BY id", values=values)
    (like,) = await ask(databases, "SELECT id FROM goods WHERE name LIKE '50v2_'", values=values)
    (no_values,) = await ask(databases, "SELECT id FROM goods WHERE name LIKE '50%' AND 7 % 5 = 2")
    assert [list(result.rows) for result in (none, two, like, no_values)] == [
        [],
        [{"id": 1}, {"id": 3}],
        [{"id": 3}],
        [{"id": 3}],
    ]


async def test_the_row_limit_ends_a_large_result(shop: DatabaseAccount) -> None:
    databases = open_databases(shop, max_rows=300)
    results = await ask(databases, LARGE[shop.kind] + "; SELECT 1 AS a", max_rows=1000)
    assert [len(result.rows) for result in results] == [300, 1]


async def test_the_size_limit_fails_a_statement(shop: DatabaseAccount) -> None:
    databases = open_databases(shop, max_result_bytes=1000)
    results = await ask(databases, LARGE[shop.kind] + "; SELECT 1 AS a")
    assert "larger than 1,000 bytes" in results[0].error
    assert list(results[1].rows) == [{"a": 1}]


WIDE = {
    "postgres": "SELECT 1 AS a, repeat('a', 100000000) AS b",
    "mariadb": "SELECT REPEAT('a', 15000000) FROM seq_1_to_200",
}


async def test_a_large_cell_does_not_reach_the_driver(shop: DatabaseAccount) -> None:
    if shop.kind == "sqlite":
        pytest.skip("see test_sqlite_file.py")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    databases = open_databases(shop)
    results = await ask(databases, WIDE[shop.kind] + "; SELECT id FROM goods WHERE id = 2")
    assert results[0].error == "Its result is larger than 4,194,304 bytes. Select less."
    assert list(results[1].rows) == [{"id": 2}]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; the cell takes twice as much


async def test_the_texts_of_errors_contain_nothing_that_was_added(shop: DatabaseAccount) -> None:
    databases = open_databases(shop)
    (missing,) = await ask(databases, "SELECT nothing FROM goods")
    (zero,) = await ask(databases, "SELECT id, 1 / (id - id) AS a FROM goods ORDER BY id LIMIT 1")
    assert "nothing" in missing.error
    assert "ragflow_lg" not in missing.error
    assert zero.error == "" or "division by zero" in zero.error
    for width in range(60):  # PostgreSQL shows a part of a long line
        sql = f"SELECT {'1' * width}0, nope"
        (missing,) = await ask(databases, sql)
        shown = missing.error.partition("LINE 1: ")[2].removesuffix(" ^")
        assert sql.endswith(shown.removeprefix("...")), missing.error


async def test_the_time_limit_stops_the_statement_in_the_server(shop: DatabaseAccount) -> None:
    databases = open_databases(shop, timeout_s=0.3)
    start = time.monotonic()
    results = await ask(databases, ENDLESS[shop.kind] + "; SELECT 1 AS a")
    assert time.monotonic() - start < 10
    assert results[0].error
    assert list(results[1].rows) == [{"a": 1}]
    await check_nothing_runs(shop)


async def test_a_cancelled_query_is_stopped_in_the_server(shop: DatabaseAccount) -> None:
    """MariaDB stops it at its time limit only."""
    databases = open_databases(shop, timeout_s=2.0 if shop.kind == "mariadb" else 60.0)
    await ask(databases, "SELECT 1")
    task = asyncio.ensure_future(ask(databases, ENDLESS[shop.kind]))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((await ask(databases, "SELECT 2 AS b"))[0].rows) == [{"b": 2}]
    await check_nothing_runs(shop)


async def check_nothing_runs(account: DatabaseAccount) -> None:
    if account.kind not in RUNNING:
        return  # SQLite has no server: the thread of the statement has ended
    until = time.monotonic() + 5
    while (count := execute(account, [RUNNING[account.kind]])[0][0]) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert count == 0


async def test_the_server_itself_refuses_writes(shop: DatabaseAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second barrier holds if the first one lets everything pass."""

    def refuse_nothing(*_: object) -> tuple[str, bool]:
        return "", False

    monkeypatch.setattr("ragflow_lg.integrations.sql.statements.check_statement", refuse_nothing)
    before = execute(shop, ["SELECT count(*) FROM goods"])
    databases = open_databases(shop)
    for sql in ("DELETE FROM goods", "DROP TABLE goods", "CREATE TABLE x (a int)", "UPDATE goods SET id = 7"):
        (result,) = await ask(databases, sql)
        assert "read" in result.error.lower(), sql
    assert execute(shop, ["SELECT count(*) FROM goods"]) == before


async def test_one_text_is_one_statement_for_the_server(shop: DatabaseAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check reads as one statement cannot be two for the server."""
    hidden: list[dict[str, Any]] = [{"text": "x", "sent": "SELECT 1; SELECT 2"}]

    def read_one(*_: object) -> list[dict[str, Any]]:
        return hidden

    monkeypatch.setattr("ragflow_lg.integrations.sql.statements.read_statements.function", read_one)
    databases = open_databases(shop)
    (result,) = await ask(databases, "x")
    assert result.error


@pytest.mark.slow
async def test_quotes_mean_what_the_check_takes_them_for(tmp_path: Path) -> None:
    """In MariaDB, modes for other databases include ``ANSI_QUOTES``: there, the second quote ends a name."""
    with new_database("mariadb", tmp_path) as account:
        for mode in ("ORACLE", "ANSI", "MSSQL", "NO_BACKSLASH_ESCAPES"):
            databases = open_databases(account, options={"sql_mode": mode})
            (result,) = await ask(databases, 'SELECT "x\\"; SELECT 2; -- " AS a')
            assert (result.error, result.rows) == ("", [{"a": 'x"; SELECT 2; -- '}]), mode


async def test_connections_are_bounded_and_closed(shop: DatabaseAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.integrations.sql.configured_databases.MAX_CONNECTIONS", 2)
    databases = open_databases(shop)
    counts: list[int] = []

    async def ask_and_count(number: int) -> None:
        (result,) = await ask(databases, f"SELECT {number} AS n")
        assert result.rows[0]["n"] == number
        if shop.kind == "postgres":
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            counts.append((await asyncio.to_thread(execute, shop, [count]))[0][0])

    await asyncio.gather(*map(ask_and_count, range(8)))
    assert max(counts, default=0) <= 2 + 8  # two of ours, and those that count


async def test_a_canvas_reaches_only_addresses_that_are_allowed(shop: DatabaseAccount) -> None:
    if shop.kind == "sqlite":
        databases = open_databases(shop)
        with pytest.raises(ServiceError, match=r"sql\.connections"):
            await ask(databases, "SELECT 1", shop)
        return
    databases = open_databases(shop)
    with pytest.raises(ServiceError, match=r"Database host '127\.0\.0\.1' is not allowed: .*not on the public"):
        await ask(databases, "SELECT 1", shop)
    databases = open_databases(shop, allow=["localhost"])
    target = replace(shop, host="localhost")
    assert (await ask(databases, "SELECT 1 AS a", target))[0].rows
    assert not databases.allows_writes(target)
    assert (await ask(databases, "DELETE FROM goods", target))[0].is_refused


async def test_ragflows_own_database_is_refused() -> None:
    account = DatabaseAccount("mysql", "ragflow-mysql", 3306, "rag_flow", "root", "x")
    databases = open_databases(account)
    for target in (account, replace(account, host="8.8.8.8", password="infini_rag_flow")):
        with pytest.raises(ServiceError, match="For the security reason"):
            await ask(databases, "SELECT 1", target)


async def test_errors_do_not_contain_the_password(shop: DatabaseAccount) -> None:
    if shop.kind == "sqlite":
        pytest.skip("SQLite has no passwords")
    wrong = replace(shop, password="a wrong password")
    databases = open_databases(wrong)
    with pytest.raises(ServiceError, match="Database Connection Failed!") as caught:
        await ask(databases, "SELECT 1")
    texts = [str(caught.value), repr(wrong), repr(databases)]
    assert not any("a wrong password" in text for text in texts)
    databases = open_databases(shop)
    (result,) = await ask(databases, f"SELECT nothing('{shop.password}')")
    assert shop.password not in result.error


async def test_a_server_that_is_gone_is_reported(shop: DatabaseAccount, tmp_path: Path) -> None:
    gone = replace(shop, port=9) if shop.port else replace(shop, database=str(tmp_path / "gone.db"))
    databases = open_databases(gone)
    with pytest.raises(ServiceError, match="Database Connection Failed!") as caught:
        await ask(databases, "SELECT 1")
    assert caught.value.is_retryable
    assert "sqlalche" not in str(caught.value)


async def test_statements_that_have_run_keep_their_results_if_no_other_session_opens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[SimpleNamespace] = []

    async def change(statement: Any, _: Any) -> StatementResult:
        opened[0].is_usable = False
        return StatementResult(statement.text, changed=2)

    @asynccontextmanager
    async def open_connection(_: object) -> AsyncGenerator[SimpleNamespace]:
        if opened:
            raise OSError("it is gone")
        opened.append(SimpleNamespace(is_usable=True, read=change))
        yield opened[0]

    monkeypatch.setattr(configured_databases, "open_connection", open_connection)
    databases = open_databases(DatabaseAccount("postgres", "localhost", 9, "shop", "a", "secret"))
    first, second = await ask(databases, "UPDATE goods SET id = 1; UPDATE goods SET id = 2", "writer")
    assert (first.changed, first.error) == (2, "")
    assert second.error == "Database Connection Failed! it is gone"


GREETINGS = [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\1\0\0\0\n", b"\x05\0\0\0\nabc\0", b"\2\0\0\0\xff\xff"]


@each_row("kind", ["mysql", "postgres"])
@each_row("greeting", GREETINGS)
async def test_another_server_at_the_address_is_reported(
    kind: str, greeting: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends no database's greeting, or, if the greeting is empty, nothing at all."""
    monkeypatch.setattr("ragflow_lg.integrations.sql.servers.CONNECT_S", 0.3)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await (reader.read() if not greeting else writer.drain())
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        account = DatabaseAccount(kind, "localhost", port, "shop", "reader", "secret")
        databases = open_databases(account, timeout_s=0.2, allow=["localhost"])
        start = time.monotonic()
        with pytest.raises(ServiceError, match=r"^Database Connection Failed! \S") as caught:
            await databases.check(account)
        assert time.monotonic() - start < 20
    assert greeting or "did not answer within 0.5 s" in str(caught.value)


async def test_a_check_queries_the_database(shop: DatabaseAccount) -> None:
    databases = open_databases(shop)
    await databases.check("reader")
    with pytest.raises(SettingsError, match=r"\[sql\.connections\.other\]"):
        await databases.check("other")


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> Any:
        return None if name == "sqlglot" else object()

    monkeypatch.setattr("ragflow_lg.base.extras.find_spec", without)
    databases = open_databases(DatabaseAccount("sqlite", "", 0, "x", ""))
    with pytest.raises(SettingsError, match=r"ExeSQL needs sqlglot\. Install it with: pip install '.*\[sql\]'"):
        await ask(databases, "SELECT 1")
    monkeypatch.undo()
    databases = open_databases(DatabaseAccount("trino", "db", 8080, "a.b", "u"))
    with pytest.raises(SettingsError, match=r"trino needs the package trino\[sqlalchemy\]"):
        await ask(databases, "SELECT 1")


async def test_a_driver_without_asyncio_runs_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trino and IBM Db2 have only such drivers; SQLite's own stands for them."""
    kinds = configured_databases.find_kind("sqlite")
    kind = replace(kinds, driver="sqlite+pysqlite", is_async=False, is_server=True)

    def find_kind(_: str) -> DatabaseKind:
        return kind

    for name in ("configured_databases", "database_kinds"):
        monkeypatch.setattr(f"ragflow_lg.integrations.sql.{name}.find_kind", find_kind)
    monkeypatch.setattr("ragflow_lg.integrations.sql.servers.GRACE_S", 0.0)
    account = DatabaseAccount("sqlite", "", 0, str(tmp_path / "a.db"), "")
    execute(account, ["CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)"])
    databases = open_databases(account, timeout_s=0.1)
    results = await ask(databases, "SELECT a FROM t ORDER BY a; DELETE FROM t; SELECT nothing")
    assert list(results[0].rows) == [{"a": 1}, {"a": 2}]
    assert results[1].is_refused
    assert "nothing" in results[2].error
    (late,) = await ask(databases, ENDLESS["sqlite"].replace("FROM c)", "FROM c WHERE x < 1000000)"))
    assert "longer than 0.1 s" in late.error
