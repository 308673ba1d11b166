import gc
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langgraph.checkpoint.base import CheckpointTuple

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.long_list import BLOCK, LongList, extend_list
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.memory.memory_store import memory_saver
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import with_recent_entries
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.regions import out
from tests.fakes.services import fake_services
from tests.stores import OpenStore, checkpoint_config, put_checkpoint

LENGTHS = [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 1, BLOCK**2, BLOCK**3 + 5]


def _values(lines: Any) -> dict[str, Any]:
    return {"history": lines, "messages": [], "globals": {"sys.query": "q", "sys.history": lines, "env.x": "y" * 2000}}


def _lines(count: int) -> list[Any]:
    return [[f"line {number}", "z" * 1500 if number % 7 == 0 else ""] for number in range(count)]


async def _read(store: Store, thread: str = "t", **recent: int) -> CheckpointTuple:
    entries = {name.replace("_", "."): count for name, count in recent.items()}
    stored = await store.saver.aget_tuple(with_recent_entries(checkpoint_config(thread), entries))
    assert stored is not None
    return stored


@pytest.mark.parametrize("count", LENGTHS)
async def test_a_long_list_is_read_in_part_or_completely(reopen: OpenStore, count: int) -> None:
    lines = _lines(count)
    async with reopen() as store:
        await put_checkpoint(store.saver, checkpoint_config("t"), _values(lines))
    async with reopen() as store:
        assert (await _read(store)).checkpoint["channel_values"] == _values(lines)
    async with reopen() as store:
        values = (await _read(store, history=5, sys_history=0)).checkpoint["channel_values"]
        history, variable = values["history"], values["globals"]["sys.history"]
        assert [type(history), type(variable)] == [LongList if count >= BLOCK else list] * 2
        assert (len(history), history[-5:], len(variable)) == (count, lines[-5:], count)
        if count >= BLOCK**2:
            with pytest.raises(LookupError, match="have not all been read"):
                history[: BLOCK + 1]
        assert {**values["globals"], "sys.history": lines} == _values(lines)["globals"]


async def test_an_append_to_an_unread_list_stores_only_what_is_new(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [["user", f"line {number}"] for number in range(3000)]
    async with reopen() as store:
        await put_checkpoint(store.saver, checkpoint_config("t"), _values(lines))
    async with reopen() as store:
        written, blobs = 0, store.saver.values.blobs
        read, put, find = 0, blobs.put, blobs.find

        async def count_put(thread: str, texts: Any) -> None:
            nonlocal written
            written += sum(map(len, texts.values()))
            await put(thread, texts)

        async def count_find(thread: str, digests: Any) -> Any:
            nonlocal read
            found = await find(thread, digests)
            read += sum(map(len, found.values()))
            return found

        monkeypatch.setattr(blobs, "put", count_put)
        monkeypatch.setattr(blobs, "find", count_find)
        for number in range(20):
            stored = await _read(store, history=BLOCK, messages=0, sys_history=0)
            values = stored.checkpoint["channel_values"]
            history = extend_list(values["history"], [["user", f"new {number}"]])
            globals_ = {**values["globals"], "sys.history": extend_list(values["globals"]["sys.history"], ["x"])}
            await put_checkpoint(
                store.saver, checkpoint_config("t"), {**values, "history": history, "globals": globals_}
            )
        assert written / 20 < 4000
        assert read / 20 < 8000
        monkeypatch.undo()
        everything = [*lines, *(["user", f"new {number}"] for number in range(20))]
        values = (await _read(store)).checkpoint["channel_values"]
        assert values["history"] == everything
        assert values["globals"]["sys.history"] == [*lines, *["x"] * 20]


async def test_an_unread_list_can_be_stored_in_another_thread(reopen: OpenStore) -> None:
    lines = _lines(BLOCK**3 + 5)
    async with reopen() as store:
        await put_checkpoint(store.saver, checkpoint_config("t"), _values(lines))
    async with reopen() as store:
        values = (await _read(store, history=0, messages=0, sys_history=0)).checkpoint["channel_values"]
        await put_checkpoint(store.saver, checkpoint_config("copy"), values)
        await store.saver.adelete_thread("t")
    async with reopen() as store:
        assert (await _read(store, "copy")).checkpoint["channel_values"] == _values(lines)


async def test_unread_blocks_that_are_gone_are_reported(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        await put_checkpoint(store.saver, checkpoint_config("t"), _values(_lines(BLOCK**3)))
    async with reopen_shared() as store, reopen_shared() as other:
        values = (await _read(store, history=0, messages=0, sys_history=0)).checkpoint["channel_values"]
        await other.saver.adelete_thread("t")
        with pytest.raises(CheckpointError):
            await put_checkpoint(store.saver, checkpoint_config("t"), values)


async def test_lists_in_updates_and_in_other_places_are_kept(reopen: OpenStore) -> None:
    lines = LongList([], []).extended(_lines(BLOCK + 1))
    async with reopen() as store:
        place = await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": {"a": {"b": lines}}})
        update = {"sys.history": lines, "x": {"sys.history": None}}
        await store.saver.aput_writes(place, [("globals", update), ("history", _lines(BLOCK))], "task")
    async with reopen() as store:
        stored = await _read(store, history=0, sys_history=0)
        assert stored.checkpoint["channel_values"]["outputs"] == {"a": {"b": list(lines)}}
        globals_, history = (value for _, _, value in stored.pending_writes or ())
        assert isinstance(globals_["sys.history"], LongList)
        assert (len(globals_["sys.history"]), globals_["x"]) == (BLOCK + 1, {"sys.history": None})
        assert history == _lines(BLOCK)


async def test_a_conversation_that_outgrows_the_memory_does_not_read_its_blocks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.values.known_blobs.REMEMBERED_BLOBS", 150)
    saver = memory_saver()
    find, read = saver.values.blobs.find, list[int]()

    async def count(thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        read.append(len(digests))
        return await find(thread, digests)

    monkeypatch.setattr(saver.values.blobs, "find", count)
    runner = Runner(compile_canvas(canvas(out("{sys.query}")), CATALOG), fake_services(), saver=saver)
    for number in range(160):
        async for _ in runner.start("s", {"query": f"question {number}"}):
            pass
    assert max(read) < 20


async def test_a_conversation_keeps_no_lists_of_earlier_turns() -> None:
    runner = Runner(compile_canvas(canvas(out("{sys.query}")), CATALOG), fake_services(), saver=memory_saver())

    async def count_lists(turns: int) -> int:
        for _ in range(turns):
            async for _ in runner.start("s", {"query": "question"}):
                pass
        gc.collect()
        return sum(type(value) is LongList for value in gc.get_objects())

    assert await count_lists(20) >= await count_lists(40)
