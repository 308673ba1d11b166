from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from ragflow_lg.base.errors import CompileError, NodeFailedError
from ragflow_lg.ejected import Canvas, Node, Outputs, Services, StateUpdate, TurnState
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

LLM = {"llm_id": "m", "sys_prompt": "Be kind.", "prompts": [{"role": "user", "content": "{sys.query}"}]}


class State(TurnState, total=False):
    begin: Outputs
    ask: Outputs


def graph_of(params: dict[str, Any]) -> Any:
    """Return a graph with a model."""
    nodes = {"begin": Node("begin", "Begin"), "ask": Node("LLM:Ask", "LLM", title="Ask", rank=1)}
    canvas = Canvas("Test", nodes, {"sys.query": "", "sys.history": []})
    component = canvas.component("ask", params)

    async def begin(state: State, runtime: Runtime[Services]) -> StateUpdate:
        return await canvas.open_turn(state, runtime)

    async def ask(state: State, runtime: Runtime[Services]) -> StateUpdate:
        return await component.run(state, runtime)

    async def finish(state: State) -> StateUpdate:
        return canvas.close_turn(state, "ask")

    builder: Any = StateGraph(State, context_schema=Services)
    for name, function in {"begin": begin, "ask": ask, "finish": finish}.items():
        builder.add_node(name, function)
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "ask")
    builder.add_edge("ask", "finish")
    return builder.compile()


async def test_a_component_runs_with_the_state_of_the_graph() -> None:
    model = ScriptedModel([Reply("Hello Ann")])
    final = await graph_of(LLM).ainvoke({"query": "I am Ann"}, context=fake_services(models=OneModel(model)))
    assert final["ask"] == {"content": "Hello Ann"}
    assert [message["content"] for message in final["messages"]] == ["I am Ann", "Hello Ann"]
    assert final["variables"]["sys.history"] == ["user: I am Ann", "assistant: Hello Ann"]
    assert model.requests[0][1].messages[-1]["content"] == "I am Ann"


async def test_a_failure_is_an_exception_that_names_the_node() -> None:
    model = OneModel(ScriptedModel([Reply(error="The model is down.")]))
    with pytest.raises(NodeFailedError, match="The model is down") as caught:
        await graph_of({**LLM, "max_retries": 0}).ainvoke({"query": "x"}, context=fake_services(models=model))
    assert caught.value.node == "LLM:Ask"
    assert caught.value.outputs["_ERROR"] == "The model is down."


async def test_a_default_value_replaces_the_outputs_after_a_failure() -> None:
    params = {**LLM, "max_retries": 0, "exception_method": "comment", "exception_default_value": "Sorry."}
    model = OneModel(ScriptedModel([Reply(error="down")]))
    final = await graph_of(params).ainvoke({"query": "x"}, context=fake_services(models=model))
    assert final["ask"]["content"] == "Sorry."


async def test_wrong_parameters_are_reported_with_the_component() -> None:
    with pytest.raises(CompileError, match="max_retries"):
        await graph_of({**LLM, "max_retries": "many"}).ainvoke({"query": "x"}, context=fake_services())
