"""What users and models wrote is encrypted in every store, and can be read only with its key and in its place."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.sessions.session_files import export_session
from ragflow_lg.checkpoints.sessions.session_pruning import PruneLimits, prune_session
from ragflow_lg.checkpoints.steps.stored_texts import blob_digest
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.encryption import EncryptionKey
from ragflow_lg.services.sessions import RunRecord
from tests.checkpoints.sessions.test_session_import import WAITING, play
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.services import fake_services
from tests.stores import SHARED, OpenStore, checkpoint_config, fresh_prefix, put_checkpoint, store_opener, store_url

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
OpenWith = Callable[..., OpenStore]
"""Returns a function that opens the same store with the given keys."""
SECRET = "correct-horse"


@pytest.fixture(params=SHARED)
def open_with(request: pytest.FixtureRequest, tmp_path: Path) -> OpenWith:
    """Return a function that opens one store, on disk or in Redis, with keys."""
    url, prefix = store_url(request, tmp_path), fresh_prefix()
    return lambda *keys: store_opener(url, prefix, keys)


def runner_on(store: Store) -> Runner:
    services = replace(fake_services(), ids=RandomIds())  # runs of different sessions have different ids
    return Runner(compile_canvas(canvas(WAITING), CATALOG), services, store=store)


async def fill(store: Store) -> None:
    """Play a turn that waits at its form, with a short and a long secret text, a step, traces and a reason."""
    await play(runner_on(store).start("anna", {"query": SECRET + " " + f"{SECRET} " * 300}))
    await store.saver.steps(step_config()).put("0" * 32, {"done": SECRET})
    newest = await anext(aiter(store.runs.of_session("anna")))
    await store.traces.put(newest, [{"component_id": "a", "trace": [{"result": SECRET}]}])
    await store.node_logs.put(newest, [{"component_id": "b", "trace": [], "text": SECRET}])
    failed = RunRecord("failed-run", newest.session, "anna", status="failed", reason=SECRET, started_ms=1)
    await store.runs.put(failed)


def step_config() -> Any:
    return {"configurable": {"thread_id": thread_of_session("anna")}}


async def everything(store: Store) -> Any:
    session = await export_session(store, "anna")
    return session.parts, sorted(map(str, session.checkpoints)), session.steps, session.runs


async def test_the_store_has_no_plain_text_and_gives_back_everything(open_with: OpenWith) -> None:
    async with open_with(OLD)() as store:
        await fill(store)
        before = await everything(store)
        runner = runner_on(store)
        assert SECRET in str(before)
    async with open_with(NEW, OLD)() as store:
        assert await everything(store) == before
        assert await store.saver.steps(step_config()).find("0" * 32) == (True, {"done": SECRET})
        runner = runner_on(store)
        assert (await play(runner.resume("anna", {"size": "7"}))).endswith("Size 7")
        assert await play(await runner.rerun("anna", "anna-2", "in", round=1)) != ""
    async with open_with()() as store:
        raw = [str(await store.saver.read_stored(key)) async for key in store.saver.list_keys(None)]
        thread = thread_of_session("anna")
        blobs = await store.saver.tables.find_blobs(thread, await store.saver.tables.blob_names(thread))
        records = [record async for record in store.runs.of_session("anna")]
        traces = [await table.get(records[1].run_id) for table in (store.traces, store.node_logs)]
        stored = f"{raw} {blobs} {records} {traces}"
        assert SECRET not in stored
        assert "anna" in stored
        assert "!old!" in stored
        assert "!new!" in stored


async def test_the_names_of_parts_do_not_show_their_content(tmp_path: Path) -> None:
    open_store = store_opener(f"sqlite:///{tmp_path}/s.db", keys=[OLD])
    text = json.dumps("x" * 5000).encode()
    async with open_store() as store:
        for thread in ("a", "b"):
            await put_checkpoint(store.saver, checkpoint_config(thread), {"outputs": "x" * 5000})
    with sqlite3.connect(tmp_path / "s.db") as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM session_blobs")]
    assert len(set(names)) == 2  # also two sessions with the same text have different ones
    assert blob_digest(text) not in names


async def test_a_missing_or_wrong_key_is_an_error_of_its_session_alone(open_with: OpenWith) -> None:
    async with open_with(OLD)() as store:
        await fill(store)
    for keys in ((), (NEW,), (EncryptionKey("old", b"?" * 32),)):
        async with open_with(*keys)() as store:
            with pytest.raises(SessionKeyError, match="'old'") as caught:
                await runner_on(store).pauses("anna")
            assert caught.value.code == "session-key"
            with pytest.raises(SessionKeyError):
                await everything(store)
            with pytest.raises(SessionKeyError):  # without its key, no part looks used
                await prune_session(store, "anna", PruneLimits())
            assert [entry async for entry in store.saver.alist(None)] == []
            await play(runner_on(store).start("ben", {"query": "hello"}))
            names = {record.name async for record in store.runs.sessions()}
            assert names == {"anna", "ben"}
            await store.delete_session("ben")
    async with open_with()() as store:
        await store.delete_session("anna")
        assert [key async for key in store.saver.list_keys(None)] == []


async def test_values_cannot_be_moved_to_another_place(tmp_path: Path) -> None:
    open_store = store_opener(f"sqlite:///{tmp_path}/s.db", keys=[OLD])
    async with open_store() as store:
        for thread in ("a", "b"):
            await put_checkpoint(store.saver, checkpoint_config(thread), {"outputs": thread * 5000, "turn": thread})
    with sqlite3.connect(tmp_path / "s.db") as connection:
        row = "(SELECT {} FROM session_checkpoints WHERE thread_id = 'a')"
        sets = ", ".join(f"{name} = {row.format(name)}" for name in ("checkpoint", "metadata", "id"))
        connection.execute(f"UPDATE session_checkpoints SET {sets} WHERE thread_id = 'b'")
    async with open_store() as store:
        assert (await store.saver.aget_tuple(checkpoint_config("a"))) is not None
        with pytest.raises(SessionKeyError, match="the data has been changed"):
            await store.saver.aget_tuple(checkpoint_config("b"))


async def test_a_part_cannot_be_replaced_by_another_one(tmp_path: Path) -> None:
    open_store = store_opener(f"sqlite:///{tmp_path}/s.db", keys=[OLD])
    async with open_store() as store:
        await put_checkpoint(store.saver, checkpoint_config("a"), {"outputs": "a" * 5000, "turn": "b" * 5000})
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("UPDATE session_blobs SET content = (SELECT content FROM session_blobs LIMIT 1)")
    async with open_store() as store:
        with pytest.raises(SessionKeyError, match="the data has been changed"):
            await store.saver.aget_tuple(checkpoint_config("a"))


async def test_plain_sessions_go_on_and_are_encrypted_from_then_on(open_with: OpenWith) -> None:
    async with open_with()() as store:
        await fill(store)
        before = await everything(store)
    async with open_with(OLD)() as store:
        assert await everything(store) == before
        runner = runner_on(store)
        await play(runner.resume("anna", {"size": "7"}))
        for number in range(12):  # a long list whose blocks are plain
            await play(runner.start("anna", {"query": f"question {number}"}))
            await play(runner.resume("anna", {"size": str(number)}))
    async with open_with(NEW, OLD)() as store:  # and, unread, encrypted with another key
        runner = runner_on(store)
        await play(runner.start("anna", {"query": "last"}))
        questions = [text for role, text in (await runner.state("anna"))["history"] if role == "user" and text]
        assert questions[-1] == "last"
        assert len(questions) >= 13
