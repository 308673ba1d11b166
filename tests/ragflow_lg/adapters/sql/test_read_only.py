"""The property that no statement changes a database while writes are off, whatever it looks like."""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ragflow_lg.adapters.sql.statements import clean, read_statements
from ragflow_lg.services.databases import DatabaseAccount
from tests.fakes.databases import ask, execute, open_databases

COUNT = max(250, int(os.environ.get("EXAMPLES", "0")))
"""How many statements are generated for each database."""

READS = ["SELECT id FROM goods", "SELECT count(*) FROM goods", "SELECT name FROM goods WHERE price > 1", "SELECT 1"]
WRITES = [
    "DELETE FROM goods",
    "DELETE FROM goods WHERE id = 1",
    "UPDATE goods SET name = 'x'",
    "INSERT INTO goods (id, name) VALUES (9, 'x')",
    "INSERT INTO goods SELECT * FROM goods",
    "DROP TABLE goods",
    "TRUNCATE TABLE goods",
    "ALTER TABLE goods ADD COLUMN x int",
    "CREATE TABLE x (a int)",
    "CREATE TABLE x AS SELECT * FROM goods",
    "CREATE VIEW x AS SELECT * FROM goods",
    "CREATE INDEX x ON goods (id)",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "GRANT ALL ON goods TO PUBLIC",
    "CREATE TEMPORARY TABLE y (a int)",
]
OWN_WRITES = {
    "sqlite": [
        "REPLACE INTO goods (id) VALUES (1)",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = 1",
        "ATTACH DATABASE ':memory:' AS x",
        "VACUUM",
        "REINDEX",
        "INSERT OR REPLACE INTO goods (id) VALUES (1)",
        "WITH a AS (SELECT 1) DELETE FROM goods",
    ],
    "postgres": [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "SET TRANSACTION READ WRITE",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
        "WITH a AS (DELETE FROM goods RETURNING *) SELECT * FROM a",
        "WITH a AS (INSERT INTO goods (id) VALUES (8) RETURNING id) SELECT * FROM a",
        "SELECT * INTO x FROM goods",
        "DO $$ BEGIN DELETE FROM goods; END $$",
        "COPY goods FROM PROGRAM 'echo 1'",
        "COPY goods TO '/tmp/ragflow_lg_never_written'",
        "SELECT lo_create(0)",
        "SELECT query_to_xml('DELETE FROM goods', true, true, '')",
        "EXPLAIN ANALYZE DELETE FROM goods",
        "EXPLAIN (ANALYZE, VERBOSE) UPDATE goods SET id = 5",
        "PREPARE p AS DELETE FROM goods",
        "LOCK TABLE goods",
        "COMMENT ON TABLE goods IS 'x'",
        "CREATE SEQUENCE s",
        "CREATE ROLE x",
    ],
    "mariadb": [
        "REPLACE INTO goods (id) VALUES (1)",
        "SET SESSION TRANSACTION READ WRITE",
        "SET GLOBAL max_connections = 77",
        "START TRANSACTION READ WRITE",
        "SELECT 1 INTO OUTFILE '/tmp/ragflow_lg_never_written'",
        "SELECT 1 INTO DUMPFILE '/tmp/ragflow_lg_never_written'",
        "SELECT @a := 1",
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE goods",
        "ANALYZE DELETE FROM goods",
        "EXPLAIN DELETE FROM goods",
        "CALL mysql.x()",
        "EXECUTE IMMEDIATE 'DELETE FROM goods'",
        "PREPARE s FROM 'DELETE FROM goods'",
        "BEGIN NOT ATOMIC DELETE FROM goods; END",
        "CREATE USER x",
        "RENAME TABLE goods TO y",
        "HANDLER goods OPEN",
        "LOCK TABLES goods WRITE",
        "CREATE SEQUENCE s",
        "FLUSH TABLES",
    ],
}


def _mixed_case(text: str, chance: random.Random) -> str:
    return "".join(chance.choice([c.upper(), c.lower()]) if c.isalpha() else c for c in text)


def _spaced(text: str, chance: random.Random) -> str:
    gaps = [" ", "\n", "\t", "  ", " /* a */ ", "/**/", " /* ; */ ", " -- x\n", "\r\n", "\f"]
    return "".join(chance.choice(gaps) if c == " " and chance.random() < 0.5 else c for c in text)


