"""Random SQL: reads whose answer the driver knows as well, and changes in every disguise.

The strategies are built from lists of texts, so that drawing one statement costs little.
"""

import random

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

HOSTILE: dict[str, tuple[str, ...]] = {
    "sqlite": (
        "CREATE VIEW wide AS SELECT a.id AS id, b.id AS other FROM goods a, goods b",
        "CREATE TRIGGER sold AFTER UPDATE ON goods BEGIN DELETE FROM goods WHERE price = 0; END",
        "CREATE INDEX by_name ON goods (name)",
        "CREATE VIRTUAL TABLE found USING fts4(body)",
        "INSERT INTO found VALUES ('green tea')",
    ),
    "postgres": (
        "CREATE SEQUENCE counter",
        "CREATE INDEX by_name ON goods USING brin (name)",
        "CREATE TABLE found (body tsvector)",
        "CREATE INDEX by_body ON found USING gin (body)",
        "INSERT INTO found VALUES (to_tsvector('green tea'))",
        "CREATE FUNCTION sell(n int) RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN UPDATE goods SET price = n; RETURN n; END $$",
        "CREATE FUNCTION allow() RETURNS text LANGUAGE sql AS "
        "$$ SELECT set_config('default_transaction_read_only', 'off', false) $$",
        "CREATE VIEW sold AS SELECT sell(5) AS n",
        "CREATE VIEW counted AS SELECT nextval('counter') AS n",
        "CREATE EXTENSION dblink",
        "CREATE EXTENSION tablefunc",
    ),
    "mariadb": (
        "SET GLOBAL log_bin_trust_function_creators = 1",
        "CREATE SEQUENCE counter",
        "CREATE TABLE kept (n int) ENGINE = MyISAM",
        "CREATE FUNCTION sell(n int) RETURNS int MODIFIES SQL DATA BEGIN UPDATE goods SET price = n; RETURN n; END",
        "CREATE FUNCTION keep(n int) RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO kept VALUES (n); RETURN n; END",
        "CREATE FUNCTION allow() RETURNS int BEGIN SET SESSION tx_read_only = 0; RETURN 1; END",
        "CREATE PROCEDURE sell_all() UPDATE goods SET price = 9",
        "CREATE VIEW sold AS SELECT sell(5) AS n",
        "CREATE VIEW counted AS SELECT NEXTVAL(counter) AS n",
    ),
}
"""What a database has whose functions and views change it."""

CALLS: dict[str, tuple[str, ...]] = {
    "sqlite": ("SELECT optimize(found) FROM found LIMIT 1",),
    "postgres": (
        "SELECT sell(1)",
        "SELECT * FROM sold",
        "SELECT * FROM counted",
        "SELECT allow(); SELECT sell(2)",
        "SELECT allow(); SELECT nothing FROM goods; SELECT sell(2)",
        "SELECT * FROM allow()",
        "SELECT id, sell(id) FROM goods",
        "WITH a AS (SELECT sell(3) AS n) SELECT n FROM a",
    ),
    "mariadb": (
        "SELECT sell(1)",
        "SELECT keep(1)",
        "SELECT * FROM sold",
        "SELECT * FROM counted",
        "SELECT allow(); SELECT keep(2)",
        "SELECT allow(); SELECT nothing FROM goods; SELECT keep(2)",
        "SELECT allow()",
        "SHOW TABLES WHERE keep(3)",
        "SHOW TABLES WHERE (SELECT allow()) AND (SELECT keep(4))",
        "DESCRIBE sold",
    ),
}
"""Reads of the hostile database's functions, which only the database itself can see through."""

