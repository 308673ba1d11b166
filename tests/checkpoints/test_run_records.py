from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.run_records import SqliteRuns
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore

RECORD = RunRecord(
    "r1", "anna", "Anna", "/c.json", "hash", "tenant", "cp", "r0", "failed", "no ü", True, 1000, 2000, 3000
)


async def test_records_come_back_as_they_were(reopen: OpenStore) -> None:
    session = session_of_thread(thread_of_session("anna"))
    async with reopen() as store:
        await store.runs.put(RECORD)
        await store.runs.put(replace(RECORD, run_id="r2", started_ms=5000, status="waiting", is_cancel_requested=False))
        await store.runs.put(
            replace(RECORD, run_id="r3", session="ben", started_ms=4000, status="succeeded", reason="")
        )
    async with reopen() as store:
        assert await store.runs.get("r1") == replace(RECORD, session=session)
        assert await store.runs.get("none") is None
        assert [r.run_id async for r in store.runs.of_session("anna")] == ["r2", "r1"]
        assert [r.run_id async for r in store.runs.of_session(session)] == ["r2", "r1"]
        assert [r.run_id async for r in store.runs.sessions()] == ["r2", "r3"]
        await store.runs.put(replace(RECORD, run_id="r2", started_ms=5000, status="succeeded"))
        assert [r.status async for r in store.runs.of_session("anna")] == ["succeeded", "failed"]
        await store.runs.delete_session("anna")
        assert [r.run_id async for r in store.runs.sessions()] == ["r3"]
        assert await store.runs.get("r1") is None


async def test_a_session_is_as_new_as_its_newest_run(reopen: OpenStore) -> None:
    """Also where an older run ends last, or two begin in one millisecond."""
    async with reopen() as store:
        for run_id, session, started_ms in (
            ("a", "anna", 100),
            ("b", "anna", 300),
            ("c", "ben", 200),
            ("a", "anna", 100),
        ):
            await store.runs.put(RunRecord(run_id, session, started_ms=started_ms))
        assert [record.run_id async for record in store.runs.sessions()] == ["b", "c"]
        await store.runs.put(RunRecord("e", "anna", started_ms=300))
        await store.runs.put(RunRecord("d", "anna", started_ms=300))
        assert [record.run_id async for record in store.runs.of_session("anna")] == ["e", "d", "b", "a"]
        assert [record.run_id async for record in store.runs.sessions()] == ["e", "c"]


async def test_a_reason_that_is_no_text_can_be_kept(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", reason="a\ud800b"))
        found = await store.runs.get("r")
    assert found is not None
    assert found.reason == "a\ufffdb"


async def test_a_file_that_fails_is_told(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        runs = SqliteRuns(file)
        await file.rows("DROP TABLE runs")
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.put(RECORD)
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.get("r1")
        with pytest.raises(CheckpointError, match="no such table"):
            await runs.delete_session("anna")


async def test_listing_does_not_keep_others_from_writing(tmp_path: Path) -> None:
    """A write that begins while a reader stands in the middle of its rows is refused at once."""
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        for number in range(300):
            await store.runs.put(RunRecord(f"r{number}", f"s{number}"))
        done = asyncio.Event()

        async def write(number: int) -> None:
            for step in range(20):
                async with hold_lease(store.leases, f"s{number}"):
                    await store.runs.put(RunRecord(f"w{number}-{step}", f"s{number}"))
                    place: Any = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": ""}}
                    await store.saver.aput(place, empty_checkpoint(), {"source": "loop", "step": step}, {})

        async def read() -> None:
            while not done.is_set():
                assert [record async for record in store.runs.sessions()]
                await asyncio.sleep(0)

        readers = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.gather(*(write(number) for number in range(4)))
        done.set()
        await asyncio.gather(*readers)
