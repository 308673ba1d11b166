from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from ragflow_lg.adapters.system_services import InlineFiles
from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.dsl_compiler.lower import as_application
from ragflow_lg.services.services import Services
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row
from tests.stores import memory_saver

THREAD: Any = {"configurable": {"thread_id": "t"}}
ECHO = canvas({"Message:Echo": node("Message", {"content": ["{sys.query}!"]})})
NAME = {"name": "Name", "type": "line", "optional": False}
SIZE = {"name": "Size", "type": "integer", "optional": False}


def application(document: Any, saver: Any = None, models: Any = None, refusal: str = "") -> Any:
    """Build a `CanvasApplication` with fake services."""

    def open_services(*, model: str) -> AbstractAsyncContextManager[Services]:
        return nullcontext(services)

    services = fake_services(files=InlineFiles(), models=models or OneModel(ScriptedModel([])))
    compiled = compile_canvas(document, CATALOG)
    graph: Any = as_application(compiled, open_services, refusal=refusal)
    return graph.copy({"checkpointer": saver})


def forms(**fields: Any) -> Any:
    """Build a canvas of parallel forms with one field each, and a Message after them."""
    asks = {
        f"ask:{name}": node("UserFillUp", {"enable_tips": True, "tips": name, "inputs": {name: field}}, ["out"])
        for name, field in fields.items()
    }
    content = " ".join(f"{{ask:{name}@{name}}}" for name in fields)
    return canvas({**asks, "out": node("Message", {"content": [content]})}, list(asks))


@each_row(
    ("turn_input", "answer"),
    [
        ({"query": "a"}, "a!"),
        ({"messages": [{"role": "user", "content": "a"}]}, "a!"),
        ({"messages": [{"type": "ai", "content": "b"}, {"type": "human", "content": "a"}]}, "a!"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}, "a!"),
        ({"messages": [HumanMessage("a")]}, "a!"),
        ({"messages": [("user", "a")]}, "a!"),
        ({"messages": "a"}, "a!"),
        ({"query": "a", "messages": [{"role": "assistant", "content": "b"}], "of the graph around": 1}, "a!"),
        ({}, "!"),
        ({"query": "a", "outputs": {}, "input_files": []}, "a!"),
        ({"query": 2**80, "user_id": 2**80}, f"{2**80}!"),
    ],
)
async def test_every_shape_of_a_request_is_read(turn_input: Any, answer: str) -> None:
    state = await application(ECHO, InMemorySaver()).ainvoke(turn_input, THREAD)
    assert set(state) == {"globals", "outputs", "history", "messages", "turn"}
    assert state["messages"][-1]["content"] == answer
    assert state["turn"]["status"] == "succeeded"


@each_row(
    ("turn_input", "problem"),
    [
        ("a", "is a map"),
        ({"inputs": []}, '"inputs" should be a map'),
        ({"files": "a.txt"}, '"files" should be a list'),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "not 'assistant'"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "should contain text"),
        ({"messages": 3}, "should contain 1 to"),
        ({"quer": "a"}, 'has no input "quer". Did you mean "query"?'),
        ({"query": "a", "input": {"city": "Rome"}}, 'Did you mean "inputs"?'),
        ({"resume": "a"}, 'has no input "resume". The inputs are query, inputs, files'),
    ],
)
async def test_an_invalid_request_is_refused(turn_input: Any, problem: str) -> None:
    with pytest.raises(InputRefusedError, match=problem):
        await application(ECHO).ainvoke(turn_input)


async def test_a_canvas_with_errors_can_be_drawn_but_not_run() -> None:
    graph = application(ECHO, refusal="It has 2 errors.")
    assert "Message.Echo" in graph.get_graph().nodes
    with pytest.raises(InputRefusedError, match="It has 2 errors"):
        await graph.ainvoke({"query": "a"})


async def test_the_assistant_chooses_the_model() -> None:
    models: list[str] = []

    def open_services(*, model: str) -> Any:
        models.append(model)
        return nullcontext(fake_services())

    graph: Any = as_application(compile_canvas(ECHO, CATALOG), open_services)
    context: Any = {"model": "demo"}
    await graph.ainvoke({"query": "a"}, context=context)
    await graph.ainvoke({"query": "a"})
    assert models == ["demo", ""]
    with pytest.raises(InputRefusedError, match="a model name"):
        await graph.ainvoke({"query": "a"}, context={"model": 3})


@pytest.mark.parametrize("saver", [InMemorySaver, memory_saver])
async def test_turns_of_a_thread_form_a_conversation_with_the_ids_of_the_page(saver: Any) -> None:
    graph = application(ECHO, saver())
    state: Any = None
    for number in range(3):
        state = await graph.ainvoke(
            {"messages": [{"role": "user", "content": str(number), "id": f"m{number}"}]}, THREAD
        )
    assert [m["content"] for m in state["messages"]] == ["0", "0!", "1", "1!", "2", "2!"]
    assert [m["id"] for m in state["messages"][::2]] == ["m0", "m1", "m2"]
    assert state["globals"]["sys.conversation_turns"] == 3


async def test_a_failure_becomes_an_answer() -> None:
    failing = canvas({"a": node("StringTransform", {"method": "split", "split_ref": "sys.files"}, ["m"]), "m": text()})
    state = await application(failing).ainvoke({"query": "q", "files": [3]})
    assert state["turn"]["status"] == "failed"
    assert state["messages"][-1]["content"].startswith("The turn failed: ")