_ALL_WRITES = (
    "DELETE FROM goods",
    "DELETE FROM goods WHERE id = 1",
    "UPDATE goods SET name = 'x'",
    "INSERT INTO goods (id, name) VALUES (9, 'x')",
    "INSERT INTO goods SELECT * FROM goods",
    "DROP TABLE goods",
    "ALTER TABLE goods ADD COLUMN x int",
    "CREATE TABLE x (a int)",
    "CREATE TABLE x AS SELECT * FROM goods",
    "CREATE VIEW x AS SELECT * FROM goods",
    "CREATE INDEX x ON goods (id)",
)
WRITES: dict[str, tuple[str, ...]] = {
    "sqlite": (
        *_ALL_WRITES,
        "REPLACE INTO goods (id) VALUES (1)",
        "INSERT OR REPLACE INTO goods (id) VALUES (1)",
        "WITH a AS (SELECT 1) DELETE FROM goods",
        "UPDATE goods SET name = 'x' RETURNING id",
        "DROP TRIGGER sold",
        "PRAGMA user_version = 7",
        "PRAGMA user_version(7)",
        "PRAGMA main.user_version('7')",
        "PRAGMA application_id(7)",
        "PRAGMA journal_mode(wal)",
    ),
    "postgres": (
        *_ALL_WRITES,
        "TRUNCATE TABLE goods",
        "WITH a AS (DELETE FROM goods RETURNING *) SELECT * FROM a",
        "WITH a AS (INSERT INTO goods (id) VALUES (8) RETURNING id) SELECT * FROM a",
        "WITH a AS (SELECT 1), b AS (UPDATE goods SET id = 7 RETURNING 1) SELECT * FROM a",
        "MERGE INTO goods g USING (SELECT 1 AS n) u ON g.id = u.n WHEN MATCHED THEN DELETE",
        "SELECT * INTO x FROM goods",
        "SELECT id INTO TABLE x FROM goods",
        "DO $$ BEGIN DELETE FROM goods; END $$",
        "COPY goods (id) FROM PROGRAM 'echo 1'",
        "COPY goods TO '{file}'",
        "EXPLAIN ANALYZE DELETE FROM goods",
        "EXPLAIN (ANALYZE, VERBOSE) UPDATE goods SET id = 5",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "GRANT ALL ON goods TO PUBLIC",
        "COMMENT ON TABLE goods IS 'x'",
        "CREATE SEQUENCE x",
        "CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER DATABASE {database} SET work_mem = '1MB'",
        "DROP EXTENSION tablefunc",
        "CREATE RULE x AS ON INSERT TO goods DO ALSO SELECT 1",
        "SELECT nextval('counter')",
        "SELECT setval('counter', 77)",
        "SELECT pg_catalog.nextval('counter'::regclass)",
        "SELECT \"nextval\"('counter')",
        "SELECT U&\"\\006eextval\"('counter')",
        "SELECT U&\"!006eextval\" UESCAPE '!' ('counter')",
        "SELECT * FROM ROWS FROM (nextval('counter'))",
        "SELECT lo_create(0)",
        "SELECT lo_import('/etc/hostname')",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_put(lo_create(0), 0, 'x')",
        "SELECT query_to_xml('SELECT nextval(''counter'')', true, true, '')",
        "SELECT dblink_exec('{dsn}', 'DELETE FROM goods')",
        "SELECT * FROM dblink('{dsn}', 'DELETE FROM goods RETURNING 1') AS t (a int)",
        "SELECT * FROM crosstab('SELECT ''a''::text, ''b''::text, nextval(''counter'')::text') AS t (a text, b text)",
    ),
    "mariadb": (
        *_ALL_WRITES,
        "TRUNCATE TABLE goods",
        "REPLACE INTO goods (id) VALUES (1)",
        "DELETE FROM goods RETURNING id",
        "INSERT INTO goods (id) VALUES (7) RETURNING id",
        "UPDATE goods a JOIN goods b ON a.id = b.id SET a.name = 'y'",
        "DELETE a FROM goods a JOIN goods b ON a.id = b.id",
        "SELECT 1 INTO OUTFILE '{file}'",
        "SELECT 1 INTO DUMPFILE '{file}'",
        "(SELECT 1) UNION SELECT 2 INTO OUTFILE '{file}'",
        "ANALYZE DELETE FROM goods",
        "LOAD DATA INFILE '/etc/passwd' IGNORE INTO TABLE goods (name)",
        "CALL sell_all()",
        "DO sell(7)",
        "DO keep(8)",
        "SET @a = keep(9)",
        "EXECUTE IMMEDIATE 'DELETE FROM goods'",
        "BEGIN NOT ATOMIC DELETE FROM goods; END",
        "RENAME TABLE goods TO y",
        "CREATE SEQUENCE x",
        "CREATE TRIGGER x AFTER INSERT ON goods FOR EACH ROW DELETE FROM kept",
        "CREATE EVENT x ON SCHEDULE EVERY 1 DAY DO DELETE FROM goods",
        "CREATE PROCEDURE x() DELETE FROM goods",
        "SELECT NEXT VALUE FOR counter",
        "SELECT NEXTVAL(counter)",
        "SELECT SETVAL(counter, 5000)",
        "SHOW TABLES WHERE NEXTVAL(counter)",
    ),
}
"""Statements of which each changes the hostile database, if nobody stops it."""

