from __future__ import annotations

from typing import Any

from ragflow_lg.base.errors import ServiceError
from tests.fakes.agents import TAVILY, WIKI, play_agent, tool_calls
from tests.fakes.services import Reply

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))


async def test_results_come_back_in_the_order_of_the_calls() -> None:
    calls = tool_calls(("tavily_search_1", {"query": "b"}), ("wikipedia_search_0", {"query": "a"}))
    answers = {"http://t/search": ServiceError("Tavily is down")}
    turn = await play_agent([calls, Reply("ok")], {"tools": [WIKI, TAVILY]}, answers=answers)
    assert turn.tool_results[0] == "Tavily error: Tavily is down"
    assert turn.tool_results[1].endswith("Vientiane is the capital.")
    assistant: Any = turn.model.requests[-1][1].messages[1]
    assert [call["name"] for call in assistant["tool_calls"]] == ["tavily_search_1", "wikipedia_search_0"]


async def test_after_the_last_round_the_model_must_answer() -> None:
    turn = await play_agent([LOOK, LOOK, LOOK, Reply("enough")], {"max_rounds": 1})
    last = turn.model.requests[-1][1]
    assert len(turn.model.requests) == 3
    assert (last.tools, last.messages[-1]["content"]) == ((), "Exceed max rounds: 1")


async def test_an_empty_streamed_answer_is_requested_again() -> None:
    turn = await play_agent([Reply(""), Reply("there")])
    assert (turn.run.answer, len(turn.model.requests)) == ("there", 2)


async def test_reasoning_and_calls_are_one_thought() -> None:
    first = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
    first.reasoning = "I need to look."
    turn = await play_agent([first, Reply("Vientiane.", reasoning="Now I know it.")])
    thought = "I need to look.Running the wikipedia_search_0 tool...Now I know it."
    assert turn.outputs["content"] == f"<think>{thought}</think>Vientiane."