async def test_an_answer_streams_as_events_and_as_messages() -> None:
    model = ScriptedModel([Reply("Good day", chunks=["Good ", "day"])])
    document = canvas(
        {
            "LLM:A": node("LLM", {"llm_id": "m"}, ["Message:B"]),
            "Message:B": node("Message", {"content": ["{LLM:A@content}"]}),
        }
    )
    graph = application(document, models=OneModel(model))
    parts: list[Any] = [part async for part in graph.astream({"query": "q"}, stream_mode=["custom", "messages"])]
    events = [part for mode, part in parts if mode == "custom"]
    assert events[0]["event"] == "workflow_started"
    assert events[-1]["event"] == "workflow_finished"
    assert "".join(e["data"]["content"] for e in events if e["event"] == "message") == "Good day"
    chunks = [part[0] for mode, part in parts if mode == "messages"]
    assert [chunk.content for chunk in chunks] == ["Good ", "day"]
    state = await application(document, models=OneModel(ScriptedModel([Reply("a")]))).ainvoke({"query": "q"})
    assert {chunk.id for chunk in chunks} == {state["messages"][-1]["id"]}, "the seed of the fake ids is the same"


@pytest.mark.parametrize("answer", [{"name": "Ann"}, {"inputs": {"name": "Ann"}}, "Ann"])
async def test_the_only_form_is_answered_without_its_id(answer: Any) -> None:
    graph = application(forms(name=NAME), InMemorySaver())
    state = await graph.ainvoke({"query": "q"}, THREAD)
    (pause,) = state["__interrupt__"]
    assert pause.response_schema["required"] == ["name"]
    state = await graph.ainvoke(Command(resume=answer), THREAD)
    assert state["messages"][-1]["content"] == "Ann"
    assert state["globals"]["sys.conversation_turns"] == 2
    with pytest.raises(InputRefusedError, match="No form is waiting"):
        await graph.ainvoke(Command(resume=answer), THREAD)


async def test_several_forms_are_answered_by_id_and_ask_again_after_an_invalid_answer() -> None:
    graph = application(forms(name=NAME, size=SIZE), memory_saver())
    ids = {pause.value["tips"]: pause.id for pause in (await graph.ainvoke({"query": "q"}, THREAD))["__interrupt__"]}
    with pytest.raises(InputRefusedError, match="Several forms are waiting"):
        await graph.ainvoke(Command(resume={"size": 1}), THREAD)
    with pytest.raises(InputRefusedError, match="No form with the id"):
        await graph.ainvoke(Command(resume={ids["name"]: "Ann", "f" * 32: "x"}), THREAD)
    state = await graph.ainvoke(Command(resume={ids["name"]: "Ann", ids["size"]: "much"}), THREAD)
    (pause,) = state["__interrupt__"]
    assert "whole number" in pause.value["problems"]["size"]
    state = await graph.ainvoke(Command(resume={pause.id: 2**80}), THREAD)
    assert state["messages"][-1]["content"] == f"Ann {2**80}"


class Outer(TypedDict, total=False):
    query: str
    quer: str
    outputs: dict[str, Any]
    shouted: str


@pytest.mark.parametrize("saver", [InMemorySaver, memory_saver])
async def test_a_graph_around_interrupts_resumes_and_reads_it(saver: Any) -> None:
    async def shout(state: Outer) -> Outer:
        return {"shouted": state.get("outputs", {})["out"]["content"].upper()}

    builder: Any = StateGraph(Outer)
    builder.add_node("canvas", application(forms(name=NAME, size=SIZE)))
    builder.add_node("shout", shout)
    builder.add_edge(START, "canvas")
    builder.add_edge("canvas", "shout")
    graph = builder.compile(checkpointer=saver())
    state: Any = await graph.ainvoke({"query": "q", "quer": "its own"}, THREAD)
    ids = {pause.value["tips"]: pause.id for pause in state["__interrupt__"]}
    state = await graph.ainvoke(Command(resume={ids["name"]: {"name": "Ann"}}), THREAD)
    assert [pause.value["tips"] for pause in state["__interrupt__"]] == ["size"]
    parts: Any = graph.astream(Command(resume={ids["size"]: {"size": 7}}), THREAD, stream_mode="custom", subgraphs=True)
    events = [part["event"] async for _, part in parts]
    assert events[-1] == "workflow_finished"
    assert (await graph.aget_state(THREAD)).values["shouted"] == "ANN 7"
    assert "canvas:out" in graph.get_graph(xray=True).nodes


def test_callers_that_block_get_the_same() -> None:
    graph = application(ECHO, memory_saver())
    assert graph.invoke({"query": "a"}, THREAD)["messages"][-1]["content"] == "a!"
    events = list(graph.stream({"query": "b"}, THREAD, stream_mode="custom"))
    assert "".join(event["data"]["content"] for event in events if event["event"] == "message") == "b!"
    assert len(graph.invoke({"query": "c"}, THREAD)["history"]) == 6
    with pytest.raises(InputRefusedError, match='no input "qurey"'):
        graph.invoke({"qurey": "a"}, THREAD)
    graph = application(forms(a=NAME), InMemorySaver())
    assert graph.invoke({"query": ""}, THREAD)["__interrupt__"]
    assert graph.invoke(Command(resume={"a": "Ann"}), THREAD)["turn"]["status"] == "succeeded"
    builder: Any = StateGraph(Outer)
    builder.add_node("canvas", application(ECHO))
    builder.add_edge(START, "canvas")
    around = builder.compile(checkpointer=InMemorySaver())
    assert around.invoke({"query": "a"}, THREAD)["outputs"]["Message:Echo"]["content"] == "a!"


async def test_a_notebook_can_block_although_its_loop_runs() -> None:
    assert application(ECHO).invoke({"query": "a"})["messages"][-1]["content"] == "a!"
