from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.traces import RUNS_KEPT, SqliteTraces, read_trace
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.stores import OpenStore

TRACE: Trace = [{"component_id": "a", "trace": [{"tool_name": "ü", "result": {"n": [1, None]}}]}]


async def put(store: Any, run_id: str, trace: Trace, session: str = "anna", at: int = 1) -> None:
    record = RunRecord(run_id, session, canvas_id="c", started_ms=at)
    await store.runs.put(record)
    await store.traces.put(record, trace)


async def test_a_trace_comes_back_as_it_was(reopen: OpenStore) -> None:
    async with reopen() as store:
        await put(store, "r1", [])
        await put(store, "r1", TRACE)
        await put(store, "r2", TRACE, "ben")
    async with reopen() as store:
        assert await store.traces.get("r1") == TRACE
        assert await store.traces.get("none") is None
        await store.delete_session("anna")
        assert await store.traces.get("r1") is None
        assert await store.traces.get("r2") == TRACE


async def test_a_text_that_is_no_text_can_be_kept(reopen: OpenStore) -> None:
    async with reopen() as store:
        await put(store, "r1", [{"component_id": "a\ud800", "trace": []}])
        assert await store.traces.get("r1") == [{"component_id": "a?", "trace": []}]


async def test_of_many_runs_the_newest_are_kept(tmp_path: Path) -> None:
    from ragflow_lg.checkpoints.traces import MemoryTraces

    async with open_sqlite(tmp_path / "s.db") as file:
        for traces in (MemoryTraces(), SqliteTraces(file)):
            for number in range(RUNS_KEPT + 2):
                await traces.put(RunRecord(f"r{number}", "anna", started_ms=number), TRACE)
            await traces.put(RunRecord("other", "ben"), TRACE)
            found = [await traces.get(f"r{number}") for number in range(4)]
            assert found == [None, None, TRACE, TRACE]
            assert await traces.get("other") == TRACE


@pytest.mark.parametrize("text", [None, "", "{}", "[", "[" * 100_000, '["x", {"trace": 1}]', b"\xff"])
def test_what_somebody_else_wrote_is_no_trace(text: Any) -> None:
    assert not read_trace(text)


async def test_a_file_that_fails_is_told(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        traces = SqliteTraces(file)
        await file.rows("DROP TABLE traces")
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.put(RunRecord("r1", "anna"), TRACE)
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.get("r1")
        with pytest.raises(CheckpointError, match="no such table"):
            await traces.delete_session("anna")
