from __future__ import annotations

import time

import pytest
from langgraph.checkpoint.base import id as langgraph_ids

from ragflow_lg.checkpoints.checkpoint_ids import begin_after
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import OpenStore

RANDOM = "9b2f0c1e-5d3a-4c7b-8e6f-1a2b3c4d5e6f"
COUNTING = out("{sys.conversation_turns}")


@pytest.fixture
def an_hour_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process, whose clock stands back."""
    now = time.time_ns
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)


@pytest.mark.parametrize("text", ["", "no id", RANDOM, "ffffffff-ffff-6fff-bfff-ffffffffffff"])
def test_other_ids_move_nothing(text: str) -> None:
    before = langgraph_ids.uuid6(clock_seq=0)
    begin_after(text)
    after = langgraph_ids.uuid6(clock_seq=0)
    assert before < after
    assert after.time - before.time < 10**9


def test_ids_grow_over_a_stored_one(request: pytest.FixtureRequest) -> None:
    stored = str(langgraph_ids.uuid6(clock_seq=0))
    request.getfixturevalue("an_hour_earlier")
    assert str(langgraph_ids.uuid6(clock_seq=0)) < stored
    begin_after(stored)
    assert str(langgraph_ids.uuid6(clock_seq=0)) > stored


async def test_no_turn_is_lost_when_the_clock_goes_back(reopen: OpenStore, request: pytest.FixtureRequest) -> None:
    async with reopen() as store:
        for _ in range(2):
            await play_run(runner_of(COUNTING, store=store).start("s", {"query": "q"}))
        request.getfixturevalue("an_hour_earlier")
        runner = runner_of(COUNTING, store=store)
        assert [(await play_run(runner.start("s", {"query": "q"})))[0] for _ in range(2)] == ["3", "4"]
