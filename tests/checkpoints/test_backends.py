from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.backends import probe_store


async def test_other_urls_are_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match="Invalid session store URL 'file:///x': use memory://"):
        async with open_store("file:///x", SystemClock()):
            pass


async def test_memory_forgets() -> None:
    for _ in range(2):
        async with open_store("memory://", SystemClock()) as store:
            assert await store.saver.aget_tuple(config("t")) is None
            await store.saver.aput(config("t"), empty_checkpoint(), {"source": "loop", "step": 1}, {})


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("redis://127.0.0.1:1", "Start the server"), ("ftp://x", "Use memory"), ("", "Use memory"),
        ("redis://h:x", "Correct it: memory://"),
        ("sqlite://a.db", "three slashes"), ("sqlite:///", "has no file name"),
    ],
)  # fmt: skip
async def test_what_cannot_be_used_is_told(url: str, advice: str) -> None:
    (finding,) = await probe_store(url, ttl_s=60)
    assert not finding.is_well
    assert advice in finding.advice


async def test_no_session_store_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Nothing like a database. " * 100)
    (finding,) = await probe_store(f"sqlite:///{path}", ttl_s=60)
    assert "not a session store" in finding.what
    (finding,) = await probe_store("memory://", ttl_s=60)
    assert finding.is_well
