import stat
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from tests.stores import checkpoint_config, put_checkpoint


async def write(url: str, value: Any) -> None:
    async with open_store(url, SystemClock()) as store:
        await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": value})


async def read(url: str) -> Any:
    async with open_store(url, SystemClock()) as store:
        checkpoint = await store.saver.aget_tuple(checkpoint_config("t"))
        return checkpoint and checkpoint.checkpoint["channel_values"]


async def test_a_file_keeps_sessions_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder" / "sessions.db"
    url = f"sqlite:///{path}"
    await write(url, {"a": ["ü", 1, None]})
    assert await read(url) == {"outputs": {"a": ["ü", 1, None]}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await write("sqlite:///sessions.db", 1)
    assert (tmp_path / "sessions.db").is_file()


async def test_a_file_that_is_not_a_store_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database. " * 100)
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        async with open_store(f"sqlite:///{path}", SystemClock()):
            pass
    assert path.read_text().startswith("Not")


async def test_a_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be opened: it is a folder"):
        async with open_store(f"sqlite:///{tmp_path}", SystemClock()):
            pass


async def test_an_exception_in_the_block_propagates(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()):
            raise KeyError
