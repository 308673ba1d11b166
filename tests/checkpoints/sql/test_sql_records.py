import asyncio
from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.sql.sql_records import SqlRecords, SqlTraces
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.sqlite.sqlite_transactions import SqliteTables
from ragflow_lg.services.sessions import RunRecord, Trace, hold_lease
from tests.stores import checkpoint_config, put_checkpoint

RECORD = RunRecord(
    "r1", "anna", "Anna", "/c.json", "hash", "tenant", "cp", "r0", "failed", "no ü", True, 1000, 2000, 3000
)


async def test_run_records_report_a_failing_file(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        runs = SqlRecords(SqliteTables(file))
        await file.rows("DROP TABLE runs")
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.put(RECORD)
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.get("r1")
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.delete_session("anna")


async def test_listings_do_not_block_writes(tmp_path: Path) -> None:
    """SQLite rejects a write at once if it starts while the same connection is reading rows."""
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        for number in range(300):
            await store.runs.put(RunRecord(f"r{number}", f"s{number}"))
        is_over = asyncio.Event()

        async def write(number: int) -> None:
            for step in range(20):
                async with hold_lease(store.leases, f"s{number}"):
                    await store.runs.put(RunRecord(f"w{number}-{step}", f"s{number}"))
                    await put_checkpoint(store.saver, checkpoint_config(f"t{number}"))

        async def read() -> None:
            while not is_over.is_set():
                assert [record async for record in store.runs.sessions()]
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.gather(*(write(number) for number in range(4)))
        is_over.set()
        await asyncio.gather(*readers)


TRACE: Trace = [{"component_id": "a", "trace": [{"tool_name": "ü", "result": {"n": [1, None]}}]}]


async def test_traces_report_a_failing_file(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        traces = SqlTraces(SqliteTables(file))
        await file.rows("DROP TABLE traces")
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.put(RunRecord("r1", "anna"), TRACE)
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.get("r1")
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.delete_session("anna")
