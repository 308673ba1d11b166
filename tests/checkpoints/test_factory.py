from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from checkpoints import open_saver
from ragflow_lg.errors import CheckpointError


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def keep(url: str, value: Any) -> None:
    async with open_saver(url) as saver:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"outputs": value}
        checkpoint["channel_versions"] = {"outputs": "1"}
        await saver.aput(config("t"), checkpoint, {}, {"outputs": "1"})


async def kept(url: str) -> Any:
    async with open_saver(url) as saver:
        found = await saver.aget_tuple(config("t"))
        return found and found.checkpoint["channel_values"]


async def test_memory_forgets() -> None:
    await keep("memory://", {"a": 1})
    assert await kept("memory://") is None


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


async def test_stored_bytes_do_not_become_objects() -> None:
    async with open_saver("memory://") as saver:
        call = ormsgpack.packb(["subprocess", "getoutput", "echo revived"])
        for code in range(6):
            value = saver.serde.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, call))))
            assert value != "revived"
            assert type(value).__module__ == "builtins"


@pytest.mark.parametrize(
    "url", ["", "memory", "memory://x", "sqlite://x", "sqlite:///", "sqlite:", "redis://localhost", "file:///x", "://"]
)
async def test_other_urls_are_refused_by_name(url: str) -> None:
    with pytest.raises(CheckpointError, match="memory://"):
        async with open_saver(url):
            pass


async def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Nothing like a database. " * 100)
    with pytest.raises(CheckpointError, match=r"notes\.txt"):
        async with open_saver(f"sqlite:///{path}"):
            pass
    assert path.read_text().startswith("Nothing")


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be opened"):
        async with open_saver(f"sqlite:///{tmp_path}"):
            pass


async def test_an_error_inside_passes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with open_saver(f"sqlite:///{tmp_path}/s.db"):
            raise KeyError
