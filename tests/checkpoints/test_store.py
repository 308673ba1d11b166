from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.serializer import plain_serializer
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.stores import OpenStore


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
    call = ormsgpack.packb(["subprocess", "getoutput", "echo revived"])
    for code in range(6):
        value = plain_serializer().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, call))))
        assert value != "revived"
        assert type(value).__module__ == "builtins"


async def test_deployments_on_one_server_are_apart(redis_url: str) -> None:
    for prefix in ("a:", "b:"):
        async with open_store(redis_url, SystemClock(), prefix=prefix) as store:
            assert await store.saver.aget_tuple(config("apart")) is None
            await store.saver.aput(config("apart"), empty_checkpoint(), {"source": "loop", "step": 1}, {})


async def test_a_session_is_deleted_with_its_records(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        thread = thread_of_session("anna")
        await store.saver.aput(config(thread), empty_checkpoint(), {"source": "loop", "step": 1}, {})
        await store.runs.put(RunRecord("r", "anna"))
        await store.delete_session("anna")
        assert await store.saver.aget_tuple(config(thread)) is None
        assert await store.runs.get("r") is None


async def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(CheckpointError, match="does not answer") as caught:
        async with open_store("redis://user:secret@127.0.0.1:1", SystemClock()):
            pass
    assert "secret" not in str(caught.value)


async def test_other_urls_are_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match="There is no session store 'file:///x': give memory://"):
        async with open_store("file:///x", SystemClock()):
            pass


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


async def test_a_session_that_is_being_run_is_not_deleted(reopen: OpenStore) -> None:
    async with reopen() as store:
        await store.runs.put(RunRecord("r", session_of_thread(thread_of_session("anna"))))
        async with hold_lease(store.leases, "anna"):
            with pytest.raises(ConflictError, match="is being run already"):
                await store.delete_session("anna")
        assert await store.runs.get("r")
        await store.delete_session("anna")
        assert await store.runs.get("r") is None
