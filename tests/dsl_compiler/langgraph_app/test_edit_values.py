from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.component.state import TurnRecord
from ragflow_lg.dsl_compiler.langgraph_app.edit_values import _Turn, validate_edit  # pyright: ignore[reportPrivateUsage] - compared with the engine's
from tests.dsl_compiler.langgraph_app.test_application import NAME, THREAD, application, forms

CHANNELS: dict[str, Any] = dict.fromkeys(("globals", "outputs", "history", "messages", "turn", "query", "branch:to:a"))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (3, "should be a map"),
        ([3], "should be a map"),
        ({"zz": 1}, "has no key 'zz'; its keys are globals, history, messages, outputs, turn"),
        ({"query": "q"}, "has no key 'query'"),
        ({"branch:to:a": None}, "has no key 'branch:to:a'"),
        ({"outputs": 5}, "'outputs' is invalid: Expected `object`, got `int`"),
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
def test_an_edit_that_makes_a_state_unreadable_is_refused(values: Any, problem: str) -> None:
    with pytest.raises(InvalidUpdateError, match=problem):
        validate_edit(values, CHANNELS)


def test_an_edited_list_replaces_the_stored_one() -> None:
    history: list[Any] = [["user", "x"], ["assistant", {"a": {}}]]
    turn: Any = {"last": [1, 2, "a"], "error": [1, 2, "a", "text"]}
    edits = validate_edit([{"history": history}, {"turn": turn}], CHANNELS)
    assert edits == [("history", {"__replace__": history}), ("turn", turn)]
    assert validate_edit(None, CHANNELS) == []
    assert validate_edit({"scope": {"round": 1}}, dict[str, Any](scope=None)) == [("scope", {"round": 1})]


async def test_every_way_to_edit_a_stored_state_is_checked() -> None:
    graph = application(forms(name=NAME), InMemorySaver())
    bad: Any = {"turn": 5}
    new: Any = {"configurable": {"thread_id": "new"}}
    gone: Any = {"configurable": {"thread_id": "t", "checkpoint_id": "1f1e5ed1-3712-6e99-8002-c7c66078767d"}}
    await graph.ainvoke({"query": "q"}, THREAD)
    for thread in (THREAD, new):
        with pytest.raises(InvalidUpdateError, match="'turn'"):
            await graph.aupdate_state(thread, bad)
    with pytest.raises(InvalidUpdateError, match="'turn'"):
        await graph.ainvoke(Command(update=bad), THREAD)
    with pytest.raises(InvalidUpdateError, match="checkpoint does not exist"):
        await graph.aupdate_state(gone, {"globals": {}})
    for request in (None, {"query": "q"}):
        with pytest.raises(InputRefusedError, match="checkpoint does not exist"):
            await graph.ainvoke(request, gone)
    await graph.aupdate_state(THREAD, {"globals": {"env.a": 1}})
    with pytest.raises(InputRefusedError, match="since the state was edited: continue with"):
        await graph.ainvoke(Command(resume={"name": "Ben"}), THREAD)
    state = await graph.ainvoke(None, THREAD)
    assert "__interrupt__" in state


def test_edits_know_all_keys_of_a_turn() -> None:
    assert set(_Turn.__annotations__) == set(TurnRecord.__annotations__)
