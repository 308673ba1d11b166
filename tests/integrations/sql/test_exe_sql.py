"""ExeSQL as a node and as a tool, on real databases."""

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragflow_lg.checkpoints import open_store
from ragflow_lg.integrations.sql.exe_sql import exe_sql
from ragflow_lg.services.databases import DatabaseAccount, Databases
from ragflow_lg.services.services import Services
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.databases import SHOP, execute, new_database, open_databases
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import Reply, fake_services
from tests.harness.rows import each_row

TABLE = """\
|   id | name   |    price |
|-----:|:-------|---------:|
|    1 | tea    | 2.500000 |
|    2 | jam    |          |"""


@pytest.fixture
def file(tmp_path: Path) -> Generator[DatabaseAccount]:
    with new_database("sqlite", tmp_path) as account:
        execute(account, SHOP)
        yield account


def services_for(account: DatabaseAccount, **settings: Any) -> Services:
    return fake_services(integrations={Databases: open_databases(account, **settings)})


async def run(account: DatabaseAccount, params: dict[str, Any], **options: Any) -> Result:
    services = services_for(account)
    return await run_component(exe_sql, {"connection": "reader", **params}, services=services, **options)


async def test_a_node_returns_rows_and_a_table(shop: DatabaseAccount) -> None:
    sql = "SELECT id, name, price FROM goods WHERE id < 3 ORDER BY id; SELECT id FROM goods WHERE id = 99; SELECT 1"
    result = await run(shop, {"sql": sql})
    assert result.error is None
    rows = [{"id": 1, "name": "tea", "price": 2.5}, {"id": 2, "name": "jam", "price": None}]
    assert result.outputs["json"] == [rows, {"content": "No record in the database!"}]
    assert result.outputs["formalized_content"] == TABLE


BLOCK = "Here is the query:\n```sql\nSELECT name FROM goods WHERE id = 1;\n```\nIt returns the name."
FENCED = "```sql\nSELECT name FROM goods WHERE id = 1 [ID:3]\n```"
BOUND = {"bind_references": True}


@each_row(
    ("params", "values", "rows"),
    [
        ({}, {"sys.query": FENCED}, [{"name": "tea"}]),  # the query of the user is the default
        ({"sql": "{llm@content}"}, {"content": BLOCK}, [{"name": "tea"}]),
        ({"sql": "{llm@content}", **BOUND}, {"content": "SELECT 5 AS a"}, [{"a": 5}]),  # the whole SQL is not bound
        ({"sql": "SELECT 9e999 AS a, -9e999 AS b, 1.5 AS c"}, {}, [{"a": None, "b": None, "c": 1.5}]),
        # References become text as in RAGFlow: this value changes the statement.
        (
            {"sql": "SELECT 1 AS a FROM goods WHERE name = '{llm@content}'"},
            {"content": "x' OR '1' = '1"},
            [{"a": 1}] * 3,
        ),
        # Values of references are not searched for references.
        ({"sql": "SELECT '{llm@content}' AS a"}, {"content": "{sys.query}", "sys.query": "x"}, [{"a": "{sys.query}"}]),
    ],
)
async def test_the_sql_of_a_node(params: Any, values: dict[str, Any], rows: Any, file: DatabaseAccount) -> None:
    globals_ = {"sys.query": values.get("sys.query", "")}
    result = await run(file, params, outputs={"llm": {"content": values.get("content", "")}}, globals=globals_)
    assert (result.error, result.outputs["json"]) == (None, [rows])


async def test_a_failing_statement_does_not_stop_the_others(shop: DatabaseAccount) -> None:
    result = await run(shop, {"sql": "SELECT nothing FROM goods; DELETE FROM goods; SELECT 2 AS b"})
    failed, refused, rows = result.outputs["json"]
    assert failed["content"].startswith("SQL Execution Failed: SELECT nothing FROM goods\n")
    assert refused == {"content": "For security reasons, INSERT, UPDATE, and DELETE statements are not supported."}
    assert rows == [{"b": 2}]
    texts = [failed["content"], refused["content"], "|   b |\n|----:|\n|   2 |"]
    assert result.outputs["formalized_content"] == "\n\n".join(texts)
    assert execute(shop, ["SELECT count(*) FROM goods"])[0][0] == 3