SESSION_WRITES: dict[str, tuple[str, ...]] = {
    "sqlite": (
        "PRAGMA query_only = OFF",
        "PRAGMA query_only(0)",
        "PRAGMA writable_schema = 1",
        "ATTACH DATABASE '{folder}/other.db' AS other",
        "DETACH DATABASE main",
        "VACUUM",
        "VACUUM INTO '{folder}/copy.db'",
        "REINDEX",
        "ANALYZE",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SAVEPOINT a",
        "INSERT INTO found(found) VALUES ('optimize')",
        "SELECT * FROM pragma_optimize(65538)",
        "SELECT * FROM 'pragma_optimize'('65538')",
    ),
    "postgres": (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "SET TRANSACTION READ WRITE",
        "START TRANSACTION READ WRITE",
        "SELECT set_config('default_transaction_read_only', 'off', false)",
        "SELECT set_config('transaction_read_only', 'off', true)",
        "PREPARE p AS DELETE FROM goods",
        "EXECUTE p",
        "DECLARE c CURSOR FOR SELECT 1",
        "LOCK TABLE goods",
        "SELECT * FROM goods FOR UPDATE",
        "SELECT * FROM goods FOR KEY SHARE",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        "SELECT lo_export(1, '{file}')",
        "SELECT pg_advisory_lock(5)",
        "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery FROM pg_advisory_lock(5)')",
        "SELECT brin_summarize_new_values('by_name')",
        "SELECT gin_clean_pending_list('by_body')",
        "SELECT pg_notify('a', 'b')",
        "NOTIFY a",
        "LISTEN a",
        "LOAD 'dblink'",
        "CALL sell(1)",
        "SELECT pg_reload_conf()",
        "VACUUM",
        "CLUSTER",
        "CHECKPOINT",
        "REFRESH MATERIALIZED VIEW x",
        "SELECT dblink_connect('a', '{dsn}')",
    ),
    "mariadb": (
        "SET SESSION TRANSACTION READ WRITE",
        "START TRANSACTION READ WRITE",
        "SET SESSION tx_read_only = 0",
        "SET GLOBAL max_connections = 77",
        "SELECT @a := 1",
        "SELECT `NEXTVAL`(counter)",
        "SELECT 1 INTO @a",
        "SELECT * FROM goods FOR UPDATE",
        "SELECT * FROM goods LOCK IN SHARE MODE",
        "SELECT GET_LOCK('held', 0)",
        "SHOW TABLES WHERE GET_LOCK('held', 0)",
        "SELECT LOAD_FILE('/etc/hostname')",
        "PREPARE s FROM 'DELETE FROM goods'",
        "EXPLAIN DELETE FROM goods",
        "HANDLER goods OPEN",
        "LOCK TABLES goods WRITE",
        "FLUSH TABLES",
        "USE mysql",
        "KILL 1",
        "SELECT 1 PROCEDURE ANALYSE()",
        "INSTALL SONAME 'x'",
        "CREATE TEMPORARY TABLE y (a int)",
    ),
}
"""Statements that prepare a change, hold something, or reach beyond the database, but change no row by themselves."""

