from __future__ import annotations

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from tests.fakes.agents import TAVILY, WIKI, calling, play_agent
from tests.fakes.services import Reply

LOOK = calling(("wikipedia_search_0", {"query": "Laos"}))
SCHEMA = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


async def test_calls_and_answer_are_shown_as_they_come() -> None:
    played = await play_agent([calling(("wikipedia_search_0", {"query": "Laos"}), text="Well. "), Reply("Vientiane.")])
    assert played.run.answer == "Well. Vientiane."
    assert played.outputs["content"] == "Well. <think>Running the wikipedia_search_0 tool...</think>Vientiane."
    assert played.told[0].endswith("Vientiane is the capital.")
    assert played.run.usage.calls == 2


async def test_what_nobody_sees_is_the_answer_alone() -> None:
    played = await play_agent([LOOK, Reply("<think>hm</think>Vientiane.")], is_shown=False)
    assert played.outputs["content"] == "Vientiane."


async def test_without_tools_it_is_a_model_call() -> None:
    played = await play_agent([Reply("hi")], {"tools": []})
    assert (played.run.answer, played.model.requests[0][1].tools) == ("hi", ())


async def test_a_model_that_cannot_call_is_offered_nothing() -> None:
    played = await play_agent([Reply("hi")], {"llm_id": "notools@Test"})
    assert played.model.requests[0][1].tools == ()


async def test_an_agent_can_be_a_tool() -> None:
    finder: dict[str, Any] = {
        "component_name": "Agent",
        "name": "Fact Finder",
        "params": {"llm_id": "m@Test", "sys_prompt": "You find.", "tools": [WIKI], "description": "Finds facts."},
    }
    task = {"user_prompt": "Find it", "reasoning": "why", "context": "Laos"}
    replies = [calling(("Fact_Finder_0", task)), LOOK, Reply("Found."), Reply("It is found.")]
    played = await play_agent(replies, {"sys_prompt": "Boss.", "tools": [finder]})
    assert (played.run.answer, played.run.usage.calls) == ("It is found.", 4)
    inner = played.model.requests[1][1]
    assert inner.messages[0]["content"] == "\nREASONING:\nwhy\n\nCONTEXT:\nLaos\n\nQUERY:\nFind it\n"
    assert played.model.requests[0][1].tools[0].description == "Finds facts."
    assert played.state["turn"]["references"]["chunks"]


async def test_a_structured_answer_is_checked_and_asked_for_again() -> None:
    params = {"outputs": SCHEMA, "max_retries": 1, "delay_after_error": 0}
    played = await play_agent([LOOK, Reply("no"), LOOK, Reply('{"city": "Vientiane"}')], params, is_shown=False)
    assert played.outputs["structured"] == {"city": "Vientiane"}


async def test_what_tools_found_can_be_cited() -> None:
    played = await play_agent([LOOK, Reply("Vientiane.")], {"tools": [WIKI, TAVILY]})
    references = played.state["turn"]["references"]
    assert [chunk["document_name"] for chunk in references["chunks"].values()] == ["Laos"]


async def test_a_longer_conversation_is_condensed_into_one_question() -> None:
    saver = InMemorySaver()
    played = await play_agent([Reply("A country.")], saver=saver, query="Tell me about Laos")
    played.model.replies += [Reply("Vientiane."), Reply("How big is Vientiane?"), Reply("Big.")]
    for query in ("And its capital?", "How big is it?"):
        async for _ in played.runner.start("s", {"query": query}):
            pass
    asked = played.model.requests[-1][1]
    assert asked.messages[-1]["content"] == "How big is Vientiane?"
    assert played.model.requests[-2][1].tools == ()


async def test_a_failure_closes_the_thought_that_was_open() -> None:
    params = {"exception_method": "comment", "exception_default_value": "Later."}
    played = await play_agent([LOOK, Reply(error="down")], params)
    assert played.run.answer == "Later."
    assert played.run.status == "succeeded"