async def test_no_column_is_lost(shop: DatabaseAccount) -> None:
    sql = "SELECT a.id, a.name, b.id, 7 AS id_2, b.name AS NAME FROM goods a JOIN goods b ON b.id = 2 WHERE a.id = 1"
    result = await run(shop, {"sql": sql})
    name = "name" if shop.kind == "postgres" else "NAME"
    second = "name_2" if shop.kind == "postgres" else "NAME"
    assert result.outputs["json"] == [[{"id": 1, "name": "tea", "id_3": 2, "id_2": 7, second: "jam"}]]
    head, _, row = result.outputs["formalized_content"].splitlines()
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["id", "name", "id", "id_2", name]
    assert [cell.strip() for cell in row.split("|")[1:-1]] == ["1", "tea", "2", "7", "jam"]


async def test_columns_without_a_name_are_not_lost(shop: DatabaseAccount) -> None:
    result = await run(shop, {"sql": "SELECT COUNT(*), COUNT(*), 2.5 * 2 FROM goods"})
    ((row,),) = result.outputs["json"]
    assert list(row.values()) == [3, 3, 5.0]
    head = [cell.strip() for cell in result.outputs["formalized_content"].splitlines()[0].split("|")[1:-1]]
    assert (
        head
        == {
            "sqlite": ["COUNT(*)", "COUNT(*)", "2.5 * 2"],
            "postgres": ["count", "count", "?column?"],
            "mariadb": ["COUNT(*)", "COUNT(*)", "2.5 * 2"],
        }[shop.kind]
    )


@each_row(
    ("text", "reason"),
    [
        ("SELECT name FORM goods WHERE id = 1", "It has a syntax error: "),
        ("SELEC name FROM goods", "It is not SQL: no statement begins with 'SELEC'."),
        ("I don't know.", "It cannot be read as SQL; perhaps a quote is not closed."),
        ("Sorry, I cannot answer this.", "It is not SQL: no statement begins with 'Sorry'."),
        ("a\n```\nSELECT 1\n```\nb\n```\nSELECT 2\n```", "It is a text with 2 fenced blocks. "),
    ],
)
async def test_what_is_not_sql_has_ragflows_mark(text: str, reason: str, file: DatabaseAccount) -> None:
    result = await run(file, {"sql": text})
    assert result.outputs["json"][0]["content"].startswith(f"SQL Execution Failed: {text}\n{reason}")
    assert result.outputs["formalized_content"] == result.outputs["json"][0]["content"]
    assert "security" not in result.outputs["formalized_content"]


@each_row(
    ("number", "shown"),
    [
        ("2.5", "2.500000"),
        ("0.1", "0.100000"),
        ("0.00000012", "1.2e-07"),
        ("-0.1234567", "-0.1234567"),
        ("12345678901.125", "12345678901.125000"),
        ("1e300", "1e+300"),
        ("9007199254740993", "9007199254740993"),
        ("7", "7.000000"),
    ],
)
async def test_no_digit_of_a_number_is_lost_in_the_table(number: str, shown: str, file: DatabaseAccount) -> None:
    result = await run(file, {"sql": f"SELECT 0.5 AS n UNION ALL SELECT {number}"})
    assert result.outputs["formalized_content"].splitlines()[-1].strip("| ") == shown


async def test_bound_references_cannot_change_the_statement(shop: DatabaseAccount) -> None:
    sql = "SELECT id FROM goods WHERE name = '{begin@name}' OR id = {begin@id} OR id IN ({begin@ids}) ORDER BY id"
    outputs = {"begin": {"name": "x' OR '1' = '1", "id": 2, "ids": [3, 4]}}
    result = await run(shop, {"sql": sql, "bind_references": True}, outputs=outputs)
    assert result.outputs["json"] == [[{"id": 2}, {"id": 3}]]
    result = await run(shop, {"sql": "SELECT id FROM {begin@name}_x", "bind_references": True}, outputs=outputs)
    assert "where no value can stand" in result.outputs["json"][0]["content"]


async def test_no_sql_is_an_error(file: DatabaseAccount) -> None:
    result = await run(file, {"sql": " "})
    assert result.error == "SQL for `ExeSQL` MUST not be empty."


async def test_a_missing_account_is_named_by_the_check_and_the_run(file: DatabaseAccount) -> None:
    params = {"connection": "", "host": "db", "password": ""}
    (finding,) = exe_sql.lint(bind(exe_sql, params))
    assert (finding.code, finding.path) == ("account-missing", ("database",))
    result = await run(file, {**params, "sql": "SELECT 1"})
    assert result.error is not None
    assert "no database, username, password" in result.error


async def test_an_sqlite_file_in_the_canvas_is_reported_with_what_to_do(file: DatabaseAccount) -> None:
    account = {"db_type": "sqlite", "database": "/tmp/x.db", "connection": ""}
    (finding,) = exe_sql.lint(bind(exe_sql, account))
    assert (finding.code, finding.path) == ("account-missing", ("db_type",))
    result = await run(file, {**account, "sql": "SELECT 1"})
    assert result.error is not None
    assert "Add it to the settings as [sql.connections.NAME], and set connection to its name." in result.error
    assert list(exe_sql.lint(bind(exe_sql, {**account, "connection": "shop"}))) == []


