from typing import Any

import pytest
from pydantic import BaseModel, Field

from ragflow_lg.component.spec import ComponentParams, ToolResult
from ragflow_lg.component.tool import QueryText, tool
from tests.fakes.run import run_component
from tests.harness.rows import each_row


class Params(ComponentParams):
    times: int = 1
    tone: str = "plain"


class Arguments(BaseModel):
    query: QueryText = ""
    numbers: list[int] = Field(default_factory=list[int])
    tone: str = "none"


@tool("Echo", function="echo", params=Params, arguments=Arguments, description="Say it again.")
async def echo(ctx: Any, params: Params, arguments: Arguments) -> ToolResult:
    text = arguments.query * params.times
    return ToolResult(text, {"formalized_content": text, "json": list(arguments.numbers), "tone": arguments.tone})


async def test_as_a_node_its_arguments_are_parameters_with_their_types() -> None:
    params = {"times": 2, "query": "{a@x}!", "numbers": "{a@n}"}
    result = await run_component(echo, params, outputs={"a": {"x": "hi", "n": [1, 2]}})
    assert (result.outputs["formalized_content"], result.outputs["json"]) == ("hi!hi!", [1, 2])
    assert result.outputs["tone"] == "plain"


@each_row(
    ("params", "expected"),
    [
        ({}, "q"),
        ({"query": "sys.query"}, "q"),
        *(({"query": text}, said) for text, said in (("a@x", "hi"), ("b@x", "b@x"), ("{a@year}", "2019"))),
        *(({"query": text}, text) for text in ("ada@b.test", "a@x now")),
    ],
)
async def test_a_bare_reference_counts_if_the_canvas_has_the_component(params: dict[str, Any], expected: str) -> None:
    outputs = {"a": {"x": "hi", "year": 2019}}
    result = await run_component(echo, params, outputs=outputs, globals={"sys.query": "q"})
    assert result.outputs["formalized_content"] == expected


@pytest.mark.parametrize("query", ["", "  \n", None, "{a@none}"])
async def test_a_tool_is_not_called_without_a_query(query: Any) -> None:
    result = await run_component(echo, {"query": query, "times": 3}, outputs={"a": {"none": None}})
    assert (result.error, result.outputs["formalized_content"]) == (None, "")
    assert "tone" not in result.outputs


def test_a_once_only_tool_is_not_retried_by_its_node() -> None:
    pay = tool("Pay", function="pay", params=Params, arguments=Arguments, description="Pay.", runs_once=True)(echo_call)
    assert (pay.effects, pay.retries, echo.retries) == ("writes", False, True)


async def echo_call(ctx: Any, params: Params, arguments: Arguments) -> ToolResult:
    return ToolResult(arguments.query)
