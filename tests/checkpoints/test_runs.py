from __future__ import annotations

from dataclasses import replace

from ragflow_lg.ids import session_of_thread, thread_of_session
from ragflow_lg.sessions import RunRecord
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
