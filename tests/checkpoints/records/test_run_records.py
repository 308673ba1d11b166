from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.records.run_records import MAX_TRACES, RecordTexts
from ragflow_lg.checkpoints.sql.sql_records import SqlTraces
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.harness.rows import each_row
from tests.stores import OpenStore

RECORD = RunRecord(
    "r1", "anna", "Anna", "/c.json", "hash", "tenant", "cp", "r0", "failed", "no ü", True, 1000, 2000, 3000, "demo"
)


async def test_records_are_read_back_unchanged(reopen: OpenStore) -> None:
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


async def test_sessions_are_ordered_by_their_newest_run(reopen: OpenStore) -> None:
    """Even if an older run is stored last, or two runs start in the same millisecond."""
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


async def test_invalid_unicode_in_a_reason_is_replaced(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", "anna", reason="a\ud800b"))
        record = await store.runs.get("r")
    assert record is not None
    assert record.reason == "a\ufffdb"


TRACE: Trace = [{"component_id": "a", "trace": [{"tool_name": "ü", "result": {"n": [1, None]}}]}]


async def put(store: Store, run_id: str, trace: Trace, session: str = "anna") -> None:
    record = RunRecord(run_id, session, canvas_id="c", started_ms=1)
    await store.runs.put(record)
    await store.traces.put(record, trace)


async def test_a_trace_is_read_back_unchanged(reopen: OpenStore) -> None:
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


async def test_invalid_unicode_in_a_trace_is_replaced(reopen: OpenStore) -> None:
    async with reopen() as store:
        await put(store, "r1", [{"component_id": "a\ud83d\ude00\ud800", "trace": []}])
        assert await store.traces.get("r1") == [{"component_id": "a😀\ufffd", "trace": []}]


async def test_only_the_traces_of_the_newest_runs_are_kept(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        traces = SqlTraces(file, RecordTexts(), "trace")
        for number in range(MAX_TRACES + 2):
            await traces.put(RunRecord(f"r{number}", "anna", started_ms=number), TRACE)
        await traces.put(RunRecord("other", "ben"), TRACE)
        assert [await traces.get(f"r{number}") for number in range(4)] == [None, None, TRACE, TRACE]
        assert await traces.get("other") == TRACE


@each_row("text", [None, "", "{}", "[", "[" * 100_000, '["x", {"trace": 1}]', b"\xff"])
def test_other_data_is_not_a_trace(text: Any) -> None:
    assert not RecordTexts().read_trace("r", "trace", text)


async def test_records_of_a_long_session_are_listed_in_order(reopen: OpenStore) -> None:
    async with reopen() as store:
        records = [RunRecord(f"r{number:03}", "anna", started_ms=number // 90) for number in range(700)]
        for record in reversed(records):
            await store.runs.put(record)
        await store.runs.put(RunRecord("other", "ben", started_ms=100))
        listed = [record.run_id async for record in store.runs.of_session("anna")]
        assert listed == [record.run_id for record in reversed(records)]
        await store.runs.delete("anna", listed[:600])
        assert [record.run_id async for record in store.runs.of_session("anna")] == listed[600:]
        assert [record.run_id async for record in store.runs.sessions()] == ["other", "r099"]
        await store.runs.delete_session("anna")
        assert [record.run_id async for record in store.runs.sessions()] == ["other"]


async def test_the_newest_record_is_found_without_reading_the_others(
    reopen_shared: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen_shared() as store:
        for number in range(30):
            await store.runs.put(RunRecord(f"r{number}", "anna", started_ms=number))
        runs: Any = store.runs
        read: list[int] = []

        def count_results(method: Any) -> Any:
            async def call(*arguments: Any, **options: Any) -> Any:
                result = await method(*arguments, **options)
                read.append(len(result))
                return result

            return call

        if hasattr(runs, "_database"):
            monkeypatch.setattr(runs._database, "read", count_results(runs._database.read))
        else:
            for name in ("zrange", "zrevrange"):
                monkeypatch.setattr(runs._client, name, count_results(getattr(runs._client, name)))
        async for record in store.runs.of_session("anna"):
            assert record.run_id == "r29"
            break
        assert read == [1]
