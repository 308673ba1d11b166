from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore, checkpoint_config, put_checkpoint


async def test_a_session_is_deleted_with_its_records(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        config = checkpoint_config(thread_of_session("anna"))
        await put_checkpoint(store.saver, config)
        await store.runs.put(RunRecord("r", "anna"))
        await store.delete_session("anna")
        assert await store.saver.aget_tuple(config) is None
        assert await store.runs.get("r") is None


async def test_a_running_session_is_not_deleted(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", session_of_thread(thread_of_session("anna"))))
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(ConflictError, match="is already running"):
                await store.delete_session("anna")
        assert await store.runs.get("r")
        await store.delete_session("anna")
        assert await store.runs.get("r") is None
