"""The property that no statement changes a database while writes are off, whatever it looks like."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings

from ragflow_lg.integrations.sql.configured_databases import ConfiguredDatabases
from ragflow_lg.integrations.sql.rows import to_json_value
from ragflow_lg.integrations.sql.statements import clean, read_statements
from ragflow_lg.services.databases import DatabaseAccount, StatementResult
from tests.fakes.databases import SHOP, ask, execute, new_database, open_databases
from tests.fakes.threads import LoopThread
from tests.harness.database_checksum import file_of, observed
from tests.harness.generated_sql import HOSTILE, STATEMENTS, WRITES, changes, reads

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("EXAMPLES", "60"))
"""How many statements are generated for each database. More of them: ``python -m tests.campaigns properties 1000``."""
DIALECTS = {"sqlite": "sqlite", "postgres": "postgres", "mariadb": "mysql"}

one_after_another = settings(
    max_examples=COUNT, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Reader:
    """The connection ``reader``, for synchronous tests."""

    def __init__(self, databases: ConfiguredDatabases, loop: LoopThread) -> None:
        self._databases = databases
        self._loop = loop

    def ask(self, sql: str, target: str = "reader") -> list[StatementResult]:
        """Return the results of statements."""
        return self._loop.run(ask(self._databases, sql, target))


@contextmanager
def opened(account: DatabaseAccount) -> Generator[Reader]:
    loop, databases = LoopThread(), open_databases(account, timeout_s=10.0)
    try:
        yield Reader(databases, loop)
    finally:
        loop.close()


@pytest.fixture
def hostile(shop: DatabaseAccount) -> DatabaseAccount:
    """Return the account of a database whose functions and views change it."""
    execute(shop, HOSTILE[shop.kind])
    return shop


def placed(sql: str, account: DatabaseAccount) -> str:
    """Put the names of a database into a statement."""
    dsn = f"host=127.0.0.1 port={account.port} user={account.username} dbname={account.database} password="
    sql = sql.replace("{database}", account.database)
    password = account.password.replace(" ", "\\ ")
    sql = sql.replace("{dsn}", dsn + password).replace("{folder}", str(Path(account.database).parent))
    return sql.replace("{file}", str(file_of(account)))


@pytest.mark.generated
def test_no_statement_changes_anything_while_writes_are_off(hostile: DatabaseAccount) -> None:
    with opened(hostile) as reader, observed(hostile) as observer:

        @seed(7)
        @one_after_another
        @given(changes(hostile.kind))
        def check(sql: str) -> None:
            before = observer.checksum()
            reader.ask(placed(sql, hostile))
            assert observer.checksum() == before

        check()
        assert list(reader.ask("SELECT count(*) AS n FROM goods")[0].rows) == [{"n": 3}]


@pytest.mark.generated
def test_every_read_is_answered_as_the_driver_answers_it(hostile: DatabaseAccount) -> None:
    with opened(hostile) as reader, observed(hostile) as observer:
        before = observer.checksum()

        @seed(7)
        @one_after_another
        @given(reads(hostile.kind))
        def check(sql: str) -> None:
            (result,) = reader.ask(sql)
            assert (result.error, result.is_refused) == ("", False), sql
            expected = [[to_json_value(value) for value in row] for row in execute(hostile, [sql])]
            assert sorted(repr(list(row.values())) for row in result.rows) == sorted(map(repr, expected))

        check()
        for sql in STATEMENTS["shown"][hostile.kind]:
            (result,) = reader.ask(sql)
            assert (result.error, bool(result.rows)) == ("", True), sql
        assert observer.checksum() == before


@pytest.mark.generated
def test_the_check_alone_lets_no_statement_change_anything(hostile: DatabaseAccount) -> None:
    """What it lets pass runs here without a read-only transaction, and every statement is committed."""
    passed: list[str] = []
    with observed(hostile) as observer:
        before = observer.checksum()

        @seed(8)
        @one_after_another
        @given(changes(hostile.kind, calls=False) | reads(hostile.kind))
        def check(sql: str) -> None:
            for statement in read_statements(clean(placed(sql, hostile)), DIALECTS[hostile.kind], {}):
                if statement["refusal"] or statement["error"]:
                    continue
                passed.append(statement["sent"])
                with suppress(Exception):
                    execute(hostile, [passed[-1]])
                assert observer.checksum() == before, passed[-1]

        check()
    assert len(passed) > COUNT // 10


ALL_WRITES = [pytest.param(kind, write, id=f"{kind}-{write}") for kind in WRITES for write in WRITES[kind]]


@pytest.mark.parametrize(("kind", "write"), ALL_WRITES)
def test_each_of_the_statements_would_change_something(kind: str, write: str, tmp_path: Path) -> None:
    """The properties would say nothing if the statements could not write, or if the checksum missed it."""
    with new_database(kind, tmp_path) as account:
        execute(account, [*SHOP, *HOSTILE[kind]])
        with observed(account) as observer:
            before = observer.checksum()
            execute(account, [placed(write, account)])
            assert observer.checksum() != before
