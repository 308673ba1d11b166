"""SQLite files: queries that would take gigabytes end, and the process that asks does not grow."""

import asyncio
import resource
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.integrations.sql.configured_databases import ConfiguredDatabases
from ragflow_lg.services.databases import DatabaseAccount
from tests.fakes.databases import SHOP, ask, execute, new_database, open_databases

pytestmark = pytest.mark.slow

LARGE = {
    "hex": "SELECT hex(zeroblob(499999999)) AS x",
    "printf": "SELECT length(printf('%.*c', 50000000, 'x')) AS x",
    "group_concat": "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 900) "
    "SELECT length(group_concat(hex(zeroblob(500000)))) AS x FROM c",
    "replace": "SELECT replace(hex(zeroblob(4000)), '0', hex(zeroblob(100000))) AS x",
    "columns": f"SELECT {', '.join(f'hex(zeroblob({7_000_000 + n}))' for n in range(300))}",
    "arguments": f"SELECT length(max({', '.join(f'hex(zeroblob({7_000_000 + n}))' for n in range(120))})) AS x",
}
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def file(tmp_path: Path) -> DatabaseAccount:
    with new_database("sqlite", tmp_path) as account:
        execute(account, SHOP)
        return account


@pytest.fixture
async def databases(file: DatabaseAccount) -> AsyncGenerator[ConfiguredDatabases]:
    pool = WorkerPool(1)
    yield open_databases(file, workers=pool, timeout_s=20.0)
    await pool.aclose()


@pytest.mark.parametrize("name", LARGE)
async def test_a_query_does_not_take_gigabytes(name: str, databases: ConfiguredDatabases) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large, small = await ask(databases, f"{LARGE[name]}; SELECT name FROM goods WHERE id = 1")
    assert list(large.rows) in ([], [{"x": None}])
    assert large.rows or large.error in (
        "A value in it is larger than 16,777,216 bytes. Select less.",
        "It needs too much memory. Select less.",
        "Its result is larger than 4,194,304 bytes ([sql] max_result_bytes). Select less.",
    )
    assert list(small.rows) == [{"name": "tea"}]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


async def test_one_value_is_limited_without_a_worker_as_well(file: DatabaseAccount) -> None:
    databases = open_databases(file)
    large, small = await ask(databases, f"{LARGE['hex']}; SELECT 1 AS a")
    assert large.error.startswith("A value in it is larger than")
    assert list(small.rows) == [{"a": 1}]


async def test_an_endless_query_ends_and_the_next_runs(file: DatabaseAccount) -> None:
    pool = WorkerPool(1)
    try:
        endless, small = await ask(open_databases(file, workers=pool, timeout_s=0.5), f"{ENDLESS}; SELECT 1 AS a")
    finally:
        await pool.aclose()
    assert endless.error == "It took longer than 0.5 s and was stopped ([sql] timeout_s)."
    assert list(small.rows) == [{"a": 1}]


async def test_a_cancelled_query_kills_its_worker(databases: ConfiguredDatabases) -> None:
    task = asyncio.ensure_future(ask(databases, ENDLESS))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((await ask(databases, "SELECT 2 AS a"))[0].rows) == [{"a": 2}]
    assert time.monotonic() - began < 15


async def test_writes_are_committed_in_a_worker(file: DatabaseAccount, databases: ConfiguredDatabases) -> None:
    sql = "CREATE TEMP TABLE t AS SELECT 1 AS a; UPDATE goods SET name = 'cup' WHERE id = (SELECT a FROM t); SELECT x"
    _, changed, failed = await ask(databases, sql, "writer")
    assert (changed.changed, failed.error) == (1, "no such column: x")
    assert execute(file, ["SELECT name FROM goods WHERE id = 1"]) == [("cup",)]
    (refused,) = await ask(databases, "UPDATE goods SET name = 'cup'")
    assert refused.is_refused


@pytest.mark.parametrize("sql", ["PRAGMA database_list", "SELECT file FROM pragma_database_list"])
async def test_the_path_of_the_file_is_not_shown(sql: str, file: DatabaseAccount) -> None:
    (result,) = await ask(open_databases(file), sql)
    assert result.is_refused
    assert str(Path(file.database).parent) not in str(result)


@pytest.mark.skipif(sys.platform != "linux", reason="others do not list open files")
async def test_sorting_takes_no_space_on_the_disk(databases: ConfiguredDatabases) -> None:
    sort = f"SELECT count(*) FROM (SELECT zeroblob(1000000) AS r FROM ({ENDLESS.replace('count(*)', 'x')}) ORDER BY r)"
    asking = asyncio.ensure_future(ask(databases, sort))
    used = 0
    while not asking.done():
        used = max(used, sum(map(_deleted_bytes, _children())))
        await asyncio.sleep(0.02)
    assert asking.result()[0].error == "It needs too much memory. Select less."
    assert used < 1_000_000


def _children() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


def _deleted_bytes(pid: int) -> int:
    """Return the size of the open files that have no name, as those that SQLite sorts with."""
    size = 0
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(link.readlink()).endswith(" (deleted)"):
                    size += link.stat().st_size
    return size
