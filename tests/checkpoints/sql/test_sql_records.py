import asyncio
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.run_records import RecordTexts
from ragflow_lg.checkpoints.sql.sql_records import SqlCancels, SqlRecords, SqlTraces
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import checkpoint_config, put_checkpoint

RECORD = RunRecord(
    "r1", "anna", "Anna", "/c.json", "hash", "tenant", "cp", "r0", "failed", "no ü", True, 1000, 2000, 3000
)


async def test_a_failing_file_is_reported(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        runs, traces = SqlRecords(file, RecordTexts()), SqlTraces(file, RecordTexts(), "trace")
        for table in ("runs", "traces", "leases"):
            await file.read(f"DROP TABLE {table}")
        for calling in (
            *(runs.put(RECORD), runs.get("r1"), runs.delete_session("anna"), SqlCancels(file).request("anna")),
            *(traces.put(RECORD, []), traces.get("r1"), traces.delete_session("anna")),
        ):
            with pytest.raises(CheckpointError, match="no such table"):
                await calling


async def test_listings_do_not_block_writes(tmp_path: Path) -> None:
    """SQLite rejects a write at once if it starts while the same connection is reading rows."""
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
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


async def test_the_flag_of_a_cancelled_run_goes_with_its_record(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        session, runs = "a" * 32, ["b" * 32, "c" * 32]
        for run in runs:
            await store.runs.put(RunRecord(run, session))
            await store.cancels.request(run)
        await store.runs.delete(session, runs[:1])
        assert [await store.cancels.is_requested(run) for run in runs] == [False, True]
