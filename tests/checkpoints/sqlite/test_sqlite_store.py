import stat
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def keep(url: str, value: Any) -> None:
    async with open_store(url, SystemClock()) as store:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"outputs": value}
        checkpoint["channel_versions"] = {"outputs": "1"}
        await store.saver.aput(config("t"), checkpoint, {}, {"outputs": "1"})


async def kept(url: str) -> Any:
    async with open_store(url, SystemClock()) as store:
        found = await store.saver.aget_tuple(config("t"))
        return found and found.checkpoint["channel_values"]


async def test_a_file_remembers_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "sessions.db"
    url = f"sqlite:///{path}"
    await keep(url, {"a": ["ü", 1, None]})
    assert await kept(url) == {"outputs": {"a": ["ü", 1, None]}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_relative_path_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await keep("sqlite:///sessions.db", 1)
    assert (tmp_path / "sessions.db").is_file()


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Nothing like a database. " * 100)
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        async with open_store(f"sqlite:///{path}", SystemClock()):
            pass
    assert path.read_text().startswith("Nothing")


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be opened: it is a folder"):
        async with open_store(f"sqlite:///{tmp_path}", SystemClock()):
            pass


async def test_an_error_inside_passes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()):
            raise KeyError
