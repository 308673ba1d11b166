"""Results of tasks that are stored together with the checkpoint after them."""

import asyncio
import time
from typing import Any

import pytest
from langgraph.types import Interrupt

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.steps import result_buffer
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey
from tests.stores import OpenStore, checkpoint_config, checkpoint_id, put_checkpoint, read_checkpoint, store_opener

PATH = "~__pregel_pull, n"
RESULT = [("outputs", {"n": {"result": "x" * 3000}})]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_buffer, "PATIENCE_S", 0.3)


async def _results(store: Store, checkpoint: str) -> list[tuple[str, str]]:
    stored = await read_checkpoint(store, "t", checkpoint)
    return [(task, channel) for task, channel, _ in stored.pending_writes or ()]


async def test_a_result_is_stored_together_with_the_next_checkpoint(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen() as store:
        first = await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": {}})
        opened: list[Any] = []
        begin = store.saver.values.transaction

        def count(precondition: Any) -> Any:
            opened.append(precondition)
            return begin(precondition)

        monkeypatch.setattr(store.saver.values, "transaction", count)
        began = time.monotonic()
        results = [asyncio.create_task(store.saver.aput_writes(first, RESULT, str(n), PATH)) for n in range(2)]
        await asyncio.sleep(0)
        await put_checkpoint(store.saver, first, {"outputs": RESULT[0][1]})
        await asyncio.gather(*results)
        assert time.monotonic() - began < 0.3
        assert len(opened) == 1
    async with reopen() as store:
        assert await _results(store, checkpoint_id(first)) == [("0", "outputs"), ("1", "outputs")]


async def test_a_result_is_stored_by_itself_if_no_checkpoint_follows(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": {}})
        await store.saver.aput_writes(first, RESULT, "1", PATH)
        assert await _results(store, checkpoint_id(first)) == [("1", "outputs")]


@pytest.mark.parametrize(
    ("writes", "path"), [([("__interrupt__", [Interrupt({}, id="0" * 32)])], PATH), (RESULT, "")], ids=["pause", "copy"]
)
async def test_what_no_checkpoint_follows_is_stored_at_once(writes: Any, path: str) -> None:
    async with store_opener("memory://")() as store:
        first = await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": {}})
        began = time.monotonic()
        await store.saver.aput_writes(first, writes, "1", path)
        assert time.monotonic() - began < 0.3


async def test_a_result_is_stored_although_the_next_checkpoint_is_not(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen() as store:
        first = await put_checkpoint(store.saver, checkpoint_config("t"), {"outputs": {}})
        result = asyncio.create_task(store.saver.aput_writes(first, RESULT, "1", PATH))
        await asyncio.sleep(0)

        async def fail(*arguments: Any) -> None:
            raise CheckpointError("disk full")

        with monkeypatch.context() as context:
            context.setattr(store.saver.inner, "aput", fail)
            with pytest.raises(CheckpointError, match="disk full"):
                await put_checkpoint(store.saver, first, {"outputs": RESULT[0][1]})
        await result
        assert await _results(store, checkpoint_id(first)) == [("1", "outputs")]


async def test_a_result_whose_task_is_cancelled_is_forgotten() -> None:
    writes = result_buffer.ResultBuffer()
    key = CheckpointKey("t", "", "1")
    result = result_buffer.TaskWrites(checkpoint_config("t"), RESULT, "1", PATH)
    waiting = asyncio.create_task(writes.wait(key, result))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    with writes.taken(key) as results:
        assert results == []
