from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.component.state import TurnRecord
from ragflow_lg.dsl_compiler.langgraph_app.edit_values import _Turn, edit_values  # pyright: ignore[reportPrivateUsage]
from tests.dsl_compiler.langgraph_app.test_application import NAME, THREAD, application, forms

CHANNELS = dict.fromkeys(("globals", "outputs", "history", "messages", "turn", "query", "branch:to:a"))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (3, "should be a map"),
        ([3], "should be a map"),
        ({"zz": 1}, "has no 'zz': edit globals, history, messages, outputs, turn"),
        ({"query": "q"}, "has no 'query'"),
        ({"branch:to:a": None}, "has no 'branch:to:a'"),
        ({"outputs": 5}, "'outputs': Expected `object`, got `int`"),
        ({"outputs": None}, "'outputs'"),
        ({"outputs": {"a": 5}}, "'outputs'"),
        ({"outputs": {"__operations__": {"clear": 1}}}, "'__operations__' in 'outputs' is reserved"),
        ({"outputs": {"__overwrite__": {}}}, "'__overwrite__' in 'outputs' is reserved"),
        ({"globals": {"type": "__overwrite__", "value": 5}}, "is reserved"),
        ({"globals": [1]}, "'globals'"),
        ({"history": "x"}, "'history'"),
        ({"history": [5]}, "'history'"),
        ({"messages": [5]}, "'messages'"),
        ({"turn": 5}, "'turn'"),
        ({"turn": {"seed": None}}, r"Expected `int`, got `null` - at `\$.seed`"),
        ({"turn": {"last": []}}, r"\$.last"),
        ({"turn": {"answers": 5}}, r"\$.answers"),
    ],
)
async def test_a_state_is_never_made_one_that_cannot_be_read(given: Any, problem: str) -> None:
    with pytest.raises(InvalidUpdateError, match=problem):
        edit_values(given, CHANNELS)


def test_lists_are_given_whole() -> None:
    history = [["user", "x"], ["assistant", {"a": {}}]]
    turn = {"last": [1, 2, "a"], "error": [1, 2, "a", "text"]}
    edits = edit_values([{"history": history}, {"turn": turn}], CHANNELS)
    assert edits == [("history", {"__replace__": history}), ("turn", turn)]
    assert edit_values(None, CHANNELS) == []
    assert edit_values({"scope": {"round": 1}}, {"scope": None}) == [("scope", {"round": 1})]


async def test_every_way_to_a_stored_state_is_checked() -> None:
    graph = application(forms(name=NAME), InMemorySaver())
    bad: Any = {"turn": 5}
    new = {"configurable": {"thread_id": "new"}}
    gone = {"configurable": {"thread_id": "t", "checkpoint_id": "1f1e5ed1-3712-6e99-8002-c7c66078767d"}}
    await graph.ainvoke({"query": "q"}, THREAD)
    for thread in (THREAD, new):
        with pytest.raises(InvalidUpdateError, match="'turn'"):
            await graph.aupdate_state(thread, bad)
    with pytest.raises(InvalidUpdateError, match="'turn'"):
        await graph.ainvoke(Command(update=bad), THREAD)
    with pytest.raises(InvalidUpdateError, match="no such checkpoint"):
        await graph.aupdate_state(gone, {"globals": {}})
    for given in (None, {"query": "q"}):
        with pytest.raises(InputRefusedError, match="no such checkpoint"):
            await graph.ainvoke(given, gone)
    await graph.aupdate_state(THREAD, {"globals": {"env.a": 1}})
    with pytest.raises(InputRefusedError, match="since this was edited: go on with it"):
        await graph.ainvoke(Command(resume={"name": "Ben"}), THREAD)
    state = await graph.ainvoke(None, THREAD)
    assert "__interrupt__" in state


def test_edits_know_all_notes_of_a_turn() -> None:
    assert set(_Turn.__annotations__) == set(TurnRecord.__annotations__)
