import pytest

from ragflow_lg.base.errors import CheckpointError
from tests.stores import OpenStore, checkpoint_config, put_outputs

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
        await store.saver.values.blobs.put("t", {KEY: b'[{"a": 1}'})
        with pytest.raises(CheckpointError, match="has been changed"):
            await store.saver.steps(checkpoint_config("t")).find(KEY)
