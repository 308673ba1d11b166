from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def test_deployments_on_one_server_are_apart(redis_url: str) -> None:
    for prefix in ("a:", "b:"):
        async with open_store(redis_url, SystemClock(), prefix=prefix) as store:
            assert await store.saver.aget_tuple(config("apart")) is None
            await store.saver.aput(config("apart"), empty_checkpoint(), {"source": "loop", "step": 1}, {})


async def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(CheckpointError, match="does not answer") as caught:
        async with open_store("redis://user:secret@127.0.0.1:1", SystemClock()):
            pass
    assert "secret" not in str(caught.value)