DISGUISES: list[Callable[[str, random.Random], str]] = [
    lambda write, chance: write,
    _mixed_case,
    _spaced,
    lambda write, chance: _mixed_case(_spaced(write, chance), chance),
    lambda write, chance: f"{chance.choice(READS)}; {write}",
    lambda write, chance: f"{write}; {chance.choice(READS)}",
    lambda write, chance: f"COMMIT; {write}; COMMIT",
    lambda write, chance: f"/*! {write} */",
    lambda write, chance: f"/*!50000 {write} */",
    lambda write, chance: f"/*M! {write} */",
    lambda write, chance: f"SELECT 1 /*! ; {write} */",
    lambda write, chance: f"SELECT 1 --1; {write}",
    lambda write, chance: f"SELECT 1 -- '\n; {write} -- '",
    lambda write, chance: f"SELECT 1 # '\n; {write} # '",
    lambda write, chance: f"SELECT '\\'; {write}; -- '",
    lambda write, chance: f"SELECT 'a\\'; {write}; --",
    lambda write, chance: f"SELECT E'\\'; {write}; --'",
    lambda write, chance: f'SELECT "\\"; {write}; -- "',
    lambda write, chance: f"SELECT `a\\`; {write}; -- `",
    lambda write, chance: f"SELECT 1 AS a$$; {write}; --$$",
    lambda write, chance: f"SELECT $x$ '; {write}; -- $x$",
    lambda write, chance: f"SELECT /*+ x(' */ 1; {write}; /*') */",
    lambda write, chance: f"SELECT 1 /* /* */ ; {write}; -- */",
    lambda write, chance: f"SELECT 1 /* a */ */ ; {write}",
    lambda write, chance: f"SELECT 1 {{# '; {write} #}}",
    lambda write, chance: f"SELECT 1 {write}",
    lambda write, chance: f"(SELECT 1) {write}",
    lambda write, chance: f"({write})",
    lambda write, chance: f"WITH a AS ({write}) SELECT 1",
    lambda write, chance: f"SELECT * FROM ({write}) a",
    lambda write, chance: f"SELECT ({write})",
    lambda write, chance: f"EXPLAIN {write}",
    lambda write, chance: f"EXPLAIN ANALYZE {write}",
    lambda write, chance: f"DESCRIBE {write}",
    lambda write, chance: f"SHOW {write}",
    lambda write, chance: f"PRAGMA {write}",
    lambda write, chance: f"SELECT 1 UNION {write}",
    lambda write, chance: f"SELECT 1\0; {write}",
    lambda write, chance: f"SELECT '\0'; {write}",
    lambda write, chance: f"\ufeff{write}",
    lambda write, chance: f"SELECT 1；{write}",
    lambda write, chance: f"```sql\n{write}\n```",
    lambda write, chance: f"{write} [ID:1]",
    lambda write, chance: f"SELECT 1; [ID:2]{write}",
    lambda write, chance: f"DELIMITER //\n{write}//",
]


def generate(kind: str, chance: random.Random) -> str:
    """Return a statement that would change something, disguised, or sometimes a mere read."""
    if chance.random() < 0.1:
        return _spaced(chance.choice(READS), chance)
    write = chance.choice(chance.choice([WRITES, OWN_WRITES[kind]]))
    return chance.choice(DISGUISES)(write, chance)


DIALECTS = {"sqlite": "sqlite", "postgres": "postgres", "mariadb": "mysql"}
SCHEMA = {
    "sqlite": ["SELECT name, sql FROM sqlite_master ORDER BY name", "PRAGMA user_version"],
    "postgres": [
        "SELECT relname, relkind, relacl::text, obj_description(oid) FROM pg_class "
        "WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
        "SELECT count(*) FROM pg_largeobject_metadata",
        "SELECT attname FROM pg_attribute WHERE attrelid = 'goods'::regclass ORDER BY attnum",
        "SELECT count(*) FROM pg_roles WHERE rolname = 'x'",
    ],
    "mariadb": [
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1",
        "SELECT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1",
        "SELECT @@global.max_connections",
        "SELECT count(*) FROM mysql.global_priv WHERE user = 'x'",
    ],
}


def fingerprint(account: DatabaseAccount) -> list[Any]:
    """Return everything that a statement could have changed."""
    queries = ["SELECT id, name, price FROM goods ORDER BY id", *SCHEMA[account.kind]]
    written = os.path.exists("/tmp/ragflow_lg_never_written")
    return [written, *([tuple(row) for row in execute(account, [query])] for query in queries)]


async def test_no_generated_statement_changes_anything_while_writes_are_off(shop: DatabaseAccount) -> None:
    chance = random.Random(f"{shop.kind} 7")
    databases = open_databases(shop, timeout_s=10.0)
    before = fingerprint(shop)
    statements = [generate(shop.kind, chance) for _ in range(COUNT)]
    rows = 0
    for start in range(0, COUNT, 25):
        for sql in statements[start : start + 25]:
            rows += sum(len(result.rows) for result in await ask(databases, sql))
        assert fingerprint(shop) == before, statements[start : start + 25]
    await databases.aclose()
    assert rows > COUNT // 10  # reads among them do run


def test_the_check_alone_lets_no_generated_statement_change_anything(shop: DatabaseAccount) -> None:
    """What it lets pass runs here without a read-only transaction, and every statement is committed."""
    chance = random.Random(f"{shop.kind} 8")
    before = fingerprint(shop)
    passed: list[str] = []
    for _ in range(2 * COUNT):
        sql = clean(generate(shop.kind, chance))
        for statement in read_statements(sql, DIALECTS[shop.kind], []):
            if not statement["refusal"] and not statement["error"]:
                passed.append("".join(statement["parts"]))
                with suppress(Exception):
                    execute(shop, [passed[-1]])
    assert fingerprint(shop) == before, passed
    assert len(passed) > COUNT // 10


async def test_the_generated_statements_do_change_something_while_writes_are_on(shop: DatabaseAccount) -> None:
    """The property would say nothing if no statement could write."""
    databases = open_databases(shop)
    before = fingerprint(shop)
    for write in ("INSERT INTO goods (id, name) VALUES (9, 'x')", "CREATE TABLE x (a int)"):
        await ask(databases, write, "writer")
        assert fingerprint(shop) != before
        before = fingerprint(shop)
    await databases.aclose()
