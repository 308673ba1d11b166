from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from ragflow_lg.errors import ServiceError
from ragflow_lg.services import HttpResponse
from ragflow_lg.spec import ComponentParams, ToolResult
from ragflow_lg.tool import json_of, tool
from tests.fakes.run import run_component


class Params(ComponentParams):
    times: int = 1


class Arguments(BaseModel):
    query: str
    numbers: list[int] = Field(default_factory=list[int])


@tool("Echo", function="echo", params=Params, arguments=Arguments, description="Say it again.")
async def echo(ctx: Any, params: Params, arguments: Arguments) -> ToolResult:
    text = arguments.query * params.times
    return ToolResult(text, {"formalized_content": text, "json": arguments.numbers})


async def test_as_a_node_its_arguments_are_parameters_with_their_types() -> None:
    params = {"times": 2, "query": "{a@x}!", "numbers": "{a@n}"}
    result = await run_component(echo, params, outputs={"a": {"x": "hi", "n": [1, 2]}})
    assert (result.outputs["formalized_content"], result.outputs["json"]) == ("hi!hi!", [1, 2])


async def test_by_default_the_query_of_the_turn_is_taken() -> None:
    assert (await run_component(echo, {}, globals={"sys.query": "q"})).outputs["formalized_content"] == "q"


async def test_arguments_that_do_not_fit_are_an_error_of_the_node() -> None:
    result = await run_component(echo, {"query": "x", "numbers": "many"})
    assert "numbers:" in str(result.error)


@pytest.mark.parametrize(("status", "text"), [(500, "{}"), (200, "[]"), (200, "no json"), (404, "gone")])
def test_an_answer_that_is_no_object_is_a_service_error(status: int, text: str) -> None:
    with pytest.raises(ServiceError, match=f"Echo answered {status}") as caught:
        json_of(HttpResponse(status, {}, text, ""), "Echo")
    assert caught.value.is_retryable is (status >= 500)


def test_a_once_only_tool_is_not_retried_by_its_node() -> None:
    made = tool("Pay", function="pay", params=Params, arguments=Arguments, description="Pay.", runs_once=True)(
        echo_call
    )
    assert (made.runs_once, made.retries, echo.retries) == (True, False, True)


async def echo_call(ctx: Any, params: Params, arguments: Arguments) -> ToolResult:
    return ToolResult(arguments.query)
