from collections.abc import Mapping

import pytest

from ragflow_lg.base.errors import CheckpointError
from tests.stores import OpenStore, checkpoint_config, put_checkpoint, put_outputs, read_checkpoint

THREAD = checkpoint_config("t")


async def test_large_parts_are_stored_once(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    big, lists = "x" * 100_000, [["y" * 90] * 20, "z" * 2000]
    async with reopen() as store:
        sizes: list[int] = []
        blobs = store.saver.tables
        put_blobs = blobs.put_blobs

        async def count_bytes(thread: str, texts: Mapping[str, bytes]) -> None:
            sizes.append(sum(map(len, texts.values())))
            await put_blobs(thread, texts)

        monkeypatch.setattr(blobs, "put_blobs", count_bytes)
        for step in range(5):
            entry = {"outputs": {"a": {"text": big}, "b": {"step": step, "lists": lists}}}
            await put_checkpoint(store.saver, THREAD, entry)
        monkeypatch.undo()
    assert 100_000 < sum(sizes) < 107_000
    async with reopen() as store:
        checkpoint = await read_checkpoint(store, "t")
    assert checkpoint.checkpoint["channel_values"]["outputs"] == {"a": {"text": big}, "b": {"step": 4, "lists": lists}}


async def test_blobs_that_were_read_are_not_written_again(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"n": "x" * 9000}
    async with reopen() as store:
        await put_outputs(store, "t", values)
    async with reopen() as store:
        checkpoint = await read_checkpoint(store, "t")
        writes: list[str] = []

        async def note_write(thread: str, texts: Mapping[str, bytes]) -> None:
            writes.append(thread)

        blobs = store.saver.tables
        monkeypatch.setattr(blobs, "put_blobs", note_write)
        await put_outputs(store, "t", checkpoint.checkpoint["channel_values"]["outputs"])
        monkeypatch.undo()
        assert writes == []


async def test_a_session_deleted_by_another_process_is_written_completely_again(reopen_shared: OpenStore) -> None:
    values = {"n": "x" * 9000, "m": ["y" * 2000]}
    async with reopen_shared() as one, reopen_shared() as other:
        await put_outputs(one, "t", values)
        await other.saver.adelete_thread("t")
        for _ in range(2):
            await put_outputs(one, "t", values)
    async with reopen_shared() as store:
        checkpoint = await read_checkpoint(store, "t")
    assert checkpoint.checkpoint["channel_values"]["outputs"] == values


async def test_a_session_that_is_deleted_repeatedly_is_reported(
    reopen_shared: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"n": "x" * 9000}

    def keep_blobs(thread: str) -> None:
        """Do as other tasks that store the session at the same time."""

    async with reopen_shared() as one, reopen_shared() as other:
        await put_outputs(one, "t", values)
        await other.saver.adelete_thread("t")
        monkeypatch.setattr(one.saver.values, "forget", keep_blobs)
        with pytest.raises(CheckpointError, match="keeps deleting it"):
            await put_outputs(one, "t", values)


KEY = "0" * 32


async def test_results_are_found_by_key_until_their_thread_is_deleted(reopen: OpenStore) -> None:
    large = {"text": "x" * 5000, "list": list(range(100))}
    async with reopen() as store:
        steps = store.saver.steps(checkpoint_config("t"))
        assert await steps.find(KEY) == (False, None)
        await steps.put(KEY, large)
        await steps.put("1" * 32, None)
    async with reopen() as store:
        steps = store.saver.steps(checkpoint_config("t"))
        assert await steps.find(KEY) == (True, large)
        assert await steps.find("1" * 32) == (True, None)
        assert await store.saver.steps(checkpoint_config("other")).find(KEY) == (False, None)
        await store.saver.adelete_thread("t")
        assert await steps.find(KEY) == (False, None)


async def test_a_damaged_result_is_reported(reopen: OpenStore) -> None:
    async with reopen() as store:
        await put_outputs(store, "t", {"a": 1})
        await store.saver.tables.put_blobs("t", {f"step:{KEY}": b'[{"a": 1}'})
        with pytest.raises(CheckpointError, match="has been changed"):
            await store.saver.steps(checkpoint_config("t")).find(KEY)
