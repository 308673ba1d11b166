"""LangGraph's internals are what this project assumes. A failure means that a new LangGraph changed one."""

import time

import pytest
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.checkpoint.base import id as langgraph_ids

from ragflow_lg.base import langgraph_internals as internals
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import OpenStore

RANDOM = "9b2f0c1e-5d3a-4c7b-8e6f-1a2b3c4d5e6f"
COUNTING = out("{sys.conversation_turns}")


def test_a_map_with_the_overwrite_key_replaces_a_channel() -> None:
    for update in ({internals.OVERWRITE: [2]}, {"type": internals.OVERWRITE, "value": [2]}):
        channel = BinaryOperatorAggregate[list[int]](list, lambda old, new: old + new)
        channel.update([[1]])
        channel.update([update])  # pyright: ignore[reportArgumentType] - not part of LangGraph's types
        assert channel.get() == [2]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start without a previous id and with a clock that is one hour slow."""
    now = time.time_ns
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)


@pytest.mark.parametrize("text", ["", "not an id", RANDOM, "ffffffff-ffff-6fff-bfff-ffffffffffff"])
def test_other_ids_have_no_effect(text: str) -> None:
    before = langgraph_ids.uuid6(clock_seq=0)
    internals.advance_ids_past(text)
    after = langgraph_ids.uuid6(clock_seq=0)
    assert before < after
    assert after.time - before.time < 10**9


async def test_no_turn_is_lost_if_the_clock_is_set_back(reopen: OpenStore, request: pytest.FixtureRequest) -> None:
    earlier_id = str(langgraph_ids.uuid6(clock_seq=0))
    async with reopen() as store:
        for _ in range(2):
            await play_run(runner_of(COUNTING, store=store).start("s", {"query": "q"}))
        request.getfixturevalue("slow_clock")
        assert str(langgraph_ids.uuid6(clock_seq=0)) < earlier_id
        runner = runner_of(COUNTING, store=store)
        assert [(await play_run(runner.start("s", {"query": "q"})))[0] for _ in range(2)] == ["3", "4"]