def test_the_check_reports_references_that_can_change_the_statement() -> None:
    params = {"connection": "shop", "sql": "SELECT 1 WHERE a = '{sys.query}'"}
    assert [finding.code for finding in exe_sql.lint(bind(exe_sql, params))] == ["sql-reference-text"]
    for safe in ({"bind_references": True}, {"sql": "{sys.query}"}, {"sql": "SELECT 1"}):
        assert list(exe_sql.lint(bind(exe_sql, {**params, **safe}))) == []


@each_row(
    "sql",
    [
        "LIKE '%begin@key%'",
        "= 'Code:AbcDef@result'",
        "= '{begin@a}' OR a = 'begin@b'",
        "LIKE '%sys.query%'",
        '= "env.a"',
    ],
)
def test_the_check_reports_references_without_braces(sql: str) -> None:
    params = {"connection": "shop", "sql": f"SELECT 1 WHERE a {sql}", "bind_references": True}
    (finding,) = exe_sql.lint(bind(exe_sql, params))
    assert (finding.code, finding.severity) == ("params-unsupported", "info")
    assert "has no braces" in finding.message
    for address in ("begin@example.com, me", "me@example.com", "{begin@key}", "%{sys.query}%"):
        assert not list(exe_sql.lint(bind(exe_sql, {**params, "sql": f"SELECT 1 WHERE a = '{address}'"})))


async def test_an_account_of_a_canvas_goes_through_the_address_guard(file: DatabaseAccount) -> None:
    account = {"host": "10.1.2.3", "database": "a", "username": "b", "password": "secret-1", "db_type": "postgres"}
    result = await run(file, {**account, "connection": "", "sql": "SELECT 1"})
    assert result.error is not None
    assert result.error.startswith("Database host '10.1.2.3' is not allowed: ")
    assert "secret-1" not in str(result)


async def test_an_agent_sees_every_column_and_what_is_wrong_with_its_sql(file: DatabaseAccount) -> None:
    sql = "This is it:\n```sql\nSELECT id, name, price AS id FROM goods ORDER BY 1\n```"
    replies = [
        tool_calls(("execute_sql_0", {"sql": "Sorry."})),
        tool_calls(("execute_sql_0", {"sql": sql})),
        Reply("Tea."),
    ]
    tools = [{"component_name": "ExeSQL", "name": "Shop", "params": {"connection": "reader", "max_records": 1}}]
    services = services_for(file)
    turn = await play_agent(replies, {"tools": tools}, services={"integrations": services.integrations})
    results = [message["content"] for message in turn.model.requests[-1][1].messages if message["role"] == "tool"]
    assert results == [
        "SQL Execution Failed: Sorry.\nIt is not SQL: no statement begins with 'Sorry'.",
        "|   id | name   |       id |\n|-----:|:-------|---------:|\n|    1 | tea    | 2.500000 |"
        "\n\nThese are the first 1 rows. There are more.",
    ]


def test_only_what_may_write_runs_once(file: DatabaseAccount) -> None:
    ctx: Any = SimpleNamespace(services=services_for(file))
    for connection, once, expected in (
        *(("reader", once, bool(once)) for once in (None, True, False)),
        *(("writer", once, once is not False) for once in (None, True, False)),
    ):
        params = bind(exe_sql, {"connection": connection, "once_only": once})
        assert exe_sql.must_run_once(ctx, params) == expected, (connection, once)


async def test_passwords_are_in_no_checkpoint_event_or_trace(tmp_path: Path) -> None:
    secret = "a-password-of-the-canvas"
    account = {"host": "127.0.0.1", "port": 9, "database": "d", "username": "u", "password": secret}
    tools = [{"component_name": "ExeSQL", "name": "Shop", "params": account}]
    replies = [tool_calls(("execute_sql_0", {"sql": "SELECT 1"})), Reply("Done.")]
    databases = open_databases(DatabaseAccount("sqlite", "", 0, "", ""), allow=["127.0.0.1"])
    async with open_store(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        turn = await play_agent(
            replies, {"tools": tools}, services={"integrations": {Databases: databases}}, store=store
        )
        assert "Database Connection Failed!" in str(turn.tool_results)
        seen = [str(turn.state), str(turn.tool_results), str(turn.run.error)]
    stored = [file.read_bytes() for file in tmp_path.glob("runs.db*")]
    assert stored
    assert not any(secret in text for text in seen)
    assert not any(secret.encode() in data for data in stored)