_BETWEEN = ("COMMIT", "ROLLBACK", "BEGIN", "END")
_PLAIN_READS = (
    "SELECT id FROM goods",
    "SELECT count(*) FROM goods",
    "SELECT name FROM goods WHERE price > 1",
    "SELECT 1",
)
_DISGUISES = (
    "WRITE",
    "READ; WRITE",
    "WRITE; READ",
    "END; WRITE; COMMIT",
    "END; READ; WRITE; COMMIT",
    "READ;WRITE;",
    ";;WRITE",
    "/*! WRITE */",
    "/*!50000 WRITE */",
    "/*M! WRITE */",
    "/*M!100100 WRITE */",
    "SELECT 1 /*! ; WRITE */",
    "SELECT 1 /*!99999 ; */ WRITE",
    "SELECT 1 --1; WRITE",
    "SELECT 1 -- '\n; WRITE -- '",
    "SELECT 1 # '\n; WRITE # '",
    "SELECT '\\'; WRITE; -- '",
    "SELECT 'a\\'; WRITE; --",
    "SELECT E'\\'; WRITE; --'",
    'SELECT "\\"; WRITE; -- "',
    "SELECT `a\\`; WRITE; -- `",
    "SELECT 1 AS a$$; WRITE; --$$",
    "SELECT $x$ '; WRITE; -- $x$",
    "SELECT $é$ '; WRITE; -- $é$",
    "SELECT /*+ x(' */ 1; WRITE; /*') */",
    "SELECT 1 /* /* */ ; WRITE; -- */",
    "SELECT 1 /* a */ */ ; WRITE",
    "SELECT 1 {# '; WRITE #}",
    "SELECT 1 WRITE",
    "(SELECT 1) WRITE",
    "(WRITE)",
    "((WRITE))",
    "WITH a AS (WRITE) SELECT 1",
    "WITH a AS (SELECT 1) WRITE",
    "WITH RECURSIVE a AS (SELECT 1 UNION ALL (WRITE)) SELECT * FROM a",
    "SELECT * FROM (WRITE) a",
    "SELECT (WRITE)",
    "SELECT 1 WHERE EXISTS (WRITE)",
    "SELECT CASE WHEN 1 = 1 THEN (WRITE) END",
    "EXPLAIN WRITE",
    "EXPLAIN ANALYZE WRITE",
    "EXPLAIN (ANALYZE, FORMAT JSON) WRITE",
    "EXPLAIN EXTENDED WRITE",
    "EXPLAIN QUERY PLAN WRITE",
    "ANALYZE FORMAT=JSON WRITE",
    "DESCRIBE WRITE",
    "SHOW WRITE",
    "SHOW TABLES; WRITE",
    "SHOW TABLES WHERE (WRITE)",
    "PRAGMA WRITE",
    "VALUES (1); WRITE",
    "VALUES ((WRITE))",
    "TABLE goods; WRITE",
    "SELECT 1 UNION WRITE",
    "SELECT 1 UNION ALL (WRITE)",
    "SELECT 1\0; WRITE",
    "SELECT '\0'; WRITE",
    "\ufeffWRITE",
    "\u00a0WRITE",
    "SELECT 1；WRITE",
    "```sql\nWRITE\n```",
    "WRITE [ID:1]",
    "SELECT 1; [ID:2]WRITE",
    "DELIMITER //\nWRITE//",
    "{call WRITE}",
    "BEGIN; WRITE; COMMIT",
    "BEGIN WRITE; END",
    "IF 1 = 1 THEN WRITE; END IF",
)
_GAPS = (" ", "\n", "\t", "  ", " /* a */ ", "/**/", " /* ; */ ", " -- x\n", "\r\n", "\f")


def _mixed_case(text: str, chance: random.Random) -> str:
    return "".join(chance.choice([c.upper(), c.lower()]) if c.isalpha() else c for c in text)


def _spaced(text: str, chance: random.Random) -> str:
    """Replace spaces outside strings."""
    pieces = text.split("'")
    for index in range(0, len(pieces), 2):
        pieces[index] = "".join(
            chance.choice(_GAPS) if c == " " and chance.random() < 0.4 else c for c in pieces[index]
        )
    return "'".join(pieces)


def _disguise(disguise: str, write: str, read: str, between: str, change: int, chance: random.Random) -> str:
    text = disguise.replace("END;", f"{between};", 1).replace("READ", read, 1).replace("WRITE", write)
    if change & 1:
        text = _spaced(text, chance)
    return _mixed_case(text, chance) if change & 2 else text


def changes(kind: str, *, calls: bool = True) -> SearchStrategy[str]:
    """Return statements that would change something; ``calls`` adds those that only the database can see through."""
    texts = [*WRITES[kind], *SESSION_WRITES[kind]]
    disguised = st.builds(
        _disguise,
        st.sampled_from(_DISGUISES),
        st.sampled_from(texts),
        st.sampled_from(_PLAIN_READS),
        st.sampled_from(_BETWEEN),
        st.integers(0, 3),
        st.randoms(use_true_random=False),
    )
    own = (*texts, *CALLS[kind]) if calls else texts
    return disguised | disguised | st.sampled_from(own)


