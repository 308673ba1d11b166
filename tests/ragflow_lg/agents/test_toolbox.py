import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel

from ragflow_lg.agents.agent_run import MAX_CALLS
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.spec import ComponentParams, ToolResult
from ragflow_lg.component.tool import tool
from ragflow_lg.services.http import HttpResponse
from tests.fakes.agents import TAVILY, WIKI, play_agent, tool_calls
from tests.fakes.services import Reply
from tests.harness.rows import each_row

LOOK = tool_calls(("wikipedia_search_0", {"query": "x"}))
EXTRACT = {"component_name": "TavilyExtract", "name": "Read", "params": {"api_key": "k"}}


async def call_result(name: str, arguments: Any, tools: Any = (WIKI,), **more: Any) -> str:
    turn = await play_agent([tool_calls((name, arguments)), Reply("ok")], {"tools": list(tools)}, **more)
    assert turn.run.status == "succeeded"
    return turn.tool_results[0]


@each_row(
    ("name", "arguments", "says"),
    [
        ("wikipedia_search", {"query": "x"}, "LLM tool wikipedia_search does not exist"),
        ("wikipedia_search_0", "no json at all", "must be a JSON object, got str"),
        ("wikipedia_search_0", "[1]", "must be a JSON object, got list"),
        ("wikipedia_search_0", {"query": {"a": 1}}, "Invalid arguments: query:"),
        ("wikipedia_search_0", '{"query": "Laos", "more": 1,}', "Vientiane is the capital."),
        ("wikipedia_search_0", '{"query": null}', "query: This argument is required and must not be blank."),
        ("tavily_extract_1", {"urls": []}, "urls: This argument is required and must not be blank."),
    ],
)
async def test_every_requested_call_has_a_result(name: str, arguments: Any, says: str) -> None:
    assert says in await call_result(name, arguments, (WIKI, EXTRACT))


async def test_long_names_are_truncated() -> None:
    turn = await play_agent([tool_calls(("x" * 10_000, {})), Reply("ok")])
    assert len(turn.tool_results[0]) < 100
    assert len(turn.outputs["use_tools"][0]["name"]) == 64
    assert len(turn.model.requests[-1][1].messages[1]["tool_calls"][0]["name"]) == 64
    assert len(turn.outputs["content"]) < 200


async def test_names_are_numbered_and_valid_for_every_provider() -> None:
    agents = [{"component_name": "Agent", "name": "客服 ✓" * 30, "params": {"llm_id": "m@T"}}, WIKI, WIKI]
    turn = await play_agent([Reply("hi")], {"tools": agents})
    names = [tool.name for tool in turn.model.requests[0][1].tools]
    assert names[1:] == ["wikipedia_search_1", "wikipedia_search_2"]
    assert len(names[0]) == 64
    assert names[0].endswith("_0")
    assert names[0].isascii()


async def test_an_error_is_retried_and_then_reported_with_the_name_of_the_service() -> None:
    tool = {**WIKI, "params": {"max_retries": 2, "delay_after_error": 0}}
    answers = {"http://wiki.test": ServiceError("down")}
    turn = await play_agent([LOOK, Reply("ok")], {"tools": [tool]}, answers=answers)
    assert turn.tool_results == ["Wikipedia error: down"]
    assert len(turn.http.requests) == 3


async def test_a_retry_waits_as_long_as_a_busy_service_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(delay: float) -> None:
        pauses.append(delay)
        await sleep(0)

    monkeypatch.setattr("ragflow_lg.agents.toolbox.asyncio.sleep", note)
    tool = {**WIKI, "params": {"max_retries": 1, "delay_after_error": 0}}
    answers = {"http://wiki.test": ServiceError("busy", retry_after_s=7.0)}
    await play_agent([LOOK, Reply("ok")], {"tools": [tool]}, answers=answers)
    assert 7.0 in pauses


async def test_a_missing_setting_is_not_retried() -> None:
    tool = {**TAVILY, "params": {"max_retries": 2, "delay_after_error": 60}}
    assert "Tavily error: TavilySearch has no API key" in await call_result("tavily_search_0", {"query": "x"}, (tool,))


async def test_a_result_that_cannot_be_stored_is_an_error_result() -> None:
    pages = [{"url": "http://e", "raw_content": "x" * (8 * 1024 * 1024 + 1)}]
    body = HttpResponse(200, {}, json.dumps({"results": pages}), "")
    answers = {"http://t/extract": body}
    result = await call_result("tavily_extract_0", {"urls": ["http://e"]}, (EXTRACT,), answers=answers)
    assert "more than 8,388,608 bytes" in result


class Foreign(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise ValueError


class Arguments(BaseModel):
    query: str = ""


SLOW = "Odd returned no result within 0.05 s."


@each_row(
    ("error", "says"),
    [
        (RuntimeError("secret detail"), "Odd failed: RuntimeError."),
        (Foreign(), "Odd failed: Foreign."),
        (asyncio.CancelledError(), "Odd failed: CancelledError."),
        (None, SLOW),
    ],
)
async def test_unexpected_exceptions_of_a_tool_and_a_timeout_are_results(
    error: BaseException | None, says: str
) -> None:
    @tool("Odd", function="odd", params=ComponentParams, arguments=Arguments, description="Fails.", timeout_s=0.05)
    async def odd(ctx: Any, params: ComponentParams, arguments: Arguments) -> ToolResult:
        if error is not None:
            raise error
        await asyncio.Event().wait()
        raise AssertionError

    catalog = load_catalog()
    catalog.add(odd)
    entry: dict[str, Any] = {"component_name": "Odd", "name": "Odd", "params": {}}
    assert await call_result("odd_0", {"query": "x"}, (entry,), catalog=catalog) == says


async def test_the_number_of_calls_per_round_is_limited() -> None:
    calls = tool_calls(*(("wikipedia_search_0", {"query": str(number)}) for number in range(200)))
    turn = await play_agent([calls, Reply("ok")])
    assert turn.run.status == "succeeded"
    assert len(turn.http.requests) == MAX_CALLS
    assert len(turn.tool_results) == 200
    assert turn.tool_results[-1] == f"This call was not made: at most {MAX_CALLS} calls are allowed per round."
