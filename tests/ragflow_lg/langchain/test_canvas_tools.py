from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import InputRefusedError, RunError
from ragflow_lg.langchain import CanvasRunnable, canvas_tool
from tests.fakes.canvas import canvas, node
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.regions import out
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

CITY = {"name": "Where to?", "type": "line", "optional": False}
BEGIN = node("Begin", {"mode": "task", "inputs": {"city": CITY}}, ["out"])
TRIP = canvas({"begin": BEGIN, **out("To {begin@city}")})
ECHO = canvas(out("{sys.query}!"))
FORM = canvas({"ask": node("UserFillUp", {"inputs": {"a": CITY}}, ["out"]), **out("x")})
FAILS = canvas({"search": node("Retrieval", {"query": "{sys.query}", "dataset_ids": ["none"]}, ["out"]), **out("x")})
SEARCH = node("Retrieval", {"dataset_ids": ["ds1"], "query": "{sys.query}"}, ["ask"])
ASK = node("LLM", {"llm_id": "m", "prompts": "{search@formalized_content}", "cite": True}, ["out"])
CITES = canvas({"search": SEARCH, "ask": ASK, **out("{ask@content}")})


def services_of(*replies: Reply) -> Any:
    return fake_services(models=OneModel(ScriptedModel(list(replies))), knowledge=FakeKnowledge())


async def test_a_tool_has_the_form_of_begin() -> None:
    trip = canvas_tool(TRIP, name="trip", description="Plan a trip.", services=services_of())
    assert (trip.name, trip.description) == ("trip", "Plan a trip.")
    assert list(trip.args) == ["city"]
    assert await trip.ainvoke({"city": "Rome"}) == "To Rome"
    assert trip.invoke({"city": "Oslo"}) == "To Oslo"
    with pytest.raises(ToolException, match="Invalid arguments"):
        await trip.ainvoke({})


async def test_the_artifact_contains_the_sources() -> None:
    rice = canvas_tool(CITES, name="rice", services=services_of(Reply("Water. [ID:61]", repeat=True)))
    message = await rice.ainvoke({"type": "tool_call", "id": "1", "name": "rice", "args": {"query": "What of rice?"}})
    assert isinstance(message, ToolMessage)
    documents: list[Document] = message.artifact
    assert {document.metadata["source"] for document in documents} == {"guide.pdf", "tea.md"}


@each_row(("document", "problem"), [(FORM, "waits for the answer to a form"), (FAILS, "does not exist|No dataset")])
async def test_what_cannot_answer_is_an_error(document: Any, problem: str) -> None:
    with pytest.raises(ToolException, match=problem):
        await canvas_tool(document, services=services_of()).ainvoke({"query": "x"})
    runnable = CanvasRunnable(document, services=services_of(), checkpointer=InMemorySaver())
    with pytest.raises(RunError, match=problem):
        await runnable.ainvoke("x", {"configurable": {"thread_id": "1"}})


def test_the_name_of_a_tool_comes_from_its_file() -> None:
    assert canvas_tool("examples/price_list.json", model="demo").name == "price_list"
    assert canvas_tool(ECHO, services=services_of()).name == "canvas"


@each_row(
    "question",
    ["hi", [HumanMessage("hi")], HumanMessage("hi"), [SystemMessage("s"), HumanMessage("hi")], {"query": "hi"}],
)
async def test_a_runnable_answers_like_a_chat_model(question: Any) -> None:
    echo = CanvasRunnable(ECHO, services=services_of())
    answer = await echo.ainvoke(question)
    assert isinstance(answer, AIMessage)
    assert answer.text == echo.invoke(question).text == "hi!"


async def test_it_streams_in_a_chain() -> None:
    model = canvas({"m": node("LLM", {"llm_id": "m", "prompts": "{sys.query}"}, ["out"]), **out("{m@content}")})
    echo = CanvasRunnable(model, services=services_of(Reply(chunks=["a", "b", "c"], repeat=True)))
    chain = ChatPromptTemplate.from_messages([("human", "About {topic}")]) | echo | StrOutputParser()
    assert [piece async for piece in chain.astream({"topic": "rice"})] == ["a", "b", "c"]
    assert "".join(chain.stream({"topic": "rice"})) == "abc"
    assert await chain.abatch([{"topic": "x"}, {"topic": "y"}]) == ["abc", "abc"]


async def test_other_input_is_refused() -> None:
    with pytest.raises(InputRefusedError, match="not int"):
        await CanvasRunnable(ECHO, services=services_of()).ainvoke(3)  # pyright: ignore[reportArgumentType]
