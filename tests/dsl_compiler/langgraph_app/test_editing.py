from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.component.state import TurnRecord
from ragflow_lg.dsl_compiler.langgraph_app.editing import _Turn, validate_edit  # pyright: ignore[reportPrivateUsage] - compared with the engine's
from tests.dsl_compiler.langgraph_app.test_application import NAME, THREAD, application, forms
from tests.fakes.canvas import canvas, node, switch, text
from tests.harness.rows import each_row, read_rows
from tests.stores import memory_saver

CHANNELS: dict[str, Any] = dict.fromkeys(("globals", "outputs", "history", "messages", "turn", "query", "branch:to:a"))


def message(content: str) -> Any:
    return node("Message", {"content": [content]})


CHAIN = canvas(
    {
        "a": text(["b"], "1"),
        "b": node("StringTransform", {"method": "merge", "script": "{a@result}2"}, ["m"]),
        "m": message("{b@result}"),
    }
)
JOIN = canvas(
    {"a": text(["m"], "1"), "b": text(["c"], "2"), "c": text(["m"], "3"), "m": message("{a@result}{c@result}")},
    ["a", "b"],
)
ROUTE = canvas(
    {"s": switch(["a"], ["b"]), "a": text(["m"], "A"), "b": text(["m"], "B"), "m": message("{a@result}{b@result}")}
)


async def config_before(graph: Any, *names: str) -> Any:
    """Run a turn and return the config of the checkpoint in which nodes are next."""
    await graph.ainvoke({"query": "q"}, THREAD)
    return next(
        [step async for step in graph.aget_state_history(THREAD) if set(names) <= set(step.next)].__iter__()
    ).config


async def answer_from(graph: Any, config: Any) -> str:
    """Continue from a checkpoint and return the answer."""
    state = await graph.ainvoke(None, config)
    assert (await graph.aget_state(THREAD)).next == ()
    return state["messages"][-1]["content"]


@each_row("saver", [InMemorySaver, memory_saver])
@each_row(
    ("document", "next_nodes", "values", "as_node", "answer"),
    [
        (CHAIN, ["b"], {"outputs": {"a": {"result": "9"}}}, None, "92"),
        (CHAIN, ["b"], {"outputs": {"a": {"result": "9"}}}, "a", "92"),  # as Studio edits: as the node that has run
        (CHAIN, ["b"], {"outputs": {"b": {"result": "9"}}}, "b", "9"),  # as the node that is next
        (CHAIN, ["m"], {"outputs": {"b": {"result": "9"}}}, None, "9"),
        (JOIN, ["c"], {"outputs": {"a": {"result": "9"}}}, None, "93"),
        (JOIN, ["a", "b"], {"outputs": {"b": {"result": "9"}}}, "b", "13"),
        (JOIN, ["c"], {"outputs": {"c": {"result": "9"}}}, "c", "19"),
        (JOIN, ["m"], {"outputs": {"a": {"result": "9"}}}, None, "93"),
        (JOIN, ["m"], {"outputs": {"m": {"content": "9"}}}, "m", "9"),
        (ROUTE, ["s"], {"outputs": {"s": {"_next": ["b"]}}}, "s", "B"),
        (ROUTE, ["m"], {"outputs": {"a": {"result": "9"}}}, None, "9"),
    ],
)
async def test_the_turn_continues_after_an_edit(
    saver: Any, document: Any, next_nodes: list[str], values: Any, as_node: str | None, answer: str
) -> None:
    graph = application(document, saver())
    config = await config_before(graph, *next_nodes)
    edited = await graph.aupdate_state(config, values, as_node=as_node)
    assert await answer_from(graph, edited) == answer


async def test_an_edit_as_a_router_names_the_successors() -> None:
    graph = application(ROUTE, InMemorySaver())
    config = await config_before(graph, "s")
    edits: list[Any] = [{"outputs": {}}, {"outputs": {"s": {"_next": ["m"]}}}]
    for values in edits:
        with pytest.raises(InvalidUpdateError, match="'s' chooses its successors; name one or more of a, b"):
            await graph.aupdate_state(config, values, as_node="s")
    with pytest.raises(InvalidUpdateError, match="should be a map"):
        await graph.aupdate_state(config, 3)
    with pytest.raises(InvalidUpdateError, match="does not exist"):
        await graph.aupdate_state(config, {}, as_node="z")


@pytest.mark.parametrize("saver", [InMemorySaver, memory_saver])
async def test_an_edit_preserves_results_of_nodes_beside_a_waiting_form(saver: Any) -> None:
    document = forms(name=NAME)
    document["components"]["t"] = text(["out"], "beside")
    document["components"]["begin"]["downstream"].append("t")
    graph = application(document, saver())
    await graph.ainvoke({"query": "q"}, THREAD)
    await graph.aupdate_state(THREAD, {"globals": {"sys.user_id": "me"}})
    state = await graph.aget_state(THREAD)
    assert state.next == ("ask.name",)
    assert state.values["outputs"]["t"] == {"result": "beside"}
    state = await graph.ainvoke(None, THREAD)
    assert [pause.value["tips"] for pause in state["__interrupt__"]] == ["name"]


async def test_an_edit_replaces_lists_and_does_not_restart_a_finished_turn() -> None:
    graph = application(CHAIN, InMemorySaver())
    await graph.ainvoke({"query": "q"}, THREAD)
    await graph.aupdate_state(THREAD, {"messages": [], "history": [["user", "x"]]})
    state = await graph.aget_state(THREAD)
    assert state.next == ()
    assert (state.values["messages"], state.values["history"]) == ([], [["user", "x"]])
    again = await graph.ainvoke({"query": "q"}, THREAD)
    assert [entry[0] for entry in again["history"]] == ["user", "user", "assistant"]


@each_row(("values", "problem"), read_rows("state_edits"))
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
