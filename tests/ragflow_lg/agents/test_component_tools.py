from typing import Any

import pytest

from tests.fakes.agents import TAVILY, WIKI, play_agent, tool_calls
from tests.fakes.services import Reply

CHILD: dict[str, Any] = {
    "component_name": "Agent",
    "name": "The Helper",
    "params": {"llm_id": "m@T", "description": "Helps."},
}


async def test_tools_have_their_function_name_or_their_name_in_the_canvas() -> None:
    turn = await play_agent([Reply("hi")], {"tools": [WIKI, TAVILY, CHILD]})
    schemas = turn.model.requests[0][1].tools
    assert [tool.name for tool in schemas] == ["wikipedia_search_0", "tavily_search_1", "The_Helper_2"]
    assert schemas[2].description == "Helps."
    assert schemas[2].parameters["required"] == ["user_prompt"]


async def test_chunks_of_a_nested_tool_can_be_cited() -> None:
    child = {**CHILD, "params": {**CHILD["params"], "tools": [WIKI]}}
    replies = [
        tool_calls(("The_Helper_0", {"user_prompt": "look"})),
        tool_calls(("wikipedia_search_0", {"query": "Laos"})),
        Reply("found"),
        Reply("done"),
    ]
    turn = await play_agent(replies, {"tools": [child]}, is_shown=False)
    assert turn.outputs["content"] == "done"
    chunks = turn.state["turn"]["references"]["chunks"].values()
    assert [chunk["content"] for chunk in chunks] == ["Vientiane is the capital."]


@pytest.mark.parametrize("arguments", ["", "{}", '{"query": ""}', '{"query": null}'])
async def test_a_model_is_told_which_argument_is_missing(arguments: str) -> None:
    turn = await play_agent([tool_calls(("wikipedia_search_0", arguments)), Reply("ok")], is_shown=False)
    assert turn.tool_results == ["Invalid arguments: query: This argument is required and must not be blank."]
    assert turn.http.requests == []


async def test_a_model_is_told_that_the_list_of_urls_is_empty() -> None:
    extract = {"component_name": "TavilyExtract", "name": "Read", "params": {"api_key": "k", "max_retries": 3}}
    replies = [tool_calls(("tavily_extract_0", {"urls": []})), Reply("ok")]
    turn = await play_agent(replies, {"tools": [extract]}, is_shown=False)
    assert turn.tool_results == ["Invalid arguments: urls: This argument is required and must not be blank."]
