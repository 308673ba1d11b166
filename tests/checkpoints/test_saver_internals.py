import time

import pytest
from langgraph._internal import _constants  # pyright: ignore[reportPrivateUsage] - the names under test
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.serde import types as langgraph_types

from ragflow_lg.checkpoints import saver_internals
from ragflow_lg.checkpoints.saver_internals import advance_ids_past
from tests.fakes.regions import out, play_run, runner_of
from tests.stores import OpenStore

RANDOM = "9b2f0c1e-5d3a-4c7b-8e6f-1a2b3c4d5e6f"
COUNTING = out("{sys.conversation_turns}")


def test_the_names_are_those_of_langgraph() -> None:
    assert saver_internals.INTERRUPT_CHANNEL == langgraph_types.INTERRUPT == _constants.INTERRUPT
    assert saver_internals.TASKS_CHANNEL == langgraph_types.TASKS == _constants.TASKS
    assert saver_internals.ERROR_CHANNEL == langgraph_types.ERROR == _constants.ERROR
    assert saver_internals.NULL_TASK_ID == _constants.NULL_TASK_ID


@pytest.fixture
def an_hour_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process, whose clock stands back."""
    now = time.time_ns
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)
    monkeypatch.setattr(time, "time_ns", lambda: now() - 3600 * 10**9)


@pytest.mark.parametrize("text", ["", "no id", RANDOM, "ffffffff-ffff-6fff-bfff-ffffffffffff"])
def test_other_ids_move_nothing(text: str) -> None:
    before = langgraph_ids.uuid6(clock_seq=0)
    advance_ids_past(text)
    after = langgraph_ids.uuid6(clock_seq=0)
    assert before < after
    assert after.time - before.time < 10**9


def test_ids_grow_over_a_stored_one(request: pytest.FixtureRequest) -> None:
    stored = str(langgraph_ids.uuid6(clock_seq=0))
    request.getfixturevalue("an_hour_earlier")
    assert str(langgraph_ids.uuid6(clock_seq=0)) < stored
    advance_ids_past(stored)
    assert str(langgraph_ids.uuid6(clock_seq=0)) > stored


async def test_no_turn_is_lost_when_the_clock_goes_back(reopen: OpenStore, request: pytest.FixtureRequest) -> None:
    async with reopen() as store:
        for _ in range(2):
            await play_run(runner_of(COUNTING, store=store).start("s", {"query": "q"}))
        request.getfixturevalue("an_hour_earlier")
        runner = runner_of(COUNTING, store=store)
        assert [(await play_run(runner.start("s", {"query": "q"})))[0] for _ in range(2)] == ["3", "4"]