_VALUES = (
    *("id", "a.id", "price", "7 % 5", "id + 1", "-id", "coalesce(price, 0)", "'x'", "'DROP TABLE goods; --'", "NULL"),
    *("upper(name)", "replace(name, 'a', 'b')", "CASE WHEN id > 1 THEN 'delete' ELSE 'update' END"),
    *("(SELECT max(id) FROM goods)", "nullif(id, 2)", "length(name)", "'it''s; DELETE FROM goods'", "name"),
    *("abs(id - 3)", "round(price)", "trim(name)", "(id IN (SELECT id FROM goods WHERE price > 1))"),
)
_CONDITIONS = (
    *("1 = 1", "id IN (1, 3)", "name LIKE '%o%'", "name = 'INSERT INTO goods VALUES (1)'", "price BETWEEN 1 AND 3"),
    *("EXISTS (SELECT 1 FROM goods b WHERE b.id > a.id)", "price IS NULL", "NOT (id = 2)", "name LIKE '50%'"),
    *("id = (SELECT min(id) FROM goods)", "(id > 1 AND price IS NOT NULL) OR name <> 'call'"),
)
_SOURCES = (
    "goods a",
    "goods AS a",
    "(SELECT id, name, price FROM goods) a",
    "(SELECT * FROM goods WHERE id < 3) AS a",
)
_NAMES = {
    "sqlite": ('"delete"', "[drop]", "`update`", "c", '"a;b"', '"--"'),
    "postgres": ('"delete"', '"UPDATE"', "c", '"a;b"', '"/*"'),
    "mariadb": ("`delete`", "`update`", "c", "`a;b`", "`--`"),
}
_SHAPES = (
    "SELECT VALUE AS NAME FROM SOURCE WHERE CONDITION",
    "SELECT VALUE AS NAME, id AS d FROM SOURCE WHERE CONDITION ORDER BY 2 DESC LIMIT 2",
    "SELECT DISTINCT VALUE AS NAME FROM SOURCE",
    "SELECT count(*) AS NAME, max(id) AS d FROM SOURCE WHERE CONDITION",
    "SELECT name AS NAME, sum(id) AS d FROM SOURCE WHERE CONDITION GROUP BY name HAVING count(*) > 0",
    "WITH a AS (SELECT * FROM goods) SELECT VALUE AS NAME FROM a WHERE CONDITION",
    "WITH a AS (SELECT id, name, price FROM goods), b AS (SELECT * FROM a) SELECT b.id AS NAME FROM b, a",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i AS NAME FROM n",
    "SELECT a.id AS NAME FROM goods a JOIN goods c2 ON a.id = c2.id WHERE a.id > 0",
    "SELECT a.id AS NAME FROM goods a LEFT JOIN goods c2 USING (id)",
    "SELECT id AS NAME FROM goods UNION ALL SELECT id FROM goods a WHERE CONDITION",
    "SELECT id AS NAME FROM goods EXCEPT SELECT id FROM goods a WHERE CONDITION",
    "SELECT VALUE AS NAME, row_number() OVER (PARTITION BY name ORDER BY id) AS d FROM SOURCE",
    "SELECT a.id AS NAME, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS d FROM SOURCE",
    "SELECT VALUE AS NAME FROM SOURCE WHERE CONDITION OR CONDITION",
)


def _read(shape: str, value: str, name: str, source: str, condition: str, change: int, chance: random.Random) -> str:
    text = shape.replace("SOURCE", source).replace("NAME", name).replace("VALUE", value)
    text = text.replace("CONDITION", condition)
    return _spaced(text, chance) if change and not set("-/;") & set(name) else text


def reads(kind: str) -> SearchStrategy[str]:
    """Return single queries of the table of goods, which the driver can run as they are."""
    return st.builds(
        _read,
        st.sampled_from(_SHAPES),
        st.sampled_from(_VALUES),
        st.sampled_from(_NAMES[kind]),
        st.sampled_from(_SOURCES),
        st.sampled_from(_CONDITIONS),
        st.integers(0, 1),
        st.randoms(use_true_random=False),
    )
