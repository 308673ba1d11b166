from copy import copy
from typing import Any

import pytest

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import WorkLimitError
from ragflow_lg.integrations.sql.read_only import NotSqlError
from ragflow_lg.integrations.sql.statements import clean, read_statements
from tests.harness.generated_sql import STATEMENTS
from tests.harness.rows import each_row, read_rows

READS = [(dialect, sql) for dialect, group in STATEMENTS["reads"].items() for sql in group]
WRITES = [(dialect, sql) for dialect, group in STATEMENTS["refused"].items() for sql in group]


def read(sql: str, dialect: str = "mysql", values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return read_statements(sql, dialect, values or {}, "%s" if dialect == "mysql" else "?")


@each_row(("dialect", "sql"), READS)
def test_reads_are_allowed(dialect: str, sql: str) -> None:
    assert [(one["refusal"], one["error"]) for one in read(sql, dialect)] == [("", "")]


@each_row(("dialect", "sql"), WRITES)
def test_everything_else_is_refused(dialect: str, sql: str) -> None:
    assert all(one["refusal"] for one in read(sql, dialect))


def test_statements_are_split_where_the_dialect_ends_them() -> None:
    texts = [one["text"] for one in read("SELECT ';' ; ;SELECT `a;b` /* ; */ FROM t # ; x\n; SELECT 2;")]
    assert texts == ["SELECT ';'", "SELECT `a;b` /* ; */ FROM t", "SELECT 2"]


@each_row(
    ("dialect", "sql", "sent"),
    [
        ("mysql", "SELECT 1 /*!50000 , 2 */ FROM t", "SELECT 1 FROM t"),
        ("mysql", "SELECT 1 -- x\n, 2 # y\n", "SELECT 1 , 2"),
        ("postgres", "EXPLAIN /* a */ SELECT/**/1", "EXPLAIN SELECT 1"),
        ("sqlite", "SELECT a FROM t ORDER /* x */ BY a", "SELECT a FROM t ORDER BY a"),
    ],
)
def test_comments_are_not_sent(dialect: str, sql: str, sent: str) -> None:
    (statement,) = read(sql, dialect)
    assert (statement["sent"], statement["refusal"]) == (sent, "")


def test_open_quotes_deep_nesting_and_endless_lists_are_refused_in_bounded_time() -> None:
    assert "perhaps a quote is not closed" in read("SELECT 'a")[0]["error"]
    assert "nested too deeply" in read(f"SELECT {'(' * 3000}1{')' * 3000}")[0]["refusal"]
    assert "more than 100 statements" in read("SELECT 1;" * 101)[0]["error"]
    assert "more than 200,000 characters" in read("SELECT 1," + "1," * 100_000)[0]["error"]


@each_row(("answer", "sql"), read_rows("sql_of_answers"))
def test_the_sql_of_a_model_is_its_block_without_marks(answer: str, sql: str) -> None:
    assert clean(answer) == sql


def test_several_blocks_in_a_text_are_reported() -> None:
    for mark in ("sql", ""):
        with pytest.raises(NotSqlError, match="a text with 2 fenced blocks"):
            clean(f"Either\n```{mark}\nSELECT 1\n```\nor\n```{mark}\nSELECT 2\n```")


@each_row("dialect", ["mysql", "postgres", "sqlite", "trino", ""])
@each_row("text", read_rows("no_sql"))
def test_what_cannot_be_parsed_is_no_refusal(text: str, dialect: str) -> None:
    (statement,) = read(text, dialect)
    assert not statement["is_sql"]
    assert statement["refusal"].startswith("It ")
    assert "security" not in statement["refusal"]
    assert "Token" not in statement["refusal"]


VALUES: dict[str, Any] = {"value_0_": 1, "value_1_": 2}
QUOTED_VALUES = {"value_0_": "x' OR 1=1 --", "value_1_": 5}


@each_row(
    ("dialect", "sql", "values", "sent", "bound"),
    [
        ("mysql", "SELECT '10%' FROM t WHERE a = value_0_ AND b < value_1_", QUOTED_VALUES,
         "SELECT '10%%' FROM t WHERE a = %s AND b < %s", ["x' OR 1=1 --", 5]),
        ("mysql", "SELECT 1 WHERE a LIKE '%value_0_\\'%' AND b = 'value_1_'", {"value_0_": 7, "value_1_": None},
         "SELECT 1 WHERE a LIKE %s AND b = %s", ["%7'%", None]),
        ("mysql", "SELECT 1 WHERE a IN (value_0_)", {"value_0_": [1, "b"]}, "SELECT 1 WHERE a IN (%s, %s)", [1, "b"]),
        ("mysql", "SELECT 1 WHERE a IN (value_0_)", {"value_0_": []}, "SELECT 1 WHERE a IN (%s)", [None]),
        ("mysql", "SELECT value_0_", {"value_0_": [1, {"b": 2}]}, "SELECT %s", ['[1, {"b": 2}]']),
        ("sqlite", "SELECT 5 % value_0_", VALUES, "SELECT 5 % ?", [1]),  # its driver looks for no percent signs
        ("mysql", "SELECT 5 % 2", VALUES, "SELECT 5 % 2", []),
    ],
)  # fmt: skip
def test_a_reference_that_stands_for_a_value_is_bound(
    dialect: str, sql: str, values: dict[str, Any], sent: str, bound: list[Any]
) -> None:
    (statement,) = read(sql, dialect, values)
    assert (statement["error"], statement["sent"], statement["values"]) == ("", sent, bound)


@each_row("sql", ["SELECT `value_0_` FROM t", "SELECT a_value_0_ FROM t", 'SELECT 1 AS "value_0_"'])
def test_a_reference_that_is_a_part_of_a_name_cannot_be_bound(sql: str) -> None:
    (statement,) = read(sql, "postgres" if '"' in sql else "mysql", VALUES)
    assert "where no value can stand" in statement["error"]


async def test_sql_that_takes_long_to_read_is_read_in_a_process_that_is_killed() -> None:
    pool = WorkerPool(1)
    task, patient = copy(read_statements), copy(read_statements)
    task.seconds, patient.seconds = 0.5, 60.0  # the machine may be busy
    try:
        for sql in (f"SELECT {'ARRAY[' * 25}1{']' * 25}", f"SELECT {'STRUCT(' * 25}1{')' * 25}"):
            with pytest.raises(WorkLimitError):
                await pool.run(task, sql, "mysql", {})
        long = await pool.run(patient, "SELECT 1;" * 60, "mysql", {})
        assert [one["error"] for one in long] == [""] * 60
    finally:
        await pool.aclose()
