from __future__ import annotations

from tests.fakes.agents import TAVILY, WIKI, play_agent, tool_calls
from tests.fakes.services import Reply

CHILD = {"component_name": "Agent", "name": "The Helper", "params": {"llm_id": "m@T", "description": "Helps."}}


async def test_each_tool_is_shown_by_its_own_name_or_the_canvas_one() -> None:
    played = await play_agent([Reply("hi")], {"tools": [WIKI, TAVILY, CHILD]})
    shown = played.model.requests[0][1].tools
    assert [tool.name for tool in shown] == ["wikipedia_search_0", "tavily_search_1", "The_Helper_2"]
    assert shown[2].description == "Helps."
    assert shown[2].parameters["required"] == ["user_prompt"]


async def test_what_a_tool_of_a_tool_found_may_be_cited() -> None:
    child = {**CHILD, "params": {**CHILD["params"], "tools": [WIKI]}}
    replies = [
        tool_calls(("The_Helper_0", {"user_prompt": "look"})),
        tool_calls(("wikipedia_search_0", {"query": "Laos"})),
        Reply("found"),
        Reply("done"),
    ]
    played = await play_agent(replies, {"tools": [child]}, is_shown=False)
    assert played.outputs["content"] == "done"
    chunks = played.state["turn"]["references"]["chunks"].values()
    assert [chunk["content"] for chunk in chunks] == ["Vientiane is the capital."]
