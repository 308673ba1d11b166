import time
from typing import Any

import pytest
from langgraph._internal import _constants  # pyright: ignore[reportPrivateUsage] - the names under test
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.serde import types as langgraph_types

from ragflow_lg.checkpoints.redis.redis_client import open_redis
from ragflow_lg.checkpoints.steps import langgraph_internals
from ragflow_lg.checkpoints.steps.langgraph_internals import (
    advance_ids_past,
    redis_key_of,
    redis_pointer_of,
    redis_write_key_of,
)
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import OpenStore, fresh_prefix

RANDOM = "9b2f0c1e-5d3a-4c7b-8e6f-1a2b3c4d5e6f"
COUNTING = out("{sys.conversation_turns}")


def test_the_names_match_those_of_langgraph() -> None:
    assert langgraph_internals.INTERRUPT_CHANNEL == langgraph_types.INTERRUPT == _constants.INTERRUPT
    assert langgraph_internals.TASKS_CHANNEL == langgraph_types.TASKS == _constants.TASKS
    assert langgraph_internals.ERROR_CHANNEL == langgraph_types.ERROR == _constants.ERROR


async def test_the_redis_saver_stores_under_these_keys(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_redis(redis_url) as client:
        saver = AsyncRedisSaver(
            redis_client=client, checkpoint_prefix=f"{prefix}checkpoint", checkpoint_write_prefix=f"{prefix}write"
        )
        await saver.asetup()
        checkpoint = empty_checkpoint()
        place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        stored = await saver.aput(place, checkpoint, {}, {})
        await saver.aput_writes(stored, [("a", 1)], "task")
        key = ("t", "", checkpoint["id"])
        keys = [redis_key_of(saver, *key), redis_pointer_of(saver, "t", ""), redis_write_key_of(saver, key, "task", 0)]
        assert await client.exists(*keys) == len(keys)
        assert (await client.get(keys[1])) == keys[0].encode()


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without a previous id and with a clock that is one hour slow."""
    now = time.time_ns
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)


@pytest.mark.parametrize("text", ["", "not an id", RANDOM, "ffffffff-ffff-6fff-bfff-ffffffffffff"])
def test_other_ids_have_no_effect(text: str) -> None:
    before = langgraph_ids.uuid6(clock_seq=0)
    advance_ids_past(text)
    after = langgraph_ids.uuid6(clock_seq=0)
    assert before < after
    assert after.time - before.time < 10**9


def test_new_ids_sort_after_a_stored_one(request: pytest.FixtureRequest) -> None:
    earlier_id = str(langgraph_ids.uuid6(clock_seq=0))
    request.getfixturevalue("slow_clock")
    assert str(langgraph_ids.uuid6(clock_seq=0)) < earlier_id
    advance_ids_past(earlier_id)
    assert str(langgraph_ids.uuid6(clock_seq=0)) > earlier_id


async def test_no_turn_is_lost_if_the_clock_is_set_back(reopen: OpenStore, request: pytest.FixtureRequest) -> None:
    async with reopen() as store:
        for _ in range(2):
            await play_run(runner_of(COUNTING, store=store).start("s", {"query": "q"}))
        request.getfixturevalue("slow_clock")
        runner = runner_of(COUNTING, store=store)
        assert [(await play_run(runner.start("s", {"query": "q"})))[0] for _ in range(2)] == ["3", "4"]
