from pathlib import Path

import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import ConflictError, SessionBusyError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.leases import this_process
from ragflow_lg.services.sessions import RunRecord, hold_lease, with_lease_token
from tests.stores import (
    OpenStore,
    checkpoint_config,
    fresh_prefix,
    put_checkpoint,
    redis_client,
    redis_keys,
    sqlite_file,
)


async def test_a_running_session_is_not_deleted(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", session_of_thread(thread_of_session("anna"))))
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(ConflictError, match="is already running"):
                await store.delete_session("anna")
        assert await store.runs.get("r")
        await store.delete_session("anna")
        assert await store.runs.get("r") is None


async def test_a_deleted_session_leaves_nothing(tmp_path: Path, redis_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/s.db", redis_url):
        prefix = fresh_prefix()
        async with open_store(url, prefix=prefix) as store, redis_client(redis_url) as client:
            config = checkpoint_config(thread_of_session("anna"))
            async with hold_lease(store.leases, "anna") as before:
                place = await put_checkpoint(store.saver, with_lease_token(config, before), {"a": "x" * 5000})
                await store.saver.aput_writes(with_lease_token(place, before), [("outputs", {"a": 1})], "task")
                await store.runs.put(RunRecord("r", "anna", started_ms=1))
                await store.traces.put(RunRecord("r", "anna"), [{"component_id": "a", "trace": []}])
                await store.node_logs.put(RunRecord("r", "anna"), [{"kind": "calls", "trace": [{"node": "a"}]}])
            assert await store.traces.get("r") == [{"component_id": "a", "trace": []}]
            assert await store.node_logs.get("r") == [{"kind": "calls", "trace": [{"node": "a"}]}]
            await store.delete_session("anna")
            if url == redis_url:
                assert await redis_keys(client, f"{prefix}*") == [f"{prefix}agent:store"]
            else:
                file = sqlite_file(store)
                for table in ("session_checkpoints", "session_writes", "session_blobs", "leases", "runs", "traces"):
                    assert (await file.read(f"SELECT count(*) FROM {table}"))[0][0] == 0, table
            async with hold_lease(store.leases, "anna") as after:
                assert after > before  # a runner from before the deletion is still refused
            await store.leases.forget("anna")


async def test_a_file_shrinks_when_sessions_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(f"sqlite:///{path}") as store:
        for number in range(20):
            config = checkpoint_config(thread_of_session(f"s{number}"))
            await put_checkpoint(store.saver, config, {"a": [f"{number}{part}" * 3000 for part in range(20)]})
    full = path.stat().st_size
    async with open_store(f"sqlite:///{path}") as store:
        for number in range(20):
            await store.delete_session(f"s{number}")
    assert path.stat().st_size < full / 5


async def test_a_record_is_stored_together_with_the_release_of_its_session(reopen: OpenStore) -> None:
    async with reopen() as store:
        lease = await store.leases.acquire("anna", lambda: None)
        config = with_lease_token(checkpoint_config(thread_of_session("anna")), lease.token)
        async with store.leased(config):
            await store.runs.put(RunRecord("r", "anna", "anna", status="succeeded"))
            await lease.release()
        assert await store.leases.holder("anna") == ""
        assert [record.status async for record in store.runs.of_session("anna")] == ["succeeded"]


async def test_a_run_that_has_lost_its_session_stores_no_record_and_no_trace(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        record = RunRecord("r", "anna", "anna")
        lease = await store.leases.acquire("anna", lambda: None)
        config = with_lease_token(checkpoint_config(thread_of_session("anna")), lease.token)
        async with store.leased(config):
            await store.runs.put(record)
        await other.leases.expire("anna", str(this_process()))
        async with hold_lease(other.leases, "anna") as token:
            async with other.leased(with_lease_token(config, token)):
                await other.runs.put(replace(record, status="succeeded"))
                await other.node_logs.put(record, [{"component_id": "b", "trace": []}])
            for put in (store.runs.put(record), store.node_logs.put(record, []), store.traces.put(record, [])):
                with pytest.raises(SessionBusyError):
                    async with store.leased(config):
                        await put
        assert [stored.status async for stored in store.runs.of_session("anna")] == ["succeeded"]
        assert await store.node_logs.get("r") == [{"component_id": "b", "trace": []}]
        assert await store.traces.get("r") is None
        await lease.release()
