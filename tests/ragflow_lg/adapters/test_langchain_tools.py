import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.documents import Document
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException, create_retriever_tool, tool
from pydantic import BaseModel, Field

from ragflow_lg.adapters.langchain_tools import is_langchain_tool, spec_of_tool
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.registry import Registry
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.policies import entry
from tests.fakes.retrievers import retriever
from tests.fakes.run import run_component
from tests.fakes.services import Reply
from tests.harness.rows import each_row


class Numbers(BaseModel):
    """Two numbers."""

    first: int = Field(description="The first one.")
    second: int = Field(1, ge=0)


@tool("add", args_schema=Numbers)
def add(first: int, second: int = 1) -> int:
    """Add two
    numbers."""
    return first + second


@tool
async def greet(name: str, user: Annotated[str, InjectedToolArg] = "nobody") -> list[dict[str, str]]:
    """Greet somebody."""
    await asyncio.sleep(0)
    return [{"type": "text", "text": f"Hello {name},"}, {"type": "text", "text": f"says {user}."}]


@tool
def fail(text: str) -> str:
    """Fail."""
    raise ToolException(f"no\n{text}")


async def _echo(**arguments: Any) -> dict[str, Any]:
    return arguments


FREE = StructuredTool(
    name="free",
    description="Anything",
    args_schema={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    coroutine=_echo,
)


def catalog_of(*tools: BaseTool) -> Registry:
    catalog = load_catalog()
    for each in tools:
        catalog.add(spec_of_tool(each.name, each))
    return catalog


async def ask(used: BaseTool, arguments: Any, **params: Any) -> Any:
    return await play_agent(
        [tool_calls((f"{used.name}_0", arguments)), Reply("ok"), Reply("ok")],
        {"tools": [entry(used.name)], **params},
        catalog=catalog_of(used),
    )


async def test_a_model_sees_name_description_and_schema() -> None:
    catalog = catalog_of(add, greet, FREE)
    entries = [entry("add"), entry("greet"), entry("free")]
    played = await play_agent([Reply("hi")], {"tools": entries}, catalog=catalog)
    first, second, third = played.model.requests[0][1].tools
    assert (first.name, first.description) == ("add_0", "Add two numbers.")
    assert first.parameters["properties"]["first"]["description"] == "The first one."
    assert list(second.parameters["properties"]) == ["name"]  # what LangChain injects is not the model's
    assert third.parameters == {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


@each_row(
    ("used", "arguments", "result"),
    [
        (add, {"first": 2}, "3"),
        (add, {"first": "two"}, "first: Input should be a valid integer"),
        (greet, {"name": "Ann"}, "Hello Ann,\nsays nobody."),
        (FREE, {"q": "x"}, '{"q": "x"}'),
        (fail, {"text": "way"}, "fail failed: ToolException: no way"),
    ],
)
async def test_a_model_calls_it(used: BaseTool, arguments: Any, result: str) -> None:
    played = await ask(used, arguments)
    assert played.run.status == "succeeded", played.run.error
    assert result in played.tool_results[0]


async def test_its_documents_are_sources() -> None:
    search = create_retriever_tool(retriever, "search", "Search the wiki.", response_format="content_and_artifact")
    played = await ask(search, {"query": "rice"}, cite=True)
    assert "├── Title: Rice" in str(played.model.requests[1][1].messages)
    references = played.state["turn"]["references"]["chunks"]
    assert {chunk["document_name"] for chunk in references.values()} == {"Rice", "Tea"}
    assert {chunk["url"] for chunk in references.values()} == {"https://a.example/rice", ""}


async def test_it_is_a_node_with_arguments() -> None:
    spec = spec_of_tool("add", add)
    done = await run_component(spec, {"arguments": {"first": 4, "second": "{sys.query}"}}, globals={"sys.query": "5"})
    assert done.outputs["result"] in (9, "9")


def test_metadata_sets_what_langchain_cannot_say_and_is_checked() -> None:
    spec = spec_of_tool("free", FREE.model_copy(update={"metadata": {"timeout_s": 3, "runs_once": True}}))
    assert (spec.timeout_s, spec.effects, spec.retries) == (3.0, "writes", False)
    for metadata in ({"timeout_s": -1}, {"timeout_s": "long"}, {"runs_once": "yes"}):
        with pytest.raises(SettingsError, match="metadata of the tool 'free'"):
            spec_of_tool("free", FREE.model_copy(update={"metadata": metadata}))
    assert [is_langchain_tool(value) for value in (add, Document("text"), None)] == [True, False, False]
