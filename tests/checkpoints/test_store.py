from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import ConflictError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def test_a_session_is_deleted_with_its_records(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        thread = thread_of_session("anna")
        await store.saver.aput(config(thread), empty_checkpoint(), {"source": "loop", "step": 1}, {})
        await store.runs.put(RunRecord("r", "anna"))
        await store.delete_session("anna")
        assert await store.saver.aget_tuple(config(thread)) is None
        assert await store.runs.get("r") is None


async def test_a_session_that_is_being_run_is_not_deleted(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", session_of_thread(thread_of_session("anna"))))
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(ConflictError, match="is already running"):
                await store.delete_session("anna")
        assert await store.runs.get("r")
        await store.delete_session("anna")
        assert await store.runs.get("r") is None
